"""Every API has its row in the authorization table, and a refusal reaches the client as Kafka's error."""

from __future__ import annotations

import pytest
from support.broker import Node
from support.requests import batch, fetch, list_offsets, partitions_of, produced, wanted

from penstock.errors import ErrorCode
from penstock.node.handlers import registry
from penstock.node.request import Handler
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from penstock.security.authorizer import OPEN, AllowAll, Authorize, Operation, Principal, ResourceType

OPEN_TO_ALL = {ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER}
"""APIs that need no right: what a client asks before it is anybody, and where the cluster is."""


@pytest.mark.parametrize("handler", registry().values(), ids=lambda handler: handler.key.name)
def test_every_api_names_what_it_needs(handler: Handler) -> None:
    row = handler.authorize
    assert isinstance(row, Authorize)
    if handler.key in OPEN_TO_ALL:
        assert row == OPEN
    else:
        assert isinstance(row.operation, Operation)
        assert isinstance(row.resource, ResourceType)


def test_rows_are_kafkas() -> None:
    rows = {key: (handler.authorize.operation, handler.authorize.resource) for key, handler in registry().items()}
    assert rows[ApiKey.PRODUCE] == (Operation.WRITE, ResourceType.TOPIC)
    assert rows[ApiKey.FETCH] == (Operation.READ, ResourceType.TOPIC)
    assert rows[ApiKey.LIST_OFFSETS] == (Operation.DESCRIBE, ResourceType.TOPIC)
    assert rows[ApiKey.DELETE_RECORDS] == (Operation.DELETE, ResourceType.TOPIC)
    assert rows[ApiKey.INIT_PRODUCER_ID] == (Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
    assert rows[ApiKey.DESCRIBE_LOG_DIRS] == (Operation.DESCRIBE, ResourceType.CLUSTER)


def test_everybody_may_do_everything_without_an_authorizer() -> None:
    assert AllowAll().authorize(Principal("User", "x"), Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster")


class Denies:
    """Denies everything on what is called `denied`, and everything on the cluster."""

    def __init__(self) -> None:
        self.asked: list[tuple[Operation, ResourceType, str]] = []

    def authorize(self, principal: Principal, operation: Operation, resource: ResourceType, name: str) -> bool:
        self.asked.append((operation, resource, name))
        return resource is not ResourceType.CLUSTER and name != "denied"


@pytest.fixture
def node() -> Node:
    made = Node()
    made.create_topic("denied")
    made.create_topic("allowed")
    made.broker.authorizer = Denies()
    return made


def test_topics_are_refused_one_by_one(node: Node) -> None:
    client = node.connect()
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for topic, code in (("denied", refused), ("allowed", 0)):
        assert produced(client, topic, batch()).error_code == code
        assert partitions_of(client.ask(fetch(topic, wanted()), 12))[0].error_code == code
        assert client.ask(list_offsets(topic, (0, -1)), 7).topics[0].partitions[0].error_code == code
        epochs = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[OffsetForLeaderPartition()])]
        )
        assert client.ask(epochs, 3).topics[0].partitions[0].error_code == code
        deletion = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition()])], timeout_ms=1
        )
        assert client.ask(deletion, 1).topics[0].partitions[0].error_code == code


def test_the_cluster_is_refused_before_the_handler_runs(node: Node) -> None:
    client = node.connect()
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert client.ask(DescribeLogDirsRequest(topics=None), 4).error_code == refused
    assert client.ask(InitProducerIdRequest(transactional_id=None), 4).error_code == refused


def test_a_refused_topic_that_does_not_exist_is_not_told_apart(node: Node) -> None:
    node.delete_topic("denied")
    assert produced(node.connect(), "denied", batch()).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
