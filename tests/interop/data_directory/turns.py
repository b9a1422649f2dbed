"""One data directory that Apache Kafka and Penstock serve in turns, and what each turn does and must find.

    with DataDirectory(path, formatted_by="kafka") as shared:
        history = History(shared)
        for who in ("kafka", "penstock", "kafka"):
            with shared.served_by(who):
                history.turn()

A turn first checks everything that earlier turns left: records with their offsets, producers' sequences, topics, their
configs, where logs begin. Then it goes on: appends in every codec, changes configs, makes and deletes topics.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import NamedTuple, Self

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from interop.clients.drivers import Confluent, Row
from interop.kafka_peer import KafkaPeer, run_tool
from support.logs import batch

from penstock.client.client import Client
from penstock.errors import ErrorCode, RequestError

TIMEOUT_S = 30.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENT_BYTES = 1 << 20
LARGE_BYTES = 200_000
PRODUCER = 88_000
SURVIVOR_RECORDS = 100
DUMP = "org.apache.kafka.tools.DumpLogSegments"
METADATA = "__cluster_metadata-0"


class Kept(NamedTuple):
    """A record as it must be found again."""

    offset: int
    row: Row


class DataDirectory:
    """A directory with one configuration for both; a context manager that ends whoever serves it."""

    def __init__(self, directory: Path, formatted_by: str) -> None:
        self.kafka = KafkaPeer(directory, format=False)
        self.kafka.write_configuration()
        if formatted_by == "kafka":
            self.kafka.format()
        else:
            self._penstock("storage", "format", "-t", self.kafka.cluster_id, "-c", str(self.kafka.config_file)).wait()
        self.path = self.kafka.log_dirs[0]
        assert (self.path / "meta.properties").exists()

    @property
    def bootstrap(self) -> str:
        return self.kafka.bootstrap

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kafka.stop(signal.SIGKILL)

    @contextmanager
    def served_by(self, who: str, stopped_by: signal.Signals = signal.SIGTERM) -> Iterator[None]:
        """Lets "kafka" or "penstock" serve it for as long as the block runs."""
        if who == "kafka":
            self.kafka.start()
        else:
            self.start_penstock()
        yield
        self.kafka.stop(stopped_by)

    def start_penstock(self) -> None:
        """Starts our server where Kafka's process would be, and waits until it answers."""
        self.kafka.process = self._penstock("server", "start", str(self.kafka.config_file))
        deadline = time.monotonic() + TIMEOUT_S
        while not self.kafka.answers():
            assert self.kafka.process.poll() is None, self.kafka.log()[-4000:]
            assert time.monotonic() < deadline, self.kafka.log()[-4000:]
            with suppress(subprocess.TimeoutExpired):  # a pause which ends early when the process does
                self.kafka.process.wait(0.05)

    def _penstock(self, *arguments: str) -> subprocess.Popen[bytes]:
        with self.kafka.log_file.open("ab") as log:
            command = [sys.executable, "-m", "penstock", *arguments]
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def dump(self, directory: str, suffix: str, *options: str) -> str:
        """What DumpLogSegments says of all files with this suffix that are not empty, of one partition or of all that a
        pattern names."""
        files = sorted(each for each in self.path.glob(f"{directory}/*{suffix}") if each.stat().st_size)
        assert files, f"{directory} has no {suffix}"
        return run_tool(DUMP, *options, "--files", ",".join(map(str, files))).stdout


class History:
    """What was written so far, and must be there in every turn that follows. `killed`: nobody stops cleanly."""

    def __init__(self, shared: DataDirectory, codecs: Sequence[str] = CODECS, *, killed: bool = False) -> None:
        self.killed = killed
        self.shared = shared
        self.codecs = codecs
        self.turns = 0
        self.random = Random(3)
        self.records: dict[tuple[str, int], list[Kept]] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.sequence = 0
        self.last_batch: tuple[int, bytearray] | None = None
        self.base_ms = time.time_ns() // 1_000_000 - 3_600_000
        settings = {"bootstrap.servers": shared.bootstrap, "reconnect.backoff.max.ms": 200, "log_level": 0}
        self.admin = AdminClient(settings)
        self.survivor = Producer({**settings, "enable.idempotence": True})

    def turn(self) -> None:
        """Checks what earlier turns left, and adds to it."""
        self.check()
        if self.turns == 0:
            self.create("codecs", 1, **{"segment.bytes": str(SEGMENT_BYTES)})
            self.create("appended", 2, **{"message.timestamp.type": "LogAppendTime"})
            self.create("producer", 1)
            self.create("survivor", 1)
        self.turns += 1
        self.create(f"turn-{self.turns}", self.turns, **{"cleanup.policy": "compact"})
        if self.turns > 2:
            self.delete(f"turn-{self.turns - 2}")
        self.configure("codecs", "retention.ms", str(10_000_000_000 + self.turns))
        self.write_codecs()
        self.go_on_as_a_producer()
        self.go_on_as_the_survivor()
        self.delete_records()
        self.records = self.read()

    def check(self) -> None:
        """Records, topics and configs are those that the last turn left; a repeated batch is known as such."""
        if not self.turns:
            return
        topics = self.admin.list_topics(timeout=TIMEOUT_S).topics
        assert {(name, each) for name, topic in topics.items() for each in topic.partitions} == set(self.records)
        there = self.read()
        for partition, kept in self.records.items():
            first = kept[0].offset if kept and self.killed else 0  # DeleteRecords is made durable once a minute only
            assert [each for each in there[partition] if each.offset >= first] == kept, partition
        for topic, configs in self.configs.items():
            (described,) = self.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
            found = described.result(TIMEOUT_S)
            assert {name: found[name].value for name in configs} == configs, topic
        self.check_sequences()

    def check_sequences(self) -> None:
        """The producer's last batch is a duplicate, and one that leaves a gap is refused."""
        assert self.last_batch is not None
        base_offset, last = self.last_batch
        assert self.produce("producer", last) == base_offset, "the first append's offset"
        gap = batch(b"gap", producer=(PRODUCER, 0, 100_000), timestamp_ms=self.base_ms)
        with pytest.raises(RequestError) as refused:
            self.produce("producer", gap)
        assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def create(self, topic: str, partitions: int, **configs: str) -> None:
        for future in self.admin.create_topics([NewTopic(topic, partitions, 1, config=configs)]).values():
            future.result(TIMEOUT_S)
        self.configs[topic] = configs

    def delete(self, topic: str) -> None:
        for future in self.admin.delete_topics([topic]).values():
            future.result(TIMEOUT_S)
        del self.configs[topic]

    def configure(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result(TIMEOUT_S)
        self.configs[topic][name] = value

    def write_codecs(self) -> None:
        """Rows in each codec, enough of them to roll segments."""
        for number, codec in enumerate(self.codecs):
            at_ms = self.base_ms + 100_000 * self.turns + 1_000 * number
            rows = [
                Row(at_ms, b"key", b"value " * 20, [("turn", b"%d" % self.turns), ("codec", codec.encode())]),
                Row(at_ms + 1, None, None, []),
                Row(at_ms + 2, b"", b"", [("again", b"1"), ("again", b"")]),
                *(Row(at_ms + 3 + each, b"%d" % each, b"row %d" % each, []) for each in range(50)),
            ]
            large = Row(at_ms + 60, b"large", self.random.randbytes(LARGE_BYTES) + bytes(LARGE_BYTES), [])
            publish(self.shared.bootstrap, codec, [("codecs", rows), ("codecs", [large]), ("appended", rows[:3])])

    def go_on_as_a_producer(self) -> None:
        """The next batches of one producer id."""
        for _ in range(3):
            values = (b"%d" % self.sequence, b"%d" % (self.sequence + 1))
            last = batch(*values, producer=(PRODUCER, 0, self.sequence), timestamp_ms=self.base_ms + self.turns)
            self.last_batch = (self.produce("producer", last), last)
            self.sequence += len(values)

    def produce(self, topic: str, data: bytearray) -> int:
        """The base offset that the broker answers."""

        async def once() -> int:
            async with Client(self.shared.bootstrap) as client:
                base_offset, _ = await client.produce(topic, 0, bytearray(data))
                return base_offset

        return asyncio.run(once())

    def go_on_as_the_survivor(self) -> None:
        """An idempotent librdkafka producer that lives through all turns: each of its records is there once."""
        for each in range(SURVIVOR_RECORDS):
            self.survivor.produce("survivor", b"%d" % ((self.turns - 1) * SURVIVOR_RECORDS + each))
        assert self.survivor.flush(TIMEOUT_S) == 0
        there = Confluent().values(self.shared.bootstrap, "survivor", 0, self.turns * SURVIVOR_RECORDS)
        assert there == [b"%d" % each for each in range(self.turns * SURVIVOR_RECORDS)]

    def delete_records(self) -> None:
        """Lets a log begin later."""
        for future in self.admin.delete_records([TopicPartition("appended", 0, 2 * self.turns)]).values():
            assert future.result(TIMEOUT_S).low_watermark == 2 * self.turns

    def read(self) -> dict[tuple[str, int], list[Kept]]:
        """Everything in every partition, from where its log begins."""
        topics = self.admin.list_topics(timeout=TIMEOUT_S).topics
        partitions = [(name, each) for name, topic in topics.items() for each in topic.partitions]
        return read_all(self.shared.bootstrap, sorted(partitions))


def publish(bootstrap: str, codec: str, batches: Sequence[tuple[str, Sequence[Row]]]) -> None:
    """Publishes into partition 0 of topics, each a batch of its own: a large one spoils compression.

    Not idempotent, for librdkafka takes half a second to get a producer id.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5})
    failed: list[object] = []
    for topic, rows in batches:
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


def read_all(bootstrap: str, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], list[Kept]]:
    """The records of the partitions, each to its end."""
    settings = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
    consumer = Consumer({"bootstrap.servers": bootstrap, "enable.partition.eof": True, **settings})
    found: dict[tuple[str, int], list[Kept]] = {partition: [] for partition in partitions}
    left = set(partitions)
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for topic, number in partitions])
        while left:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"nothing more came of {left}"
            partition = (str(message.topic()), int(message.partition() or 0))
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                left.discard(partition)
                continue
            headers = [(name, value or b"") for name, value in message.headers() or []]
            row = Row(message.timestamp()[1], message.key(), message.value(), headers)
            found[partition].append(Kept(int(message.offset() or 0), row))
    finally:
        consumer.close()
    return found
