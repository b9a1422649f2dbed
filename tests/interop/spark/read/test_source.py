"""`spark.read.format("penstock")` against a running broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

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
            broker.create_topic(topic, PARTITIONS, {"retention.ms": "-1"})  # the records say that they are of 1970
            publish(broker, topic, RECORDS)
        yield broker


def publish(broker: LocalBroker, topic: str, records: int) -> None:
    """Record i goes to partition i % 3 with timestamp 1000000 + i, a header on every other one, every fifth a null."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4", "linger.ms": 20})
    for i in range(records):
        producer.produce(
            topic,
            value=None if i % 5 == 0 else f"value {i}",
            key=str(i),
            partition=i % PARTITIONS,
            timestamp=1_000_000 + i,
            headers=[("i", str(i))] if i % 2 else None,
        )
    assert producer.flush(30) == 0


def read(spark: SparkSession, broker: LocalBroker, **options: str) -> DataFrame:
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", broker.bootstrap)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


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


def test_a_misspelt_option_is_named_with_the_nearest(spark: SparkSession, broker: LocalBroker) -> None:
    with pytest.raises(Exception, match="did you mean startingOffsets"):
        read(spark, broker, subscribe="clicks", startingOffset="earliest").count()
