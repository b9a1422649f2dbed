"""Direct reads of the directories of running brokers, Penstock's and Apache Kafka's: the same as through the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")

import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.client.client import LATEST, READ_COMMITTED, READ_UNCOMMITTED, Client
from penstock.errors import ConfigError, RequestError
from penstock.records.arrow_schema import Decoded
from penstock.spark.read.fetching import Connect, decoded, gaps_of, record_batch
from penstock.spark.read.files import DirectReadError
from penstock.spark.read.plan import OffsetRange
from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from interop.kafka_peer import KafkaPeer
    from pyspark.sql import SparkSession

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENT_BYTES = 1 << 20
RECORDS = 4_000
VALUE = bytes(range(256)) * 4
"""Whatever the codec makes of it, a salt keeps it over SEGMENT_BYTES in all."""


@dataclass
class Cluster:
    """A broker, and where its data is."""

    bootstrap: str
    log_dir: Path

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        settings = {"segment.bytes": str(SEGMENT_BYTES), **{key.replace("_", "."): configs[key] for key in configs}}
        admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(30)

    def delete(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.delete_topics([topic])[topic].result(30)

    def publish(self, topic: str, records: int = RECORDS, *, codec: str = "none", word: bytes = b"value") -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "compression.type": codec, "linger.ms": 20})
        for i in range(records):
            salt = (i * 2654435761).to_bytes(8, "big") * 32
            headers: list[tuple[str, str | bytes | None]] | None = [("i", str(i))] if i % 3 else None
            producer.produce(topic, word + salt + VALUE, str(i % 50), partition=0, headers=headers)
            if i % 1000 == 999:
                producer.flush(30)
        assert producer.flush(30) == 0

    def plan(self, topic: str) -> list[OffsetRange]:
        """All of partition 0."""

        async def ask() -> list[OffsetRange]:
            async with Client(self.bootstrap) as client:
                end = (await client.offsets([(topic, 0)], LATEST))[topic, 0].offset
                return [OffsetRange(topic, (await client.topic(topic)).topic_id, 0, 0, end)]

        return asyncio.run(ask())

    def connect(self, read: str, *, isolation: int = READ_UNCOMMITTED, log_dirs: tuple[str, ...] = ()) -> Connect:
        return Connect(self.bootstrap, "test", 30_000, isolation, read, log_dirs)


def collect(connect: Connect, ranges: list[OffsetRange]) -> tuple[Any, list[Any]]:
    """The rows in the order of their offsets, and the gaps offset by offset."""
    batches, gaps = [], []
    for wanted, got in decoded(connect, ranges):
        gaps += [(offset, gap.reason) for gap in gaps_of(wanted, got) for offset in range(gap.start, gap.end)]
        if isinstance(got, Decoded):
            batches.append(record_batch(wanted, got))
    return pa.Table.from_batches(batches).sort_by("offset").combine_chunks(), sorted(gaps)


@pytest.fixture(scope="module")
def penstock() -> Iterator[Cluster]:
    with LocalBroker() as broker:
        yield Cluster(broker.bootstrap, broker.data_dir)


@pytest.fixture(params=["penstock", pytest.param("kafka", marks=pytest.mark.java)])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    if request.param == "penstock":
        found: Cluster = request.getfixturevalue("penstock")
        return found
    peer: KafkaPeer = request.getfixturevalue("kafka_peer")
    return Cluster(peer.bootstrap, peer.log_dirs[0])


def closed_segments(cluster: Cluster, topic: str) -> list[Path]:
    return sorted((cluster.log_dir / f"{topic}-0").glob("*.log"))[:-1]


@pytest.mark.slow
def test_files_give_what_the_broker_gives_whatever_the_codec(cluster: Cluster) -> None:
    cluster.create("files-codecs")
    for codec in CODECS:
        cluster.publish("files-codecs", codec=codec)
    assert len(closed_segments(cluster, "files-codecs")) > 3
    ranges = cluster.plan("files-codecs")
    through_broker = collect(cluster.connect("broker"), ranges)
    assert through_broker[0].num_rows == len(CODECS) * RECORDS
    assert collect(cluster.connect("files"), ranges) == through_broker
    assert collect(cluster.connect("auto", isolation=READ_COMMITTED), ranges) == through_broker
    mounted = cluster.connect("files", log_dirs=(str(cluster.log_dir),))
    for start, end in ((1_234, 2_345), (17, 19_999), (5_555, 5_556)):
        part = [OffsetRange(ranges[0].topic, ranges[0].topic_id, 0, start, end)]
        assert collect(mounted, part)[0] == through_broker[0].slice(start, end - start)


@pytest.mark.java
def test_committed_records_of_transactions_are_the_same(kafka_peer: KafkaPeer) -> None:
    """Plain records, committed and aborted transactions, over several segments."""
    cluster = Cluster(kafka_peer.bootstrap, kafka_peer.log_dirs[0])
    cluster.create("files-transactions")
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": "files", "linger.ms": 20}
    producer = Producer(settings)
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction):
        cluster.publish("files-transactions", 2_000)
        producer.begin_transaction()
        for i in range(1_000):
            producer.produce("files-transactions", VALUE, str(i), partition=0)
        producer.flush(30)  # an abort would drop what has not left yet
        end(30)
    cluster.publish("files-transactions", 3_000)
    for isolation, records in ((READ_UNCOMMITTED, 12_000), (READ_COMMITTED, 11_000)):
        ranges = cluster.plan("files-transactions")
        through_broker = collect(cluster.connect("broker", isolation=isolation), ranges)
        assert through_broker[0].num_rows == records
        assert collect(cluster.connect("auto", isolation=isolation), ranges) == through_broker
    assert collect(cluster.connect("files"), ranges)[0].num_rows == 12_000
    with pytest.raises(DirectReadError, match="has transactions"):
        collect(cluster.connect("files", isolation=READ_COMMITTED), ranges)


def test_records_really_come_from_the_files(penstock: Cluster) -> None:
    """A file that is taken away behind the broker's back is missed, though the broker itself has it open."""
    penstock.create("files-changed")
    penstock.publish("files-changed")
    first = closed_segments(penstock, "files-changed")[0]
    ranges = penstock.plan("files-changed")
    whole = collect(penstock.connect("broker"), ranges)
    moved = first.with_suffix(".log.moved")
    first.rename(moved)
    try:
        with pytest.raises(DirectReadError, match="files-changed-0 cannot be read from files at offset 0"):
            collect(penstock.connect("files"), ranges)
    finally:
        moved.rename(first)
    assert collect(penstock.connect("files"), ranges) == whole


def test_a_topic_recreated_since_the_plan_is_an_error_either_way(penstock: Cluster) -> None:
    penstock.create("files-again")
    penstock.publish("files-again", 10_000)
    ranges = penstock.plan("files-again")
    penstock.delete("files-again")
    penstock.create("files-again")
    penstock.publish("files-again", 10_000, word=b"other")
    with pytest.raises(DirectReadError, match=r"files-again-0 .*: the topic was deleted and created again"):
        collect(penstock.connect("files"), ranges)
    for read in ("auto", "broker"):
        with pytest.raises(RequestError, match="files-again was deleted and created again since the read was planned"):
            collect(penstock.connect(read), ranges)


def test_a_directory_that_is_not_the_leaders_is_named(penstock: Cluster, tmp_path: Path) -> None:
    penstock.create("files-elsewhere")
    penstock.publish("files-elsewhere", 10)
    ranges = penstock.plan("files-elsewhere")
    with pytest.raises(ConfigError, match=r"penstock\.log\.dirs: .*meta\.properties cannot be read on this host"):
        collect(penstock.connect("files", log_dirs=(str(tmp_path),)), ranges)
    content = (penstock.log_dir / "meta.properties").read_text()
    (tmp_path / "meta.properties").write_text(content.replace("node.id=1", "node.id=2"))
    with pytest.raises(DirectReadError, match=r"no directory in penstock\.log\.dirs has it as its leader's"):
        collect(penstock.connect("files", log_dirs=(str(tmp_path),)), ranges)


@pytest.mark.spark
def test_a_spark_read_is_the_same_from_files(spark: SparkSession, penstock: Cluster) -> None:
    penstock.create("files-spark")
    penstock.publish("files-spark", codec="lz4")

    def rows(read: str) -> list[Any]:
        frame = (
            spark.read.format("penstock")
            .option("kafka.bootstrap.servers", penstock.bootstrap)
            .option("subscribe", "files-spark")
            .option("penstock.read", read)
            .load()
        )
        return sorted((row.offset, bytes(row.key), bytes(row.value), row.timestamp) for row in frame.collect())

    from_files = rows("files")
    assert len(from_files) == RECORDS
    assert from_files == rows("broker")


@pytest.mark.java
@pytest.mark.long
def test_kafkas_cleaner_may_run_while_files_are_read(tmp_path: Path) -> None:
    """Every pass sees the latest record of each key and no offset without a reason, whenever the cleaner swaps."""
    from interop.kafka_peer import KafkaPeer

    with KafkaPeer(tmp_path, properties={"log.cleaner.backoff.ms": 50}) as peer:
        cluster = Cluster(peer.bootstrap, peer.log_dirs[0])
        cluster.create("files-cleaned", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_ms="600000")
        sizes: set[int] = set()
        for _ in range(12):
            cluster.publish("files-cleaned", 3_000)
            ranges = cluster.plan("files-cleaned")
            end = ranges[0].end
            for _ in range(5):
                sizes.add(
                    sum(path.stat().st_size for path in closed_segments(cluster, "files-cleaned") if path.exists())
                )
                table, gaps = collect(cluster.connect("auto"), ranges)
                offsets = table.column("offset").to_pylist()
                assert sorted(offsets + [offset for offset, _ in gaps]) == list(range(end))
                assert offsets[-50:] == list(range(end - 50, end)), "the last record of every key"
        before = collect(cluster.connect("broker"), ranges)
        assert before[1], "the cleaner has run"
        assert len(sizes) > 5, "and more than once while files were read"
