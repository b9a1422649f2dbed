"""`penstock import`: old logs into a topic of a real broker, killed again and again, read back with librdkafka."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from e2e.cluster.history import QUIET, create_topic
from support.legacy import LZ4, SNAPPY, Kept, message_07, message_set, wrapper_07, write_log
from support.processes import PENSTOCK, TIMEOUT_S, Cluster, wait_until

from penstock.cli.import_passes import Checksum

T = 1_400_000_000_000
RECORDS = 15_000
PER_MESSAGE = 50
KILLS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("import"), 1) as one:
        yield one


def kept(magic: int) -> list[Kept]:
    return [
        Kept(n, T + n if magic else -1, b"user-%d" % (n % 100) if n % 3 else None, b"%d" % n * (n % 20))
        for n in range(RECORDS)
    ]


def written(directory: Path) -> dict[int, list[Kept]]:
    """A log directory of two partitions: one of Kafka 0.9, one of 0.10. Returns what is in them."""
    partitions = {0: kept(0), 1: kept(1)}
    for partition, (magic, codec) in enumerate([(0, SNAPPY), (1, LZ4)]):
        messages = [
            message_set("kafka-python", magic, codec, partitions[partition][n : n + PER_MESSAGE], absolute=not magic)
            for n in range(0, RECORDS, PER_MESSAGE)
        ]
        half = len(messages) // 2
        segments = [(0, b"".join(messages[:half])), (half * PER_MESSAGE, b"".join(messages[half:]))]
        write_log(directory / f"clicks-{partition}", segments)
    return partitions


def command(cluster: Cluster, *arguments: object) -> list[str]:
    return [*PENSTOCK, "import", *map(str, arguments), "--bootstrap", cluster.bootstrap]


def imported(cluster: Cluster, *arguments: object, code: int = 0) -> list[dict[str, Any]]:
    """Runs the command to its end; what it reports."""
    done = subprocess.run(
        command(cluster, *arguments, "--json"), check=False, capture_output=True, timeout=TIMEOUT_S, text=True
    )
    assert done.returncode == code, done.stderr
    report: list[dict[str, Any]] = json.loads(done.stdout)
    return report


def refused(cluster: Cluster, *arguments: object) -> str:
    done = subprocess.run(command(cluster, *arguments), check=False, capture_output=True, timeout=TIMEOUT_S, text=True)
    assert done.returncode == 2, done.stderr
    return done.stderr


def end_offset(consumer: Consumer, topic: str, partition: int) -> int:
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)[1])
    except KafkaException:  # there is no topic yet
        return 0


def read(cluster: Cluster, topic: str, partition: int) -> list[Kept]:
    """All records of a partition, by librdkafka."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False, **QUIET}
    )
    try:
        end = end_offset(consumer, topic, partition)
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[Kept] = []
        while len(found) < end:
            messages = consumer.consume(min(1000, end - len(found)), timeout=10)
            assert messages, f"{len(found)} of {end}"
            for each in messages:
                assert each.error() is None
                found.append(
                    Kept(each.offset(), each.timestamp()[1] if each.timestamp()[0] else -1, each.key(), each.value())
                )
        return found
    finally:
        consumer.close()


def has_gone_on(process: subprocess.Popen[bytes], consumer: Consumer, end: int) -> bool:
    """Whether a run has appended, or has ended because one that was killed late had appended everything."""
    return end_offset(consumer, "clicks", 1) > end or process.poll() == 0


@pytest.mark.slow
def test_an_import_that_is_killed_in_the_middle_goes_on_without_a_duplicate_or_a_gap(
    cluster: Cluster, tmp_path: Path
) -> None:
    partitions = written(tmp_path / "old")
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False, **QUIET}
    )
    ends = [0]
    for number in range(KILLS):
        process = subprocess.Popen(
            command(cluster, tmp_path / "old", "clicks"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_until(partial(has_gone_on, process, consumer, ends[-1]), "a run appends, or ends")
            if number == 1:
                kill_the_broker(cluster)
        finally:
            process.kill()
            process.wait()
        ends.append(end_offset(consumer, "clicks", 1))
    assert 0 < ends[1] < RECORDS, "the first was killed in the middle"
    report = imported(cluster, tmp_path / "old", "clicks", "--verify")
    assert report[1]["there_before"] >= ends[1]
    for partition, records in partitions.items():
        assert read(cluster, "clicks", partition) == records
        assert report[partition]["verified"]
        assert report[partition]["records"] == RECORDS
        checksum = Checksum()
        for record in records:
            checksum.add(record.timestamp_ms, record.key, record.value)
        assert report[partition]["checksum"] == checksum.text()
    consumer.close()


def kill_the_broker(cluster: Cluster) -> None:
    """The run waits until it is back, and goes on."""
    cluster.kill(1)
    cluster.start(1)
    cluster.wait_ready(1)


def test_runs_at_the_same_time_do_no_harm(cluster: Cluster, tmp_path: Path) -> None:
    partitions = written(tmp_path / "old")
    create_topic_for_imports(cluster, "twice", 2)
    runs = [
        subprocess.Popen(
            command(cluster, tmp_path / "old", "twice", "--from-topic", "clicks"), stdout=subprocess.DEVNULL
        )
        for _ in range(2)
    ]
    assert [run.wait(TIMEOUT_S) for run in runs] == [0, 0]
    for partition, records in partitions.items():
        assert read(cluster, "twice", partition) == records


def create_topic_for_imports(cluster: Cluster, topic: str, partitions: int) -> None:
    subprocess.run(
        [*PENSTOCK, "topics", "create", topic, "--partitions", str(partitions), "--config", "retention.ms=-1",
         "--bootstrap", cluster.bootstrap],
        check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S,
    )  # fmt: skip


def test_a_log_of_kafka_07_with_damage_and_its_map_of_offsets(cluster: Cluster, tmp_path: Path) -> None:
    parts = [message_07(b"one", magic=0), wrapper_07([b"two", b"three"]), message_07(b"lost"), message_07(b"four")]
    at = [5000]
    for part in parts:
        at.append(at[-1] + len(part))
    data = bytearray(b"".join(parts))
    data[at[3] - 1 - at[0]] ^= 1
    log = write_log(tmp_path / "old" / "mails-1", [(5000, bytes(data) + b"\0\0")], ".kafka")
    offsets = tmp_path / "offsets.csv"
    report = imported(cluster, log, "mails", "--offset-map", offsets, code=1)
    assert [(record.offset, record.value) for record in read(cluster, "mails", 1)] == [
        (0, b"one"),
        (1, b"two"),
        (2, b"three"),
        (3, b"four"),
    ]
    assert (report[0]["kafka"], report[0]["damaged"], report[0]["cut_off_bytes"]) == ("0.7", 1, 2)
    rows = list(csv.DictReader(offsets.read_text().splitlines()))
    assert [[int(row[name]) for name in ("old_offset", "new_offset", "records")] for row in rows] == [
        [at[0], 0, 1],
        [at[1], 1, 2],
        [at[2], 3, 0],
        [at[3], 3, 1],
        [at[4], 4, 0],
    ]
    assert {row["topic"] for row in rows} == {"mails"}
    assert {row["partition"] for row in rows} == {"1"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["offsets.csv", "old"]


def test_topics_in_which_records_would_not_stay_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    write_log(tmp_path / "old" / "few-0", [(0, message_set("aiokafka", 1, 0, kept(1)[:1]))])
    create_topic(cluster.bootstrap, "short", 1, 1)
    said = refused(cluster, tmp_path / "old", "short", "--from-topic", "few")
    assert "retention.ms=604800000" in said
    assert "penstock configs alter --name short --add retention.ms=-1" in said
    imported(cluster, tmp_path / "old", "short", "--from-topic", "few", "--allow-retention")
    for name, config in [("compacted", "cleanup.policy=compact"), ("stamped", "message.timestamp.type=LogAppendTime")]:
        subprocess.run(
            [*PENSTOCK, "topics", "create", name, "--config", config, "--config", "retention.ms=-1",
             "--bootstrap", cluster.bootstrap],
            check=True, capture_output=True, timeout=TIMEOUT_S,
        )  # fmt: skip
    assert "is compacted" in refused(cluster, tmp_path / "old", "compacted", "--from-topic", "few")
    assert "times would not be kept" in refused(cluster, tmp_path / "old", "stamped", "--from-topic", "few")
    write_log(tmp_path / "old" / "few-3", [(0, message_set("aiokafka", 1, 0, kept(1)[:1]))])
    assert "penstock topics alter short --partitions 4" in refused(
        cluster, tmp_path / "old", "short", "--from-topic", "few", "--allow-retention"
    )
