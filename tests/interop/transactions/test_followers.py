"""Consumers with read_committed on a follower (KIP-392) see what is stable there: never more, nor what was aborted."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from e2e.cluster.history import create_topic, leaders_and_isr, wait_for_full_isr
from interop.transactions.raw import READ_COMMITTED, Raw, until
from support.processes import Cluster, wait_until
from support.three_nodes import RACKS, three_racks

from penstock.records.batch import headers
from penstock.records.reader import records

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
TOPIC = "clicks"
TIMEOUT_S = 60.0
TRANSACTIONS, RECORDS = 30, 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes, each in a rack of its own, where consumers are sent to the replica in theirs."""
    with three_racks(tmp_path_factory.mktemp("racks"), replica_selector_class=SELECTOR) as nodes:
        create_topic(nodes.bootstrap, TOPIC, 1, 3)
        wait_for_full_isr(nodes.bootstrap, TOPIC, 3)
        yield nodes


def transactional(cluster: Cluster, name: str) -> Producer:
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "linger.ms": 0, "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(TIMEOUT_S)
    return producer


def write(producer: Producer, *values: str) -> None:
    for value in values:
        producer.produce(TOPIC, value, partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def commits(turn: int) -> bool:
    """Every third transaction is aborted."""
    return turn % 3 < 2


def values_of(turn: int) -> list[str]:
    return [f"{turn}-{number}" for number in range(RECORDS)]


def write_transactions(producer: Producer) -> None:
    for turn in range(TRANSACTIONS):
        producer.begin_transaction()
        write(producer, *values_of(turn))
        (producer.commit_transaction if commits(turn) else producer.abort_transaction)(TIMEOUT_S)


def committed(found: Any) -> list[str]:
    """What a consumer makes of an answer by its list of aborted transactions. All of it must be stable."""
    assert 0 <= found.last_stable_offset <= found.high_watermark
    beginning = sorted(found.aborted_transactions or (), key=lambda each: each.first_offset)
    aborted: set[int] = set()
    values = []
    for position, header in headers(found.records or b""):
        assert header.next_offset <= found.last_stable_offset
        while beginning and beginning[0].first_offset <= header.last_offset:
            aborted.add(beginning.pop(0).producer_id)
        if header.is_control:
            aborted.discard(header.producer_id)
        elif header.producer_id not in aborted:
            values += [(each.value or b"").decode() for each in records(found.records, header, position)]
    return values


def fetched(raw: Raw) -> Any:
    found = raw.fetched(TOPIC)
    assert found.error_code == 0
    return found


@pytest.mark.slow
def test_a_follower_gives_what_is_stable_there(cluster: Cluster) -> None:
    leader = leaders_and_isr(cluster.bootstrap, TOPIC)[0][0]
    follower = next(each for each in RACKS if each != leader)
    expected = [value for turn in range(TRANSACTIONS) if commits(turn) for value in values_of(turn)]
    with (
        Raw(f"127.0.0.1:{cluster.ports[follower]}", "near") as near,
        Raw(f"127.0.0.1:{cluster.ports[leader]}", "far") as far,
    ):
        producer = transactional(cluster, "writer")
        writing = threading.Thread(target=write_transactions, args=(producer,))
        writing.start()
        seen: list[str] = []

        def is_whole() -> bool:
            found = committed(fetched(near))
            assert found == expected[: len(found)]
            assert found[: len(seen)] == seen, "nothing is taken back"
            assert len(found) % RECORDS == 0, "all of a transaction or nothing"
            seen[:] = found
            return found == expected

        wait_until(is_whole, "everything is read from the follower")
        writing.join()
        far.wait_until_stable(TOPIC)  # an end is answered before its markers are written
        until(lambda: fetched(near).last_stable_offset, lambda end: end == far.end_offset(TOPIC))
        assert fetched(near).aborted_transactions == fetched(far).aborted_transactions
        assert len(fetched(near).aborted_transactions) == TRANSACTIONS // 3
        assert bytes(fetched(near).records) == bytes(fetched(far).records)

        open_one = transactional(cluster, "open")
        open_one.begin_transaction()
        write(open_one, "open")
        producer.begin_transaction()
        write(producer, "behind")
        producer.commit_transaction(TIMEOUT_S)
        high_watermark = far.end_offset(TOPIC, READ_COMMITTED - 1)
        until(lambda: fetched(near).high_watermark, lambda end: end >= high_watermark)
        assert committed(fetched(near)) == expected, "nothing from the open transaction on"
        brokers: set[int] = set()
        consumer = reader(cluster, RACKS[follower], brokers)
        try:
            assert consumed(consumer, len(expected)) == expected
            assert consumer.poll(0.5) is None
            open_one.abort_transaction(TIMEOUT_S)
            assert consumed(consumer, 1) == ["behind"]
            until(lambda: consumer.poll(0.1) or brokers, lambda found: found == {follower})
        finally:
            consumer.close()


def reader(cluster: Cluster, rack: str, brokers: set[int]) -> Consumer:
    """A consumer in a rack; `brokers` comes to have from whom it reads now."""

    def told(text: str) -> None:
        brokers.clear()
        brokers.add(json.loads(text)["topics"][TOPIC]["partitions"]["0"]["broker"])

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "client.rack": rack,
            "isolation.level": "read_committed",
            "statistics.interval.ms": 100,
            "stats_cb": told,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    return consumer


def consumed(consumer: Consumer, count: int) -> list[str]:
    return [each.value().decode() for each in consumer.consume(count, TIMEOUT_S)]
