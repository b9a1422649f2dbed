"""Requests of the data path, good and bad, by name: what Apache Kafka and Penstock are both asked.

Each entry is a function of the topics' ids. Order matters: sequences of idempotent producers build on each other.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from uuid import UUID

from support.requests import batch, fetch, list_offsets, produce, wanted

from penstock.protocol.message import Message
from penstock.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from penstock.protocol.messages.fetch_request import ReplicaState
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from penstock.records.batch import CRC, CRC_POSITION, computed_crc
from penstock.records.compression import Codec

Ids = Mapping[str, UUID]
Entry = tuple[str, Callable[[Ids], Message], int]

DAY_MS = 86_400_000
UNKNOWN_ID = UUID(int=77)


def patched(data: bytearray, position: int, form: str, value: int, *, crc: bool = True) -> bytearray:
    """The batch with another value at a position, with a right CRC unless told otherwise."""
    data = bytearray(data)
    struct.pack_into(form, data, position, value)
    if crc:
        CRC.pack_into(data, CRC_POSITION, computed_crc(data, 0, len(data)))
    return data


def corpus(now_ms: int) -> Iterator[Entry]:
    yield from batches(now_ms)
    yield from produce_requests(now_ms)
    yield from sequences(now_ms)
    yield from fetches()
    yield from offsets(now_ms)
    yield from others()


def batches(now_ms: int) -> Iterator[Entry]:
    """Batches that are broken in one way each, to topic t."""
    good = batch(b"abc", b"de", timestamp_ms=now_ms)
    broken: dict[str, bytes | bytearray] = {
        "good": good,
        "empty": b"",
        "ten zeros": bytes(10),
        "17 zeros": bytes(17),
        "61 zeros": bytes(61),
        "100 zeros": bytes(100),
        "cut": good[:-3],
        "cut in the header": good[:40],
        "two batches": good + good,
        "trailing bytes": good + bytes(5),
        "many trailing bytes": good + bytes(80),
        "cut second batch": good + good[:-3],
        "wrong crc": patched(good, CRC_POSITION, ">I", 1, crc=False),
        "base offset 5": patched(good, 0, ">q", 5),
        "base offset -1": patched(good, 0, ">q", -1),
        "log append time": patched(good, 21, ">h", 8),
        "control batch": patched(good, 21, ">h", 0x20),
        "transactional without producer": patched(good, 21, ">h", 0x10),
        "delete horizon": patched(good, 21, ">h", 0x40),
        "unused attribute": patched(good, 21, ">h", 0x80),
        "gzip that is none": patched(good, 21, ">h", 1),
        "last delta 5": patched(good, 23, ">i", 5),
        "last delta -1": patched(good, 23, ">i", -1),
        "a record too many": patched(patched(good, 57, ">i", 3), 23, ">i", 2),
        "max timestamp -1": patched(good, 35, ">q", -1),
        "max timestamp 0": patched(good, 35, ">q", 0),
        "future": batch(b"a", timestamp_ms=now_ms + 2 * DAY_MS),
        "timestamp -1": batch(b"a", timestamp_ms=-1),
        "timestamp -5": batch(b"a", timestamp_ms=-5),
        "too large": batch(b"x" * 1_100_000, timestamp_ms=now_ms),
        "unpacks to 5 MB": batch(b"x" * 5_000_000, timestamp_ms=now_ms, codec=Codec.LZ4),
    }
    broken |= {f"magic {magic}": patched(good, 16, ">b", magic, crc=False) for magic in (0, 1, 3, -1)}
    broken |= {f"length {size}": patched(good, 8, ">i", size, crc=False) for size in (-1, 0, 48, 49, 1 << 30)}
    broken |= {f"codec {codec}": patched(good, 21, ">h", codec) for codec in (5, 6, 7)}
    broken |= {f"count {count}": patched(good, 57, ">i", count) for count in (-1, 0, 1, 3)}
    broken |= {f"packed by {codec.name}": batch(b"a", timestamp_ms=now_ms, codec=codec) for codec in Codec}
    for name, data in broken.items():
        yield f"batch: {name}", lambda _, data=data: produce("t", data), 9  # type: ignore[misc]


def produce_requests(now_ms: int) -> Iterator[Entry]:
    """Versions, acks, names, topic configs."""

    def good() -> bytearray:
        return batch(timestamp_ms=now_ms)

    for version in range(3, 13):
        yield f"produce version {version}", lambda _: produce("t", good()), version
    yield "produce by id", lambda ids: produce(ids["t"], good()), 13
    yield "produce by unknown id", lambda _: produce(UNKNOWN_ID, good()), 13
    for acks in (-2, -1, 2):
        yield f"acks {acks}", lambda _, acks=acks: produce("t", good(), acks=acks), 9  # type: ignore[misc]
    for topic in ("no-such-topic", "a b", ""):
        yield f"produce to '{topic}'", lambda _, topic=topic: produce(topic, good()), 9  # type: ignore[misc]
    for index in (9, -1):
        yield f"produce to partition {index}", lambda _, index=index: produce("t", good(), first=index), 9  # type: ignore[misc]
    yield "good and bad partition", lambda _: produce("t", good(), b""), 9
    yield "more in sync than replicas", lambda _: produce("in-sync", good(), acks=-1), 9
    yield "null key to a compacted topic", lambda _: produce("compact", batch(key=None, timestamp_ms=now_ms)), 9
    yield "zstd in version 6", lambda _: produce("t", batch(timestamp_ms=now_ms, codec=Codec.ZSTD)), 6


def sequences(now_ms: int) -> Iterator[Entry]:
    """Two idempotent producers."""
    steps = (
        (9000, 0, 0, 2), (9000, 0, 2, 1), (9000, 0, 0, 2), (9000, 0, 9, 1), (9000, 0, 1, 3), (9000, 0, 2, 1),
        (9000, 1, 5, 1), (9000, 1, 0, 1), (9000, 0, 3, 1), (9000, -1, 0, 1), (9000, 1, -1, 1),
        (9100, 0, 5, 1), (9100, 0, 6, 1), (9100, 0, 2**31 - 1, 1),
    )  # fmt: skip
    for number, (producer_id, epoch, sequence, count) in enumerate(steps):
        data = batch(
            *[b"v"] * count,
            timestamp_ms=now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        name = f"step {number}: producer {producer_id} epoch {epoch} sequence {sequence}"
        yield name, lambda _, data=data: produce("t", data), 9  # type: ignore[misc]
    data = batch(timestamp_ms=now_ms, producer_id=9200, producer_epoch=0, base_sequence=0, is_transactional=True)
    yield "transactional without an id", lambda _: produce("t", data), 9


def fetches() -> Iterator[Entry]:
    for version in range(4, 13):
        yield f"fetch version {version}", lambda _: fetch("t", wanted()), version
    for version in (13, 17, 18):
        yield f"fetch by id, version {version}", lambda ids: fetch(ids["t"], wanted()), version
        yield f"fetch by unknown id, version {version}", lambda _: fetch(UNKNOWN_ID, wanted()), version
    partitions = {
        "offset -1": wanted(offset=-1),
        "offset beyond the end": wanted(offset=1 << 40),
        "partition 9": wanted(9),
        "partition -1": wanted(-1),
        "leader epoch 99": wanted(current_leader_epoch=99),
        "last epoch 99": wanted(last_fetched_epoch=99),
        "0 bytes": wanted(max_bytes=0),
        "-1 bytes": wanted(max_bytes=-1),
    }
    for name, partition in partitions.items():
        yield f"fetch {name}", lambda _, partition=partition: fetch("t", partition), 12  # type: ignore[misc]
    fields: dict[str, dict[str, int]] = {
        "0 bytes in all": {"max_bytes": 0},
        "-1 bytes in all": {"max_bytes": -1},
        "unknown session": {"session_id": 5, "session_epoch": 1},
        "no session, epoch 5": {"session_id": 0, "session_epoch": 5},
        "final epoch of an unknown session": {"session_id": 99, "session_epoch": -1},
        "as replica 7": {"replica_id": 7},
        "as debugger": {"replica_id": -2},
        "read committed": {"isolation_level": 1},
        "isolation level 5": {"isolation_level": 5},
        "at least -5 bytes": {"min_bytes": -5},
    }
    for name, given in fields.items():
        yield f"fetch {name}", lambda _, given=given: fetch("t", wanted(), **given), 12  # type: ignore[misc]
    yield "fetch of nothing", lambda _: fetch("t"), 12
    yield "fetch of an unknown topic", lambda _: fetch("no-such-topic", wanted()), 12
    state = ReplicaState(replica_id=7, replica_epoch=1)
    yield "fetch as replica 7, version 15", lambda ids: fetch(ids["t"], wanted(), replica_state=state), 15
    yield "fetch zstd, version 9", lambda _: fetch("zstd", wanted()), 9


def offsets(now_ms: int) -> Iterator[Entry]:
    """ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""
    for timestamp in (-1, -2, -3, -4, -5, -6, -7, -100, 0, now_ms, now_ms + DAY_MS):
        for version in (1, 11):
            name = f"list offsets {timestamp if timestamp < now_ms else timestamp - now_ms}, version {version}"
            yield name, lambda _, timestamp=timestamp: list_offsets("t", (1, timestamp)), version  # type: ignore[misc]
    yield "list offsets of partition 9", lambda _: list_offsets("t", (9, -1)), 9
    yield "list offsets of an unknown topic", lambda _: list_offsets("no-such-topic", (0, -1)), 9
    yield "list offsets twice", lambda _: list_offsets("t", (0, -1), (0, -2)), 9
    yield "list offsets, epoch 99", lambda _: list_offsets("t", (0, -1), epoch=99), 9
    yield "list offsets, isolation level 9", lambda _: list_offsets("t", (0, -1), isolation_level=9), 9
    for epoch, current, index in ((0, -1, 0), (5, -1, 0), (-1, -1, 0), (0, 9, 0), (0, -1, 9)):
        yield f"epoch {epoch}, ours {current}, of partition {index}", epoch_request("t", epoch, current, index), 4
    yield "epoch of an unknown topic", epoch_request("no-such-topic", 0, -1, 0), 4
    for offset in (0, -1, -2, 1 << 40):
        yield f"delete up to {offset}", deletion("t", 1, offset), 2
    yield "delete in partition 9", deletion("t", 9, 0), 2
    yield "delete in an unknown topic", deletion("no-such-topic", 0, 0), 2
    yield "delete in a compacted topic", deletion("compact", 0, 0), 2


def epoch_request(topic: str, epoch: int, current: int, index: int) -> Callable[[Ids], Message]:
    asked = OffsetForLeaderPartition(partition=index, leader_epoch=epoch, current_leader_epoch=current)
    topics = [OffsetForLeaderTopic(topic=topic, partitions=[asked])]
    return lambda _: OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


def deletion(topic: str, index: int, offset: int) -> Callable[[Ids], Message]:
    partitions = [DeleteRecordsPartition(partition_index=index, offset=offset)]
    topics = [DeleteRecordsTopic(name=topic, partitions=partitions)]
    return lambda _: DeleteRecordsRequest(topics=topics, timeout_ms=1000)


def others() -> Iterator[Entry]:
    """Producer ids and log directories."""

    def init(transactional_id: str | None = None, **fields: int) -> Callable[[Ids], Message]:
        return lambda _: InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1000, **fields)

    yield "producer id", init(), 5
    yield "producer id for another", init(producer_id=5, producer_epoch=1), 5
    yield "producer id without epoch", init(producer_id=5), 5
    yield "producer epoch without id", init(producer_epoch=5), 5
    yield "producer id for an empty transactional id", init(""), 5
    yield "log directories", lambda _: DescribeLogDirsRequest(topics=[]), 4
    unknown = [DescribableLogDirTopic(topic="no-such-topic", partitions=[0])]
    yield "log directories of an unknown topic", lambda _: DescribeLogDirsRequest(topics=unknown), 4
