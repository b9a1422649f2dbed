"""Real clients over their quotas: slowed down, told so, and never refused anything."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from interop.kafka_peer import require_kafka
from interop.quotas.limited import WINDOWS, at_least, least_s, limited, set_quotas
from interop.tools.toolbox import CONFIGS, CONSUMER, PERFORMANCE, Toolbox
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition

from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.slow

LIMIT = 20_000
RECORDS, RECORD_BYTES, BATCH_BYTES = 80, 1_000, 4_000
VALUE = b"x" * RECORD_BYTES
ALL_BYTES = RECORDS * RECORD_BYTES
FETCH_BYTES = 2 * BATCH_BYTES
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(WINDOWS) as broker:
        yield broker


class Librdkafka:
    """A producer of librdkafka's, which notes for how long it was told to wait."""

    def __init__(self, bootstrap: str, client_id: str) -> None:
        self.delays_s: list[float] = []
        self.failed: list[KafkaError] = []
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": client_id,
                "batch.size": BATCH_BYTES,
                "linger.ms": 5,
                "throttle_cb": lambda event: self.delays_s.append(event.throttle_time),
            }
        )

    def delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self.failed.append(error)

    def produce(self, topic: str, records: int = RECORDS) -> None:
        for _ in range(records):
            self.producer.produce(topic, VALUE, on_delivery=self.delivered)
        assert self.producer.flush(TIMEOUT_S) == 0
        assert self.failed == []


def librdkafka_produces(bootstrap: str, client_id: str, topic: str) -> bool:
    """Produces all records. Whether the client was told to wait."""
    client = Librdkafka(bootstrap, client_id)
    client.produce(topic)
    return any(client.delays_s)


def told_to_wait(client: KafkaProducer | KafkaConsumer) -> bool:
    """Whether a client of kafka-python was told to wait, by its metrics."""
    times_ms: list[float] = [group.get("throttle-time-max", 0.0) for group in client.metrics().values()]
    return max(times_ms) > 0


def kafka_python_produces(bootstrap: str, client_id: str, topic: str) -> bool:
    producer = KafkaProducer(bootstrap_servers=bootstrap, client_id=client_id, batch_size=BATCH_BYTES, linger_ms=5)
    sent = [producer.send(topic, VALUE) for _ in range(RECORDS)]
    for each in sent:
        each.get(TIMEOUT_S)
    told = told_to_wait(producer)
    producer.close()
    return told


def aiokafka_produces(bootstrap: str, client_id: str, topic: str) -> bool:
    async def work() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, client_id=client_id, max_batch_size=BATCH_BYTES)
        await producer.start()
        try:
            for each in [await producer.send(topic, VALUE) for _ in range(RECORDS)]:
                await asyncio.wait_for(each, TIMEOUT_S)
        finally:
            await producer.stop()

    asyncio.run(work())
    return True  # it does not say


PRODUCERS = (librdkafka_produces, kafka_python_produces, aiokafka_produces)


@pytest.mark.parametrize("produces", PRODUCERS, ids=lambda each: each.__name__)
def test_a_producer_is_slowed_down(broker: LocalBroker, produces: Callable[[str, str, str], bool]) -> None:
    topic = client_id = produces.__name__
    broker.create_topic(topic)
    with (
        limited(broker.bootstrap, {"client-id": client_id}, producer_byte_rate=LIMIT),
        at_least(least_s(ALL_BYTES, LIMIT, more=2 * BATCH_BYTES)),
    ):
        assert produces(broker.bootstrap, client_id, topic)


def librdkafka_consumes(bootstrap: str, client_id: str, topic: str) -> bool:
    """Reads all records. Whether the client was told to wait."""
    delays_s: list[float] = []
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "group.id": client_id,
            "enable.auto.commit": False,
            "fetch.message.max.bytes": FETCH_BYTES,
            "fetch.max.bytes": FETCH_BYTES,
            "message.max.bytes": FETCH_BYTES,
            "throttle_cb": lambda event: delays_s.append(event.throttle_time),
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    for _ in range(RECORDS):
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None, message.error()
    consumer.close()
    return any(delays_s)


def kafka_python_consumes(bootstrap: str, client_id: str, topic: str) -> bool:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        client_id=client_id,
        max_partition_fetch_bytes=FETCH_BYTES,
        consumer_timeout_ms=int(TIMEOUT_S * 1_000),
    )
    consumer.assign([PythonTopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    for _ in range(RECORDS):
        next(consumer)
    told = told_to_wait(consumer)
    consumer.close()
    return told


def aiokafka_consumes(bootstrap: str, client_id: str, topic: str) -> bool:
    async def work() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, client_id=client_id, max_partition_fetch_bytes=FETCH_BYTES
        )
        await consumer.start()
        try:
            partition = AioTopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            for _ in range(RECORDS):
                await asyncio.wait_for(consumer.getone(), TIMEOUT_S)
        finally:
            await consumer.stop()

    asyncio.run(work())
    return True  # it does not say


CONSUMERS = (librdkafka_consumes, kafka_python_consumes, aiokafka_consumes)


@pytest.fixture(scope="module")
def filled(broker: LocalBroker) -> str:
    """A topic with all records, in batches of a few."""
    broker.create_topic("filled")
    Librdkafka(broker.bootstrap, "quiet").produce("filled")
    return "filled"


@pytest.mark.parametrize("consumes", CONSUMERS, ids=lambda each: each.__name__)
def test_a_consumer_is_slowed_down(broker: LocalBroker, filled: str, consumes: Callable[[str, str, str], bool]) -> None:
    client_id = consumes.__name__
    with (
        limited(broker.bootstrap, {"client-id": client_id}, consumer_byte_rate=LIMIT),
        at_least(least_s(ALL_BYTES, LIMIT, more=FETCH_BYTES)),
    ):
        assert consumes(broker.bootstrap, client_id, filled)


def test_three_producers_of_a_client_id_have_one_share(broker: LocalBroker) -> None:
    broker.create_topic("three")
    with limited(broker.bootstrap, {"client-id": "three"}, producer_byte_rate=LIMIT):
        clients = [Librdkafka(broker.bootstrap, "three") for _ in range(3)]
        with at_least(least_s(ALL_BYTES, LIMIT, more=6 * BATCH_BYTES)):
            for _ in range(RECORDS // 3 + 1):
                for client in clients:
                    client.producer.produce("three", VALUE)
            assert [client.producer.flush(TIMEOUT_S) for client in clients] == [0, 0, 0]
    assert any(delay for client in clients for delay in client.delays_s)


# Java


class Java(NamedTuple):
    """Kafka's own tools, in one Java machine."""

    tools: Toolbox
    bootstrap: str

    def run(self, tool: str, *arguments: object) -> str:
        outcome = self.tools.run(tool, self.bootstrap, *arguments)
        assert outcome.status == 0, outcome
        return outcome.out

    def configure(self, *change: str) -> None:
        said = self.run(CONFIGS, "--alter", "--entity-type", "clients", "--entity-name", "configured", *change)
        assert "Completed updating" in said


@pytest.fixture(scope="module")
def java(broker: LocalBroker) -> Iterator[Java]:
    require_kafka()
    with Toolbox() as tools:
        yield Java(tools, broker.bootstrap)


@pytest.mark.java
def test_javas_clients_are_slowed_down(broker: LocalBroker, java: Java) -> None:
    broker.create_topic("java")
    client = {"client-id": "java"}
    with (
        limited(broker.bootstrap, client, producer_byte_rate=LIMIT, consumer_byte_rate=LIMIT),
        at_least(least_s(ALL_BYTES, LIMIT, more=2 * BATCH_BYTES)),
    ):
        said = java.run(
            *(PERFORMANCE, "--topic", "java", "--num-records", RECORDS, "--record-size", RECORD_BYTES),
            *("--throughput", -1, "--print-metrics", "--command-property"),
            *("client.id=java", f"batch.size={BATCH_BYTES}", "acks=1"),
        )
        told = re.search(r"produce-throttle-time-max:\S* *: (\S+)", said)
        assert told is not None, said
        assert float(told[1]) > 0
        assert f"{RECORDS} records sent" in said
        with at_least(least_s(ALL_BYTES, LIMIT, more=FETCH_BYTES)):
            said = java.run(
                *(CONSUMER, "--topic", "java", "--from-beginning", "--max-messages", RECORDS, "--timeout-ms", 60_000),
                *("--command-property", "client.id=java"),
                *("--command-property", f"max.partition.fetch.bytes={FETCH_BYTES}"),
            )
        assert len(said.split()) == RECORDS


@pytest.mark.java
def test_a_quota_is_set_and_deleted_under_a_running_producer(broker: LocalBroker, java: Java) -> None:
    broker.create_topic("configured")
    client = Librdkafka(broker.bootstrap, "configured")
    client.produce("configured")
    assert not any(client.delays_s), "there is no quota yet"
    java.configure("--add-config", f"producer_byte_rate={LIMIT}")
    with at_least(least_s(ALL_BYTES, LIMIT, more=2 * BATCH_BYTES)):
        client.produce("configured")
    assert any(client.delays_s)
    java.configure("--delete-config", "producer_byte_rate")
    client.produce("configured", 8)  # waits until what it was told before is over
    client.delays_s.clear()
    client.produce("configured")
    assert not any(client.delays_s)


def test_a_quota_of_time_slows_down_whoever_it_is(broker: LocalBroker) -> None:
    broker.create_topic("time")
    set_quotas(broker.bootstrap, {"client-id": "time"}, request_percentage=0.001)
    client = Librdkafka(broker.bootstrap, "time")
    with at_least(1.0):
        client.produce("time", 2)
    assert max(client.delays_s) <= 1.0, "a delay is at most a window"
    set_quotas(broker.bootstrap, {"client-id": "time"}, request_percentage=None)
