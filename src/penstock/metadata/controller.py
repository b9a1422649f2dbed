"""The active controller's state: the basis of its decisions, replayed at append and undone if the append is lost.

The rules of each API are functions in their own modules (`topics`, `configs`, `brokers`, `isr`, `leadership`,
`reassignments`, `directories`, `feature_updates`, `producer_ids`, `activation`); each reads the state with everything
appended so far, decides, and returns a `Result`; it changes nothing. Only `replay` changes the state: the node calls it
with the records when it appends them, so that the next request sees them, and `committed` or `revert` when the outcome
is known.

The state is a `MetadataImage` with everything appended, and the few indexes that no image has, in timeline maps. What
is committed of it is published to brokers unchanged: the image made at the append, not another one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from uuid import UUID

from penstock.config.server import Settings
from penstock.config.topic import TopicConfig
from penstock.metadata.delegation_tokens import TokenIds
from penstock.metadata.features import ELR_VERSION
from penstock.metadata.image import EMPTY, ConfigResource, Configs, MetadataImage
from penstock.metadata.indexes import PartitionIndexes
from penstock.metadata.loader import MetadataLoader, Publication
from penstock.metadata.names import collision_key
from penstock.metadata.partitions import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from penstock.metadata.result import MetadataMessage
from penstock.metadata.timeline import Timeline, TimelineMap


@dataclass(slots=True)
class _Appended:
    """A batch that is replayed and not yet committed, and the images that its commit publishes."""

    last_offset: int
    publications: list[Publication]


class Controller:
    """See the module's head.

    Attributes:
        settings: this controller's settings: defaults of new topics, and what broker configs are checked against.
        random: for ids and placement.
        image: the metadata with everything appended.
        committed_image: the metadata with everything committed.
        colliding_names: topics by what their names may not share (`names.collision_key`).
        indexes: which partitions concern a broker.
        token_ids: the ids of delegation tokens by their HMACs.
        registration_offsets: where the log has each broker's newest registration: a broker may be unfenced once it has
            caught up with that.
        unheard: brokers that were unfenced when this controller became active, and that it has not heard of since. They
            may have died unnoticed, and come back empty: nothing is to rest upon them alone. What nobody else can do
            waits until they are heard of or fenced.
        patient: whether they still have their first time to be heard of: another is not yet preferred to them.
    """

    def __init__(self, settings: Settings, random: Random, loader: MetadataLoader) -> None:
        """`loader` has loaded everything that is committed, and published it."""
        self.settings = settings
        self.random = random
        self.committed_image = loader.image
        self._loader = loader
        self._topic_settings: tuple[Configs, Settings] = (EMPTY, settings)
        self._appended: deque[_Appended] = deque()
        self._timeline = Timeline()
        self.colliding_names: TimelineMap[str, tuple[str, ...]] = TimelineMap(self._timeline)
        self.registration_offsets: TimelineMap[int, int] = TimelineMap(self._timeline)
        self.token_ids = TokenIds(settings.delegation_token_secret_key or "", loader.image.delegation_tokens)
        self.unheard: set[int] = set()
        self.patient = False
        self.indexes = PartitionIndexes(self._timeline, loader.image)
        for broker in loader.image.brokers.values():
            self.registration_offsets[broker.id] = broker.epoch
        for name in loader.image.topics_by_name:
            self._add_name(name)
        self._timeline.snapshot(loader.last_offset)

    @property
    def image(self) -> MetadataImage:
        return self._loader.image

    @property
    def last_offset(self) -> int:
        """Offset of the last record that was replayed."""
        return self._loader.last_offset

    @property
    def transaction_start_offset(self) -> int:
        """First offset of the open metadata transaction; -1 when none is open."""
        return self._loader.transaction_start_offset

    @property
    def uncommitted(self) -> int:
        """Batches that are replayed and not yet committed."""
        return len(self._appended)

    def replay(self, records: Sequence[MetadataMessage], last_offset: int, epoch: int, timestamp_ms: int) -> None:
        """Applies a batch that is being appended; its last record gets `last_offset`."""
        assert last_offset > self.last_offset, "batches are appended in the order of their offsets"
        self._loader.load(records, last_offset, epoch, timestamp_ms)
        self._note_registrations(records, last_offset - len(records) + 1)
        publications = self._loader.publish()
        for _, _, delta in publications:
            self.indexes.apply(delta)
            self.token_ids.follow(delta.delegation_tokens)
            for topic in delta.deleted_topics.values():
                self._remove_name(topic.name)
            for created in delta.topics.values():
                if created.created:
                    self._add_name(created.name)
        self._appended.append(_Appended(last_offset, publications))
        self._timeline.snapshot(last_offset)

    def advance(self, last_offset: int, epoch: int, timestamp_ms: int) -> None:
        """A control batch was appended, which holds no metadata."""
        self.replay((), last_offset, epoch, timestamp_ms)

    def committed(self, last_offset: int) -> list[Publication]:
        """Everything through `last_offset` is committed. Returns the images to publish, oldest first."""
        publications: list[Publication] = []
        while self._appended and self._appended[0].last_offset <= last_offset:
            batch = self._appended.popleft()
            publications += batch.publications
            self._timeline.forget_before(batch.last_offset)
        if publications:
            self.committed_image = publications[-1][1]
        return publications

    def revert(self) -> None:
        """Undoes every batch that is not committed: the append failed, or the leadership is lost."""
        self._timeline.revert_to(self._timeline.offsets[0])
        self._appended.clear()
        self._loader = MetadataLoader(self.committed_image)

    def random_id(self) -> UUID:
        """A new id for a topic, as Kafka makes them: random, version 4, and not beginning with a dash in base 64."""
        while True:
            new = UUID(int=self.random.getrandbits(128), version=4)
            if new.bytes[0] >> 2 != DASH and new not in self.image.topics_by_id:
                return new

    @property
    def cluster_configs(self) -> Configs:
        """The dynamic configs of all brokers together."""
        return self.image.configs.get((ConfigResource.BROKER, "")) or EMPTY

    @property
    def topic_settings(self) -> Settings:
        """The settings under the cluster's dynamic configs: what topics take their defaults from."""
        cluster_configs = self.cluster_configs
        if cluster_configs is not self._topic_settings[0]:
            settings = self.settings.with_dynamic(cluster_configs, {}) if cluster_configs else self.settings
            self._topic_settings = (cluster_configs, settings)
        return self._topic_settings[1]

    def topic_config(self, name: str) -> TopicConfig:
        """The configuration of a topic, with the cluster's dynamic defaults."""
        return TopicConfig.resolve(self.topic_settings, self.image.topic_configs(name))

    # What decisions ask again and again

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker may lead partitions: registered, neither fenced nor shutting down."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def has_online_directory(self, broker_id: int, directory: UUID | None) -> bool:
        """Whether a replica lies in a directory that is online, as far as its directory is known."""
        if directory is None or directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
            return True
        broker = self.image.brokers.get(broker_id)
        return broker is not None and directory in broker.log_dirs

    @property
    def elr_enabled(self) -> bool:
        """Whether partitions have eligible leader replicas (KIP-966)."""
        return self.image.features.get(ELR_VERSION, 0) >= 1

    def unclean_election_allowed(self, topic: str) -> bool:
        """Whether a topic prefers losing records to having no leader."""
        return self.topic_config(topic).unclean_leader_election_enable

    def min_insync_replicas(self, topic: str) -> int:
        return self.topic_config(topic).min_insync_replicas

    def _note_registrations(self, records: Sequence[MetadataMessage], base_offset: int) -> None:
        for number, record in enumerate(records):
            if record.NAME == "RegisterBrokerRecord":
                self.registration_offsets[record.broker_id] = base_offset + number
            elif record.NAME == "UnregisterBrokerRecord":
                self.registration_offsets.pop(record.broker_id)

    def _add_name(self, name: str) -> None:
        key = collision_key(name)
        if key is not None:
            self.colliding_names[key] = (*(self.colliding_names.get(key) or ()), name)

    def _remove_name(self, name: str) -> None:
        key = collision_key(name)
        if key is None:
            return
        left = tuple(other for other in self.colliding_names[key] if other != name)
        if left:
            self.colliding_names[key] = left
        else:
            self.colliding_names.pop(key)


DASH = 62
"""What `-` stands for in URL-safe base 64: an id that starts with it looks like an option on a command line."""
