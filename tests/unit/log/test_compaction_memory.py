"""What one batch may take in the memory of the cleaner, whatever its producer has made of it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.compaction import History, compacted, planned
from support.logs import NAME, topic_config

from penstock.config.values import MiB
from penstock.log.compaction.passes import Pass
from penstock.log.limits import CLEANING_BATCH_MEMORY_BYTES
from penstock.records.compression import Codec

LOG = f"{NAME}/{0:020d}.log"


def log_with(*large: tuple[bytes, bytes], codec: Codec = Codec.NONE) -> History:
    """A log with these records in one batch, and a key of its own before and after it."""
    history = History.empty(max_message_bytes=100 * MiB)
    history.append([(b"k", b"1")])
    history.append(list(large), codec=codec)
    history.append([(b"k", b"2")])
    history.append([(b"last", b"")])
    history.roll()
    history.append([(b"active", b"")])
    history.one.close()
    return history


@pytest.fixture
def memory() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def within(memory_bytes: int, work: Pass) -> Pass:
    return replace(work, batch_memory_bytes=memory_bytes)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.usefixtures("memory")
def test_a_batch_that_unpacks_to_too_much_is_kept_and_said_and_takes_no_memory(codec: Codec) -> None:
    disk = log_with(*[(b"k", bytes(MiB))] * 40, codec=codec).one.disk
    before = disk.content(LOG)
    tracemalloc.reset_peak()
    held_bytes, _ = tracemalloc.get_traced_memory()
    report = compacted(disk, within(16 * MiB, planned(disk)))
    _, most_bytes = tracemalloc.get_traced_memory()
    assert most_bytes - held_bytes < 20 * MiB
    assert report.problem_count == 1
    assert "its 40 records take more than the 16777216 bytes of memory" in report.problems[0]
    assert report.groups[0].superseded == 1, "the other batches are cleaned"
    assert report.groups[0].after.bytes > len(before) - 100


@pytest.mark.usefixtures("memory")
def test_a_batch_of_very_many_records_is_kept_and_said_and_takes_no_memory() -> None:
    disk = log_with(*[(b"k", b"")] * 25_000).one.disk
    tracemalloc.reset_peak()
    held_bytes, _ = tracemalloc.get_traced_memory()
    report = compacted(disk, within(4 * MiB, planned(disk)))
    _, most_bytes = tracemalloc.get_traced_memory()
    assert most_bytes - held_bytes < 3 * MiB
    assert "its 25000 records take more" in report.problems[0]


@pytest.mark.usefixtures("memory")
def test_a_batch_that_just_fits_takes_no_more_than_that() -> None:
    disk = log_with(*[(b"k", b"")] * 15_000).one.disk
    tracemalloc.reset_peak()
    held_bytes, _ = tracemalloc.get_traced_memory()
    report = compacted(disk, within(4 * MiB, planned(disk)))
    _, most_bytes = tracemalloc.get_traced_memory()
    assert most_bytes - held_bytes < 5 * MiB
    assert not report.problems
    assert report.groups[0].superseded == 15_001


def test_a_segment_with_a_batch_that_is_too_large_to_be_read_is_left_alone() -> None:
    disk = log_with((b"k", bytes(2 * MiB))).one.disk
    before = disk.content(LOG)
    report = compacted(disk, within(MiB, planned(disk)))
    assert report.left_alone == [0]
    assert "bytes, and the cleaner reads 1048576 at most" in report.problems[0]
    assert disk.content(LOG) == before


def test_a_topic_with_large_messages_has_room_for_them() -> None:
    disk = log_with((b"k", bytes(20 * MiB))).one.disk
    assert planned(disk).batch_memory_bytes == CLEANING_BATCH_MEMORY_BYTES
    report = compacted(disk, planned(disk))
    assert report.problem_count == 1
    report = compacted(disk, planned(disk, config=topic_config(max_message_bytes=21 * MiB)), "second-0")
    assert not report.problems
    assert report.groups[0].after.bytes < 1000
