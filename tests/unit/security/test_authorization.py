"""Every API has its row in the authorization table, and a refusal reaches the client as Kafka's error."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.broker import Node
from support.requests import batch, fetch, list_offsets, partitions_of, produced, wanted

from penstock.errors import ErrorCode
from penstock.guardian.core.handlers import handlers as guardian_handlers
from penstock.metadata.names import METADATA_TOPIC
from penstock.node import gate
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
from penstock.security import rights
from penstock.security.authorizer import ANONYMOUS, AclOperation, AllowAll, Principal, ResourceType
from penstock.security.rights import ROWS, Right, Row

NODE = Path(gate.__file__).parent
AT_HOME = {
    ApiKey.FETCH: (NODE / "fetches.py",),
    ApiKey.FIND_COORDINATOR: (NODE / "groups.py", NODE / "transactions.py"),
}
"""Where the rights of an API are asked for when it is not in its handler's module."""
BY_THE_GATE = {rights.DESCRIBE_CLUSTER}
"""Asked for by the gate itself, for the bit field of what may be done with the cluster."""


ASKED: Any = SimpleNamespace(
    connection=SimpleNamespace(principal=ANONYMOUS, address="127.0.0.1"), api=SimpleNamespace(name="CreateTopics")
)


def rights_in(file: Path) -> set[Right]:
    """Those that a module takes from the table."""
    found = set()
    for each in ast.walk(ast.parse(file.read_text())):
        if isinstance(each, ast.ImportFrom) and each.module == rights.__name__:
            taken = (getattr(rights, alias.name) for alias in each.names)
            found |= {right for right in taken if isinstance(right, Right)}
    return found


def test_every_api_has_its_row_and_no_other_has() -> None:
    assert set(ROWS) == set(registry()) | set(guardian_handlers())


@pytest.mark.parametrize("handler", registry().values(), ids=lambda handler: handler.key.name)
def test_a_handler_asks_for_what_its_row_names(handler: Handler) -> None:
    """The rights that its module takes are those of the rows of the module's APIs, and none is missing."""
    module = Path(sys.modules[handler.handle.__module__].__file__ or "")
    rows = [ROWS[each.key] for each in sys.modules[handler.handle.__module__].HANDLERS]
    named = {right for row in rows for right in row.named}
    taken = set().union(*map(rights_in, AT_HOME.get(handler.key, (module,))))
    assert taken | BY_THE_GATE == named | BY_THE_GATE


def test_the_gate_alone_asks_the_authorizer() -> None:
    asking = [path.name for path in NODE.rglob("*.py") if re.search(r"\.authorize\b", path.read_text())]
    assert asking == ["gate.py"]


def test_rows_are_kafkas() -> None:
    assert ROWS[ApiKey.API_VERSIONS] == Row(None, (), None)
    assert ROWS[ApiKey.PRODUCE].named[0] == Right(AclOperation.WRITE, ResourceType.TOPIC)
    assert ROWS[ApiKey.LIST_OFFSETS].named == (Right(AclOperation.DESCRIBE, ResourceType.TOPIC),)
    assert ROWS[ApiKey.OFFSET_COMMIT].named == (rights.READ_GROUP, rights.READ_TOPIC)
    assert ROWS[ApiKey.INIT_PRODUCER_ID].named == (rights.WRITE_TRANSACTIONAL_ID, rights.WRITE_IDEMPOTENTLY)
    assert ROWS[ApiKey.DESCRIBE_LOG_DIRS].first == Right(AclOperation.DESCRIBE, ResourceType.CLUSTER)


def test_a_right_on_the_cluster_does_as_well_where_the_row_says_so(node: Node) -> None:
    cases = (
        (rights.CREATE_TOPIC, AclOperation.CREATE),
        (rights.DELETE_TOPIC, AclOperation.DELETE),
        (rights.SEE_TOPIC_TO_DELETE, AclOperation.DELETE),
        (rights.LIST_GROUP, AclOperation.DESCRIBE),
    )
    for right, on_cluster in cases:
        node.acls.refused = lambda *asked, operation=on_cluster: asked[:2] != (operation, ResourceType.CLUSTER)
        assert node.broker.gate.allows(ASKED, right, "x")
        assert node.broker.gate.allowing(ASKED, right)("x")
        node.acls.refused = lambda *_: True
        assert not node.broker.gate.allows(ASKED, right, "x")
        assert not node.broker.gate.allowing(ASKED, right)("x")


def test_replicas_alone_fetch_on_controllers_listeners(node: Node) -> None:
    """Consumers need READ on topics, and have no business there."""
    (controllers,) = node.settings.controller_listener_names
    answer = node.connect(controllers).ask(fetch(METADATA_TOPIC, wanted()), 12)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_everybody_may_do_everything_without_an_authorizer() -> None:
    assert AllowAll().authorize(
        Principal("User", "x"), "127.0.0.1", AclOperation.ALTER, ResourceType.CLUSTER, "kafka-cluster"
    )


@pytest.fixture
def node() -> Node:
    made = Node()
    made.create_topic("denied")
    made.create_topic("allowed")
    made.acls.refused = lambda _, resource, name: resource is ResourceType.CLUSTER or name == "denied"
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


def test_no_log_is_opened_for_who_may_not_use_it(node: Node) -> None:
    client = node.connect()
    for topic, is_open in (("denied", False), ("allowed", True)):
        partitions = [DeleteRecordsPartition(offset=0)]
        client.ask(
            DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=1), 1
        )
        assert (node.broker.logs.open_log(topic, 0) is not None) is is_open


def test_the_cluster_is_refused_before_the_handler_runs(node: Node) -> None:
    client = node.connect()
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert client.ask(DescribeLogDirsRequest(topics=None), 4).error_code == refused
    node.acls.refused = lambda *_: True
    assert client.ask(InitProducerIdRequest(transactional_id=None), 4).error_code == refused


def test_a_refused_topic_that_does_not_exist_is_not_told_apart(node: Node) -> None:
    node.delete_topic("denied")
    assert produced(node.connect(), "denied", batch()).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
