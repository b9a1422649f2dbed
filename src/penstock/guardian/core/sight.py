"""What the leader has seen of the clusters: who is there, and where every replica lies. It is not in the log: a new
leader looks for itself.

Every part has an age. What was never seen is absent, and whoever needs it says so instead of guessing. The types are
the same for Penstock and for Apache Kafka.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from uuid import UUID

from penstock.guardian.core.limits import GUARDIAN_CANARY_LATENCIES_MAX
from penstock.guardian.core.windows import Windows

Place = tuple[str, int, int]
"""Topic, partition and broker of a replica."""
METADATA, REASSIGNMENTS, DISKS, OFFSETS, SETTINGS = "metadata", "reassignments", "disks", "offsets", "settings"
"""Parts of what is seen of a cluster; each is seen by itself, and has an age of its own."""
CANARY_TOPIC = "__penstock_guardian_canary"
"""The topic by which the leader measures each broker."""
IDENTITY = "identity"
"""The part whose failure says that this is another cluster than it was, or one that is registered twice."""
HIDDEN = "one that is not yours to see"
"""Instead of the name of a cluster, to whoever may not see it."""


def registered_twice(name: str) -> str:
    """How that failure names the other registration."""
    return f"which is registered as {name} already"


def of_broker(part: str, broker: int) -> str:
    """The part of what is seen that one broker tells: its disks have an age of their own."""
    return f"{part} of broker {broker}"


@dataclass(frozen=True, slots=True)
class SeenBroker:
    """A broker that its cluster counts among the living. `rack` is None where none is set."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class SeenDisk:
    """A log directory. `capacity_bytes` and `usable_bytes` are -1 where the broker does not tell; `error` is its
    error code, 0 for a directory that is in use.
    """

    broker: int
    path: str
    capacity_bytes: int = -1
    usable_bytes: int = -1
    error: int = 0


@dataclass(frozen=True, slots=True)
class SeenReplica:
    """A replica as its broker describes it: where it lies, how large it is, how far it is behind; and how much of it
    has been copied to another directory of the broker (`future_path`), if it moves there.
    """

    path: str
    size_bytes: int
    lag: int = 0
    future_path: str | None = None
    future_size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SeenPartition:
    """A partition as the cluster's metadata has it. `leader` is -1 for none; `adding` and `removing` are of a
    reassignment under way, where one was asked for.
    """

    topic: str
    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Contact:
    """What another vantage point says of a broker that its cluster misses: when (wall time, ms), whether it is alive
    (None: that cannot be told), and how that was found out, in a sentence.
    """

    wall_ms: int
    alive: bool | None
    said: str


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Something that looks wrong as it was seen last: since when in a row (wall time, ms), and what shows it."""

    since_ms: int
    evidence: tuple[str, ...]


@dataclass(slots=True)
class SeenCanary:
    """How a broker's canary did (`guardian.core.canary`).

    Attributes: `latencies_ms`, from a write to its being read, the newest last. `read_ms`, `failed_ms`: when it last
    succeeded or failed, wall time in ms, -1 for never; `failure`, why it failed then. `failures`: how often it has.
    """

    latencies_ms: deque[int] = field(default_factory=lambda: deque(maxlen=GUARDIAN_CANARY_LATENCIES_MAX))
    read_ms: int = -1
    failed_ms: int = -1
    failure: str = ""
    failures: int = 0

    def succeeded(self, wall_ms: int, latency_ms: int) -> None:
        """The broker gave back what was written."""
        self.read_ms = wall_ms
        self.latencies_ms.append(latency_ms)

    def failed(self, wall_ms: int, why: str) -> None:
        """The broker did not."""
        self.failed_ms, self.failure = wall_ms, why
        self.failures += 1

    def quantile_ms(self, share: float) -> int | None:
        """The latency below which this share of the last ones lie, or just at it; None if there are none."""
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


@dataclass(slots=True)
class SeenTopic:
    """A topic. `min_insync_replicas` is None until its settings have been seen."""

    name: str
    id: UUID
    partitions: tuple[SeenPartition, ...]
    internal: bool = False
    min_insync_replicas: int | None = None


@dataclass(slots=True)
class ClusterSight:
    """One cluster.

    Attributes:
        kafka_id: the cluster's own id, "" until it is known. controller: the broker to which changes of the cluster are
            sent; -1 for none.
        brokers, topics, disks (by broker and path), replicas (by topic, partition, broker): as last seen. on_broker:
            the replicas by broker. windows: what is written to each partition, of those that have been seen twice.
        seen_ms: when each part was last seen whole, wall time in ms; what brokers tell by broker (`of_broker`), too.
            That of SETTINGS is when the oldest of them was asked for.
        failures: why a part could not be seen lately, or what in it is not believed and thus absent.
        departed: every broker as it was seen alive last. contacts: what is known beside the metadata of missing ones.
        suspected: what looks wrong now, by kind, broker and log directory.
        turn: counts what any of its brokers was asked, so that the next one is asked by another.
        silent: addresses that did not answer when any broker was asked, and until when (this node's clock, ms) others
            are preferred to them.
        canaries: by broker. canary_problem: why there is no topic for them.
    """

    kafka_id: str = ""
    controller: int = -1
    brokers: dict[int, SeenBroker] = field(default_factory=dict)
    topics: dict[str, SeenTopic] = field(default_factory=dict)
    disks: dict[tuple[int, str], SeenDisk] = field(default_factory=dict)
    replicas: dict[Place, SeenReplica] = field(default_factory=dict)
    on_broker: dict[int, dict[Place, SeenReplica]] = field(default_factory=dict)
    windows: dict[tuple[str, int], Windows] = field(default_factory=dict)
    seen_ms: dict[str, int] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    departed: dict[int, SeenBroker] = field(default_factory=dict)
    contacts: dict[int, Contact] = field(default_factory=dict)
    suspected: dict[tuple[str, int, str], Suspicion] = field(default_factory=dict)
    turn: int = 0
    silent: dict[tuple[str, int], int] = field(default_factory=dict)
    canaries: dict[int, SeenCanary] = field(default_factory=dict)
    canary_problem: str | None = None

    @property
    def twice(self) -> bool:
        """Whether it is registered twice, or is another cluster than it was: nothing may be done to it then."""
        return IDENTITY in self.failures

    def without_names(self, names: Iterable[str]) -> ClusterSight:
        """The same, for one to whom clusters of these names are hidden: the failure does not name them."""
        told = self.failures.get(IDENTITY, "")
        for name in names:
            if (said := registered_twice(name)) in told:
                return replace(self, failures={**self.failures, IDENTITY: told.replace(said, registered_twice(HIDDEN))})
        return self

    def partition(self, topic: str, index: int) -> SeenPartition | None:
        """A partition; None for one that is not there."""
        found = self.topics.get(topic)
        return found.partitions[index] if found is not None and 0 <= index < len(found.partitions) else None

    def take_broker(self, broker: int, disks: dict[str, SeenDisk], replicas: dict[Place, SeenReplica]) -> None:
        """All disks of a broker, by path, and all replicas on them, as it has just told."""
        for key in [each for each in self.disks if each[0] == broker and each[1] not in disks]:
            del self.disks[key]
        for disk in disks.values():
            self.disks[broker, disk.path] = disk
        before = self.on_broker.get(broker, {})
        for place in before:
            if place not in replicas:
                del self.replicas[place]
        for place, replica in replicas.items():
            if before.get(place) is not replica:
                self.replicas[place] = replica
        self.on_broker[broker] = replicas

    def led_by(self, broker: int) -> list[tuple[str, int]]:
        """The partitions that a broker leads, of those of which it has told."""
        found, topics = [], self.topics
        for topic, index, _ in self.on_broker.get(broker, ()):
            seen = topics.get(topic)
            if seen is not None and index < len(seen.partitions) and seen.partitions[index].leader == broker:
                found.append((topic, index))
        return found

    def saw_sizes(self, broker: int, now_ms: int) -> None:
        """The sizes of a broker's replicas have been taken: those that lead say what is written."""
        replicas, known = self.on_broker[broker], self.windows
        for place in self.led_by(broker):
            windows = known.get(place)
            if windows is None:
                windows = known[place] = Windows()
            windows.saw_size(broker, replicas[*place, broker].size_bytes, now_ms)

    def saw_end(self, place: tuple[str, int], broker: int, offset: int) -> None:
        """The end offset of a partition, by its leader."""
        windows = self.windows.get(place)
        if windows is not None:
            windows.saw_end(broker, offset)

    def forget_windows(self) -> None:
        """Forgets what was written to partitions that are gone."""
        if len(self.windows) > sum(len(topic.partitions) for topic in self.topics.values()):
            for topic, index in [each for each in self.windows if self.partition(*each) is None]:
                del self.windows[topic, index]

    def forget_broker(self, broker: int) -> None:
        """Nothing is known of what lies on a broker any more."""
        self.take_broker(broker, {}, {})
        del self.on_broker[broker]
        for part in (DISKS, OFFSETS):
            self.seen_ms.pop(of_broker(part, broker), None)

    def forget(self) -> None:
        """Nothing is known of the cluster but its id."""
        self.controller = -1
        kept = (self.topics, self.disks, self.replicas, self.on_broker, self.windows, self.seen_ms, self.failures)
        for part in kept:
            part.clear()
        self.departed.clear()
        self.contacts.clear()
        self.canaries.clear()
        self.brokers, self.suspected = {}, {}


@dataclass(slots=True)
class Sight:
    """All clusters, by Guardian's id; one that has not been looked at yet is absent."""

    clusters: dict[UUID, ClusterSight] = field(default_factory=dict)
