"""Apache Kafka as the source, for what only it has yet: transactions, and topics that compaction has thinned out."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

pytest.importorskip("pyspark", reason="needs penstock[spark]")

from interop.kafka_peer import KafkaPeer
from interop.spark.read.driving import Query, Row, batch, consumed, create, keys, publish
from support.processes import wait_until

pytestmark = pytest.mark.java
COMPACTION_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def transactions(kafka_peer: KafkaPeer) -> str:
    """A topic with, one after the other: 10 plain records, 10 committed, 10 aborted, 10 committed; 2 partitions."""
    topic, bootstrap = "spark-transactions", kafka_peer.bootstrap
    create(bootstrap, topic, 2)
    publish(bootstrap, topic, 0, 0, 10)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "spark", "linger.ms": 1})
    producer.init_transactions(30)
    for first, commits in ((10, True), (20, False), (30, True)):
        producer.begin_transaction()
        for i in range(first, first + 10):
            producer.produce(topic, str(i), str(i), partition=i % 2)
        producer.flush(30)
        producer.commit_transaction(30) if commits else producer.abort_transaction(30)
    return topic


COMMITTED = [*range(20), *range(30, 40)]


def test_a_committed_read_hides_what_was_aborted(kafka_peer: KafkaPeer, transactions: str) -> None:
    options = {"subscribe": transactions, "kafka.isolation.level": "read_committed"}
    rows = batch(kafka_peer.bootstrap, **options)
    assert keys(rows) == COMMITTED
    assert rows == consumed(kafka_peer.bootstrap, [transactions], isolation="read_committed")
    with Query(kafka_peer.bootstrap, startingOffsets="earliest", maxOffsetsPerTrigger="7", **options) as query:
        steps = []
        while (end := query.plan()) != query.offset:
            steps += query.run(end)
    assert sorted(steps, key=lambda row: row[:3]) == rows


def test_an_uncommitted_read_has_it_all(kafka_peer: KafkaPeer, transactions: str) -> None:
    rows = batch(kafka_peer.bootstrap, subscribe=transactions)
    assert keys(rows) == list(range(40))
    assert rows == consumed(kafka_peer.bootstrap, [transactions])


def test_a_stream_waits_for_a_transaction_to_end(kafka_peer: KafkaPeer) -> None:
    bootstrap, topic = kafka_peer.bootstrap, "spark-open-transaction"
    create(bootstrap, topic, 1)
    publish(bootstrap, topic, 0, 0, 3)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "open", "linger.ms": 1})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, "3", "3", partition=0)
    producer.flush(30)
    publish(bootstrap, topic, 0, 4, 5)
    with (
        Query(bootstrap, subscribe=topic, startingOffsets="earliest") as everything,
        Query(
            bootstrap, subscribe=topic, startingOffsets="earliest", **{"kafka.isolation.level": "read_committed"}
        ) as committed,
    ):
        assert keys(everything.step()) == [0, 1, 2, 3, 4]
        assert keys(committed.step()) == [0, 1, 2]
        assert committed.step() == []
        stricter = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
        with Query(bootstrap, everything.offset, **stricter) as switched:
            assert switched.step() == [], "what was read before it was committed is no data loss"
        producer.commit_transaction(30)
        assert keys(next_rows(committed)) == [3, 4]


def next_rows(query: Query) -> list[Row]:
    """The rows of the next step that has any: Kafka writes what ends a transaction after it has answered the commit."""
    rows: list[Row] = []

    def came() -> bool:
        rows.extend(query.step())
        return bool(rows)

    wait_until(came, "rows of the transaction")
    return rows


@pytest.fixture(scope="module")
def compacting_kafka() -> Iterator[KafkaPeer]:
    with KafkaPeer(properties={"log.cleaner.backoff.ms": 50, "log.initial.task.delay.ms": 0}) as peer:
        yield peer


@pytest.mark.slow
def test_a_compacted_topic_is_read_with_its_gaps(compacting_kafka: KafkaPeer) -> None:
    bootstrap, topic = compacting_kafka.bootstrap, "spark-compacted"
    create(
        bootstrap,
        topic,
        1,
        cleanup_policy="compact",
        segment_bytes="1048576",
        min_cleanable_dirty_ratio="0.01",
        segment_ms="100",
    )
    for _ in range(3):
        publish(bootstrap, topic, 0, 0, 50)
    deadline = time.monotonic() + COMPACTION_TIMEOUT_S
    last = 150
    while len(expected := consumed(bootstrap, [topic])) > 100:
        assert time.monotonic() < deadline, "nothing was compacted"
        publish(bootstrap, topic, 0, last, last + 1)  # closes the segment before it, once it is old enough
        last += 1
    assert expected[0][2] > 0
    rows = batch(bootstrap, subscribe=topic)
    assert rows[0][2] > 0, "the log begins with a gap"
    assert [row for row in rows if row[5] in {r[5] for r in expected}][-1] == expected[-1]
    with Query(bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="30") as query:
        steps = []
        while (end := query.plan()) != query.offset:
            steps += query.run(end)
    newest = {row[5]: row for row in consumed(bootstrap, [topic])}
    assert {row[5]: row for row in steps} == newest, "the last of each key, which compaction never takes away"
    assert [row[2] for row in steps] == sorted({row[2] for row in steps})
