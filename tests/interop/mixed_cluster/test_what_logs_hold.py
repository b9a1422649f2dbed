"""Whatever a log can hold is followed from either side to the other: codecs, timestamps, transactions, moved starts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from interop.mixed_cluster.nodes import BROKERS, KAFKA, PENSTOCKS, MixedCluster
from support.upgraded import content, kept, place, upgraded

pytestmark = [pytest.mark.java, pytest.mark.slow]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    settings = {"transaction.state.log.num.partitions": 1}
    with MixedCluster(tmp_path_factory.mktemp("mixed"), settings=settings) as running:
        running.create_topic("__transaction_state", [[KAFKA]], cleanup_policy="compact")
        yield running


def replicas_become_equal(cluster: MixedCluster, topic: str, partitions: int) -> None:
    """While the brokers run: nothing is written any more."""
    for partition in range(partitions):
        cluster.wait_until(
            lambda: len({cluster.log_bytes(broker, topic, partition) for broker in BROKERS}) == 1,  # noqa: B023
            f"the replicas of {topic}-{partition} are equal",
        )
        assert cluster.log_bytes(KAFKA, topic, partition)


def write(cluster: MixedCluster, topic: str, partition: int, values: list[bytes], codec: str = "none") -> None:
    """Writes records of one partition, as batches of a few."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": codec, "acks": "all"})
    failed: list[object] = []
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            key=b"key",
            partition=partition,
            headers=[("number", b"%d" % number)],
            on_delivery=lambda error, _: error and failed.append(error),
        )
        if not number % 50:
            assert producer.flush(TIMEOUT_S) == 0
    assert producer.flush(TIMEOUT_S) == 0
    assert failed == []


def read(cluster: MixedCluster, topic: str, partition: int, isolation: str) -> list[bytes]:
    """All records of a partition, up to its end."""
    settings = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
    ends = {"enable.partition.eof": True, "isolation.level": isolation}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **settings, **ends})
    found: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            if message.error() is not None:
                return found
            found.append(message.value() or b"")
    finally:
        consumer.close()


def test_every_codec_and_both_kinds_of_timestamps(cluster: MixedCluster) -> None:
    for kind in ("CreateTime", "LogAppendTime"):
        topic = f"codecs-{kind}"
        cluster.create_topic(topic, [[1, 2, 3], [2, 3, 1]], message_timestamp_type=kind, segment_bytes=1 << 20)
        values = [b"%d " % number * 100 for number in range(300)]
        for partition in range(2):
            for codec in CODECS:
                write(cluster, topic, partition, values, codec)
        replicas_become_equal(cluster, topic, 2)


@pytest.mark.parametrize("leader", [KAFKA, PENSTOCKS[0]])
def test_messages_of_before_kafka_0_11_are_followed_and_then_served(cluster: MixedCluster, leader: int) -> None:
    """A log that was begun by brokers of that time is where one broker keeps its log; the others come to it later."""
    topic, some = f"upgraded-{leader}", upgraded(1, batches=0)
    cluster.create_topic(topic, [[leader]], retention_ms=-1)
    cluster.wait_until_in_sync(topic)
    cluster.stop_node(leader)
    place(cluster.partition_dir(leader, topic, 0), [some[:30], some[30:]])
    cluster.start_node(leader)
    cluster.wait_until_in_sync(topic, {0: [leader]}, {0: leader})
    replicas = [leader, *(broker for broker in BROKERS if broker != leader)]
    cluster.reassign(topic, {0: replicas})
    cluster.wait_until_in_sync(topic, {0: replicas})
    replicas_become_equal(cluster, topic, 1)
    assert cluster.log_bytes(leader, topic, 0) == content(some)
    write(cluster, topic, 0, [b"new"] * 3)
    replicas_become_equal(cluster, topic, 1)
    values = [record.value or b"" for record in kept(some)] + [b"new"] * 3
    for first in BROKERS:
        order = [first, *(broker for broker in BROKERS if broker != first)]
        cluster.reassign(topic, {0: order})
        cluster.elect_preferred(topic, [0])
        cluster.wait_until_in_sync(topic, {0: order}, {0: first})
        assert read(cluster, topic, 0, "read_uncommitted") == values


def test_transactions_of_kafka_are_followed_and_then_served_by_us(cluster: MixedCluster) -> None:
    """They are written while we are down: a client would ask any broker for the coordinator, and we know of none."""
    cluster.create_topic("transactional", [[1, 2, 3]])
    for broker in PENSTOCKS:
        cluster.stop_node(broker)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "writer"})
    producer.init_transactions(TIMEOUT_S)
    for number in range(6):
        producer.begin_transaction()
        for each in range(10):
            producer.produce("transactional", b"%d-%d" % (number, each), partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        if number % 2:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
    for broker in PENSTOCKS:
        cluster.start_node(broker)
    cluster.wait_until_in_sync("transactional")
    replicas_become_equal(cluster, "transactional", 1)
    committed = [b"%d-%d" % (number, each) for number in (0, 2, 4) for each in range(10)]
    for order in ([2, 3, 1], [3, 1, 2], [1, 2, 3]):
        cluster.reassign("transactional", {0: order})
        cluster.elect_preferred("transactional", [0])
        cluster.wait_until_in_sync("transactional", {0: order}, {0: order[0]})
        assert read(cluster, "transactional", 0, "read_committed") == committed
        assert len(read(cluster, "transactional", 0, "read_uncommitted")) == 60


def test_records_are_deleted_from_the_beginning_of_all_replicas(cluster: MixedCluster) -> None:
    cluster.create_topic("shortened", [[1, 2, 3], [2, 3, 1]])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for partition in range(2):
        write(cluster, "shortened", partition, [b"%d" % number for number in range(100)])
    wanted = [TopicPartition("shortened", partition, 40) for partition in range(2)]
    for future in admin.delete_records(wanted).values():
        assert future.result(TIMEOUT_S).low_watermark == 40
    for first in (3, 2, 1):
        order = [first, *(each for each in BROKERS if each != first)]
        cluster.reassign("shortened", {0: order, 1: order})
        cluster.elect_preferred("shortened", range(2))
        cluster.wait_until_in_sync("shortened", {0: order, 1: order}, {0: first, 1: first})
        for partition in range(2):
            assert read(cluster, "shortened", partition, "read_uncommitted") == [
                b"%d" % each for each in range(40, 100)
            ]


def test_a_topic_is_deleted_and_made_again_everywhere(cluster: MixedCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for turn in range(3):
        cluster.create_topic("again", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], through=BROKERS[turn])
        for partition in range(3):
            write(cluster, "again", partition, [b"%d" % turn])
        replicas_become_equal(cluster, "again", 3)
        assert read(cluster, "again", 2, "read_uncommitted") == [b"%d" % turn]
        for future in admin.delete_topics(["again"], operation_timeout=TIMEOUT_S).values():
            future.result(TIMEOUT_S)
        cluster.wait_until(
            lambda: not any(cluster.partition_dir(broker, "again", 0).exists() for broker in BROKERS),
            "its directories are gone",
        )
