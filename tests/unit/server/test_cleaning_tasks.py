"""A pass of the log cleaner in worker processes that fail, are killed, hang, or have no memory."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.compaction import HASH_KEY, History, planned
from support.lane_tasks import HeldWorkers
from support.logs import NAME, OneLog, topic_config

from penstock.log.compaction import task as task_module
from penstock.log.compaction.task import CleanLog, PassOutcome, RunPass, TaskRaisedError
from penstock.log.directory import LogDirectory
from penstock.log.names import CLEANED
from penstock.log.replica import Replica, State
from penstock.server import workers as workers_module
from penstock.server.disk import BlockingDisk
from penstock.server.lane import Outcome
from penstock.server.worker_messages import Failed
from penstock.server.workers import Workers

KEYS = 3
linux = pytest.mark.skipif(sys.platform != "linux", reason="a limit of memory that holds")


@pytest.fixture
def clean(disk: BlockingDisk) -> Callable[..., CleanLog]:
    """Makes passes over a log with 800 KB in closed segments, of which a pass leaves the last record of each key."""
    history = History(OneLog(topic_config(segment_bytes=1 << 20, index_interval_bytes=1000), disk))
    for number in range(200):
        history.append([(b"%d" % (number % KEYS), b"%4000d" % number)])
        if number % 50 == 49:
            history.roll()
    history.one.close()
    work = planned(disk, config=topic_config(segment_bytes=300_000))
    directory = LogDirectory(0, "logs", disk, disk)
    replica = Replica("clicks", 0, None, directory, State.CLOSED)

    def clean(*, buffer_bytes: int = 1 << 20, load_factor: float = 0.9) -> CleanLog:
        return CleanLog(replica, None, RunPass(work, buffer_bytes, load_factor, HASH_KEY))  # type: ignore[arg-type]

    return clean


@dataclass
class Given:
    """A pass that a worker was given, which does nothing by itself.

    Attributes: `task` of the worker, `ended` to say how that went; `outcome` waits for what comes of the pass.
    """

    task: Any
    ended: Callable[[Failed], None]
    outcome: Callable[[], Outcome]


@pytest.fixture
def given(run: Any, clean: Callable[..., CleanLog]) -> Given:
    workers = HeldWorkers()
    running = run(workers)
    running.lane.run(clean())
    task, ended = workers.given.get(timeout=60)
    return Given(task, ended, lambda: running.wait(1)[0])


@pytest.fixture
def real_workers(run: Any, tmp_path: Path) -> Iterator[Callable[..., Workers]]:
    """Makes workers of one process each, which end before the lanes do."""
    made: list[Workers] = []

    def make(**more: Any) -> Workers:
        made.append(Workers({0: str(tmp_path)}, processes_max=1, **more))
        return made[-1]

    yield make
    for workers in made:
        workers.close()


def written(disk: BlockingDisk) -> list[str]:
    """What a pass has written so far."""
    return [info.name for info in disk.list(NAME) if info.name.endswith(CLEANED)]


def outcome_of(outcome: Outcome) -> PassOutcome:
    assert outcome.error is None
    assert isinstance(outcome.result, PassOutcome)
    return outcome.result


def is_whole(outcome: PassOutcome) -> bool:
    """Whether a pass did what it should."""
    report = outcome.report
    return report is not None and sum(group.after.records for group in report.groups) == KEYS


def test_a_pass_whose_workers_have_died_leaves_nothing_but_the_reason(disk: BlockingDisk, given: Given) -> None:
    assert is_whole(given.task.run(disk))  # it has written all of it, and dies before it says so
    assert written(disk)
    given.ended(Failed("planted", crashed=True))
    assert outcome_of(given.outcome()) == PassOutcome(None, "planted")
    assert not written(disk)


def test_a_pass_for_which_no_worker_can_be_started_waits_for_one_and_the_node_does_not_do_it(
    disk: BlockingDisk, run: Any, clean: Callable[..., CleanLog], real_workers: Callable[..., Workers]
) -> None:
    running = run(real_workers(command=("false",)))
    running.lane.run(clean())
    failed = outcome_of(running.wait(1)[0])
    assert failed.report is None
    assert failed.failure.startswith(f"the compaction of {NAME}: no worker can be started: ")
    assert not written(disk)


def test_a_node_that_has_no_workers_at_all_runs_a_pass_itself(
    disk: BlockingDisk, run: Any, clean: Callable[..., CleanLog]
) -> None:
    running = run(None)
    running.lane.run(clean())
    assert is_whole(outcome_of(running.wait(1)[0]))
    assert written(disk)


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS])
def test_a_disk_that_fails_in_a_worker_fails_the_pass_as_one_that_fails_in_the_node(given: Given, number: int) -> None:
    given.ended(Failed("OSError: planted", raised=True, errno=number))
    outcome = given.outcome()
    assert isinstance(outcome.error, OSError)
    assert outcome.error.errno == number


def test_a_worker_that_is_short_of_something_costs_the_pass_and_not_the_directory(
    disk: BlockingDisk, given: Given
) -> None:
    assert is_whole(given.task.run(disk))
    given.ended(Failed("OSError: too many open files", raised=True, errno=errno.EMFILE))
    reason = f"the compaction of {NAME}: OSError: too many open files"
    assert outcome_of(given.outcome()) == PassOutcome(None, reason)
    assert not written(disk)


def test_a_bug_in_a_worker_is_a_bug_of_the_pass(disk: BlockingDisk, given: Given) -> None:
    given.ended(Failed("KeyError: planted", raised=True))
    outcome = given.outcome()
    assert isinstance(outcome.error, TaskRaisedError)
    assert str(outcome.error) == f"the compaction of {NAME}: KeyError: planted"
    assert not written(disk)


def test_what_an_error_in_a_worker_was_reaches_the_lane(
    disk: BlockingDisk,
    run: Any,
    clean: Callable[..., CleanLog],
    real_workers: Callable[..., Workers],
    tmp_path: Path,
) -> None:
    """A directory in the place of a segment: the worker cannot read it."""
    operation = clean()
    (tmp_path / NAME / f"{0:020d}.log").rename(tmp_path / "elsewhere")
    (tmp_path / NAME / f"{0:020d}.log").mkdir()
    disk.close()
    running = run(real_workers())
    running.lane.run(operation)
    failed = outcome_of(running.wait(1)[0])
    assert failed.report is None
    assert failed.failure.startswith(f"the compaction of {NAME}: IsADirectoryError: ")


def test_a_pass_changes_no_file_that_was_there(
    disk: BlockingDisk,
    run: Any,
    clean: Callable[..., CleanLog],
    real_workers: Callable[..., Workers],
    tmp_path: Path,
) -> None:
    def files() -> dict[str, tuple[bytes, int]]:
        found = [path for path in (tmp_path / NAME).iterdir() if path.suffix != CLEANED]
        return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}

    operation = clean()
    before = files()
    workers = real_workers()
    running = run(workers)
    running.lane.run(operation)
    assert is_whole(outcome_of(running.wait(1)[0]))
    assert workers.pools[1].done == 1
    assert written(disk)
    assert files() == before
    assert len(before) > 8


def test_a_pass_whose_log_is_gone_when_its_workers_have_died(disk: BlockingDisk, given: Given) -> None:
    disk.rename(NAME, "another")
    given.ended(Failed("planted", crashed=True))
    assert outcome_of(given.outcome()) == PassOutcome(None, "planted")


class Struck:
    """The pace of passes, in which each of the first `count` workers gets a signal when it has begun to write."""

    def __init__(self, disk: BlockingDisk, number: signal.Signals, count: int) -> None:
        self.disk, self.number, self.count = disk, number, count
        self.pids: list[int] = []
        self.workers: Workers

    def wait(self, directory: int, moved_bytes: int, pause: Callable[[float], bool]) -> None:
        (process,) = self.workers.pools[1]._processes
        pid = process._process.pid
        if len(self.pids) < self.count and pid not in self.pids and written(self.disk):
            self.pids.append(pid)
            os.kill(pid, self.number)


@pytest.fixture
def struck(disk: BlockingDisk, real_workers: Callable[..., Workers]) -> Callable[..., Struck]:
    def make(number: signal.Signals, count: int = 1) -> Struck:
        pace = Struck(disk, number, count)
        pace.workers = real_workers(pace=pace)
        return pace

    return make


def test_a_worker_that_is_killed_in_a_pass_costs_it_one_more_try(
    run: Any, clean: Callable[..., CleanLog], struck: Callable[..., Struck]
) -> None:
    pace = struck(signal.SIGKILL)
    running = run(pace.workers)
    running.lane.run(clean())
    assert is_whole(outcome_of(running.wait(1)[0]))
    assert len(pace.pids) == 1
    assert pace.workers.pools[1].started == 2


def test_a_pass_whose_workers_are_killed_twice_is_given_up_and_can_be_tried_again(
    disk: BlockingDisk, run: Any, clean: Callable[..., CleanLog], struck: Callable[..., Struck]
) -> None:
    pace = struck(signal.SIGKILL, 2)
    running = run(pace.workers)
    running.lane.run(clean())
    failed = outcome_of(running.wait(1)[0])
    assert failed.report is None
    assert failed.failure.startswith(f"the compaction of {NAME} failed in a worker process (try 2 of 2): it has died")
    assert len(pace.pids) == 2
    assert not written(disk)
    running.lane.run(clean())
    assert is_whole(outcome_of(running.wait(2)[1]))


def test_a_pass_whose_worker_stops_is_given_up_after_its_time_and_can_be_tried_again(
    disk: BlockingDisk,
    run: Any,
    clean: Callable[..., CleanLog],
    struck: Callable[..., Struck],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_module, "CLEANING_TASK_MAX_MS", 1000)
    monkeypatch.setattr(workers_module, "END_TIMEOUT_S", 0.05)
    pace = struck(signal.SIGSTOP)
    running = run(pace.workers)
    running.lane.run(clean())
    failed = outcome_of(running.wait(1)[0])
    assert failed.report is None
    assert failed.failure.startswith(f"the compaction of {NAME} failed in a worker process (try 1 of 2): no report")
    assert not written(disk)
    monkeypatch.undo()
    running.lane.run(clean())
    assert is_whole(outcome_of(running.wait(2)[1]))


SMALL = (
    *(sys.executable, "-P", "-c"),
    "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30));"
    "from penstock.server.worker_main import main; main()",
)
"""A worker that has a GiB of memory."""


@linux
def test_a_pass_that_takes_more_memory_than_there_is_fails_and_nothing_else_does(
    disk: BlockingDisk, run: Any, clean: Callable[..., CleanLog], real_workers: Callable[..., Workers]
) -> None:
    workers = real_workers(command=SMALL)
    running = run(workers)
    running.lane.run(clean(buffer_bytes=4 << 30, load_factor=1e-6))
    failed = outcome_of(running.wait(1)[0])
    assert failed.report is None
    assert failed.failure.startswith(f"the compaction of {NAME} failed in a worker process (try 2 of 2)")
    assert not written(disk)
    running.lane.run(clean())
    assert is_whole(outcome_of(running.wait(2)[1]))
    assert workers.pools[1].started == 3
