"""Log directories of Apache Kafka as a kill at any moment leaves them, with everything in them that recovery meets.

    with KilledKafka(path, seed=7) as kafka:
        for number in range(4):
            kafka.work()
            kafka.copy(path / f"{number}")

`work` writes to all topics until a random number of records is delivered, and stops the process at that very moment. A
process that is stopped has in its file system what it would have if it had been killed: `copy` takes that, damages it
further, and lets the process go on. `TOPICS` says what is in which topic. Attributes: `damaged`, how many old segments
have lost an index and have a bad batch.
"""

from __future__ import annotations

import os
import shutil
import signal
import struct
import zlib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Self

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from interop.kafka_peer import KafkaPeer

from penstock.log.checkpoints import RECOVERY_POINT, parse_checkpoint
from penstock.records.batch import headers

DIRECTORIES = 5
TIMEOUT_S = 30.0
KEYS = 30
SMALL = {"internal.segment.bytes": "20000", "index.interval.bytes": "500"}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
TOPICS: Mapping[str, Mapping[str, str]] = {
    "plain": SMALL,  # an old segment with a bad batch has lost an index
    "cleaned": {**SMALL, **COMPACTED},
    "turned": {**SMALL, **COMPACTED},  # compacted at first, later not
    "transactional": SMALL,
    "torn": SMALL,  # its end is half-written or damaged
    "old": {"retention.ms": "-1"},  # messages of the formats 0 and 1
}
"""Each has as many partitions as there are log directories."""
PROPERTIES = {
    "log.index.size.max.bytes": 1 << 16,
    "log.initial.task.delay.ms": 100,
    "log.flush.offset.checkpoint.interval.ms": 500,
    "log.cleaner.backoff.ms": 50,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}
RECORDS_MIN, RECORDS_MAX = 3_000, 6_000


class KilledKafka:
    """A node of Apache Kafka that is stopped again and again. A context manager."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = Random(seed)
        self.peer = KafkaPeer(directory, properties=PROPERTIES, log_directories=DIRECTORIES)
        self.copies = 0
        self.delivered = 0
        self.damaged = 0
        self._goal = 0
        self._in_transaction = False

    def __enter__(self) -> Self:
        self.peer.__enter__()
        settings = {"bootstrap.servers": self.peer.bootstrap, "log_level": 0}
        self.admin = AdminClient(settings)
        topics = [NewTopic(name, DIRECTORIES, 1, config=dict(config)) for name, config in TOPICS.items()]
        for future in self.admin.create_topics(topics).values():
            future.result(TIMEOUT_S)
        batches = {**settings, "linger.ms": 1, "batch.num.messages": 10, "enable.idempotence": True}
        self.producer = Producer(batches)
        patient = {"transactional.id": "payments", "transaction.timeout.ms": 600_000}
        self.transactional = Producer({**batches, **patient})
        self.transactional.init_transactions(TIMEOUT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.peer.stop(signal.SIGKILL)

    # What it writes

    def work(self) -> None:
        """Writes to all topics, and stops the node when so many records are delivered."""
        assert self.peer.process is not None
        self._goal = self.delivered + self.random.randrange(RECORDS_MIN, RECORDS_MAX)
        while self.delivered < self._goal:
            self._end_transaction()
            self._begin_transaction()
            for _ in range(200):
                topic = self.random.choice(("plain", "cleaned", "turned", "torn"))
                self._send(self.producer, topic)
            self.producer.poll(0)

    def _begin_transaction(self) -> None:
        """It stays open for a while: the node may be stopped meanwhile."""
        self.transactional.begin_transaction()
        self._in_transaction = True
        for _ in range(self.random.randrange(5, 40)):
            self._send(self.transactional, "transactional")

    def _end_transaction(self) -> None:
        if not self._in_transaction:
            return
        self._in_transaction = False
        if self.random.random() < 0.4:
            self.transactional.flush(TIMEOUT_S)
            self.transactional.abort_transaction(TIMEOUT_S)
        else:
            self.transactional.commit_transaction(TIMEOUT_S)

    def _send(self, producer: Producer, topic: str) -> None:
        key = b"%d" % self.random.randrange(KEYS)
        value = self.random.randbytes(self.random.randrange(50, 400))
        callback = None if producer is self.transactional else self._delivered
        producer.produce(topic, value, key, self.random.randrange(DIRECTORIES), on_delivery=callback)

    def _delivered(self, error: object, _: object) -> None:
        assert error is None, error
        self.delivered += 1
        if self.delivered == self._goal:
            assert self.peer.process is not None
            self.peer.process.send_signal(signal.SIGSTOP)

    def turn(self) -> None:
        """The topic that was compacted is no more, and keeps what the cleaner left."""
        entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "turned", incremental_configs=[entry])
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result(TIMEOUT_S)

    # What is left

    def copy(self, directory: Path) -> KafkaPeer:
        """Copies what the stopped node has on disk, damaged further, and lets it go on. Gives a node to start there."""
        assert self.peer.process is not None
        os.waitid(os.P_PID, self.peer.process.pid, os.WSTOPPED | os.WNOWAIT)
        peer = self.node_on(directory)
        for source, target in zip(self.peer.log_dirs, peer.log_dirs, strict=True):
            shutil.copytree(source, target)
            self._damage(target)
        self.copies += 1
        self.peer.process.send_signal(signal.SIGCONT)
        return peer

    def node_on(self, directory: Path) -> KafkaPeer:
        """A node for such a copy, not started. Nothing is cleaned there."""
        peer = KafkaPeer(
            directory,
            properties={**PROPERTIES, "log.cleaner.enable": False},
            log_directories=DIRECTORIES,
            cluster_id=self.peer.cluster_id,
            format=False,
        )
        peer.write_configuration()
        return peer

    def _damage(self, directory: Path) -> None:
        points = (
            parse_checkpoint((directory / RECOVERY_POINT).read_bytes()) if (directory / RECOVERY_POINT).exists() else {}
        )
        for partition in sorted(directory.iterdir()):
            topic, _, index = partition.name.rpartition("-")
            logs = sorted(partition.glob("*.log"))
            if topic == "torn":
                self._tear([log for log in logs if log.stat().st_size][-1], (self.copies + int(index)) % 5)
            elif topic == "old":
                logs[0].write_bytes(self._old_messages())
            elif topic == "plain":
                flushed = points.get((topic, int(index)), 0)
                older = [log for log, after in pairwise(logs) if int(after.stem) <= flushed]
                if older and self.random.random() < 0.5:
                    damaged = self.random.choice(older)
                    damaged.with_suffix(".index").unlink()
                    self._flip(damaged)
                    self.damaged += 1

    def _tear(self, log: Path, way: int) -> None:
        content = log.read_bytes()
        position, last = list(headers(content))[-1]
        if way == 0:
            content += content[position : position + self.random.randrange(1, last.size_bytes)]
        elif way == 1:
            content += bytes(self.random.randrange(1, 5_000))
        elif way == 2:
            content += self.random.randbytes(self.random.randrange(1, 500))
        elif way == 3:
            content = content[: self.random.randrange(position + 1, len(content))]
        log.write_bytes(content)
        if way == 4:
            self._flip(log)

    def _flip(self, log: Path) -> None:
        """Flips a bit of a file, but in no base offset: no CRC covers one, and Apache Kafka then cuts all there is."""
        content = bytearray(log.read_bytes())
        bases = {position + byte for position, _ in headers(bytes(content)) for byte in range(8)}
        content[self.random.choice([position for position in range(len(content)) if position not in bases])] ^= 4
        log.write_bytes(content)

    def _old_messages(self) -> bytes:
        magic = self.random.randrange(2)
        messages = [old_message(offset, magic, self.random.randbytes(50)) for offset in range(20)]
        return b"".join(messages)


def old_message(offset: int, magic: int, value: bytes) -> bytes:
    """A message of format 0 or 1 without a key (KIP-32)."""
    timestamp: Any = struct.pack(">q", 1_400_000_000_000) if magic else b""
    body = struct.pack(">bb", magic, 0) + timestamp + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body
