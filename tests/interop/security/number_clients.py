"""Clients of two kinds that write numbers and read them in groups, and a journal of what they were told.

    journal = Journal()
    with reading(journal, access):
        with writing(journal, access) as names:
            ...                                     # whatever happens to the cluster
            journal.wait_for_more(*names)
        journal.wait_until_all_is_read()
    journal.check()

What is acknowledged is read once by each group, at its offset, whoever its members were; nothing failed.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from interop.clients.ordered_process import OrderedProcess
from interop.kafka_peer import java_source
from support.processes import TIMEOUT_S, wait_until

TOPIC = "clicks"
GROUPS = ("etl", "etl-java")
PACE_S = 0.005
BATCH = 50
ATTEMPTS, AGAIN_S = 50, 0.1
SOURCE = Path(__file__).with_name("Numbers.java")
Place = tuple[int, int]
"""Partition and offset."""


class Journal:
    """See the module's head. Used by the clients' threads.

    Attributes: `acknowledged`, the value at each place that a producer was told of; `read`, for each group the values
    read at each place, in order; `failed`, what went wrong.
    """

    def __init__(self) -> None:
        self.acknowledged: dict[Place, str] = {}
        self.told: Counter[str] = Counter()
        self.read: dict[str, list[tuple[Place, str]]] = {each: [] for each in GROUPS}
        self.failed: list[str] = []

    def acknowledge(self, value: str, place: Place) -> None:
        self.acknowledged[place] = value
        self.told[value.partition("-")[0]] += 1

    def wait_for_more(self, *writers: str, count: int = 100) -> None:
        """Until each of the writers was told of so many more records, and each group has read as many more."""
        wanted = {each: self.told[each] + count for each in writers}
        reads = {group: len(found) + count for group, found in self.read.items()}

        def more() -> bool:
            assert not self.failed, self.failed
            written = all(self.told[each] >= enough for each, enough in wanted.items())
            return written and all(len(self.read[each]) >= enough for each, enough in reads.items())

        wait_until(more, f"{writers} write and {GROUPS} read {count} more", 2 * TIMEOUT_S)

    def wait_until_all_is_read(self) -> None:
        acknowledged = set(self.acknowledged)
        wait_until(
            lambda: all(acknowledged <= {place for place, _ in found} for found in self.read.values()),
            "each group reads all that was acknowledged",
        )

    def check(self) -> None:
        """What must hold in the end."""
        assert not self.failed, self.failed
        for group, found in self.read.items():
            twice = [place for place, count in Counter(place for place, _ in found).items() if count > 1]
            assert not twice, f"{group} read twice: {twice[:5]} ({len(twice)} in all)"
            values = dict(found)
            lost = {place: value for place, value in self.acknowledged.items() if values.get(place) != value}
            assert not lost, f"acknowledged, and not what {group} read there: {list(lost.items())[:5]}"
            written = Counter(value for _, value in found if "java" in value)
            repeated = [value for value, count in written.items() if count > 1]
            assert not repeated, f"in the log twice: {repeated[:5]}"


@dataclass
class Access:
    """How clients come to the cluster: `librdkafka` and `java` are their settings."""

    librdkafka: Mapping[str, object]
    java: Mapping[str, str]
    directory: Path
    name: str

    def file(self, what: str, **more: str) -> Path:
        path = self.directory / f"{self.name}-{what}.properties"
        entries = {**self.java, **{name.replace("_", "."): text for name, text in more.items()}}
        path.write_text("".join(f"{name}={text}\n" for name, text in entries.items()))
        return path


@contextmanager
def writing(journal: Journal, access: Access) -> Iterator[tuple[str, str]]:
    """An idempotent producer by librdkafka, and one by Java; gives their names."""
    names = (f"{access.name}.librdkafka", f"{access.name}.java")
    file = access.file("producer", acks="all", enable_idempotence="true", linger_ms="2")
    with Writer(journal, access, names[0]), Java(journal, "produce", file, TOPIC, names[1]):
        yield names


@contextmanager
def reading(journal: Journal, access: Access) -> Iterator[None]:
    """A member of a classic group by librdkafka, and one of a group of KIP-848 by Java."""
    file = access.file(
        "consumer",
        group_id=GROUPS[1],
        group_protocol="consumer",
        auto_offset_reset="earliest",
        enable_auto_commit="false",
        metadata_max_age_ms="1000",
    )
    with Reader(journal, access), Java(journal, "consume", file, TOPIC):
        yield


class Java(OrderedProcess):
    """The Java client in one of its parts; see Numbers.java. It ends when its input does."""

    def __init__(self, journal: Journal, *words: object) -> None:
        super().__init__(java_source(SOURCE.read_text(), *words))
        self._journal = journal

    def __enter__(self) -> Self:
        super().__enter__()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        return self

    def _listen(self) -> None:
        for line in self.lines():
            what, *said = line.split()
            if what == "failed":
                self._journal.failed.append(line.strip())
                continue
            place = (int(said[1]), int(said[2]))
            if what == "acknowledged":
                self._journal.acknowledge(said[0], place)
            else:
                self._journal.read[GROUPS[1]].append((place, said[0]))

    def __exit__(self, *arguments: object) -> None:
        if self.process.poll() is None:
            self.give("end")
        super().__exit__(*arguments)
        if self.process.returncode != 0:
            self._journal.failed.append(f"{self.command} ended with {self.process.returncode}")

    def ended(self) -> None:
        self._listener.join(TIMEOUT_S)


class Threaded:
    """Works in a thread of its own until the end of `with`."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self._thread.join(2 * TIMEOUT_S)
        if self._thread.is_alive():
            self.journal.failed.append(f"{self} does not end")

    def _run(self) -> None:
        try:
            self.work()
        except Exception as error:
            self.journal.failed.append(repr(error))

    def work(self) -> None:
        """Until `ending` is set."""
        raise AssertionError("a client works")


class Writer(Threaded):
    """librdkafka's producer."""

    def __init__(self, journal: Journal, access: Access, name: str) -> None:
        super().__init__(journal)
        self._name = name
        settings: dict[str, Any] = {"acks": "all", "enable.idempotence": True, "linger.ms": 2, "log_level": 0}
        settings["error_cb"] = self._failed
        self._producer = Producer({**settings, **access.librdkafka})

    def _failed(self, error: KafkaError) -> None:
        """A node that restarts breaks connections, which concerns nobody while others serve."""
        if error.fatal() or error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            self.journal.failed.append(str(error))

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.journal.failed.append(f"{message.value()!r}: {error}")
            return
        value, partition, offset = message.value(), message.partition(), message.offset()
        assert value is not None
        assert partition is not None
        if offset is not None:  # else it was acknowledged by the success of a later one
            self.journal.acknowledge(value.decode(), (partition, offset))

    def work(self) -> None:
        number = 0
        while not self.ending.is_set():
            self._producer.produce(TOPIC, f"{self._name}-{number}".encode(), on_delivery=self._delivered)
            number += 1
            self._producer.poll(PACE_S)
        if self._producer.flush(TIMEOUT_S):
            self.journal.failed.append(f"{self._name}: not everything was acknowledged in time")


class Reader(Threaded):
    """librdkafka's consumer, as a member of a group. It commits what it has read before it gives anything up."""

    def __init__(self, journal: Journal, access: Access) -> None:
        super().__init__(journal)
        settings: dict[str, Any] = {
            "group.id": GROUPS[0],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 1000,
            "log_level": 0,
        }
        self._consumer = Consumer({**settings, **access.librdkafka})
        self._positions: dict[int, int] = {}

    def work(self) -> None:
        consumer = self._consumer
        consumer.subscribe([TOPIC], on_revoke=self._revoked)
        taken = 0
        try:
            while not self.ending.is_set():
                message = consumer.poll(0.1)
                if message is not None:
                    self._take(message)
                    taken += 1
                if message is None or taken >= BATCH:
                    self._commit(attempts=1)
                    taken = 0
        finally:
            self._commit(attempts=ATTEMPTS)
            consumer.close()

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if not error.retriable():
                self.journal.failed.append(str(error))
            return
        value, partition, offset = message.value(), message.partition(), message.offset()
        assert value is not None
        assert partition is not None
        assert offset is not None
        self.journal.read[GROUPS[0]].append(((partition, offset), value.decode()))
        self._positions[partition] = offset + 1

    def _revoked(self, _: Consumer, gone: list[TopicPartition]) -> None:
        self._commit(attempts=ATTEMPTS)
        for each in gone:
            self._positions.pop(each.partition, None)

    def _commit(self, attempts: int) -> None:
        """What is refused, as while a coordinator moves, is committed again, or with what is read next."""
        offsets = [TopicPartition(TOPIC, partition, offset) for partition, offset in self._positions.items()]
        for number in range(attempts if offsets else 0):
            try:
                self._consumer.commit(offsets=offsets, asynchronous=False)
                return
            except KafkaException as refused:
                if number == ATTEMPTS - 1:
                    self.journal.failed.append(f"cannot commit: {refused}")
                time.sleep(AGAIN_S if attempts > 1 else 0)
