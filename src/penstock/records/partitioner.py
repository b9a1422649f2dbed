"""The partition of a record with a key, as Kafka's Java producer chooses it: murmur2 of the key.

Whoever writes with this and whoever writes with Kafka's default partitioner put equal keys into the same partition.
`kernels.partitions` does the same for a whole Arrow column.
Source: `Utils.murmur2` and `BuiltInPartitioner.partitionForKey` of Apache Kafka 4.3; murmur2 is Austin Appleby's.
"""

from __future__ import annotations

Buffer = bytes | bytearray | memoryview

SEED = 0x9747B28C
MULTIPLIER = 0x5BD1E995
MASK = 0xFFFFFFFF
SHIFT = 24


def murmur2(data: Buffer) -> int:
    """The 32-bit hash, as an unsigned number."""
    length = len(data)
    value = SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * MULTIPLIER & MASK
        word = (word ^ word >> SHIFT) * MULTIPLIER & MASK
        value = (value * MULTIPLIER & MASK) ^ word
    if whole != length:
        value = (value ^ int.from_bytes(data[whole:], "little")) * MULTIPLIER & MASK
    value = (value ^ value >> 13) * MULTIPLIER & MASK
    return value ^ value >> 15


def partition_for_key(key: Buffer, partitions: int) -> int:
    """The partition of a key among `partitions`. A record without a key may go anywhere: the caller chooses."""
    assert partitions > 0
    return (murmur2(key) & 0x7FFFFFFF) % partitions
