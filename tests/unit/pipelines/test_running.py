"""A pipeline's thread: steps until done, restarts by the policy, one failure that stops nobody else."""

from __future__ import annotations

import json
import multiprocessing
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

pytest.importorskip("pyspark", reason="needs penstock[spark]")

from penstock.cli.main import main
from penstock.errors import ConfigError
from penstock.pipelines import monitor as states
from penstock.pipelines import queries as queries_module
from penstock.pipelines import runner
from penstock.pipelines.declaration import Pipeline, Restart
from penstock.pipelines.job import Job
from penstock.pipelines.metrics import MetricsThread
from penstock.pipelines.monitor import Monitor, Report
from penstock.pipelines.queries import Queries, QueryError
from penstock.pipelines.runner import Fleet, Running
from penstock.pipelines.state import Lock, RunningError, is_held, read_status, write_status
from penstock.pipelines.step import Did
from penstock.spark.read.stream_offsets import ends_of
from penstock.spark.session import one_line, worker_trouble


class FakeStreams:
    active: tuple[()] = ()


class FakeSpark:
    streams = FakeStreams()


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "enter_thread", lambda *_: None)


class CountingStep:
    """Does what it is given, a piece a step; an exception in the list is raised."""

    interval_ms = 0

    def __init__(self, pieces: list[Any]) -> None:
        self.pieces = iter(pieces)
        self.closed = 0

    def step(self) -> Did | None:
        piece = next(self.pieces, None)
        if isinstance(piece, BaseException):
            raise piece
        return piece

    def close(self) -> None:
        self.closed += 1


def running(tmp_path: Path, run: Callable[[Any], Any], *, attempts: int = 3, stop: Any = None) -> Running:
    pipeline = Pipeline(
        "p", "j", Job(run), "h:1", {}, tmp_path / "p", restart=Restart(attempts, backoff_ms=1, healthy_after_ms=60_000)
    )
    return Running(pipeline, Monitor("p", "j", 1, 0), stop or threading.Event(), once=True)


def test_steps_are_driven_until_all_have_caught_up(tmp_path: Path) -> None:
    steps = [CountingStep([Did(5, 2, 0.1), Did(2, 0, 0.1)]), CountingStep([Did(1, 0, 0.1)])]
    it = running(tmp_path, lambda _: steps)
    it.run(FakeSpark())  # type: ignore[arg-type]
    report = it.monitor.report(1_000)
    assert (report.state, report.rows, report.lag, report.batches) == (states.DONE, 8, 0, 3)
    assert [step.closed for step in steps] == [1, 1]


def test_a_failure_is_followed_by_another_start_and_its_steps_are_closed(tmp_path: Path) -> None:
    made: list[CountingStep] = []

    def run(_: object) -> list[CountingStep]:
        made.append(CountingStep([OSError("the disk is full")] if not made else [Did(1, 0, 0.1)]))
        return made[-1:]

    it = running(tmp_path, run)
    it.run(FakeSpark())  # type: ignore[arg-type]
    report = it.monitor.report(0)
    assert (report.state, report.restarts, report.error) == (states.DONE, 1, "OSError: the disk is full")
    assert [step.closed for step in made] == [1, 1]


def test_failures_in_a_row_are_limited(tmp_path: Path) -> None:
    starts: list[int] = []

    def run(_: object) -> list[CountingStep]:
        starts.append(1)
        raise OSError("no")

    it = running(tmp_path, run, attempts=3)
    it.run(FakeSpark())  # type: ignore[arg-type]
    assert (it.monitor.state, len(starts)) == (states.FAILED, 4)


def test_what_another_start_would_meet_again_is_the_end(tmp_path: Path) -> None:
    starts: list[int] = []

    def run(_: object) -> list[CountingStep]:
        starts.append(1)
        raise ConfigError("wrong")

    it = running(tmp_path, run)
    it.run(FakeSpark())  # type: ignore[arg-type]
    assert (it.monitor.state, len(starts)) == (states.FAILED, 1)


def test_a_pipeline_told_to_stop_ends_the_step_it_is_in_and_begins_no_other(tmp_path: Path) -> None:
    stop = threading.Event()
    step = CountingStep([Did(1, 9, 0.1), Did(1, 9, 0.1)])
    do, step.step = step.step, lambda: (stop.set(), do())[1]  # type: ignore[method-assign, func-returns-value]
    it = running(tmp_path, lambda _: [step], stop=stop)
    it.run(FakeSpark())  # type: ignore[arg-type]
    report = it.monitor.report(0)
    assert (report.state, report.batches, step.closed) == (states.STOPPED, 1, 1)


@pytest.mark.parametrize("fail_fast", [False, True])
def test_one_that_fails_stops_the_others_only_if_asked(tmp_path: Path, fail_fast: bool) -> None:
    stop, go_on = threading.Event(), threading.Event()

    def bad(_: object) -> None:
        raise ConfigError("wrong")

    class Waiting(CountingStep):
        def step(self) -> Did | None:
            go_on.wait(10)
            return Did(1, 0, 0.1)

    failing, good = running(tmp_path, bad, stop=stop), running(tmp_path, lambda _: [Waiting([])], stop=stop)
    fleet = Fleet([failing, good], stop, fail_fast=fail_fast)
    fleet.start(FakeSpark())  # type: ignore[arg-type]
    fleet._threads[0].join()
    fleet.working()
    go_on.set()
    assert not fleet.join()
    assert good.monitor.state == (states.STOPPED if fail_fast else states.DONE)


def test_waits_double_up_to_a_limit() -> None:
    policy = Restart(backoff_ms=100, backoff_max_ms=1_000)
    assert [policy.wait_ms(failures) for failures in range(1, 7)] == [100, 200, 400, 800, 1_000, 1_000]


def hold(directory: Path, ready: Any, end: Any) -> None:
    with Lock(directory, "p"):
        ready.set()
        end.wait(30)


def test_a_second_copy_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, end = context.Event(), context.Event()
    first = context.Process(target=hold, args=(tmp_path, ready, end))
    first.start()
    assert ready.wait(30)
    assert is_held(tmp_path)
    with pytest.raises(RunningError, match=f"pipeline p runs already, as process {first.pid}"), Lock(tmp_path, "p"):
        pass
    first.kill()  # the kernel lets go of the lock
    first.join()
    assert not is_held(tmp_path)
    with Lock(tmp_path, "p"):
        assert is_held(tmp_path)


def test_the_rate_is_that_of_the_last_seconds() -> None:
    it = Monitor("p", "j", 1, now_ms=0)
    for second in range(30):
        it.did("a", Did(100, 7, 0.5), now_ms=second * 1_000)
    report = it.report(29_500)
    assert (report.rows, report.rows_per_s, report.lag) == (3_000, 100.0, 7)
    assert it.report(60_000).rows_per_s == 0


def test_status_tells_a_live_pipeline_from_the_last_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "clicks"
    report = Report("clicks", "load", states.RUNNING, 4711, 1, 2, rows=1_234, lag=5, error="it broke", error_ms=1)
    with Lock(directory, "clicks"):
        write_status(directory, report)
        known = read_status(directory)
        assert known is not None
        assert (known.report, known.live) == (report, True)
    assert main(["pipeline", "status", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "dead" in told  # it said running, and nobody holds its lock
    assert "1,234" in told
    assert "it broke" in told
    monkeypatch.setenv("PENSTOCK_STATE", str(tmp_path / "none"))
    assert main(["pipeline", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_metrics_are_what_the_monitor_knows() -> None:
    it = Monitor("clicks", "load", 1, now_ms=0)
    it.enters(states.RUNNING)
    it.did("a", Did(100, 7, 0.5), now_ms=5_000)
    with MetricsThread("127.0.0.1:0", [it], lambda: 10_000) as served:
        text = urlopen(f"http://{served.address}/metrics").read().decode()
        assert urlopen(f"http://{served.address}/healthz").read() == b"ok\n"
    lines = text.splitlines()
    assert 'penstock_pipeline_up{pipeline="clicks"} 1' in lines
    assert 'penstock_pipeline_rows_total{pipeline="clicks"} 100' in lines
    assert 'penstock_pipeline_lag{pipeline="clicks"} 7' in lines
    assert 'penstock_pipeline_batch_seconds_count{pipeline="clicks"} 1' in lines
    assert 'penstock_pipeline_last_commit_timestamp_seconds{pipeline="clicks"} 5' in lines


class FakeQuery:
    """A streaming query as far as a pipeline looks at it."""

    name = "p.q"
    id = "1"

    def __init__(self, *, active: bool, error: Exception | None = None, batches: int = 0) -> None:
        self.isActive = active
        self._error = error
        self.status = {"isTriggerActive": False}
        offsets = json.dumps({"t": {"0": 40}})
        self.recentProgress = [
            {"batchId": n, "batchDuration": 500, "numInputRows": 10, "sources": [{"endOffset": offsets}]}
            for n in range(batches)
        ]

    def exception(self) -> Exception | None:
        return self._error

    def stop(self) -> None:
        self.isActive = False


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    return Monitor("p", "j", 1, 0)  # type: ignore[return-value]


def test_each_batch_of_a_query_counts_once(monitor: Monitor) -> None:
    query = FakeQuery(active=False, batches=2)
    queries = Queries([query], monitor, "h:1")  # type: ignore[list-item]
    for _ in range(3):
        assert not queries.look(0, once=True)
    assert (monitor.report(0).rows, monitor.report(0).batches) == (20, 2)
    assert ends_of(query.recentProgress[0]) == {("t", 0): 40}


def test_a_querys_place_is_committed_to_the_group_of_its_name(
    monitor: Monitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[tuple[str, str, dict[tuple[str, int], int]]] = []

    def sender(bootstrap: str, group_id: str, security: Any) -> Callable[[Any], Any]:
        return lambda ends: commits.append((bootstrap, group_id, dict(ends))) or {}  # type: ignore[func-returns-value]

    monkeypatch.setattr(queries_module, "sender", sender)
    query = FakeQuery(active=True, batches=1)
    queries = Queries([query], monitor, "h:1", in_groups=True)  # type: ignore[list-item]
    queries.look(0, once=True)
    queries.look(0, once=True)
    assert commits == [("h:1", "p.q", {("t", 0): 40})]
    query.recentProgress = [{"sources": [{"endOffset": json.dumps({"t": {"0": 41}})}]}]
    queries.stop(at_once=True)
    assert commits[1:] == [("h:1", "p.q", {("t", 0): 41})], "that of the batch which the stop has waited for"


def test_a_query_that_failed_or_was_stopped_is_a_failure(monitor: Monitor) -> None:
    failed = Queries([FakeQuery(active=False, error=OSError("boom"))], monitor, "h:1")  # type: ignore[list-item]
    with pytest.raises(QueryError, match=r"query p\.q: boom"):
        failed.look(0, once=True)
    stopped = Queries([FakeQuery(active=False)], monitor, "h:1")  # type: ignore[list-item]
    with pytest.raises(QueryError, match="was stopped, and not by this pipeline"):
        stopped.look(0, once=False)


def test_sparks_pages_become_one_line() -> None:
    page = (
        "An error occurred while calling o1.start.\n: org.x.E: [DATA_SOURCE_NOT_FOUND] Failed to find it.\n\tat a.b(c)"
    )
    assert one_line(page) == "org.x.E: [DATA_SOURCE_NOT_FOUND] Failed to find it."
    python = "Traceback:\n  File x\npenstock.errors.ConfigError: option a is wrong\n\tat org.apache.spark.X"
    assert one_line(python) == "penstock.errors.ConfigError: option a is wrong"
    assert "set PYSPARK_PYTHON" in worker_trouble("[PYTHON_VERSION_MISMATCH] Python in worker has different version")
    assert "has no penstock" in worker_trouble("ModuleNotFoundError: No module named 'penstock'")
