"""Worker processes: real ones, which serve well, die, hang and babble."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from support import worker_tasks
from support.worker_tasks import (
    COMMAND,
    IOPRIO_IDLE,
    TESTS,
    Add,
    Ask,
    Babble,
    Boast,
    Compute,
    ComputeSoon,
    Die,
    DieOnce,
    Hold,
    Look,
    LookSoon,
    Measure,
    Mistake,
    OddTask,
    Overwrite,
    Process,
    Raise,
    Ranked,
    Stop,
    Sum,
    Swell,
    io_class,
)

from penstock.log.tasks import Task
from penstock.server import worker_messages
from penstock.server.metrics import shell_samples
from penstock.server.worker_main import FIRST_TO_DIE
from penstock.server.worker_messages import Done, Failed, GarbageError, Order, decode, encode
from penstock.server.workers import WorkerProcess, Workers

ANSWER_S = 60
"""How long a test waits for what takes milliseconds on a machine that is not busy."""

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc")


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' own tasks may be in messages."""
    classes = dict(worker_messages.CLASSES)
    worker_tasks.register(classes)
    monkeypatch.setattr(worker_messages, "CLASSES", classes)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Workers]]:
    made: list[Workers] = []

    def make(**arguments: Any) -> Workers:
        paths = arguments.pop("paths", {0: str(tmp_path)})
        workers = Workers(paths, **{"processes_max": 1, "command": COMMAND, **arguments})
        made.append(workers)
        return workers

    yield make
    for workers in made:
        workers.close()
        assert processes(workers) == 0, "no process outlives its broker"


def started(workers: Workers) -> int:
    return sum(pool.started for pool in workers.pools)


def processes(workers: Workers) -> int:
    return sum(pool.processes for pool in workers.pools)


def run(workers: Workers, *tasks: Task, directory: int = 0) -> list[Done | Failed]:
    """Has tasks done; how they ended, in the order in which they did."""
    ends: SimpleQueue[Done | Failed] = SimpleQueue()
    for task in tasks:
        workers.submit(directory, task, ends.put)
    return [ends.get(timeout=ANSWER_S) for _ in tasks]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + ANSWER_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def exists(pid: int) -> bool:
    """Whether there is such a process, or what is left of one that nobody has waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_ten_thousand_small_tasks_share_one_start(make: Callable[..., Workers]) -> None:
    workers = make()
    ends = run(workers, *(Ask(left=number, right=1) for number in range(10_000)))
    assert ends == [Done(Sum(number + 1)) for number in range(10_000)]
    assert started(workers) == 1


def test_workers_start_when_there_is_work_and_never_too_many(make: Callable[..., Workers]) -> None:
    workers = make(processes_max=2)
    assert started(workers) == 0
    run(workers, *(Add(left=number) for number in range(100)))
    assert started(workers) == 2
    run(workers, Add())
    assert started(workers) == 2


def test_of_the_tasks_that_wait_the_one_that_ranks_first_is_done_first(
    make: Callable[..., Workers], tmp_path: Path
) -> None:
    workers, held = make(), tmp_path / "held"
    ends: SimpleQueue[Done | Failed] = SimpleQueue()
    for task in (
        Hold(path=str(held)),
        *(Ranked(place=place, value=value) for place, value in ((3, 1), (1, 2), (2, 3), (1, 4))),
    ):
        workers.submit(0, task, ends.put)
    held.touch()
    found = [ends.get(timeout=ANSWER_S) for _ in range(5)]
    assert found[1:] == [Done(Sum(value)) for value in (2, 4, 3, 1)]


def test_an_idle_worker_is_ended_and_the_next_task_starts_another(make: Callable[..., Workers]) -> None:
    workers = make(idle_s=0.05)
    (first,) = run(workers, Look())
    assert isinstance(first, Done)
    assert isinstance(first.report, Process)
    wait_until(lambda: processes(workers) == 0)
    assert not exists(first.report.pid), "nor is there a zombie"
    assert run(workers, Add(left=1)) == [Done(Sum(1))]
    assert started(workers) == 2


@linux
def test_a_worker_has_nothing_of_the_broker_and_gives_way_to_it(make: Callable[..., Workers], tmp_path: Path) -> None:
    inheritable = os.open(tmp_path / "file", os.O_CREAT)
    os.set_inheritable(inheritable, True)
    try:
        (end,) = run(make(), Look())
    finally:
        os.close(inheritable)
    assert isinstance(end, Done)
    assert isinstance(end.report, Process)
    found = end.report
    assert found.parent == os.getpid()
    assert found.session == found.pid, "a signal for the terminal's processes is not for it"
    assert found.niceness > os.nice(0)
    assert found.oom_score_adj == int(FIRST_TO_DIE)
    assert not [path for path in found.descriptors if str(tmp_path) in path]
    assert len([path for path in found.descriptors if path.startswith("socket:")]) == 1


@linux
def test_a_worker_whose_report_a_client_waits_for_does_not_give_way(make: Callable[..., Workers]) -> None:
    (end,) = run(make(), LookSoon())
    assert isinstance(end, Done)
    assert isinstance(end.report, Process)
    assert end.report.niceness == os.nice(0)
    assert end.report.io_class != IOPRIO_IDLE


@pytest.mark.skipif(sys.platform != "linux" or io_class() is None, reason="no ioprio_get, or nobody knows its number")
def test_a_worker_reads_and_writes_when_nobody_else_does(make: Callable[..., Workers]) -> None:
    (end,) = run(make(), Look())
    assert isinstance(end, Done)
    assert isinstance(end.report, Process)
    assert end.report.io_class == IOPRIO_IDLE


def test_a_directory_that_hangs_holds_up_no_other_and_no_client(make: Callable[..., Workers], tmp_path: Path) -> None:
    workers = make(paths={0: str(tmp_path), 1: str(tmp_path)}, processes_max=2)
    for number in range(3):
        workers.submit(0, Compute(str(tmp_path / f"pid {number}")), pytest.fail)
    wait_until((tmp_path / "pid 0").exists)
    assert run(workers, Ask(left=1)) == [Done(Sum(1))]
    assert run(workers, Add(left=2), directory=1) == [Done(Sum(2))]


def test_a_task_that_a_client_waits_for_does_not_wait_long_for_a_worker(
    make: Callable[..., Workers], tmp_path: Path
) -> None:
    workers = make(wait_max_s=0.05)
    for number in range(2):
        workers.submit(0, ComputeSoon(str(tmp_path / f"pid {number}")), SimpleQueue[object]().put)
    (end,) = run(workers, Ask())
    assert end == Failed("Ask: no worker was free for 0.05 s")


def test_workers_that_cannot_be_killed_are_left_behind_but_not_many(
    make: Callable[..., Workers], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when they wait for a disk that hangs."""
    workers, stop = make(), Stop(deadline_ms=1000)
    with monkeypatch.context() as patched:
        patched.setattr("penstock.server.workers.END_TIMEOUT_S", 0.05)
        patched.setattr(subprocess.Popen, "kill", lambda _: None)
        ends = run(workers, stop, stop, stop)
        assert [isinstance(end, Failed) and end.crashed for end in ends] == [True, True, False]
    assert processes(workers) == 2
    for process in workers.pools[1]._processes:
        process.kill()
        process.end()
    assert run(workers, Add(left=1)) == [Done(Sum(1))]


def test_the_figures_of_workers_are_among_the_samples(make: Callable[..., Workers], world: Any) -> None:
    world.shell.workers = make()
    run(world.shell.workers, Add(), Ask(), Raise())
    values = {sample.name: sample.value for sample in shell_samples(world.shell)}
    assert values["penstock_worker_processes"] == 2
    assert values["penstock_worker_tasks_total"] == 2
    assert values["penstock_worker_tasks_failed_total"] == 1


def test_a_worker_reads_files_as_they_are_and_writes_none(make: Callable[..., Workers], tmp_path: Path) -> None:
    workers = make()
    (tmp_path / "log").write_bytes(b"12345")
    assert run(workers, Measure("log")) == [Done(Sum(5))]
    os.replace(tmp_path / "log", tmp_path / "old")
    (tmp_path / "log").write_bytes(b"123")
    assert run(workers, Measure("log")) == [Done(Sum(3))], "the descriptor of the other file was not kept"
    (end,) = run(workers, Overwrite("log"))
    assert isinstance(end, Failed)
    assert (tmp_path / "log").read_bytes() == b"123"


def test_a_task_whose_worker_is_killed_is_tried_once_more(make: Callable[..., Workers], tmp_path: Path) -> None:
    workers = make()
    assert run(workers, DieOnce(str(tmp_path / "died"))) == [Done(Sum(1))]
    assert started(workers) == 2


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (Die(), "Die failed in a worker process (try 2 of 2): it has died"),
        (Stop(deadline_ms=1000), "Stop failed in a worker process (try 1 of 2): no report within 1000 ms"),
        (Babble(), "Babble failed in a worker process (try 2 of 2): garbage: UnpicklingError"),
        (Boast(), "Boast failed in a worker process (try 2 of 2): garbage: a report of 1152921504606846976 bytes"),
        (Swell(), "Swell failed in a worker process (try 2 of 2): it has died"),
        (Mistake(), "Mistake failed in a worker process (try 2 of 2): garbage: no report of Mistake"),
    ],
    ids=lambda value: value.what if isinstance(value, OddTask) else "",
)
def test_a_task_that_fails_is_given_up_after_a_while_and_the_next_one_is_done(
    make: Callable[..., Workers], task: OddTask, reason: str
) -> None:
    workers = make()
    failed, done = run(workers, task, Add(left=1, right=2))
    assert isinstance(failed, Failed)
    assert failed.reason.startswith(reason)
    assert failed.crashed
    assert done == Done(Sum(3))
    assert started(workers) == (2 if isinstance(task, Stop) else 3), "a worker that failed is of no more use"


def test_a_task_that_raises_is_not_tried_again(make: Callable[..., Workers]) -> None:
    workers = make()
    assert run(workers, Raise(), Add()) == [Failed("ValueError: planted", raised=True), Done(Sum(0))]
    assert started(workers) == 1


def test_where_no_worker_can_be_started_the_task_fails(make: Callable[..., Workers], tmp_path: Path) -> None:
    for command in ((str(tmp_path / "missing"),), (sys.executable, "-c", "")):
        workers = make(command=command)
        ends = run(workers, Add(), Add())
        assert [isinstance(end, Failed) and end.crashed for end in ends] == [False, False], "no task is at fault"
        assert ends[0] == ends[1], "the reason stays"
        assert processes(workers) == 0
        assert started(workers) <= 1, "it would not start for the next task either"


def test_where_no_thread_can_be_started_the_task_fails_at_once(
    make: Callable[..., Workers], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    workers = make()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_room)
        (end,) = run(workers, Add())
    assert isinstance(end, Failed)
    assert not end.crashed
    assert run(workers, Add(left=1)) == [Done(Sum(1))]


def test_a_worker_of_another_release_gets_no_task(
    make: Callable[..., Workers], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(worker_messages.CLASSES, next(reversed(worker_messages.CLASSES)))
    (end,) = run(make(), Add())
    assert isinstance(end, Failed)
    assert "another release" in end.reason
    assert not end.crashed


def test_a_worker_that_dies_between_tasks_is_no_crash_of_the_next(make: Callable[..., Workers]) -> None:
    workers = make()
    (first,) = run(workers, Look())
    assert isinstance(first, Done)
    assert isinstance(first.report, Process)
    os.kill(first.report.pid, signal.SIGKILL)
    workers.pools[1]._command = ("missing",)
    (end,) = run(workers, Add())
    assert isinstance(end, Failed)
    assert not end.crashed


def test_closing_ends_what_runs_and_nobody_hears_of_it(make: Callable[..., Workers], tmp_path: Path) -> None:
    workers, ends = make(), list[object]()
    path = tmp_path / "pid"
    workers.submit(0, Compute(str(path)), ends.append)
    workers.submit(0, Add(), ends.append)
    wait_until(path.exists)
    workers.close()
    assert not exists(int(path.read_text()))
    assert not [thread for thread in threading.enumerate() if thread.name == "penstock-worker"]
    workers.submit(0, Add(), ends.append)
    assert ends == []


BROKER = f"""
import sys, threading
sys.path.insert(0, {str(TESTS)!r})
from support import worker_tasks
from penstock.server import worker_messages
from penstock.server.metrics import shell_samples
from penstock.server.workers import Workers
worker_tasks.register(worker_messages.CLASSES)
Workers({{0: "."}}, command=worker_tasks.COMMAND).submit(0, worker_tasks.Compute(sys.argv[1]), print)
threading.Event().wait()
"""


def test_a_broker_that_is_killed_leaves_no_worker(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", BROKER, str(path)]) as broker:
        wait_until(path.exists)
        pid = int(path.read_text())
        assert runs(pid)
        broker.send_signal(signal.SIGKILL)
    wait_until(lambda: not runs(pid))


def runs(pid: int) -> bool:
    """Whether a process runs; one that has ended may still wait for whoever adopted it."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state) and not state.startswith("Z")


def test_a_worker_that_computes_sees_the_end_of_its_broker_by_itself(tmp_path: Path) -> None:
    """Where the kernel has no signal for it."""
    process = WorkerProcess(COMMAND)
    path = tmp_path / "pid"
    process._socket.sendall(encode(Order(str(tmp_path), Compute(str(path)))))
    wait_until(path.exists)
    process._socket.close()
    assert process._process.wait(ANSWER_S) == 0


def test_a_message_holds_nothing_but_plain_data_of_ours() -> None:
    assert decode(encode(Done(Sum(1)))[worker_messages.LENGTH.size :]) == Done(Sum(1))
    for message in (os.system, Done(os.system), Done(Path("/")), subprocess.Popen, 7):
        with pytest.raises(GarbageError):
            decode(pickle.dumps(message))
    for body in (b"", b"\x80\x05", b"cos\nsystem\n(S'true'\ntR.", encode(Done(Sum(1)))):
        with pytest.raises(GarbageError):
            decode(body)
