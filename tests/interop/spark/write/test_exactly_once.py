"""`penstock.exactly.once` in Spark: microbatches and writes in transactions, and a driver that is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from interop.kafka_peer import KafkaPeer
from interop.spark.write.reading import records_of

from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
PARTITIONS = 3
PER_BATCH = 300
PATIENCE_S = 240.0
DRIVER = """
import sys
from penstock.spark.session import session

bootstrap, checkpoint, per_batch = sys.argv[1:]
spark = session("exactly once", master="local[2]")
rows = (
    spark.readStream.format("penstock").option("kafka.bootstrap.servers", bootstrap).option("subscribe", "in")
    .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", per_batch).load()
)
query = (
    rows.selectExpr("key", "value").writeStream.format("penstock").option("kafka.bootstrap.servers", bootstrap)
    .option("topic", "out").option("penstock.exactly.once", "true").option("penstock.sink.id", "copy")
    .option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
)
query.awaitTermination()
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker({"auto.create.topics.enable": "false"}) as broker:
        yield broker


def keys(broker: LocalBroker | KafkaPeer, topic: str) -> Counter[bytes | None]:
    return Counter(each.key for each in records_of(broker.bootstrap, topic, committed=True))


@pytest.mark.slow
def test_writes_and_streams_are_written_once(spark: SparkSession, broker: LocalBroker, tmp_path: Path) -> None:
    options = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "penstock.exactly.once": "true",
        "penstock.staging": str(tmp_path / "staged"),
    }
    broker.create_topic("written", PARTITIONS)
    frame = spark.range(5000).selectExpr("cast(id as string) key", "repeat(cast(id as string), 40) value")
    write = frame.write.format("penstock").options(**options, topic="written").mode("append")
    for _ in range(2):
        write.option("penstock.sink.id", "writes").option("penstock.write.id", "2026-01-31").save()
    once = Counter(str(number).encode() for number in range(5000))
    assert keys(broker, "written") == once
    write.option("penstock.write.id", "2026-02-01").save()
    assert keys(broker, "written") == once + once

    broker.create_topic("streamed", PARTITIONS)
    frame.write.parquet(str(tmp_path / "rows"))
    rows = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "rows"))
    stream = rows.writeStream.format("penstock").options(**options, topic="streamed")
    stream = stream.option("penstock.sink.id", "stream").option("checkpointLocation", str(tmp_path / "checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination()
    (tmp_path / "checkpoint" / "commits" / "0").unlink()  # as if the driver had died before Spark's own commit
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink()
    stream.trigger(availableNow=True).start().awaitTermination()
    assert keys(broker, "streamed") == once
    assert list((tmp_path / "staged").rglob("*.staged")) == []


@pytest.mark.slow
@pytest.mark.xdist_group("drivers beside a session")
def test_a_driver_that_is_killed_again_and_again_writes_each_row_once(broker: LocalBroker, tmp_path: Path) -> None:
    assert_each_row_is_written_once(broker, tmp_path, kills=3, records=4_500)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.xdist_group("drivers beside a session")
@pytest.mark.parametrize("peer", ["penstock", pytest.param("kafka", marks=pytest.mark.java)])
def test_twenty_kills_of_the_driver_leave_each_row_once(peer: str, tmp_path: Path) -> None:
    patient = {"broker.session.timeout.ms": "60000"}  # a broker that is starved is not dead
    with LocalBroker(patient) if peer == "penstock" else KafkaPeer(properties=patient) as broker:
        assert_each_row_is_written_once(broker, tmp_path, kills=20, records=60_000)


def assert_each_row_is_written_once(
    broker: LocalBroker | KafkaPeer, directory: Path, *, kills: int, records: int
) -> None:
    """Kills the driver of a query so often, each time after it has committed something, and lets it end then."""
    broker.create_topic("in", PARTITIONS)
    broker.create_topic("out", PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(records):
        producer.produce("in", b"x" * 100, str(number).encode())
        producer.poll(0)
    assert not producer.flush(60)
    chance = random.Random(17)
    for _ in range(kills):
        driver = start(broker, directory)
        wait_for_more(broker, driver, len(records_of(broker.bootstrap, "out", committed=True)))
        time.sleep(chance.uniform(0.0, 0.5))  # not to wait for something: to kill at a random point
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert start(broker, directory).wait(PATIENCE_S) == 0, (directory / "log").read_text()[-3000:]
    assert keys(broker, "out") == Counter(str(number).encode() for number in range(records))


def start(broker: LocalBroker | KafkaPeer, directory: Path) -> subprocess.Popen[bytes]:
    """A driver of its own."""
    words = [sys.executable, "-c", DRIVER, broker.bootstrap, str(directory / "checkpoint"), str(PER_BATCH)]
    with (directory / "log").open("ab") as log:
        return subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)


def wait_for_more(broker: LocalBroker | KafkaPeer, driver: subprocess.Popen[bytes], count: int) -> None:
    """Returns when more records than so many are there."""
    deadline = time.monotonic() + PATIENCE_S
    while len(records_of(broker.bootstrap, "out", committed=True)) <= count:
        assert driver.poll() is None, "it must not end before it is killed"
        assert time.monotonic() < deadline
        time.sleep(0.1)  # leaves it the processor
