"""Retention by age and time indexes that are wrong: it goes by the batches, and says so."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

import pytest
from support.compacted import Compacted
from support.logs import NAME, NOW_MS, OneLog, batch, topic_config
from support.planted import flipped, put
from unit.log_directory.test_retention_unopened import HOUR_MS, MINUTE_MS, Topic

from penstock.log import retiring, segments
from penstock.log.checked_times import TimesNotChecked, checked_time
from penstock.log.events import LogCleaned, TimeIndexWrong
from penstock.log.limits import TIMES_CHECKED_AT_ONCE_MAX
from penstock.log.loading import load
from penstock.log.log import Log
from penstock.log.names import TIME_INDEX
from penstock.log.segment import Segment
from simulator.world.disk import SimulatedDisk

TIME_ENTRY = Struct(">qi")
DAY_MS = 24 * HOUR_MS
Change = Callable[[bytes], bytes]


def last_time(timestamp_ms: int) -> Change:
    """The last entry has another time."""
    return lambda content: (
        content[: -TIME_ENTRY.size]
        + TIME_ENTRY.pack(timestamp_ms, TIME_ENTRY.unpack_from(content, len(content) - TIME_ENTRY.size)[1])
    )


TOO_EARLY: dict[str, Change] = {
    "the last entry has time 0": last_time(0),
    "the last entry has no time": last_time(-1),
    "the entry is of another batch": lambda content: TIME_ENTRY.pack(1, 0),
    "zeros": lambda content: bytes(len(content)),
}


# One segment


def closed_segment(*times_ms: int, index_interval_bytes: int = 100) -> tuple[SimulatedDisk, Segment]:
    """A segment with a batch for each time, as a start after a clean stop finds it."""
    one = OneLog(topic_config(index_interval_bytes=index_interval_bytes))
    for timestamp_ms in times_ms:
        one.append(batch(b"v" * 50, timestamp_ms=timestamp_ms))
    one.log.roll(NOW_MS)
    one.run()
    one.append(batch(b"active"))
    one.close()
    return one.disk, load(one.disk, NAME, log_start_offset=0, wall_ms=NOW_MS).segments[0]


RISING = [NOW_MS + 10 * number for number in range(30)]
EARLY_PEAK = [NOW_MS, NOW_MS + 9_999, *RISING[2:]]


@pytest.mark.parametrize("times_ms", [RISING, EARLY_PEAK, RISING[:1]])
def test_a_sound_index_is_right_and_only_headers_near_its_entries_are_read(times_ms: list[int]) -> None:
    disk, segment = closed_segment(*times_ms)
    latest = max(times_ms)
    assert checked_time(disk, segment) == (latest, times_ms.index(latest), "")
    assert not segment.largest_is_right, "the loop takes note of it"


@pytest.mark.parametrize("times_ms", [RISING, EARLY_PEAK])
def test_any_bit_of_the_last_entry(times_ms: list[int]) -> None:
    """The time is that of the batches whichever bit flips."""
    disk, segment = closed_segment(*times_ms)
    path, latest = segment.time_index.path, max(times_ms)
    sound = disk.content(path)
    for bit in range((len(sound) - TIME_ENTRY.size) * 8, len(sound) * 8):
        put(disk, path, flipped(sound, bit))
        found = checked_time(disk, segment)
        assert found[:2] == (latest, times_ms.index(latest)), f"bit {bit}"
        assert path in found.wrong


def test_a_time_index_that_was_cut_or_emptied() -> None:
    disk, segment = closed_segment(*RISING)
    sound = disk.content(segment.time_index.path)
    for entries in range(len(sound) // TIME_ENTRY.size):
        segment.time_index.written = entries
        put(disk, segment.time_index.path, sound[: entries * TIME_ENTRY.size])
        found = checked_time(disk, segment)
        assert found[:2] == (RISING[-1], len(RISING) - 1), f"{entries} entries left"
        assert found.wrong


def test_a_time_index_that_is_right_with_an_offset_index_that_is_not() -> None:
    disk, segment = closed_segment(*RISING)
    path = segment.offset_index.path
    sound = disk.content(path)
    for bit in range(len(sound) * 8):
        put(disk, path, flipped(sound, bit))
        assert checked_time(disk, segment)[:2] == (RISING[-1], len(RISING) - 1), f"bit {bit}"


def test_where_the_batches_cannot_be_read_to_the_end_the_last_change_of_the_file_counts_if_it_is_later() -> None:
    disk, segment = closed_segment(*RISING)
    put(disk, segment.time_index.path, bytes(disk.size(segment.time_index.path)))
    disk.write(segment.log_path, segment.size_bytes // 2, [b"\x7f" * 100])
    for modified_ms in (NOW_MS + DAY_MS, NOW_MS - DAY_MS):
        segment.modified_ms = modified_ms
        found = checked_time(disk, segment)
        assert found.timestamp_ms >= max(modified_ms, NOW_MS)
        assert found.wrong


def test_a_segment_that_was_removed_meanwhile_is_no_wrong_index() -> None:
    """The lane comes to it after a truncation, or after the log was deleted."""
    disk, segment = closed_segment(*RISING)
    for path in segment.paths:
        disk.unlink(path)
    assert checked_time(disk, segment) == (segment.modified_ms, segment.base_offset, "")


def test_a_time_index_that_alone_is_gone_is_wrong_and_the_batches_are_read() -> None:
    disk, segment = closed_segment(*RISING)
    disk.unlink(segment.time_index.path)
    found = checked_time(disk, segment)
    assert found[:2] == (RISING[-1], len(RISING) - 1)
    assert segment.time_index.path in found.wrong


# A broker's retention


def stopped() -> Topic:
    """Three segments of now, in a log that keeps a day, after a clean stop."""
    made = Topic(retention_ms=str(DAY_MS))
    made.append(5)
    made.node.stop()
    made.wait(1_000)
    return made


def started(made: Topic, *, is_open: bool) -> None:
    """`is_open`: somebody uses the logs from the start."""
    made.node.start()
    if is_open:
        for partition in range(made.partitions):
            made.log(partition)


def change(made: Topic, by: Change) -> str:
    path = f"clicks-0/{0:020d}{TIME_INDEX}"
    put(made.disk, path, by(made.disk.content(path)))
    return path


def said(made: Topic) -> list[TimeIndexWrong]:
    return [event for event in made.node.events if isinstance(event, TimeIndexWrong)]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("kind", TOO_EARLY)
def test_a_wrong_time_index_deletes_nothing_early(kind: str, *, is_open: bool) -> None:
    made = stopped()
    path = change(made, TOO_EARLY[kind])
    started(made, is_open=is_open)
    made.wait(10 * MINUTE_MS)
    assert made.segments() == [0, 2, 4]
    if kind != "the last entry has no time":  # then the file's last change counts, which is now
        [event] = said(made)
        assert event.log == "clicks-0"
        assert path in event.reason
    made.wait(DAY_MS + HOUR_MS)
    assert made.segments() != [0, 2, 4], "in time it goes"


@pytest.mark.parametrize("is_open", [False, True])
def test_a_time_index_of_another_topic_deletes_nothing_early(*, is_open: bool) -> None:
    made = Topic(partitions=2, retention_ms=str(DAY_MS))
    made.append(5, 1)
    made.wait(20 * HOUR_MS)
    made.append(5, 0)
    made.node.stop()
    made.wait(1_000)
    old = made.disk.content(f"clicks-1/{0:020d}{TIME_INDEX}")
    change(made, lambda _: old)
    started(made, is_open=is_open)
    made.wait(6 * HOUR_MS)
    assert made.segments(1) != [0, 2, 4]
    assert made.segments(0) == [0, 2, 4]
    assert [event.log for event in said(made)] == ["clicks-0"]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("years", [1, 10_000])
def test_a_time_in_the_future_that_no_batch_has_does_not_stop_retention(years: int, *, is_open: bool) -> None:
    made = stopped()
    change(made, last_time(made.simulation.now_ms + years * 365 * DAY_MS))
    started(made, is_open=is_open)
    made.wait(DAY_MS + HOUR_MS)
    assert 0 not in made.segments()
    assert {event.log for event in said(made)} == {"clicks-0"}


@pytest.mark.parametrize("is_open", [False, True])
def test_a_sound_index_is_said_nothing_of(*, is_open: bool) -> None:
    made = stopped()
    started(made, is_open=is_open)
    made.wait(DAY_MS + HOUR_MS)
    assert 0 not in made.segments()
    assert not said(made)


def test_the_loop_reads_no_batch_for_that_and_the_lane_a_few_segments_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Looks on the loop stay as short as they were."""
    made = Topic(retention_ms=str(HOUR_MS))
    made.append(100)
    made.restart_cleanly()
    made.log()
    asked: list[int] = []
    on_loop = False
    retire, read = Log.delete_old_segments, TimesNotChecked.read

    def looking(log: Log, now_ms: int, high_watermark: int) -> int:
        nonlocal on_loop
        on_loop = True
        try:
            return retire(log, now_ms, high_watermark)
        finally:
            on_loop = False

    def reading(missing: TimesNotChecked, disk: SimulatedDisk) -> object:
        assert not on_loop
        asked.append(len(missing.segments))
        return read(missing, disk)

    monkeypatch.setattr(Log, "delete_old_segments", looking)
    monkeypatch.setattr(TimesNotChecked, "read", reading)
    made.wait(2 * HOUR_MS)
    assert made.segments() == [100]
    assert asked == [TIMES_CHECKED_AT_ONCE_MAX] * 3 + [49 - 3 * TIMES_CHECKED_AT_ONCE_MAX]


def test_a_segment_whose_file_somebody_has_removed_goes_by_the_last_change_of_that() -> None:
    made = stopped()
    started(made, is_open=True)
    made.disk.unlink(f"clicks-0/{0:020d}.log")
    made.wait(DAY_MS + HOUR_MS)
    assert 0 not in made.log().segments.bases


def test_an_index_that_was_cut_while_it_was_to_be_checked_is_said_nothing_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A truncation comes between the question and the answer: what is checked is not what the log has."""
    made = stopped()
    started(made, is_open=True)
    read = TimesNotChecked.read
    cut: list[int] = []

    def cut_before(missing: TimesNotChecked, disk: SimulatedDisk) -> object:
        if not cut:
            cut.append(1)
            made.node.use("clicks", 0, lambda log: (log.truncate_to(1, made.simulation.now_ms), None)[1])
            for segment in missing.segments:
                put(disk, segment.time_index.path, b"")  # as the lane does it, before the loop hears of it
        return read(missing, disk)

    monkeypatch.setattr(TimesNotChecked, "read", cut_before)
    made.wait(DAY_MS + HOUR_MS)
    assert cut
    assert not said(made)


@pytest.mark.parametrize("is_open", [False, True])
def test_planted_the_time_index_is_believed(monkeypatch: pytest.MonkeyPatch, *, is_open: bool) -> None:
    for module in (retiring, segments):
        monkeypatch.setattr(module, "must_be_checked", lambda *_: False)
    with pytest.raises(AssertionError):
        test_a_wrong_time_index_deletes_nothing_early("the last entry has time 0", is_open=is_open)
    with pytest.raises(AssertionError):
        test_a_time_in_the_future_that_no_batch_has_does_not_stop_retention(1, is_open=is_open)


def test_planted_only_the_entry_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.log.checked_times.headers_from", lambda *_: [])
    with pytest.raises(AssertionError):
        test_a_time_index_that_was_cut_or_emptied()


# The cleaner


def compacting(lag_ms: int) -> tuple[Compacted, str]:
    """A compacted log after a clean stop, and the time index of its first segment."""
    made = Compacted(min_cleanable_dirty_ratio="0.01", min_compaction_lag_ms=str(lag_ms))
    made.append(11)
    made.node.stop()
    made.wait(1_000)
    return made, f"users-0/{0:020d}{TIME_INDEX}"


def test_a_wrong_time_index_has_nothing_compacted_early() -> None:
    made, path = compacting(HOUR_MS)
    for base in made.segments()[:-1]:
        file = f"users-0/{base:020d}{TIME_INDEX}"
        put(made.disk, file, last_time(1)(made.disk.content(file)))
    made.node.start()
    made.wait(30 * MINUTE_MS)
    assert not made.events(LogCleaned)
    assert [event for event in made.events(TimeIndexWrong) if path in str(event)]
    made.wait(HOUR_MS)
    assert made.events(LogCleaned)


def test_a_time_in_the_future_that_no_batch_has_does_not_stop_the_cleaner() -> None:
    made, path = compacting(HOUR_MS)
    put(made.disk, path, last_time(made.simulation.now_ms + 365 * DAY_MS)(made.disk.content(path)))
    made.node.start()
    made.wait(2 * HOUR_MS)
    assert made.events(LogCleaned)
