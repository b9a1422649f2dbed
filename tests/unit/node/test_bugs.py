"""Errors that should never happen, as the log has them: each cause at once, and what comes again seldom."""

from __future__ import annotations

import pytest

from penstock.errors import CorruptRecordError
from penstock.node.bugs import Bugs
from penstock.node.limits import BUG_CAUSES_MAX, BUG_LOGGED_AGAIN_MS


def raised(message: str) -> Exception:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


def test_a_cause_is_logged_with_its_trace_and_then_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    now_ms = 0
    bugs = Bugs(lambda: now_ms)
    for number in range(5):
        bugs.caught("request", "Fetch", raised(f"planted {number}"))
    assert [record.exc_info is not None for record in caplog.records] == [True]
    now_ms = BUG_LOGGED_AGAIN_MS
    bugs.caught("request", "Fetch", raised("planted again"))
    assert len(caplog.records) == 2
    assert "5 times more" in caplog.messages[1]
    assert bugs.counts["request"] == 6


def test_a_disk_damaged_all_over_neither_fills_the_log_nor_hides_a_bug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bugs = Bugs(lambda: 0)
    for _ in range(3):
        for index in range(2 * BUG_CAUSES_MAX):
            bugs.damage(f"fetch of t-{index}", CorruptRecordError("planted"))
    assert len(caplog.records) == BUG_CAUSES_MAX
    bugs.caught("request", "Fetch", raised("planted"))
    assert "a bug while a request was handled" in caplog.messages[-1]
