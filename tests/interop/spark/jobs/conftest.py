"""Contexts for jobs, and clicks to feed them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipelines.context import Context
    from penstock.pipelines.job import Job

ContextOf = Callable[..., "Context"]


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def context_of(spark: SparkSession, broker: LocalBroker, tmp_path: Path) -> Iterator[ContextOf]:
    """Makes the context of a job with options, run until caught up; dead letters go to the topic `dead`."""
    from penstock.pipelines.context import Context
    from penstock.pipelines.dead_letters import DeadLetterTopic

    partitions = str(spark.conf.get("spark.sql.shuffle.partitions"))
    spark.conf.set(
        "spark.sql.shuffle.partitions", "1"
    )  # a state of a few rows: each further part costs, shares nothing

    def make(job: Job, **options: Any) -> Context:
        given = {option.name: option.default for option in job.options} | options
        return Context(
            spark,
            "test",
            broker.bootstrap,
            given,
            tmp_path / "pipeline",
            once=True,
            dead_letter_sink=DeadLetterTopic("dead"),
        )

    yield make
    spark.conf.set("spark.sql.shuffle.partitions", partitions)


def finish(queries: Any) -> None:
    """Waits for queries that run until caught up. Raises what they failed with."""
    for query in queries:
        query.awaitTermination()


def publish(broker: LocalBroker, topic: str, values: Sequence[bytes | None]) -> None:
    """Values as records of a topic."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value=value, key=b"k")
    assert producer.flush(30) == 0


def consumed(broker: LocalBroker, topic: str, partition: int = 0) -> list[Any]:
    """All records of a partition."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "t", "enable.partition.eof": True}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[Any] = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        found.append(message)
    assert message is not None
    consumer.close()
    return found
