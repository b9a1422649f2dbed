"""The cleaner's pass: transactions, what may not be touched, what cannot be read, and planted faults in it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from struct import pack_into

import pytest
from support.compaction import (
    DAY_MS,
    HASH_KEY,
    OUT,
    History,
    batches_in,
    check_first_pass,
    check_horizon,
    compacted,
    planned,
    records_in,
)
from support.logs import NAME, NOW_MS, topic_config

from penstock.errors import ConfigError
from penstock.log.compaction import filtering, offset_map
from penstock.log.compaction.cleaning import run_pass
from penstock.log.compaction.maps import offset_map as offset_map_of
from penstock.log.compaction.offset_map import ENTRY_BYTES, LatestOffsets, OffsetMap
from penstock.log.compaction.passes import Pass, SealedSegment, groups_of
from penstock.log.compaction.target import Target
from penstock.log.loading import load
from penstock.records.batch import (
    CONTROL_FLAG,
    CRC_POSITION,
    HEADER_BYTES,
    LENGTH_POSITION,
    LOG_OVERHEAD_BYTES,
    RECORD_COUNT_POSITION,
    BatchHeader,
    computed_crc,
    headers,
)
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from simulator.world.disk import SimulatedDisk

LOG = f"{NAME}/{0:020d}.log"


def sealed(*batches: list[tuple[bytes | None, bytes | None]]) -> History:
    """A log with these batches in its first segment, which is closed."""
    history = History.empty()
    for pairs in batches:
        history.append(pairs)
    return closed(history)


def closed(history: History) -> History:
    history.roll()
    history.append([(b"active", b"")])
    history.one.close()
    return history


def left(history: History, name: str = OUT) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values that are in a log, without the active segment's."""
    return [(each.key, each.value) for each in records_in(history.one.disk, name) if each.key != b"active"]


# Records


def test_records_without_a_key_go_and_are_counted() -> None:
    history = sealed([(None, b"1"), (b"k", b"2"), (None, None)])
    report = compacted(history.one.disk, planned(history.one.disk))
    assert left(history) == [(b"k", b"2")]
    assert report.groups[0].without_key == 2


def test_a_batch_that_loses_all_of_its_records_goes_and_the_last_one_stays_empty() -> None:
    history = sealed([(b"k", b"1")], [(b"k", b"2")], [(None, b"3")])
    report = compacted(history.one.disk, planned(history.one.disk))
    assert [(header.base_offset, header.record_count) for header, _ in batches_in(history.one.disk, OUT)] == [
        (1, 1),
        (2, 0),
        (3, 1),
    ]
    assert report.groups[0].emptied_batches == 1


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_that_loses_records_keeps_its_codec_and_its_times(codec: Codec) -> None:
    history = History.empty()
    history.append([(b"a", b"1" * 50), (b"b", b"2" * 50), (b"c", None)], codec=codec, timestamp_ms=NOW_MS)
    history.append([(b"a", b"3")], timestamp_ms=NOW_MS + 100)
    closed(history)
    compacted(history.one.disk, planned(history.one.disk))
    [(header, _), *_] = batches_in(history.one.disk, OUT)
    assert header.compression is codec
    assert header.record_count == 2
    assert header.delete_horizon_ms == NOW_MS + DAY_MS
    assert header.max_timestamp_ms == NOW_MS + 4
    assert records_in(history.one.disk, OUT)[:2] == history.written[1:3]


def test_a_million_keys_in_a_small_buffer_end_the_pass_and_the_next_ones_go_on() -> None:
    history = History.empty()
    for start in range(0, 4000, 100):
        history.append([(b"%d" % (number % 3000), b"x") for number in range(start, start + 100)])
        if start % 1000 == 900:
            history.roll()
    closed(history)
    disk, name, clean_offset, ends = history.one.disk, NAME, 0, []
    while clean_offset < 4000:
        work = planned(disk, name, clean_offset=clean_offset)
        name = f"after.{len(ends)}-0"
        report = compacted(disk, work, name, buffer_bytes=1000 * ENTRY_BYTES)
        clean_offset = report.end_offset
        ends.append(clean_offset)
    assert len(ends) > 3
    assert left(history, name) == [(b"%d" % (number % 3000), b"x") for number in range(1000, 4000)]


def test_a_map_without_room_for_a_key_is_refused() -> None:
    for buffer_bytes, load_factor in ((47, 0.9), (48, 0.4), (1 << 20, 0.0), (1 << 20, 1.1)):
        with pytest.raises(ConfigError):
            OffsetMap(buffer_bytes, load_factor, HASH_KEY)


def test_a_map_finds_what_was_put_to_its_last_place() -> None:
    offsets = OffsetMap(1000 * ENTRY_BYTES, 1.0, HASH_KEY)
    assert (offsets.slots, offsets.limit) == (997, 996)
    for number in range(offsets.limit):
        offsets.put(b"%d" % number, number)
    offsets.put(b"0", 5000)
    assert [offsets.get(b"%d" % number) for number in range(offsets.limit)] == [5000, *range(1, offsets.limit)]
    assert offsets.get(b"no such key") == -1


# Transactions


def test_aborted_data_go_at_once_and_markers_when_none_is_left_and_their_time_has_passed() -> None:
    history = History.empty()
    history.append([(b"k", b"before")])
    history.append([(b"k", b"aborted"), (b"j", b"aborted")], producer_id=1, transactional=True)
    history.end(1, commit=False)
    history.append([(b"j", b"committed")], producer_id=1, transactional=True)
    history.end(1, commit=True)
    history.append([(b"j", b"after")])
    closed(history)
    disk = history.one.disk
    first = compacted(disk, planned(disk))
    assert left(history) == [(b"k", b"before"), (b"j", b"after")]
    assert first.groups[0].aborted == 2
    kinds = [(header.is_control, header.record_count) for header, _ in batches_in(disk, OUT)]
    assert kinds == [(False, 1), (True, 1), (False, 0), (True, 1), (False, 1), (False, 1)], (
        "both markers and the producer's last data batch"
    )
    assert len(aborted_in(disk, OUT)) == 1
    compacted(disk, planned(disk, OUT), "second-0")
    assert not aborted_in(disk, "second-0"), "the second pass meets no data of it, and sets the marker's horizon"
    compacted(disk, planned(disk, "second-0", now_ms=NOW_MS + DAY_MS - 1), "early-0")
    assert batches_in(disk, "early-0") == batches_in(disk, "second-0")
    compacted(disk, planned(disk, "second-0", now_ms=NOW_MS + DAY_MS), "late-0")
    assert [header.is_control for header, _ in batches_in(disk, "late-0")] == [False, False, True, False, False]


def aborted_in(disk: SimulatedDisk, name: str) -> list[tuple[int, int, int, int]]:
    return load(disk, name, log_start_offset=0, wall_ms=NOW_MS).segments[0].aborted_index.all(disk)


def test_the_index_of_aborted_transactions_keeps_those_that_have_data() -> None:
    """The last batch of a producer is emptied, not removed: its marker stays too, and the entry that goes with it."""
    history = History.empty()
    history.append([(b"k", b"aborted")], producer_id=1, transactional=True)
    history.end(1, commit=False)
    closed(history)
    disk = history.one.disk
    compacted(disk, planned(disk))
    assert aborted_in(disk, OUT) == aborted_in(disk, NAME) == [(1, 0, 1, 2)]


def test_nothing_of_an_open_transaction_or_after_it_is_touched() -> None:
    history = History.empty()
    history.append([(b"k", b"1")])
    history.append([(b"k", b"2")])
    history.roll()
    history.append([(b"k", b"3")])
    history.append([(b"j", b"1")], producer_id=1, transactional=True)
    history.roll()
    history.append([(b"j", b"2")])
    closed(history)
    work = planned(history.one.disk)
    assert work.first_uncleanable_offset == 2, "the segment that holds the last stable offset is left alone as a whole"
    compacted(history.one.disk, work)
    assert left(history) == [(b"k", b"2"), (b"k", b"3"), (b"j", b"1"), (b"j", b"2")]


def test_what_is_younger_than_the_lag_is_not_touched() -> None:
    history = History.empty()
    for number in range(3):
        history.append([(b"k", b"%d" % number)], timestamp_ms=NOW_MS + 1000 * number)
        history.roll()
    closed(history)
    config = topic_config(min_compaction_lag_ms=2000)
    for waited_ms, first in ((1999, 0), (2000, 1), (3000, 2), (4000, 3)):
        assert planned(history.one.disk, config=config, now_ms=NOW_MS + waited_ms).first_uncleanable_offset == first


def test_records_without_timestamps_are_as_young_as_their_file() -> None:
    history = History.empty()
    builder = BatchBuilder()
    builder.append(-1, b"k", b"1")
    history.one.append(builder.build())
    disk = closed(history).one.disk
    [written_ms] = {info.modified_ms for info in disk.list(NAME) if info.name == LOG.rpartition("/")[2]}
    config = topic_config(min_compaction_lag_ms=2000)
    for waited_ms, first in ((1999, 0), (2000, 1)):
        assert planned(disk, config=config, now_ms=written_ms + waited_ms).first_uncleanable_offset == first


@pytest.mark.parametrize("retention_ms", [2**63 - 1, 2**63 - 1 - NOW_MS])
def test_delete_markers_that_are_to_stay_for_ever_stay(retention_ms: int) -> None:
    disk = sealed([(b"a", b"1"), (b"a", None), (b"b", b"2")]).one.disk
    config = topic_config(index_interval_bytes=100, delete_retention_ms=retention_ms)
    before = records_in(disk, NAME)
    compacted(disk, planned(disk, config=config))
    compacted(disk, planned(disk, OUT, config=config, now_ms=NOW_MS + 1000 * 365 * DAY_MS), "later-0")
    assert batches_in(disk, "later-0")[0][0].delete_horizon_ms == 2**63 - 1
    assert records_in(disk, "later-0") == before[1:]


def test_a_segment_that_is_written_does_not_hold_what_was_read_with_its_batches() -> None:
    history = sealed([(b"k", b"1")])
    [(header, data), *_] = batches_in(history.one.disk, NAME)
    segment = Target(history.one.disk, NAME, ".cleaned").begin(0, planned(history.one.disk))
    chunk = bytearray(data)
    with memoryview(chunk) as view:
        segment.append(filtering.Kept(header, view))
    chunk.clear()
    segment.finish(NOW_MS)
    assert history.one.disk.content(LOG + ".cleaned") == data


def test_a_segment_is_written_over_what_an_ended_pass_has_left() -> None:
    history = sealed([(b"k", b"1")])
    disk = history.one.disk
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        disk.write(f"{NAME}/{0:020d}{suffix}.cleaned", 0, [b"left" * 100])
    [(header, data), *_] = batches_in(disk, NAME)
    segment = Target(disk, NAME, ".cleaned").begin(0, planned(disk))
    segment.append(filtering.Kept(header, data))
    segment.finish(NOW_MS)
    assert {info.name: info.size_bytes for info in disk.list(NAME) if info.name.endswith(".cleaned")} == {
        f"{0:020d}.log.cleaned": len(data),
        f"{0:020d}.index.cleaned": 0,
        f"{0:020d}.timeindex.cleaned": 12,
    }


# What cannot be read


def lying(where: int, value: int) -> Callable[[bytearray], None]:
    """Changes a byte of a batch and has its checksum say that this is right."""

    def plant(batch: bytearray) -> None:
        batch[where] = value
        pack_into(">I", batch, CRC_POSITION, computed_crc(batch, 0, len(batch)))

    return plant


def flipped(batch: bytearray) -> None:
    batch[-1] ^= 1


@pytest.mark.parametrize(
    "plant",
    [
        flipped,
        lying(HEADER_BYTES, 0x7E),  # a record beyond the batch
        lying(HEADER_BYTES + 4, 0x40),  # a key beyond its record
        lying(HEADER_BYTES + 3, 0x02),  # an offset beyond the batch
        lying(HEADER_BYTES - 1, 9),  # more records than there are
        lying(22, 0x07),  # a codec that does not exist
        lying(22, 0x04),  # not what the codec makes
    ],
)
def test_a_damaged_batch_is_kept_and_said_and_so_are_the_delete_markers_after_it(
    plant: Callable[[bytearray], None],
) -> None:
    history = sealed([(b"k", b"1")], [(b"k", b"2")], [(b"j", None)], [(b"k", b"3")])
    disk = history.one.disk
    compacted(disk, planned(disk), "first-0")
    whole = bytearray(disk.content(f"first-0/{0:020d}.log"))
    first = batches_in(disk, "first-0")[0][0]
    assert first.record_count == 1
    assert first.base_offset == 2, "the delete marker, with its horizon"
    builder = BatchBuilder(base_offset=1, leader_epoch=0)
    builder.append(NOW_MS, b"k", b"2")
    damaged = builder.build()
    plant(damaged)
    disk.write(f"first-0/{0:020d}.log", 0, [damaged, whole])
    report = compacted(disk, planned(disk, "first-0", now_ms=NOW_MS + 2 * DAY_MS), "second-0")
    assert disk.content(f"second-0/{0:020d}.log") == damaged + whole
    assert report.problem_count == 1
    assert "at offset 1 is kept as it is" in report.problems[0]


@pytest.mark.parametrize("attributes", [0, CONTROL_FLAG])
def test_a_batch_with_fewer_than_no_records_is_kept_and_said(attributes: int) -> None:
    disk = sealed([(b"k", b"1")], [(b"j", b"2")], [(b"i", b"3")]).one.disk
    batches = [bytearray(data) for _, data in batches_in(disk, NAME)[:3]]
    del batches[1][HEADER_BYTES:]
    pack_into(">i", batches[1], LENGTH_POSITION, HEADER_BYTES - LOG_OVERHEAD_BYTES)
    pack_into(">i", batches[1], RECORD_COUNT_POSITION, -1)
    lying(22, attributes)(batches[1])
    disk.write(LOG, 0, batches)
    disk.truncate(LOG, sum(map(len, batches)))
    report = compacted(disk, planned(disk))
    assert report.problems == [f"{LOG}: the batch at offset 1 is kept as it is: invalid record count -1"]
    assert disk.content(f"{OUT}/{0:020d}.log") == b"".join(batches)
    assert (report.groups[0].before.records, report.groups[0].after.records) == (2, 2)


def test_keys_of_a_damaged_batch_remove_nothing() -> None:
    history = sealed([(b"k", b"1"), (b"j", b"1")], [(b"k", b"2"), (b"j", b"2")], [(b"x", b"")])
    disk = history.one.disk
    content = bytearray(disk.content(LOG))
    second = int(batches_in(disk, NAME)[0][0].size_bytes)
    size = batches_in(disk, NAME)[1][0].size_bytes
    batch = content[second : second + size]
    lying(size - 1, 0x02)(batch)  # one header in the last record, where there are no bytes for it
    disk.write(LOG, second, [batch])
    compacted(disk, planned(disk))
    assert disk.content(f"{OUT}/{0:020d}.log") == disk.content(LOG)


@pytest.mark.parametrize(
    ("position", "value", "why"),
    [
        (LENGTH_POSITION, 0x7F, "bytes where"),
        (LENGTH_POSITION + 3, 1, "less than a header"),
        (7, 0, "are not between"),
        (0, 0x10, "are not between"),
        (16, 9, "magic 9"),
    ],
)
def test_a_segment_whose_batches_cannot_be_told_apart_is_left_alone(position: int, value: int, why: str) -> None:
    history = History.empty()
    for number in range(3):
        history.append([(b"k", b"%d" % number)])
        history.append([(b"j", b"%d" % number)])
        history.roll()
    closed(history)
    disk = history.one.disk
    path = f"{NAME}/{2:020d}.log"
    second = batches_in(disk, NAME)[2][0].size_bytes
    disk.write(path, second + position, [bytes([value])])
    report = compacted(disk, planned(disk))
    assert report.left_alone == [2]
    assert report.problem_count == 1
    assert why in report.problems[0]
    assert f"at byte {second}" in report.problems[0]
    assert disk.content(f"{OUT}/{2:020d}.log") == disk.content(path)
    assert [group.base_offsets for group in report.groups] == [[0], [4]]


@pytest.mark.parametrize("make_map", [OffsetMap, offset_map_of])
def test_keys_before_the_place_where_batches_can_no_longer_be_told_apart_remove_nothing(
    make_map: Callable[[int, float, bytes], LatestOffsets],
) -> None:
    history = History.empty()
    history.append([(b"k", b"1"), (b"j", b"1")])
    history.roll()
    history.append([(b"k", b"2")])
    history.append([(b"i", b"2")])
    history.roll()
    history.append([(b"j", b"3")])
    closed(history)
    disk = history.one.disk
    disk.write(f"{NAME}/{2:020d}.log", batches_in(disk, NAME)[1][0].size_bytes + LENGTH_POSITION, [b"\x7f"])
    report = compacted(disk, planned(disk, clean_offset=2), offsets=make_map(1 << 12, 0.9, HASH_KEY))
    assert report.left_alone == [2]
    assert report.keys == 1
    assert [(header.base_offset, header.record_count) for header, _ in batches_of(disk, OUT, 0, 4)] == [(0, 1), (4, 1)]


def test_nothing_is_left_of_what_was_made_of_a_segment_that_is_left_alone() -> None:
    history = History.empty()
    for number in range(2):
        for _ in range(3):
            history.append([(b"%d" % number, b"")])
        history.roll()
    closed(history)
    disk = history.one.disk
    disk.write(LOG, 2 * batches_in(disk, NAME)[0][0].size_bytes + LENGTH_POSITION, [b"\x7f"])
    work = replace(planned(disk, clean_offset=3), chunk_bytes=HEADER_BYTES)
    run_pass(disk, work, OffsetMap(1 << 12, 0.9, HASH_KEY), Target(disk, NAME, ".cleaned"))
    made = [info.name for info in disk.list(NAME) if info.name.endswith(".cleaned")]
    assert made == [f"{3:020d}{suffix}.cleaned" for suffix in (".index", ".log", ".timeindex")]


def batches_of(disk: SimulatedDisk, name: str, *bases: int) -> list[tuple[BatchHeader, bytes]]:
    """The batches of some segments."""
    found = []
    for base in bases:
        data = disk.content(f"{name}/{base:020d}.log")
        found += [(header, data[at : at + header.size_bytes]) for at, header in headers(data)]
    return found


def test_a_segment_that_is_left_alone_parts_the_group_in_which_it_was_met() -> None:
    """It is in the clean part of the log, so that it is read for the first time when its group is copied."""
    history = History.empty()
    for number in range(4):
        history.append([(b"%d" % number, b"")], producer_id=1, transactional=True)
        history.append([(b"j", b"%d" % number)])
        history.end(1, commit=number % 2 == 0)
        history.roll()
    closed(history)
    disk = history.one.disk
    disk.flip_bit(LOG, batches_in(disk, NAME)[0][0].size_bytes + HEADER_BYTES + 3)
    path = f"{NAME}/{6:020d}.log"
    disk.write(path, batches_in(disk, NAME)[6][0].size_bytes + LENGTH_POSITION, [b"\x7f"])
    report = compacted(disk, planned(disk, clean_offset=9))
    assert [group.base_offsets for group in report.groups] == [[0, 3], [9]]
    assert report.left_alone == [6]
    assert [problem.split(":")[0] for problem in report.problems] == [f"{path} at byte 69", LOG]
    assert report.problem_count == 2
    assert disk.content(f"{OUT}/{6:020d}.log") == disk.content(path)
    left = [(header.base_offset, header.record_count) for header, _ in batches_of(disk, OUT, 0, 9)]
    assert left == [(0, 1), (1, 1), (2, 1), (5, 1), (9, 0), (10, 1), (11, 1)]


def test_a_damaged_marker_leaves_the_transaction_after_it_as_it_is() -> None:
    history = History.empty()
    history.append([(b"k", b"aborted")], producer_id=1, transactional=True)
    history.end(1, commit=False)
    history.append([(b"k", b"committed")], producer_id=1, transactional=True)
    history.end(1, commit=True)
    closed(history)
    disk = history.one.disk
    work = planned(disk)
    position = batches_in(disk, NAME)[0][0].size_bytes
    disk.flip_bit(LOG, position + HEADER_BYTES + 3)
    report = run_pass(disk, work, OffsetMap(1 << 12, 0.9, HASH_KEY), None)
    assert report.problem_count == 1
    compacted(disk, work)
    assert [(header.is_control, header.record_count) for header, _ in batches_in(disk, OUT)] == [
        (True, 1),
        (False, 1),
        (True, 1),
        (False, 1),
    ]


# Groups


def test_segments_are_put_together_as_far_as_they_fit() -> None:
    def bases(
        *segments: SealedSegment, segment_bytes: int = 100, index_bytes: int = 100, bytes_max: int | None = None
    ) -> list[list[int]]:
        work = Pass(NAME, segments, 0, segments[-1].end_offset, (), {}, NOW_MS, DAY_MS, segment_bytes, index_bytes, 1)
        return [[segment.base_offset for segment in group] for group in groups_of(work, segments, bytes_max)]

    def segment(base: int, end: int, size: int = 40, index: int = 8, time_index: int = 12) -> SealedSegment:
        return SealedSegment(base, end, size, index, time_index)

    three = [segment(0, 10), segment(10, 20), segment(20, 30)]
    assert bases(*three) == [[0, 10], [20]]
    assert bases(*three, segment_bytes=120) == [[0, 10, 20]]
    assert bases(*three, segment_bytes=120, bytes_max=119) == [[0, 10], [20]]
    assert bases(*three, segment_bytes=120, bytes_max=1) == [[0], [10], [20]]
    assert bases(*three, segment_bytes=120, index_bytes=35) == [[0, 10], [20]]
    assert bases(*three, segment_bytes=120, index_bytes=23) == [[0], [10], [20]]
    assert bases(segment(0, 10), segment(10, 2**31)) == [[0, 10]]
    assert bases(segment(0, 10), segment(10, 2**31 + 1)) == [[0], [10]]
    assert bases(segment(0, 10), segment(10, 2**31 + 1, size=0)) == [[0, 10]]


# The disk


def test_a_dry_run_changes_nothing() -> None:
    history = sealed([(b"k", b"1"), (b"k", b"2")])
    disk = history.one.disk
    changes = disk.changes
    report = run_pass(disk, planned(disk), OffsetMap(1 << 12, 0.9, HASH_KEY), None)
    assert report.groups[0].superseded == 1
    assert disk.changes == changes


def test_what_was_written_survives_a_power_failure() -> None:
    history = sealed([(b"k", b"1"), (b"k", b"2")])
    disk = history.one.disk
    compacted(disk, planned(disk))
    disk.fsync_directory("")
    before = {path: disk.content(path) for path in disk.paths() if path.startswith(OUT)}
    disk.restart()
    assert {path: disk.content(path) for path in disk.paths() if path.startswith(OUT)} == before


def test_a_disk_that_is_full_ends_the_pass() -> None:
    history = sealed([(b"k", b"1"), (b"j", b"2")])
    disk = history.one.disk
    work = planned(disk)
    disk.capacity_bytes = 1
    with pytest.raises(OSError, match="space") as full:
        compacted(disk, work)
    assert full.value.errno == errno.ENOSPC


# Planted faults, each of which the checks above must see


def busy() -> History:
    history = History.empty()
    for number in range(12):
        history.append([(b"a", b"%d" % number), (b"d", None), (b"%d" % number, b"")], producer_id=number % 3)
        if number % 4 == 3:
            history.roll()
    history.append([(b"a", b"the last but one"), (b"a", b"the last"), (b"d", None)])
    return closed(history)


def test_the_checks_pass_without_a_fault() -> None:
    check_first_pass(busy())
    check_horizon(busy(), DAY_MS - 1)


def test_a_horizon_that_is_ignored_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    select = OffsetMap.select

    def dropping(self: OffsetMap, *arguments: object, drop_tombstones: bool) -> object:
        return select(self, *arguments, drop_tombstones=True)  # type: ignore[arg-type]

    monkeypatch.setattr(OffsetMap, "select", dropping)
    with pytest.raises(AssertionError):
        check_first_pass(busy())


@pytest.mark.parametrize("error", [-1, 1])
def test_a_map_that_is_off_by_one_is_caught(error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    get = OffsetMap.get
    monkeypatch.setattr(offset_map.OffsetMap, "get", lambda self, key: get(self, key) + error)
    with pytest.raises(AssertionError):
        check_first_pass(busy())


def test_a_producers_last_batch_that_is_dropped_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering.BatchFilter, "_must_stay", lambda *_: False)
    history = History.empty()
    history.append([(b"k", b"1")], producer_id=5)
    history.append([(b"k", b"2")])
    closed(history)
    with pytest.raises(AssertionError):
        check_first_pass(history)
