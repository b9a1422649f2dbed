"""What holds for every test: with CI=true in the environment nothing is skipped unseen.

Tests may run in several processes (`pytest -n 2 --dist loadgroup`). What shares something that is slow to start then
stays in one of them: all tests with the Spark session, and otherwise those of a file. The groups that take long begin
first, so that at the end no process waits for the long run of another.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from support.processes import Cluster
from support.three_nodes import three_racks

HERE = Path(__file__).parent
SHORT_LIVED_SPARK = {
    "SPARK_SUBMIT_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "SPARK_LAUNCHER_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
"""A Spark of the tests lives for seconds: compiling well what runs so briefly costs half of its processor time."""

FIRST = (
    "spark",
    "e2e/test_demo.py",
    "e2e/test_tutorial.py",
    "interop/spark/cluster",
    "interop/spark",
    "simulation",
    "e2e",
    "interop",
    "property",
    "unit",
)
"""In which order groups begin: by the first of these that the name of one starts with; what takes long comes first."""


def pytest_configure(config: pytest.Config) -> None:
    """What holds for all processes that tests start, and for the order in which they get their tests."""
    for name, options in SHORT_LIVED_SPARK.items():
        os.environ.setdefault(name, options)
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # it would begin with the groups of many tests, which are the short ones


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of three real nodes, each in a rack of its own. A test that stops one starts it again."""
    with three_racks(tmp_path_factory.mktemp("three-nodes")) as cluster:
        yield cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts each test in the group of what it shares, and the groups in their order."""
    turns = {}
    for item in items:
        file = item.path.relative_to(HERE).as_posix()
        shared = "spark" if "spark" in getattr(item, "fixturenames", ()) else file
        item.add_marker(pytest.mark.xdist_group(shared))
        turns[item] = next(turn for turn, name in enumerate((*FIRST, "")) if shared.startswith(name))
    items.sort(key=turns.__getitem__)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns a skipped test into a failed one when CI=true: a machine that tests everything must lack nothing."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = (
            f"{item.nodeid} was skipped, and with CI=true nothing may be: {call.excinfo and call.excinfo.value}"
        )
    return report
