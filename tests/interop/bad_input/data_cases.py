"""Bad requests of the data path: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from uuid import UUID

from interop.bad_input.case import BAD_NAMES, MISSING, MISSING_ID, WIDE_RECORD_BYTES, Case, of
from interop.clients.valid_requests import (
    METADATA_TOPIC,
    World,
    batch,
    fetch_from,
    produce,
    produce_to,
)
from interop.clients.wire import framed

from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest
from penstock.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from penstock.protocol.messages.produce_request import PartitionProduceData
from penstock.records.batch import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    LENGTH_POSITION,
    MAGIC_POSITION,
    RECORD_COUNT_POSITION,
    computed_crc,
)
from penstock.records.compression import Codec


def with_fields(data: bytes, *changes: tuple[int, bytes], crc: bool = True) -> bytes:
    """A batch with bytes replaced at positions, and the CRC made right again unless told not to."""
    changed = bytearray(data)
    for position, value in changes:
        changed[position : position + len(value)] = value
    if crc:
        struct.pack_into(">I", changed, CRC_POSITION, computed_crc(changed, 0, len(changed)))
    return bytes(changed)


LAST_DELTA_POSITION = 23


def bad_batches() -> Iterator[tuple[str, bytes]]:
    good = batch(b"one", b"two")
    attributes = ATTRIBUTES_POSITION
    yield "wrong CRC", with_fields(good, (CRC_POSITION, b"\1\2\3\4"), crc=False)
    yield "flipped bit in a record", with_fields(good, (len(good) - 2, b"\x7f"), crc=False)
    yield "count too high", with_fields(good, (RECORD_COUNT_POSITION, struct.pack(">i", 3)))
    yield "count too low", with_fields(good, (RECORD_COUNT_POSITION, struct.pack(">i", 1)))
    yield "count zero", with_fields(good, (RECORD_COUNT_POSITION, struct.pack(">i", 0)))
    yield "count negative", with_fields(good, (RECORD_COUNT_POSITION, struct.pack(">i", -1)))
    yield "last offset delta too high", with_fields(good, (LAST_DELTA_POSITION, struct.pack(">i", 7)))
    yield "last offset delta negative", with_fields(good, (LAST_DELTA_POSITION, struct.pack(">i", -1)))
    yield "magic 1", with_fields(good, (MAGIC_POSITION, b"\1"))
    yield "magic 0", with_fields(good, (MAGIC_POSITION, b"\0"))
    yield "magic 3", with_fields(good, (MAGIC_POSITION, b"\3"))
    yield "length too high", with_fields(good, (LENGTH_POSITION, struct.pack(">i", len(good))))
    yield "length too low", with_fields(good, (LENGTH_POSITION, struct.pack(">i", 20)))
    yield "length negative", with_fields(good, (LENGTH_POSITION, struct.pack(">i", -5)))
    yield "length huge", with_fields(good, (LENGTH_POSITION, struct.pack(">i", 0x7FFFFFFF)))
    yield "cut in the header", good[:40]
    yield "cut before the magic", good[:10]
    yield "cut in the records", good[:-3]
    yield "empty", b""
    yield "zeros", bytes(100)
    yield "two batches", good + good
    yield "a byte after the batch", good + b"\0"
    yield "base offset not zero", with_fields(good, (0, struct.pack(">q", 5)))
    yield "control batch", batch(b"one", is_control=True)
    yield "unknown codec", with_fields(good, (attributes, b"\0\7"))
    yield "transactional without a producer", with_fields(good, (attributes, b"\0\x10"))
    yield "timestamp type log append time", with_fields(good, (attributes, b"\0\x08"))
    yield "unused attribute bits", with_fields(good, (attributes, b"\x40\0"))
    yield "not what the codec says", with_fields(good, (attributes, bytes([0, Codec.GZIP])))
    yield "too large", batch(bytes(WIDE_RECORD_BYTES))
    yield "producer epoch negative", batch(b"one", producer_id=5, producer_epoch=-1, base_sequence=0)
    yield "sequence negative", batch(b"one", producer_id=5, producer_epoch=0, base_sequence=-1)
    yield "sequence of an unknown producer", batch(b"one", producer_id=1 << 40, producer_epoch=0, base_sequence=7)


def produce_cases() -> Iterator[Case]:
    every, by_name, by_id = of(ApiKey.PRODUCE), of(ApiKey.PRODUCE, range(3, 13)), of(ApiKey.PRODUCE, range(13, 14))
    few = of(ApiKey.PRODUCE, (3, 7, 8, 9, 12, 13))
    for name, data in bad_batches():
        yield few(name, lambda world, version, data=data: produce(world, version, data))  # type: ignore[misc]
    yield of(ApiKey.PRODUCE, (13,))("null records", null_records)
    yield every("acks 2", lambda world, version: produce(world, version, acks=2))
    yield every("acks -2", lambda world, version: produce(world, version, acks=-2))
    yield every("unknown partition", lambda world, version: to_partition(world, version, 99))
    yield every("negative partition", lambda world, version: to_partition(world, version, -1))
    yield every("same partition twice", twice)
    yield of(ApiKey.PRODUCE, range(3, 13))("unknown topic", lambda world, version: to_topic(MISSING, version))
    for name, topic in BAD_NAMES.items():
        yield by_name(f"topic name is {name}", lambda world, version, topic=topic: to_topic(topic, version))  # type: ignore[misc]
    yield by_name("metadata topic", lambda world, version: to_topic(METADATA_TOPIC, version))
    yield by_id("unknown topic id", lambda world, version: to_topic("", version, MISSING_ID))
    yield by_id("zero topic id", lambda world, version: to_topic("", version))
    yield every("no topics", framed_without_topics)
    yield of(ApiKey.PRODUCE, range(3))("a version only advertised", old_produce)


def null_records(world: World, version: int) -> Message:
    return produce_to(world.topic, world.topic_id, version, PartitionProduceData(index=0, records=None))


def to_partition(world: World, version: int, partition: int) -> Message:
    return produce_to(world.topic, world.topic_id, version, PartitionProduceData(index=partition, records=batch()))


def to_topic(name: str, version: int, topic_id: UUID = UUID(int=0)) -> Message:  # noqa: B008 - immutable
    return produce_to(name, topic_id, version, PartitionProduceData(index=0, records=batch()))


def twice(world: World, version: int) -> Message:
    partitions = [PartitionProduceData(index=0, records=batch()) for _ in range(2)]
    return produce_to(world.topic, world.topic_id, version, *partitions)


def framed_without_topics(world: World, version: int) -> Message:
    message = produce(world, version)
    message.topic_data = []
    return message


def old_produce(world: World, version: int) -> bytes:
    return framed(struct.pack(">hhih", ApiKey.PRODUCE, version, 1, -1) + struct.pack(">hii", 1, 1000, 0))


# Fetch, ListOffsets, OffsetForLeaderEpoch


def fetch_cases() -> Iterator[Case]:
    every = of(ApiKey.FETCH)
    for name, offset in {"offset beyond the end": 10**6, "negative offset": -5, "largest offset": 2**63 - 1}.items():
        yield every(name, lambda world, version, at=offset: fetching(world, version, fetch_offset=at))  # type: ignore[misc]
    yield every("unknown partition", lambda world, version: fetching(world, version, partition=99))
    yield every("negative partition", lambda world, version: fetching(world, version, partition=-1))
    yield every("negative partition size", lambda world, version: fetching(world, version, partition_max_bytes=-1))
    yield of(ApiKey.FETCH, range(9, 19))(
        "leader epoch too new", lambda world, version: fetching(world, version, current_leader_epoch=99)
    )
    yield of(ApiKey.FETCH, range(4, 13))(
        "unknown topic", lambda world, version: fetch_from(MISSING, MISSING_ID, version, whole())
    )
    yield of(ApiKey.FETCH, range(4, 13))(
        "topic name is empty", lambda world, version: fetch_from("", MISSING_ID, version, whole())
    )
    yield of(ApiKey.FETCH, range(13, 19))(
        "unknown topic id", lambda world, version: fetch_from("", MISSING_ID, version, whole())
    )
    yield of(ApiKey.FETCH, range(13, 19))(
        "zero topic id", lambda world, version: fetch_from("", UUID(int=0), version, whole())
    )
    yield every("negative sizes", lambda world, version: fetch_of(world, version, max_bytes=-1, min_bytes=-1))
    yield every("isolation level 7", lambda world, version: fetch_of(world, version, isolation_level=7))
    yield every("the same partition twice", fetch_twice)
    sessions = of(ApiKey.FETCH, range(7, 19))
    for name, (session, epoch) in {
        "unknown session": (77, 1),
        "epoch without a session": (0, 5),
        "closing an unknown session": (77, -1),
        "negative epoch": (0, -7),
        "new session in place of an unknown one": (77, 0),
    }.items():
        yield sessions(
            name,
            lambda world, version, s=session, e=epoch: fetch_of(world, version, session_id=s, session_epoch=e),  # type: ignore[misc]
        )
    yield of(ApiKey.FETCH, range(4, 15))(
        "as a replica that is not one", lambda world, version: fetch_of(world, version, replica_id=1)
    )
    yield of(ApiKey.FETCH, range(4, 15))(
        "as an unknown replica", lambda world, version: fetch_of(world, version, replica_id=42)
    )


def whole(**fields: int) -> FetchPartition:
    return FetchPartition(**{"partition": 0, "partition_max_bytes": 1 << 20, **fields})  # type: ignore[arg-type]


def fetching(world: World, version: int, **fields: int) -> FetchRequest:
    return fetch_from(world.topic, world.topic_id, version, whole(**fields))


def fetch_of(world: World, version: int, **fields: int) -> FetchRequest:
    return fetch_from(world.topic, world.topic_id, version, whole(), **fields)


def fetch_twice(world: World, version: int) -> FetchRequest:
    return fetch_from(world.topic, world.topic_id, version, whole(), whole())


def list_offsets_cases() -> Iterator[Case]:
    every, later = of(ApiKey.LIST_OFFSETS), of(ApiKey.LIST_OFFSETS, range(4, 12))
    yield every("unknown topic", lambda world, version: offsets_of(MISSING))
    for name, topic in BAD_NAMES.items():
        yield every(f"topic name is {name}", lambda world, version, topic=topic: offsets_of(topic))  # type: ignore[misc]
    yield every("unknown partition", lambda world, version: offsets_of(world.topic, partition_index=99))
    yield every("negative partition", lambda world, version: offsets_of(world.topic, partition_index=-1))
    for timestamp in (-3, -4, -5, -6, -7, -100):
        yield every(f"timestamp {timestamp}", lambda world, version, t=timestamp: offsets_of(world.topic, timestamp=t))  # type: ignore[misc]
    yield later("leader epoch too new", lambda world, version: offsets_of(world.topic, current_leader_epoch=99))
    yield every("the same partition twice", lambda world, version: offsets_of(world.topic, times=2))
    yield every("as an unknown replica", lambda world, version: offsets_of(world.topic, replica_id=42))
    epochs = of(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    for name, fields in {
        "unknown partition": {"partition": 99},
        "negative partition": {"partition": -1},
        "unknown epoch": {"leader_epoch": 99},
        "negative epoch": {"leader_epoch": -7},
        "current epoch too new": {"current_leader_epoch": 99},
    }.items():
        yield epochs(name, lambda world, version, f=fields: epoch_of(world.topic, version, **f))  # type: ignore[misc]
    yield epochs("unknown topic", lambda world, version: epoch_of(MISSING, version))


def offsets_of(topic: str, *, times: int = 1, replica_id: int = -1, **fields: int) -> ListOffsetsRequest:
    defaults = {"partition_index": 0, "timestamp": -1}
    partitions = [ListOffsetsPartition(**{**defaults, **fields}) for _ in range(times)]  # type: ignore[arg-type]
    return ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name=topic, partitions=partitions)])


def epoch_of(topic: str, version: int, **fields: int) -> OffsetForLeaderEpochRequest:
    wanted = OffsetForLeaderPartition(**{"partition": 0, "leader_epoch": 0, **fields})  # type: ignore[arg-type]
    replica = {"replica_id": -1} if version >= 3 else {}
    return OffsetForLeaderEpochRequest(**replica, topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])])
