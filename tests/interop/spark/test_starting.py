"""Queries that start at once: Spark adds no name to the map that they share, and one that was harmed is made anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

pytest.importorskip("pyspark", reason="needs penstock[spark]")

from pyspark.errors import StreamingQueryException

from penstock.pipelines.context import Context
from penstock.spark.starting import PUT_BY_QUERIES, TOPICS, share, variables_of
from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with LocalBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("seen", value=b"v")
        assert producer.flush(30) == 0
        yield broker.bootstrap


def run(spark: SparkSession, broker: str, directory: Path) -> StreamingQuery:
    """A query with a watermark, until it is caught up; it sends the source itself to the tasks."""
    rows = Context(spark, "test", broker, {}, directory).read("seen").withWatermark("timestamp", "1 minute")
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(directory / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def test_a_query_only_changes_values_of_the_map_that_others_share(
    spark: SparkSession, broker: str, tmp_path: Path
) -> None:
    variables = variables_of(spark, TOPICS)
    for name in PUT_BY_QUERIES:  # as if no query had run in this process
        variables.pop(name, None)
    share(spark, TOPICS)
    before = set(variables)
    assert before >= set(PUT_BY_QUERIES)
    query = run(spark, broker, tmp_path)
    assert query.lastProgress["numInputRows"] == 1
    assert set(variables) == before
    assert variables["SPARK_LOCAL_DIRS"], "the query has put its own values into this map"


def harm(variables: Any) -> None:
    """What two queries do that put a name at the same moment: it is counted twice."""
    field = variables.getClass().getDeclaredField("underlying")
    field.setAccessible(True)
    scala = field.get(variables)
    count = scala.getClass().getDeclaredField("contentSize")
    count.setAccessible(True)
    count.setInt(scala, count.getInt(scala) + 1)


def test_a_pipeline_that_starts_again_mends_the_map(
    spark: SparkSession, broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share(spark, TOPICS)
    variables = variables_of(spark, TOPICS)
    before = dict(variables)
    harm(variables)
    with monkeypatch.context() as patch:
        patch.setattr("penstock.spark.starting.share", lambda *_: None)
        with pytest.raises(StreamingQueryException, match="Task not serializable"):
            run(spark, broker, tmp_path)
    assert run(spark, broker, tmp_path).lastProgress["numInputRows"] == 1
    assert dict(variables).keys() == before.keys()
    assert len(variables) == len(before)
