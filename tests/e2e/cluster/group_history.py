"""Groups of librdkafka members that process and commit, write down what they do, and checks of what was written down.

    with Writer(bootstrap, "t"), Members(bootstrap, "t", "g", "consumer", count=3) as members:
        members.wait_until_shared()
        ...
        members.wait_for_more()
    members.check()

A member owns a partition from the moment that its assignment is told until its revocation is dealt with. It commits
what it has processed before it takes more, and before it gives a partition up.

A member may hang for ever in `assign` or `unassign`, and then holds the GIL: confluent-kafka-python keeps it while
librdkafka's main thread answers (confluent-kafka-python#1023), and that thread can be in a deadlock with the thread of
a broker that has just left the metadata, as when a cluster restarts (librdkafka#5476, open as of 2.16). No other call
avoids it. `support/limits.py` ends the process then, and the test has failed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from support.processes import TIMEOUT_S, wait_until

from penstock.client import groups
from penstock.client.client import Client
from penstock.client.coordinators import coordinator

BATCH = 20
CLASSIC_ASSIGNORS = {"range": "range", "cooperative": "cooperative-sticky"}
"""The classic protocol, by the assignor; every other protocol is "consumer"."""
SETTINGS = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "log_level": 0,
    "reconnect.backoff.max.ms": 200,
    "socket.timeout.ms": 4000,  # a member asks others about a broker that is frozen before its session ends
    "topic.metadata.refresh.interval.ms": 1000,
}


@dataclass(frozen=True)
class Processed:
    """A member has processed a record."""

    member: str
    partition: int
    offset: int
    at_s: float


@dataclass
class Owned:
    """A member had a partition from then to then (None: to the end); `lost`: it was not asked to give it up."""

    member: str
    partition: int
    from_s: float
    committed: int
    to_s: float | None = None
    lost: bool = False


class History:
    """What all members of a group did, in order. Used by their threads."""

    def __init__(self) -> None:
        self.processed: list[Processed] = []
        self.owned: list[Owned] = []
        self.committed: dict[int, int] = {}
        self.refused: list[str] = []
        self._lock = threading.Lock()

    def assign(self, member: str, partitions: Sequence[int]) -> None:
        with self._lock:
            now_s = time.monotonic()
            self.owned += [Owned(member, each, now_s, self.committed.get(each, 0)) for each in partitions]

    def revoke(self, member: str, partitions: Sequence[int], *, lost: bool = False) -> None:
        with self._lock:
            for each in self.owned:
                if each.member == member and each.to_s is None and each.partition in partitions:
                    each.to_s, each.lost = time.monotonic(), lost

    def process(self, member: str, partition: int, offset: int) -> None:
        with self._lock:
            self.processed.append(Processed(member, partition, offset, time.monotonic()))

    def commit(self, positions: Mapping[int, int]) -> None:
        """The coordinator has acknowledged these."""
        with self._lock:
            for partition, offset in positions.items():
                self.committed[partition] = max(offset, self.committed.get(partition, 0))

    def owners(self) -> dict[int, list[str]]:
        """Who has each partition now."""
        with self._lock:
            found: dict[int, list[str]] = {}
            for each in self.owned:
                if each.to_s is None:
                    found.setdefault(each.partition, []).append(each.member)
            return found

    def longest_silence_s(self, since_s: float) -> float:
        """The longest time from then to now in which nothing of some partition was processed."""
        with self._lock:
            times: dict[int, list[float]] = {each.partition: [since_s] for each in self.processed}
            for each in self.processed:
                if each.at_s > since_s:
                    times[each.partition].append(each.at_s)
        now_s = time.monotonic()
        return max(after - before for at in times.values() for before, after in zip(at, [*at[1:], now_s], strict=True))

    # What must hold

    def check(self) -> None:
        """Nobody shares, nothing is left out, what is committed is not read again."""
        check_owners(self.owned)
        check_records(self.owned, self.processed)


def check_owners(owned: Sequence[Owned]) -> None:
    """No partition has two owners at any time, and none was torn from its owner."""
    assert not [each for each in owned if each.lost], "a member has lost what it had"
    by_partition: dict[int, list[Owned]] = {}
    for each in sorted(owned, key=lambda each: each.from_s):
        by_partition.setdefault(each.partition, []).append(each)
    for turns in by_partition.values():
        for before, after in pairwise(turns):
            assert before.to_s is not None, f"{before} still has it, and then {after}"
            assert before.to_s <= after.from_s, f"two owners: {before} and {after}"


def check_records(owned: Sequence[Owned], processed: Sequence[Processed]) -> None:
    """Every owner begins with what was committed before at the latest, and leaves nothing out."""
    next_offset: dict[int, int] = {}
    turns = {id(each): [] for each in owned}  # type: ignore[var-annotated]
    for record in processed:
        owner = next(
            (
                each
                for each in reversed(owned)
                if (each.member, each.partition) == (record.member, record.partition)
                and each.from_s <= record.at_s
                and (each.to_s is None or record.at_s <= each.to_s)
            ),
            None,
        )
        assert owner is not None, f"processed by one who does not own it: {record}"
        mine = turns[id(owner)]
        expected = next_offset.get(record.partition, 0)
        if mine:
            assert record.offset == mine[-1] + 1, f"{record} comes after offset {mine[-1]}"
        else:
            assert record.offset >= owner.committed, f"{record} was committed before: {owner}"
            assert record.offset <= expected, f"{record} leaves out {expected}"
        mine.append(record.offset)
        next_offset[record.partition] = max(expected, record.offset + 1)


class Member:
    """One member in a thread of its own, from `start` on."""

    def __init__(self, history: History, name: str, *, bootstrap: str, topic: str, group: str, protocol: str) -> None:
        self.history = history
        self.name = name
        self._topic = topic
        self._eager = protocol == "range"
        self._positions: dict[int, int] = {}
        self._stop = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name)
        kind: dict[str, Any] = {"group.protocol": "consumer"}
        if protocol in CLASSIC_ASSIGNORS:
            kind = {"group.protocol": "classic", "partition.assignment.strategy": CLASSIC_ASSIGNORS[protocol]}
            kind |= {"heartbeat.interval.ms": 500, "session.timeout.ms": 20_000}
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "client.id": name, **SETTINGS, **kind}
        )

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Will leave the group soon."""
        self._stop.set()

    def leave(self) -> None:
        """Leaves the group and waits until it has."""
        self.end()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), f"{self.name} does not end"
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        try:
            self._consumer.subscribe(
                [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )
            while not self._stop.is_set():
                messages = self._consumer.consume(BATCH, 0.1)
                self._process([each for each in messages if each.error() is None])
            self._consumer.close()
        except BaseException as error:
            self._failed = error

    def _process(self, messages: Sequence[Message]) -> None:
        for message in messages:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            self.history.process(self.name, partition, offset)
            self._positions[partition] = offset + 1
        if messages:
            self._commit(self._positions)

    def _commit(self, positions: Mapping[int, int]) -> None:
        """Commits and waits. What is refused is committed again with the next records, or read again by others."""
        if not positions:
            return
        offsets = [TopicPartition(self._topic, partition, offset) for partition, offset in positions.items()]
        try:
            answers = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            self.history.refused.append(str(error))
            return
        self.history.commit({each.partition: each.offset for each in answers or () if each.error is None})

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.history.assign(self.name, [each.partition for each in partitions])
        if self._eager:
            consumer.assign(partitions)
        else:
            consumer.incremental_assign(partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition], *, lost: bool = False) -> None:
        gone = [each.partition for each in partitions]
        positions = {each: self._positions.pop(each) for each in gone if each in self._positions}
        if not lost:
            self._commit(positions)
        self.history.revoke(self.name, gone, lost=lost)
        if self._eager:
            consumer.unassign()
        else:
            consumer.incremental_unassign(partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._revoked(consumer, partitions, lost=True)


class Members:
    """A group of such members; a context manager. `protocol` is "range", "cooperative" or "consumer"."""

    def __init__(
        self, bootstrap: str, topic: str, group: str, protocol: str, *, count: int = 3, partitions: int = 6
    ) -> None:
        self.history = History()
        self.group = group
        self._bootstrap = bootstrap
        self._topic = topic
        self._protocol = protocol
        self._partitions = partitions
        self._numbers = 0
        self._members: list[Member] = []
        for _ in range(count):
            self.join()

    def join(self) -> None:
        """One more member."""
        name = f"{self.group}-{self._numbers}"
        self._numbers += 1
        member = Member(
            self.history,
            name,
            bootstrap=self._bootstrap,
            topic=self._topic,
            group=self.group,
            protocol=self._protocol,
        )
        self._members.append(member)
        member.start()

    def leave(self) -> None:
        """The oldest member leaves."""
        self._members.pop(0).leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members:
            member.end()
        for member in self._members:
            member.leave()

    def wait_until_shared(self) -> None:
        """Until every partition has an owner, and every member something."""

        def shared() -> bool:
            owners = self.history.owners()
            names = {name for each in owners.values() for name in each}
            return len(owners) == self._partitions and len(names) == len(self._members)

        wait_until(shared, f"every partition has an owner in {self.group}")

    def wait_for_more(self, count: int = 20) -> None:
        """Until so many more records of every partition are processed and committed."""
        wanted = {each: self.history.committed.get(each, 0) + count for each in range(self._partitions)}
        wait_until(
            lambda: all(self.history.committed.get(each, 0) >= offset for each, offset in wanted.items()),
            f"{count} more records of every partition processed and committed by {self.group}",
        )

    def check(self) -> None:
        """What must hold of the history, and that the coordinator still has what it acknowledged."""
        self.history.check()
        there = committed_offsets(self._bootstrap, self.group)
        for partition, offset in self.history.committed.items():
            found = there.get((self._topic, partition), -1)
            assert found >= offset, f"{offset} of partition {partition} was acknowledged, and {found} is there"


def committed_offsets(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """What a group has committed."""

    async def ask() -> dict[tuple[str, int], int]:
        async with Client(bootstrap) as client:
            return {place: each.offset for place, each in (await groups.committed(client, group)).items()}

    return asyncio.run(ask())


def coordinator_of(bootstrap: str, group: str) -> int:
    """The node that coordinates a group."""

    async def ask() -> int:
        async with Client(bootstrap) as client:
            return await coordinator(client, group)

    return asyncio.run(ask())
