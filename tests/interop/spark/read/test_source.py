"""`spark.read.format("penstock")` against a running broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PARTITIONS, RECORDS = 3, 300


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        for topic in ("clicks", "clicks-old", "orders"):
            broker.create_topic(topic, PARTITIONS)
            publish(broker, topic, RECORDS)
        yield broker


def publish(broker: LocalBroker, topic: str, records: int, *, codec: str = "lz4", first_ms: int = 1_000_000) -> None:
    """Record i goes to partition i % 3 with timestamp first_ms + i, a header on every other one, every fifth a null."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 20})
    for i in range(records):
        producer.produce(
            topic,
            value=None if i % 5 == 0 else f"value {i}",
            key=str(i),
            partition=i % PARTITIONS,
            timestamp=first_ms + i,
            headers=[("i", str(i))] if i % 2 else None,
        )
    assert producer.flush(30) == 0


def read(spark: SparkSession, broker: LocalBroker, **options: str) -> DataFrame:
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", broker.bootstrap)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def keys(frame: DataFrame) -> list[int]:
    return sorted(int(bytes(row.key)) for row in frame.select("key").collect())


def test_all_columns_come_as_the_official_connector_names_them(spark: SparkSession, broker: LocalBroker) -> None:
    frame = read(spark, broker, subscribe="clicks", includeHeaders="true")
    assert frame.columns == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"),
    ]
    rows = {int(bytes(row.key)): row for row in frame.collect()}
    assert sorted(rows) == list(range(RECORDS))
    row = rows[7]
    assert (bytes(row.value), row.topic, row.partition, row.offset) == (b"value 7", "clicks", 1, 2)
    assert (row.timestamp.timestamp(), row.timestampType) == (1000.007, 0)
    assert [(header.key, bytes(header.value)) for header in row.headers] == [("i", b"7")]
    assert rows[10].value is None


def test_headers_are_left_out_unless_asked_for(spark: SparkSession, broker: LocalBroker) -> None:
    assert "headers" not in read(spark, broker, subscribe="clicks").columns


def test_a_pattern_reads_all_topics_that_it_matches_whole(spark: SparkSession, broker: LocalBroker) -> None:
    assert read(spark, broker, subscribePattern="clicks.*").count() == 2 * RECORDS
    assert read(spark, broker, subscribePattern="click").count() == 0


def test_offsets_bound_a_read_on_both_sides(spark: SparkSession, broker: LocalBroker) -> None:
    frame = read(
        spark,
        broker,
        assign='{"clicks": [0, 2]}',
        startingOffsets='{"clicks": {"0": 90, "2": -2}}',
        endingOffsets='{"clicks": {"0": -1, "2": 5}}',
    )
    found = sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())
    assert found == [*((0, offset) for offset in range(90, 100)), *((2, offset) for offset in range(5))]


def test_times_bound_a_read_on_both_sides(spark: SparkSession, broker: LocalBroker) -> None:
    frame = read(spark, broker, subscribe="clicks", startingTimestamp="1000100", endingTimestamp="1000200")
    assert keys(frame) == list(range(100, 200))


def test_a_time_beyond_the_last_record_is_an_error_or_nothing(spark: SparkSession, broker: LocalBroker) -> None:
    late = str(int(time.time() * 1000) + 3_600_000)
    with pytest.raises(Exception, match="no record at or after the starting time"):
        read(spark, broker, subscribe="clicks", startingTimestamp=late).count()
    lenient = {"startingTimestamp": late, "startingOffsetsByTimestampStrategy": "latest"}
    assert read(spark, broker, subscribe="clicks", **lenient).count() == 0


def test_offsets_that_are_gone_are_an_error_unless_loss_is_accepted(spark: SparkSession, broker: LocalBroker) -> None:
    beyond: dict[str, Any] = {
        "assign": '{"orders": [0]}',
        "startingOffsets": '{"orders": {"0": 0}}',
        "endingOffsets": '{"orders": {"0": 5000}}',
    }
    with pytest.raises(Exception, match="failOnDataLoss = false reads what is left"):
        read(spark, broker, **beyond).count()
    assert read(spark, broker, **beyond, failOnDataLoss="false").count() == 100


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "zstd"])
def test_every_codec_reads_back(spark: SparkSession, broker: LocalBroker, codec: str) -> None:
    topic = f"codec-{codec}"
    broker.create_topic(topic, PARTITIONS)
    publish(broker, topic, 60, codec=codec)
    assert keys(read(spark, broker, subscribe=topic)) == list(range(60))


def test_a_topic_that_does_not_exist_is_named(spark: SparkSession, broker: LocalBroker) -> None:
    with pytest.raises(Exception, match="topic nowhere: UNKNOWN_TOPIC_OR_PARTITION"):
        read(spark, broker, subscribe="nowhere").count()


def test_a_misspelt_option_is_named_with_the_nearest(spark: SparkSession, broker: LocalBroker) -> None:
    with pytest.raises(Exception, match="did you mean startingOffsets"):
        read(spark, broker, subscribe="clicks", startingOffset="earliest").count()
