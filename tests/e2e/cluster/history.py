"""An idempotent producer that writes numbers and remembers what was acknowledged, and a reader that checks it all."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.processes import TIMEOUT_S, wait_until

from penstock.client.admin import wait_for_topic
from penstock.client.client import Client
from penstock.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData

QUIET = {"log_level": 0}


def create_topic(bootstrap: str, name: str, partitions: int, replicas: int) -> None:
    """Creates a topic, and waits until every broker of `bootstrap` knows it and who leads it."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    for future in admin.create_topics([NewTopic(name, partitions, replicas)], request_timeout=30).values():
        future.result()

    async def known() -> None:
        for address in bootstrap.split(","):
            async with Client(address) as client:
                await wait_for_topic(client, name, expected=partitions)

    asyncio.run(known())


def leaders_and_isr(bootstrap: str, topic: str) -> dict[int, tuple[int, list[int]]]:
    """(leader, in-sync replicas) by partition."""
    found = AdminClient({"bootstrap.servers": bootstrap, **QUIET}).list_topics(topic, timeout=30)
    return {each.id: (each.leader, sorted(each.isrs)) for each in found.topics[topic].partitions.values()}


def active_controller(bootstrap: str) -> int:
    """Who leads the metadata quorum. (To clients a broker names any broker as the controller.)"""

    async def ask() -> int:
        topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
        async with Client(bootstrap) as client:
            answer = await client.send(DescribeQuorumRequest(topics=[topic]))
        return int(answer.topics[0].partitions[0].leader_id)

    return asyncio.run(ask())


def wait_for_full_isr(bootstrap: str, topic: str, replicas: int) -> None:
    """Waits until every replica of a topic is in sync."""

    def full() -> bool:
        try:
            return all(len(isr) == replicas for _, isr in leaders_and_isr(bootstrap, topic).values())
        except KafkaException:
            return False

    wait_until(full, f"all replicas of {topic} in sync")


@dataclass
class Writer:
    """Produces one number after the other with acks=all, in a thread, from `with` on.

    Attributes:
        acknowledged: (partition, offset) by number; the offset is None where the broker had forgotten it, and said only
            that it has the record (DUPLICATE_SEQUENCE_NUMBER of a batch that is not among the last five).
        failed: errors of what was not acknowledged.
        socket_timeout_ms: how long it waits for a broker that says nothing, before it asks another.
    """

    bootstrap: str
    topic: str
    socket_timeout_ms: int = 60_000
    acknowledged: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    failed: list[KafkaError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._last_s = time.monotonic()
        self._from_s = self._last_s
        self._silence_s = 0.0
        self._producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "delivery.timeout.ms": 120_000,
                "socket.timeout.ms": self.socket_timeout_ms,
                **QUIET,
            }
        )

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *arguments: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(TIMEOUT_S) == 0, "what was sent is acknowledged or has failed"

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._producer.produce(self.topic, b"%d" % number, on_delivery=self._delivered)
            number += 1
            self._producer.poll(0.001)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
            return
        now_s = time.monotonic()
        self._silence_s = max(self._silence_s, now_s - max(self._last_s, self._from_s))
        self._last_s = now_s
        value = message.value()
        partition, offset = message.partition(), message.offset()
        assert value is not None
        assert partition is not None
        self.acknowledged[int(value)] = (partition, offset)

    def wait_for_more(self, count: int = 200) -> None:
        """Waits until so many more are acknowledged."""
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted, f"{count} more records acknowledged")

    def watch_silence(self) -> None:
        """`longest_silence_s` counts from now on."""
        self._from_s, self._silence_s = time.monotonic(), 0.0

    @property
    def longest_silence_s(self) -> float:
        """The longest time between two acknowledgements since `watch_silence`."""
        return self._silence_s


def check(writer: Writer, bootstrap: str, partitions: int) -> None:
    """Nothing acknowledged is lost, nothing is there twice, and every offset has what was acknowledged for it."""
    seen: dict[int, tuple[int, int]] = {}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False, **QUIET})
    try:
        for partition in range(partitions):
            low, high = consumer.get_watermark_offsets(TopicPartition(writer.topic, partition), timeout=30)
            consumer.assign([TopicPartition(writer.topic, partition, low)])
            offset = low
            deadline_s = time.monotonic() + TIMEOUT_S
            while offset < high:
                assert time.monotonic() < deadline_s, f"partition {partition} cannot be read beyond {offset}"
                message = consumer.poll(1)
                if message is None or message.error() is not None:
                    continue
                value, found = message.value(), message.offset()
                assert value is not None
                assert found is not None
                assert found == offset, f"offset {offset} of partition {partition} is missing"
                assert int(value) not in seen, f"{int(value)} is there twice"
                seen[int(value)] = (partition, found)
                offset = found + 1
    finally:
        consumer.close()
    lost = {
        number: (partition, offset)
        for number, (partition, offset) in writer.acknowledged.items()
        if number not in seen or seen[number] != (partition, seen[number][1] if offset is None else offset)
    }
    assert not lost, f"acknowledged, and lost or elsewhere: {list(lost.items())[:5]} ({len(lost)} in all)"
