"""The Python clients people use create topics, produce, and read each other's records by offset."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as PythonNewTopic

from penstock.testing.broker import LocalBroker

Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]

ROWS: list[Row] = [
    (b"key", b"value", []),
    (None, b"no key", [("header", b"one"), ("header", b"two"), ("empty", b"")]),
    (b"no value", None, []),
    (b"", b"", []),
    (b"large", os.urandom(1 << 20) + bytes(1 << 20), []),
    (b"last", b"x", []),
]
REQUEST_MAX_BYTES = 10_000_000
TIMEOUT_S = 20.0


def confluent_produces(bootstrap: str, topic: str, codec: str) -> None:
    failed: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "message.max.bytes": REQUEST_MAX_BYTES,
            "enable.idempotence": True,
        }
    )
    for key, value, headers in ROWS:
        producer.produce(
            topic, value, key, headers=headers, on_delivery=lambda error, _: error and failed.append(error)
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert failed == []


def python_produces(bootstrap: str, topic: str, codec: str) -> None:
    kind = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=kind, max_request_size=REQUEST_MAX_BYTES)
    try:
        sent = [producer.send(topic, value, key, headers) for key, value, headers in ROWS]
        for future in sent:
            future.get(TIMEOUT_S)
    finally:
        producer.close()


def aio_produces(bootstrap: str, topic: str, codec: str) -> None:
    async def produce() -> None:
        kind = None if codec == "none" else codec
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=kind,
            max_request_size=REQUEST_MAX_BYTES,
            enable_idempotence=True,
        )
        await producer.start()
        try:
            for key, value, headers in ROWS:
                await producer.send_and_wait(topic, value, key, headers=headers)
        finally:
            await producer.stop()

    asyncio.run(produce())


def confluent_reads(bootstrap: str, topic: str) -> list[Row]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        rows: list[Row] = []
        while len(rows) < len(ROWS):
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"only {len(rows)} records came"
            assert message.error() is None, message.error()
            rows.append((message.key(), message.value(), message.headers() or []))
        return rows
    finally:
        consumer.close()


def python_reads(bootstrap: str, topic: str) -> list[Row]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=int(TIMEOUT_S * 1000))
    try:
        consumer.assign([PythonTopicPartition(topic, 0)])
        consumer.seek(PythonTopicPartition(topic, 0), 0)
        rows: list[Row] = []
        for message in consumer:
            rows.append((message.key, message.value, list(message.headers)))
            if len(rows) == len(ROWS):
                break
        return rows
    finally:
        consumer.close()


def aio_reads(bootstrap: str, topic: str) -> list[Row]:
    async def read() -> list[Row]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await consumer.start()
        try:
            consumer.assign([AioTopicPartition(topic, 0)])
            consumer.seek(AioTopicPartition(topic, 0), 0)
            rows: list[Row] = []
            while len(rows) < len(ROWS):
                message = await asyncio.wait_for(consumer.getone(), TIMEOUT_S)
                rows.append((message.key, message.value, list(message.headers)))
            return rows
        finally:
            await consumer.stop()

    return asyncio.run(read())


PRODUCERS = {"confluent": confluent_produces, "kafka-python": python_produces, "aiokafka": aio_produces}
READERS = {"confluent": confluent_reads, "kafka-python": python_reads, "aiokafka": aio_reads}
NEXT = {"confluent": "kafka-python", "kafka-python": "aiokafka", "aiokafka": "confluent"}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("name", PRODUCERS)
def test_what_one_client_produces_another_reads(penstock_session: LocalBroker, name: str, codec: str) -> None:
    topic = f"{name}-{codec}"
    penstock_session.create_topic(topic, configs={"max.message.bytes": str(REQUEST_MAX_BYTES)})
    PRODUCERS[name](penstock_session.bootstrap, topic, codec)
    assert READERS[NEXT[name]](penstock_session.bootstrap, topic) == ROWS


def confluent_creates(bootstrap: str, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, 3, 1)]).values():
        future.result(TIMEOUT_S)
    return len(admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions)


def python_creates(bootstrap: str, topic: str) -> int:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_topics([PythonNewTopic(topic, 3, 1)])
        return len(admin.describe_topics([topic])[0]["partitions"])
    finally:
        admin.close()


@pytest.mark.parametrize("create", [confluent_creates, python_creates])
def test_an_admin_client_creates_a_topic(penstock_session: LocalBroker, create: Callable[[str, str], int]) -> None:
    assert create(penstock_session.bootstrap, f"made-by-{create.__name__}") == 3


def test_records_survive_a_restart(tmp_path: Any) -> None:
    with LocalBroker(data_dir=tmp_path) as broker:
        broker.create_topic("kept", configs={"max.message.bytes": str(REQUEST_MAX_BYTES)})
        python_produces(broker.bootstrap, "kept", "none")
    with LocalBroker(data_dir=tmp_path) as broker:
        assert confluent_reads(broker.bootstrap, "kept") == ROWS
