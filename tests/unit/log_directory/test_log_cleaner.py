"""The log cleaner of a node in virtual time: which logs it chooses, what it leaves, and what gets in its way."""

from __future__ import annotations

from uuid import UUID

import pytest
from support.compacted import KEYS, MINUTE_MS, SECOND_MS, SETTINGS, Compacted

from penstock.config.server import Settings
from penstock.log.checkpoints import CLEANER_OFFSET, parse_checkpoint
from penstock.log.compaction.task import CleanLog, PassOutcome
from penstock.log.disk import FileSlice, read_slice
from penstock.log.events import LogCleaned, LogNotCleaned
from penstock.log.limits import CLEANING_AGAIN_MS
from penstock.log.manager import ReplicaRequest
from penstock.log.names import CLEANED, SWAP
from penstock.log.replica import State
from penstock.node.samples import cleaner_samples


def test_of_each_key_the_last_record_stays() -> None:
    topic = Compacted()
    topic.append(11)
    assert topic.segments() == [0, 2, 4, 6, 8, 10]
    topic.wait(MINUTE_MS)
    assert set(topic.read()) == {7, 8, 9, 10}
    assert [topic.disk.size(f"users-0/{name}") for name in topic.files(".log")] == [0, 0, 0, 1077, 2154, 1078]
    topic.reads_the_latest()
    assert [event.log for event in topic.events(LogCleaned)] == ["users-0"]  # type: ignore[attr-defined]
    topic.append(20)
    topic.wait(5 * MINUTE_MS)
    topic.reads_the_latest()
    assert len(topic.read()) <= KEYS + 2
    assert topic.segments()[:2] == [0, 8]
    assert parse_checkpoint(topic.disk.read(CLEANER_OFFSET, 0, 1000)) == {("users", 0): topic.segments()[-1]}
    assert not topic.files(CLEANED) + topic.files(SWAP) + topic.files(".deleted")
    assert topic.node.manager.cleaner.removed_bytes > 20_000


def test_a_log_that_is_mostly_clean_is_left_until_enough_is_dirty() -> None:
    topic = Compacted(min_cleanable_dirty_ratio="0.9")
    topic.append(11)
    topic.wait(MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1
    topic.append(4)
    topic.wait(5 * MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1
    topic.append(80)
    topic.wait(MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 2


def test_the_oldest_dirty_record_waits_no_longer_than_max_compaction_lag() -> None:
    topic = Compacted(min_cleanable_dirty_ratio="1", max_compaction_lag_ms=str(30 * MINUTE_MS))
    topic.append(11)
    topic.wait(29 * MINUTE_MS)
    assert not topic.events(LogCleaned)
    topic.wait(2 * MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1


def test_young_records_stay_until_they_are_old_enough_and_then_go_without_another_append() -> None:
    topic = Compacted(min_compaction_lag_ms=str(30 * MINUTE_MS))
    topic.append(11)
    topic.wait(29 * MINUTE_MS)
    assert len(topic.read()) == 11
    topic.wait(2 * MINUTE_MS)
    assert len(topic.read()) < 6


def test_what_is_not_replicated_yet_stays() -> None:
    topic = Compacted()
    topic.node.replicated = lambda log: min(log.log_end_offset, 5)
    topic.append(11)
    topic.wait(MINUTE_MS)
    assert set(topic.read()) == {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
    topic.node.manager.set_high_watermark("users", 0, 11)
    topic.wait(MINUTE_MS)
    assert set(topic.read()) == {7, 8, 9, 10}


def test_a_topic_that_becomes_compacted_is_cleaned_and_one_that_is_no_more_is_not() -> None:
    topic = Compacted(cleanup_policy="delete")
    topic.append(11)
    topic.wait(5 * MINUTE_MS)
    assert len(topic.read()) == 11
    topic.configure()
    topic.node.manager.config_changed("users")
    topic.node.drain()
    topic.wait(MINUTE_MS)
    assert set(topic.read()) == {7, 8, 9, 10}
    topic.configure(cleanup_policy="delete")
    topic.node.manager.config_changed("users")
    topic.append(10)
    topic.wait(5 * MINUTE_MS)
    assert len(topic.read()) == 14


def test_without_the_cleaner_nothing_is_cleaned() -> None:
    topic = Compacted(settings=Settings.for_node(1, log_cleaner_enable=False))
    topic.append(11)
    topic.wait(5 * MINUTE_MS)
    assert len(topic.read()) == 11


def test_logs_that_nobody_has_opened_since_the_start_are_cleaned() -> None:
    topic = Compacted(min_compaction_lag_ms=str(30 * MINUTE_MS))
    topic.append(11)
    topic.node.stop()
    topic.wait(SECOND_MS)
    topic.configure()
    topic.node.start()
    topic.wait(MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1
    topic.reads_the_latest()


def test_a_slice_of_before_the_swap_has_the_old_bytes() -> None:
    topic = Compacted()
    topic.append(11)
    log = topic.log()
    pieces: list[FileSlice] = log.read(4, 1 << 20).slices
    before = [read_slice(topic.disk, piece) for piece in pieces]
    while not topic.events(LogCleaned):
        topic.wait(SECOND_MS)
    assert topic.log() is not log
    assert [read_slice(topic.disk, piece) for piece in pieces] == before
    topic.wait(2 * MINUTE_MS)
    with pytest.raises(FileNotFoundError):
        read_slice(topic.disk, pieces[0])


def test_a_second_pass_soon_after_the_first_takes_no_bytes_from_the_readers_of_either() -> None:
    topic = Compacted(file_delete_delay_ms=str(10 * MINUTE_MS))
    held: list[tuple[FileSlice, bytes]] = []
    for passes in range(1, 4):
        topic.append(11)
        for offset in (0, topic.written - 5):
            for piece in topic.log().read(offset, 1 << 20).slices:
                held.append((piece, read_slice(topic.disk, piece)))
        while len(topic.events(LogCleaned)) < passes:
            topic.wait(SECOND_MS)
        assert [read_slice(topic.disk, piece) for piece, _ in held] == [data for _, data in held]
    topic.wait(11 * MINUTE_MS)
    assert not topic.files(".deleted")


class Interrupted(Compacted):
    """One whose passes end only when `go_on` is called."""

    def __init__(self, *, settings: Settings = SETTINGS, **overrides: str) -> None:
        super().__init__(settings=settings, **overrides)
        self.passes: list[CleanLog] = []
        lanes = self.node._lanes
        run = lanes.run

        def held(operations: list[object]) -> None:
            self.passes += [each for each in operations if isinstance(each, CleanLog)]
            run([each for each in operations if not isinstance(each, CleanLog)])  # type: ignore[arg-type]

        self._run = run
        lanes.run = held  # type: ignore[method-assign, assignment]

    def until_a_pass(self) -> None:
        while not self.passes:
            self.wait(SECOND_MS)

    def go_on(self) -> None:
        """The passes have read the files as they are now."""
        passes, self.passes = self.passes, []
        self._run(passes)
        self.wait(SECOND_MS)


def test_a_log_that_was_cut_during_a_pass_keeps_what_it_has() -> None:
    topic = Interrupted()
    topic.append(11)
    topic.until_a_pass()
    cleaned = topic.passes.pop()
    outcome = cleaned.run(topic.disk)
    assert outcome.report is not None
    topic.use(lambda log: log.truncate_to(3, topic.simulation.now_ms))
    topic.wait(SECOND_MS)
    topic.written = 3
    topic.append(9)
    assert topic.segments() == [0, 2, 4, 6, 8, 10]
    before = topic.read()
    cleaned.owner.operation_completed(cleaned, outcome, topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(SECOND_MS)
    assert topic.read() == before
    assert not topic.events(LogCleaned)
    assert not topic.files(CLEANED)
    topic.until_a_pass()
    topic.go_on()
    topic.reads_the_latest()
    assert len(topic.events(LogCleaned)) == 1


def test_segments_that_retention_took_during_a_pass_do_not_come_back() -> None:
    topic = Interrupted(cleanup_policy="compact,delete")
    topic.append(11)
    topic.until_a_pass()
    cleaned = topic.passes.pop()
    outcome = cleaned.run(topic.disk)
    topic.use(lambda log: log.advance_log_start(4, 11))
    topic.use(lambda log: log.delete_old_segments(topic.simulation.now_ms, 11))
    topic.wait(SECOND_MS)
    assert topic.segments() == [4, 6, 8, 10]
    cleaned.owner.operation_completed(cleaned, outcome, topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(SECOND_MS)
    assert topic.segments() == [4, 6, 8, 10]
    assert not topic.files(CLEANED)
    assert topic.log().log_start_offset == 4


def test_a_topic_that_is_deleted_during_a_pass_is_gone() -> None:
    topic = Interrupted()
    topic.append(11)
    topic.until_a_pass()
    topic.node.manager.delete("users", 0, topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(SECOND_MS)
    topic.go_on()
    topic.wait(5 * MINUTE_MS)
    assert not [entry for entry in topic.disk.list("") if entry.is_directory]
    assert topic.node.manager.table.directories[0].error is None
    assert not topic.events(LogNotCleaned)


def test_a_topic_of_the_same_name_does_not_get_what_was_cleaned_for_its_predecessor() -> None:
    topic = Interrupted()
    topic.append(11)
    topic.until_a_pass()
    cleaned = topic.passes.pop()
    outcome = cleaned.run(topic.disk)
    manager = topic.node.manager
    manager.delete("users", 0, topic.simulation.now_ms)
    manager.create([ReplicaRequest("users", 0, UUID(int=2 << 100))], topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(SECOND_MS)
    topic.written, topic.latest = 0, {}
    topic.append(5)
    cleaned.owner.operation_completed(cleaned, outcome, topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(SECOND_MS)
    assert set(topic.read()) == {0, 1, 2, 3, 4}


def test_a_topic_that_is_deleted_when_its_log_closes_for_the_swap_does_not_keep_others_from_being_cleaned() -> None:
    topic = Interrupted()
    topic.append(11)
    topic.until_a_pass()
    manager = topic.node.manager
    cleaned = topic.passes.pop()
    outcome = cleaned.run(topic.disk)
    cleaned.owner.operation_completed(cleaned, outcome, topic.simulation.now_ms)
    replica = manager.table.find("users", 0)
    assert replica is not None
    assert replica.state is State.CLOSING
    manager.delete("users", 0, topic.simulation.now_ms)
    manager.create([ReplicaRequest("users", 0, UUID(int=2 << 100))], topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(SECOND_MS)
    topic.written, topic.latest = 0, {}
    topic.append(11)
    topic.until_a_pass()
    topic.go_on()
    assert set(topic.read()) == {7, 8, 9, 10}


def test_a_full_disk_ends_a_pass_and_not_the_directory() -> None:
    topic = Compacted()
    topic.append(11)
    topic.disk.capacity_bytes = sum(entry.size_bytes for entry in topic.disk.list("users-0")) + 1_000
    topic.wait(MINUTE_MS)
    (event,) = topic.events(LogNotCleaned)
    assert "bytes are free" in str(event)
    assert topic.node.manager.table.directories[0].error is None
    assert list(topic.node.manager.cleaner.uncleanable.values())
    topic.disk.capacity_bytes = None
    topic.wait(CLEANING_AGAIN_MS + MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1
    assert not topic.node.manager.cleaner.uncleanable
    topic.reads_the_latest()


def figures(topic: Compacted) -> dict[str, float]:
    samples = [each for each in cleaner_samples(topic.node.manager) if each is not None]
    return {sample.name.removeprefix("kafka_log_"): sample.value for sample in samples}


def test_figures_have_kafkas_names() -> None:
    topic = Compacted(max_compaction_lag_ms=str(MINUTE_MS // 2))
    assert figures(topic)["logcleanermanager_time_since_last_run_ms"] < MINUTE_MS, "before its first look"
    topic.append(11)
    topic.disk.capacity_bytes = sum(entry.size_bytes for entry in topic.disk.list("users-0")) + 1_000
    topic.wait(3 * MINUTE_MS)
    found = figures(topic)
    assert found["logcleanermanager_uncleanable_partitions_count"] == 1
    assert found["logcleanermanager_uncleanable_bytes"] > 10_000
    assert found["logcleanermanager_max_dirty_percent"] == 100
    assert found["logcleaner_max_compaction_delay_secs"] > 10
    topic.disk.capacity_bytes = None
    topic.wait(CLEANING_AGAIN_MS + MINUTE_MS)
    found = figures(topic)
    assert found["logcleanermanager_uncleanable_partitions_count"] == 0
    assert found["logcleanermanager_uncleanable_bytes"] == 0
    assert 0 < found["logcleaner_cleaner_recopy_percent"] < 50
    assert found["penstock_log_cleaner_passes_total"] == 1


def test_a_damaged_batch_is_kept_and_said() -> None:
    topic = Compacted()
    topic.append(11)
    topic.log()
    topic.disk.flip_bit("users-0/00000000000000000002.log", 200, 3)
    topic.wait(MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1
    (event,) = topic.events(LogNotCleaned)
    assert "00000000000000000002.log" in str(event)


def half_done() -> tuple[Interrupted, CleanLog, PassOutcome]:
    """One whose pass has written its segments, and nobody has heard of its end."""
    topic = Interrupted()
    topic.append(11)
    topic.until_a_pass()
    running = topic.passes.pop()
    outcome = running.run(topic.disk)
    assert topic.files(CLEANED)
    return topic, running, outcome


def test_a_clean_stop_does_not_wait_for_a_pass_and_what_that_has_written_goes_when_the_log_is_used() -> None:
    topic, _, _ = half_done()
    topic.node.stop()
    topic.wait(SECOND_MS)
    assert not topic.node.running
    topic.configure(cleanup_policy="delete")
    topic.node.start()
    topic.wait(10 * MINUTE_MS)
    assert len(topic.read()) == 11
    topic.wait(SECOND_MS)
    assert not topic.files(CLEANED)


def test_a_pass_after_a_clean_stop_in_a_pass_has_its_own_files() -> None:
    topic, _, _ = half_done()
    topic.node.stop()
    topic.wait(SECOND_MS)
    topic.node.start()
    topic.wait(2 * MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1
    assert set(topic.read()) == {7, 8, 9, 10}


def test_a_log_that_closes_and_opens_during_a_pass_keeps_the_files_of_the_pass() -> None:
    topic, running, outcome = half_done()
    replica = topic.node.manager.table.find("users", 0)
    assert replica is not None
    before = topic.log()
    topic.node.manager._logs.close(replica, topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(SECOND_MS)
    assert topic.log() is not before
    topic.append(3)
    assert topic.files(CLEANED)
    running.owner.operation_completed(running, outcome, topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(SECOND_MS)
    assert len(topic.events(LogCleaned)) == 1
    topic.reads_the_latest()


def test_what_a_pass_has_left_before_a_clean_stop_goes_though_nobody_uses_the_log() -> None:
    topic, _, _ = half_done()
    topic.node.stop()
    topic.wait(SECOND_MS)
    assert topic.files(CLEANED)
    topic.configure(cleanup_policy="delete")
    topic.node.start()
    topic.wait(10 * MINUTE_MS)
    assert not topic.files(CLEANED)
    assert topic.node.manager.open_log("users", 0) is None
    assert len(topic.read()) == 11


def changes_of_a_swap(topic: Compacted) -> range:
    """The numbers of the changes of the disk from shortly before the first pass to its end."""
    topic.append(11)
    topic.use(lambda log: log.flush(topic.simulation.now_ms))
    topic.wait(27 * SECOND_MS)
    began = topic.disk.changes
    assert not topic.files(CLEANED)
    while not topic.events(LogCleaned):
        topic.wait(1)
    return range(began, topic.disk.changes + 1)


@pytest.mark.parametrize("power_fails", [True, False], ids=["power failure", "kill"])
def test_a_crash_at_any_step_leaves_a_log_with_all_that_must_stay(power_fails: bool) -> None:
    outcomes = set()
    for step in changes_of_a_swap(Compacted()):
        topic = Compacted(step, power_fails=power_fails)
        topic.append(11)
        topic.use(lambda log, topic=topic: log.flush(topic.simulation.now_ms))
        topic.wait(27 * SECOND_MS)
        topic.disk.crash_at = step
        topic.wait(10 * SECOND_MS)
        assert topic.node.incarnation == 2
        topic.reads_the_latest()
        outcomes.add(len(topic.read()))
        assert not topic.files(CLEANED) + topic.files(SWAP)
        topic.wait(MINUTE_MS)
        topic.reads_the_latest()
        assert len(topic.read()) <= KEYS + 1
    assert outcomes >= {4, 11}
