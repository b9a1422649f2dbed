"""Canaries: how long each broker takes from a write to its being read, measured by a record every few seconds.

A duty of the leader. The record is produced to a partition that only this broker has (`canary_topic`), and fetched from
there; the time is that from sending the one to having the other. It says what a client of that broker feels, on both
kinds of cluster and without telemetry. A broker has one measurement under way at most.

A canary writes to a cluster, so there is one only where Guardian may do more than observe: where `heal` has another
mode, or where `penstock.guardian.canary` says `always`. One that fails is a witness when a broker is missing
(`alarms.dead_brokers`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from penstock.errors import PenstockError
from penstock.guardian.core.alarms.finding import fresh
from penstock.guardian.core.believing import error_name
from penstock.guardian.core.canary_topic import lacking, partitions_of
from penstock.guardian.core.reach import CONTROLLER, Reach
from penstock.guardian.core.sight import CANARY_TOPIC, METADATA, ClusterSight, SeenCanary, SeenPartition, Sight
from penstock.guardian.core.state import OBSERVE, Cluster, GuardianState
from penstock.guardian.core.work.plans import HEAL
from penstock.protocol.message import Message
from penstock.protocol.messages.create_partitions_response import CreatePartitionsResponse
from penstock.protocol.messages.create_topics_response import CreateTopicsResponse
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.fetch_response import FetchResponse
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.messages.produce_response import ProduceResponse
from penstock.records.batch import read_header
from penstock.records.builder import BatchBuilder
from penstock.records.wall import WallTime

BY_MODE, ALWAYS, NEVER = CHOICES = ("by-mode", "always", "never")
"""Where there are canaries: where `heal` has another mode than observe, in each cluster, or nowhere."""
CHANNEL = "canary"
LOOK_EVERY_MS = 1_000
TIMEOUT_MS = 5_000
TOPIC_EVERY_MS = 30_000
"""How often the topic is asked for at most: what was made shows in the metadata a little later."""
FETCH_WAIT_MS = 500
FETCH_BYTES = 64 * 1024
VALUE = b"canary"


class Quorum(Protocol):
    """What the duty uses of Guardian's quorum."""

    @property
    def leads(self) -> bool: ...

    @property
    def state(self) -> GuardianState: ...

    def may_act(self, now_ms: int) -> bool: ...


@dataclass(slots=True)
class Perch:
    """The canaries of one cluster. Attributes: `due_ms`, of each broker; `under_way`: brokers that are measured now."""

    seen: ClusterSight
    topic_asked_ms: int | None = None
    due_ms: dict[int, int] = field(default_factory=dict)
    under_way: dict[int, None] = field(default_factory=dict)


class Canary:
    """See the module's head. `where`: one of CHOICES. `every_ms`: between two measurements of a broker."""

    def __init__(
        self, quorum: Callable[[], Quorum], sight: Sight, reach: Reach, wall: WallTime, *, where: str, every_ms: int
    ) -> None:
        self._quorum = quorum
        self._sight = sight
        self._reach = reach
        self._wall = wall
        self._where = where
        self._every_ms = every_ms
        self._perches: dict[UUID, Perch] = {}
        self._due_ms = 0

    def tick(self, now_ms: int) -> None:
        """Begins the measurements that are due."""
        quorum = self._quorum()
        if not quorum.leads:
            self._perches.clear()
            return
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + LOOK_EVERY_MS
        clusters = quorum.state.clusters
        for cluster_id in [each for each in self._perches if each not in clusters]:
            del self._perches[cluster_id]
        if quorum.may_act(now_ms):
            for cluster in clusters.values():
                seen = self._sight.clusters.get(cluster.id)
                if seen is not None and self._allowed(cluster):
                    self._look(cluster, seen, now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` must be called."""
        if not self._quorum().leads:
            return 0 if self._perches else None
        return self._due_ms if self._sight.clusters and self._where != NEVER else None

    def _allowed(self, cluster: Cluster) -> bool:
        return self._where == ALWAYS or (self._where == BY_MODE and cluster.mode(HEAL) != OBSERVE)

    def _look(self, cluster: Cluster, seen: ClusterSight, now_ms: int) -> None:
        """Begins what is due in one cluster."""
        perch = self._perches.get(cluster.id)
        if perch is None or perch.seen is not seen:
            perch = self._perches[cluster.id] = Perch(seen)
        if seen.twice or METADATA in seen.failures or not fresh(seen.seen_ms.get(METADATA), self._wall.at(now_ms)):
            return
        self._make_topic(cluster, perch, now_ms)
        topic, partitions = partitions_of(seen)
        for known in (perch.due_ms, seen.canaries):
            for broker in [each for each in known if each not in seen.brokers and each not in seen.contacts]:
                del known[broker]
        for broker, each in partitions.items():
            if topic is not None and broker not in perch.under_way and now_ms >= perch.due_ms.get(broker, 0):
                perch.due_ms[broker] = now_ms + self._every_ms
                perch.under_way[broker] = None
                Measurement(self, cluster, perch, topic.id, each).begin(now_ms)

    def _make_topic(self, cluster: Cluster, perch: Perch, now_ms: int) -> None:
        asked_ms = perch.topic_asked_ms
        if asked_ms is not None and now_ms - asked_ms < TOPIC_EVERY_MS:
            return
        request = lacking(perch.seen)
        if request is not None:
            perch.topic_asked_ms = now_ms
            done = partial(self._made_topic, perch)
            self._reach.ask(cluster, CONTROLLER, request, done, now_ms, channel=CHANNEL)

    def _made_topic(self, perch: Perch, answer: Message | None, reason: str | None, now_ms: int) -> None:
        results: list[Any] = []
        if isinstance(answer, CreateTopicsResponse):
            results = answer.topics
        elif isinstance(answer, CreatePartitionsResponse):
            results = answer.results
        problem = next((error_name(each.error_code) for each in results if each.error_code), None)
        perch.seen.canary_problem = None if results and problem is None else f"its topic: {problem or reason}"

    def ask(self, cluster: Cluster, broker: int, request: Message, ended: Callable[..., None], now_ms: int) -> None:
        """Asks a broker."""
        self._reach.ask(cluster, broker, request, ended, now_ms, timeout_ms=TIMEOUT_MS, channel=CHANNEL)

    def wall_ms(self, now_ms: int) -> int:
        """The wall time."""
        return self._wall.at(now_ms)


class Measurement:
    """One record, from its being sent to its being read."""

    def __init__(self, canary: Canary, cluster: Cluster, perch: Perch, topic_id: UUID, placed: SeenPartition) -> None:
        self._canary = canary
        self._cluster = cluster
        self._perch = perch
        self._topic_id = topic_id
        self._index = placed.index
        self._broker = placed.leader
        self._began_ms = 0
        self._offset = -1

    def begin(self, now_ms: int) -> None:
        """Writes the record."""
        self._began_ms = now_ms
        batch = BatchBuilder()
        batch.append(self._canary.wall_ms(now_ms), None, VALUE)
        data = PartitionProduceData(index=self._index, records=bytes(batch.build()))
        topic = TopicProduceData(name=CANARY_TOPIC, topic_id=self._topic_id, partition_data=[data])
        request = ProduceRequest(acks=1, timeout_ms=TIMEOUT_MS, topic_data=[topic])
        self._canary.ask(self._cluster, self._broker, request, self._written, now_ms)

    def _written(self, answer: Message | None, reason: str | None, now_ms: int) -> None:
        if not isinstance(answer, ProduceResponse):
            self._failed(f"its write: {reason}", now_ms)
            return
        got = next((each for topic in answer.responses for each in topic.partition_responses), None)
        if got is None or got.error_code:
            self._failed(f"its write: {error_name(got.error_code) if got is not None else 'no result'}", now_ms)
            return
        self._offset = got.base_offset
        self._read(now_ms)

    def _read(self, now_ms: int) -> None:
        wanted = FetchPartition(partition=self._index, fetch_offset=self._offset, partition_max_bytes=FETCH_BYTES)
        topic = FetchTopic(topic=CANARY_TOPIC, topic_id=self._topic_id, partitions=[wanted])
        request = FetchRequest(max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES, topics=[topic])
        self._canary.ask(self._cluster, self._broker, request, self._came, now_ms)

    def _came(self, answer: Message | None, reason: str | None, now_ms: int) -> None:
        if not isinstance(answer, FetchResponse):
            self._failed(f"its read: {reason}", now_ms)
            return
        got = next((each for topic in answer.responses for each in topic.partitions), None)
        code = answer.error_code or (got.error_code if got is not None else 0)
        if code:
            self._failed(f"its read: {error_name(code)}", now_ms)
        elif got is not None and has_record(got.records, self._offset):
            self._over()
            self._seen.succeeded(self._canary.wall_ms(now_ms), now_ms - self._began_ms)
        elif now_ms - self._began_ms < TIMEOUT_MS:
            self._read(now_ms)
        else:
            self._failed(f"its read: the record was not there within {TIMEOUT_MS} ms", now_ms)

    @property
    def _seen(self) -> SeenCanary:
        return self._perch.seen.canaries.setdefault(self._broker, SeenCanary())

    def _failed(self, why: str, now_ms: int) -> None:
        self._over()
        self._seen.failed(self._canary.wall_ms(now_ms), why)

    def _over(self) -> None:
        self._perch.under_way.pop(self._broker, None)


def has_record(records: Any, offset: int) -> bool:
    """Whether the batches of an answer begin with one that holds an offset."""
    if not records:
        return False
    try:
        return read_header(records).last_offset >= offset
    except (PenstockError, ValueError, IndexError):
        return False
