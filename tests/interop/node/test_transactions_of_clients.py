"""Transactions of librdkafka and kafka-python on one node: what is committed is read, what is aborted is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from penstock.testing.broker import LocalBroker

confluent_kafka = pytest.importorskip("confluent_kafka")
kafka = pytest.importorskip("kafka")

TRANSACTIONS = 4
"""Every other one is aborted."""
TIMEOUT_S = 30


def librdkafka(bootstrap: str, values: Callable[[int], list[bytes]]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "rd"})
    producer.init_transactions(TIMEOUT_S)
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        for partition, value in enumerate(values(number)):
            producer.produce("orders", value, partition=partition)
        producer.flush(TIMEOUT_S)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(TIMEOUT_S)


def kafka_python(bootstrap: str, values: Callable[[int], list[bytes]]) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id="py")
    try:
        producer.init_transactions()
        for number in range(TRANSACTIONS):
            producer.begin_transaction()
            for partition, value in enumerate(values(number)):
                producer.send("orders", value, partition=partition)
            producer.flush(TIMEOUT_S)
            (producer.abort_transaction if number % 2 else producer.commit_transaction)()
    finally:
        producer.close()


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker({}) as made:
        made.create_topic("orders", partitions=3)
        yield made


@pytest.mark.parametrize("produce", [librdkafka, kafka_python])
def test_committed_records_are_read_and_aborted_ones_are_not(
    broker: LocalBroker, produce: Callable[[str, Callable[[int], list[bytes]]], None]
) -> None:
    def values(number: int) -> list[bytes]:
        return [f"{number}-{partition}".encode() for partition in range(3)]

    produce(broker.bootstrap, values)
    wanted = sorted(value for number in range(0, TRANSACTIONS, 2) for value in values(number))
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "g", "isolation.level": "read_committed"}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition("orders", partition, 0) for partition in range(3)])
        read = consumer.consume(len(wanted) + 1, timeout=3)
    finally:
        consumer.close()
    assert sorted(message.value() for message in read) == wanted
