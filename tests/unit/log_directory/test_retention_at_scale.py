"""Retention of many replicas in the same minute: the work of one step is bounded, and so are the files removed at a
time. What counts is work, not time.
"""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.log.directory_operations import RemoveDirectory
from penstock.log.disk import Disk
from penstock.log.limits import RETENTION_LOOKED_AT_MAX, UNLINK_STEP_MS, UNLINKS_PER_STEP
from penstock.log.log import Log
from penstock.log.replica import State
from penstock.log.retention_schedule import RetentionSchedule
from penstock.log.retiring import BATCH_REPLICAS_MAX, RetireSegments
from simulator.world.disk import SimulatedDisk

from .test_retention_unopened import HOUR_MS, MINUTE_MS, Topic

PARTITIONS = 90


@pytest.fixture
def topic() -> Topic:
    """Partitions with two old segments each, and a new one."""
    topic = Topic(partitions=PARTITIONS, retention_ms=str(HOUR_MS), file_delete_delay_ms="60000")
    for partition in range(PARTITIONS):
        topic.append(5, partition)
    topic.wait(30 * MINUTE_MS)
    for partition in range(PARTITIONS):
        topic.append(1, partition)
    return topic


def test_open_logs_that_fall_due_together_are_looked_at_a_few_a_step(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: Counter[int] = Counter()
    each: Counter[str] = Counter()
    step = 0
    take, retire = RetentionSchedule.take, Log.delete_old_segments

    def noting_steps(schedule: RetentionSchedule, now_ms: int) -> object:
        nonlocal step
        step += 1
        return take(schedule, now_ms)

    def noting(log: Log, now_ms: int, high_watermark: int) -> int:
        looked_at[step] += 1
        removed = retire(log, now_ms, high_watermark)
        each[log.name] += bool(removed)
        return removed

    monkeypatch.setattr(RetentionSchedule, "take", noting_steps)
    monkeypatch.setattr(Log, "delete_old_segments", noting)
    topic.wait(40 * MINUTE_MS)
    assert max(looked_at.values()) == RETENTION_LOOKED_AT_MAX
    assert all(each.values())
    assert len(each) == PARTITIONS
    assert [topic.segments(partition) for partition in range(PARTITIONS)] == [[4]] * PARTITIONS


def test_what_falls_due_while_others_are_looked_at_waits_for_the_next_look(topic: Topic) -> None:
    """A replica that stays due, whatever is done about it, would have the look go on for ever."""
    schedule = topic.node.manager._retention
    replicas = list(topic.node.manager.table.replicas())
    for replica in replicas:
        schedule.changed(replica)
    now_ms = topic.simulation.now_ms + HOUR_MS
    taken = []
    for steps in range(20):
        if steps and schedule._look_number is None:
            break
        few = schedule.take(now_ms)
        assert len(few) <= RETENTION_LOOKED_AT_MAX
        for replica in few:
            schedule.expect(replica, 0)
            schedule.changed(replica)
        taken += few
    assert sorted(replica.partition for replica in taken) == list(range(PARTITIONS))
    schedule.arm()
    assert schedule._look_set_ms is not None
    assert schedule._look_set_ms - now_ms == topic.node.manager.table.settings.log_retention_check_interval_ms


def test_closed_logs_that_fall_due_together_are_retired_a_few_at_a_time(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.restart_cleanly()
    most = 0
    run = RetireSegments.run

    def noting(operation: RetireSegments, disk: Disk) -> object:
        nonlocal most
        replicas = topic.node.manager.table.replicas()
        most = max(most, sum(replica.state is State.RETIRING for replica in replicas))
        return run(operation, disk)

    monkeypatch.setattr(RetireSegments, "run", noting)
    topic.wait(40 * MINUTE_MS)
    assert 0 < most <= BATCH_REPLICAS_MAX
    assert [topic.segments(partition) for partition in range(PARTITIONS)] == [[4]] * PARTITIONS


def unlinked_by_ms(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How many files go at which time, from now on."""
    found: Counter[int] = Counter()
    unlink = SimulatedDisk.unlink

    def noting(disk: SimulatedDisk, path: str) -> None:
        found[topic.simulation.now_ms] += ".deleted" in path or "-delete/" in path
        unlink(disk, path)

    monkeypatch.setattr(SimulatedDisk, "unlink", noting)
    return found


def most_within(found: Counter[int], milliseconds: int) -> int:
    return max(
        sum(count for at_ms, count in found.items() if start_ms <= at_ms < start_ms + milliseconds)
        for start_ms in found
    )


def test_so_many_files_are_removed_a_second_and_no_more(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    found = unlinked_by_ms(topic, monkeypatch)
    topic.wait(40 * MINUTE_MS)
    assert sum(found.values()) > 10 * UNLINKS_PER_STEP
    assert most_within(found, UNLINK_STEP_MS) <= UNLINKS_PER_STEP
    assert not [path for path in topic.disk.paths() if path.endswith(".deleted")]


def test_a_log_with_many_files_and_many_logs_are_removed_in_steps(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.append(80)
    found = unlinked_by_ms(topic, monkeypatch)
    for partition in range(PARTITIONS):
        topic.node.manager.delete("clicks", partition, topic.simulation.now_ms)
    topic.node.drain()
    whole: list[bool] = []
    run = RemoveDirectory.run

    def noting(operation: RemoveDirectory, disk: Disk) -> bool:
        whole.append(run(operation, disk))
        return whole[-1]

    monkeypatch.setattr(RemoveDirectory, "run", noting)
    topic.wait(5 * MINUTE_MS)
    assert whole.count(True) == PARTITIONS
    assert False in whole, "that of partition 0 had too many for one step"
    assert most_within(found, UNLINK_STEP_MS) <= 3 * UNLINKS_PER_STEP
    assert topic.disk.list("") == [info for info in topic.disk.list("") if not info.is_directory]


def test_a_clean_stop_removes_all_that_is_left(topic: Topic) -> None:
    for partition in range(PARTITIONS):
        topic.node.manager.delete("clicks", partition, topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(1_000)
    topic.node.stop()
    topic.wait(10_000)
    assert not topic.node.running
    assert topic.disk.list("") == [info for info in topic.disk.list("") if not info.is_directory]
