"""Two images and what has changed between them, when a snapshot took the place of the records."""

from __future__ import annotations

from uuid import UUID

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.difference import difference
from penstock.metadata.image import EMPTY_IMAGE, ConfigResource, MetadataImage
from penstock.protocol.messages.metadata.config_record import ConfigRecord
from penstock.protocol.messages.metadata.feature_level_record import FeatureLevelRecord
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord
from penstock.protocol.messages.metadata.partition_record import PartitionRecord
from penstock.protocol.messages.metadata.producer_ids_record import ProducerIdsRecord
from penstock.protocol.messages.metadata.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from penstock.protocol.messages.metadata.remove_topic_record import RemoveTopicRecord
from penstock.protocol.messages.metadata.topic_record import TopicRecord
from penstock.protocol.messages.metadata.unregister_broker_record import UnregisterBrokerRecord


def topic(number: int, name: str) -> list[object]:
    id_ = UUID(int=1000 + number)
    partition = PartitionRecord(
        partition_id=0, topic_id=id_, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0
    )
    return [TopicRecord(name=name, topic_id=id_), partition]


def broker(id_: int) -> RegisterBrokerRecord:
    endpoint = BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)
    return RegisterBrokerRecord(broker_id=id_, incarnation_id=UUID(int=id_), broker_epoch=id_, end_points=[endpoint])


def after(image: MetadataImage, offset: int, *records: object) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)  # type: ignore[arg-type]
    return delta.apply(offset, 1, 0)


OLD = after(
    EMPTY_IMAGE,
    10,
    FeatureLevelRecord(name="metadata.version", feature_level=30),
    broker(1),
    broker(2),
    *topic(1, "stays"),
    *topic(2, "changes"),
    *topic(3, "goes"),
    *topic(5, "again"),
    ConfigRecord(resource_type=ConfigResource.TOPIC, resource_name="stays", name="retention.ms", value="1"),
)
NEW = after(
    OLD,
    20,
    UnregisterBrokerRecord(broker_id=2, broker_epoch=2),
    broker(3),
    RemoveTopicRecord(topic_id=UUID(int=1003)),
    *topic(4, "comes"),
    RemoveTopicRecord(topic_id=UUID(int=1005)),
    *topic(6, "again"),
    PartitionChangeRecord(partition_id=0, topic_id=UUID(int=1002), leader=-1),
    ConfigRecord(resource_type=ConfigResource.TOPIC, resource_name="stays", name="retention.ms", value=None),
    ConfigRecord(resource_type=ConfigResource.BROKER, resource_name="1", name="log.segment.bytes", value="1048576"),
    ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1000),
)


def test_the_difference_makes_the_new_image_of_the_old_one() -> None:
    assert difference(OLD, NEW).apply(NEW.offset, NEW.epoch, NEW.timestamp_ms) == NEW
    assert difference(EMPTY_IMAGE, NEW).apply(NEW.offset, NEW.epoch, NEW.timestamp_ms) == NEW
    assert difference(NEW, OLD).apply(OLD.offset, OLD.epoch, OLD.timestamp_ms) == OLD


def test_it_names_what_has_changed_and_nothing_else() -> None:
    delta = difference(OLD, NEW)
    created = {each.name: each.created for each in delta.topics.values()}
    assert created == {"changes": False, "comes": True, "again": True}
    assert [each.name for each in delta.deleted_topics.values()] == ["goes", "again"]
    assert {id_: each is None for id_, each in delta.brokers.items()} == {2: True, 3: False}
    assert list(delta.configs) == [(ConfigResource.TOPIC, "stays"), (ConfigResource.BROKER, "1")]
    same = difference(NEW, NEW)
    for changed in (same.topics, same.deleted_topics, same.brokers, same.configs, same.features):
        assert not changed
