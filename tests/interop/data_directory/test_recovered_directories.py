"""After an unclean stop of Apache Kafka, Penstock gives the bytes by the offsets that Apache Kafka gives itself.

One node of Apache Kafka with five log directories is stopped at four random moments. Of each of these twenty
directories two copies are started: one by Apache Kafka, one by Penstock. All partitions are read by plain fetches.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from interop.data_directory.killed_kafka import DIRECTORIES, TOPICS, KilledKafka
from interop.kafka_peer import KafkaPeer, require_kafka

from penstock.client.client import Client
from penstock.errors import ErrorCode
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.records.batch import entries

pytestmark = pytest.mark.java
SEED = 11
MOMENTS = 4
COMMITTED = 1


class Answered(NamedTuple):
    """What a partition answered: bytes from its start, bounds, and aborted transactions (producer id, first offset)."""

    error: ErrorCode
    records: bytes
    start: int
    end: int
    aborted: frozenset[tuple[int, int]]


Contents = Mapping[tuple[str, int], Answered]


@pytest.fixture(scope="module", autouse=True)
def kafka() -> None:
    require_kafka()


async def read(client: Client, topic: str, partition: int) -> Answered:
    """All that a partition has."""
    topic_id = (await client.topic(topic)).topic_id
    records, offset, aborted = b"", 0, set()
    while True:
        found = []
        for isolation in (0, COMMITTED):
            wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 24)
            topics = [FetchTopic(topic=topic, topic_id=topic_id, partitions=[wanted])]
            request = FetchRequest(min_bytes=0, max_bytes=1 << 24, isolation_level=isolation, topics=topics)
            found.append((await client.send(request, node_id=1)).responses[0].partitions[0])
        got, committed = found
        if got.error_code or not got.records:
            return Answered(
                ErrorCode(got.error_code), records, got.log_start_offset, got.high_watermark, frozenset(aborted)
            )
        aborted |= {(each.producer_id, each.first_offset) for each in committed.aborted_transactions or ()}
        records += bytes(got.records)
        offset = offset_after(bytes(got.records))


def offset_after(records: bytes) -> int:
    """The offset after the last whole batch, of any format."""
    position, offset = 0, -1
    while position < len(records):
        base_offset, length, magic = struct.unpack_from(">qi4xb", records, position)
        delta = struct.unpack_from(">i", records, position + 23)[0] if magic == 2 else 0
        position, offset = position + 12 + length, base_offset + delta + 1
    return offset


def contents(peer: KafkaPeer) -> Contents:
    """All partitions of all topics of a node that runs."""

    async def read_all() -> Contents:
        async with Client(peer.bootstrap) as client:
            await client.refresh(TOPICS)
            return {
                (topic, index): await read(client, topic, index) for topic in TOPICS for index in range(DIRECTORIES)
            }

    return asyncio.run(read_all())


def served_by_kafka(peer: KafkaPeer) -> Contents:
    peer.start()
    try:
        return contents(peer)
    finally:
        peer.stop(signal.SIGKILL)


def served_by_penstock(peer: KafkaPeer) -> Contents:
    peer.start([sys.executable, "-m", "penstock", "server", "start", str(peer.config_file)])
    try:
        return contents(peer)
    finally:
        peer.stop()


def old_logs(peer: KafkaPeer) -> list[bytes]:
    """The files of records of the topic with old messages."""
    return [path.read_bytes() for directory in peer.log_dirs for path in sorted(directory.glob("old-*/*.log"))]


def offsets_missing(records: bytes) -> int:
    """How many offsets there are between batches that none has."""
    missing, expected = 0, None
    for _, header in entries(records):
        missing += 0 if expected is None else header.base_offset - expected
        expected = header.next_offset
    return missing


def last_markers(answered: Answered) -> tuple[bytes, int]:
    """The records before the markers at the end, and how many markers those are."""
    position, markers = 0, 0
    for start, header in entries(answered.records):
        position, markers = (position, markers + 1) if header.is_control else (start + header.size_bytes, 0)
    return answered.records[:position], markers


def same(kafka: Answered, penstock: Answered) -> bool:
    """The same records, but for markers at the end: each ends by itself what a client had ended before the kill."""
    expected, kafka_markers = last_markers(kafka)
    found, penstock_markers = last_markers(penstock)
    return (
        found == expected
        and penstock.error is ErrorCode.NONE
        and penstock.start == kafka.start
        and penstock.end - penstock_markers == kafka.end - kafka_markers
        and (penstock.aborted == kafka.aborted or penstock_markers != kafka_markers)
    )


@pytest.mark.long
def test_penstock_gives_what_kafka_gives_after_a_kill(tmp_path: Path) -> None:
    pairs = []
    with KilledKafka(tmp_path / "running", SEED) as running:
        for moment in range(MOMENTS):
            running.work()
            left = running.copy(tmp_path / f"kafka-{moment}")
            again = running.node_on(tmp_path / f"penstock-{moment}")
            for source, target in zip(left.log_dirs, again.log_dirs, strict=True):
                shutil.copytree(source, target)
            pairs.append((left, again))
            if moment == 1:
                running.turn()
    missing, aborted, records = 0, 0, 0
    for left, again in pairs:
        old = old_logs(again)
        expected, found = served_by_kafka(left), served_by_penstock(again)
        differing = [key for key in expected if not same(expected[key], found[key])]
        assert differing == [], again.log()[-4000:]
        missing += sum(offsets_missing(expected[key].records) for key in expected if key[0] in ("cleaned", "turned"))
        aborted += sum(len(found[key].aborted) for key in found)
        records += sum(found[key].end for key in found)
        for index in range(DIRECTORIES):
            assert offset_after(found["old", index].records) == 20
        assert old_logs(again) == old, "served as it is"
    assert missing > 0, "a cleaner was at work"
    assert aborted > 0
    assert running.damaged > 0
    assert records > 4 * MOMENTS
