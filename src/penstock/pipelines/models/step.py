"""A run of a pipeline's models: tests of the sources, then each model behind those that it reads, with its tests.

A test that fails, or a model, stops what depends on it, directly or not, and nothing else; what was stopped is left
out until all that it reads is well again. Runs of one pipeline take turns with its backfills (see `turns`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.pipelines.job import Job
from penstock.pipelines.models.alarms import Alarms
from penstock.pipelines.models.frames import Ends, Frames, ends_now
from penstock.pipelines.models.position import Positions
from penstock.pipelines.models.project import Model, Project, Source
from penstock.pipelines.models.results import BAD, ERROR, PASS, RUN, SKIPPED, Result, now, write_results
from penstock.pipelines.step import Did, Figures
from penstock.pipelines.turns import turn

if TYPE_CHECKING:
    from penstock.pipelines.context import Context
    from penstock.pipelines.models.materialize import Materializer
    from penstock.pipelines.models.testing import Testing


class ModelsError(PenstockError):
    """Models did not run; the message says which, and why."""


class TestsError(PenstockError):
    """Tests failed in a run that is to end; the message says which."""

    __test__ = False


def job_of(project: Project) -> Job:
    """The job that runs a project's models every interval, or once."""
    return Job(lambda context: [ModelsStep(context, project)], doc="Runs the models of the file.")


class ModelsStep:
    """Runs all models of a project, one run a step."""

    def __init__(self, context: Context, project: Project) -> None:
        from penstock.pipelines.models.materialize import Materializer
        from penstock.pipelines.models.testing import Testing

        frames = Frames(context, project)
        positions = Positions(context.directory)
        self.context, self.project = context, project
        self.materializer: Materializer = Materializer(context, frames, positions)
        self.testing: Testing = Testing(context, frames, positions)
        self._alarms = Alarms(project.alarm, context, frames.session)
        self._trouble = ""
        self._well: set[str] = set()

    @property
    def interval_ms(self) -> int:
        return self.context.interval_ms

    def close(self) -> None:
        """The session goes with the process: it holds nothing but names."""

    def step(self) -> Figures | None:
        """One run. Where there is no further run, raises ModelsError if a model failed, TestsError if a test did; if
        no model could be run, ModelsError in any case: it may be Spark that is ill."""
        with turn(self.context.directory, self.context.stop) as mine:
            if not mine:
                return None
            began = time.monotonic()
            ends = ends_now(self.context, self.project.sources.values())
            rows, results = self._run(ends)
            self.keep(results)
        broken = [each for each in results if each.test == RUN and each.status == ERROR]
        if broken and (self.context.once or not self._well):
            raise ModelsError("; ".join(f"model {each.step}: {each.message}" for each in broken))
        trouble = "; ".join(each.line for each in results if each.status in BAD)
        if trouble and self.context.once:
            raise TestsError(trouble)
        if trouble and trouble != self._trouble:  # not again for as long as it lasts
            self.context.told(trouble)
        self._trouble = trouble
        return Did(rows, 0, time.monotonic() - began)

    def keep(self, results: Sequence[Result]) -> None:
        """Adds results to their table, and gives the alarm for those that began to fail."""
        self._alarms.hear(results)  # first: a table that cannot be written must not keep it from anybody
        project = self.project
        write_results(project.results, results, project.storage_options, keep_days=project.results_keep_days)

    def test(self, names: Sequence[str] = ()) -> list[Result] | None:
        """Runs the tests of some nodes, or of all, over what is there between two runs; keeps and returns the results.
        None if it was stopped while it waited for a run to end."""
        nodes = [node for node in self.project.nodes() if not names or node.name in names]
        with turn(self.context.directory, self.context.stop) as mine:
            if not mine:
                return None
            ends = ends_now(self.context, self.project.sources.values())
            found = [result for node in nodes for result in self.testing.of(node, ends)]
            self.keep(found)
        return found

    def _run(self, ends: Mapping[str, Ends]) -> tuple[int, list[Result]]:
        rows, results = 0, list[Result]()
        stopped: dict[str, str] = {}  # by node, why what reads it is left out
        for node in self.project.nodes():
            if self.context.stop.is_set():
                break
            if isinstance(node, Model):
                if why := next((stopped[ref] for ref in node.refs if ref in stopped), None):
                    stopped[node.name] = why
                    self._well.discard(node.name)
                    results.append(self._result(node, SKIPPED, why))
                    continue
                try:
                    rows += self.materializer.run(node, ends)
                except Exception as error:  # whatever a query or a function raises
                    results.append(self._result(node, ERROR, message_of(error)))
                    stopped[node.name] = f"{node.name} failed"
                    self._well.discard(node.name)
                    continue
                if self.context.stop.is_set():
                    break  # perhaps in the middle of a batch, which no test may look at
                if node.name not in self._well:
                    self._well.add(node.name)
                    results.append(self._result(node, PASS, ""))
            found = self.testing.of(node, ends)
            results += found
            if bad := [each.test for each in found if each.status in BAD]:
                stopped[node.name] = f"{bad[0]} of {node.name} failed"
        return rows, results

    def _result(self, node: Source | Model, status: str, message: str) -> Result:
        return Result(now(), self.context.name, node.name, RUN, status, message=message)


def message_of(error: Exception) -> str:
    """What an error says, in a line."""
    from penstock.spark.session import one_line

    if isinstance(error, PenstockError):
        return str(error)
    return one_line(error) or type(error).__name__
