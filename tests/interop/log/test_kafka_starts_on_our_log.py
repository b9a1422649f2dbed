"""Apache Kafka started on a partition directory that we wrote: its records, its producers, its epochs."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from interop.kafka_peer import KafkaPeer
from support.logs import OneLog, batch, topic_config

from penstock.client.client import Client
from penstock.errors import ErrorCode, RequestError
from penstock.records.batch import headers

pytestmark = pytest.mark.java
TOPIC = "clicks"
PRODUCER = 77_000


def written_log(partition: int) -> OneLog:
    """A log whose first segment, with the only batches of PRODUCER, is gone: its snapshot alone knows the producer."""
    one = OneLog(topic_config(index_interval_bytes=100), name=f"{TOPIC}-{partition}")
    one.now_ms = round(time.time() * 1000)
    one.append(batch(b"a", b"b", producer=(PRODUCER, 0, 0), timestamp_ms=one.now_ms))
    one.append(batch(b"c", producer=(PRODUCER, 0, 2), timestamp_ms=one.now_ms))
    one.log.roll(one.now_ms)
    one.run()
    for number in range(20):
        one.append(batch(b"%d" % number, timestamp_ms=one.now_ms))
    one.log.advance_log_start(3, 23)
    one.log.delete_old_segments(one.now_ms, 23)
    one.run()
    assert one.log.segments.bases == [3]
    one.close()
    return one


def put(one: OneLog, directory: Path) -> None:
    """Replaces the files of an empty partition by ours; Kafka's partition.metadata stays."""
    target = directory / one.name
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in one.disk.paths():
        if not path.endswith(".deleted"):
            (directory / path).write_bytes(one.disk.content(path))


def produce(kafka: KafkaPeer, partition: int, data: bytearray) -> int:
    """The base offset with which Kafka answers one batch."""

    async def once() -> int:
        async with Client(kafka.bootstrap) as client:
            base_offset, _ = await client.produce(TOPIC, partition, data)
            return base_offset

    return asyncio.run(once())


@pytest.mark.slow
def test_kafka_takes_over_records_and_producers(tmp_path: Path) -> None:
    kafka = KafkaPeer(tmp_path)
    with kafka:
        kafka.create_topic(TOPIC, partitions=2)
        kafka.stop()
        whole, damaged = written_log(0), written_log(1)
        [snapshot] = [path for path in damaged.disk.paths() if path.endswith(f"{23:020d}.snapshot")]
        damaged.disk.flip_bit(snapshot, 20)
        damaged.disk.unlink(f"{damaged.name}/{3:020d}.snapshot")
        put(whole, kafka.log_dirs[0])
        put(damaged, kafka.log_dirs[0])
        kafka.start()

        again = batch(b"c", producer=(PRODUCER, 0, 2))
        assert produce(kafka, 0, again) == 2, "the first append's offset"
        with pytest.raises(RequestError) as refused:
            produce(kafka, 0, batch(b"x", producer=(PRODUCER, 0, 9)))
        assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert produce(kafka, 0, batch(b"d", producer=(PRODUCER, 0, 3))) == 23
        assert produce(kafka, 1, again) == 23, "without a good snapshot Kafka does not know the batch"

        path = kafka.log_dirs[0] / f"{TOPIC}-0" / f"{3:020d}.log"
        assert [header.base_offset for _, header in headers(path.read_bytes())] == [*range(3, 23), 23]
