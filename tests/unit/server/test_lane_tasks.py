"""Operations with a task for a worker: order, reports, failures, and a log recovered by a real worker."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.lane_tasks import HeldWorkers
from support.logs import NAME, NOW_MS, OneLog, batch, topic_config

from penstock.log import recovery_task
from penstock.log.directory import LogDirectory
from penstock.log.directory_operations import RecoverLog
from penstock.log.disk import Disk, Operation
from penstock.log.loading import OpenArguments
from penstock.log.recovery import RecoveryReport
from penstock.log.replica import Replica, State
from penstock.log.tasks import Task, TaskOperation
from penstock.records.compression import Codec
from penstock.records.validation import Rules
from penstock.replication.rewrite import RewriteBatch
from penstock.server.disk import BlockingDisk
from penstock.server.lane import Outcome
from penstock.server.worker_messages import Done, Failed
from penstock.server.workers import WorkerProcess, Workers


@pytest.fixture
def one(disk: BlockingDisk, monkeypatch: pytest.MonkeyPatch) -> OneLog:
    """A log with a torn tail, large enough for a worker."""
    monkeypatch.setattr(recovery_task, "RECOVERY_WORKER_MIN_BYTES", 1)
    one = OneLog(topic_config(segment_bytes=2048, index_interval_bytes=300), disk)
    for number in range(40):
        one.append(batch(b"%100d" % number))
    path = one.log.segments.all[-1].log_path
    disk.write(path, disk.size(path), [b"torn"])
    return one


def recovery(one: OneLog) -> RecoverLog:
    directory = LogDirectory(0, "logs", one.disk, one.disk)
    replica = Replica("clicks", 0, None, directory, State.RECOVERING)
    return RecoverLog(replica, None, OpenArguments(NAME, one.config, 0, 0, NOW_MS))  # type: ignore[arg-type]


def recovered(outcome: Outcome) -> RecoveryReport:
    assert isinstance(outcome.operation, RecoverLog)
    assert isinstance(outcome.result, RecoveryReport)
    assert (outcome.result.log_end_offset, outcome.result.cut_bytes) == (40, 4)
    return outcome.result


class Look(Operation):
    """The size of the log's last segment."""

    def __init__(self, one: OneLog, order: str = NAME) -> None:
        super().__init__(0, order, None)  # type: ignore[arg-type]
        self.path = one.log.segments.all[-1].log_path

    def run(self, disk: Disk) -> int:
        return disk.size(self.path)


def test_operations_of_the_same_order_wait_for_the_task_and_others_do_not(one: OneLog, run: Any) -> None:
    workers = HeldWorkers()
    running = run(workers)
    size_bytes = Look(one).run(one.disk)
    operations = [Look(one), recovery(one), Look(one), recovery(one), Look(one), Look(one, "another")]
    for operation in operations:
        assert running.lane.run(operation) is None
    before = list(running.wait(2))
    task, ended = workers.given.get(timeout=60)
    assert {outcome.operation.order: outcome.result for outcome in before} == {NAME: size_bytes, "another": size_bytes}
    assert workers.given.empty(), "the second recovery waits for the first"
    assert running.lane.busy
    ended(Done(task.run(one.disk)))
    running.wait(3)
    task, ended = workers.given.get(timeout=60)
    ended(Done(task.run(one.disk)))
    outcomes = [outcome for outcome in running.wait(6) if outcome.operation.order == NAME]
    assert [outcome.operation for outcome in outcomes] == operations[:5]
    assert [outcome.result for outcome in outcomes if isinstance(outcome.operation, Look)][1:] == [size_bytes - 4] * 2
    assert not running.lane.busy


def test_a_report_about_a_log_that_was_changed_meanwhile_is_not_applied(one: OneLog, run: Any) -> None:
    workers = HeldWorkers()
    running = run(workers)
    running.lane.run(recovery(one))
    task, ended = workers.given.get(timeout=60)
    report = task.run(one.disk)
    path = one.log.segments.all[-1].log_path
    one.disk.truncate(path, one.disk.size(path) - 5)
    ended(Done(report))
    (outcome,) = running.wait(1)
    assert outcome.result.log_end_offset == 39, "the lane has looked again"


@pytest.mark.parametrize("how", [{}, {"crashed": True}, {"raised": True}, {"raised": True, "errno": 5}])
def test_a_recovery_whose_task_failed_is_done_by_the_lane(one: OneLog, run: Any, how: dict[str, Any]) -> None:
    workers = HeldWorkers()
    running = run(workers)
    running.lane.run(recovery(one))
    workers.given.get(timeout=60)[1](Failed("planted", **how))
    recovered(running.wait(1)[0])


@pytest.mark.parametrize("crashed", [False, True])
def test_a_batch_is_refused_only_when_it_has_ended_workers(run: Any, crashed: bool) -> None:
    class Validation(TaskOperation):
        def task(self, disk: Disk) -> Task:
            return RewriteBatch(bytearray(), Rules(), Codec.NONE, None, deep=True, wall_ms=NOW_MS)

        def run(self, disk: Disk) -> str:
            raise ZeroDivisionError("a bug, here as well as in a worker")

        def finish(self, disk: Disk, report: Any) -> Any:
            return report

        def without_report(self, disk: Disk, reason: str) -> str:
            return f"refused: {reason}"

    workers = HeldWorkers()
    running = run(workers)
    running.lane.run(Validation(0, NAME, None))  # type: ignore[arg-type]
    workers.given.get(timeout=60)[1](Failed("planted", crashed))
    (outcome,) = running.wait(1)
    if crashed:
        assert outcome.result == "refused: planted"
    else:
        assert isinstance(outcome.error, ZeroDivisionError)


def test_a_lane_without_workers_does_all_itself(one: OneLog, run: Any) -> None:
    running = run(None)
    running.lane.run(recovery(one))
    recovered(running.wait(1)[0])


def test_a_real_worker_recovers_a_log(one: OneLog, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def by_the_lane(*_: object) -> None:
        pytest.fail("the lane has done it")

    monkeypatch.setattr(RecoverLog, "run", by_the_lane)
    monkeypatch.setattr(RecoverLog, "without_report", by_the_lane)
    workers = Workers({0: str(tmp_path)})
    try:
        running = run(workers)
        running.lane.run(recovery(one))
        report = recovered(running.wait(1)[0])
        assert sum(pool.started for pool in workers.pools) == 1
    finally:
        workers.close()
    one.open(recovery_point=report.recovery_point)
    assert one.log.log_end_offset == 40


@pytest.fixture
def split(one: OneLog, monkeypatch: pytest.MonkeyPatch) -> int:
    """The log is recovered in parts; gives the number of its segments."""
    monkeypatch.setattr(recovery_task, "RECOVERY_TASK_MAX_BYTES", 0)
    return len(one.log.segments.bases)


def test_real_workers_recover_a_log_in_parts(
    one: OneLog, split: int, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecoverLog, "run", lambda *_: pytest.fail("the lane has done it"))
    workers = Workers({0: str(tmp_path)}, processes_max=2)
    try:
        running = run(workers)
        running.lane.run(recovery(one))
        assert recovered(running.wait(1)[0]).scanned_segments == split
        assert sum(pool.done for pool in workers.pools) == split
    finally:
        workers.close()


def test_parts_end_in_any_order_and_the_lane_goes_on_when_all_have(one: OneLog, split: int, run: Any) -> None:
    workers = HeldWorkers()
    running = run(workers)
    running.lane.run(recovery(one))
    given = [workers.given.get(timeout=60) for _ in range(min(split, recovery_task.RECOVERY_PARTS_MAX))]
    for task, ended in reversed(given[1:]):
        ended(Done(task.run(one.disk)))
    assert running.lane.busy
    assert running.heard.empty()
    task, ended = given[0]
    ended(Done(task.run(one.disk)))
    for _ in range(split - len(given)):
        task, ended = workers.given.get(timeout=60)
        ended(Done(task.run(one.disk)))
    assert recovered(running.wait(1)[0]).scanned_segments == split


@pytest.mark.parametrize("crashed", [False, True])
def test_a_part_that_fails_has_the_lane_recover_the_log_when_the_others_have_ended(
    one: OneLog, split: int, run: Any, crashed: bool
) -> None:
    workers = HeldWorkers()
    running = run(workers)
    running.lane.run(recovery(one))
    given = [workers.given.get(timeout=60) for _ in range(min(split, recovery_task.RECOVERY_PARTS_MAX))]
    given[0][1](Failed("planted", crashed))
    for task, ended in given[1:]:
        ended(Done(task.run(one.disk)))
    recovered(running.wait(1)[0])


@pytest.mark.usefixtures("split")
def test_a_worker_that_is_killed_in_the_middle_of_a_recovery_costs_its_task_one_more_try(
    one: OneLog, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecoverLog, "run", lambda *_: pytest.fail("the lane has done it"))
    workers = Workers({0: str(tmp_path)}, processes_max=1)
    killed: list[int] = []
    real = WorkerProcess.run

    def kill_once(process: WorkerProcess, path: str, task: Task, moved: Callable[[int], None]) -> Done | Failed:
        if not killed:
            killed.append(process._process.pid)
            process.kill()
        return real(process, path, task, moved)

    monkeypatch.setattr(WorkerProcess, "run", kill_once)
    try:
        running = run(workers)
        running.lane.run(recovery(one))
        recovered(running.wait(1)[0])
        assert sum(pool.started for pool in workers.pools) == 2
    finally:
        workers.close()


def test_a_log_is_recovered_where_no_worker_starts(one: OneLog, run: Any, tmp_path: Path) -> None:
    workers = Workers({0: str(tmp_path)}, command=(sys.executable, "-c", ""))
    try:
        running = run(workers)
        running.lane.run(recovery(one))
        recovered(running.wait(1)[0])
    finally:
        workers.close()
