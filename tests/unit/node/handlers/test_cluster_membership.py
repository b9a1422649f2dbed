"""Registrations, heartbeats, AlterPartition, AssignReplicasToDirs and ControllerRegistration, over the wire."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.broker import CLUSTER_ID, Client, Node

from penstock.errors import ErrorCode
from penstock.metadata.limits import LOST_CONNECTION_GRACE_MS
from penstock.protocol.messages import alter_partition_request as isr
from penstock.protocol.messages import assign_replicas_to_dirs_request as dirs
from penstock.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from penstock.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from penstock.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from penstock.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from penstock.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)

DIRECTORY = UUID(int=0xD002)


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def controller(node: Node) -> Client:
    return node.connect("CONTROLLER")


def registration(**changes: Any) -> BrokerRegistrationRequest:
    fields: dict[str, Any] = {
        "broker_id": 2,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": UUID(int=2),
        "listeners": [Listener(name="PLAINTEXT", host="localhost", port=9)],
        "features": [
            Feature(name="metadata.version", min_supported_version=25, max_supported_version=30),
            Feature(name="kraft.version", min_supported_version=0, max_supported_version=1),
            Feature(name="group.version", min_supported_version=0, max_supported_version=1),
            Feature(name="transaction.version", min_supported_version=0, max_supported_version=2),
        ],
        "log_dirs": [DIRECTORY],
        "rack": None,
    }
    return BrokerRegistrationRequest(**{**fields, **changes})


def join(node: Node, controller: Client) -> int:
    """Registers and unfences broker 2; its epoch."""
    epoch: int = controller.ask(registration(), 4).broker_epoch
    answer = controller.ask(heartbeat(node, epoch), 2)
    assert (answer.error_code, answer.is_fenced) == (ErrorCode.NONE, False)
    return epoch


def heartbeat(node: Node, epoch: int, **changes: Any) -> BrokerHeartbeatRequest:
    offset = changes.pop("current_metadata_offset", node.broker.image.offset)
    return BrokerHeartbeatRequest(broker_id=2, broker_epoch=epoch, current_metadata_offset=offset, **changes)


def create(node: Node, *replicas: int) -> UUID:
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment])
    [result] = node.connect().ask(CreateTopicsRequest(topics=[topic]), 7).topics
    assert result.error_code == ErrorCode.NONE, result.error_message
    topic_id: UUID = result.topic_id
    return topic_id


@pytest.mark.parametrize("version", range(5))
def test_a_broker_registers_in_every_version(node: Node, controller: Client, version: int) -> None:
    answer = controller.ask(registration(log_dirs=[DIRECTORY]) if version >= 2 else registration(log_dirs=[]), version)
    if version < 2:
        assert answer.error_code == ErrorCode.INVALID_REGISTRATION, "without directories nobody joins any more"
        return
    assert answer.error_code == ErrorCode.NONE
    assert node.broker.image.brokers[2].epoch == answer.broker_epoch
    assert node.broker.image.brokers[2].fenced


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "elsewhere"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"broker_id": 1}, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        ({"log_dirs": [UUID(int=1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        (
            {"features": [Feature(name="metadata.version", min_supported_version=7, max_supported_version=29)]},
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
)
def test_a_registration_that_cannot_be(
    node: Node, controller: Client, changes: dict[str, Any], code: ErrorCode
) -> None:
    assert controller.ask(registration(**changes), 4).error_code == code
    assert set(node.broker.image.brokers) == {1}


def test_a_broker_is_unfenced_once_it_has_its_own_registration(node: Node, controller: Client) -> None:
    epoch = controller.ask(registration(), 4).broker_epoch
    behind = controller.ask(heartbeat(node, epoch, current_metadata_offset=epoch - 1), 2)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    ready = controller.ask(heartbeat(node, epoch, current_metadata_offset=epoch), 2)
    assert (ready.is_caught_up, ready.is_fenced, ready.should_shut_down) == (True, False, False)
    assert node.broker.image.brokers[2].active


def test_a_heartbeat_of_another_life_is_stale(node: Node, controller: Client) -> None:
    epoch = join(node, controller)
    assert controller.ask(heartbeat(node, epoch - 1), 2).error_code == ErrorCode.STALE_BROKER_EPOCH
    unknown = BrokerHeartbeatRequest(broker_id=9, broker_epoch=3)
    assert controller.ask(unknown, 2).error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize("api", ["AlterPartition", "AssignReplicasToDirs", "AllocateProducerIds", "BrokerHeartbeat"])
def test_a_request_of_another_life_of_a_broker_changes_nothing(
    node: Node, controller: Client, api: str, change: int
) -> None:
    """Its process was killed, and what it had sent comes after its next registration; or it comes from nowhere."""
    epoch = join(node, controller) + change
    topic_id = create(node, 2, 1)
    partition = isr.PartitionData(
        partition_index=0, leader_epoch=0, partition_epoch=0, new_isr_with_epochs=[isr.BrokerState(broker_id=2)]
    )
    place = dirs.TopicData(topic_id=topic_id, partitions=[dirs.PartitionData(partition_index=0)])
    requests: dict[str, tuple[Any, int]] = {
        "AlterPartition": (
            isr.AlterPartitionRequest(
                broker_id=2, broker_epoch=epoch, topics=[isr.TopicData(topic_id=topic_id, partitions=[partition])]
            ),
            3,
        ),
        "AssignReplicasToDirs": (
            dirs.AssignReplicasToDirsRequest(
                broker_id=2, broker_epoch=epoch, directories=[dirs.DirectoryData(id=DIRECTORY, topics=[place])]
            ),
            0,
        ),
        "AllocateProducerIds": (AllocateProducerIdsRequest(broker_id=2, broker_epoch=epoch), 0),
        "BrokerHeartbeat": (heartbeat(node, epoch, want_fence=True), 2),
    }
    before = node.broker.image
    assert controller.ask(*requests[api]).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert node.broker.image is before


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_takes_a_replica_out_and_in(node: Node, controller: Client, version: int) -> None:
    epoch = join(node, controller)
    topic_id = create(node, 1, 2)
    own = node.broker.image.brokers[1].epoch

    def alter(partition_epoch: int, *replicas: tuple[int, int]) -> Any:
        partition = isr.PartitionData(partition_index=0, leader_epoch=0, partition_epoch=partition_epoch)
        if version >= 3:
            partition.new_isr_with_epochs = [isr.BrokerState(broker_id=b, broker_epoch=e) for b, e in replicas]
        else:
            partition.new_isr = [b for b, _ in replicas]
        topics = [isr.TopicData(topic_id=topic_id, partitions=[partition])]
        answer = controller.ask(isr.AlterPartitionRequest(broker_id=1, broker_epoch=own, topics=topics), version)
        assert answer.error_code == ErrorCode.NONE
        return answer.topics[0].partitions[0]

    out = alter(0, (1, own))
    assert (out.error_code, out.isr, out.leader_id, out.partition_epoch) == (ErrorCode.NONE, [1], 1, 1)
    assert alter(0, (1, own)).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert alter(1, (1, own), (2, epoch)).isr == [1, 2]
    if version >= 3:
        assert alter(2, (1, own), (2, epoch + 1)).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_broker_without_leaderships_may_stop_at_once(node: Node, controller: Client) -> None:
    epoch = join(node, controller)
    create(node, 1, 2)
    answer = controller.ask(heartbeat(node, epoch, want_shut_down=True), 2)
    assert (answer.should_shut_down, answer.is_fenced) == (True, True)
    assert node.broker.image.brokers[2].fenced
    assert node.broker.image.topics_by_name["t"].partitions[0].isr == (1,)


def test_a_broker_tells_its_directories(node: Node, controller: Client) -> None:
    epoch = join(node, controller)
    topic_id = create(node, 1, 2)
    wanted = dirs.AssignReplicasToDirsRequest(
        broker_id=2,
        broker_epoch=epoch,
        directories=[
            dirs.DirectoryData(
                id=UUID(int=0xD003),
                topics=[
                    dirs.TopicData(
                        topic_id=topic_id,
                        partitions=[dirs.PartitionData(partition_index=0), dirs.PartitionData(partition_index=1)],
                    )
                ],
            )
        ],
    )
    [directory] = controller.ask(wanted, 0).directories
    codes = [each.error_code for each in directory.topics[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    partition = node.broker.image.topics_by_name["t"].partitions[0]
    assert (partition.directory(2), partition.isr) == (UUID(int=0xD003), (1,)), "it is not among those that work"


def test_a_controller_registers(node: Node, controller: Client) -> None:
    answer = controller.ask(ControllerRegistrationRequest(controller_id=5, incarnation_id=UUID(int=5)), 0)
    assert answer.error_code == ErrorCode.NONE
    assert node.broker.image.controllers[5].incarnation_id == UUID(int=5)


def test_a_connection_that_was_closed_here_does_not_hide_that_a_broker_is_gone(node: Node, controller: Client) -> None:
    epoch = join(node, controller)
    controller.send(heartbeat(node, epoch), 2)
    controller.send_bytes(b"\x00\x3f\x00\x7f\x00\x00\x00\x01\xff\xff\x00")  # BrokerHeartbeat, version 127
    assert controller.closed is not None
    again = node.connect("CONTROLLER")
    again.ask(heartbeat(node, epoch), 2)
    node.disconnect(again)
    node.advance(LOST_CONNECTION_GRACE_MS + 100)
    assert node.broker.image.brokers[2].fenced
