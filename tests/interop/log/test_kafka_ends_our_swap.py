"""Apache Kafka started on what a swap of our cleaner leaves where it is interrupted, a partition for each step."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from interop.kafka_peer import KafkaPeer
from support.compaction import planned
from support.logs import NAME, OneLog, topic_config
from support.swaps import cleaned_beside, keyed, states_of, swap_of

from penstock.client.client import Client
from penstock.log.checkpoints import HIGH_WATERMARK, RECOVERY_POINT, format_checkpoint, parse_checkpoint
from penstock.log.clean_shutdown import FILE as CLEAN_SHUTDOWN
from penstock.log.names import CLEANED, DELETED, LOG, SWAP
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.records.batch import headers
from penstock.records.reader import records

pytestmark = pytest.mark.java
TOPIC = "clicks"
FILLER = b"v" * 1150
LEFT_ALONE = b"w" * 1600
BATCH_MEMORY_BYTES = 1400
"""A pass reads no batch with LEFT_ALONE, and leaves its segment as it is."""
COMMON = {b"first": b"1", b"last": b"1", b"active": b"1"}
ROWS = {
    True: {**COMMON, b"left alone": LEFT_ALONE},
    False: {**COMMON, b"second": FILLER, b"third": FILLER},
}
"""The table that a log is at every step, by whether a segment of it was left alone."""
WAIT_MS = 10_000
"""At most, until the new leader's high watermark is the log's end."""
Pairs = list[tuple[bytes, bytes | None]]


class Interrupted(NamedTuple):
    """The files of a log at one step of a swap, its end, and the table that it is."""

    files: dict[str, bytes]
    end_offset: int
    rows: dict[bytes, bytes]


def interrupted(now_ms: int, *, left_alone: bool) -> list[Interrupted]:
    """A log before a swap, after each of its steps, and at its end.

    The last segments of the first group become empty. A segment behind them was left alone; or, without one, the delete
    markers of two keys go, one in the first group and one in the last.
    """
    one = OneLog(topic_config(segment_bytes=2500, index_interval_bytes=100))
    one.now_ms = now_ms
    middle: Pairs = [(b"left alone", LEFT_ALONE)] if left_alone else [(b"second", FILLER), (b"third", FILLER)]
    segments: list[Pairs] = [
        [(b"first", b"1")],
        [(b"gone", b"1"), (b"lost", b"1"), (b"last", b"0")],
        [(b"lost", b"2") if left_alone else (b"lost", None)],
        middle,
        [(b"gone", None), (b"lost", None), (b"last", b"1")] if left_alone else [(b"gone", None), (b"last", b"1")],
        [(b"active", b"1")],
    ]
    for number, pairs in enumerate(segments):
        if number:
            one.log.roll(now_ms)
            one.run()
        for pair in pairs:
            data = keyed(one.log.log_end_offset, pair, now_ms=now_ms, horizon_passed=pair[1] is None)
            one.log.append_as_follower(data, now_ms)
            one.run()
    one.close()
    work = planned(one.disk, config=one.config, now_ms=now_ms)
    work = replace(work, batch_memory_bytes=BATCH_MEMORY_BYTES, chunk_bytes=BATCH_MEMORY_BYTES)
    report = cleaned_beside(one.disk, work)
    assert len(report.left_alone) == left_alone
    assert [len(group.base_offsets) for group in report.groups] == ([3, 1] if left_alone else [3, 1, 1])
    assert bool(sum(group.removed_tombstones for group in report.groups)) is not left_alone
    states = states_of(one.disk, NAME, swap_of(one.disk, work, report).run)
    return [Interrupted(files, one.log.log_end_offset, ROWS[left_alone]) for files in states]


async def read(client: Client, partition: int, end_offset: int) -> bytes:
    """All records of a partition."""
    topic_id = (await client.topic(TOPIC)).topic_id
    found, offset = b"", 0
    while offset < end_offset:
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=TOPIC, topic_id=topic_id, partitions=[wanted])]
        request = FetchRequest(min_bytes=1, max_wait_ms=WAIT_MS, max_bytes=1 << 20, topics=topics)
        answer = await client.send(request, node_id=1)
        data = answer.responses[0].partitions[0]
        assert not data.error_code
        assert data.records
        found += bytes(data.records)
        offset = [header for _, header in headers(bytes(data.records))][-1].next_offset
    return found


def rows(found: bytes) -> dict[bytes, bytes]:
    """The table that records are."""
    table: dict[bytes, bytes] = {}
    for position, header in headers(found):
        for record in records(found[position : position + header.size_bytes], header):
            assert record.key is not None
            table.pop(record.key, None)
            if record.value is not None:
                table[record.key] = record.value
    return table


def put(kafka: KafkaPeer, logs: list[Interrupted]) -> None:
    """Gives partitions these files, as a crash leaves them: all but the active segment was on disk at a checkpoint."""
    [directory] = kafka.log_dirs
    for partition, log in enumerate(logs):
        target = directory / f"{TOPIC}-{partition}"
        for path in target.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for name, content in log.files.items():
            (target / name).write_bytes(content)
    (directory / CLEAN_SHUTDOWN).unlink()
    for checkpoint in (RECOVERY_POINT, HIGH_WATERMARK):
        offsets = parse_checkpoint((directory / checkpoint).read_bytes())
        offsets.update({(TOPIC, partition): log.end_offset - 1 for partition, log in enumerate(logs)})
        (directory / checkpoint).write_bytes(format_checkpoint(offsets))


@pytest.mark.slow
def test_kafka_has_all_that_must_stay_and_nothing_that_was_deleted_at_every_step(tmp_path: Path) -> None:
    now_ms = round(time.time() * 1000)
    logs = [log for left_alone in (False, True) for log in interrupted(now_ms, left_alone=left_alone)]
    assert len(logs) > 40
    with KafkaPeer(tmp_path) as kafka:
        kafka.create_topic(TOPIC, partitions=len(logs))
        kafka.stop()
        put(kafka, logs)
        kafka.start()

        async def tables() -> list[dict[bytes, bytes]]:
            async with Client(kafka.bootstrap) as client:
                return [rows(await read(client, partition, log.end_offset)) for partition, log in enumerate(logs)]

        assert asyncio.run(tables()) == [log.rows for log in logs]
        kafka.stop()
        [directory] = kafka.log_dirs
        names = [{path.name for path in directory.glob(f"{TOPIC}-{number}/*")} for number in range(len(logs))]
        assert not [name for found in names for name in found if name.endswith((CLEANED, SWAP, DELETED))]
        bases = [sum(name.endswith(LOG) for name in found) for found in names]
        assert set(bases) == {4, 5, 6}, "all that was, a segment that became empty and is back, all that is new"
