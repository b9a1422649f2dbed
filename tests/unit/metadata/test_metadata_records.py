"""All of Kafka's metadata records: each is replayed, or refused by its name; none is silently ignored."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.metadata.delta import REPLAYED, MetadataDelta, MetadataError
from penstock.metadata.features import METADATA_VERSIONS
from penstock.metadata.image import EMPTY_IMAGE
from penstock.metadata.loader import TRANSACTION_RECORDS, MetadataLoader
from penstock.metadata.records import acl_record, decode_records, encode_records, image_records, record_version
from penstock.protocol.acls import Acl, AclFilter
from penstock.protocol.messages.metadata.broker_registration_change_record import BrokerRegistrationChangeRecord
from penstock.protocol.messages.metadata.clear_elr_record import ClearElrRecord
from penstock.protocol.messages.metadata.config_record import ConfigRecord
from penstock.protocol.messages.metadata.feature_level_record import FeatureLevelRecord
from penstock.protocol.messages.metadata.fence_broker_record import FenceBrokerRecord
from penstock.protocol.messages.metadata.no_op_record import NoOpRecord
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord
from penstock.protocol.messages.metadata.partition_record import PartitionRecord
from penstock.protocol.messages.metadata.producer_ids_record import ProducerIdsRecord
from penstock.protocol.messages.metadata.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from penstock.protocol.messages.metadata.register_controller_record import (
    ControllerEndpoint,
    RegisterControllerRecord,
)
from penstock.protocol.messages.metadata.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from penstock.protocol.messages.metadata.remove_topic_record import RemoveTopicRecord
from penstock.protocol.messages.metadata.topic_record import TopicRecord
from penstock.protocol.messages.metadata.unfence_broker_record import UnfenceBrokerRecord
from penstock.protocol.messages.metadata.unregister_broker_record import UnregisterBrokerRecord
from penstock.protocol.messages.metadata.zk_migration_state_record import ZkMigrationStateRecord
from penstock.protocol.record_frames import classes

TOPIC = UUID(int=0xABC)
OTHER = UUID(int=0xDEF)
DIRECTORY = UUID(int=0xD1)
REGISTER = RegisterBrokerRecord(
    broker_id=1,
    incarnation_id=UUID(int=5),
    broker_epoch=7,
    end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
    features=[BrokerFeature(name="metadata.version", min_supported_version=25, max_supported_version=30)],
    rack="r",
    log_dirs=[DIRECTORY],
)


def partition(index: int = 0, topic_id: UUID = TOPIC) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=[1, 2],
        isr=[1, 2],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[DIRECTORY, UUID(int=0xD2)],
        eligible_leader_replicas=[2],
        last_known_elr=[1],
    )


def replayed(*records: object) -> MetadataDelta:
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in records:
        delta.replay(record)
    return delta


def test_every_definition_of_kafka_is_replayed() -> None:
    definitions = {cls.NAME for cls in classes("metadata", "metadata").values()}
    assert len(definitions) == 26
    handled = [set(REPLAYED), set(TRANSACTION_RECORDS)]
    assert set().union(*handled) == definitions
    assert sum(len(names) for names in handled) == len(definitions), "a record is handled in one way only"


def test_an_unknown_record_stops_the_replay_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoOpRecord, "NAME", "RecordOfTomorrow")
    with pytest.raises(MetadataError, match="holds a RecordOfTomorrow: it is unknown here"):
        MetadataDelta(EMPTY_IMAGE).replay(NoOpRecord())


def test_a_record_is_refused_through_the_loader_too() -> None:
    with pytest.raises(MetadataError, match="migrating from ZooKeeper"):
        MetadataLoader().load([ZkMigrationStateRecord(zk_migration_state=1)], 0, 1, 0)


ACL = Acl(2, "t", 4, "User:alice", "10.0.0.1", 3, 3)
ACL_RECORD = acl_record(UUID(int=8), ACL)


def test_acls() -> None:
    image = replayed(ACL_RECORD, acl_record(UUID(int=9), ACL)).apply(9, 2, 100)
    assert image.acls.get(UUID(int=8)) == ACL
    assert len(image.acls) == 2
    assert image.acls.has(ACL)
    delta = MetadataDelta(image)
    delta.replay(RemoveAccessControlEntryRecord(id=UUID(int=8)))
    after = delta.apply(10, 2, 100)
    assert len(after.acls) == 1
    assert after.acls.has(ACL), "the other record of the same ACL stays"
    assert not after.acls.has(ACL._replace(name="u"))
    assert len(image.acls) == 2
    assert [acl for found in image.acls.matching(AclFilter(2, "t")) if found for _, acl in [found]] == [ACL, ACL]
    assert list(image.acls.matching(AclFilter(3))) == []


def test_an_acl_that_comes_and_goes_within_a_delta_leaves_nothing() -> None:
    delta = replayed(ACL_RECORD, RemoveAccessControlEntryRecord(id=ACL_RECORD.id))
    assert delta.acls == {}
    with pytest.raises(MetadataError, match="does not exist"):
        delta.replay(RemoveAccessControlEntryRecord(id=ACL_RECORD.id))


@pytest.mark.parametrize(
    ("field", "code"),
    [("resource_type", 1), ("resource_type", 8), ("pattern_type", 2), ("operation", 16), ("permission_type", 1)],
)
def test_an_acl_with_an_unknown_code_is_refused(field: str, code: int) -> None:
    record = acl_record(UUID(int=8), ACL)
    setattr(record, field, code)
    with pytest.raises(MetadataError, match="that this version does not know"):
        replayed(record)


def test_acls_survive_a_checkpoint() -> None:
    image = replayed(ACL_RECORD, acl_record(UUID(int=9), ACL._replace(name="u"))).apply(9, 2, 100)
    values = list(encode_records(image_records(image), METADATA_VERSIONS[30]))
    again = replayed(*decode_records(values, "x")).apply(9, 2, 100)
    assert again.acls == image.acls


def test_topics_and_partitions() -> None:
    image = replayed(
        TopicRecord(name="clicks", topic_id=TOPIC),
        partition(1),
        partition(0),
        PartitionChangeRecord(partition_id=1, topic_id=TOPIC, isr=[2], leader=2, leader_recovery_state=1),
        PartitionChangeRecord(partition_id=1, topic_id=TOPIC, isr=[1, 2]),
    ).apply(9, 2, 100)
    assert image.topics_by_id[TOPIC] is image.topics_by_name["clicks"]
    first, second = image.topics_by_name["clicks"].partitions
    assert (first.leader, first.leader_epoch, first.partition_epoch, first.isr) == (1, 0, 0, (1, 2))
    assert (second.leader, second.leader_epoch, second.partition_epoch, second.isr) == (2, 1, 2, (1, 2))
    assert second.leader_recovery_state == 1
    assert first.directory(1) == DIRECTORY
    assert first.directory(3) is None
    assert (image.offset, image.epoch, image.timestamp_ms, image.partition_count) == (9, 2, 100, 2)


def test_a_deleted_topic_takes_its_configs_along() -> None:
    before = replayed(
        TopicRecord(name="clicks", topic_id=TOPIC),
        partition(),
        ConfigRecord(resource_type=2, resource_name="clicks", name="retention.ms", value="1"),
    ).apply(3, 1, 0)
    delta = MetadataDelta(before)
    delta.replay(RemoveTopicRecord(topic_id=TOPIC))
    delta.replay(TopicRecord(name="clicks", topic_id=OTHER))
    delta.replay(partition(0, OTHER))
    after = delta.apply(6, 1, 0)
    assert TOPIC not in after.topics_by_id
    assert after.topics_by_name["clicks"].id == OTHER
    assert after.topic_configs("clicks") == {}
    assert list(delta.deleted_topics) == [TOPIC]
    assert before.topic_configs("clicks") == {"retention.ms": "1"}, "the image before is as it was"


@pytest.mark.parametrize(
    "records",
    [
        [TopicRecord(name="a", topic_id=TOPIC), TopicRecord(name="a", topic_id=OTHER)],
        [RemoveTopicRecord(topic_id=TOPIC)],
        [partition()],
        [PartitionChangeRecord(partition_id=0, topic_id=TOPIC)],
        [TopicRecord(name="a", topic_id=TOPIC), PartitionChangeRecord(partition_id=0, topic_id=TOPIC)],
        [ClearElrRecord(topic_name="a")],
        [FenceBrokerRecord(id=1, epoch=1)],
        [UnfenceBrokerRecord(id=1, epoch=1)],
        [UnregisterBrokerRecord(broker_id=1, broker_epoch=1)],
        [REGISTER, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=6, fenced=1)],
        [REGISTER, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=9)],
        [RegisterBrokerRecord(broker_id=1, is_migrating_zk_broker=True)],
        [RegisterControllerRecord(controller_id=1, zk_migration_ready=True)],
        [ZkMigrationStateRecord(zk_migration_state=1)],
    ],
    ids=lambda records: records[-1].NAME,
)
def test_a_record_that_contradicts_what_came_before_is_an_error(records: list[object]) -> None:
    with pytest.raises(MetadataError):
        replayed(*records)


def test_a_hole_among_the_partitions_is_an_error() -> None:
    with pytest.raises(MetadataError, match="partition 1 of topic a exists, but not 0"):
        replayed(TopicRecord(name="a", topic_id=TOPIC), partition(1)).apply(2, 1, 0)


def test_elrs_are_cleared_for_one_topic_or_for_all() -> None:
    for name in ("a", ""):
        delta = replayed(TopicRecord(name="a", topic_id=TOPIC), partition(), ClearElrRecord(topic_name=name))
        cleared = delta.apply(2, 1, 0).topics_by_name["a"].partitions[0]
        assert (cleared.elr, cleared.last_known_elr) == ((), ())


def test_brokers() -> None:
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=-1)
    image = replayed(REGISTER, change).apply(1, 1, 0)
    broker = image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.active, broker.rack) == (7, False, True, "r")
    assert broker.endpoint("PLAINTEXT") == broker.endpoints[0]
    assert broker.endpoint("SSL") is None
    leaving = BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=7, in_controlled_shutdown=1, log_dirs=[OTHER], cordoned_log_dirs=[OTHER]
    )
    broker = replayed(REGISTER, change, leaving).apply(2, 1, 0).brokers[1]
    assert (broker.active, broker.log_dirs, broker.cordoned_log_dirs) == (False, (OTHER,), (OTHER,))
    assert replayed(REGISTER, UnfenceBrokerRecord(id=1, epoch=7)).apply(2, 1, 0).brokers[1].active
    unfenced_and_fenced = (REGISTER, UnfenceBrokerRecord(id=1, epoch=7), FenceBrokerRecord(id=1, epoch=7))
    assert replayed(*unfenced_and_fenced).apply(2, 1, 0).brokers[1].fenced
    assert not replayed(REGISTER, UnregisterBrokerRecord(broker_id=1, broker_epoch=7)).apply(2, 1, 0).brokers


def test_configs_features_producer_ids_controllers_and_records_that_change_nothing() -> None:
    image = replayed(
        ConfigRecord(resource_type=4, resource_name="", name="b", value="2"),
        ConfigRecord(resource_type=4, resource_name="", name="a", value="1"),
        ConfigRecord(resource_type=4, resource_name="1", name="a", value="1"),
        ConfigRecord(resource_type=4, resource_name="1", name="a", value=None),
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="group.version", feature_level=0),
        ProducerIdsRecord(broker_id=1, broker_epoch=7, next_producer_id=1000),
        RegisterControllerRecord(
            controller_id=1,
            end_points=[ControllerEndpoint(name="CONTROLLER", host="h", port=9093, security_protocol=0)],
        ),
        ZkMigrationStateRecord(zk_migration_state=0),
        NoOpRecord(),
    ).apply(9, 1, 0)
    assert list(image.configs.items()) == [((4, ""), {"a": "1", "b": "2"})]
    assert list(image.configs[4, ""]) == ["a", "b"], "in the order of their names"
    assert image.features == {"metadata.version": 30}
    assert image.next_producer_id == 1000
    assert image.controllers[1].endpoints[0].port == 9093


def test_the_version_of_a_record_follows_the_finalized_metadata_version() -> None:
    oldest, newest = METADATA_VERSIONS[25], METADATA_VERSIONS[30]
    assert [record_version(REGISTER, each) for each in (oldest, newest)] == [3, 4]
    assert [record_version(BrokerRegistrationChangeRecord(), each) for each in (oldest, newest)] == [2, 3]
    assert record_version(partition(), oldest) == 2
    assert record_version(PartitionChangeRecord(), oldest) == 2
    assert record_version(TopicRecord(), newest) == 0


@pytest.mark.parametrize("level", sorted(METADATA_VERSIONS))
def test_an_image_survives_its_records_at_every_level(level: int) -> None:
    image = replayed(
        FeatureLevelRecord(name="metadata.version", feature_level=level),
        REGISTER,
        RegisterControllerRecord(controller_id=1),
        TopicRecord(name="clicks", topic_id=TOPIC),
        partition(),
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[2], leader=2),
        ConfigRecord(resource_type=2, resource_name="clicks", name="retention.ms", value="1"),
        ProducerIdsRecord(broker_id=1, broker_epoch=7, next_producer_id=5000),
    ).apply(7, 3, 55)
    values = list(encode_records(image_records(image), METADATA_VERSIONS[level]))
    again = replayed(*decode_records(values, "checkpoint")).apply(7, 3, 55)
    assert again == image
