"""Metadata records as they lie in the log: the version of each, their framing, and an image as records.

The version of a record is chosen by the finalized metadata.version, in one place: a cluster that was told to stay at a
level must stay readable by every member at that level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from penstock.errors import ProtocolError, StorageError
from penstock.metadata.client_quotas import quota_records
from penstock.metadata.delegation_tokens import DelegationToken
from penstock.metadata.features import METADATA_VERSION, MetadataVersion
from penstock.metadata.image import BrokerRegistration, ControllerRegistration, MetadataImage, TopicImage
from penstock.metadata.result import MetadataMessage
from penstock.protocol.acls import Acl
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.metadata.access_control_entry_record import AccessControlEntryRecord
from penstock.protocol.messages.metadata.config_record import ConfigRecord
from penstock.protocol.messages.metadata.feature_level_record import FeatureLevelRecord
from penstock.protocol.messages.metadata.partition_record import PartitionRecord
from penstock.protocol.messages.metadata.producer_ids_record import ProducerIdsRecord
from penstock.protocol.messages.metadata.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from penstock.protocol.messages.metadata.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from penstock.protocol.messages.metadata.topic_record import TopicRecord
from penstock.protocol.record_frames import decode_metadata_record, encode_metadata_record


def record_version(record: MetadataMessage, version: MetadataVersion) -> int:
    """The version in which a record is written at this metadata.version. Records not named have only version 0."""
    match record.NAME:
        case "RegisterBrokerRecord":
            return version.register_broker_record
        case "BrokerRegistrationChangeRecord":
            return version.broker_registration_change_record
        case "PartitionRecord":
            return version.partition_record
        case "PartitionChangeRecord":
            return version.partition_change_record
    return 0


def encode_records(records: Iterable[MetadataMessage], version: MetadataVersion) -> Iterator[bytes]:
    """The values of records of the metadata log."""
    return (encode_metadata_record(record, record_version(record, version)) for record in records)


def decode_records(values: Iterable[bytes], path: str) -> Sequence[MetadataMessage]:
    """Records from their values. Raises StorageError, which names the file, for one that we cannot read."""
    try:
        return [decode_metadata_record(value)[0] for value in values]
    except ProtocolError as error:
        raise StorageError(f"{path}: {error}") from None


def image_records(image: MetadataImage) -> Iterator[MetadataMessage]:
    """An image as the records that make it, in Kafka's order: features, brokers, topics, configs, client quotas,
    producer ids, ACLs, SCRAM credentials, delegation tokens.
    """
    if METADATA_VERSION in image.features:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=image.features[METADATA_VERSION])
    for name, level in image.features.items():
        if name != METADATA_VERSION:
            yield FeatureLevelRecord(name=name, feature_level=level)
    yield from (broker_record(broker) for broker in image.brokers.values())
    yield from (controller_record(controller) for controller in image.controllers.values())
    for topic in image.topics_by_id.values():
        yield TopicRecord(name=topic.name, topic_id=topic.id)
        yield from partition_records(topic)
    for (kind, resource), configs in image.configs.items():
        for name, value in configs.items():
            yield ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
    yield from quota_records(image.client_quotas)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    for number, acl in image.acls.by_id.items():
        yield acl_record(UUID(int=number), acl)
    for (mechanism, user), credential in image.scram_credentials.items():
        yield credential.record(user, mechanism)
    yield from map(DelegationToken.record, image.delegation_tokens.values())


def acl_record(acl_id: UUID, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def broker_record(broker: BrokerRegistration) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in broker.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=list(broker.cordoned_log_dirs) or None,
    )


def controller_record(controller: ControllerRegistration) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        end_points=[
            ControllerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in controller.endpoints
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in controller.features.items()
        ],
    )


def partition_records(topic: TopicImage) -> Iterator[PartitionRecord]:
    for index, partition in enumerate(topic.partitions):
        yield PartitionRecord(
            partition_id=index,
            topic_id=topic.id,
            replicas=list(partition.replicas),
            isr=list(partition.isr),
            removing_replicas=list(partition.removing_replicas),
            adding_replicas=list(partition.adding_replicas),
            leader=partition.leader,
            leader_recovery_state=partition.leader_recovery_state,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            directories=list(partition.directories) or [ZERO_UUID] * len(partition.replicas),
            eligible_leader_replicas=list(partition.elr) or None,
            last_known_elr=list(partition.last_known_elr) or None,
        )
