"""`.snapshot`: the producers of a log as of the offset in the file's name, byte for byte as Kafka's version 1.

    version int16 | CRC-32C uint32 of all that follows | count int32 | entries
    entry: producer id int64 | epoch int16 | last sequence int32 | last offset int64 | offset delta int32
           | timestamp int64 | coordinator epoch int32 | first offset of the open transaction int64

Only the last batch of a producer is in it, so after a restart only that one is recognised as a duplicate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.errors import StorageError
from penstock.log.names import SNAPSHOT, file_name
from penstock.log.producer_state import NO_OFFSET, Batch, Producer, ProducerState
from penstock.records.batch import NO_SEQUENCE, decrement_sequence

VERSION = 1
HEAD = Struct(">hIi")
CRC_END = 6
ENTRY = Struct(">qhiqiqiq")


class Entry(NamedTuple):
    """One producer as it is in the file. `last_sequence` and `last_offset` are -1 where it has no batch."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int


Snapshot = tuple[str, bytes] | None
"""Path and content of a producer snapshot; None where none is due."""


class Snapshots:
    """The snapshots that a log has: `offsets`, ascending."""

    __slots__ = ("name", "offsets")

    def __init__(self, name: str, offsets: Sequence[int]) -> None:
        self.name = name
        self.offsets = list(offsets)

    def take(self, state: ProducerState, log_start_offset: int) -> Snapshot:
        """A snapshot file of the producers at their present offset, if there is none for it yet."""
        offset, producers = state.end_offset, state.producers
        if self.offsets and offset <= self.offsets[-1]:
            return None
        if not producers and not self.offsets and offset == log_start_offset:
            return None
        self.offsets.append(offset)
        return f"{self.name}/{file_name(offset, SNAPSHOT)}", encode(producers)

    def forget(self, offsets: Iterable[int]) -> None:
        """Forgets snapshots that are deleted together with their segments."""
        gone = set(offsets)
        self.offsets = [offset for offset in self.offsets if offset not in gone]


def encode(producers: Mapping[int, Producer]) -> bytes:
    """The file for these producers."""
    body = bytearray(len(producers).to_bytes(4, "big"))
    for producer_id, producer in producers.items():
        last = producer.batches[-1] if producer.batches else None
        body += ENTRY.pack(
            producer_id,
            producer.epoch,
            last.last_sequence if last else NO_SEQUENCE,
            last.last_offset if last else NO_OFFSET,
            last.last_offset - last.first_offset if last else 0,
            producer.last_timestamp_ms,
            producer.coordinator_epoch,
            producer.transaction_first_offset,
        )
    return VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


def entries(data: bytes, path: str) -> list[Entry]:
    """The entries of a file. Raises StorageError that names the file and what is wrong with it."""
    if len(data) < HEAD.size:
        raise StorageError(f"{path} has {len(data)} bytes: a producer snapshot has at least {HEAD.size}")
    version, crc, count = HEAD.unpack_from(data)
    if version != VERSION:
        raise StorageError(f"{path} has version {version}, it should be {VERSION}")
    computed = crc32c(memoryview(data)[CRC_END:])
    if crc != computed:
        raise StorageError(f"{path} is corrupt: stored CRC {crc}, computed {computed}")
    if count < 0 or len(data) != HEAD.size + count * ENTRY.size:
        raise StorageError(f"{path} promises {count} producers and has {len(data) - HEAD.size} bytes of them")
    return [Entry._make(fields) for fields in ENTRY.iter_unpack(memoryview(data)[HEAD.size :])]


def decode(data: bytes, path: str) -> list[tuple[int, Producer]]:
    """Producer ids and producers of a file. Raises as `entries`."""
    return [(entry.producer_id, producer_of(entry)) for entry in entries(data, path)]


def producer_of(entry: Entry) -> Producer:
    batches: tuple[Batch, ...] = ()
    if entry.last_offset >= 0:
        batches = (
            Batch(
                decrement_sequence(entry.last_sequence, entry.offset_delta),
                entry.last_sequence,
                entry.last_offset - entry.offset_delta,
                entry.last_offset,
                entry.timestamp_ms,
            ),
        )
    return Producer(
        entry.epoch,
        batches,
        entry.transaction_first_offset if entry.transaction_first_offset >= 0 else NO_OFFSET,
        entry.coordinator_epoch,
        entry.timestamp_ms,
    )
