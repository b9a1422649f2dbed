"""What holds for every test: with CI=true in the environment nothing is skipped unseen."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest


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
