"""Produce with transactional batches: verified or added before the first append, and what may happen meanwhile."""

from __future__ import annotations

import pytest
from support.broker import Client, Node
from support.requests import batch, fetch, partitions_of, produce, produced, values_of, wanted
from support.transactions import (
    PRODUCER_ID,
    TRANSACTIONAL_ID,
    ScriptedCoordinator,
    ended,
    in_transaction,
    transactional,
    written,
)

from penstock.errors import ErrorCode
from penstock.metadata.names import INTERNAL_TOPICS
from penstock.node.limits import VERIFICATIONS_PER_REQUEST_MAX
from penstock.replication.rewrite import RewriteOperation
from penstock.security.authorizer import AclOperation, ResourceType


@pytest.fixture
def coordinator() -> ScriptedCoordinator:
    return ScriptedCoordinator()


@pytest.fixture
def node(coordinator: ScriptedCoordinator) -> Node:
    node = coordinator.node()
    node.create_topic("orders", partitions=3)
    return node


@pytest.fixture
def client(node: Node) -> Client:
    return node.connect()


def values(client: Client, partition: int = 0) -> list[bytes | None]:
    """The values in the log, those of open transactions too; markers have values of their own."""
    data = partitions_of(client.ask(fetch("orders", wanted(partition)), 12))[partition]
    return [value for value in values_of(data) if value is not None and len(value) < 6]


@pytest.mark.parametrize("version", range(3, 14))
def test_the_first_batch_of_a_transaction_is_verified_or_added_and_the_others_are_not(
    version: int, node: Node, client: Client, coordinator: ScriptedCoordinator
) -> None:
    topic = node.broker.image.topics_by_name["orders"]
    for sequence in range(2):
        request = in_transaction("orders", transactional(sequence=sequence))
        if version >= 13:
            request.topic_data[0].topic_id, request.topic_data[0].name = topic.id, ""
        found = client.ask(request, version).responses[0].partition_responses[0]
        assert (found.error_code, found.base_offset) == (ErrorCode.NONE, sequence)
    ((asked,),) = coordinator.transactions
    assert asked.transactional_id == TRANSACTIONAL_ID
    assert (asked.producer_id, asked.producer_epoch) == (PRODUCER_ID, 0)
    assert asked.verify_only is (version < 12)
    assert [(each.name, each.partitions) for each in asked.topics] == [("orders", [0])]


def test_all_partitions_of_a_request_are_verified_at_once_and_those_that_have_begun_are_left_out(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    written(client, "orders", transactional(), first=1)
    client.ask(in_transaction("orders", transactional(), transactional(sequence=1), transactional()), 12)
    assert [each.partitions for (asked,) in coordinator.transactions for each in asked.topics] == [[1], [0, 2]]


@pytest.mark.parametrize(
    ("said", "version", "answered"),
    [
        (ErrorCode.INVALID_TXN_STATE, 11, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 12, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, 9, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 9, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 3, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_a_coordinators_error_is_answered_as_producers_of_that_version_know_it(
    said: ErrorCode, version: int, answered: ErrorCode, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.says.append(said)
    found = written(client, "orders", transactional(), version=version)
    assert (found.error_code, found.base_offset, found.log_start_offset) == (answered, -1, -1)
    assert values(client) == []
    assert written(client, "orders", transactional(), version=version).error_code == ErrorCode.NONE


def test_an_error_of_one_partition_does_not_keep_the_others_back(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.says.append(lambda topic, index: ErrorCode.INVALID_TXN_STATE if index == 1 else ErrorCode.NONE)
    answer = client.ask(in_transaction("orders", *(transactional() for _ in range(3))), 11)
    codes = [each.error_code for each in answer.responses[0].partition_responses]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE]


def test_a_broker_that_may_not_ask_is_no_fault_of_the_producer(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.whole = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert written(client, "orders", transactional()).error_code == ErrorCode.INVALID_TXN_STATE


def test_concurrent_transactions_are_tried_again_for_as_long_as_the_settings_say(
    node: Node, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.says.extend([ErrorCode.CONCURRENT_TRANSACTIONS] * 2)
    client.send(in_transaction("orders", transactional()), 12)
    node.advance(19)
    assert len(coordinator.asked) == 1
    node.advance(30)
    assert len(coordinator.asked) == 3
    assert client.receive().responses[0].partition_responses[0].base_offset == 0
    coordinator.says.extend([ErrorCode.CONCURRENT_TRANSACTIONS] * 100)
    client.send(in_transaction("orders", transactional(), first=1), 12)
    node.advance(99)
    assert not client.answers
    node.advance(30)
    found = client.receive().responses[0].partition_responses[0]
    assert found.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(coordinator.asked) == 3 + 6


def test_the_settings_of_repetition_take_effect(coordinator: ScriptedCoordinator) -> None:
    node = coordinator.node(
        add_partitions_to_txn_retry_backoff_ms=500, add_partitions_to_txn_retry_backoff_max_ms=1_000
    )
    node.create_topic("orders")
    client = node.connect()
    coordinator.says.extend([ErrorCode.CONCURRENT_TRANSACTIONS] * 9)
    client.send(in_transaction("orders", transactional(), timeout_ms=30_000), 12)
    node.advance(999)
    assert len(coordinator.asked) == 2
    node.advance(20)
    assert client.receive().responses[0].partition_responses[0].error_code == ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_marker_that_comes_while_it_is_tried_again_does_not_void_the_next_try(
    node: Node, client: Client, coordinator: ScriptedCoordinator
) -> None:
    written(client, "orders", transactional())
    coordinator.says.append(ErrorCode.CONCURRENT_TRANSACTIONS)
    client.send(in_transaction("orders", transactional(b"next", epoch=1)), 12)
    assert ended(node.connect(), "orders", epoch=1, transaction_version=2) == {ErrorCode.NONE}
    node.advance(30)
    assert client.receive().responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert values(client) == [b"t", b"next"]


def test_a_marker_while_the_coordinator_is_asked_voids_its_answer(
    node: Node, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.silent = True
    client.send(in_transaction("orders", transactional()), 11)
    assert ended(node.connect(), "orders", commit=False) == {ErrorCode.NONE}
    coordinator.let_go(node)
    found = client.receive().responses[0].partition_responses[0]
    assert found.error_code == ErrorCode.INVALID_TXN_STATE
    assert values(client) == []


def test_a_marker_of_the_transaction_before_does_not_void_what_is_being_added(
    node: Node, client: Client, coordinator: ScriptedCoordinator
) -> None:
    written(client, "orders", transactional())
    coordinator.silent = True
    client.send(in_transaction("orders", transactional(b"next", epoch=1)), 12)
    assert ended(node.connect(), "orders", epoch=1, transaction_version=2) == {ErrorCode.NONE}
    coordinator.let_go(node)
    assert client.receive().responses[0].partition_responses[0].error_code == ErrorCode.NONE


def test_a_late_batch_of_an_ended_transaction_is_verified_and_refused(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    written(client, "orders", transactional(), version=11)
    assert ended(client, "orders", commit=False) == {ErrorCode.NONE}
    coordinator.says.append(ErrorCode.INVALID_TXN_STATE)
    late = written(client, "orders", transactional(b"late", sequence=1), version=11)
    assert late.error_code == ErrorCode.INVALID_TXN_STATE
    assert values(client) == [b"t"]


def test_a_zombie_is_refused_before_the_coordinator_is_asked(client: Client, coordinator: ScriptedCoordinator) -> None:
    written(client, "orders", transactional(epoch=3))
    found = written(client, "orders", transactional(epoch=2))
    assert (found.error_code, found.base_offset) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert len(coordinator.asked) == 1


def test_a_batch_does_not_overtake_an_earlier_one_whose_verification_failed(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.says.append(ErrorCode.NOT_COORDINATOR)
    assert written(client, "orders", transactional(sequence=0), version=11).error_code
    second = written(client, "orders", transactional(sequence=1), version=11)
    assert second.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [written(client, "orders", transactional(sequence=n), version=11).error_code for n in (0, 1)] == [0, 0]


def test_a_new_epoch_that_adds_its_partitions_begins_with_sequence_0(client: Client) -> None:
    found = written(client, "orders", transactional(sequence=5), version=12)
    assert found.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert written(client, "orders", transactional(sequence=5), first=1, version=11).error_code == ErrorCode.NONE


def test_a_batch_that_comes_again_gets_the_first_ones_offset(client: Client, coordinator: ScriptedCoordinator) -> None:
    assert written(client, "orders", transactional()).base_offset == 0
    assert written(client, "orders", transactional(sequence=1)).base_offset == 1
    assert written(client, "orders", transactional()).base_offset == 0
    assert len(coordinator.asked) == 1


def test_without_verification_old_versions_are_appended_at_once_and_new_ones_are_still_added(
    coordinator: ScriptedCoordinator,
) -> None:
    node = coordinator.node(transaction_partition_verification_enable=False)
    node.create_topic("orders", partitions=2)
    client = node.connect()
    assert written(client, "orders", transactional(), version=11).error_code == ErrorCode.NONE
    assert not coordinator.asked
    assert written(client, "orders", transactional(), version=12, first=1).error_code == ErrorCode.NONE
    assert len(coordinator.asked) == 1


def test_without_a_coordinator_the_producer_is_to_try_again() -> None:
    node = Node()
    node.create_topic("orders")
    client = node.connect()
    client.send(in_transaction("orders", transactional()), 12)
    node.advance(5)
    assert client.receive().responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert node.broker.verifier.failures == 1


def test_later_requests_of_the_connection_wait_and_those_of_others_do_not(
    node: Node, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.silent = True
    client.send(in_transaction("orders", transactional()), 12)
    client.send(in_transaction("orders", transactional(sequence=1)), 12)
    other = node.connect()
    assert other.ask(produce("orders", batch(b"other")), 9).responses[0].partition_responses[0].base_offset == 0
    coordinator.let_go(node)
    assert [client.receive().responses[0].partition_responses[0].base_offset for _ in range(2)] == [1, 2]


def test_a_silent_coordinator_ends_the_request_in_its_time_and_nothing_is_appended(
    node: Node, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.silent = True
    client.send(in_transaction("orders", transactional(), timeout_ms=500), 12)
    node.advance(510)
    assert client.receive().responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert produced(client, "orders", batch(), partition=2).error_code == ErrorCode.NONE, "the connection goes on"
    coordinator.let_go(node)
    assert values(client) == []
    assert written(client, "orders", transactional()).error_code == ErrorCode.NONE


def test_a_coordinator_that_is_silent_for_ever_is_given_up(
    node: Node, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.silent = True
    client.send(in_transaction("orders", transactional(), acks=1), 12)
    node.advance(30_100)
    assert client.receive().responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert values(client) == []


def test_acks_0_is_appended_once_verified_and_closes_the_connection_if_not(
    node: Node, client: Client, coordinator: ScriptedCoordinator
) -> None:
    client.send(in_transaction("orders", transactional(), acks=0), 12)
    client.asked.clear()
    assert values(node.connect()) == [b"t"]
    coordinator.says.append(ErrorCode.INVALID_TXN_STATE)
    client.send(in_transaction("orders", transactional(), acks=0, first=1), 12)
    assert client.closed is not None


def test_without_the_right_to_the_id_the_whole_request_is_refused(node: Node, client: Client) -> None:
    node.acls.refused = lambda operation, kind, name: (
        (operation, kind, name) == (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, TRANSACTIONAL_ID)
    )
    answer = client.ask(in_transaction("orders", transactional(), batch(b"plain")), 12)
    codes = {each.error_code for each in answer.responses[0].partition_responses}
    assert codes == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert values(client, 1) == []
    plain = client.ask(in_transaction("orders", batch(b"plain")), 12).responses[0].partition_responses[0]
    assert plain.error_code == ErrorCode.NONE, "the id means nothing without a transactional batch"
    client.send(in_transaction("orders", transactional(), acks=0), 12)
    assert client.closed is not None


def test_without_an_id_the_whole_request_is_refused(client: Client) -> None:
    answer = client.ask(produce("orders", batch(b"plain"), transactional()), 12)
    codes = {each.error_code for each in answer.responses[0].partition_responses}
    assert codes == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert values(client) == []


def test_a_request_of_two_producers_is_refused(client: Client, coordinator: ScriptedCoordinator) -> None:
    answer = client.ask(in_transaction("orders", transactional(), transactional(producer_id=8)), 12)
    codes = {each.error_code for each in answer.responses[0].partition_responses}
    assert codes == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert not coordinator.asked


def test_a_plain_batch_beside_a_transaction_is_appended(client: Client) -> None:
    answer = client.ask(in_transaction("orders", transactional(), batch(b"plain")), 12)
    assert [each.error_code for each in answer.responses[0].partition_responses] == [0, 0]


def test_a_leader_epoch_that_ends_meanwhile_refuses_the_batch(
    node: Node, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.silent = True
    client.send(in_transaction("orders", transactional()), 12)
    node.delete_topic("orders")
    coordinator.let_go(node)
    found = client.receive().responses[0].partition_responses[0]
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_log_that_was_closed_meanwhile_is_opened_and_the_batch_verified_again(
    node: Node, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.silent = True
    client.send(in_transaction("orders", transactional()), 12)
    partition = node.broker.replicas.in_use("orders", 0)
    assert partition is not None
    before = partition.log
    node.broker.logs.table.open_logs_max = 1
    for name in ("other", "another"):
        node.create_topic(name)
        produced(node.connect(), name, batch())
    assert before.closed
    coordinator.let_go(node)
    assert client.receive().responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert len(coordinator.asked) == 2
    assert partition.log is not before


def test_what_has_to_be_recompressed_keeps_its_guard(coordinator: ScriptedCoordinator) -> None:
    node = coordinator.node()
    node.create_topic("orders", compression_type="zstd")
    client = node.connect()
    assert written(client, "orders", transactional(b"x" * 100_000)).error_code == ErrorCode.NONE
    assert written(client, "orders", transactional(b"y" * 100_000, sequence=1)).error_code == ErrorCode.NONE


def test_the_connection_goes_on_once_when_what_was_not_verified_is_late(coordinator: ScriptedCoordinator) -> None:
    node = coordinator.node()
    node.create_topic("orders", compression_type="zstd")
    client = node.connect()
    assert written(client, "orders", transactional()).error_code == ErrorCode.NONE
    node.held = lambda operation: isinstance(operation, RewriteOperation)
    late = transactional(b"x" * 100_000, sequence=1)
    client.send(in_transaction("orders", late, timeout_ms=100), 12)
    node.advance(200)
    assert client.receive().responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    node.let_go()
    node.settle()
    assert written(client, "orders", transactional(sequence=2)).error_code == ErrorCode.NONE


def test_what_comes_while_a_coordinator_is_asked_goes_with_the_next_request(
    node: Node, coordinator: ScriptedCoordinator
) -> None:
    coordinator.silent = True
    count = VERIFICATIONS_PER_REQUEST_MAX + 50
    clients = [node.connect() for _ in range(count + 1)]
    for number, client in enumerate(clients):
        request = in_transaction("orders", transactional(producer_id=number), timeout_ms=10_000)
        request.transactional_id = "same-partition"  # of the topic of transactions
        if number:
            request.transactional_id = next(
                name for name in (f"{number}-{n}" for n in range(99)) if at(node, name) == at(node, "same-partition")
            )
        client.send(request, 12)
    assert [len(each) for each in coordinator.transactions] == [1]
    coordinator.let_go(node)
    assert [len(each) for each in coordinator.transactions] == [1, VERIFICATIONS_PER_REQUEST_MAX, 50]
    assert {client.receive().responses[0].partition_responses[0].error_code for client in clients} == {0}


def at(node: Node, transactional_id: str) -> int | None:
    return node.broker.verifier.coordinator_of(transactional_id)


def test_a_repeated_request_takes_the_place_of_the_one_that_waits(
    node: Node, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.silent = True
    first, second, third, zombie, newest = (node.connect() for _ in range(5))
    first.send(in_transaction("orders", transactional()), 12)
    second.send(in_transaction("orders", transactional(epoch=1), first=1), 12)
    third.send(in_transaction("orders", transactional(epoch=1), first=1), 12)
    zombie.send(in_transaction("orders", transactional(), first=2), 12)
    node.advance(5)
    assert second.receive().responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert zombie.receive().responses[0].partition_responses[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    newest.send(in_transaction("orders", transactional(epoch=2), first=2), 12)
    node.advance(5)
    assert third.receive().responses[0].partition_responses[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    coordinator.let_go(node)
    assert [each.receive().responses[0].partition_responses[0].error_code for each in (first, newest)] == [0, 0]


def test_clients_may_not_write_transactions_to_internal_topics(client: Client, node: Node) -> None:
    assert "__transaction_state" in INTERNAL_TOPICS
    found = written(client, "__transaction_state", transactional())
    assert found.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_verifications_are_counted_under_kafkas_names(
    client: Client, node: Node, coordinator: ScriptedCoordinator
) -> None:
    coordinator.says.append(ErrorCode.INVALID_TXN_STATE)
    written(client, "orders", transactional())
    written(client, "orders", transactional())
    found = {each.name: each.value for each in node.broker.metrics() if "addpartitionstotxn" in each.name}
    assert found["kafka_server_addpartitionstotxnmanager_verificationfailurerate_count"] == 1
    assert found["kafka_server_addpartitionstotxnmanager_verificationtimems_count"] == 2
