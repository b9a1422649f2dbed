"""Which of Spark's events a listener takes for its query's, and when it commits."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs penstock[spark]")

from penstock.spark.limits import GROUP_COMMIT_INTERVAL_MS
from penstock.spark.read import group_listener
from penstock.spark.read.group_listener import GroupListener


class Progress(dict[str, Any]):
    """A batch's progress as Spark gives it, of a query with this name and run."""

    def __init__(self, name: str, run: str, end: int) -> None:
        super().__init__(sources=[{"endOffset": {"clicks": {"0": end}}}])
        self.name = name
        self.runId = run


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[dict[tuple[str, int], int]]:
    """What was committed."""
    taken: list[dict[tuple[str, int], int]] = []

    def sender(bootstrap: str, group_id: str, security: Any) -> Callable[[Any], Any]:
        assert (bootstrap, group_id) == ("h:1", "reports")
        return lambda ends: taken.append(dict(ends)) or {}  # type: ignore[func-returns-value]

    monkeypatch.setattr(group_listener, "sender", sender)
    return taken


def made(now: list[int]) -> GroupListener:
    listener = GroupListener("h:1", "reports", query="q")
    listener._group.clock = lambda: now[0]
    return listener


def started(name: str, run: str) -> Any:
    return SimpleNamespace(name=name, runId=run)


def batch(name: str, run: str, end: int) -> Any:
    return SimpleNamespace(progress=Progress(name, run, end))


def test_every_batch_is_committed_in_time_and_the_last_at_once(commits: list[dict[tuple[str, int], int]]) -> None:
    listener = made([1])
    listener.onQueryStarted(started("q", "1"))
    for end in (5, 6, 7):
        listener.onQueryProgress(batch("q", "1", end))
    assert not listener.wait(0)
    listener.onQueryTerminated(started("", "1"))
    assert listener.wait(0)
    assert commits == [{("clicks", 0): 5}, {("clicks", 0): 7}]


def test_an_idle_query_commits_what_waits(commits: list[dict[tuple[str, int], int]]) -> None:
    now = [1]
    listener = made(now)
    listener.onQueryProgress(batch("q", "1", 5))
    listener.onQueryProgress(batch("q", "1", 6))
    now[0] += GROUP_COMMIT_INTERVAL_MS
    listener.onQueryIdle(started("", "2"))
    assert len(commits) == 1, "another query is idle"
    listener.onQueryIdle(started("", "1"))
    assert commits == [{("clicks", 0): 5}, {("clicks", 0): 6}]


def test_other_queries_are_nobodys_business(commits: list[dict[tuple[str, int], int]]) -> None:
    listener = made([1])
    listener.onQueryStarted(started("other", "2"))
    listener.onQueryProgress(batch("other", "2", 5))
    listener.onQueryTerminated(started("", "2"))
    assert not listener.wait(0)
    assert commits == []


def test_a_query_that_is_started_again_is_waited_for_again(commits: list[dict[tuple[str, int], int]]) -> None:
    listener = made([1])
    listener.onQueryStarted(started("q", "1"))
    listener.onQueryTerminated(started("", "1"))
    assert listener.wait(0)
    listener.onQueryStarted(started("q", "2"))
    assert not listener.wait(0)
    assert commits == []
