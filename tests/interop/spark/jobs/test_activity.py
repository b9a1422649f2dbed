"""The job `activity`: counts, popular pages and sessions, right after restarts and with bad input."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

from penstock.pipelines.jobs import activity
from penstock.pipelines.jobs.events import CLICK, CLICK_REQUIRED, judged
from penstock.pipelines.jobs.tables import rows_of
from penstock.pipelines.jobs.visits import Visit, joined
from penstock.testing.broker import LocalBroker

from .conftest import ContextOf, consumed, finish, publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)


def click(seconds: float, page: str, user: str | None = "u1", country: str = "DE", client: str = "10.0.0.1") -> bytes:
    event = {
        "time_ms": START_MS + int(seconds * 1000),
        "client": client,
        "user": user,
        "country": country,
        "page": page,
    }
    return json.dumps(event).encode()


def events(spark: SparkSession, *values: bytes | None) -> DataFrame:
    rows = spark.createDataFrame([(value,) for value in values], "value binary")
    return judged(rows, CLICK, CLICK_REQUIRED, 300)


def table(context: Any, name: str) -> list[dict[str, Any]]:
    rows = rows_of(str(context.directory / "tables" / name))
    return [] if rows is None else rows.to_pylist()


@pytest.mark.slow
def test_what_is_no_click_gets_a_reason_and_the_others_none(spark: SparkSession) -> None:
    year = 365 * 86_400
    rows = events(
        spark,
        click(0, "/a"),
        None,
        b"\xff{",
        b"[1]",
        b'{"time_ms": "noon", "client": "c", "page": "/"}',
        b'{"time_ms": 5, "page": "/"}',
        b'{"time_ms": -1, "client": "c", "page": "/"}',
        b'{"time_ms": 9223372036854775807, "client": "c", "page": "/"}',
        click(50 * year, "/a"),
    )
    reasons = [row.reason for row in rows.select("reason").collect()]
    assert reasons == [
        None,
        "no value",
        "not JSON of the expected fields",
        "not JSON of the expected fields",
        "not JSON of the expected fields",
        "no client",
        "time_ms is no time",
        "time_ms is no time",
        "time_ms is ahead of the clock",
    ]


def test_requests_are_counted_a_minute_by_page_user_and_country(spark: SparkSession) -> None:
    rows = events(spark, click(1, "/a"), click(59, "/a", None), click(60, "/a"), click(2, "/b", "u2", "FR"))
    found = {
        ((row.minute.replace(tzinfo=UTC) - START).seconds // 60, row.dimension, row["name"]): row.requests
        for row in activity.per_minute(rows).collect()
    }
    assert found == {
        (0, "page", "/a"): 2, (0, "page", "/b"): 1, (1, "page", "/a"): 1,
        (0, "user", "u1"): 1, (0, "user", "u2"): 1, (1, "user", "u1"): 1,
        (0, "country", "DE"): 2, (0, "country", "FR"): 1, (1, "country", "DE"): 1,
    }  # fmt: skip


def test_popular_pages_are_ranked_in_each_window(spark: SparkSession) -> None:
    rows = events(spark, *[click(1, "/a")] * 3, *[click(1, "/b")] * 2, click(1, "/c"), *[click(70, "/b")] * 2)
    found = activity.popular(rows, seconds=120, slide_seconds=60, top=2).collect()
    windows: dict[int, list[tuple[int, str, int]]] = {}
    for row in sorted(found, key=lambda row: (row.window_end, row.rank)):
        end = int((row.window_end.replace(tzinfo=UTC) - START).total_seconds())
        windows.setdefault(end, []).append((row.rank, row.page, row.requests))
    assert windows == {
        60: [(1, "/a", 3), (2, "/b", 2)],
        120: [(1, "/b", 4), (2, "/a", 3)],
        180: [(1, "/b", 2)],
    }


def test_requests_with_no_whole_gap_between_them_are_one_visit() -> None:
    def at(*seconds: int) -> list[Visit]:
        return [Visit(s * 1000, s * 1000, 1, f"/{s}", f"/{s}", None) for s in seconds]

    assert joined(at(0, 9, 18, 28), 10_000) == [
        Visit(0, 18_000, 3, "/0", "/18", None), Visit(28_000, 28_000, 1, "/28", "/28", None)
    ]  # fmt: skip
    late = joined([*joined(at(0, 15), 10_000), *at(7)], 10_000)
    assert late == [Visit(0, 15_000, 3, "/0", "/15", None)]


@pytest.mark.slow
def test_a_run_a_stop_and_another_run_count_everything_once(
    broker: LocalBroker, context_of: ContextOf, tmp_path: Path
) -> None:
    for topic in ("clicks", "page-counts", "dead"):
        broker.create_topic(topic)
    context = context_of(
        activity.JOB, topic="clicks", counts_topic="page-counts", session_gap_seconds=60, popular_seconds=120
    )
    first = [click(s, f"/{s % 3}", user=f"u{s % 2}") for s in range(0, 90, 10)]
    publish(broker, "clicks", [*first, b"no click", None])
    finish(activity.run(context))
    second = [click(s, f"/{s % 3}", user=f"u{s % 2}") for s in range(90, 120, 10)]
    publish(broker, "clicks", [*second, click(1000, "/late", "u9"), click(2000, "/later", "u9")])
    finish(activity.run(context))

    values = [json.loads(value) for value in [*first, *second, click(1000, "/late", "u9"), click(2000, "/later", "u9")]]
    expected = Counter((v["time_ms"] // 60_000 * 60_000, v["page"]) for v in values)
    counts = table(context, "counts")
    pages = {
        (int(r["minute"].timestamp() * 1000), r["name"]): r["requests"] for r in counts if r["dimension"] == "page"
    }
    assert pages == expected
    visits = {
        (r["visitor"], (r["began"].replace(tzinfo=UTC) - START).seconds, r["requests"], r["entry"], r["exit"])
        for r in table(context, "sessions")
    }
    assert visits == {("u0", 0, 12, "/0", "/2"), ("u9", 1000, 1, "/late", "/late")}
    top = {r["window_end"].replace(tzinfo=UTC): r["requests"] for r in table(context, "popular") if r["rank"] == 1}
    assert top[START + timedelta(seconds=120)] == 4
    feed: dict[tuple[int, str], int] = {}
    for message in consumed(broker, "page-counts"):
        value = json.loads(message.value())
        assert message.key().decode() == value["page"]
        minute = (value["minute_ms"], value["page"])
        feed[minute] = max(value["requests"], feed.get(minute, 0))
    assert feed == expected
    dead = consumed(broker, "dead")
    reasons = {m.value(): dict(m.headers())["penstock.dead.reason"] for m in dead}
    assert reasons == {b"no click": b"not JSON of the expected fields", None: b"no value"}
