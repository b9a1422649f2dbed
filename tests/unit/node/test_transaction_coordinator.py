"""Transactions of clients on a node: the APIs of the coordinator, version by version, and bad requests."""

from __future__ import annotations

from typing import Any

import pytest
from support.broker import Client, Node
from support.group_requests import find
from support.transaction_requests import (
    ALONE,
    ID,
    TIMEOUT_MS,
    TRANSACTION_KEY,
    add,
    add_offsets,
    batch_of,
    begin,
    codes_of,
    coordinate,
    described,
    end,
    init,
    transaction,
)

from penstock.coordinator.limits import LISTED_PATTERN_WORK, LISTED_TRANSACTIONS_PER_STEP
from penstock.coordinator.transaction.describe import list_filter
from penstock.coordinator.transaction.transaction import Producer
from penstock.errors import ErrorCode
from penstock.metadata.features import SUPPORTED_FEATURES, TRANSACTION_VERSION
from penstock.node.transactions import TRANSACTIONS_TOPIC
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.list_transactions_request import ListTransactionsRequest
from penstock.protocol.messages.list_transactions_response import ListTransactionsResponse
from penstock.security.authorizer import AclOperation, ResourceType

NOBODY = Producer(99, 0)


@pytest.fixture
def node() -> Node:
    made = Node(**ALONE)
    made.create_topic("a", partitions=3)
    coordinate(made)
    return made


@pytest.fixture
def client(node: Node) -> Client:
    return node.connect()


def listed(client: Client, version: int = 2, **filters: Any) -> ListTransactionsResponse:
    answer = client.ask(ListTransactionsRequest(**filters), version)
    assert isinstance(answer, ListTransactionsResponse)
    return answer


def ids(answer: ListTransactionsResponse) -> list[str]:
    return sorted(each.transactional_id for each in answer.transaction_states)


def test_the_first_who_asks_has_the_topic_made_with_kafkas_configs(node: Node) -> None:
    assert len(node.broker.image.topics_by_name[TRANSACTIONS_TOPIC].partitions) == 2
    assert dict(node.broker.image.topic_configs(TRANSACTIONS_TOPIC)) == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": str(100 << 20),
        "unclean.leader.election.enable": "false",
    }


@pytest.mark.parametrize("version", range(1, 7))
def test_the_coordinator_is_found_in_every_version(client: Client, version: int) -> None:
    old = FindCoordinatorRequest(key_type=TRANSACTION_KEY, key="x")
    answer = client.ask(old if version < 4 else find("x", "y", kind=TRANSACTION_KEY), version)
    found = [answer] if version < 4 else answer.coordinators
    assert [(each.error_code, each.node_id) for each in found] == [(0, 1)] * (1 if version < 4 else 2)


@pytest.mark.parametrize("version", range(6))
def test_a_producer_begins_in_every_version(client: Client, version: int) -> None:
    assert begin(client, version=version).epoch == 0
    assert begin(client, version=version).epoch == 1


def test_the_first_producer_waits_for_a_producer_id(node: Node) -> None:
    node.held = lambda operation: "__cluster_metadata" in operation.order
    client = node.connect()
    client.send(init(), 5)
    assert not client.answers
    node.let_go()
    assert client.receive().error_code == ErrorCode.NONE


def test_a_transaction_of_version_1(node: Node, client: Client) -> None:
    producer = begin(client)
    assert set(codes_of(client.ask(add(producer, ("a", 0), ("a", 2)), 3).results_by_topic_v3_and_below)) == {
        ("a", 0),
        ("a", 2),
    }
    assert client.ask(add_offsets(producer), 4).error_code == ErrorCode.NONE
    topics = {each.topic: each.partitions for each in described(client).topics}
    assert topics == {"a": [0, 2], "__consumer_offsets": [0]}
    answer = client.ask(end(producer), 4)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, -1, -1)
    assert described(client).transaction_state == "CompleteCommit"
    assert client.ask(end(producer), 4).error_code == ErrorCode.NONE, "a repeated end"
    assert client.ask(end(producer, commit=False), 4).error_code == ErrorCode.INVALID_TXN_STATE


def test_a_transaction_of_version_2(node: Node, client: Client) -> None:
    producer = begin(client)
    client.ask(batch_of(transaction(producer, ("a", 1))), 5)
    answer = client.ask(end(producer, commit=False), 5)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, producer.id, 1)
    assert described(client).transaction_state == "CompleteAbort"
    again = client.ask(end(producer, commit=False), 5)
    assert (again.error_code, again.producer_epoch) == (0, 1)


@pytest.mark.parametrize("level", range(SUPPORTED_FEATURES[TRANSACTION_VERSION][1] + 1))
def test_both_kinds_of_clients_are_served_at_each_level_of_the_cluster(level: int) -> None:
    node = Node(**ALONE, features={TRANSACTION_VERSION: level} if level else {})
    node.create_topic("a", partitions=3)
    coordinate(node)
    client = node.connect()
    old, new = begin(client, "old"), begin(client, "new")
    client.ask(add(old, ("a", 0), of="old"), 3)
    client.ask(batch_of(transaction(new, ("a", 0), of="new")), 5)
    assert client.ask(end(old, of="old"), 4).error_code == ErrorCode.NONE
    assert client.ask(end(new, of="new"), 5).producer_epoch == 1
    node.restart()
    client = node.connect()
    assert described(client, "old").transaction_state == "CompleteCommit"
    assert described(client, "new").producer_epoch == 1


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_a_fenced_producer_is_told_in_words_that_it_knows(client: Client, version: int, code: ErrorCode) -> None:
    old = begin(client)
    begin(client)
    assert codes_of(client.ask(add(old, ("a", 0)), version).results_by_topic_v3_and_below) == {("a", 0): code}
    assert client.ask(add_offsets(old), version).error_code == code
    assert client.ask(end(old), version).error_code == code
    told = client.ask(init(producer=Producer(old.id + 1, 0)), version + 2)
    assert told.error_code == code


def test_brokers_verify_and_add_for_several_transactions_at_once(client: Client) -> None:
    first, second = begin(client, "first"), begin(client, "second")
    request = batch_of(
        transaction(first, ("a", 0), of="first"),
        transaction(second, ("a", 1), of="second", verify=True),
        transaction(NOBODY, ("a", 2), of="unknown", verify=True),
        transaction(NOBODY, ("a", 2), of=""),
        transaction(second, ("a", 0), ("b", 0), ("a", 7), of="second"),
    )
    answer = client.ask(request, 5)
    assert [each.transactional_id for each in answer.results_by_transaction] == [
        "first",
        "second",
        "unknown",
        "",
        "second",
    ]
    assert [dict(codes_of(each.topic_results)) for each in answer.results_by_transaction] == [
        {("a", 0): ErrorCode.NONE},
        {("a", 1): ErrorCode.TRANSACTION_ABORTABLE},
        {("a", 2): ErrorCode.INVALID_PRODUCER_ID_MAPPING},
        {("a", 2): ErrorCode.INVALID_REQUEST},
        {
            ("a", 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
            ("a", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("b", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        },
    ]
    verified = client.ask(batch_of(transaction(first, ("a", 0), ("a", 1), of="first", verify=True)), 4)
    assert codes_of(verified.results_by_transaction[0].topic_results) == {
        ("a", 0): ErrorCode.NONE,
        ("a", 1): ErrorCode.TRANSACTION_ABORTABLE,
    }
    assert not client.ask(batch_of(), 5).results_by_transaction


def test_clients_add_no_internal_topics(client: Client) -> None:
    producer = begin(client)
    answer = client.ask(add(producer, (TRANSACTIONS_TOPIC, 0), ("a", 0)), 3)
    assert codes_of(answer.results_by_topic_v3_and_below) == {
        (TRANSACTIONS_TOPIC, 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ("a", 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
    assert described(client).transaction_state == "Empty"


def test_a_wide_transaction_is_served(node: Node, client: Client) -> None:
    node.create_topic("wide", partitions=3_000)
    producer = begin(client)
    answer = client.ask(add(producer, *(("wide", index) for index in range(3_000))), 3)
    assert set(codes_of(answer.results_by_topic_v3_and_below).values()) == {ErrorCode.NONE}
    client.ask(end(producer), 5)
    node.settle()
    node.advance(1_000)
    assert described(client).transaction_state == "CompleteCommit"


def test_rights(node: Node, client: Client) -> None:
    producer = begin(client)
    refused: list[tuple[AclOperation, ResourceType, str]] = []
    node.acls.refused = lambda *what: what in refused
    refused.append((AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, ID))
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert client.ask(init(), 5).error_code == code
    assert client.ask(end(producer), 5).error_code == code
    assert client.ask(add_offsets(producer), 4).error_code == code
    answer = client.ask(add(producer, ("a", 0)), 3)
    assert codes_of(answer.results_by_topic_v3_and_below) == {("a", 0): code}
    refused[:] = [(AclOperation.WRITE, ResourceType.TOPIC, "a")]
    answer = client.ask(add(producer, ("a", 0)), 3)
    assert codes_of(answer.results_by_topic_v3_and_below) == {("a", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    refused[:] = [(AclOperation.READ, ResourceType.GROUP, "g")]
    assert client.ask(add_offsets(producer), 4).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    refused[:] = [(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ID)]
    assert described(client).error_code == code
    assert ids(listed(client)) == []
    refused[:] = [(AclOperation.DESCRIBE, ResourceType.TOPIC, "a")]
    client.ask(add(producer, ("a", 0)), 3)
    assert (described(client).transaction_state, described(client).topics) == ("Ongoing", [])
    refused[:] = [(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, "kafka-cluster")]
    assert client.ask(init(None), 5).error_code == ErrorCode.NONE, "it may write to some topic"
    refused.append((AclOperation.WRITE, ResourceType.TOPIC, "any"))
    assert client.ask(init(None), 5).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert begin(client, "other").epoch == 0
    refused[:] = [(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster")]
    assert client.ask(batch_of(transaction(producer, ("a", 0))), 5).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_transactions_are_listed_by_state_producer_duration_and_pattern(node: Node, client: Client) -> None:
    for name in ("ab", "ac", "bc"):
        begin(client, name)
    producer = begin(client, "open")
    client.ask(add(producer, ("a", 0), of="open"), 3)
    node.advance(1_000)
    assert ids(listed(client, 0)) == ["ab", "ac", "bc", "open"]
    assert ids(listed(client, 0, state_filters=["Ongoing"])) == ["open"]
    assert ids(listed(client, 0, producer_id_filters=[producer.id])) == ["open"]
    answer = listed(client, 0, state_filters=["Ongoing", "Nonsense", "ongoing"])
    assert (ids(answer), answer.unknown_state_filters) == (["open"], ["Nonsense", "ongoing"])
    assert ids(listed(client, 0, state_filters=["Nonsense"])) == []
    assert ids(listed(client, 1, duration_filter=999, state_filters=["Ongoing"])) == ["open"]
    assert ids(listed(client, 1, duration_filter=1_000, state_filters=["Ongoing"])) == []
    assert ids(listed(client, transactional_id_pattern="a.*")) == ["ab", "ac"]
    assert ids(listed(client, transactional_id_pattern="b")) == [], "the whole id has to match"
    assert ids(listed(client, transactional_id_pattern="")) == ["ab", "ac", "bc", "open"]
    assert listed(client, transactional_id_pattern="(").error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a)*.*b$"])
def test_a_pattern_takes_no_longer_than_its_size_times_the_ids(client: Client, pattern: str) -> None:
    begin(client, "a" * 5_000)
    begin(client, "a" * 4_999 + "b")
    found = listed(client, transactional_id_pattern=pattern)
    assert found.error_code == ErrorCode.NONE
    assert [name[-1] for name in ids(found)] == (["b"] if "b" in pattern else ["a"])


def test_a_pattern_that_would_take_too_long_is_refused_and_long_ones_are_matched_in_more_steps(client: Client) -> None:
    """A match with this pattern may take a fifth of a second, as its automaton has no room."""
    for name in ("a", "ab" * 10_000):
        begin(client, name)
    hard = "(a|b)*a(a|b){500}c?"
    assert listed(client, transactional_id_pattern=hard).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert ids(listed(client, transactional_id_pattern="a|c")) == ["a"]
    wanted, _ = list_filter([], [], -1, hard)
    per_step = LISTED_TRANSACTIONS_PER_STEP * LISTED_PATTERN_WORK // (wanted.pattern.programsize * 100)
    sizes = [len(each) for each in wanted.portions(["a" * 100] * 1_000)]
    assert sum(sizes) == 1_000
    assert max(sizes) <= max(1, per_step) < LISTED_TRANSACTIONS_PER_STEP // 10
    everything, _ = list_filter([], [], -1, None)
    assert [len(each) for each in everything.portions(["a"] * 2_500)] == [1_000, 1_000, 500]


def test_a_pattern_that_an_unseen_id_is_too_long_for_does_not_tell_of_it(client: Client) -> None:
    hidden, hard = "ab" * 10_000, "(a|b)*a(a|b){500}c?"
    for name in ("a", hidden, "z"):
        begin(client, name)
    client.node.acls.refused = lambda operation, kind, name: name == hidden
    answer = listed(client, transactional_id_pattern=f"{hard}|z|a")
    assert (answer.error_code, sorted(ids(answer))) == (ErrorCode.NONE, ["a", "z"])


def test_what_nobody_knows(client: Client) -> None:
    assert described(client, "unknown").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert described(client, "").error_code == ErrorCode.INVALID_REQUEST
    assert client.ask(end(NOBODY), 5).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert client.ask(add_offsets(NOBODY), 4).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert client.ask(end(NOBODY, of=""), 5).error_code == ErrorCode.INVALID_REQUEST
    assert client.ask(add_offsets(NOBODY, of=""), 4).error_code == ErrorCode.INVALID_REQUEST
    assert client.ask(init(""), 5).error_code == ErrorCode.INVALID_REQUEST
    assert client.ask(init(timeout_ms=900_001), 5).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_without_the_topic_nobody_is_the_coordinator() -> None:
    client = Node(**ALONE).connect()
    assert client.ask(init(), 5).error_code == ErrorCode.NOT_COORDINATOR
    assert client.ask(end(NOBODY), 5).error_code == ErrorCode.NOT_COORDINATOR
    assert described(client).error_code == ErrorCode.NOT_COORDINATOR
    assert ids(listed(client)) == []


def test_a_transaction_that_nobody_ends_is_aborted_by_itself(node: Node, client: Client) -> None:
    producer = begin(client)
    client.ask(add(producer, ("a", 0)), 3)
    node.advance(TIMEOUT_MS + 10_000)
    assert described(client).transaction_state == "CompleteAbort"
    assert client.ask(end(producer), 4).error_code == ErrorCode.PRODUCER_FENCED


def test_open_transactions_and_epochs_survive_a_restart(node: Node, client: Client) -> None:
    producer = begin(client)
    client.ask(add(producer, ("a", 0)), 3)
    node.restart()
    client = node.connect()
    assert described(client).transaction_state == "Ongoing"
    assert client.ask(end(producer), 5).producer_epoch == 1
    assert described(client).transaction_state == "CompleteCommit"


def test_a_deleted_topic_holds_nothing_back(node: Node, client: Client) -> None:
    producer = begin(client)
    client.ask(add(producer, ("a", 0)), 3)
    node.delete_topic("a")
    assert client.ask(end(producer), 5).error_code == ErrorCode.NONE
    assert described(client).transaction_state == "CompleteCommit"


def test_metrics_tell_of_transactions(node: Node, client: Client) -> None:
    begin(client)
    samples = {sample.name: sample.value for sample in node.broker.metrics()}
    assert samples["penstock_transactional_ids"] == 1
    assert samples["penstock_transactions_ending"] == 0
