"""The demo's results: what the pipelines' tables say, on the page and on the terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

import pyarrow as pa

from penstock.pipelines.demo.pipelines import Batch
from penstock.pipelines.demo.results import Results
from penstock.pipelines.generate.clicks import Planted
from penstock.pipelines.generate.truth import score

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
PLANTED = [Planted("bad", "scraper", "curl", 0, 1, 2), Planted("worse", "login", "curl", 0, 1, 2)]


def minute(at: int) -> datetime:
    return NOON + timedelta(minutes=at)


TABLES: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("activity", "counts"): [
        {"minute": minute(at), "dimension": dimension, "name": name, "requests": 10 + at}
        for at in range(6)
        for dimension, name in (("page", "/a"), ("page", "/<b>"), ("country", "DE"), ("user", "u1"))
    ],
    ("activity", "popular"): [
        {"window_start": minute(end - 5), "window_end": minute(end), "rank": rank, "page": page, "requests": 9 - rank}
        for end in (5, 9)
        for rank, page in ((2, "/a"), (1, "/<b>"))
    ],
    ("activity", "sessions"): [
        {"visitor": f"u{n}", "seconds": 60.0 * n, "requests": n + 1, "entry": "/a"} for n in range(3)
    ],
    ("security", "alerts"): [
        {"client": client, "agent": "curl", "rule": "rate", "began": minute(0), "until": minute(5),
         "requests": 900, "figure": 3.0}
        for client in ("bad", "good")
    ],
}  # fmt: skip


def results() -> Results:
    def read(job: str, name: str) -> pa.Table | None:
        rows = TABLES.get((job, name))
        return None if rows is None else pa.Table.from_pylist(rows)

    return Results(read, 150, PLANTED, [Batch("activity.counts", 1.0, 0.5, 10), Batch("activity.counts", 6.0, 0.4, 10)])


def test_a_terminal_is_told_counts_and_alarms() -> None:
    assert results().said() == [
        "activity    150 of 150 clicks counted, 3 sessions ended; popular: /<b> (8), /a (7)",
        "security    1 of 2 planted addresses found, 1 false alarms",
        "operations  0 rollups of 0 series, 0 alerts",
    ]


def test_the_page_shows_what_was_found_and_what_was_not() -> None:
    found = results()
    cards = "".join([*found.visitors(), *found.abuse(), *found.operations(), found.batch_card()])
    assert "/&lt;b&gt;" in cards
    assert "<b>" not in cards
    assert "Precision 50%, recall 50%." in cards
    assert cards.count("<polyline") == 3  # all pages, a country, the batches
    assert [fact.mark for fact in found.facts()] == ["", ""]


def test_nothing_found_is_no_error() -> None:
    empty = Results(lambda job, name: None, 0, [], [])
    assert "none has ended yet" in "".join([*empty.visitors(), *empty.abuse(), *empty.operations()])
    assert empty.score().precision == empty.score().recall == 1.0
    assert empty.said()[0] == "activity    0 of 0 clicks counted, 0 sessions ended"


def test_a_score_tells_what_was_missed_and_what_was_wrong() -> None:
    found = score(["bad", "good"], PLANTED)
    assert (found.precision, found.recall, found.false) == (0.5, 0.5, ["good"])
    assert found.recall_by_kind == {"login": 0.0, "scraper": 1.0}
