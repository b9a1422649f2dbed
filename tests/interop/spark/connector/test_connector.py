"""Spark's own Kafka connector reads Penstock and writes it, and Penstock's source sees the same rows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from interop.spark.connector import peer
from support.processes import wait_until

from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.java]

PARTITIONS, RECORDS = 3, 600
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_MS = 1_700_000_000_000
ALL = ["topic", "partition", "offset", "key", "value", "timestamp", "timestampType", "headers"]


@pytest.fixture(scope="module")
def connector(spark: SparkSession) -> SparkSession:
    """The session, which can `format("kafka")` too."""
    reason = peer.missing()
    if reason is not None and os.environ.get("CI") == "true":
        pytest.fail(f"CI=true and {reason}", pytrace=False)
    if reason is not None:
        pytest.skip(reason)
    peer.add_to(spark)
    return spark


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker({"log.retention.ms": "-1"}) as broker:  # the records are of 2023
        for codec in CODECS:
            broker.create_topic(f"clicks-{codec}", PARTITIONS)
            publish(broker, f"clicks-{codec}", codec)
        yield broker


def publish(broker: LocalBroker, topic: str, codec: str) -> None:
    """Record i has the time FIRST_MS + i, headers if i is odd, no key for each third, no value for each fifth."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "batch.num.messages": 50})
    for i in range(RECORDS):
        producer.produce(
            topic,
            value=None if i % 5 == 0 else f"value {i} " * 7,
            key=None if i % 3 == 0 else f"key {i}",
            partition=i * 7 % PARTITIONS,
            timestamp=FIRST_MS + i,
            headers=[("i", str(i)), ("i", b"again"), ("empty", b"")] if i % 2 else None,
        )
    assert producer.flush(30) == 0


def reading(reader: Any, source: str, broker: LocalBroker, options: Mapping[str, str]) -> DataFrame:
    """What `source` ("kafka" or "penstock") makes of a reader or stream reader with these options."""
    given = {"kafka.bootstrap.servers": broker.bootstrap, "includeHeaders": "true", **options}
    return reader.format(source).options(**given).load().select(ALL)


def rows(frame: DataFrame) -> list[Any]:
    return frame.orderBy("topic", "partition", "offset").collect()


def same_rows(spark: SparkSession, broker: LocalBroker, **options: str) -> list[Any]:
    """The rows, which must be the same by the connector and by Penstock's source."""
    theirs = rows(reading(spark.read, "kafka", broker, options))
    assert rows(reading(spark.read, "penstock", broker, options)) == theirs
    return theirs


def offsets(topic: str, *each: int) -> str:
    return json.dumps({topic: {str(partition): offset for partition, offset in enumerate(each)}})


def drained(frame: DataFrame, directory: Path, **to: str) -> None:
    """Streams what is there into a sink, with a checkpoint, and returns when all of it has arrived."""
    writer = frame.writeStream.options(checkpointLocation=str(directory), **to).trigger(availableNow=True)
    sink = writer.format("kafka") if to else writer.format("memory").queryName(directory.name)
    query = sink.start()
    query.awaitTermination()


def made_rows(spark: SparkSession) -> DataFrame:
    """Rows to write: keys, values, headers, nulls, a partition of their own."""
    return spark.range(200).selectExpr(
        "if(id % 4 = 0, null, encode(concat('key ', id), 'utf-8')) AS key",
        "if(id % 7 = 0, null, encode(repeat(concat('value ', id), 9), 'utf-8')) AS value",
        "if(id % 2 = 0, array(struct('id' AS key, encode(cast(id AS string), 'utf-8') AS value)), null) AS headers",
        "cast(id % 3 AS int) AS partition",
    )


def content(frame: DataFrame) -> list[Any]:
    return sorted(frame.select("key", "value", "headers", "partition").collect(), key=repr)


@pytest.mark.slow
def test_the_connector_reads_and_writes_what_penstock_reads(
    connector: SparkSession, broker: LocalBroker, tmp_path: Path
) -> None:
    theirs = same_rows(connector, broker, subscribe="clicks-lz4")
    assert len(theirs) == RECORDS
    assert {row.timestamp.timestamp() for row in theirs} == {(FIRST_MS + i) / 1000 for i in range(RECORDS)}
    broker.create_topic("written", PARTITIONS)
    to = {"kafka.bootstrap.servers": broker.bootstrap, "topic": "written", "includeHeaders": "true"}
    made = made_rows(connector)
    made.write.format("kafka").options(**to).save()
    assert content(reading(connector.read, "penstock", broker, {"subscribe": "written"})) == content(made)
    streamed = reading(connector.readStream, "kafka", broker, {"subscribe": "written", "startingOffsets": "earliest"})
    drained(streamed, tmp_path / "written_stream")
    assert content(connector.table("written_stream")) == content(made)


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_both_read_the_same_of_every_codec(connector: SparkSession, broker: LocalBroker, codec: str) -> None:
    assert len(same_rows(connector, broker, subscribe=f"clicks-{codec}")) == RECORDS


@pytest.mark.slow
def test_both_read_the_same_of_a_pattern(connector: SparkSession, broker: LocalBroker) -> None:
    assert len(same_rows(connector, broker, subscribePattern="clicks-(lz4|z.*)")) == 2 * RECORDS


@pytest.mark.slow
def test_both_read_the_same_between_offsets(connector: SparkSession, broker: LocalBroker) -> None:
    between = {
        "startingOffsets": offsets("clicks-none", 10, -2, 7),
        "endingOffsets": offsets("clicks-none", 20, 5, -1),
    }
    assert len(same_rows(connector, broker, subscribe="clicks-none", **between)) == 10 + 5 + RECORDS // 3 - 7


@pytest.mark.slow
def test_both_read_the_same_of_assigned_partitions(connector: SparkSession, broker: LocalBroker) -> None:
    assign = json.dumps({"clicks-none": [0, 2], "clicks-zstd": [1]})
    assert len(same_rows(connector, broker, assign=assign)) == RECORDS


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_both_read_the_same_between_times(connector: SparkSession, broker: LocalBroker, codec: str) -> None:
    between = {"startingTimestamp": str(FIRST_MS + 100), "endingTimestamp": str(FIRST_MS + 250)}
    found = same_rows(connector, broker, subscribe=f"clicks-{codec}", **between)
    assert {round(row.timestamp.timestamp() * 1000) - FIRST_MS for row in found} == set(range(100, 250))


@pytest.mark.slow
def test_both_read_the_same_between_times_of_each_partition(connector: SparkSession, broker: LocalBroker) -> None:
    between = {
        "startingOffsetsByTimestamp": offsets("clicks-lz4", FIRST_MS + 30, FIRST_MS, FIRST_MS + 300),
        "endingOffsetsByTimestamp": offsets("clicks-lz4", FIRST_MS + 60, FIRST_MS + 90, FIRST_MS + 9_000),
    }
    assert len(same_rows(connector, broker, subscribe="clicks-lz4", **between)) == 10 + 30 + 100


@pytest.mark.slow
def test_both_read_the_same_in_many_small_tasks(connector: SparkSession, broker: LocalBroker) -> None:
    assert len(same_rows(connector, broker, subscribe="clicks-lz4", minPartitions="10")) == RECORDS


@pytest.mark.slow
def test_a_stream_of_the_connector_goes_on_where_it_stopped(
    connector: SparkSession, broker: LocalBroker, tmp_path: Path
) -> None:
    broker.create_topic("streamed", PARTITIONS)
    options = {"subscribe": "streamed", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "250"}
    broker.create_topic("copied", PARTITIONS)
    for _ in range(2):
        publish(broker, "streamed", "lz4")
        stream = reading(connector.readStream, "kafka", broker, options).drop("topic")
        to = {"kafka.bootstrap.servers": broker.bootstrap, "topic": "copied", "includeHeaders": "true"}
        drained(stream, tmp_path / "copy", **to)
    made = reading(connector.read, "penstock", broker, {"subscribe": "streamed"})
    assert made.count() == 2 * RECORDS
    for source in ("penstock", "kafka"):
        assert content(reading(connector.read, source, broker, {"subscribe": "copied"})) == content(made), source


@pytest.mark.slow
def test_both_stream_the_same_rows(connector: SparkSession, broker: LocalBroker, tmp_path: Path) -> None:
    options = {"subscribePattern": "clicks-.*", "startingOffsets": "earliest"}
    found = []
    for source in ("kafka", "penstock"):
        drained(reading(connector.readStream, source, broker, options), tmp_path / f"{source}_stream")
        found.append(rows(connector.table(f"{source}_stream")))
    assert len(found[0]) == len(CODECS) * RECORDS
    assert found[1] == found[0]


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_the_connector_writes_every_codec(connector: SparkSession, broker: LocalBroker, codec: str) -> None:
    topic = f"compressed-{codec}"
    broker.create_topic(topic, PARTITIONS)
    to = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, "includeHeaders": "true"}
    made = made_rows(connector)
    made.write.format("kafka").options(**to, **{"kafka.compression.type": codec}).save()
    assert content(reading(connector.read, "penstock", broker, {"subscribe": topic})) == content(made)


@pytest.mark.slow
def test_what_is_not_committed_is_not_read(connector: SparkSession, broker: LocalBroker, tmp_path: Path) -> None:
    """Batch and stream, beside commits, aborts and an open transaction; when that is committed, they go on."""
    topic = "in-transactions"
    broker.create_topic(topic, PARTITIONS)
    open_one, other = (transactional(broker, name) for name in ("open", "other"))
    written: dict[str, list[str]] = {}

    def write(producer: Producer, name: str) -> None:
        written[name] = [f"{name}-{i}" for i in range(4 * PARTITIONS)]
        for i, value in enumerate(written[name]):
            producer.produce(topic, value, partition=i % PARTITIONS)
        assert producer.flush(30) == 0

    for name, commits in (("committed", True), ("aborted", False), ("also committed", True)):
        other.begin_transaction()
        write(other, name)
        other.commit_transaction(30) if commits else other.abort_transaction(30)
    open_one.begin_transaction()
    write(open_one, "open")
    other.begin_transaction()
    write(other, "behind")
    other.commit_transaction(30)

    options = {"subscribe": topic, "startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}

    def read_by_each() -> list[list[str]]:
        """By the connector as a batch and as a stream, which goes on where it stopped, and by Penstock's source."""
        drained(reading(connector.readStream, "kafka", broker, options), tmp_path / "committed", **to)
        copied = reading(connector.read, "penstock", broker, {"subscribe": "committed-copied"})
        whole = [reading(connector.read, source, broker, options) for source in ("kafka", "penstock")]
        return [sorted(bytes(row.value).decode() for row in frame.collect()) for frame in (*whole, copied)]

    broker.create_topic("committed-copied", PARTITIONS)
    to = {"kafka.bootstrap.servers": broker.bootstrap, "topic": "committed-copied"}
    stable = sorted(written["committed"] + written["also committed"])
    assert read_by_each() == [stable] * 3
    open_one.commit_transaction(30)
    everything = sorted(stable + written["open"] + written["behind"])
    wait_until(lambda: len(rows(reading(connector.read, "penstock", broker, options))) == len(everything), "markers")
    assert read_by_each() == [everything] * 3
    uncommitted = {**options, "kafka.isolation.level": "read_uncommitted"}
    assert len(rows(reading(connector.read, "kafka", broker, uncommitted))) == sum(map(len, written.values()))


def transactional(broker: LocalBroker, name: str) -> Producer:
    """A producer with a transactional id."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name, "linger.ms": 1})
    producer.init_transactions(30)
    return producer
