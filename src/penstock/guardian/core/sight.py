"""What the leader has seen of the clusters: who is there, and where every replica lies. It is not in the log: a new
leader looks for itself.

Every part has an age. What was never seen is absent, and whoever needs it says so instead of guessing. The types are
the same for Penstock and for Apache Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

METADATA, DISKS, OFFSETS, SETTINGS = "metadata", "disks", "offsets", "settings"
"""Parts of what is seen of a cluster; each is seen by itself, and has an age of its own."""


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
        brokers, topics, disks (by broker and path), replicas (by topic, partition, broker): as last seen.
        seen_ms: when each part was last seen whole, wall time in ms. failures: why a part could not be seen lately.
        departed: every broker as it was seen alive last. contacts: what is known beside the metadata of missing ones.
        suspected: what looks wrong now, by kind, broker and log directory.
    """

    kafka_id: str = ""
    controller: int = -1
    brokers: dict[int, SeenBroker] = field(default_factory=dict)
    topics: dict[str, SeenTopic] = field(default_factory=dict)
    disks: dict[tuple[int, str], SeenDisk] = field(default_factory=dict)
    replicas: dict[tuple[str, int, int], SeenReplica] = field(default_factory=dict)
    on_broker: dict[int, dict[tuple[str, int, int], SeenReplica]] = field(default_factory=dict)
    seen_ms: dict[str, int] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    departed: dict[int, SeenBroker] = field(default_factory=dict)
    contacts: dict[int, Contact] = field(default_factory=dict)
    suspected: dict[tuple[str, int, str], Suspicion] = field(default_factory=dict)

    def partition(self, topic: str, index: int) -> SeenPartition | None:
        """A partition; None for one that is not there."""
        found = self.topics.get(topic)
        return found.partitions[index] if found is not None and 0 <= index < len(found.partitions) else None


@dataclass(slots=True)
class Sight:
    """All clusters, by Guardian's id; one that has not been looked at yet is absent."""

    clusters: dict[UUID, ClusterSight] = field(default_factory=dict)
