"""Cordoned log directories (KIP-1066): what they have stays, and nothing new comes."""

from __future__ import annotations

import pytest
from support.broker import Node

from penstock.errors import ErrorCode
from penstock.metadata.image import ConfigResource
from penstock.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from penstock.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


def cordon(node: Node, value: str | None) -> tuple[ErrorCode, str | None]:
    config = AlterableConfig(name="cordoned.log.dirs", config_operation=0 if value is not None else 1, value=value)
    resource = AlterConfigsResource(
        resource_type=ConfigResource.BROKER, resource_name=str(node.broker.node_id), configs=[config]
    )
    answer = node.connect().ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0]
    node.settle()
    return ErrorCode(answer.error_code), answer.error_message


def cordoned(node: Node) -> tuple[list[str], list[str]]:
    """As the broker says, and as the controller has heard."""
    answer = node.connect().ask(DescribeLogDirsRequest(topics=None), 5)
    registered = node.broker.image.brokers[node.broker.node_id].cordoned_log_dirs
    said = [result.log_dir for result in answer.results if result.is_cordoned]
    return said, [each.path for each in node.broker.logs.table.directories if each.id in registered]


@pytest.fixture
def node() -> Node:
    return Node(directories=2)


def test_a_broker_tells_the_controller_which_directories_get_nothing_new(node: Node) -> None:
    assert cordon(node, "/data/0")[0] is ErrorCode.NONE
    node.advance(100)
    assert cordoned(node) == (["/data/0"], ["/data/0"])
    node.create_topic("t", partitions=4)
    assert {node.broker.logs.directory_of("t", index).path for index in range(4)} == {"/data/1"}
    assert cordon(node, None)[0] is ErrorCode.NONE
    node.advance(100)
    assert cordoned(node) == ([], [])


def test_with_all_of_them_cordoned_no_topic_is_made(node: Node) -> None:
    assert cordon(node, "*")[0] is ErrorCode.NONE
    node.advance(100)
    assert cordoned(node) == (["/data/0", "/data/1"], ["/data/0", "/data/1"])
    wanted = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    answer = node.connect().ask(CreateTopicsRequest(topics=[wanted], timeout_ms=1_000), 7)
    assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_restart_keeps_the_cordon(node: Node) -> None:
    assert cordon(node, "/data/1")[0] is ErrorCode.NONE
    node.advance(100)
    node.restart()
    node.advance(100)
    assert cordoned(node) == (["/data/1"], ["/data/1"])


def test_nothing_moves_to_a_cordoned_directory(node: Node) -> None:
    node.create_topic("t")
    assert cordon(node, "/data/1")[0] is ErrorCode.NONE
    topics = [AlterReplicaLogDirTopic(name="t", partitions=[0])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/data/1", topics=topics)])
    answer = node.connect().ask(request, 2)
    assert answer.results[0].partitions[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_directory_that_the_broker_does_not_have_is_refused(node: Node) -> None:
    code, message = cordon(node, "/data/1,/elsewhere")
    assert code is ErrorCode.INVALID_REQUEST
    assert message is not None
    assert message.startswith("Invalid entry in cordoned.log.dirs: /elsewhere.")
