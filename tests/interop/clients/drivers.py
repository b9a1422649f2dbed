"""Real clients behind one small interface, so that each can write what every other reads.

A `Driver` produces rows into partition 0 of a topic, reads them back from the beginning by assignment (no group), and
looks up offsets by time. `PYTHON_DRIVERS` are confluent-kafka (librdkafka), kafka-python and aiokafka; `JavaDriver` is
the Java client, one Java machine for all its orders.
"""

from __future__ import annotations

import asyncio
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from interop.kafka_peer import TOOL_OPTIONS, java_source
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition

REQUEST_MAX_BYTES = 10_000_000
TIMEOUT_S = 30.0
JAVA_SOURCE = Path(__file__).with_name("JavaClient.java")


class Row(NamedTuple):
    """One record as a client gives and gets it."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


class Driver(Protocol):
    def produce(self, bootstrap: str, topic: str, codec: str, rows: Sequence[Row]) -> None: ...

    def read(self, bootstrap: str, topic: str, count: int) -> list[Row]: ...

    def offsets_for_times(self, bootstrap: str, topic: str, times_ms: Sequence[int]) -> list[int | None]: ...


class Confluent:
    """librdkafka, idempotent."""

    def produce(self, bootstrap: str, topic: str, codec: str, rows: Sequence[Row]) -> None:
        failed: list[Any] = []
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "message.max.bytes": REQUEST_MAX_BYTES,
                "enable.idempotence": True,
            }
        )
        for timestamp_ms, key, value, headers in rows:
            producer.produce(
                topic,
                value,
                key,
                0,
                timestamp=timestamp_ms,
                headers=headers,
                on_delivery=lambda error, _: error and failed.append(error),
            )
        assert producer.flush(TIMEOUT_S) == 0
        assert failed == []

    def read(self, bootstrap: str, topic: str, count: int) -> list[Row]:
        consumer = self._consumer(bootstrap)
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            rows: list[Row] = []
            while len(rows) < count:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None, f"only {len(rows)} records came"
                assert message.error() is None, message.error()
                rows.append(Row(message.timestamp()[1], message.key(), message.value(), message.headers() or []))
            return rows
        finally:
            consumer.close()

    def offsets_for_times(self, bootstrap: str, topic: str, times_ms: Sequence[int]) -> list[int | None]:
        consumer = self._consumer(bootstrap)
        try:
            found = []
            for time_ms in times_ms:
                (partition,) = consumer.offsets_for_times([TopicPartition(topic, 0, time_ms)], timeout=TIMEOUT_S)
                assert partition.error is None
                found.append(partition.offset if partition.offset >= 0 else None)
            return found
        finally:
            consumer.close()

    def values(self, bootstrap: str, topic: str, partition: int, count: int) -> list[bytes | None]:
        """The values of a partition from its beginning to its end, where `count` are expected."""
        consumer = self._consumer(bootstrap, {"enable.partition.eof": True})
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            values: list[bytes | None] = []
            while True:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None, f"only {len(values)} records of {count} came"
                if message.error() is not None:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    return values
                values.append(message.value())
        finally:
            consumer.close()

    def _consumer(self, bootstrap: str, more: Mapping[str, object] = MappingProxyType({})) -> Consumer:
        # librdkafka wants a group, and waits for the group's coordinator at close when there are offsets to commit
        settings = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
        return Consumer({"bootstrap.servers": bootstrap, **settings, **more})


class KafkaPython:
    """kafka-python, idempotent by default."""

    def produce(self, bootstrap: str, topic: str, codec: str, rows: Sequence[Row]) -> None:
        kind = None if codec == "none" else codec
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=kind,
            max_request_size=REQUEST_MAX_BYTES,
        )
        try:
            sent = [
                producer.send(topic, value, key, headers, 0, timestamp_ms) for timestamp_ms, key, value, headers in rows
            ]
            for future in sent:
                future.get(TIMEOUT_S)
        finally:
            producer.close()

    def read(self, bootstrap: str, topic: str, count: int) -> list[Row]:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=int(TIMEOUT_S * 1000))
        partition = PythonTopicPartition(topic, 0)
        try:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            rows: list[Row] = []
            for message in consumer:
                rows.append(Row(message.timestamp, message.key, message.value, list(message.headers)))
                if len(rows) == count:
                    break
            return rows
        finally:
            consumer.close()

    def offsets_for_times(self, bootstrap: str, topic: str, times_ms: Sequence[int]) -> list[int | None]:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap)
        partition = PythonTopicPartition(topic, 0)
        try:
            found = [consumer.offsets_for_times({partition: time_ms})[partition] for time_ms in times_ms]
            return [None if each is None else each.offset for each in found]
        finally:
            consumer.close()


class Aiokafka:
    """aiokafka, idempotent."""

    def produce(self, bootstrap: str, topic: str, codec: str, rows: Sequence[Row]) -> None:
        async def produce() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                max_request_size=REQUEST_MAX_BYTES,
                enable_idempotence=True,
            )
            await producer.start()
            try:
                sent = [
                    await producer.send(topic, value, key, 0, timestamp_ms, headers)
                    for timestamp_ms, key, value, headers in rows
                ]
                await asyncio.wait_for(asyncio.gather(*sent), TIMEOUT_S)
            finally:
                await producer.stop()

        asyncio.run(produce())

    def read(self, bootstrap: str, topic: str, count: int) -> list[Row]:
        async def read() -> list[Row]:
            consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
            await consumer.start()
            try:
                consumer.assign([AioTopicPartition(topic, 0)])
                consumer.seek(AioTopicPartition(topic, 0), 0)
                rows: list[Row] = []
                while len(rows) < count:
                    message = await asyncio.wait_for(consumer.getone(), TIMEOUT_S)
                    rows.append(Row(message.timestamp, message.key, message.value, list(message.headers)))
                return rows
            finally:
                await consumer.stop()

        return asyncio.run(read())

    def offsets_for_times(self, bootstrap: str, topic: str, times_ms: Sequence[int]) -> list[int | None]:
        async def look_up() -> list[int | None]:
            consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
            partition = AioTopicPartition(topic, 0)
            await consumer.start()
            try:
                found = [(await consumer.offsets_for_times({partition: time_ms}))[partition] for time_ms in times_ms]
                return [None if each is None else each.offset for each in found]
            finally:
                await consumer.stop()

        return asyncio.run(look_up())


class JavaDriver:
    """The Java client; a context manager that runs one Java machine, bound to one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __enter__(self) -> JavaDriver:
        self.process = subprocess.Popen(
            java_source(JAVA_SOURCE.read_text(), self.bootstrap, options=[*TOOL_OPTIONS, "-Xmx512m"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(TIMEOUT_S)

    def order(self, *words: object) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "the Java client died"
        return answer.rstrip("\n")

    def produce(self, bootstrap: str, topic: str, codec: str, rows: Sequence[Row]) -> None:
        self.order("produce", topic, codec, *map(as_text, rows))

    def read(self, bootstrap: str, topic: str, count: int) -> list[Row]:
        return [as_row(text) for text in self.order("read", topic, count).split()]

    def offsets_for_times(self, bootstrap: str, topic: str, times_ms: Sequence[int]) -> list[int | None]:
        found = self.order("times", topic, ",".join(map(str, times_ms))).split()
        return [None if each == "-" else int(each) for each in found]


def as_text(row: Row) -> str:
    headers = (part for name, value in row.headers for part in (name, encoded(value)))
    return ",".join([str(row.timestamp_ms), encoded(row.key), encoded(row.value), *headers])


def as_row(text: str) -> Row:
    timestamp, key, value, *headers = text.split(",")
    pairs = [(name, decoded(data) or b"") for name, data in zip(headers[::2], headers[1::2], strict=True)]
    return Row(int(timestamp), decoded(key), decoded(value), pairs)


def encoded(data: bytes | None) -> str:
    return "-" if data is None else b64encode(data).decode()


def decoded(text: str) -> bytes | None:
    return None if text == "-" else b64decode(text)


PYTHON_DRIVERS: dict[str, Driver] = {
    "confluent": Confluent(),
    "kafka-python": KafkaPython(),
    "aiokafka": Aiokafka(),
}
