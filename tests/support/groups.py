"""Which tests stay together in one process when several run them, and in which order.

What shares something that is slow to start stays together: the tests of a file, and all files that use one session of
Spark. Those that start Sparks of their own, in processes, stay together so that one of these runs at a time. The groups
that take long begin first, so that at the end no process waits for the long run of another. pytest-xdist's own groups,
by a mark, need an attribute that pytest 9.2 took away; without a word each test is then a group of its own, and each
process starts all that is shared.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
SPARK = "spark"
DRIVERS = "drivers of spark"
OF_DRIVERS = ("tests/e2e/", "tests/interop/spark/cluster/")
"""Where tests start Sparks of their own and have no use for a session in this process."""
FIRST = (SPARK, DRIVERS, "tests/e2e", "tests/interop", "tests/simulation", "tests/property", "tests/unit")
"""By what their names start with, in which order groups begin. Spark's take longest; what mostly waits runs beside it,
and the many short ones come last."""


def group_of(node_id: str) -> str:
    """The name of a test's group."""
    file = node_id.partition("::")[0]
    if not runs_spark(file):
        return file
    return DRIVERS if file.startswith(OF_DRIVERS) else SPARK


@cache
def runs_spark(file: str) -> bool:
    """Whether a file has tests that are marked so: the process that hands out the tests collects none."""
    return "pytest.mark.spark" in (ROOT / file).read_text(encoding="utf-8")


@cache
def says_slow(file: str) -> bool:
    """Whether `make test-slow` looks into a file: it, or a conftest.py above it, has the mark in its text."""
    path = ROOT / file
    above = [each / "conftest.py" for each in path.parents if each.is_relative_to(ROOT / "tests")]
    return any("mark.slow" in each.read_text(encoding="utf-8") for each in (path, *above) if each.exists())


def turn(node_id: str) -> int:
    """When a test's group begins."""
    group = group_of(node_id)
    return next((number for number, name in enumerate(FIRST) if group.startswith(name)), len(FIRST))


def scheduler(config: pytest.Config, log: Any) -> Any:
    """What hands out the groups to the processes, in the order in which they were collected."""
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

        def schedule(self) -> None:
            """A process runs a test when it knows the next one, or that there is none. One that replaces another is
            given one group, which may have a single test: it gets more, or hears that this is all."""
            super().schedule()
            for node in self.nodes:
                while self._pending_of(self.assigned_work[node]) < 2 and not node.shutting_down:
                    self._reschedule(node)

        def remove_node(self, node: Any) -> str | None:
            """A process has ended. The test that ended it is not run again: it would end the next one, too."""
            units = self.assigned_work[node] = {
                group: unit for group, unit in self.assigned_work[node].items() if not all(unit.values())
            }
            for unit in units.values():
                for test, is_over in unit.items():
                    if not is_over:
                        unit[test] = True
                        super().remove_node(node)
                        return test
            return super().remove_node(node)

    config.option.loadscopereorder = False  # it would begin with the groups of many tests, which are the short ones
    return GroupScheduling(config, log)
