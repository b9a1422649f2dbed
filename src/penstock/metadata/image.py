"""The cluster's metadata at one offset of the metadata log: what brokers serve, and what the controller decides upon.

An image never changes. `metadata.delta.MetadataDelta` replays records on top of one and makes the next, which shares
with it all that stayed the same: topics live in persistent maps, and the partitions of a topic are a tuple of slotted
registrations. So a broker hands the current image to whoever asks, and comparing before and after costs what changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from penstock.metadata.client_quotas import ClientQuotas
from penstock.metadata.delegation_tokens import DelegationTokens
from penstock.metadata.persistent import PersistentMap
from penstock.metadata.scram import Credentials
from penstock.protocol.acls import Acl, AclFilter, PatternType, ResourceType

if TYPE_CHECKING:
    from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord

NO_LEADER = -1
"""Leader of a partition that has none."""
NO_LEADER_CHANGE = -2
"""Leader of a PartitionChangeRecord that leaves the leader as it is."""

Configs = Mapping[str, str]
"""The overrides of one resource: property name to text."""

EMPTY: Mapping[Any, Any] = {}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a listener can be reached. `security_protocol` is Kafka's id: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3
    SASL_SSL."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker as it registered. `features` maps a feature's name to the least and the greatest level it supports."""

    id: int
    epoch: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()
    cordoned_log_dirs: tuple[UUID, ...] = ()

    @property
    def active(self) -> bool:
        """Whether the broker may lead partitions: neither fenced nor shutting down."""
        return not self.fenced and not self.in_controlled_shutdown

    def endpoint(self, listener: str) -> Endpoint | None:
        for endpoint in self.endpoints:
            if endpoint.name == listener:
                return endpoint
        return None


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """A controller as it registered (KIP-919)."""

    id: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]


class PartitionRegistration:
    """The state of one partition: replicas, leader and epochs. Never changed once made."""

    __slots__ = (
        "adding_replicas", "directories", "elr", "isr", "last_known_elr", "leader", "leader_epoch",
        "leader_recovery_state", "partition_epoch", "removing_replicas", "replicas",
    )  # fmt: skip

    def __init__(
        self,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        leader: int,
        *,
        directories: tuple[UUID, ...] = (),
        removing_replicas: tuple[int, ...] = (),
        adding_replicas: tuple[int, ...] = (),
        elr: tuple[int, ...] = (),
        last_known_elr: tuple[int, ...] = (),
        leader_recovery_state: int = 0,
        leader_epoch: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        """`directories[i]` is the log directory of `replicas[i]`; `leader` is NO_LEADER when nobody leads;
        `leader_recovery_state` is 0 for recovered, 1 for recovering after an unclean election."""
        assert replicas, "a partition has replicas"
        self.replicas = replicas
        self.isr = replicas if isr == replicas else isr
        self.leader = leader
        self.directories = directories
        self.removing_replicas = removing_replicas
        self.adding_replicas = adding_replicas
        self.elr = elr
        self.last_known_elr = last_known_elr
        self.leader_recovery_state = leader_recovery_state
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch

    def with_(self, **changes: Any) -> PartitionRegistration:
        """A copy with some fields changed."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields.update(changes)
        return PartitionRegistration(**fields)

    def changed_by(self, record: PartitionChangeRecord) -> PartitionRegistration:
        """This partition after a change: each is a new partition epoch, one of the leader a new leader epoch."""
        leads_on = record.leader == NO_LEADER_CHANGE
        recovery = record.leader_recovery_state
        return PartitionRegistration(
            self.replicas if record.replicas is None else tuple(record.replicas),
            self.isr if record.isr is None else tuple(record.isr),
            self.leader if leads_on else record.leader,
            directories=self.directories if record.directories is None else tuple(record.directories),
            removing_replicas=(
                self.removing_replicas if record.removing_replicas is None else tuple(record.removing_replicas)
            ),
            adding_replicas=self.adding_replicas if record.adding_replicas is None else tuple(record.adding_replicas),
            elr=self.elr if record.eligible_leader_replicas is None else tuple(record.eligible_leader_replicas),
            last_known_elr=self.last_known_elr if record.last_known_elr is None else tuple(record.last_known_elr),
            leader_recovery_state=self.leader_recovery_state if recovery == -1 else recovery,
            leader_epoch=self.leader_epoch if leads_on else self.leader_epoch + 1,
            partition_epoch=self.partition_epoch + 1,
        )

    def directory(self, broker_id: int) -> UUID | None:
        """The log directory that a broker keeps its replica in, or None if it has no replica or none is assigned."""
        if not self.directories or broker_id not in self.replicas:
            return None
        return self.directories[self.replicas.index(broker_id)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartitionRegistration):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PartitionRegistration({', '.join(f'{name}={getattr(self, name)}' for name in self.__slots__)})"


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic: `partitions[i]` is partition i."""

    name: str
    id: UUID
    partitions: tuple[PartitionRegistration, ...]


class TopicsById:
    """The topics by their id: a view of a persistent map by the id's integer, which compares fast."""

    __slots__ = ("by_integer",)

    def __init__(self, by_integer: PersistentMap[int, TopicImage] | None = None) -> None:
        self.by_integer: PersistentMap[int, TopicImage] = PersistentMap() if by_integer is None else by_integer

    def __len__(self) -> int:
        return len(self.by_integer)

    def __contains__(self, topic_id: UUID) -> bool:
        return topic_id.int in self.by_integer

    def __getitem__(self, topic_id: UUID) -> TopicImage:
        return self.by_integer[topic_id.int]

    def __iter__(self) -> Iterator[UUID]:
        return (topic.id for topic in self.by_integer.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicsById) and self.by_integer == other.by_integer

    __hash__ = None  # type: ignore[assignment]

    def get(self, topic_id: UUID) -> TopicImage | None:
        """The topic with this id, or None."""
        return self.by_integer.get(topic_id.int)

    def values(self) -> Iterator[TopicImage]:
        """The topics, in the order of their ids."""
        return self.by_integer.values()


AclKey = tuple[int, str, int, str, str, int, int, int]
"""The fields of an ACL, and the integer of its id."""


@dataclass(frozen=True, slots=True)
class AclsImage:
    """All ACLs: by the integer of the id, and in their own order, in which those of one resource stand together."""

    by_id: PersistentMap[int, Acl] = field(default_factory=PersistentMap)
    in_order: PersistentMap[AclKey, UUID] = field(default_factory=PersistentMap)

    def __len__(self) -> int:
        return len(self.by_id)

    def get(self, acl_id: UUID) -> Acl | None:
        """The ACL with an id, or None."""
        return self.by_id.get(acl_id.int)

    def has(self, acl: Acl) -> bool:
        """Whether there is such an ACL, under any id."""
        found = next(self.in_order.items((*acl, 0)), None)
        return found is not None and found[0][:-1] == acl

    def matching(self, wanted: AclFilter) -> Iterator[tuple[UUID, Acl] | None]:
        """The ACLs that a filter means, and None for each that was only looked at, so that a caller can pause."""
        start: tuple[int, str] | tuple[int] | None = None
        if wanted.resource_type != ResourceType.ANY:
            named = wanted.name is not None and wanted.pattern_type != PatternType.MATCH
            start = (wanted.resource_type, wanted.name or "") if named else (wanted.resource_type,)
        for key, acl_id in self.in_order.items(start):  # type: ignore[arg-type]  # a prefix of a key
            if start is not None and key[: len(start)] != start:
                return
            acl = Acl(*key[:-1])
            yield (acl_id, acl) if wanted.matches(acl) else None

    def with_changes(self, changes: Mapping[UUID, Acl | None]) -> AclsImage:
        """All ACLs after some were added, or removed (None)."""
        by_id, in_order = self.by_id, self.in_order
        for acl_id, acl in changes.items():
            before = by_id.get(acl_id.int)
            if before is not None:
                in_order = in_order.remove((*before, acl_id.int))
            if acl is None:
                by_id = by_id.remove(acl_id.int)
            else:
                by_id = by_id.set(acl_id.int, acl)
                in_order = in_order.set((*acl, acl_id.int), acl_id)
        return AclsImage(by_id, in_order)


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """All cluster metadata as of an offset of the metadata log.

    Attributes:
        offset: of the last record that this image contains; -1 for the empty image.
        epoch: of the leader that wrote that record.
        timestamp_ms: when it was written.
        features: finalized levels by feature name, metadata.version included; a level of 0 is not listed.
        topics_by_name: in the order of their names.
        configs: by (Kafka's resource type id, resource name); a resource without overrides is not listed.
        next_producer_id: the first id that no block has taken yet.
        scram_credentials: by (code of the mechanism, user).
        client_quotas: by entity; `quota.levels.resolve` tells which of them counts for a client.
        delegation_tokens: by id.
    """

    offset: int = -1
    epoch: int = 0
    timestamp_ms: int = 0
    features: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=lambda: EMPTY)
    controllers: Mapping[int, ControllerRegistration] = field(default_factory=lambda: EMPTY)
    topics_by_name: PersistentMap[str, TopicImage] = field(default_factory=PersistentMap)
    topics_by_id: TopicsById = field(default_factory=TopicsById)
    configs: PersistentMap[tuple[int, str], Configs] = field(default_factory=PersistentMap)
    next_producer_id: int = 0
    partition_count: int = 0
    acls: AclsImage = field(default_factory=AclsImage)
    scram_credentials: Credentials = field(default_factory=PersistentMap)
    client_quotas: ClientQuotas = field(default_factory=ClientQuotas)
    delegation_tokens: DelegationTokens = field(default_factory=PersistentMap)

    @property
    def metadata_version(self) -> int:
        """The finalized level of metadata.version; 0 before the first record."""
        return self.features.get("metadata.version", 0)

    def topic_configs(self, name: str) -> Configs:
        """The overrides of a topic, empty if there are none."""
        return self.configs.get((ConfigResource.TOPIC, name)) or EMPTY

    def partition(self, topic: str, index: int) -> PartitionRegistration | None:
        """A partition by topic name and index, or None if there is no such topic or partition."""
        found = self.topics_by_name.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]


class ConfigResource:
    """Kafka's resource types in config records and requests."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


EMPTY_IMAGE = MetadataImage()
