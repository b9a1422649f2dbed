"""The job `security` finds what was planted, says it once an episode, and does not take people for crawlers."""

from __future__ import annotations

import itertools
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.pipelines.generate.clicks import Clicks, Mix
from penstock.pipelines.generate.truth import Score, score
from penstock.pipelines.jobs import security
from penstock.pipelines.jobs.episodes import merged
from penstock.pipelines.jobs.events import CLICK, CLICK_REQUIRED, judged
from penstock.pipelines.jobs.security import Thresholds
from penstock.pipelines.jobs.tables import rows_of
from penstock.testing.broker import LocalBroker

from .conftest import ContextOf, consumed, finish, publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

START_MS = 1_769_860_800_000


def generated(spark: SparkSession, seed: int, path: Path, seconds: int, rate: float) -> tuple[Clicks, DataFrame]:
    """A clickstream, and its events as rows."""
    clicks = Clicks(Mix(rate=rate, seed=seed, users=5_000), START_MS)
    values = [clicks.encode(rows)[1] for rows in itertools.islice(clicks.seconds(), seconds)]
    pq.write_table(pa.table({"value": pa.chunked_array(values).cast(pa.binary())}), path)
    return clicks, judged(spark.read.parquet(str(path)), CLICK, CLICK_REQUIRED, 300)


def judge(clicks: Clicks, events: DataFrame, thresholds: Thresholds | None = None) -> Score:
    """How well the job finds the crawlers of a stream."""
    profiles = security.profiles(events, seconds=300, slide_seconds=60)
    found = security.alerts(profiles, thresholds or Thresholds()).select("client").distinct().collect()
    return score((row.client for row in found), clicks.truth())


@pytest.fixture(scope="module")
def stream(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Clicks, DataFrame]:
    return generated(spark, 1, tmp_path_factory.mktemp("clicks") / "clicks.parquet", 900, 30)


@pytest.mark.slow
def test_planted_crawlers_are_found_and_people_are_not(stream: tuple[Clicks, DataFrame]) -> None:
    found = judge(*stream)
    assert found.precision >= 0.9, found
    assert found.recall >= 0.9, found


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        pytest.param(Thresholds(rate=1000), "scraper", marks=pytest.mark.slow),
        pytest.param(Thresholds(regular_variation=0), "regular", marks=pytest.mark.slow),
        (Thresholds(swarm_clients=10_000), "distributed"),
    ],
    ids=["rate", "regular", "swarm"],
)
def test_without_its_rule_a_kind_is_not_found(stream: tuple[Clicks, DataFrame], broken: Thresholds, kind: str) -> None:
    assert judge(*stream, broken).recall_by_kind[kind] < 0.5


@pytest.mark.slow
def test_a_threshold_that_is_too_low_takes_people_for_crawlers(stream: tuple[Clicks, DataFrame]) -> None:
    assert judge(*stream, Thresholds(regular_variation=1.0)).precision < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))])
def test_precision_and_recall_of_five_seeds(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    found = judge(*generated(spark, seed, tmp_path / "clicks.parquet", 1800, 100))
    print(f"seed {seed}: precision {found.precision:.3f}, recall {found.recall:.3f}, {dict(found.recall_by_kind)}")
    assert found.precision >= 0.9, found
    assert found.recall >= 0.9, found


def test_windows_that_touch_are_one_episode(spark: SparkSession) -> None:
    def alert(began: int, until: int, requests: int, client: str = "c") -> tuple[Any, ...]:
        return (client, "rate", *(datetime.fromtimestamp(at, UTC) for at in (began, until)), requests)

    def spans(rows: DataFrame) -> list[tuple[str, float, float, int]]:
        return sorted(
            (r["client"], r["began"].timestamp(), r["until"].timestamp(), r["requests"]) for r in rows.collect()
        )

    columns = "client string, rule string, began timestamp, until timestamp, requests bigint"
    before = spark.createDataFrame([alert(0, 300, 70), alert(0, 60, 99, "other"), alert(50, 80, 9, "early")], columns)
    found = [alert(60, 360, 90), alert(120, 420, 80), alert(900, 1200, 65), alert(20, 50, 8, "early")]
    rows = merged(spark.createDataFrame(found, columns), before, ("client", "rule"), "requests").cache()
    assert spans(rows.where("not gone")) == [
        ("c", 0, 420, 90), ("c", 900, 1200, 65), ("early", 20, 80, 9), ("other", 0, 60, 99)
    ]  # fmt: skip
    assert spans(rows.where("new and not gone")) == [("c", 900, 1200, 65), ("early", 20, 80, 9)]
    assert [row["began"].timestamp() for row in rows.where("gone").collect()] == [50], "part of one that began earlier"


@pytest.mark.slow
def test_an_alert_goes_to_the_topic_once_and_its_episode_grows_in_the_table(
    broker: LocalBroker, context_of: ContextOf
) -> None:
    for topic in ("requests", "alerts"):
        broker.create_topic(topic)
    start_ms = int(time.time() * 1000) // 300_000 * 300_000 - 3_600_000
    context = context_of(security.JOB, topic="requests", alerts_topic="alerts", slide_seconds=300)

    def request(seconds: float, client: str) -> bytes:
        time_ms = start_ms + int(seconds * 1000)
        return json.dumps({"time_ms": time_ms, "client": client, "page": "/", "referrer": "/", "status": 200}).encode()

    for window in range(2):
        requests = [request(window * 300 + at / 4, "bad") for at in range(1200)]
        publish(broker, "requests", [*requests, b"{}", request(window * 300 + 370, "good")])
        finish(security.run(context))
    (sent,) = consumed(broker, "alerts")
    assert sent.key() == b"bad"
    value = json.loads(sent.value())
    assert (value["rule"], value["began_ms"], value["requests"]) == ("rate", start_ms, 1200)
    table = rows_of(str(context.directory / "tables" / "alerts"))
    assert table is not None
    (episode,) = table.to_pylist()
    assert episode["until"] - episode["began"] == timedelta(seconds=600)
    assert {m.value() for m in consumed(broker, "dead")} == {b"{}"}
