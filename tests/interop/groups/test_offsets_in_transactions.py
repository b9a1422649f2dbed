"""Consume, transform, produce: what a group has read counts with the transaction that wrote what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from interop.groups.conftest import SETTINGS
from interop.groups.place import TIMEOUT_S, Place
from interop.kafka_peer import KafkaPeer
from support.processes import wait_until

from penstock.testing.broker import LocalBroker

RECORDS, PARTITIONS = 5, 2
TRANSACTIONAL = {
    **SETTINGS,
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
Pair = tuple[Consumer, Producer]


@pytest.fixture(scope="module", params=["penstock", pytest.param("kafka", marks=[pytest.mark.java, pytest.mark.slow])])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A running broker with quick groups, and transactions."""
    with LocalBroker(TRANSACTIONAL) if request.param == "penstock" else KafkaPeer(properties=TRANSACTIONAL) as broker:
        yield Place(broker.bootstrap, request.param)


@pytest.fixture(params=["classic", "consumer"])
def pair(request: pytest.FixtureRequest, place: Place, number: int) -> Iterator[Pair]:
    """A member of a group of its own that has read all of its topic, `from-` and the number, and a producer."""
    place.create(f"from-{number}", PARTITIONS)
    place.create(f"to-{number}", 1)
    place.fill(f"from-{number}", PARTITIONS, RECORDS)
    with closing(member(place, number, request.param)) as consumer:
        read_all(consumer)
        producer = Producer({"bootstrap.servers": place.bootstrap, "transactional.id": f"copier-{number}"})
        producer.init_transactions(TIMEOUT_S)
        yield consumer, producer


def member(place: Place, number: int, protocol: str) -> Consumer:
    settings = {
        "bootstrap.servers": place.bootstrap,
        "group.id": f"copying-{number}",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        **({"session.timeout.ms": 10_000} if protocol == "classic" else {}),
    }
    consumer = Consumer(settings)
    consumer.subscribe([f"from-{number}"])
    return consumer


def read_all(consumer: Consumer) -> None:
    found = 0

    def more() -> bool:
        nonlocal found
        found += sum(message.error() is None for message in consumer.consume(RECORDS * PARTITIONS, 1.0))
        return found >= RECORDS * PARTITIONS

    wait_until(more, "the member has read all", timeout_s=TIMEOUT_S)


def committed(place: Place, number: int, *, stable: bool = False) -> dict[int, int]:
    """The group's offsets by partition; with `stable`, an error is its number, negative and below -100."""
    admin = AdminClient({"bootstrap.servers": place.bootstrap})
    wanted = [TopicPartition(f"from-{number}", partition) for partition in range(PARTITIONS)]
    request = ConsumerGroupTopicPartitions(f"copying-{number}", wanted)
    (asked,) = admin.list_consumer_group_offsets([request], require_stable=stable).values()
    return {
        each.partition: -100 - each.error.code() if each.error else each.offset
        for each in asked.result(TIMEOUT_S).topic_partitions
    }


def begin(pair: Pair, number: int, offset: int) -> None:
    """A transaction with a record and this offset for both partitions."""
    consumer, producer = pair
    producer.begin_transaction()
    producer.produce(f"to-{number}", b"copied")
    offsets = [TopicPartition(f"from-{number}", partition, offset) for partition in range(PARTITIONS)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)


NONE, SOME, ALL = -1001, 3, RECORDS


def test_offsets_count_with_their_transaction_and_not_before(place: Place, pair: Pair, number: int) -> None:
    _, producer = pair
    unstable = -100 - KafkaError.UNSTABLE_OFFSET_COMMIT
    begin(pair, number, SOME)
    assert committed(place, number) == {0: NONE, 1: NONE}
    assert committed(place, number, stable=True) == {0: unstable, 1: unstable}
    producer.abort_transaction(TIMEOUT_S)
    wait_until(lambda: set(committed(place, number, stable=True).values()) == {NONE}, "the abort is known")
    for offset in (SOME, ALL):
        begin(pair, number, offset)
        producer.commit_transaction(TIMEOUT_S)
        wait_until(lambda: set(committed(place, number, stable=True).values()) == {offset}, "they count")  # noqa: B023


def test_a_new_member_waits_for_the_transaction_and_begins_where_it_left_off(
    place: Place, pair: Pair, number: int
) -> None:
    consumer, producer = pair
    begin(pair, number, SOME)
    producer.commit_transaction(TIMEOUT_S)
    begin(pair, number, ALL)
    consumer.unsubscribe()
    producer.commit_transaction(TIMEOUT_S)
    with closing(member(place, number, "classic")) as successor:
        assert successor.consume(1, 3.0) == []


@pytest.mark.slow
def test_a_producer_of_an_earlier_generation_is_fenced(place: Place, pair: Pair, number: int) -> None:
    consumer, producer = pair
    old = consumer.consumer_group_metadata()
    consumer.unsubscribe()
    wait_until(lambda: place.group(f"copying-{number}")[1] == "empty", "the member has left")
    producer.begin_transaction()
    producer.produce(f"to-{number}", b"copied")
    with pytest.raises(KafkaException) as refused:
        producer.send_offsets_to_transaction([TopicPartition(f"from-{number}", 0, SOME)], old, TIMEOUT_S)
    assert refused.value.args[0].txn_requires_abort()
    producer.abort_transaction(TIMEOUT_S)
    assert committed(place, number, stable=True) == {0: NONE, 1: NONE}
