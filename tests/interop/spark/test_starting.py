"""Spark itself adds no name to the map that a source's queries share, once it has been made ready for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from penstock.spark.starting import PUT_BY_QUERIES, TOPICS, share, variables_of
from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_a_query_only_changes_values_of_the_map_that_others_share(spark: SparkSession, tmp_path: Path) -> None:
    variables = variables_of(spark, TOPICS)
    for name in PUT_BY_QUERIES:  # as if no query had run in this process
        variables.pop(name, None)
    share(spark, TOPICS)
    before = set(variables)
    assert before >= set(PUT_BY_QUERIES)
    with LocalBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("seen", value=b"v")
        assert producer.flush(30) == 0
        given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "seen", "startingOffsets": "earliest"}
        rows = spark.readStream.format("penstock").options(**given).load()
        writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    assert query.lastProgress["numInputRows"] == 1
    assert set(variables) == before
    assert variables["SPARK_LOCAL_DIRS"], "the query has put its own values into this map"
