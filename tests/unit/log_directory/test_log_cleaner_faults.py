"""The log cleaner of a node in virtual time: what fails, goes or changes while it works."""

from __future__ import annotations

from uuid import UUID

from support.compacted import MINUTE_MS, SECOND_MS, Compacted
from support.logs import marker
from unit.log_directory.test_log_cleaner import Interrupted

from penstock.config.server import Settings
from penstock.errors import StorageError
from penstock.log.checkpoints import CLEANER_OFFSET, parse_checkpoint
from penstock.log.compaction.dirt import Dirt
from penstock.log.events import LogCleaned, LogNotCleaned
from penstock.log.limits import CLEANING_AGAIN_MS
from penstock.log.names import CLEANED
from penstock.log.producer_state import Origin
from penstock.log.replica import Replica, State
from penstock.records.builder import BatchBuilder


def test_no_interval_between_looks_does_not_keep_the_node_busy() -> None:
    topic = Interrupted(settings=Settings.for_node(1, log_cleaner_backoff_ms=0))
    topic.append(11)
    topic.until_a_pass()
    topic.append(4)
    looks: list[int] = []
    look = topic.node.manager.cleaner.look

    def counted(now_ms: int) -> None:
        looks.append(now_ms)
        assert len(looks) < 1000
        look(now_ms)

    topic.node.manager.cleaner.look = counted
    topic.append(4)
    topic.wait(SECOND_MS)
    assert looks


def running(topic: Compacted) -> int:
    cleaner = topic.node.manager.cleaner
    cleaner._begin_next(topic.simulation.now_ms)
    return len(cleaner._running)


def test_a_pass_that_an_error_of_the_disk_ends_does_not_count_as_running() -> None:
    topic = Interrupted()
    topic.append(11)
    topic.until_a_pass()
    operation = topic.passes.pop()
    operation.owner.operation_failed(operation, OSError(5, "EIO"), topic.simulation.now_ms)
    assert running(topic) == 0


def test_a_directory_that_fails_while_a_log_closes_for_its_swap() -> None:
    topic = closing()
    topic.node.manager.fail_directory(0, OSError(5, "EIO"), topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(SECOND_MS)
    assert running(topic) == 0


def test_a_topic_that_is_deleted_while_its_log_closes_for_its_swap() -> None:
    topic = closing()
    topic.node.manager.delete("users", 0, topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(MINUTE_MS)
    assert running(topic) == 0


def closing() -> Interrupted:
    """One whose log closes, so that its segments can be exchanged."""
    topic = Interrupted()
    topic.append(11)
    topic.until_a_pass()
    operation = topic.passes.pop()
    operation.owner.operation_completed(operation, operation.run(topic.disk), topic.simulation.now_ms)
    replica = topic.node.manager.table.find("users", 0)
    assert replica is not None
    assert replica.frozen is not None
    assert replica.state is State.CLOSING
    return topic


def test_a_topic_that_is_no_longer_compacted_when_its_pass_ends_keeps_all() -> None:
    topic = Interrupted()
    topic.append(11)
    topic.until_a_pass()
    topic.configure(cleanup_policy="delete")
    topic.node.manager.config_changed("users")
    topic.go_on()
    topic.wait(MINUTE_MS)
    assert len(topic.read()) == 11
    assert not topic.events(LogCleaned)


def test_a_topic_that_waits_for_a_thread_and_is_no_longer_compacted_keeps_all() -> None:
    topic = Compacted(settings=Settings.for_node(1, log_cleaner_threads=0))
    topic.append(11)
    topic.wait(MINUTE_MS)
    topic.configure(cleanup_policy="delete")
    topic.node.manager.config_changed("users")
    topic.node.manager.settings_changed(Settings.for_node(1))
    topic.node.manager.cleaner._begin_next(topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(5 * MINUTE_MS)
    assert len(topic.read()) == 11


def test_logs_that_wait_are_cleaned_when_there_are_threads() -> None:
    topic = Compacted(settings=Settings.for_node(1, log_cleaner_threads=0))
    topic.append(11)
    topic.wait(5 * MINUTE_MS)
    topic.node.manager.settings_changed(Settings.for_node(1))
    topic.wait(5 * MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1


def test_where_the_last_pass_ended_is_lowered_for_good_before_a_cut_log_grows_again() -> None:
    topic = Compacted()
    topic.append(11)
    topic.wait(3 * MINUTE_MS)
    assert parse_checkpoint(topic.disk.read(CLEANER_OFFSET, 0, 1000)) == {("users", 0): 10}
    topic.append(1)
    topic.use(lambda log: log.truncate_to(8, topic.simulation.now_ms))
    topic.wait(100)
    topic.written = 8
    topic.append(1)
    assert parse_checkpoint(topic.disk.read(CLEANER_OFFSET, 0, 1000)) == {("users", 0): 8}


def test_where_the_last_pass_ended_is_lowered_where_a_recovery_finds_less() -> None:
    topic = Compacted()
    topic.append(11)
    topic.wait(3 * MINUTE_MS)
    topic.disk.write(CLEANER_OFFSET, 0, [b"0\n1\nusers 0 99\n"])
    topic.disk.fsync(CLEANER_OFFSET)
    topic.node.kill()
    topic.wait(10 * SECOND_MS)
    topic.log()
    topic.wait(100)
    assert topic.node.manager.table.directories[0].clean_offsets.get(("users", 0)) == 11
    assert parse_checkpoint(topic.disk.read(CLEANER_OFFSET, 0, 1000)) == {("users", 0): 11}


def test_a_last_pass_that_ended_beyond_the_logs_end_counts_for_nothing() -> None:
    topic = Compacted(min_compaction_lag_ms=str(30 * MINUTE_MS))
    topic.append(11)
    topic.node.stop()
    topic.wait(SECOND_MS)
    topic.disk.write(CLEANER_OFFSET, 0, [b"0\n1\nusers 0 99\n"])
    topic.configure()
    topic.node.start()
    topic.wait(MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1
    assert topic.node.manager.table.directories[0].clean_offsets.get(("users", 0)) == 10
    topic.reads_the_latest()
    topic.wait(5 * MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1


def test_a_last_pass_that_ended_within_the_active_segment_counts() -> None:
    topic = Compacted()
    topic.append(11)
    topic.wait(3 * MINUTE_MS)
    topic.append(2)
    topic.use(lambda log: log.truncate_to(12, topic.simulation.now_ms))
    topic.wait(SECOND_MS)
    topic.disk.write(CLEANER_OFFSET, 0, [b"0\n1\nusers 0 12\n"])
    topic.node.stop()
    topic.wait(SECOND_MS)
    topic.node.start()
    topic.wait(5 * MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1


def test_a_clock_that_is_set_back_holds_no_log() -> None:
    topic = Compacted()
    topic.append(11)
    topic.disk.capacity_bytes = sum(entry.size_bytes for entry in topic.disk.list("users-0")) + 1_000
    topic.wait(MINUTE_MS)
    assert len(topic.events(LogNotCleaned)) == 1
    topic.disk.capacity_bytes = None
    topic.node.wall.ahead_ms -= 24 * 60 * MINUTE_MS
    topic.wait(CLEANING_AGAIN_MS + MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1


def test_a_clock_that_is_set_ahead_makes_a_log_due() -> None:
    topic = Compacted(min_compaction_lag_ms=str(600 * MINUTE_MS))
    topic.append(11)
    topic.wait(5 * MINUTE_MS)
    assert not topic.events(LogCleaned)
    topic.node.wall.ahead_ms += 601 * MINUTE_MS
    topic.append(1)
    topic.wait(MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1


def test_a_broken_log_is_not_looked_at_over_and_over() -> None:
    topic = Compacted()
    topic.append(1)
    replica = topic.node.manager.table.find("users", 0)
    assert replica is not None
    replica.state = State.BROKEN
    topic.node.manager.config_changed("users")
    topic.wait(5 * MINUTE_MS)
    assert not topic.node.manager.cleaner._schedule._changed


def others(topic: Compacted, count: int, state: State) -> list[Replica]:
    """Replicas that the node has besides."""
    table = topic.node.manager.table
    replicas = [Replica("others", number, UUID(int=9), table.directories[0], state) for number in range(count)]
    for replica in replicas:
        table.add(replica)
    return replicas


def test_many_logs_with_nothing_to_do_are_gone_through() -> None:
    topic = Compacted()
    cleaner = topic.node.manager.cleaner
    for replica in others(topic, 2000, State.CLOSED):
        replica.error = StorageError("it cannot be opened")
        cleaner._due[replica] = Dirt(0, 1)
    cleaner._begin_next(topic.simulation.now_ms)
    assert not cleaner._due


def test_many_logs_that_are_to_be_recovered_are_looked_at_at_intervals() -> None:
    topic = Compacted()
    manager = topic.node.manager
    looks: list[int] = []
    look = manager.cleaner.look

    def counted(now_ms: int) -> None:
        looks.append(now_ms)
        assert len(looks) < 100
        look(now_ms)

    manager.cleaner.look = counted
    for replica in others(topic, 2000, State.RECOVERING):
        manager.cleaner.config_changed(replica)
    topic.node.drain()
    topic.wait(3 * MINUTE_MS)
    assert len(looks) > 10


def test_rolls_leave_one_time_to_look_at_a_log() -> None:
    topic = Compacted(max_compaction_lag_ms=str(10_000 * MINUTE_MS), min_cleanable_dirty_ratio="1")
    for _ in range(20):
        topic.append(4)
        topic.wait(20 * SECOND_MS)
    assert len(topic.node.manager.cleaner._schedule._heap) <= 2


def test_a_crash_during_a_swap_leaves_a_segment_that_no_pass_could_read() -> None:
    def damaged(step: int | None) -> Compacted:
        topic = Compacted(power_fails=False)
        topic.append(11)
        topic.use(lambda log: log.flush(topic.simulation.now_ms))
        topic.wait(20 * SECOND_MS)
        second = "users-0/00000000000000000004.log"
        topic.disk.write(second, topic.disk.size(second) // 2 + 8, [bytes(4)])  # the length of its second batch
        topic.disk.crash_at = step
        return topic

    reference = damaged(None)
    began = reference.disk.changes
    while not reference.events(LogCleaned):
        reference.wait(1)
    assert reference.disk.size("users-0/00000000000000000004.log") > 1000
    for step in range(began, reference.disk.changes + 1):
        topic = damaged(step)
        topic.wait(20 * SECOND_MS)
        assert topic.node.incarnation == 2
        assert topic.disk.exists("users-0/00000000000000000004.log"), step
        assert topic.disk.size("users-0/00000000000000000004.log") > 1000, step


def test_a_move_that_is_cancelled_does_not_undo_what_the_cleaner_has_frozen() -> None:
    topic = closing()
    manager = topic.node.manager
    manager.moving.abandon(("users", 0), topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1
    assert running(topic) == 0
    topic.reads_the_latest()


def test_a_log_whose_worker_failed_is_uncleanable_until_a_later_try() -> None:
    topic = Interrupted()
    topic.append(11)
    topic.until_a_pass()
    operation = topic.passes.pop()
    operation.run(topic.disk)
    assert topic.files(CLEANED)
    reason = "the compaction of users-0 failed in a worker process (try 2 of 2): it has died"
    outcome = operation.without_report(topic.disk, reason)
    assert not topic.files(CLEANED), "what it had written takes room"
    operation.owner.operation_completed(operation, outcome, topic.simulation.now_ms)
    assert list(topic.node.manager.cleaner.uncleanable.values()) == [reason]
    assert [event.reason for event in topic.events(LogNotCleaned)] == [reason]  # type: ignore[attr-defined]
    topic.node.drain()
    topic.wait(CLEANING_AGAIN_MS - MINUTE_MS)
    assert not topic.passes
    topic.until_a_pass()
    topic.go_on()
    topic.reads_the_latest()
    assert len(topic.events(LogCleaned)) == 1
    assert not topic.node.manager.cleaner.uncleanable


def test_a_failed_pass_of_a_log_that_was_deleted_meanwhile_is_nothing() -> None:
    topic = Interrupted()
    topic.append(11)
    topic.until_a_pass()
    operation = topic.passes.pop()
    topic.node.manager.delete("users", 0, topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(SECOND_MS)
    outcome = operation.without_report(topic.disk, "it has died")
    operation.owner.operation_completed(operation, outcome, topic.simulation.now_ms)
    assert not topic.events(LogNotCleaned)
    assert running(topic) == 0


def test_a_log_that_could_not_be_cleaned_is_tried_again_at_once_when_its_config_changes() -> None:
    topic = Compacted()
    topic.append(11)
    topic.disk.capacity_bytes = sum(entry.size_bytes for entry in topic.disk.list("users-0")) + 1_000
    topic.wait(MINUTE_MS)
    assert len(topic.events(LogNotCleaned)) == 1
    topic.disk.capacity_bytes = None
    topic.wait(MINUTE_MS)
    assert not topic.events(LogCleaned)
    topic.node.manager.config_changed("users")
    topic.node.drain()
    topic.wait(MINUTE_MS)
    assert CLEANING_AGAIN_MS > 4 * MINUTE_MS
    assert len(topic.events(LogCleaned)) == 1
    assert not topic.node.manager.cleaner.uncleanable
    topic.wait(CLEANING_AGAIN_MS)
    assert len(topic.events(LogCleaned)) == 1, "the other try is not due any more"


def in_a_transaction(topic: Compacted, *, ended: bool) -> None:
    """Appends a record of a transaction; then, if it has `ended`, that it was aborted."""
    builder = BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    builder.append(topic.simulation.now_ms, b"key", b"v")
    records = bytearray(builder.build())
    topic.use(lambda log: log.append_as_leader(records, 0, topic.simulation.now_ms))
    topic.wait(SECOND_MS)
    if ended:
        end_transaction(topic)


def end_transaction(topic: Compacted) -> None:
    aborted = marker(7, 0, commit=False)
    now_ms = topic.simulation.now_ms
    topic.use(lambda log: log.append_as_leader(aborted, 0, now_ms, origin=Origin.COORDINATOR))
    topic.wait(SECOND_MS)


def test_damage_that_a_pass_finds_when_it_is_planned_is_named_and_is_no_bug() -> None:
    topic = Compacted()
    in_a_transaction(topic, ended=True)
    topic.use(lambda log: log.roll(topic.simulation.now_ms))
    topic.append(9)
    (index,) = [f"users-0/{name}" for name in topic.files(".txnindex") if topic.disk.size(f"users-0/{name}")]
    topic.disk.truncate(index, topic.disk.size(index) // 2)
    topic.wait(MINUTE_MS)
    (reason,) = topic.node.manager.cleaner.uncleanable.values()
    assert ".txnindex" in reason
    assert "bug" not in reason
    assert running(topic) == 0


def test_what_lies_beyond_an_open_transaction_does_not_count_as_dirty() -> None:
    topic = Compacted()
    in_a_transaction(topic, ended=False)
    topic.append(11)
    topic.wait(MINUTE_MS)
    replica = topic.node.manager.table.find("users", 0)
    assert replica is not None
    assert replica.dirty_ratio == 0.0
    assert not topic.node.manager.cleaner._due
    assert not topic.events(LogCleaned)
    end_transaction(topic)
    topic.wait(MINUTE_MS)
    assert topic.events(LogCleaned)
