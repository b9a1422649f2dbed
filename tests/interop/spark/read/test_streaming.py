"""`spark.readStream.format("penstock")` in real queries: what Spark itself does with the reader."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from interop.spark.read.driving import create, delete, grow, publish

from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with LocalBroker() as broker:
        yield broker.bootstrap


@pytest.fixture
def topic(broker: str, request: pytest.FixtureRequest) -> str:
    name = request.node.name[:80]
    create(broker, name, 2)
    return name


def into_parquet(spark: SparkSession, broker: str, directory: Path, **options: str) -> DataStreamWriter:
    reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", broker)
    for name, value in options.items():
        reader = reader.option(name, value)
    rows = reader.load().selectExpr("cast(cast(key as string) as int) key", "partition", "offset")
    return (
        rows.writeStream.format("parquet")
        .option("path", str(directory / "rows"))
        .option("checkpointLocation", str(directory / "checkpoint"))
    )


def available_now(writer: DataStreamWriter) -> StreamingQuery:
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def keys(directory: Path) -> list[int]:
    files = (directory / "rows").glob("*.parquet")
    return sorted(key for file in files for key in pq.read_table(file).column("key").to_pylist())


@contextlib.contextmanager
def rewritten(log: Path) -> Iterator[dict[str, Any]]:
    """The source's offsets in an entry of a checkpoint's log, to be changed in place."""
    *head, last = log.read_text().splitlines()
    offsets = json.loads(last)
    yield offsets
    log.write_text("\n".join([*head, json.dumps(offsets)]))
    log.with_name(f".{log.name}.crc").unlink(missing_ok=True)


@pytest.mark.slow
def test_a_query_reads_everything_once_over_restarts(
    spark: SparkSession, broker: str, topic: str, tmp_path: Path
) -> None:
    publish(broker, topic, 0, 0, 90)
    publish(broker, topic, 1, 90, 100)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}
    query = available_now(into_parquet(spark, broker, tmp_path, **options))
    assert [batch["numInputRows"] for batch in query.recentProgress] == [40, 40, 20]
    publish(broker, topic, 1, 100, 110)
    query = available_now(into_parquet(spark, broker, tmp_path, **options))
    assert keys(tmp_path) == list(range(110))
    [source] = query.lastProgress["sources"]
    assert json.loads(source["endOffset"])["topics"][topic]["offsets"] == {"0": 90, "1": 20}


def test_a_running_query_picks_up_topics_and_partitions(
    spark: SparkSession, broker: str, topic: str, tmp_path: Path
) -> None:
    query = into_parquet(spark, broker, tmp_path, subscribePattern=f"{topic}.*").start()
    try:
        query.processAllAvailable()
        create(broker, f"{topic}-new", 1)
        publish(broker, f"{topic}-new", 0, 0, 5)
        grow(broker, topic, 3)
        publish(broker, topic, 2, 5, 9)
        query.processAllAvailable()
        publish(broker, topic, 0, 9, 10)
        query.processAllAvailable()
        assert keys(tmp_path) == list(range(10))
    finally:
        query.stop()


def test_a_first_microbatch_that_was_not_committed_is_repeated(
    spark: SparkSession, broker: str, topic: str, tmp_path: Path
) -> None:
    """From "latest", which is further when the query comes back: what was planned is read, not what is latest then."""
    query = into_parquet(spark, broker, tmp_path, subscribe=topic, minOffsetsPerTrigger="1").start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    publish(broker, topic, 0, 0, 7)
    with rewritten(tmp_path / "checkpoint" / "offsets" / "0") as end:
        end["topics"][topic]["offsets"]["0"] = 5  # as if five had been there when it was planned
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    shutil.rmtree(tmp_path / "rows")  # the sink's own record that it has the batch, which would make it skip it
    available_now(into_parquet(spark, broker, tmp_path, subscribe=topic))
    assert keys(tmp_path) == list(range(7))


@pytest.mark.slow
def test_a_query_of_the_official_connector_goes_on_from_its_checkpoint(
    spark: SparkSession, broker: str, topic: str, tmp_path: Path
) -> None:
    publish(broker, topic, 0, 0, 10)
    publish(broker, topic, 1, 10, 20)
    available_now(into_parquet(spark, broker, tmp_path, subscribe=topic, startingOffsets="earliest"))
    with rewritten(tmp_path / "checkpoint" / "offsets" / "0") as end:
        end.clear()
        end[topic] = {"0": 10, "1": 10}  # what the connector writes
    publish(broker, topic, 1, 20, 25)
    available_now(into_parquet(spark, broker, tmp_path, subscribe=topic))
    assert keys(tmp_path) == list(range(25))


@pytest.mark.slow
def test_a_topic_created_anew_stops_the_query(spark: SparkSession, broker: str, topic: str, tmp_path: Path) -> None:
    publish(broker, topic, 0, 0, 3)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    available_now(into_parquet(spark, broker, tmp_path, **options))
    delete(broker, topic)
    create(broker, topic, 2)
    publish(broker, topic, 0, 3, 9)
    with pytest.raises(Exception, match="the topic was deleted and created anew"):
        available_now(into_parquet(spark, broker, tmp_path, **options))
    available_now(into_parquet(spark, broker, tmp_path, **options, failOnDataLoss="false"))
    assert keys(tmp_path) == list(range(9))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"endingOffsets": "latest"}, "option endingOffsets is for batch reads only"),
        ({"maxOffsetPerTrigger": "5"}, "did you mean maxOffsetsPerTrigger"),
        ({"kafka.security.protocol": "SASL_SSL"}, "kafka.sasl.jaas.config is missing"),
    ],
)
def test_a_wrong_option_stops_a_query_before_it_starts(
    spark: SparkSession, broker: str, tmp_path: Path, wrong: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=said):
        available_now(into_parquet(spark, broker, tmp_path, subscribe="clicks", **wrong))


def test_only_the_columns_of_a_given_schema_are_read(spark: SparkSession, broker: str, topic: str) -> None:
    publish(broker, topic, 0, 0, 3)
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", broker).option("subscribe", topic)
    rows = reader.schema("offset bigint, key binary").load().orderBy("offset").collect()
    assert [(row.offset, bytes(row.key)) for row in rows] == [(0, b"0"), (1, b"1"), (2, b"2")]
    with pytest.raises(Exception, match="there is no column keys; did you mean key"):
        reader.schema("keys binary").load().collect()
    with pytest.raises(Exception, match="column offset is bigint, not int; cast it in the query"):
        reader.schema("offset int").load().collect()
