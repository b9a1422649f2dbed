"""A log that a broker of before Kafka 0.11 began: recovered, looked up, cut, replicated and checked like any other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random
from struct import pack

import pytest
from support.legacy import GZIP, Kept, message, message_set
from support.logs import NAME, NOW_MS, OneLog, batch, topic_config
from support.planted import checked, contents, flipped, mutated, said
from support.upgraded import (
    EPOCH,
    OLD_MS,
    Entry,
    content,
    decoded,
    first_last_offset,
    kept,
    last_offsets,
    put_segments,
    upgraded,
)

from penstock.errors import CorruptRecordError, ErrorCode, InvalidRecordError, RequestError
from penstock.log import lookup
from penstock.log.dump import BatchDescription, Problem, describe_log, verify_offset_index, verify_time_index
from penstock.log.loading import OpenArguments
from penstock.log.lookup import NotWalked
from penstock.log.names import LOG, OFFSET_INDEX, TIME_INDEX, file_name
from penstock.log.rebuilding import Rebuilding
from penstock.log.recovery import OffsetRange, RecoveryReport, recover_log
from penstock.log.walks import FoundOffset
from penstock.records.batch import NO_TIMESTAMP
from simulator.world.disk import SimulatedDisk

INTERVAL_BYTES = 300
CONFIG = topic_config(index_interval_bytes=INTERVAL_BYTES)
SOME = upgraded(seed=1)
SEGMENTS = [SOME[:25], SOME[25:70], SOME[70:]]
"""Format 0; formats 0 and 1; format 1 and batches."""


def recovered(segments: Sequence[Sequence[Entry]], tail: bytes = b"") -> tuple[OneLog, RecoveryReport]:
    """The log after a start that found nothing but these files of records, the last one with a tail."""
    one = OneLog(CONFIG, SimulatedDisk())
    put_segments(one.disk, segments)
    if tail:
        last = f"{NAME}/{file_name(segments[-1][0].records[0].offset, LOG)}"
        one.disk.write(last, one.disk.size(last), [tail])
    report = recover_log(one.disk, OpenArguments(NAME, CONFIG, 0, 0, NOW_MS))
    one.open(recovery_point=report.recovery_point)
    return one, report


@pytest.fixture
def one() -> OneLog:
    return recovered(SEGMENTS)[0]


def expected_indexes(segment: Sequence[Entry]) -> tuple[bytes, bytes]:
    """As Apache Kafka's `LogSegment.recover` makes them."""
    base = segment[0].records[0].offset
    offsets, times = b"", b""
    position = indexed = 0
    largest, in_index = (NO_TIMESTAMP, base), NO_TIMESTAMP
    for entry in segment:
        time_ms = max(record.timestamp_ms for record in entry.records)
        if time_ms > largest[0]:
            largest = time_ms, entry.last_offset
        if position - indexed > INTERVAL_BYTES:
            offsets += pack(">ii", entry.last_offset - base, position)
            if largest[0] > in_index:
                in_index = largest[0]
                times += pack(">qi", largest[0], largest[1] - base)
            indexed = position
        position += len(entry.data)
    if largest[0] > in_index:
        times += pack(">qi", largest[0], largest[1] - base)
    return offsets, times


# Recovery


def test_a_recovery_keeps_all_of_it_and_makes_the_indexes_that_kafka_makes() -> None:
    one, report = recovered(SEGMENTS)
    assert (report.cut_bytes, report.lost, report.log_end_offset) == (0, [], SOME[-1].last_offset + 1)
    for segment in SEGMENTS:
        path = f"{NAME}/{file_name(segment[0].records[0].offset, LOG)}"
        assert one.disk.content(path) == content(segment)
        indexes = (one.disk.content(path.replace(LOG, suffix)) for suffix in (OFFSET_INDEX, TIME_INDEX))
        assert tuple(indexes) == expected_indexes(segment)
        assert expected_indexes(segment)[0]
    first_batch = next(entry for entry in SOME if entry.records[0].timestamp_ms >= NOW_MS)
    assert one.log.leader_epochs.entries() == [(EPOCH, first_batch.records[0].offset)]
    assert not one.log.producers.producers


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("left", [1, 11, 16, 17, 25, 26, -1])
def test_a_torn_message_at_the_end_is_cut(magic: int, left: int) -> None:
    end = SEGMENTS[0][-1].last_offset + 1
    torn = message(end, None, b"v" * 30, magic=magic)[:left]
    one, report = recovered(SEGMENTS[:1], torn)
    assert (report.cut_bytes, report.lost) == (len(torn), [])
    assert one.content() == content(SEGMENTS[0])
    assert one.append(batch(b"x", producer=(7, 0, 0))).base_offset == end


@pytest.mark.parametrize("magic", [0, 1])
def test_the_shortest_message_there_can_be_is_kept(magic: int) -> None:
    end = SEGMENTS[0][-1].last_offset + 1
    last = message(end, None, None, magic=magic) + message(end + 1, None, None, magic=magic)
    one, report = recovered(SEGMENTS[:1], last)
    assert (report.cut_bytes, report.log_end_offset) == (0, end + 2)
    assert one.content(end) == last
    assert one.content(end + 1) == last[len(last) // 2 :]
    one.close()
    assert one.open(recovery_point=end + 2).log_end_offset == end + 2


@pytest.mark.parametrize("seed", range(6))
def test_intact_messages_after_a_damaged_one_are_kept_aside_and_their_offsets_named(seed: int) -> None:
    some = upgraded(seed, formats=(seed % 2,), batches=3)
    victim = 7 + seed
    position = len(content(some[:victim]))
    data = bytearray(content(some))
    data[position + 20] ^= 4
    one = OneLog(CONFIG, SimulatedDisk())
    path = f"{NAME}/{file_name(0, LOG)}"
    one.disk.write(path, 0, [data])
    report = recover_log(one.disk, OpenArguments(NAME, CONFIG, 0, 0, NOW_MS))
    assert report.log_end_offset == some[victim - 1].last_offset + 1
    (lost,) = report.lost
    assert some[victim].last_offset < lost.first <= some[victim + 1].last_offset
    assert lost == OffsetRange(lost.first, some[-1].last_offset + 1)
    assert one.disk.content(f"{path}.corrupt") == bytes(data[position:])
    assert one.disk.content(path) == bytes(data[:position])


def test_a_search_after_damage_ends_where_lengths_lie_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.log import recovery

    good = content(SEGMENTS[0])
    lies = pack(">qiIb", 1 << 20, 400, 0, 1) * 40
    tail = b"\xff" * 30 + lies + bytes(500)
    last = message(1 << 20, None, b"intact")
    read: list[int] = []
    real = recovery.is_valid
    monkeypatch.setattr(recovery, "is_valid", lambda *found: (read.append(found[3].size_bytes), real(*found))[1])
    disk = recovered([SEGMENTS[0]])[0].disk
    path = f"{NAME}/{file_name(0, LOG)}"
    disk.write(path, len(good), [tail + last])
    end = disk.size(path)
    assert recovery.lost_batches(disk, path, len(good), end, 100) == OffsetRange(1 << 20, (1 << 20) + 1)
    assert len(read) > 30
    monkeypatch.setattr(recovery, "LEGACY_SEARCHED_BYTES_MAX", 2_000)
    read.clear()
    assert recovery.lost_batches(disk, path, len(good), end, 100) == OffsetRange(1 << 20, (1 << 20) + 1)
    assert 0 < sum(read[:-1]) <= 2_000, "a smaller one is still found"


def damaged(seed: int) -> bytes:
    """The only segment of a log, with one to three things done to it that disks and hands do."""
    random = Random(seed)
    data = content(upgraded(seed, messages=12, batches=6))
    for _ in range(random.randrange(1, 4)):
        data = mutated(data, random)
    return data


def check_that_a_damaged_log_is_usable(seed: int) -> None:
    """What is left of it are entries that were in it, up to a place; a second recovery finds nothing more to do."""
    data = damaged(seed)
    one = OneLog(CONFIG, SimulatedDisk())
    one.disk.write(f"{NAME}/{file_name(0, LOG)}", 0, [data])
    report = recover_log(one.disk, OpenArguments(NAME, CONFIG, 0, 0, NOW_MS))
    after = contents(one.disk)
    again = recover_log(one.disk, OpenArguments(NAME, CONFIG, 0, 0, NOW_MS))
    assert (again.cut_bytes, again.log_end_offset) == (0, report.log_end_offset)
    assert contents(one.disk) == after
    one.open(recovery_point=report.recovery_point)
    left = one.content(max_bytes=500)
    assert data.startswith(left)
    for offset in range(0, report.log_end_offset, 1 + report.log_end_offset // 50):
        one.log.read(offset, 1)
    for time_ms in range(OLD_MS, OLD_MS + 1000, 100):
        with suppress(InvalidRecordError, CorruptRecordError, NotWalked):
            one.log.offset_for_timestamp(time_ms)
    one.append(batch(b"new"), leader_epoch=EPOCH)
    assert last_offsets(one.content())[-1] == report.log_end_offset


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_log_is_recovered_to_where_it_can_be_read(seed: int) -> None:
    check_that_a_damaged_log_is_usable(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 5_100, 100))
def test_many_damaged_logs_are_recovered_to_where_they_can_be_read(seed: int) -> None:
    for each in range(seed, seed + 100):
        check_that_a_damaged_log_is_usable(each)


def test_after_a_clean_stop_it_opens_as_it_was(one: OneLog) -> None:
    end = one.log.log_end_offset
    one.append(batch(b"new", producer=(7, 0, 0)), leader_epoch=EPOCH + 1)
    log = one.reopen()
    assert log.log_end_offset == end + 1
    assert last_offsets(one.content()) == [*(entry.last_offset for entry in SOME), end]
    assert log.leader_epochs.entries()[-1] == (EPOCH + 1, end)


def test_the_active_segment_may_be_old_messages_alone() -> None:
    one, _ = recovered(SEGMENTS[:2])
    active = one.log.segments.all[-1]
    one.close()
    one.open(recovery_point=one.log.recovery_point)
    again = one.log.segments.all[-1]
    assert again.largest_timestamp_ms == max(record.timestamp_ms for record in kept(SEGMENTS[1]))
    assert (again.base_offset, again.rolling_timestamp_ms) == (active.base_offset, -1)
    appended = one.append(batch(b"new"), leader_epoch=1)
    assert appended.base_offset == SEGMENTS[1][-1].last_offset + 1
    assert one.log.leader_epochs.entries() == [(1, appended.base_offset)]


# Reading


def test_every_offset_is_found(one: OneLog) -> None:
    ends = [entry.last_offset for entry in SOME]
    for offset in range(one.log.log_end_offset):
        found = one.log.read(offset, 1)
        assert first_last_offset(bytes(one.log.read_bytes(offset, 1))) == min(end for end in ends if end >= offset)
        assert found.size_bytes == len(SOME[ends.index(min(end for end in ends if end >= offset))].data)


@pytest.mark.parametrize("max_bytes", [1, 150, 700, 5_000, 1 << 20])
def test_reads_of_any_size_come_to_the_same_bytes(one: OneLog, max_bytes: int) -> None:
    assert one.content(max_bytes=max_bytes) == content(SOME)
    assert decoded(one.content(max_bytes=max_bytes)) == kept(SOME)


def test_a_read_ends_before_the_offset_that_it_may_go_to(one: OneLog) -> None:
    for number, entry in enumerate(SOME, 1):
        assert one.content(0, entry.last_offset + 1) == content(SOME[:number])


def first_at(time_ms: int, from_offset: int = 0) -> FoundOffset | None:
    for entry in SOME:
        for record in entry.records:
            if record.timestamp_ms >= time_ms and record.offset >= from_offset:
                epoch = EPOCH if record.timestamp_ms >= NOW_MS else -1
                return FoundOffset(record.offset, record.timestamp_ms, epoch)
    return None


def test_a_time_is_looked_up_exactly_also_inside_a_wrapper(one: OneLog) -> None:
    times = {record.timestamp_ms + late for record in kept(SOME) if record.timestamp_ms > 0 for late in (-1, 0, 1)}
    assert len(times) > 100
    for time_ms in sorted(times | {1, NOW_MS * 2}):
        assert one.log.offset_for_timestamp(time_ms) == first_at(time_ms), time_ms
    one.log.advance_log_start(first_at(OLD_MS).offset + 3, one.log.log_end_offset)  # type: ignore[union-attr]
    assert one.log.offset_for_timestamp(OLD_MS) == first_at(OLD_MS, one.log.log_start_offset)


def test_the_largest_time_is_found_and_none_where_no_message_has_one() -> None:
    with_times, _ = recovered([SOME[25:80]])
    largest = max(record.timestamp_ms for record in kept(SOME[25:80]))
    found = with_times.log.segments.offset_of_max_timestamp()
    assert found == next(
        FoundOffset(record.offset, largest, -1) for record in kept(SOME[25:80]) if record.timestamp_ms == largest
    )
    without, _ = recovered([SEGMENTS[0]])
    assert without.log.segments.offset_of_max_timestamp() is None
    assert without.log.offset_for_timestamp(1) is None


def test_a_wrapper_that_unpacks_to_much_is_looked_through_in_the_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [Kept(number, OLD_MS + number, None, bytes(1000)) for number in range(100)]
    one, _ = recovered([[Entry(message_set("aiokafka", 1, GZIP, some), some)]])
    assert one.log.segments.all[0].size_bytes < lookup.LOOKED_UP_INLINE_MAX_BYTES
    with pytest.raises(NotWalked) as missing:
        one.log.offset_for_timestamp(OLD_MS + 60)
    missing.value.was_read(missing.value.read(one.disk))
    assert one.log.offset_for_timestamp(OLD_MS + 60) == FoundOffset(60, OLD_MS + 60, -1)
    monkeypatch.setattr(lookup, "LOOKED_UP_UNPACKED_MAX_BYTES", 10_000)
    assert isinstance(missing.value.read(one.disk), InvalidRecordError)


# Retention, truncation, followers


def test_age_is_that_of_the_records_or_without_times_that_of_the_file(one: OneLog) -> None:
    times = [segment.retention_time_ms(one.disk) for segment in one.log.segments.all]
    assert times[1:] == [max(record.timestamp_ms for record in kept(segment)) for segment in SEGMENTS[1:]]
    assert times[0] == one.log.segments.all[0].modified_ms
    one.log.segments.all[0].modified_ms = OLD_MS
    one.log.config = topic_config(retention_ms=NOW_MS - OLD_MS)
    assert one.delete_old_segments(one.log.log_end_offset, NOW_MS) == 0
    assert one.delete_old_segments(one.log.log_end_offset, NOW_MS + 2_000) == 2
    one.run()
    assert one.log.log_start_offset == SEGMENTS[2][0].records[0].offset
    assert one.content() == content(SEGMENTS[2])


@pytest.mark.parametrize("number", [0, 3, 24, 25, 40, 69, 70, 85])
def test_a_cut_takes_the_wrapper_that_it_goes_through_whole(number: int) -> None:
    for offset in sorted({SOME[number].records[0].offset, SOME[number].last_offset}):
        one, _ = recovered(SEGMENTS)
        one.log.truncate_to(offset, NOW_MS)
        one.run()
        assert one.content() == content(SOME[:number])
        assert one.log.log_end_offset == (SOME[number - 1].last_offset + 1 if number else 0)
        assert not checked(one.disk).findings.problems, said(checked(one.disk))
        one.append(batch(b"next"), leader_epoch=EPOCH + 1)
        assert decoded(one.content())[:-1] == kept(SOME[:number])


@pytest.mark.parametrize("max_bytes", [1, 400, 1 << 20])
def test_a_follower_appends_what_its_leader_has_as_it_is(one: OneLog, max_bytes: int) -> None:
    follower = OneLog(topic_config(index_interval_bytes=INTERVAL_BYTES, segment_bytes=4_000), SimulatedDisk())
    while follower.log.log_end_offset < one.log.log_end_offset:
        data = one.log.read_bytes(follower.log.log_end_offset, max_bytes)
        follower.log.append_as_follower(data + data[:20], NOW_MS, leader_epoch=EPOCH, check_crcs=True)
        follower.run()
    assert follower.content() == content(SOME)
    assert follower.log.leader_epochs.entries() == one.log.leader_epochs.entries()
    assert len(follower.log.segments.bases) > 2
    follower.close()
    assert not checked(follower.disk).findings.problems, said(checked(follower.disk))
    assert decoded(contents(follower.disk)[f"{NAME}/{file_name(0, LOG)}"])


def test_a_follower_takes_no_damaged_message_and_none_that_goes_back(one: OneLog) -> None:
    follower = OneLog(CONFIG, SimulatedDisk())
    data = bytearray(content(SOME[:5]))
    data[len(SOME[0].data) + 20] ^= 1
    with pytest.raises(CorruptRecordError):
        follower.log.append_as_follower(data, NOW_MS, check_crcs=True)
    follower.log.append_as_follower(content(SOME[:5]), NOW_MS, check_crcs=True)
    follower.run()
    with pytest.raises(RequestError) as refused:
        follower.log.append_as_follower(content(SOME[3:6]), NOW_MS, check_crcs=True)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert follower.content() == content(SOME[:5])


def test_a_follower_begins_within_a_wrapper_with_the_whole_of_it() -> None:
    """As the leader's log start may lie there, after records were deleted."""
    some = [Kept(10 + number, OLD_MS, None, b"v") for number in range(5)]
    data = message_set("aiokafka", 1, GZIP, some)
    follower = OneLog(CONFIG, SimulatedDisk())
    follower.log.truncate_fully_and_start_at(12, NOW_MS)
    follower.run()
    follower.log.append_as_follower(data, NOW_MS, check_crcs=True)
    follower.run()
    assert follower.content(12) == data
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (12, 15)


def test_old_messages_that_follow_batches_take_the_epochs_away() -> None:
    """So does Apache Kafka: whoever appended them knew no epochs, and the high watermark is what replicas go by."""
    follower = OneLog(CONFIG, SimulatedDisk())
    first = bytes(batch(b"a", leader_epoch=2))
    follower.log.append_as_follower(first + message(1, None, b"b"), NOW_MS, check_crcs=True)
    follower.run()
    assert follower.log.leader_epochs.entries() == []
    last = bytes(batch(b"c", base_offset=2, leader_epoch=4))
    follower.log.append_as_follower(last, NOW_MS, check_crcs=True)
    follower.run()
    assert follower.log.leader_epochs.entries() == [(4, 2)]
    assert follower.reopen().leader_epochs.entries() == [(4, 2)]


def test_a_leader_appends_none() -> None:
    one = OneLog(CONFIG, SimulatedDisk())
    with pytest.raises(InvalidRecordError, match="format v1"):
        one.log.append_as_leader(bytearray(message(0, None, b"v" * 90)), 0, NOW_MS)
    assert one.log.reserved_end_offset == 0


# What `penstock log` says


def test_a_check_and_an_index_made_anew_find_nothing_wrong(one: OneLog) -> None:
    one.close()
    report = checked(one.disk)
    assert not report.findings.problems, said(report)
    assert (report.old_messages, report.batches) == (80, 20)
    assert report.records == len(kept(SOME))
    assert (report.start_offset, report.end_offset) == (0, SOME[-1].last_offset + 1)
    again = Rebuilding(one.disk, NAME, log_start_offset=0, index_interval_bytes=INTERVAL_BYTES, told=lambda _: None)
    assert [file.name for file in again.run() if file.has_changed] == []
    for segment in SEGMENTS:
        path = f"{NAME}/{file_name(segment[0].records[0].offset, OFFSET_INDEX)}"
        assert [*verify_offset_index(one.disk, path), *verify_time_index(one.disk, path.replace(".i", ".timei"))] == []


def test_a_check_finds_what_is_wrong_in_old_messages(one: OneLog) -> None:
    one.close()
    path = f"{NAME}/{file_name(SEGMENTS[1][0].records[0].offset, LOG)}"
    sound, random = one.disk.content(path), Random(3)
    for _ in range(60):
        position = random.randrange(8, len(sound))
        one.disk.write(path, 0, [flipped(sound, 8 * position + random.randrange(8))])
        assert checked(one.disk).findings.problems, position
    one.disk.write(path, 0, [sound])
    assert not checked(one.disk).findings.problems


def test_a_wrapper_that_is_sound_outside_and_broken_inside_is_a_problem() -> None:
    data = message(0, None, b"no gzip", attributes=GZIP)
    one, _ = recovered([[Entry(data, [Kept(0, -1, None, None)])]])
    one.close()
    assert "the message of format 1 at offset 0: its checksum is right, and yet:" in said(checked(one.disk))
    (described,) = describe_log(one.disk, f"{NAME}/{file_name(0, LOG)}")
    assert isinstance(described, BatchDescription)
    assert "gzip" in described.problem


def test_a_dump_tells_of_each_message_what_is_in_it(one: OneLog) -> None:
    for segment in SEGMENTS:
        described = list(describe_log(one.disk, f"{NAME}/{file_name(segment[0].records[0].offset, LOG)}", deep=True))
        assert not any(isinstance(each, Problem) or each.problem for each in described)
        for each, entry in zip(described, segment, strict=True):
            assert isinstance(each, BatchDescription)
            assert [Kept(*record[:4]) for record in each.records] == list(entry.records)
            assert (each.header.base_offset, each.header.last_offset) == (entry.records[0].offset, entry.last_offset)
            assert each.header.record_count == len(entry.records)


@pytest.mark.parametrize("first_inside", [True, False])
def test_an_index_of_the_time_before_0_10_1_is_as_good(first_inside: bool) -> None:
    """It may say the first offset of a wrapper where later brokers say the last one."""
    some = [Kept(number, OLD_MS, None, b"v" * 300) for number in range(5)]
    wrapper = Entry(message_set("aiokafka", 1, GZIP, some), some)
    after = [Kept(5, OLD_MS, None, b"w" * 400)]
    more = [Kept(6 + number, OLD_MS, None, b"v" * 300) for number in range(5)]
    segment = [wrapper, Entry(message_set("aiokafka", 1, 0, after), after)]
    segment.append(Entry(message_set("aiokafka", 1, GZIP, more), more))
    one, _ = recovered([segment])
    one.close()
    path = f"{NAME}/{file_name(0, OFFSET_INDEX)}"
    position = len(content(segment[:2]))
    assert one.disk.content(path) == pack(">ii", 10, position)
    one.disk.write(path, 0, [pack(">ii", 6 if first_inside else 4, position)])
    assert bool(checked(one.disk).findings.problems) is not first_inside
    if first_inside:
        one.open(recovery_point=11)
        for offset in range(11):
            assert decoded(one.log.read_bytes(offset, 1))[-1].offset == (4 if offset < 5 else 5 if offset < 6 else 10)
