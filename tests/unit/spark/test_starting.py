"""Streaming queries that start at once: the names are there before, and through Spark Connect they start in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.spark import starting
from penstock.spark.limits import SPARK_QUERY_START_TIMEOUT_S
from penstock.spark.starting import PUT_BY_QUERIES, TOPICS, share, started


class Connect:
    """A session of Spark Connect: it has nothing of Java's."""


Connect.__module__ = "pyspark.sql.connect.session"


class Query:
    """A query, and what starts it.

    Args:
        said: what its status says at each look; it has ended after the last.
    """

    def __init__(self, *said: str) -> None:
        self._said = list(said)

    def start(self) -> Query:
        return self

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        return bool(self._said)

    @property
    def status(self) -> dict[str, Any]:
        return {"message": self._said.pop(0)}


def test_all_names_are_there_before_a_query_puts_them_and_those_there_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    here: Any = object()
    variables = {"PYTHONPATH": "p", "SPARK_LOCAL_DIRS": "d"}
    monkeypatch.setattr(starting, "variables_of", lambda spark, source: {(here, TOPICS): variables}[spark, source])
    share(here, TOPICS)
    assert variables == {**PUT_BY_QUERIES, "PYTHONPATH": "p", "SPARK_LOCAL_DIRS": "d"}


def test_the_map_of_a_connect_server_is_not_looked_for() -> None:
    session: Any = Connect()
    share(session, TOPICS)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether others had to wait, at each look; a look takes a second."""
    seen: list[bool] = []
    now = iter(range(1000))
    monkeypatch.setattr(starting, "sleep", lambda _: seen.append(starting._STARTING.locked()))
    monkeypatch.setattr(starting, "monotonic", lambda: next(now))
    yield seen
    assert not starting._STARTING.locked()


@pytest.mark.parametrize(
    ("query", "waits"),
    [
        (lambda: Query("Initializing StreamExecution", "Initializing sources", "Getting offsets from penstock"), 2),
        (lambda: Query("Waiting for data to arrive"), 0),
        (lambda: Query("Initializing sources"), 1),
        (lambda: Query(*["Initializing sources"] * 1000), SPARK_QUERY_START_TIMEOUT_S - 1),
    ],
    ids=["until it has its source", "no longer than that", "until it fails", "not for ever"],
)
def test_a_query_of_connect_sets_up_its_source_alone(query: Callable[[], Any], waits: int, looks: list[bool]) -> None:
    session: Any = Connect()
    writer = query()
    assert started(session, writer) is writer
    assert looks == [True] * waits


def test_queries_of_this_process_wait_for_none(looks: list[bool]) -> None:
    here: Any = object()
    writer: Any = Query("Initializing sources")
    assert started(here, writer) is writer
    assert looks == []
