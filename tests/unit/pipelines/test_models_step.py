"""A run of models and what it tells, with models and tests that are only pretended: no Spark, no brokers."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")

from deltalake import DeltaTable

from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.models import step as steps
from penstock.pipelines.models.alarms import Alarms
from penstock.pipelines.models.backfill import Backfill
from penstock.pipelines.models.page import page_of
from penstock.pipelines.models.project import INCREMENTAL, Alarm, Model, Project, Test
from penstock.pipelines.models.results import ERROR, FAIL, PASS, RUN, SKIPPED, Result, last_results, now, write_results
from penstock.pipelines.models.step import ModelsError, ModelsStep

OVER = datetime(2026, 1, 31, 10, tzinfo=UTC)
TESTED = Model("tested", tests=(Test("not_null", ("page",)),))
BARE, READER = Model("bare"), Model("reader", refs=("bare",))


@dataclass
class Pretended:
    """A materializer and tests that do what is set; `stops` is what a model's run does beside."""

    stop: threading.Event = field(default_factory=threading.Event)
    broken: set[str] = field(default_factory=set)
    failing: set[str] = field(default_factory=set)
    stops: bool = False
    tested: list[str] = field(default_factory=list)

    def run(self, model: Model, ends: Mapping[str, Any]) -> int:
        if model.name in self.broken:
            raise PenstockError("no such column")
        if self.stops:
            self.stop.set()
        return 1

    def of(self, node: Model, ends: Mapping[str, Any]) -> list[Result]:
        self.tested.append(node.name)
        status = FAIL if node.name in self.failing else PASS
        return [Result(now(), "shop", node.name, each.name, status) for each in node.tests]


def step_of(tmp_path: Path, how: Pretended, *models: Model, alarm: Alarm | None = None, once: bool = False) -> Any:
    project = Project({}, {each.name: each for each in models}, str(tmp_path / "results"), alarm=alarm or Alarm())
    told: list[str] = []
    context = SimpleNamespace(directory=tmp_path, stop=how.stop, once=once, name="shop", told=told.append, lines=told)
    found = ModelsStep.__new__(ModelsStep)
    found.__dict__.update(context=context, project=project, materializer=how, testing=how, _well=set(), _trouble="")
    found._alarms = Alarms(project.alarm, context, None)  # type: ignore[arg-type]
    return found


@pytest.fixture(autouse=True)
def no_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "ends_now", lambda context, sources: {})


def writes_to(path: Path) -> Alarm:
    return Alarm((sys.executable, "-c", f"import sys; open({str(path)!r}, 'a').write(sys.stdin.read())"))


def told_in(path: Path) -> list[tuple[str, str]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [(each["step"], each["test"]) for each in lines]


def newest(tmp_path: Path) -> dict[str, str]:
    return {f"{each.step} {each.test}": each.status for each in last_results(str(tmp_path / "results"), "shop", {})}


def test_a_model_that_is_well_again_is_told_of_when_it_fails_again(tmp_path: Path) -> None:
    how = Pretended()
    step = step_of(tmp_path, how, TESTED, BARE, READER, alarm=writes_to(tmp_path / "told"))
    for broken in ({"bare"}, {"bare"}, set[str](), {"bare"}):
        how.broken = broken
        assert step.step() is not None, "what does not depend on it goes on"
    assert told_in(tmp_path / "told") == [("bare", RUN)] * 2
    assert newest(tmp_path) == {
        "tested not_null(page)": PASS,
        f"tested {RUN}": PASS,
        f"bare {RUN}": ERROR,
        f"reader {RUN}": SKIPPED,
    }
    how.broken = set()
    assert step.step() is not None
    assert newest(tmp_path)[f"reader {RUN}"] == PASS
    page = page_of(step.project, "shop", last_results(str(tmp_path / "results"), "shop", {}))
    assert "skipped" not in page


def test_a_run_in_which_nothing_worked_is_a_failure_of_the_pipeline(tmp_path: Path) -> None:
    with pytest.raises(ModelsError, match="model bare: no such column"):
        step_of(tmp_path, Pretended(broken={"bare"}), BARE, READER).step()
    with pytest.raises(ModelsError, match="model bare: no such column"):
        step_of(tmp_path, Pretended(broken={"bare"}), BARE, TESTED, once=True).step()


def test_nothing_is_tested_that_was_stopped_in_the_middle(tmp_path: Path) -> None:
    how = Pretended(stops=True, failing={"tested"})
    step = step_of(tmp_path, how, TESTED, alarm=writes_to(tmp_path / "told"))
    step.step()
    assert how.tested == []
    assert told_in(tmp_path / "told") == []


def test_an_alarm_is_given_though_the_results_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("in the way")
    step = step_of(tmp_path, Pretended(failing={"tested"}), TESTED, alarm=writes_to(tmp_path / "told"))
    with pytest.raises(Exception, match=r"."):
        step.step()
    assert told_in(tmp_path / "told") == [("tested", "not_null(page)")]


def test_an_alarm_that_could_not_be_given_is_given_later_and_does_not_keep_the_other(tmp_path: Path) -> None:
    sent: list[Sequence[Any]] = []
    session = SimpleNamespace(createDataFrame=lambda rows, schema: _Records(sent, rows))
    lines: list[str] = []
    context: Any = SimpleNamespace(told=lines.append, source=dict)
    script = tmp_path / "page"
    alarms = Alarms(Alarm((str(script),), "alarms"), context, session)  # type: ignore[arg-type]
    bad = [Result(now(), "shop", "views", f"t{n}", FAIL) for n in range(2)]
    alarms.hear(bad)
    assert len(sent) == 1, "the topic has it though the command is not there"
    assert "No such file" in lines[0]
    script.write_text(f"#!/bin/sh\ncat >> {tmp_path}/told\n")
    script.chmod(0o755)
    for _ in range(2):
        alarms.hear(bad)
    assert told_in(tmp_path / "told") == [("views", "t0"), ("views", "t1")]
    assert len(sent) == 1


class _Records:
    """A DataFrame that is written to a list."""

    def __init__(self, sent: list[Sequence[Any]], rows: Sequence[Any]) -> None:
        sent.append(rows)

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: self

    @property
    def write(self) -> _Records:
        return self


def test_windows_that_are_not_over_are_not_backfilled(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(f'v1\n{{"batchWatermarkMs":{int(OVER.timestamp() * 1000)}}}\n-')
    (tmp_path / "state" / "0").mkdir(parents=True)
    materializer = SimpleNamespace(checkpoint=lambda model: str(tmp_path))
    live: Any = SimpleNamespace(materializer=materializer, project=SimpleNamespace(storage_options={}))
    model = Model("hours", materialized=INCREMENTAL, event_time="hour")

    def check(model: Model, end: datetime) -> None:
        Backfill(live, model, threading.Event(), print)._check_windows(end)

    check(model, OVER.replace(hour=11))  # it keeps no windows
    (tmp_path / "state" / "0" / "1.delta").write_bytes(b"")
    check(model, OVER)
    check(Model("hours", materialized=INCREMENTAL, unique_key=("hour",)), OVER.replace(hour=11))
    with pytest.raises(ConfigError, match="knows that only of those before 2026-01-31T10:00:00"):
        check(model, OVER.replace(hour=11))


def test_results_are_deleted_when_they_are_as_old_as_the_policy_says(tmp_path: Path) -> None:
    """Of the pipeline alone whose policy it is; and the table is not rewritten for each that is just over."""
    path = str(tmp_path / "results")

    def kept(keep_days: int, *ages_days: float, pipeline: str = "it's shop") -> list[tuple[str, int]]:
        found = [Result(now() - timedelta(days=age), pipeline, "m", "t", PASS) for age in ages_days]
        write_results(path, found, {}, keep_days=keep_days)
        rows = DeltaTable(path).to_pyarrow_table().to_pylist()
        return sorted((row["pipeline"], (now() - row["time"]).days) for row in rows)

    kept(0, 40, pipeline="other")
    assert kept(0, 40, 30.5, 1) == [("it's shop", 1), ("it's shop", 30), ("it's shop", 40), ("other", 40)]
    assert kept(30, 0) == [("it's shop", 0), ("it's shop", 1), ("other", 40)]


def test_a_table_is_not_rewritten_for_results_that_are_just_over(tmp_path: Path) -> None:
    path = str(tmp_path / "results")
    for age_days in (30.5, 0):
        write_results(path, [Result(now() - timedelta(days=age_days), "shop", "m", "t", PASS)], {}, keep_days=30)
    assert DeltaTable(path).to_pyarrow_table().num_rows == 2
