"""ElectLeaders, reassignments, UnregisterBroker and UpdateFeatures, over the wire of one node."""

from __future__ import annotations

import pytest
from support.broker import Node

from penstock.errors import ErrorCode
from penstock.metadata.partition_change import NO_LEADER_CHANGE
from penstock.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord
from penstock.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from penstock.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

NO_SUCH_BROKER = "The manual partition assignment includes broker 7, but no such broker is registered."


@pytest.fixture
def node() -> Node:
    node = Node()
    node.create_topic("clicks", 2)
    return node


def depose(node: Node, index: int) -> None:
    """Takes the leader from a partition, as if its broker had been away."""
    topic = node.broker.image.topics_by_name["clicks"]
    node.change([PartitionChangeRecord(partition_id=index, topic_id=topic.id, leader=-1)])


@pytest.mark.parametrize("version", range(3))
def test_a_partition_without_a_leader_gets_it_back(node: Node, version: int) -> None:
    depose(node, 1)
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="clicks", partitions=[0, 1, 2])])
    answer = node.connect().ask(request, version)
    [topic] = answer.replica_election_results
    assert topic.topic == "clicks"
    assert [(each.partition_id, each.error_code) for each in topic.partition_result] == [
        (0, ErrorCode.ELECTION_NOT_NEEDED),
        (1, ErrorCode.NONE),
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert topic.partition_result[2].error_message == "No such partition as clicks-2"
    assert node.broker.image.topics_by_name["clicks"].partitions[1].leader == 1


def test_an_election_of_all_names_only_those_that_needed_it(node: Node) -> None:
    depose(node, 1)
    answer = node.connect().ask(ElectLeadersRequest(election_type=1, topic_partitions=None), 2)
    [topic] = answer.replica_election_results
    assert [(each.partition_id, each.error_code) for each in topic.partition_result] == [(1, ErrorCode.NONE)]


def test_an_election_type_that_does_not_exist_is_an_error_of_every_partition(node: Node) -> None:
    request = ElectLeadersRequest(election_type=9, topic_partitions=[TopicPartitions(topic="clicks", partitions=[0])])
    answer = node.connect().ask(request, 2)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    [partition] = answer.replica_election_results[0].partition_result
    assert (partition.error_code, partition.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Unknown election type 9",
    )


def reassign(replicas: list[int] | None, topic: str = "clicks", index: int = 0) -> AlterPartitionReassignmentsRequest:
    partition = ReassignablePartition(partition_index=index, replicas=replicas)
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[partition])])


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    ("request_", "code", "sentence"),
    [
        (reassign([1]), ErrorCode.NONE, None),
        (reassign([7]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, NO_SUCH_BROKER),
        (
            reassign([]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            reassign(None),
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            None,
        ),
        (
            reassign([1], "missing"),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "Unable to find a topic named missing.",
        ),
        (
            reassign([1], index=5),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "Unable to find partition clicks:5.",
        ),
    ],
)
def test_a_reassignment_is_answered_partition_by_partition(
    node: Node, version: int, request_: AlterPartitionReassignmentsRequest, code: ErrorCode, sentence: str | None
) -> None:
    answer = node.connect().ask(request_, version)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    [partition] = answer.responses[0].partitions
    assert (partition.error_code, partition.error_message) == (code, sentence)


def test_what_is_in_progress_is_listed(node: Node) -> None:
    client = node.connect()
    assert client.ask(ListPartitionReassignmentsRequest(topics=None), 0).topics == []
    topic = node.broker.image.topics_by_name["clicks"]
    node.change(
        [
            PartitionChangeRecord(
                partition_id=1,
                topic_id=topic.id,
                leader=NO_LEADER_CHANGE,
                replicas=[1, 2],
                adding_replicas=[2],
                directories=[topic.partitions[1].directories[0]] * 2,
            )
        ]
    )
    [listed] = client.ask(ListPartitionReassignmentsRequest(topics=None), 0).topics
    [moving] = listed.partitions
    assert (listed.name, moving.partition_index) == ("clicks", 1)
    assert (moving.replicas, moving.adding_replicas, moving.removing_replicas) == ([1, 2], [2], [])
    named = [ListPartitionReassignmentsTopics(name="clicks", partition_indexes=[0])]
    assert client.ask(ListPartitionReassignmentsRequest(topics=named), 0).topics == []
    cancelled = client.ask(reassign(None, index=1), 1)
    assert cancelled.responses[0].partitions[0].error_code == ErrorCode.NONE
    assert client.ask(ListPartitionReassignmentsRequest(topics=None), 0).topics == []
    assert node.broker.image.topics_by_name["clicks"].partitions[1].replicas == (1,)


def test_a_broker_that_is_not_there_cannot_be_unregistered(node: Node) -> None:
    answer = node.connect().ask(UnregisterBrokerRequest(broker_id=7), 0)
    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert answer.error_message == "Broker ID 7 is not currently registered"


@pytest.mark.parametrize("caught_up", [True, False], ids=["ready", "coming up"])
def test_a_broker_that_lives_registers_again(node: Node, caught_up: bool) -> None:
    """Also one that had not yet read of its registration when it was unregistered."""
    node.broker.replicas.caught_up = node.broker.state.ready = node.broker.logs.table.begun = caught_up
    before = node.broker.image.brokers[1].epoch
    answer = node.connect().ask(UnregisterBrokerRequest(broker_id=1), 0)
    assert answer.error_code == ErrorCode.NONE
    node.settle()
    again = node.broker.image.brokers[1]
    assert again.epoch > before
    assert again.active
    assert node.broker.ready
    assert {each.leader for each in node.broker.image.topics_by_name["clicks"].partitions} == {1}


def update(name: str, level: int, upgrade_type: int = 1, *, validate_only: bool = False) -> UpdateFeaturesRequest:
    key = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
    return UpdateFeaturesRequest(feature_updates=[key], validate_only=validate_only)


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (
            update("metadata.version", 29),
            "Invalid update version 29 for feature metadata.version. Can't downgrade the version of this feature "
            "without setting the upgrade type to either safe or unsafe downgrade.",
        ),
        (
            update("metadata.version", 29, 2),
            "Unsupported metadata.version downgrade from 30 to 29. Refusing to perform the requested downgrade because "
            "it might delete metadata information.",
        ),
        (
            update("metadata.version", 29, 3),
            "Unsupported metadata.version downgrade from 30 to 29. Unsafe metadata downgrade is not supported in this "
            "version.",
        ),
        (
            update("metadata.version", 99),
            "Invalid update version 99 for feature metadata.version. Local controller 1 only supports versions 25-30",
        ),
        (
            update("share.version", 1),
            "Invalid update version 1 for feature share.version. Local controller 1 does not support this feature.",
        ),
        (
            update("group.version", 1, 0),
            "Invalid update version 1 for feature group.version. The controller does not support the given upgrade "
            "type.",
        ),
        (update("nothing", 0), "Invalid update version 0 for feature nothing. Feature nothing not found."),
    ],
)
def test_a_level_that_cannot_be_is_refused_with_the_reason(
    node: Node, request_: UpdateFeaturesRequest, sentence: str
) -> None:
    answer = node.connect().ask(request_, 2)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert answer.error_message == (
        f"The update failed for all features since the following feature had an error: {sentence}"
    )


@pytest.mark.parametrize("version", range(3))
def test_a_level_is_finalized(version: int) -> None:
    node = Node(release="4.1-IV1")
    client = node.connect()
    if version:
        assert client.ask(update("metadata.version", 29, validate_only=True), version).error_code == ErrorCode.NONE
        assert node.broker.image.metadata_version == 27
    answer = client.ask(update("metadata.version", 29), version)
    assert answer.error_code == ErrorCode.NONE
    assert [each.feature for each in answer.results] == (["metadata.version"] if version < 2 else [])
    assert node.broker.image.metadata_version == 29
    node.create_topic("after")
    node.restart()
    assert node.broker.image.metadata_version == 29
    assert "after" in node.broker.image.topics_by_name
