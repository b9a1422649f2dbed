"""One partition's log: appends in two phases, reading, rolling, cutting, closing."""

from __future__ import annotations

import pytest
from support.logs import NAME, NOW_MS, OneLog, batch, topic_config

from penstock.errors import ErrorCode, NotResident, RequestError, StorageError
from penstock.log.flushes import deadline_ms
from penstock.log.limits import INDEX_BLOCK_ENTRIES, RECALLED_INDEX_ENTRIES
from penstock.log.operations import Flush, ReplaceFile, Roll, Write
from penstock.log.results import Duplicate
from penstock.records.batch import TimestampType, check_crc, headers, read_header
from penstock.records.compression import Codec
from simulator.world.disk import SimulatedDisk

KIB = 1024


def test_a_batch_is_readable_when_its_write_has_completed_and_not_before() -> None:
    one = OneLog()
    appended = one.log.append_as_leader(batch(b"a", b"b"), 3, NOW_MS)
    assert (appended.base_offset, appended.last_offset) == (0, 1)
    assert (one.log.reserved_end_offset, one.log.log_end_offset) == (2, 0)
    assert one.log.read(0, 1 << 20).slices == []
    one.run()
    assert one.log.log_end_offset == 2
    assert one.told[-1] == ("advanced", 2)
    header = read_header(one.content())
    assert (header.base_offset, header.leader_epoch) == (0, 3)


def test_the_appends_of_one_turn_are_one_write() -> None:
    one = OneLog()
    one.append(batch(b"first"))
    for number in range(5):
        one.log.append_as_leader(batch(b"%d" % number), 0, NOW_MS)
    operations = one.log.take_operations()
    assert [type(operation) for operation in operations] == [Write]
    assert len(operations[0].chunks) == 5
    assert operations[0].inline


def test_offsets_run_on_over_batches_and_turns() -> None:
    one = OneLog()
    for number in range(4):
        assert one.append(batch(*[b"x"] * 3)).base_offset == 3 * number
    assert [header.base_offset for _, header in headers(one.content())] == [0, 3, 6, 9]


def test_a_full_segment_is_rolled_before_the_batch_that_does_not_fit() -> None:
    one = OneLog(topic_config(segment_bytes=300))
    for _ in range(5):
        one.append(batch(b"x" * 50))
    assert [segment.base_offset for segment in one.log.segments.all] == [0, 2, 4]
    assert one.disk.exists(f"{NAME}/{2:020d}.snapshot")
    assert one.log.recovery_point == 4
    assert one.content().count(b"x" * 50) == 5


def test_a_roll_waits_for_the_writes_before_it_and_its_flush_holds_up_nothing() -> None:
    one = OneLog(topic_config(segment_bytes=300))
    one.append(batch(b"x" * 50))
    for _ in range(3):
        one.log.append_as_leader(batch(b"x" * 50), 0, NOW_MS)
    one.take()
    assert [type(operation) for operation in one.taken] == [Write, Roll, Write]
    assert {operation.order for operation in one.taken} == {NAME}
    while one.taken:
        one.run_one()
    [flush] = one.log.take_operations()
    assert isinstance(flush, Flush)
    assert flush.order != NAME


def test_a_segment_rolls_by_the_time_of_its_records() -> None:
    one = OneLog(topic_config(segment_ms=1000))
    one.append(batch(b"a", timestamp_ms=NOW_MS))
    one.append(batch(b"b", timestamp_ms=NOW_MS + 1000))
    one.append(batch(b"c", timestamp_ms=NOW_MS + 1001))
    assert one.log.segments.bases == [0, 2]


def test_a_segment_rolls_when_its_index_is_full() -> None:
    one = OneLog(topic_config(segment_index_bytes=36, index_interval_bytes=0))
    for number in range(6):
        one.append(batch(b"a", timestamp_ms=NOW_MS + number))
    assert one.log.segments.bases == [0, 3]


def test_a_segment_rolls_when_the_offset_is_too_far_from_its_base() -> None:
    one = OneLog()
    one.append(batch(b"a"))
    one.log.append_as_follower(batch(b"b", base_offset=2**31 + 5, leader_epoch=0), NOW_MS)
    one.run()
    assert one.log.segments.bases == [0, 2**31 + 5]
    assert one.log.log_end_offset == 2**31 + 6


def test_a_duplicate_is_answered_with_the_first_offsets() -> None:
    one = OneLog()
    one.append(batch(b"a", b"b", producer=(7, 0, 0)))
    one.append(batch(b"c", producer=(7, 0, 2)))
    again = one.log.append_as_leader(batch(b"a", b"b", producer=(7, 0, 0)), 0, NOW_MS)
    assert again == Duplicate(0, 1, NOW_MS)
    assert one.log.take_operations() == []


def test_a_batch_out_of_sequence_is_refused_and_changes_nothing() -> None:
    one = OneLog()
    one.append(batch(b"a", producer=(7, 0, 0)))
    with pytest.raises(RequestError) as refused:
        one.log.append_as_leader(batch(b"c", producer=(7, 0, 2)), 5, NOW_MS)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert one.log.take_operations() == []
    assert one.log.leader_epochs.latest == 0
    one.append(batch(b"b", producer=(7, 0, 1)))


def test_a_failed_write_fails_the_log_and_undoes_what_was_reserved() -> None:
    disk = SimulatedDisk()
    one = OneLog(disk=disk)
    one.append(batch(b"a", producer=(7, 0, 0)))
    before = dict(one.log.producers.producers)
    disk.capacity_bytes = 0
    one.log.append_as_leader(batch(b"b", producer=(7, 0, 1)), 0, NOW_MS)
    one.take()
    one.log.append_as_leader(batch(b"c", producer=(7, 0, 2)), 0, NOW_MS)
    one.take()
    one.run_one()
    disk.capacity_bytes = None
    one.run()
    assert [event for event, _ in one.told].count("failed") == 1
    assert one.log.log_end_offset == one.log.reserved_end_offset == 1
    assert one.log.producers.producers == before
    with pytest.raises(StorageError):
        one.log.append_as_leader(batch(b"b", producer=(7, 0, 1)), 0, NOW_MS)
    assert disk.size(f"{NAME}/{0:020d}.log") == len(one.content()), "nothing is written after the hole"


def test_flush_messages_has_the_write_fsynced_before_it_counts() -> None:
    disk = SimulatedDisk()
    one = OneLog(topic_config(flush_messages=1), disk)
    one.append(batch(b"a"))
    assert one.log.recovery_point == 1
    fsyncs = disk.fsyncs
    one.append(batch(b"b"))
    assert disk.fsyncs == fsyncs + 1
    assert one.log.recovery_point == 2


def test_a_flush_covers_what_was_prepared_before_it() -> None:
    one = OneLog()
    one.append(batch(b"a"))
    one.log.append_as_leader(batch(b"b"), 0, NOW_MS)
    one.log.flush(NOW_MS)
    one.run()
    assert one.told[-1] == ("flushed", 2)
    one.log.flush(NOW_MS)
    assert one.log.take_operations() == []


def test_flush_ms_asks_for_a_flush_after_the_oldest_unflushed_write() -> None:
    one = OneLog(topic_config(flush_ms=500))
    assert deadline_ms(one.log) is None
    one.append(batch(b"a"))
    one.now_ms += 100
    one.append(batch(b"b"))
    assert deadline_ms(one.log) == NOW_MS + 500
    one.log.flush(one.now_ms)
    one.run()
    assert deadline_ms(one.log) is None


def test_log_append_time_is_written_into_batch_and_checksum() -> None:
    one = OneLog(topic_config(message_timestamp_type="LogAppendTime"))
    one.now_ms = NOW_MS + 77
    appended = one.append(batch(b"a", timestamp_ms=5))
    assert appended.log_append_time_ms == NOW_MS + 77
    header = read_header(one.content())
    assert header.max_timestamp_ms == NOW_MS + 77
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    check_crc(one.content(), 0, header)


# Reading


def filled(count: int = 100, **overrides: int) -> OneLog:
    """A log of `count` batches of two records of 100 bytes, in several segments."""
    one = OneLog(topic_config(segment_bytes=4 * KIB, index_interval_bytes=700, **overrides))
    for number in range(count):
        one.append(batch(b"%100d" % number, b"x" * 100, timestamp_ms=NOW_MS + 10 * number, step_ms=5))
    assert len(one.log.segments.all) > 3
    return one


def test_a_read_begins_with_the_batch_that_holds_the_offset() -> None:
    one = filled()
    for offset in range(200):
        one.log.segments.forget_positions()
        found = one.log.read(offset, 1)
        data = one.disk.read(found.slices[0].path, found.slices[0].position, found.slices[0].length)
        header = read_header(data)
        assert header.base_offset == offset // 2 * 2
        assert found.size_bytes == header.size_bytes
        assert found.next_offset == header.next_offset


@pytest.mark.parametrize("max_bytes", [1, 300, 1000, 3000, 1 << 20])
def test_reading_on_gives_every_batch_once_within_the_limit(max_bytes: int) -> None:
    one = filled()
    everything = one.content(max_bytes=max_bytes)
    assert [header.base_offset for _, header in headers(everything)] == list(range(0, 200, 2))
    assert one.log.read(0, max_bytes).size_bytes <= max(max_bytes, 300)


def test_a_first_batch_larger_than_the_limit_is_left_out_unless_one_is_wanted() -> None:
    one = filled()
    found = one.log.read(0, 10, at_least_one=False)
    assert (found.slices, found.size_bytes, found.next_offset) == ([], 0, 0)
    assert one.log.read(0, 10).size_bytes > 10


def test_a_read_stops_at_the_upper_offset() -> None:
    one = filled()
    for upper in range(0, 201, 2):
        one.log.segments.forget_positions()
        offsets = [header.base_offset for _, header in headers(one.content(upper_offset=upper))]
        assert offsets == list(range(0, upper, 2))


def test_reading_outside_the_log_is_out_of_range() -> None:
    one = filled()
    one.log.advance_log_start(10, 200)
    for offset in (-1, 9, 201):
        with pytest.raises(RequestError) as refused:
            one.log.read(offset, 100)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert one.log.read(200, 100).slices == []


def test_a_consumer_that_goes_on_where_it_was_reads_no_header_again() -> None:
    disk = SimulatedDisk()
    one = OneLog(disk=disk)
    for _ in range(50):
        one.append(batch(b"x" * 100))
    at = one.log.read(0, 1000).next_offset
    disk.read_bytes.clear()
    one.log.read(at, 1 << 20)
    assert disk.read_bytes == {}


def test_a_cold_lookup_says_what_it_needs_and_can_be_repeated() -> None:
    disk = SimulatedDisk()
    one = OneLog(topic_config(segment_bytes=4 * KIB, index_interval_bytes=700), disk)
    for _ in range(60):
        one.append(batch(b"x" * 100))
    one.reopen()
    disk.cold = True
    for _ in range(10):
        try:
            found = one.log.read(7, 200)
            break
        except NotResident as missing:
            disk.read(missing.path, missing.position, missing.length)
    assert found.next_offset == 8


@pytest.mark.parametrize("codec", list(Codec))
def test_the_first_record_at_a_time_is_found_exactly(codec: Codec) -> None:
    one = OneLog(topic_config(segment_bytes=2 * KIB, index_interval_bytes=300))
    for number in range(50):
        one.append(
            batch(b"%30d" % number, b"b" * 30, b"c", timestamp_ms=NOW_MS + 100 * number, step_ms=10, codec=codec)
        )
    for offset in range(150):
        at_ms = NOW_MS + 100 * (offset // 3) + 10 * (offset % 3)
        found = one.log.offset_for_timestamp(at_ms - 1)
        assert found is not None
        assert (found.offset, found.timestamp_ms, found.leader_epoch) == (offset, at_ms, 0)
    assert one.log.offset_for_timestamp(NOW_MS + 10_000) is None


def test_the_largest_timestamp_is_found_wherever_it_is() -> None:
    one = OneLog(topic_config(segment_bytes=2 * KIB, index_interval_bytes=300))
    for number in range(50):
        late = 5000 if number == 20 else 0
        one.append(batch(b"a" * 30, b"b" * 30, timestamp_ms=NOW_MS + number + late, step_ms=1))
    found = one.log.segments.offset_of_max_timestamp()
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (41, NOW_MS + 5021)


@pytest.mark.parametrize("rolls", [False, True])
def test_the_largest_timestamp_is_that_of_what_can_be_read(rolls: bool) -> None:
    one = OneLog(topic_config(segment_bytes=250) if rolls else None)
    for number in range(3):
        one.append(batch(b"%100d" % number, timestamp_ms=NOW_MS + number))
    one.log.append_as_leader(batch(b"%100d" % 3, timestamp_ms=NOW_MS + 3), 0, NOW_MS)
    for expected in (2, 3):
        found = one.log.segments.offset_of_max_timestamp()
        assert found is not None
        assert found.offset == expected
        one.run()


# Cutting


@pytest.mark.parametrize("target", [0, 1, 2, 13, 50, 98, 199])
def test_a_truncated_log_ends_with_the_last_whole_batch_before_the_cut(target: int) -> None:
    one = filled()
    whole = target // 2 * 2
    assert one.log.truncate_to(target, NOW_MS)
    assert one.log.log_end_offset == target
    with pytest.raises(RequestError):
        one.log.append_as_leader(batch(b"x"), 0, NOW_MS)
    one.run()
    assert one.told[-1] == ("truncated", whole)
    assert [header.base_offset for _, header in headers(one.content())] == list(range(0, whole, 2))
    assert one.append(batch(b"new")).base_offset == whole
    one.reopen()
    assert one.log.log_end_offset == whole + 1
    assert [header.base_offset for _, header in headers(one.content())] == list(range(0, whole + 1, 2))


def test_a_truncation_into_the_batch_of_the_log_start_leaves_an_empty_log_there() -> None:
    one = filled()
    one.log.advance_log_start(51, 200)
    one.log.truncate_to(51, NOW_MS)
    one.run()
    assert (one.log.log_start_offset, one.log.log_end_offset) == (51, 51)
    one.reopen()
    assert (one.log.log_start_offset, one.log.log_end_offset) == (51, 51)


def test_a_gap_between_batches_is_none_between_segments() -> None:
    one = OneLog(topic_config(segment_bytes=300))
    for number in range(5):
        one.log.append_as_follower(batch(b"a" * 150, base_offset=10 * number, leader_epoch=0), NOW_MS)
        one.run()
    assert one.log.segments.bases == [0, 1, 11, 21, 31]
    assert [header.base_offset for _, header in headers(one.content())] == [0, 10, 20, 30, 40]


def test_truncating_above_the_end_does_nothing() -> None:
    one = filled()
    assert not one.log.truncate_to(200, NOW_MS)
    assert one.log.take_operations() == []


def test_a_truncation_waits_for_the_writes_before_it() -> None:
    one = filled()
    one.log.append_as_leader(batch(b"a"), 0, NOW_MS)
    one.log.append_as_leader(batch(b"b"), 0, NOW_MS)
    one.log.truncate_to(201, NOW_MS)
    assert one.log.log_end_offset == 200
    one.run()
    assert one.log.log_end_offset == 201


def test_a_log_can_start_over_at_any_offset() -> None:
    one = filled()
    one.log.truncate_fully_and_start_at(1000, NOW_MS)
    one.run()
    assert (one.log.log_start_offset, one.log.log_end_offset, one.log.segments.bases) == (1000, 1000, [1000])
    assert one.append(batch(b"a")).base_offset == 1000
    one.reopen()
    assert one.log.log_end_offset == 1001


def test_retention_by_size_keeps_at_least_that_much() -> None:
    one = filled(retention_bytes=6 * KIB, retention_ms=-1)
    one.log.delete_old_segments(NOW_MS, 200)
    one.run()
    assert 6 * KIB <= one.log.size_bytes < 10 * KIB
    assert one.log.log_start_offset == one.log.segments.bases[0] > 0
    assert ("start moved", one.log.log_start_offset) in one.told
    assert all(path.endswith(".deleted") and one.disk.exists(path) for path in one.files_deleted)


def test_retention_by_time_takes_the_active_segment_too() -> None:
    one = filled(retention_ms=1000)
    assert one.log.delete_old_segments(NOW_MS + 1200, 200) < len(one.log.segments.bases)
    one.run()
    one.log.delete_old_segments(NOW_MS + 1_000_000, 200)
    one.run()
    assert (one.log.segments.bases, one.log.log_start_offset, one.log.log_end_offset) == ([200], 200, 200)
    assert one.append(batch(b"a")).base_offset == 200


def test_nothing_above_the_high_watermark_is_deleted() -> None:
    one = filled(retention_ms=1)
    one.log.delete_old_segments(NOW_MS + 1_000_000, one.log.segments.bases[2] - 1)
    assert one.log.log_start_offset == one.log.segments.bases[0] < one.log.segments.bases[2] - 1


def test_deleted_records_are_gone_at_once_and_their_segments_at_the_next_retention() -> None:
    one = filled(retention_ms=-1)
    third = one.log.segments.bases[2]
    assert one.log.advance_log_start(third + 1, 200)
    assert not one.log.advance_log_start(third, 200)
    with pytest.raises(RequestError):
        one.log.advance_log_start(201, 200)
    assert one.log.delete_old_segments(NOW_MS, 200) == 2
    one.run()
    assert one.log.log_start_offset == third + 1


# Leader epochs


def test_an_epoch_is_in_the_file_before_its_first_record_and_not_without_one() -> None:
    one = OneLog()
    one.append(batch(b"x"), leader_epoch=3)
    one.log.start_epoch(4)
    assert one.log.leader_epochs.entries() == [(3, 0), (4, 1)]
    assert not one.log.files.outstanding, "a leader to whom nobody writes has no file to write"
    one.log.append_as_leader(batch(b"x"), 4, NOW_MS)
    assert [type(operation) for operation in one.log.take_operations()] == [ReplaceFile, Write]
    one = OneLog()
    one.append(batch(b"x"), leader_epoch=3)
    one.log.start_epoch(4)
    one.reopen()
    assert one.log.leader_epochs.entries() == [(3, 0)]
    one.log.start_epoch(4)
    one.append(batch(b"x"), leader_epoch=4)
    one.reopen()
    assert one.log.leader_epochs.entries() == [(3, 0), (4, 1)]


# Stopping and starting


def test_a_closed_log_opens_as_it_was() -> None:
    one = OneLog(topic_config(segment_bytes=2 * KIB, index_interval_bytes=300))
    for number in range(60):
        one.append(batch(b"x" * 30, producer=(number % 3, 0, number // 3)), leader_epoch=number // 20)
    before = one.content()
    log = one.log
    one.reopen()
    assert one.content() == before
    assert one.log.segments.bases == log.segments.bases
    assert one.log.leader_epochs.entries() == log.leader_epochs.entries() == [(0, 0), (1, 20), (2, 40)]
    assert one.log.producers.producers.keys() == log.producers.producers.keys()
    assert one.log.segments.all[-1].largest_timestamp_ms == log.segments.all[-1].largest_timestamp_ms
    assert one.append(batch(b"x", producer=(0, 0, 20))).base_offset == 60


@pytest.mark.parametrize("step_ms", [1, 0], ids=["times rise", "the first has the latest time"])
def test_after_a_clean_stop_a_start_reads_only_the_ends_of_the_files(step_ms: int) -> None:
    disk = SimulatedDisk()
    one = OneLog(topic_config(segment_bytes=256 * KIB), disk)
    for number in range(600):
        one.append(batch(b"x" * 1000, producer=(1, 0, number), timestamp_ms=NOW_MS + step_ms * number))
    one.close()
    disk.read_bytes.clear()
    one.open(recovery_point=600)
    active = one.log.segments.all[-1]
    index_bytes = disk.read_bytes[active.offset_index.path]
    if step_ms:  # the last entry, and the one from which its producers' batches are recalled
        assert index_bytes == 2 * 8
    else:  # and those among which the latest time is looked up
        assert index_bytes <= (2 + INDEX_BLOCK_ENTRIES) * 8
    assert disk.read_bytes == {
        active.offset_index.path: index_bytes,
        active.time_index.path: 12,
        active.log_path: disk.read_bytes[active.log_path],
        f"{NAME}/{600:020d}.snapshot": disk.size(f"{NAME}/{600:020d}.snapshot"),
        f"{NAME}/leader-epoch-checkpoint": disk.size(f"{NAME}/leader-epoch-checkpoint"),
    }
    assert disk.read_bytes[active.log_path] <= (RECALLED_INDEX_ENTRIES + 4) * 4 * KIB + 2 * len(batch(b"x" * 1000))


def test_closing_what_has_not_changed_writes_nothing() -> None:
    disk = SimulatedDisk()
    one = OneLog(disk=disk)
    one.append(batch(b"a"))
    one.reopen()
    changes = disk.changes
    one.close()
    assert disk.changes == changes


def test_an_unused_log_has_no_files_until_it_is_rolled() -> None:
    one = OneLog()
    one.close()
    assert one.disk.list(NAME) == []
    one.open()
    one.log.roll(NOW_MS)
    one.run()
    assert [info.name[-6:] for info in one.disk.list(NAME)] == [".index", "00.log", "eindex"]
