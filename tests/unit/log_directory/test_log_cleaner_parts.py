"""A pass of the log cleaner that goes in parts, in virtual time, and what gets between them."""

from __future__ import annotations

from typing import TypeVar

import pytest
from support.compacted import MINUTE_MS, SECOND_MS, Compacted
from unit.log_directory.test_log_cleaner import Interrupted, figures

from penstock.config.server import Settings
from penstock.log.checkpoints import CLEANER_OFFSET, parse_checkpoint
from penstock.log.compaction.log_cleaner import LogCleaner
from penstock.log.compaction.parts import NoRoom, Room
from penstock.log.compaction.report import PassReport
from penstock.log.compaction.task import CleanLog
from penstock.log.events import LogCleaned, LogNotCleaned, LogPartCleaned
from penstock.log.limits import CLEANING_PART_BYTES
from penstock.log.names import CLEANED, SWAP
from simulator.world.disk import SimulatedDisk

Topic = TypeVar("Topic", bound=Compacted)
FREE_BYTES = 6_000
"""So much is free; a part may take half of it, and a segment has two records of 1,077 bytes."""
RECORDS = 21
"""The last one is in the active segment."""
DISTINCT = 12
"""The keys of so many are different, then come three of them again and again."""
REMOVED = {0, 1, 2, 12, 13, 14, 15, 16}
TIGHT = Settings.for_node(1, penstock_log_dir_reserve_bytes=1 << 20)


def tight(topic: Topic, distinct: int = DISTINCT) -> Topic:
    """Its log has ten closed segments, and its disk has less room than these need."""
    topic.keys = RECORDS
    topic.append(distinct)
    topic.keys = 3
    topic.append(RECORDS - distinct)
    topic.use(lambda log: log.flush(topic.simulation.now_ms))
    topic.wait(SECOND_MS)
    topic.leave(FREE_BYTES)
    return topic


def clean_offset(topic: Compacted) -> int | None:
    return topic.node.manager.table.directories[0].clean_offsets.get(("users", 0))


def until_a_part(topic: Compacted, count: int = 1) -> None:
    while len(topic.events(LogPartCleaned)) < count:
        topic.wait(SECOND_MS)
    assert not topic.events(LogCleaned)


def check_cleaned(topic: Compacted) -> None:
    """All is as one pass with enough room would have left it."""
    assert set(topic.read()) == set(range(RECORDS)) - REMOVED
    assert not topic.files(CLEANED) + topic.files(SWAP)
    assert clean_offset(topic) == RECORDS - 1


def test_a_log_that_is_larger_than_what_is_free_is_cleaned_in_parts() -> None:
    topic = tight(Compacted(settings=TIGHT))
    before = sum(topic.disk.size(f"users-0/{name}") for name in topic.files(".log"))
    assert before > 3 * FREE_BYTES
    until_a_part(topic)
    assert topic.segments() == list(range(0, RECORDS, 2))
    topic.reads_the_latest()
    assert clean_offset(topic) is None, "only the last part says where the pass has ended"
    topic.wait(8 * MINUTE_MS)
    check_cleaned(topic)
    assert len(topic.events(LogPartCleaned)) == 3
    [cleaned] = topic.events(LogCleaned)
    assert isinstance(cleaned, LogCleaned)
    assert (cleaned.first_dirty_offset, cleaned.end_offset, cleaned.removed_records) == (0, 20, len(REMOVED))
    assert (cleaned.before_bytes, cleaned.after_bytes) == (before - 1_078, 7 * 1_077 + 2 * 1_079 + 3 * 1_078)
    assert not topic.events(LogNotCleaned)
    assert parse_checkpoint(topic.disk.read(CLEANER_OFFSET, 0, 1000)) == {("users", 0): 20}
    assert figures(topic)["penstock_log_cleaner_passes_total"] == 1
    assert topic.node.manager.cleaner.removed_bytes == cleaned.before_bytes - cleaned.after_bytes


def test_a_log_of_which_nothing_goes_takes_no_more_than_half_of_what_is_free() -> None:
    topic = tight(Compacted(settings=TIGHT), RECORDS)
    least = FREE_BYTES
    while not topic.events(LogCleaned):
        topic.wait(50)
        least = min(least, topic.disk.free_bytes())
    assert len(topic.events(LogPartCleaned)) == 9
    assert least > FREE_BYTES // 2 - 500, "indexes and checkpoints come on top"
    assert len(topic.read()) == RECORDS
    assert not topic.events(LogNotCleaned)


def test_the_next_part_waits_until_the_old_files_are_gone() -> None:
    topic = tight(Compacted(settings=TIGHT, file_delete_delay_ms=str(3 * MINUTE_MS)), RECORDS)
    until_a_part(topic)
    assert topic.files(".deleted")
    topic.wait(170 * SECOND_MS)
    assert topic.files(".deleted")
    assert len(topic.events(LogPartCleaned)) == 1
    until_a_part(topic, 2)
    assert not topic.events(LogNotCleaned)


def test_a_segment_without_room_is_said_and_the_pass_goes_on_when_there_is_some() -> None:
    topic = tight(Interrupted(settings=TIGHT))
    topic.until_a_pass()
    topic.go_on()
    assert len(topic.events(LogPartCleaned)) == 1
    topic.until_a_pass()
    topic.leave(3_000)
    topic.go_on()
    [event] = topic.events(LogNotCleaned)
    assert str(event) == (
        "users-0 cannot be cleaned: 3000 bytes are free, and the next new segment may take up to 2154; "
        "4308 free bytes would do"
    )
    assert figures(topic)["logcleanermanager_uncleanable_partitions_count"] == 1
    topic.leave(10_000)
    topic.until_a_pass()
    [operation] = topic.passes
    assert operation.pass_task.work.from_offset > 0, "it goes on where it was"
    topic.go_on()
    assert figures(topic)["logcleanermanager_uncleanable_partitions_count"] == 0
    while not topic.events(LogCleaned):
        topic.until_a_pass()
        topic.go_on()
    check_cleaned(topic)


def test_what_would_do_does() -> None:
    for reserve_bytes in (0, 100, 5_000):
        enough = Room(0, 0, reserve_bytes).enough_bytes(1_000)
        disk = SimulatedDisk()
        disk.capacity_bytes = enough
        Room.of(enough, reserve_bytes, 0).check(disk, 1_000)
        disk.capacity_bytes = enough - 2
        with pytest.raises(NoRoom):
            Room.of(enough - 2, reserve_bytes, 0).check(disk, 1_000)


def test_a_part_is_bounded_where_there_is_much_room() -> None:
    plenty = 100 * CLEANING_PART_BYTES
    assert Room.of(plenty, 0, 0).part_bytes == CLEANING_PART_BYTES
    assert Room.of(plenty, 0, 3 * CLEANING_PART_BYTES).part_bytes == 3 * CLEANING_PART_BYTES
    assert Room.of(plenty, 0, plenty).part_bytes == plenty // 2


def test_records_that_come_meanwhile_are_for_the_next_pass() -> None:
    topic = tight(Interrupted(settings=TIGHT))
    topic.until_a_pass()
    topic.go_on()
    topic.leave(100_000)
    topic.append(8)
    topic.until_a_pass()
    work = topic.passes[0].pass_task.work
    assert (work.end_offset, work.first_uncleanable_offset) == (20, 20)
    topic.go_on()
    assert clean_offset(topic) == 20
    topic.reads_the_latest()
    topic.append(40)
    topic.until_a_pass()
    assert topic.passes[0].pass_task.work.rest is None
    topic.go_on()
    topic.reads_the_latest()


def check_a_stop_between_parts(topic: Compacted) -> None:
    until_a_part(topic)
    topic.node.stop()
    topic.wait(SECOND_MS)
    topic.leave(FREE_BYTES)
    topic.node.start()
    topic.wait(8 * MINUTE_MS)
    check_cleaned(topic)


def test_a_pass_begins_anew_after_a_stop_between_its_parts() -> None:
    check_a_stop_between_parts(tight(Compacted(settings=TIGHT)))


def until_the_second_part(topic: Interrupted) -> CleanLog:
    """Returns the second part, which was not run yet."""
    topic.until_a_pass()
    topic.go_on()
    assert len(topic.events(LogPartCleaned)) == 1
    topic.until_a_pass()
    second = topic.passes.pop()
    assert second.pass_task.work.from_offset > 0
    return second


def cut_and_grow_again(topic: Interrupted, offset: int) -> None:
    topic.disk.capacity_bytes = None
    topic.use(lambda log: log.truncate_to(offset, topic.simulation.now_ms))
    topic.wait(SECOND_MS)
    topic.written, topic.keys = offset, 5
    topic.latest = {b"key %d" % (number if number < DISTINCT else number % 3): number for number in range(offset)}
    topic.append(RECORDS - offset)


def segment_files(topic: Compacted) -> dict[str, bytes]:
    return {name: topic.disk.content(f"users-0/{name}") for name in topic.files(".log")}


def check_a_cut_during_the_second_part(topic: Interrupted) -> None:
    second = until_the_second_part(topic)
    outcome = second.run(topic.disk)
    cut_and_grow_again(topic, 5)
    before = segment_files(topic)
    second.owner.operation_completed(second, outcome, topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(SECOND_MS)
    assert segment_files(topic) == before
    assert not topic.events(LogCleaned)
    assert not topic.files(CLEANED)
    topic.until_a_pass()
    assert topic.passes[0].pass_task.work.rest is None, "it begins anew"
    topic.go_on()
    topic.reads_the_latest()
    assert len(topic.events(LogCleaned)) == 1


def test_a_log_that_was_cut_during_the_second_part_keeps_what_it_has() -> None:
    check_a_cut_during_the_second_part(tight(Interrupted(settings=TIGHT)))


def test_a_log_that_was_cut_between_two_parts_is_cleaned_from_its_start() -> None:
    topic = tight(Interrupted(settings=TIGHT))
    topic.until_a_pass()
    topic.go_on()
    cut_and_grow_again(topic, 17)
    topic.until_a_pass()
    assert topic.passes[0].pass_task.work.rest is None
    topic.go_on()
    topic.reads_the_latest()
    assert len(topic.events(LogCleaned)) == 1


def test_segments_that_retention_takes_during_the_second_part_take_nothing_back() -> None:
    topic = tight(Interrupted(settings=TIGHT, cleanup_policy="compact,delete"), RECORDS)
    second = until_the_second_part(topic)
    outcome = second.run(topic.disk)
    start = second.pass_task.work.from_offset + 2
    topic.use(lambda log: log.advance_log_start(start, RECORDS))
    topic.use(lambda log: log.delete_old_segments(topic.simulation.now_ms, RECORDS))
    topic.wait(SECOND_MS)
    second.owner.operation_completed(second, outcome, topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(SECOND_MS)
    assert topic.segments()[0] == start
    topic.until_a_pass()
    assert topic.passes[0].pass_task.work.from_offset > 0, "the pass goes on"
    while not topic.events(LogCleaned):
        topic.until_a_pass()
        topic.go_on()
    assert set(topic.read()) == set(range(start, RECORDS))


def test_a_topic_that_is_deleted_between_two_parts_is_gone() -> None:
    topic = tight(Compacted(settings=TIGHT))
    until_a_part(topic)
    topic.node.manager.delete("users", 0, topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(5 * MINUTE_MS)
    assert not [entry for entry in topic.disk.list("") if entry.is_directory]
    assert not topic.node.manager.cleaner._unfinished


def test_a_topic_that_is_no_longer_compacted_between_two_parts_keeps_the_rest() -> None:
    topic = tight(Compacted(settings=TIGHT), RECORDS)
    until_a_part(topic)
    topic.configure(cleanup_policy="delete")
    topic.node.manager.config_changed("users")
    topic.wait(5 * MINUTE_MS)
    assert len(topic.events(LogPartCleaned)) == 1
    assert not topic.node.manager.cleaner._unfinished
    assert len(topic.read()) == RECORDS


def test_a_lag_that_takes_back_what_was_cleanable_has_the_pass_begin_anew() -> None:
    topic = tight(Interrupted(settings=TIGHT))
    topic.until_a_pass()
    topic.go_on()
    topic.configure(min_compaction_lag_ms=str(10 * MINUTE_MS))
    topic.node.manager.config_changed("users")
    topic.wait(5 * MINUTE_MS)
    assert not topic.passes
    topic.until_a_pass()
    assert topic.passes[0].pass_task.work.rest is None
    topic.go_on()
    topic.reads_the_latest()


def test_the_maps_of_all_parts_have_the_same_room() -> None:
    topic = tight(Interrupted(settings=TIGHT))
    topic.until_a_pass()
    first = topic.passes[0].pass_task
    topic.go_on()
    topic.node.manager.settings_changed(
        Settings.for_node(
            1,
            penstock_log_dir_reserve_bytes=1 << 20,
            log_cleaner_dedupe_buffer_size=2 << 20,
            log_cleaner_io_buffer_load_factor=0.5,
        )
    )
    topic.until_a_pass()
    second = topic.passes[0].pass_task
    assert (second.buffer_bytes, second.load_factor) == (first.buffer_bytes, first.load_factor)


def test_what_is_damaged_is_said_once_for_all_parts() -> None:
    topic = tight(Compacted(settings=TIGHT), RECORDS)
    topic.disk.flip_bit(f"users-0/{2:020d}.log", 200, 3)
    while not topic.events(LogCleaned):
        topic.wait(SECOND_MS)
    [event] = topic.events(LogNotCleaned)
    assert "at offset 2 is kept as it is" in str(event)
    assert list(topic.node.manager.cleaner.uncleanable.values()) == [str(event).split(": ", 1)[1]]


# Crashes


def changes_of_a_pass(topic: Compacted) -> range:
    """The numbers of the changes of the disk from shortly before the first part to the end of the last one."""
    topic.wait(20 * SECOND_MS)
    began = topic.disk.changes
    assert not topic.files(CLEANED)
    while not topic.events(LogCleaned):
        topic.wait(100)
    assert topic.events(LogPartCleaned)
    return range(began, topic.disk.changes + 1)


def crash(step: int, *, power_fails: bool) -> int:
    """The number of records after a crash at this change; a pass follows."""
    topic = tight(Compacted(step, settings=TIGHT, power_fails=power_fails))
    topic.wait(20 * SECOND_MS)
    topic.disk.crash_at = step
    for _ in range(40):
        topic.wait(10 * SECOND_MS)
        if topic.node.incarnation == 2:
            break
    assert topic.node.incarnation == 2
    topic.reads_the_latest()
    count = len(topic.read())
    assert not topic.files(CLEANED) + topic.files(SWAP)
    topic.wait(8 * MINUTE_MS)
    check_cleaned(topic)
    return count


@pytest.mark.parametrize("power_fails", [True, False], ids=["power failure", "kill"])
def test_a_crash_in_or_between_parts_leaves_a_log_that_is_cleaned_later(power_fails: bool) -> None:
    steps = changes_of_a_pass(tight(Compacted(settings=TIGHT)))
    outcomes = {crash(step, power_fails=power_fails) for step in steps[power_fails :: len(steps) // 20]}
    assert outcomes >= {RECORDS, RECORDS - 3, RECORDS - len(REMOVED)}


@pytest.mark.long
@pytest.mark.parametrize("power_fails", [True, False], ids=["power failure", "kill"])
def test_a_crash_at_any_step_of_parts_leaves_a_log_that_is_cleaned_later(power_fails: bool) -> None:
    for step in changes_of_a_pass(tight(Compacted(settings=TIGHT))):
        crash(step, power_fails=power_fails)


# Planted faults, each of which the checks above must see


def test_an_end_that_the_first_part_notes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    note = LogCleaner._note

    def noted(cleaner: LogCleaner, cleaning: object, report: PassReport, now_ms: int) -> None:
        note(cleaner, cleaning, report, now_ms)  # type: ignore[arg-type]
        replica = cleaner._table.find("users", 0)
        assert replica is not None
        cleaner._checkpointing.note(replica, replica.directory.clean_offsets, report.end_offset)

    monkeypatch.setattr(LogCleaner, "_note", noted)
    with pytest.raises(AssertionError):
        check_a_stop_between_parts(tight(Compacted(settings=TIGHT)))


def test_a_part_of_a_log_that_was_cut_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogCleaner, "_is_stale", lambda cleaner, cleaning: False)
    with pytest.raises(AssertionError):
        check_a_cut_during_the_second_part(tight(Interrupted(settings=TIGHT)))


def test_a_part_that_goes_on_in_a_log_that_was_cut_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.log.compaction.log_cleaner.Cleaning.begin_anew", lambda cleaning: None)
    with pytest.raises(AssertionError):
        test_a_log_that_was_cut_between_two_parts_is_cleaned_from_its_start()
