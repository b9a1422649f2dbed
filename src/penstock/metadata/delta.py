"""From one image to the next: replaying metadata records, at a cost of what they change.

A delta collects the changes of one or more batches and makes the new image once, so that a topic of ten thousand
partitions is one new tuple, not ten thousand. It also is the answer to "what has changed" for who follows the images.

Every one of Kafka's metadata records is either replayed here or belongs to transactions (`metadata.loader`), and any
other is refused by its name: a node that ignored a record would serve a cluster which is not the one agreed upon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from penstock.errors import PenstockError
from penstock.metadata.client_quotas import Entity, QuotaValues, entity_of, replayed
from penstock.metadata.delegation_tokens import DelegationToken, with_changes
from penstock.metadata.features import check_level
from penstock.metadata.image import (
    EMPTY,
    BrokerRegistration,
    ConfigResource,
    Configs,
    ControllerRegistration,
    Endpoint,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
    TopicsById,
)
from penstock.metadata.result import MetadataMessage
from penstock.metadata.scram import ScramCredential
from penstock.protocol.acls import Acl, unknown_code

if TYPE_CHECKING:
    from penstock.protocol.messages.metadata.access_control_entry_record import AccessControlEntryRecord
    from penstock.protocol.messages.metadata.broker_registration_change_record import BrokerRegistrationChangeRecord
    from penstock.protocol.messages.metadata.clear_elr_record import ClearElrRecord
    from penstock.protocol.messages.metadata.client_quota_record import ClientQuotaRecord
    from penstock.protocol.messages.metadata.config_record import ConfigRecord
    from penstock.protocol.messages.metadata.delegation_token_record import DelegationTokenRecord
    from penstock.protocol.messages.metadata.feature_level_record import FeatureLevelRecord
    from penstock.protocol.messages.metadata.fence_broker_record import FenceBrokerRecord
    from penstock.protocol.messages.metadata.no_op_record import NoOpRecord
    from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord
    from penstock.protocol.messages.metadata.partition_record import PartitionRecord
    from penstock.protocol.messages.metadata.producer_ids_record import ProducerIdsRecord
    from penstock.protocol.messages.metadata.register_broker_record import RegisterBrokerRecord
    from penstock.protocol.messages.metadata.register_controller_record import RegisterControllerRecord
    from penstock.protocol.messages.metadata.remove_access_control_entry_record import RemoveAccessControlEntryRecord
    from penstock.protocol.messages.metadata.remove_delegation_token_record import RemoveDelegationTokenRecord
    from penstock.protocol.messages.metadata.remove_topic_record import RemoveTopicRecord
    from penstock.protocol.messages.metadata.remove_user_scram_credential_record import (
        RemoveUserScramCredentialRecord,
    )
    from penstock.protocol.messages.metadata.topic_record import TopicRecord
    from penstock.protocol.messages.metadata.unfence_broker_record import UnfenceBrokerRecord
    from penstock.protocol.messages.metadata.unregister_broker_record import UnregisterBrokerRecord
    from penstock.protocol.messages.metadata.user_scram_credential_record import UserScramCredentialRecord
    from penstock.protocol.messages.metadata.zk_migration_state_record import ZkMigrationStateRecord

MIGRATION_STATES_WITHOUT_ZOOKEEPER = (0, 3)
"""NONE and POST_MIGRATION: the only states of ZkMigrationStateRecord in which no ZooKeeper is part of the cluster."""


class MetadataError(PenstockError):
    """A metadata record that cannot be replayed: unsupported here, or inconsistent with the records before it."""


class TopicDelta:
    """The changes of one topic: `partitions` holds the new registrations by index."""

    __slots__ = ("created", "id", "image", "name", "partitions")

    def __init__(self, image: TopicImage, *, created: bool) -> None:
        self.name = image.name
        self.id = image.id
        self.image = image
        self.created = created
        self.partitions: dict[int, PartitionRegistration] = {}

    def partition(self, index: int) -> PartitionRegistration | None:
        """The newest registration of a partition."""
        changed = self.partitions.get(index)
        if changed is None and index < len(self.image.partitions):
            return self.image.partitions[index]
        return changed

    def apply(self) -> TopicImage:
        """The topic with the changes."""
        partitions = list(self.image.partitions)
        for index, registration in sorted(self.partitions.items()):
            if index < len(partitions):
                partitions[index] = registration
            elif index == len(partitions):
                partitions.append(registration)
            else:
                raise MetadataError(f"partition {index} of topic {self.name} exists, but not {len(partitions)}")
        return TopicImage(self.name, self.id, tuple(partitions))


class MetadataDelta:
    """Changes on top of `image`.

    Attributes, each with what has changed since, the newest state last:
        features: finalized levels by name; 0 where a feature was switched off.
        brokers, controllers: registrations by id; None where one is gone.
        topics: by id; a topic that is gone is not in here but in `deleted_topics`.
        deleted_topics: the images, as they were before, of topics that are gone.
        configs: all overrides by (resource type, name) of resources of which any changed; empty when none is left.
        next_producer_id: or None.
        acls: by id; None where one is gone.
        scram_credentials: by (mechanism, user); None where one is gone.
        client_quotas: all quotas by entity of entities of which any changed; empty when none is left.
        delegation_tokens: by id; None where one is gone.
    """

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.features: dict[str, int] = {}
        self.brokers: dict[int, BrokerRegistration | None] = {}
        self.controllers: dict[int, ControllerRegistration | None] = {}
        self.topics: dict[UUID, TopicDelta] = {}
        self.deleted_topics: dict[UUID, TopicImage] = {}
        self.configs: dict[tuple[int, str], Configs] = {}
        self.next_producer_id: int | None = None
        self.acls: dict[UUID, Acl | None] = {}
        self.scram_credentials: dict[tuple[int, str], ScramCredential | None] = {}
        self.client_quotas: dict[Entity, QuotaValues] = {}
        self.delegation_tokens: dict[str, DelegationToken | None] = {}
        self._topic_ids: dict[str, UUID | None] = {}
        self._directories: dict[tuple[UUID, ...], tuple[UUID, ...]] = {}

    def replay(self, record: MetadataMessage) -> None:
        """Adds the change that a record makes.

        Raises MetadataError for a record that is refused, or that contradicts what came before.
        """
        replay = REPLAYED.get(record.NAME)
        if replay is None:
            raise MetadataError(f"the metadata log holds a {record.NAME}: it is unknown here")
        replay(self, record)

    def apply(self, offset: int, epoch: int, timestamp_ms: int) -> MetadataImage:
        """The image with these changes, as of the record at `offset`."""
        base = self.image
        topics_by_name, topics_by_id = base.topics_by_name, base.topics_by_id.by_integer
        partition_count = base.partition_count
        for topic in self.deleted_topics.values():
            topics_by_name = topics_by_name.remove(topic.name)
            topics_by_id = topics_by_id.remove(topic.id.int)
            partition_count -= len(topic.partitions)
        for delta in self.topics.values():
            image = delta.apply()
            partition_count += len(image.partitions) - len(delta.image.partitions)
            topics_by_name = topics_by_name.set(image.name, image)
            topics_by_id = topics_by_id.set(image.id.int, image)
        configs = base.configs
        for resource, overrides in self.configs.items():
            configs = configs.set(resource, overrides) if overrides else configs.remove(resource)
        credentials = base.scram_credentials
        for key, credential in self.scram_credentials.items():
            credentials = credentials.remove(key) if credential is None else credentials.set(key, credential)
        return MetadataImage(
            offset=offset,
            epoch=epoch,
            timestamp_ms=timestamp_ms,
            features=merged(base.features, {name: level or None for name, level in self.features.items()}),
            brokers=merged(base.brokers, self.brokers),
            controllers=merged(base.controllers, self.controllers),
            topics_by_name=topics_by_name,
            topics_by_id=TopicsById(topics_by_id),
            configs=configs,
            next_producer_id=base.next_producer_id if self.next_producer_id is None else self.next_producer_id,
            partition_count=partition_count,
            acls=base.acls.with_changes(self.acls) if self.acls else base.acls,
            scram_credentials=credentials,
            client_quotas=base.client_quotas.with_changes(self.client_quotas),
            delegation_tokens=with_changes(base.delegation_tokens, self.delegation_tokens),
        )

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        """The newest registration of a broker."""
        return self.brokers[broker_id] if broker_id in self.brokers else self.image.brokers.get(broker_id)

    def topic_id(self, name: str) -> UUID | None:
        """The id of a topic that exists after the changes."""
        if name in self._topic_ids:
            return self._topic_ids[name]
        topic = self.image.topics_by_name.get(name)
        return None if topic is None else topic.id

    def topic(self, topic_id: UUID, record: MetadataMessage) -> TopicDelta:
        """The changes of an existing topic. Raises MetadataError if there is none."""
        delta = self.topics.get(topic_id)
        if delta is None:
            image = None if topic_id in self.deleted_topics else self.image.topics_by_id.get(topic_id)
            if image is None:
                raise MetadataError(f"{record.NAME} is about a topic that does not exist: {topic_id}")
            delta = self.topics[topic_id] = TopicDelta(image, created=False)
        return delta

    def resource_configs(self, resource: tuple[int, str]) -> Configs:
        """The newest overrides of a resource."""
        changed = self.configs.get(resource)
        return (self.image.configs.get(resource) or EMPTY) if changed is None else changed

    def quotas(self, entity: Entity) -> QuotaValues:
        """The newest quotas of an entity."""
        changed = self.client_quotas.get(entity)
        return (self.image.client_quotas.get(entity) or EMPTY) if changed is None else changed

    def shared(self, directories: list[UUID]) -> tuple[UUID, ...]:
        """One shared tuple for all partitions in the same directories."""
        key = tuple(directories)
        return self._directories.setdefault(key, key)


def merged(base: Mapping[Any, Any], changes: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """A mapping with changes, in the order of keys; a value of None removes a key."""
    if not changes:
        return base
    together = {**base, **changes}
    return {key: together[key] for key in sorted(together) if together[key] is not None}


def replay_topic(delta: MetadataDelta, record: TopicRecord) -> None:
    existing = delta.topic_id(record.name)
    if existing is not None:
        raise MetadataError(f"TopicRecord creates {record.name}, which exists already with id {existing}")
    delta._topic_ids[record.name] = record.topic_id
    delta.topics[record.topic_id] = TopicDelta(TopicImage(record.name, record.topic_id, ()), created=True)


def replay_remove_topic(delta: MetadataDelta, record: RemoveTopicRecord) -> None:
    topic = delta.topic(record.topic_id, record)
    del delta.topics[record.topic_id]
    delta._topic_ids[topic.name] = None
    if not topic.created:
        delta.deleted_topics[record.topic_id] = topic.image
    resource = (ConfigResource.TOPIC, topic.name)
    if delta.resource_configs(resource):
        delta.configs[resource] = EMPTY


def replay_partition(delta: MetadataDelta, record: PartitionRecord) -> None:
    replicas = tuple(record.replicas)
    isr = tuple(record.isr)
    delta.topic(record.topic_id, record).partitions[record.partition_id] = PartitionRegistration(
        replicas,
        isr,
        record.leader,
        directories=delta.shared(record.directories),
        removing_replicas=tuple(record.removing_replicas),
        adding_replicas=tuple(record.adding_replicas),
        elr=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
        leader_recovery_state=record.leader_recovery_state,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
    )


def replay_partition_change(delta: MetadataDelta, record: PartitionChangeRecord) -> None:
    topic = delta.topic(record.topic_id, record)
    before = topic.partition(record.partition_id)
    if before is None:
        raise MetadataError(f"PartitionChangeRecord is about {topic.name}-{record.partition_id}, which does not exist")
    after = before.changed_by(record)
    if record.directories is not None:
        after.directories = delta.shared(record.directories)
    topic.partitions[record.partition_id] = after


def replay_clear_elr(delta: MetadataDelta, record: ClearElrRecord) -> None:
    if record.topic_name:
        topic_id = delta.topic_id(record.topic_name)
        if topic_id is None:
            raise MetadataError(f"ClearElrRecord is about a topic that does not exist: {record.topic_name}")
        topic_ids = [topic_id]
    else:
        topic_ids = [topic_id for topic_id in delta.image.topics_by_id if topic_id not in delta.deleted_topics]
        topic_ids += [topic_id for topic_id, changed in delta.topics.items() if changed.created]
    for each in topic_ids:
        topic = delta.topic(each, record)
        for index in range(max(len(topic.image.partitions), max(topic.partitions, default=-1) + 1)):
            partition = topic.partition(index)
            if partition is not None and (partition.elr or partition.last_known_elr):
                topic.partitions[index] = partition.with_(elr=(), last_known_elr=())


def replay_config(delta: MetadataDelta, record: ConfigRecord) -> None:
    resource = (record.resource_type, record.resource_name)
    overrides = dict(delta.resource_configs(resource))
    if record.value is None:
        overrides.pop(record.name, None)
    else:
        overrides[record.name] = record.value
    delta.configs[resource] = {name: overrides[name] for name in sorted(overrides)}


def replay_register_broker(delta: MetadataDelta, record: RegisterBrokerRecord) -> None:
    if record.is_migrating_zk_broker:
        raise MetadataError(f"broker {record.broker_id} registered while migrating from ZooKeeper: not supported")
    delta.brokers[record.broker_id] = BrokerRegistration(
        id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        endpoints=endpoints_of(record),
        features=features_of(record),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=tuple(record.log_dirs),
        cordoned_log_dirs=tuple(record.cordoned_log_dirs or ()),
    )


def endpoints_of(record: RegisterBrokerRecord | RegisterControllerRecord) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(each.name, each.host, each.port, each.security_protocol) for each in record.end_points)


def features_of(record: RegisterBrokerRecord | RegisterControllerRecord) -> Mapping[str, tuple[int, int]]:
    return {each.name: (each.min_supported_version, each.max_supported_version) for each in record.features}


def registered(delta: MetadataDelta, broker_id: int, epoch: int, record: MetadataMessage) -> BrokerRegistration:
    broker = delta.broker(broker_id)
    if broker is None or broker.epoch != epoch:
        found = "it is not registered" if broker is None else f"its epoch is {broker.epoch}"
        raise MetadataError(f"{record.NAME} is about broker {broker_id} of epoch {epoch}, but {found}")
    return broker


def changed(broker: BrokerRegistration, **changes: Any) -> BrokerRegistration:
    fields = {name: getattr(broker, name) for name in broker.__slots__}
    return BrokerRegistration(**{**fields, **changes})


def replay_unregister_broker(delta: MetadataDelta, record: UnregisterBrokerRecord) -> None:
    registered(delta, record.broker_id, record.broker_epoch, record)
    delta.brokers[record.broker_id] = None


def replay_fence_broker(delta: MetadataDelta, record: FenceBrokerRecord) -> None:
    delta.brokers[record.id] = changed(registered(delta, record.id, record.epoch, record), fenced=True)


def replay_unfence_broker(delta: MetadataDelta, record: UnfenceBrokerRecord) -> None:
    delta.brokers[record.id] = changed(registered(delta, record.id, record.epoch, record), fenced=False)


def replay_broker_registration_change(delta: MetadataDelta, record: BrokerRegistrationChangeRecord) -> None:
    broker = registered(delta, record.broker_id, record.broker_epoch, record)
    changes: dict[str, Any] = {}
    if record.fenced not in (-1, 0, 1) or record.in_controlled_shutdown not in (0, 1):
        raise MetadataError(f"{record} has values that this version does not know")
    if record.fenced:
        changes["fenced"] = record.fenced == 1
    if record.in_controlled_shutdown:
        changes["in_controlled_shutdown"] = True
    if record.log_dirs:
        changes["log_dirs"] = tuple(record.log_dirs)
    if record.cordoned_log_dirs is not None:
        changes["cordoned_log_dirs"] = tuple(record.cordoned_log_dirs)
    delta.brokers[record.broker_id] = changed(broker, **changes)


def replay_register_controller(delta: MetadataDelta, record: RegisterControllerRecord) -> None:
    if record.zk_migration_ready:
        raise MetadataError(f"controller {record.controller_id} is ready to migrate from ZooKeeper: not supported")
    delta.controllers[record.controller_id] = ControllerRegistration(
        record.controller_id, record.incarnation_id, endpoints_of(record), features_of(record)
    )


def replay_feature_level(delta: MetadataDelta, record: FeatureLevelRecord) -> None:
    check_level(record.name, record.feature_level)
    delta.features[record.name] = record.feature_level


def replay_producer_ids(delta: MetadataDelta, record: ProducerIdsRecord) -> None:
    delta.next_producer_id = record.next_producer_id


def replay_access_control_entry(delta: MetadataDelta, record: AccessControlEntryRecord) -> None:
    acl = Acl(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )
    unknown = unknown_code(acl)
    if unknown:
        raise MetadataError(f"AccessControlEntryRecord {record.id} has a {unknown} that this version does not know")
    delta.acls[record.id] = acl


def replay_remove_access_control_entry(delta: MetadataDelta, record: RemoveAccessControlEntryRecord) -> None:
    existing = delta.acls[record.id] if record.id in delta.acls else delta.image.acls.get(record.id)
    if existing is None:
        raise MetadataError(f"RemoveAccessControlEntryRecord is about an ACL that does not exist: {record.id}")
    if delta.image.acls.get(record.id) is None:
        del delta.acls[record.id]
    else:
        delta.acls[record.id] = None


def replay_zk_migration_state(delta: MetadataDelta, record: ZkMigrationStateRecord) -> None:
    if record.zk_migration_state not in MIGRATION_STATES_WITHOUT_ZOOKEEPER:
        raise MetadataError(
            f"the cluster is migrating from ZooKeeper (state {record.zk_migration_state}): not supported"
        )


def replay_user_scram_credential(delta: MetadataDelta, record: UserScramCredentialRecord) -> None:
    delta.scram_credentials[record.mechanism, record.name] = ScramCredential.of(record)


def replay_remove_user_scram_credential(delta: MetadataDelta, record: RemoveUserScramCredentialRecord) -> None:
    delta.scram_credentials[record.mechanism, record.name] = None


def replay_client_quota(delta: MetadataDelta, record: ClientQuotaRecord) -> None:
    entity = entity_of(record.entity)
    delta.client_quotas[entity] = replayed(delta.quotas(entity), record)


def replay_delegation_token(delta: MetadataDelta, record: DelegationTokenRecord) -> None:
    if not all(":" in principal for principal in (record.owner, record.requester, *record.renewers)):
        raise MetadataError(f"DelegationTokenRecord {record.token_id} has a principal without a type")
    delta.delegation_tokens[record.token_id] = DelegationToken.of(record)


def replay_remove_delegation_token(delta: MetadataDelta, record: RemoveDelegationTokenRecord) -> None:
    delta.delegation_tokens[record.token_id] = None


def replay_no_op(delta: MetadataDelta, record: NoOpRecord) -> None:
    """Changes nothing, by definition."""


REPLAYED: Mapping[str, Callable[[MetadataDelta, Any], None]] = {
    "TopicRecord": replay_topic,
    "RemoveTopicRecord": replay_remove_topic,
    "PartitionRecord": replay_partition,
    "PartitionChangeRecord": replay_partition_change,
    "ClearElrRecord": replay_clear_elr,
    "ConfigRecord": replay_config,
    "RegisterBrokerRecord": replay_register_broker,
    "UnregisterBrokerRecord": replay_unregister_broker,
    "FenceBrokerRecord": replay_fence_broker,
    "UnfenceBrokerRecord": replay_unfence_broker,
    "BrokerRegistrationChangeRecord": replay_broker_registration_change,
    "RegisterControllerRecord": replay_register_controller,
    "FeatureLevelRecord": replay_feature_level,
    "ProducerIdsRecord": replay_producer_ids,
    "AccessControlEntryRecord": replay_access_control_entry,
    "RemoveAccessControlEntryRecord": replay_remove_access_control_entry,
    "ZkMigrationStateRecord": replay_zk_migration_state,
    "UserScramCredentialRecord": replay_user_scram_credential,
    "RemoveUserScramCredentialRecord": replay_remove_user_scram_credential,
    "ClientQuotaRecord": replay_client_quota,
    "DelegationTokenRecord": replay_delegation_token,
    "RemoveDelegationTokenRecord": replay_remove_delegation_token,
    "NoOpRecord": replay_no_op,
}
"""Replays by record name."""
