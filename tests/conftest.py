"""What holds for every test: with CI=true in the environment nothing is skipped unseen.

Tests may run in several processes (`pytest -n 3 --dist loadgroup`); support/groups.py says which stay together.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from typing import Any

import hypothesis
import pytest
from support import groups, limits
from support.processes import Cluster
from support.three_nodes import three_racks

hypothesis.settings.register_profile("steady", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("search", deadline=None, print_blob=True)
hypothesis.settings.load_profile("steady")
"""The same examples at each run of `make test`, so that a red run is the change's fault; `make test-all` searches on
(`--hypothesis-profile search`). No deadline: no verdict hangs on speed."""

SHORT_LIVED_SPARK = {
    "SPARK_SUBMIT_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "SPARK_LAUNCHER_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
"""A Spark of the tests lives for seconds: compiling well what runs so briefly costs half of its processor time."""


def pytest_configure() -> None:
    """What holds for all processes that tests start. A shell that runs us in the background has Ctrl-C ignored by all
    below it; ours are to hear it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name, options in SHORT_LIVED_SPARK.items():
        os.environ.setdefault(name, options)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests go to processes group by group."""
    return groups.scheduler(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of three real nodes, each in a rack of its own. A test that stops one starts it again."""
    with three_racks(tmp_path_factory.mktemp("three-nodes")) as cluster:
        yield cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives each test its time limit, and puts the groups in their order. A slow test that `make test-slow` would not
    see ends the run."""
    for item in items:
        limits.limit(item)
        if item.get_closest_marker("slow") and not groups.says_slow(item.nodeid.partition("::")[0]):
            raise pytest.UsageError(f"{item.nodeid}: make test-slow leaves it out, for its file does not name the mark")
    items.sort(key=lambda item: groups.turn(item.nodeid))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Guards each phase by itself: pytest disarms faulthandler's timer whenever a phase has failed."""
    with limits.guarded(item):
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    with limits.guarded(item):
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    with limits.guarded(item):
        yield


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
