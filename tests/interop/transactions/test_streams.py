"""Kafka Streams with exactly_once_v2: a word count that is stopped and killed, and the smoke test of Kafka's own tests.

The word count holds nothing back, so the n-th time of a word gives its count n: what is committed must have each count
of each word once and in order, whatever happened to the application meanwhile.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from interop.groups.place import Place
from interop.transactions.builds import HERE, STREAMS, java_class, java_program

pytestmark = [pytest.mark.java, pytest.mark.slow]

SOURCE = HERE / "streams" / "WordCount.java"
WORDS = ("to", "be", "or", "not", "that", "is", "the", "question")
PARTITIONS, LINES = 2, 200
TIMEOUT_S = 120.0
SMOKE_TEST = "org.apache.kafka.streams.tests.StreamsSmokeTest"
SMOKE_PARTITIONS = 5
SMOKE_TOPICS = (
    "data", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw", "sws-suppressed", "cnt", "avg",
    "tagg", "fk",
)  # fmt: skip


@contextmanager
def application(place: Place, directory: Path, number: int) -> Iterator[subprocess.Popen[str]]:
    """A running word count; killed at the end unless it has been stopped."""
    words = (place.bootstrap, directory, f"count-{number}", f"lines-{number}", f"counts-{number}")
    command = java_program(STREAMS, SOURCE, *words)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "running\n"
        yield process
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
        process.stdin.close()
        process.stdout.close()


def stop(process: subprocess.Popen[str]) -> None:
    """Lets an application end by itself."""
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(TIMEOUT_S) == 0


class Lines:
    """Writes lines bit by bit; `expected` counts the words that were written."""

    def __init__(self, place: Place, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": place.bootstrap, "linger.ms": 0})
        self._topic = topic
        self._written = 0
        self.expected: Counter[str] = Counter()

    def write(self, count: int) -> None:
        for _ in range(count):
            number = self._written
            words = [WORDS[(number * step) % len(WORDS)] for step in (1, 3, 5)]
            self._producer.produce(self._topic, " ".join(words), partition=number % PARTITIONS)
            self.expected.update(words)
            self._written += 1
        assert self._producer.flush(TIMEOUT_S) == 0


def counted(place: Place, topic: str, expected: Counter[str]) -> dict[str, list[int]]:
    """The counts of each word, as they are committed, until all that are expected are there."""
    settings = {"group.id": "unused", "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": place.bootstrap, **settings})
    consumer.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
    found: defaultdict[str, list[int]] = defaultdict(list)
    deadline_s = time.monotonic() + TIMEOUT_S
    try:
        while {word: max(counts, default=0) for word, counts in found.items()} != dict(expected):
            assert time.monotonic() < deadline_s, (
                f"expected {expected}, found { ({k: v[-3:] for k, v in found.items()}) }"
            )
            message = consumer.poll(0.5)
            if message is not None:
                assert message.error() is None, message.error()
                word, _, count = (message.value() or b"").decode().partition(" ")
                found[word].append(int(count))
        return dict(found)
    finally:
        consumer.close()


def test_a_word_count_is_exact_though_it_is_stopped_and_killed(place: Place, number: int, tmp_path: Path) -> None:
    for topic in (f"lines-{number}", f"counts-{number}"):
        place.create(topic, PARTITIONS)
    lines, output = Lines(place, f"lines-{number}"), f"counts-{number}"
    lines.write(LINES)
    with application(place, tmp_path / "one", number) as first:
        counted(place, output, lines.expected)
        lines.write(LINES)
        stop(first)
    lines.write(LINES)
    with application(place, tmp_path / "one", number):
        writing = threading.Thread(target=lambda: [lines.write(5) for _ in range(LINES // 5)])
        writing.start()
        counted(place, output, Counter())
        writing.join(TIMEOUT_S)
    # killed in the middle of transactions
    with application(place, tmp_path / "one", number), application(place, tmp_path / "two", number) as other:
        lines.write(LINES)
        other.kill()
        lines.write(LINES)
        found = counted(place, output, lines.expected)
    assert found == {word: [*range(1, count + 1)] for word, count in lines.expected.items()}


@pytest.mark.long
def test_kafkas_own_smoke_test_of_streams(place: Place, tmp_path: Path) -> None:
    """Its clients, one of which is killed, process what its driver makes; the driver verifies what they made."""
    for topic in SMOKE_TOPICS:
        place.create(topic, SMOKE_PARTITIONS)

    def start(name: str, command: str) -> subprocess.Popen[bytes]:
        config = tmp_path / f"{name}.properties"
        config.write_text(
            f"bootstrap.servers={place.bootstrap}\n"
            f"state.dir={tmp_path / name}\n"
            "processing.guarantee=exactly_once_v2\n"
            "replication.factor=1\n"
            "commit.interval.ms=100\n"
            "producer.transaction.timeout.ms=6000\n"
            "consumer.session.timeout.ms=6000\n"
        )
        words = java_class(STREAMS, SMOKE_TEST, config, command)
        with (tmp_path / f"{name}.log").open("wb") as log:
            return subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)

    def log(name: str) -> str:
        return (tmp_path / f"{name}.log").read_text(errors="replace")

    clients = [start("one", "process"), start("two", "process")]
    driver = start("driver", "run")
    try:
        deadline_s = time.monotonic() + TIMEOUT_S
        while "processed" not in log("two"):
            assert all(process.poll() is None for process in (*clients, driver)), log("two")
            assert time.monotonic() < deadline_s, log("two")
            time.sleep(0.1)
        clients[1].kill()
        clients[1].wait()
        clients[1] = start("three", "process")
        assert driver.wait(3 * TIMEOUT_S) == 0, log("driver")[-4000:]
    finally:
        for process in (*clients, driver):
            process.kill()
            process.wait()
    told = log("driver")
    assert "SUCCESS" in told, told[-4000:]
    assert "FAILED" not in told
