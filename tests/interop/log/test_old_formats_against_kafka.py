"""A log that a broker of before Kafka 0.11 began, served by Apache Kafka and by us: the same to all clients.

One directory, served by the one and then by the other, which each make the indexes anew. What is read by plain fetches,
by librdkafka and by kafka-python, what is found by time, and what the indexes are in the end must be equal.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any, NamedTuple

import kafka
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from interop.data_directory.turns import DataDirectory, read_all
from interop.kafka_peer import KafkaPeer, require_kafka
from interop.log.test_compaction_against_kafka import CLEANED_TIMEOUT_S, disk_of
from support.compaction import HASH_KEY, batches_in, compacted, planned
from support.legacy import Kept, message, message_set
from support.logs import NAME, OneLog, topic_config
from support.processes import wait_until
from support.upgraded import LIBRARIES, OLD_MS, Entry, content, decoded, kept, place, put_segments, upgraded

from penstock.client.client import EARLIEST, LATEST, Client
from penstock.errors import RequestError
from penstock.log.checkpoints import CLEANER_OFFSET, parse_checkpoint
from penstock.log.compaction.maps import offset_map
from penstock.log.loading import OpenArguments
from penstock.log.recovery import recover_log
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.records.batch import entries
from simulator.world.disk import SimulatedDisk

pytestmark = pytest.mark.java
TIMEOUT_S = 30.0
MAX_TIMESTAMP = -3
LOGS = [
    [upgraded(1)[:40], upgraded(1)[40:70], upgraded(1)[70:]],  # format 0; 1; 1 and batches
    [upgraded(2, formats=(1,))],
    [upgraded(3, formats=(0,), batches=0)],
    [upgraded(4)[:50], upgraded(4)[50:]],  # both old formats in one segment
]
"""Of each partition the segments."""
TIMES_MS = [1, OLD_MS - 1, *range(OLD_MS, OLD_MS + 1000, 97), OLD_MS + 1000, OLD_MS + 1_000_500, 1 << 60]


class Served(NamedTuple):
    """All that clients are told of a partition."""

    fetched: bytes
    librdkafka: list[tuple[Any, ...]]
    kafka_python: list[tuple[Any, ...]]
    bounds: tuple[int, int]
    by_time: list[tuple[int, int]]
    refusal: str


@pytest.fixture(scope="module", autouse=True)
def needs_kafka() -> None:
    require_kafka()


async def asked(bootstrap: str, partition: int, end: int) -> tuple[bytes, list[tuple[int, int]], str]:
    """The bytes of a partition, the offsets of times, and why a produced old message is refused."""
    async with Client(bootstrap) as client:
        topic_id = (await client.topic("clicks")).topic_id
        data, offset = b"", 0
        while offset < end:
            wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=700)
            topics = [FetchTopic(topic="clicks", topic_id=topic_id, partitions=[wanted])]
            request = FetchRequest(min_bytes=1, max_bytes=700, topics=topics)
            (got,) = (await client.send(request, node_id=1)).responses[0].partitions
            assert not got.error_code, got.error_code
            whole = [header for _, header in entries(got.records)]
            data += bytes(got.records)[: sum(header.size_bytes for header in whole)]
            offset = whole[-1].next_offset
        by_time = []
        for time_ms in (*TIMES_MS, MAX_TIMESTAMP, EARLIEST, LATEST):
            found = (await client.offsets([("clicks", partition)], time_ms))["clicks", partition]
            by_time.append((found.offset, found.timestamp_ms))
        try:
            await client.produce("clicks", partition, bytearray(message(0, b"k", b"v" * 90)))
            refusal = "taken"
        except RequestError as error:
            refusal = error.code.name
        return data, by_time, refusal


def read_by_kafka_python(bootstrap: str, partition: int, end: int) -> list[tuple[Any, ...]]:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    try:
        where = kafka.TopicPartition("clicks", partition)
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        found: list[tuple[Any, ...]] = []
        while not found or found[-1][0] < end - 1:
            polled = consumer.poll(timeout_ms=int(TIMEOUT_S * 1000))
            assert polled, found[-1:]
            found += [
                (each.offset, -1 if each.timestamp is None else each.timestamp, each.key, each.value)
                for each in polled[where]
            ]
        return found
    finally:
        consumer.close()


def served(bootstrap: str) -> list[Served]:
    rows = read_all(bootstrap, [("clicks", number) for number in range(len(LOGS))])
    found = []
    for number, segments in enumerate(LOGS):
        end = segments[-1][-1].last_offset + 1
        data, by_time, refusal = asyncio.run(asked(bootstrap, number, end))
        by_librdkafka = [(each.offset, *each.row[:3]) for each in rows["clicks", number]]
        bounds = by_time[-2][0], by_time[-1][0]
        by_kafka_python = read_by_kafka_python(bootstrap, number, end)
        found.append(Served(data, by_librdkafka, by_kafka_python, bounds, by_time, refusal))
    return found


def indexes(directory: Path) -> dict[str, bytes]:
    """The entries of the indexes, without what Kafka reserves."""
    return {path.name: path.read_bytes().rstrip(b"\0") for path in directory.glob("*index")}


@pytest.mark.slow
def test_clients_cannot_tell_who_serves_a_log_that_was_upgraded(tmp_path: Path) -> None:
    found, files = [], []
    with DataDirectory(tmp_path, formatted_by="kafka") as shared:
        with shared.served_by("kafka"):
            configs = {"retention.ms": "-1", "index.interval.bytes": "300"}
            admin = AdminClient({"bootstrap.servers": shared.bootstrap})
            for future in admin.create_topics([NewTopic("clicks", len(LOGS), 1, config=configs)]).values():
                future.result(TIMEOUT_S)
        for who in ("kafka", "penstock"):
            for number, segments in enumerate(LOGS):
                place(shared.path / f"clicks-{number}", segments)
            with shared.served_by(who):
                found.append(served(shared.bootstrap))
            files.append([indexes(shared.path / f"clicks-{number}") for number in range(len(LOGS))])
            for number, segments in enumerate(LOGS):
                logs = sorted((shared.path / f"clicks-{number}").glob("*.log"))
                assert [path.read_bytes() for path in logs] == [content(segment) for segment in segments], who
    for number, (by_kafka, by_penstock) in enumerate(zip(*found, strict=True)):
        everything = [tuple(record) for segment in LOGS[number] for record in kept(segment)]
        assert by_penstock.fetched == b"".join(map(content, LOGS[number]))
        assert by_penstock.kafka_python == everything
        if number == 0:
            assert by_kafka.by_time.pop(0) == (-1, -1), "it chose the segment without times by that of its file"
            first = next(record for record in everything if record[1] >= TIMES_MS[0])
            assert by_penstock.by_time.pop(0) == first[:2]
        assert by_penstock == by_kafka, number
    assert files[1] == files[0]
    assert {each.refusal for each in found[0]} == {"INVALID_RECORD"}


@pytest.mark.slow
def test_kafkas_cleaner_and_ours_make_the_same_of_old_messages(tmp_path: Path) -> None:
    some = old_messages()
    ours = OneLog(topic_config(index_interval_bytes=100), SimulatedDisk())
    put_segments(ours.disk, [some[:70], some[70:]])
    recover_log(ours.disk, OpenArguments(NAME, ours.config, 0, 0, ours.now_ms))
    ours.open(recovery_point=some[-1].last_offset + 1)
    ours.log.roll(ours.now_ms)
    ours.run()
    ours.close()
    work = planned(ours.disk)
    compacted(ours.disk, work, "cleaned-0", offsets=offset_map(1 << 16, 0.9, HASH_KEY))

    with KafkaPeer(tmp_path, properties={"log.cleaner.backoff.ms": 100}) as peer:
        peer.create_topic("clicks", partitions=1, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
        peer.stop()
        [directory] = peer.log_dirs
        for path in (directory / NAME).iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for info in ours.disk.list(NAME):
            (directory / NAME / info.name).write_bytes(ours.disk.content(f"{NAME}/{info.name}"))
        checkpoint = directory / CLEANER_OFFSET
        checkpoint.unlink(missing_ok=True)
        peer.start()
        wanted = {("clicks", 0): work.first_uncleanable_offset}
        wait_until(
            lambda: checkpoint.exists() and wanted.items() <= parse_checkpoint(checkpoint.read_bytes()).items(),
            "Kafka's cleaner has cleaned the log",
            CLEANED_TIMEOUT_S,
        )
        peer.stop()
        with disk_of(directory) as theirs:
            by_kafka = batches_in(theirs, NAME)
            by_us = batches_in(ours.disk, "cleaned-0")
    assert decoded(b"".join(data for _, data in by_us)) == decoded(b"".join(data for _, data in by_kafka))
    assert {header.magic for header, _ in (*by_us, *by_kafka)} == {2}, "both write what stays as batches"
    assert [header.attributes for header, _ in by_us] == [header.attributes for header, _ in by_kafka]


@pytest.mark.slow
def test_a_broker_cleans_old_messages_and_kafka_serves_what_is_left(tmp_path: Path) -> None:
    some = old_messages()
    closed, active = some[:70], some[70:]
    with DataDirectory(tmp_path, formatted_by="kafka") as shared:
        with shared.served_by("kafka"):
            configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
            admin = AdminClient({"bootstrap.servers": shared.bootstrap})
            for future in admin.create_topics([NewTopic("clicks", 1, 1, config=configs)]).values():
                future.result(TIMEOUT_S)
        place(shared.path / "clicks-0", [closed, active])
        (shared.path / CLEANER_OFFSET).unlink(missing_ok=True)
        with shared.served_by("penstock"):
            whole = read_all(shared.bootstrap, [("clicks", 0)])["clicks", 0]
            assert [each.offset for each in whole] == [record.offset for record in kept(some)]
            wait_until(lambda: "clicks-0: cleaned" in shared.kafka.log(), "the log is cleaned", CLEANED_TIMEOUT_S)
            ours = read_all(shared.bootstrap, [("clicks", 0)])
        with shared.served_by("kafka"):
            assert read_all(shared.bootstrap, [("clicks", 0)]) == ours
        first = (shared.path / "clicks-0" / f"{0:020d}.log").read_bytes()
    assert {header.magic for _, header in entries(first)} == {2}
    before = kept(closed)
    last = {record.key: record.offset for record in before if record.key is not None}
    stays = [record for record in before if last.get(record.key) == record.offset] + kept(active)
    assert [(each.offset, *each.row[1:3]) for each in ours["clicks", 0]] == [
        (record.offset, record.key, record.value) for record in stays
    ]


def old_messages() -> list[Entry]:
    """Messages of both formats; the last one has a key of its own, for Kafka cannot empty an old message."""
    some = upgraded(5, messages=60, batches=0)
    offset = some[-1].last_offset + 1
    last = [Kept(offset, OLD_MS, b"last", b"v")]
    return [*some, Entry(message_set(LIBRARIES[0], 1, 0, last), last)]


@pytest.mark.slow
def test_a_directory_of_ours_with_old_messages_is_served_by_kafka_after_a_kill(tmp_path: Path) -> None:
    """Batches that we have appended behind old messages, in the same segment, and no clean stop."""
    some = upgraded(7, batches=0)
    with DataDirectory(tmp_path, formatted_by="kafka") as shared:
        with shared.served_by("kafka"):
            admin = AdminClient({"bootstrap.servers": shared.bootstrap})
            for future in admin.create_topics([NewTopic("clicks", 1, 1, config={"retention.ms": "-1"})]).values():
                future.result(TIMEOUT_S)
        place(shared.path / "clicks-0", [some])
        with shared.served_by("penstock", stopped_by=signal.SIGKILL):
            new = produced(shared.bootstrap, some[-1].last_offset + 1)
            ours = read_all(shared.bootstrap, [("clicks", 0)])
        with shared.served_by("kafka"):
            theirs = read_all(shared.bootstrap, [("clicks", 0)])
    assert theirs == ours
    assert [each.offset for each in theirs["clicks", 0]][-len(new) :] == new
    assert len(theirs["clicks", 0]) == len(kept(some)) + len(new)


def produced(bootstrap: str, offset: int) -> list[int]:
    """Appends records; their offsets."""
    producer = Producer({"bootstrap.servers": bootstrap})
    offsets: list[int] = []
    for number in range(5):
        producer.produce(
            "clicks", b"new %d" % number, partition=0, on_delivery=lambda _, sent: offsets.append(sent.offset())
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert offsets == list(range(offset, offset + 5))
    return offsets
