"""The same logs cleaned by Apache Kafka's cleaner and by ours: equal records, equal delete markers, equal producers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from interop.kafka_peer import KafkaPeer, run_tool
from support.compaction import (
    DAY_MS,
    HASH_KEY,
    History,
    batches_in,
    compacted,
    compacted_in_parts,
    planned,
    producers,
    records_in,
)
from support.logs import NAME, topic_config
from support.processes import wait_until

from penstock.log.checkpoints import CLEANER_OFFSET, parse_checkpoint
from penstock.log.compaction.maps import offset_map
from penstock.log.disk import Disk
from penstock.records.compression import Codec
from penstock.server.disk import BlockingDisk

pytestmark = [pytest.mark.java, pytest.mark.slow]
DUMP = "org.apache.kafka.tools.DumpLogSegments"
TOPIC, OTHER = NAME, "clicks-1"
CLEANED_TIMEOUT_S = 60


def random_history(seed: int, now_ms: int) -> History:
    """Keys, delete markers, records without a key, every codec, producers, transactions that commit and abort and
    go over several segments.
    """
    random, history = Random(seed), History.empty()

    def pairs(most: int) -> list[tuple[bytes | None, bytes | None]]:
        keys = [None, *(b"key %d" % random.randrange(12) for _ in range(30))]
        values = [None, random.randbytes(random.randrange(1, 90)), b"v"]
        return [(random.choice(keys), random.choice(values)) for _ in range(random.randrange(1, most))]

    for number in range(240):
        choice = random.random()
        if choice < 0.6:
            producer_id = random.choice([-1, 1, 2, 3])
            history.append(pairs(8), codec=random.choice(list(Codec)), producer_id=producer_id, timestamp_ms=now_ms)
        elif choice < 0.8:
            history.append(pairs(4), producer_id=random.choice([11, 12]), transactional=True, timestamp_ms=now_ms)
        elif history.open:
            history.end(random.choice(list(history.open)), commit=random.random() < 0.5, timestamp_ms=now_ms)
        if number % 60 == 59:
            history.roll()
    for producer_id in list(history.open):
        history.end(producer_id, commit=False, timestamp_ms=now_ms)
    history.roll()
    history.append([(b"key 1", b"active")], timestamp_ms=now_ms)
    history.one.close()
    return history


def put(disk: Disk, name: str, directory: Path) -> None:
    """Replaces the files of an empty partition by a log's; Kafka's partition.metadata stays."""
    for path in directory.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for info in disk.list(name):
        (directory / info.name).write_bytes(disk.read(f"{name}/{info.name}", 0, info.size_bytes))


@contextmanager
def disk_of(directory: Path) -> Iterator[BlockingDisk]:
    disk = BlockingDisk(0, str(directory), durable=False)
    try:
        yield disk
    finally:
        disk.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_kafkas_cleaner_and_ours_leave_the_same(seed: int, tmp_path: Path) -> None:
    now_ms = round(time.time() * 1000)
    history = random_history(seed, now_ms)
    ours = history.one.disk
    small = topic_config(index_interval_bytes=100, segment_bytes=100)  # each segment is a group
    compacted(ours, planned(ours, config=small, now_ms=now_ms - 2 * DAY_MS), OTHER)  # its horizons passed a day ago
    first, second = planned(ours, now_ms=now_ms), planned(ours, OTHER, now_ms=now_ms)
    compacted(ours, first, "first-0", offsets=offset_map(1 << 16, 0.9, HASH_KEY))
    parts = compacted_in_parts(ours, OTHER, "second", make_map=offset_map, config=small, now_ms=now_ms)
    assert len(parts) > 1
    second_name = parts[-1][0]
    assert len(records_in(ours, second_name)) < len(records_in(ours, "first-0")) < len(records_in(ours, TOPIC)) / 5

    kafka = KafkaPeer(tmp_path, properties={"log.cleaner.backoff.ms": 100})
    with kafka:
        kafka.create_topic(
            "clicks", partitions=2, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_bytes=1 << 20
        )
        kafka.stop()
        [directory] = kafka.log_dirs
        put(ours, TOPIC, directory / TOPIC)
        put(ours, OTHER, directory / OTHER)
        (directory / CLEANER_OFFSET).unlink(missing_ok=True)
        kafka.start()
        checkpoint = directory / CLEANER_OFFSET
        wanted = {("clicks", 0): first.first_uncleanable_offset, ("clicks", 1): second.first_uncleanable_offset}
        wait_until(
            lambda: checkpoint.exists() and wanted.items() <= parse_checkpoint(checkpoint.read_bytes()).items(),
            "Kafka's cleaner has cleaned the logs",
            CLEANED_TIMEOUT_S,
        )
        kafka.stop()
        with disk_of(directory) as theirs:
            for name, mine in ((TOPIC, "first-0"), (OTHER, second_name)):
                assert records_in(theirs, name) == records_in(ours, mine)
                assert producers(theirs, name) == producers(ours, mine)
                assert outline(theirs, name) == outline(ours, mine)
                cleaned_on(theirs, name, ours, mine, now_ms)


def cleaned_on(theirs: Disk, name: str, ours: Disk, mine: str, now_ms: int) -> None:
    """Ours cleans what Kafka's cleaner has left as it does what it has left itself. Nothing goes at once, and the
    delete markers go when their time has come.
    """
    before = records_in(theirs, name)
    compacted(theirs, planned(theirs, name, now_ms=now_ms), f"again-{name}", offsets=offset_map(1 << 16, 0.9, HASH_KEY))
    assert records_in(theirs, f"again-{name}") == before
    assert producers(theirs, f"again-{name}") == producers(theirs, name)
    for disk, log in ((theirs, name), (ours, mine)):
        work = planned(disk, log, now_ms=now_ms + 2 * DAY_MS)
        report = compacted(disk, work, f"later-{log}", offsets=offset_map(1 << 16, 0.9, HASH_KEY))
        assert not report.problems
    assert records_in(theirs, f"later-{name}") == records_in(ours, f"later-{mine}")
    assert producers(theirs, f"later-{name}") == producers(ours, f"later-{mine}")
    assert outline(theirs, f"later-{name}") == outline(ours, f"later-{mine}")
    if name == TOPIC:  # in the other one they have gone already
        assert len(records_in(theirs, f"later-{name}")) < len(before)


def outline(disk: Disk, name: str) -> list[tuple[object, ...]]:
    """Of every batch all of its header that does not depend on the compressed size or on when the pass ran."""
    return [
        (
            header.base_offset,
            header.last_offset,
            header.leader_epoch,
            header.attributes,
            header.max_timestamp_ms,
            *header[9:],
        )
        for header, _ in batches_in(disk, name)
    ]


def test_kafkas_tools_accept_a_cleaned_copy(tmp_path: Path) -> None:
    history = random_history(3, round(time.time() * 1000))
    disk = history.one.disk
    compacted(disk, planned(disk), "cleaned-0", offsets=offset_map(1 << 16, 0.9, HASH_KEY))
    files: dict[str, list[Path]] = {}
    for info in disk.list("cleaned-0"):
        path = tmp_path / info.name
        path.write_bytes(disk.read(f"cleaned-0/{info.name}", 0, info.size_bytes))
        files.setdefault(path.suffix, []).append(path)

    def dumped(suffix: str, *options: str) -> str:
        result = run_tool(DUMP, "--files", ",".join(map(str, files[suffix])), *options)
        return result.stdout + result.stderr

    records = dumped(".log", "--deep-iteration")
    assert records.count("| offset:") >= len(records_in(disk, "cleaned-0"))
    assert "isvalid: false" not in records
    assert "Mismatches" not in dumped(".index", "--verify-index-only")
    assert dumped(".timeindex", "--index-sanity-check").count("passed sanity check") == len(files[".timeindex"])
    mismatches = [line for line in dumped(".timeindex", "--verify-index-only").splitlines() if "log timestamp:" in line]
    assert all(line.endswith("log timestamp: -1") for line in mismatches), (
        "the tool goes by records, and finds no time in a batch that was emptied and still has its largest timestamp"
    )
