"""A streaming query's lag in a consumer group: right while it runs, after its last batch, and while it is away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs penstock[spark]")

from interop.kafka_peer import KafkaPeer
from interop.spark.read.driving import create, publish
from interop.tools.toolbox import CONSUMER_GROUPS, Toolbox

from penstock.client.client import Client
from penstock.client.groups import describe_group, lags
from penstock.spark.read.group_listener import GroupListener
from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter

pytestmark = [pytest.mark.spark, pytest.mark.java]


@pytest.fixture(scope="module", params=["penstock", pytest.param("kafka", marks=[pytest.mark.java, pytest.mark.slow])])
def broker(request: pytest.FixtureRequest) -> Iterator[str]:
    with LocalBroker() if request.param == "penstock" else KafkaPeer() as broker:
        yield broker.bootstrap


def shown(broker: str, group: str) -> list[tuple[int, int]]:
    """Committed offset and lag of each partition."""

    async def ask() -> list[tuple[int, int]]:
        async with Client(broker, timeout_ms=20_000) as client:
            return [(each.committed, each.lag) for each in await lags(client, await describe_group(client, group))]

    return asyncio.run(ask())


def shown_by_kafka(broker: str, group: str) -> list[list[str]]:
    """What ConsumerGroupCommand says: topic, partition, committed offset, end, lag."""
    with Toolbox() as tools:
        said = tools.run(CONSUMER_GROUPS, broker, "--describe", "--group", group)
    assert said.status == 0, said.error
    return sorted(line.split()[1:6] for line in said.out.splitlines() if line.startswith(group))


def writer(spark: SparkSession, broker: str, topic: str, directory: Path) -> DataStreamWriter:
    options = {"kafka.bootstrap.servers": broker, "subscribe": topic, "startingOffsets": "earliest"}
    rows = spark.readStream.format("penstock").options(**options, maxOffsetsPerTrigger="30").load()
    stream = rows.writeStream.format("noop").queryName("reports")
    return stream.option("checkpointLocation", str(directory)).trigger(availableNow=True)


@pytest.mark.slow
def test_the_lag_of_a_query_is_what_it_has_not_read(spark: SparkSession, broker: str, tmp_path: Path) -> None:
    create(broker, "clicks", 2)
    publish(broker, "clicks", 0, 0, 70)
    publish(broker, "clicks", 1, 70, 90)
    listener, other = GroupListener(broker, "reports", "reports"), GroupListener(broker, "other", "another")
    spark.streams.addListener(listener)
    spark.streams.addListener(other)
    try:
        query = writer(spark, broker, "clicks", tmp_path).start()
        query.awaitTermination()
        assert len(query.recentProgress) > 1, "several batches, of which the last is committed too"
        assert listener.wait()
        assert shown(broker, "reports") == [(70, 0), (20, 0)]
        publish(broker, "clicks", 1, 90, 95)
        assert shown(broker, "reports") == [(70, 0), (20, 5)]
        assert shown_by_kafka(broker, "reports") == [["clicks", "0", "70", "70", "0"], ["clicks", "1", "20", "25", "5"]]
        assert not other.wait(0)
    finally:
        spark.streams.removeListener(listener)
        spark.streams.removeListener(other)
