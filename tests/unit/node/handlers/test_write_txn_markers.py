"""WriteTxnMarkers: transactions end in partitions, once all replicas have the marker, and only by who may end them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from support.broker import Client, Node
from support.replicated import Cluster
from support.requests import batch, fetch, partitions_of, produced, values_of, wanted
from support.transactions import (
    PRODUCER_ID,
    ScriptedCoordinator,
    ended,
    errors_of,
    in_transaction,
    marker,
    markers,
    transactional,
    written,
)

from penstock.errors import ErrorCode
from penstock.log.directory_operations import OpenLog
from penstock.log.operations import Write
from penstock.node.groups import OFFSETS_TOPIC
from penstock.node.limits import LOGS_OPENED_AT_ONCE, MARKERS_SLOWEST_MS, PARTITIONS_PER_STEP
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord
from penstock.records.batch import headers
from penstock.records.control import ControlType, control_records
from penstock.security.authorizer import AclOperation, ResourceType


@pytest.fixture
def node() -> Node:
    node = ScriptedCoordinator().node()
    node.create_topic("orders", partitions=3)
    return node


@pytest.fixture
def client(node: Node) -> Client:
    return node.connect()


def committed(client: Client, partition: int = 0) -> tuple[int, list[int]]:
    """The last stable offset, and the first offsets of the aborted transactions below it."""
    data = partitions_of(client.ask(fetch("orders", wanted(partition), isolation_level=1), 12))[partition]
    return data.last_stable_offset, [each.first_offset for each in data.aborted_transactions or ()]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_ends_the_transaction_and_is_in_the_log_as_kafka_has_it(
    version: int, commit: bool, node: Node, client: Client
) -> None:
    written(client, "orders", transactional(b"value"))
    assert committed(client) == (0, [])
    assert ended(client, "orders", commit=commit, version=version, coordinator_epoch=4) == {ErrorCode.NONE}
    assert committed(client) == (2, [] if commit else [0])
    data = partitions_of(client.ask(fetch("orders", wanted(offset=1)), 12))[0]
    view = memoryview(bytes(data.records or b""))
    (header,) = [header for _, header in headers(view) if header.is_control]
    assert (header.producer_id, header.producer_epoch, header.is_transactional) == (PRODUCER_ID, 0, True)
    position = next(position for position, each in headers(view) if each.is_control)
    (record,) = control_records(view, header, position)
    assert record.type is (ControlType.COMMIT if commit else ControlType.ABORT)
    assert record.message is not None
    assert record.message.coordinator_epoch == 4  # type: ignore[union-attr]


def test_markers_of_several_producers_and_partitions_are_answered_together(client: Client) -> None:
    for producer_id in (7, 8):
        client.ask(in_transaction("orders", *(transactional(producer_id=producer_id) for _ in range(3))), 12)
    request = markers(
        marker("orders", 0, 1, 2, producer_id=7), marker("orders", 2, 0, producer_id=8, commit=False), marker("none")
    )
    assert errors_of(client.ask(request, 2)) == {
        **{(7, "orders", index): ErrorCode.NONE for index in range(3)},
        **{(8, "orders", index): ErrorCode.NONE for index in (0, 2)},
        (7, "none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [committed(client, index) for index in range(3)] == [(4, [1]), (1, []), (4, [1])]


def test_nothing_to_do_is_answered(client: Client) -> None:
    assert client.ask(markers(), 1).markers == []
    assert client.ask(markers(marker("orders")), 2).markers


def test_a_partition_that_is_named_twice_gets_one_marker(client: Client, node: Node) -> None:
    assert errors_of(client.ask(markers(marker("orders", 0, 0, 0)), 2)) == {(PRODUCER_ID, "orders", 0): ErrorCode.NONE}
    partition = node.broker.replicas.in_use("orders", 0)
    assert partition is not None
    assert partition.log_end_offset == 1


def test_many_partitions_are_done_in_steps(node: Node, client: Client) -> None:
    count = 3 * PARTITIONS_PER_STEP + 5
    node.create_topic("wide", partitions=count)
    assert ended(client, "wide", *range(count)) == {ErrorCode.NONE}


def test_a_marker_may_come_again(client: Client) -> None:
    written(client, "orders", transactional())
    for _ in range(3):
        assert ended(client, "orders", epoch=1, commit=False, transaction_version=2) == {ErrorCode.NONE}
    assert committed(client) == (4, [0])
    assert written(client, "orders", transactional(epoch=1)).error_code == ErrorCode.NONE


def test_a_marker_of_the_old_rules_has_the_epoch_of_the_transaction(client: Client) -> None:
    written(client, "orders", transactional(epoch=3), version=11)
    assert ended(client, "orders", epoch=2) == {ErrorCode.INVALID_PRODUCER_EPOCH}
    assert ended(client, "orders", epoch=3) == {ErrorCode.NONE}
    assert ended(client, "orders", epoch=3) == {ErrorCode.NONE}


def test_a_late_marker_of_the_new_rules_does_not_end_the_next_transaction(client: Client) -> None:
    written(client, "orders", transactional(epoch=1))
    assert ended(client, "orders", epoch=1, transaction_version=2) == {ErrorCode.INVALID_PRODUCER_EPOCH}
    assert committed(client) == (0, [])
    assert ended(client, "orders", epoch=2, transaction_version=2) == {ErrorCode.NONE}


@pytest.mark.parametrize("topic", ["orders", OFFSETS_TOPIC])
def test_a_marker_whose_sender_does_not_know_the_rules_is_refused_as_in_kafka(
    topic: str, node: Node, client: Client
) -> None:
    if topic == OFFSETS_TOPIC:
        node.create_topic(topic)
    else:
        written(client, topic, transactional())
    assert ended(client, topic, transaction_version=-1) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert ended(client, topic, 7, transaction_version=-1) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert committed(client) == (0, [])
    assert ended(client, topic, transaction_version=-2) == {ErrorCode.NONE}, "anything else below 2 is the old way"


def test_the_last_epoch_of_all_is_ended_though_it_cannot_be_raised(client: Client) -> None:
    written(client, "orders", transactional(epoch=32767))
    assert ended(client, "orders", epoch=32767, transaction_version=2) == {ErrorCode.NONE}


def test_a_coordinator_that_another_has_followed_is_fenced(client: Client) -> None:
    assert ended(client, "orders", coordinator_epoch=5) == {ErrorCode.NONE}
    written(client, "orders", transactional())
    assert ended(client, "orders", coordinator_epoch=4) == {ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    assert ended(client, "orders", coordinator_epoch=6) == {ErrorCode.NONE}


@pytest.mark.parametrize("fields", [{"producer_id": -1}, {"epoch": -1}, {"producer_id": -(1 << 63)}])
def test_a_marker_of_nobody_refuses_the_request(fields: dict[str, int], client: Client, node: Node) -> None:
    answer = client.ask(markers(marker("orders", 1), marker("orders", 0, **fields)), 2)
    assert set(errors_of(answer).values()) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    partition = node.broker.replicas.in_use("orders", 1)
    assert partition is None or not partition.log_end_offset


def test_strangers_end_nothing(node: Node, client: Client) -> None:
    written(client, "orders", transactional())
    node.acls.refused = lambda operation, kind, name: (
        kind is ResourceType.CLUSTER and operation in (AclOperation.CLUSTER_ACTION, AclOperation.ALTER)
    )
    answer = client.ask(markers(marker("orders", 0, 1), marker("none")), 2)
    assert set(errors_of(answer).values()) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert committed(client) == (0, [])


@pytest.mark.parametrize("has", [AclOperation.CLUSTER_ACTION, AclOperation.ALTER])
def test_brokers_and_administrators_may(has: AclOperation, node: Node, client: Client) -> None:
    node.acls.refused = lambda operation, kind, name: kind is ResourceType.CLUSTER and operation is not has
    assert ended(client, "orders") == {ErrorCode.NONE}


def test_the_answer_waits_for_the_disk(node: Node, client: Client) -> None:
    written(client, "orders", transactional())
    node.held = lambda operation: isinstance(operation, Write)
    client.send(markers(marker("orders")), 2)
    assert not client.answers
    assert committed(node.connect()) == (0, [])
    node.let_go()
    assert set(errors_of(client.receive()).values()) == {ErrorCode.NONE}
    assert committed(client) == (2, [])


def test_a_log_that_is_long_in_opening_keeps_the_others_waiting_a_second_at_most(node: Node, client: Client) -> None:
    node.broker.logs.table.open_logs_max = 1
    written(client, "orders", transactional())
    node.create_topic("other")
    written(client, "other", transactional())
    node.held = lambda operation: isinstance(operation, OpenLog) and operation.arguments.name == "orders-0"
    client.send(markers(marker("orders"), marker("other")), 2)
    node.advance(MARKERS_SLOWEST_MS + 10)
    assert errors_of(client.receive()) == {
        (PRODUCER_ID, "orders", 0): ErrorCode.REQUEST_TIMED_OUT,
        (PRODUCER_ID, "other", 0): ErrorCode.NONE,
    }
    client.send(markers(marker("orders")), 2)
    node.let_go()
    node.advance(10)
    assert set(errors_of(client.receive()).values()) == {ErrorCode.NONE}
    assert committed(client) == (2, []), "the marker of the request that was answered is not written late"


def test_logs_are_opened_a_few_at_a_time(node: Node, client: Client) -> None:
    """Whoever else needs the disk meanwhile waits for these only."""
    count = 3 * LOGS_OPENED_AT_ONCE
    node.broker.logs.table.open_logs_max = 1
    node.create_topic("many", partitions=count)
    assert ended(client, "many", *range(count)) == {ErrorCode.NONE}
    written(client, "orders", transactional())
    node.held = lambda operation: isinstance(operation, OpenLog)
    client.send(markers(marker("many", *range(count)), marker("orders")), 2)
    node.advance(10)
    assert len([each for each in node.waiting_operations if isinstance(each, OpenLog)]) == LOGS_OPENED_AT_ONCE
    assert committed(node.connect()) == (2, []), "a log that is open waits for none"
    node.let_go()
    assert set(errors_of(client.receive()).values()) == {ErrorCode.NONE}


def test_logs_that_open_when_nobody_waits_any_more_get_no_marker(node: Node, client: Client) -> None:
    count = 3 * LOGS_OPENED_AT_ONCE
    node.broker.logs.table.open_logs_max = 1
    node.create_topic("many", partitions=count)
    assert ended(client, "many", *range(count)) == {ErrorCode.NONE}
    written(client, "orders", transactional())
    node.held = lambda operation: isinstance(operation, OpenLog)
    client.send(markers(marker("many", *range(count)), marker("orders")), 2)
    node.advance(10)
    node.broker.disconnected(client.number, node.now_ms)
    node.run()
    node.advance(MARKERS_SLOWEST_MS + 50)
    opening = [each for each in node.waiting_operations if isinstance(each, OpenLog)]
    before = len(node.ran)
    node.let_go()
    assert len(opening) == LOGS_OPENED_AT_ONCE
    assert [each for each in node.ran[before:] if isinstance(each, OpenLog)] == opening, "no other one is opened"


def test_a_long_answer_leaves_once_though_a_log_opens_meanwhile(node: Node, client: Client) -> None:
    node.broker.logs.table.open_logs_max = 1
    node.create_topic("many", partitions=3)
    assert ended(client, "many", *range(3)) == {ErrorCode.NONE}
    written(client, "orders", transactional())
    node.held = lambda operation: isinstance(operation, OpenLog)
    more = [marker("orders", producer_id=10_000 + number) for number in range(700)]
    client.send(markers(marker("many", *range(3)), *more), 2)
    node.advance(MARKERS_SLOWEST_MS + 50)
    node.let_go()
    codes = errors_of(client.receive())
    assert [codes[PRODUCER_ID, "many", each] for each in range(3)] == [ErrorCode.REQUEST_TIMED_OUT] * 3
    assert ended(client, "orders") == {ErrorCode.NONE}, "the connection is open"


def waiting_for_one_log(node: Node, client: Client, count: int) -> None:
    """Many markers wait for the log of orders-0, which is open when this returns."""
    node.broker.logs.table.open_logs_max = 1
    written(client, "orders", transactional())
    node.create_topic("other")
    written(client, "other", transactional())
    assert node.broker.logs.open_log("orders", 0) is None
    node.held = lambda operation: isinstance(operation, OpenLog)
    client.send(markers(*(marker("orders", producer_id=10_000 + number) for number in range(count))), 2)
    node.settle()
    opening, node.waiting_operations, node.held = node.waiting_operations, [], None
    for operation in opening:
        node.operate(operation)
        node.run()


def orders_end(node: Node) -> int:
    log = node.broker.logs.open_log("orders", 0)
    assert log is not None
    return int(log.log_end_offset)


def test_what_has_waited_for_one_log_is_appended_in_turns_and_in_order(node: Node, client: Client) -> None:
    count = LOGS_OPENED_AT_ONCE + 3 * PARTITIONS_PER_STEP + 5
    waiting_for_one_log(node, client, count)
    ends = [1, orders_end(node)]
    while node.broker.scheduler.working:
        node.broker.tick(node.now_ms)
        node.run()
        ends.append(orders_end(node))
    turns = [end - before for before, end in pairwise(ends) if end > before]
    assert turns == [LOGS_OPENED_AT_ONCE, *3 * [PARTITIONS_PER_STEP], 5]
    node.settle()
    codes = errors_of(client.receive())
    assert codes == {(10_000 + number, "orders", 0): ErrorCode.NONE for number in range(count)}
    data = partitions_of(node.connect().ask(fetch("orders", wanted(offset=1)), 12))[0]
    producers = [header.producer_id for _, header in headers(memoryview(bytes(data.records or b"")))]
    assert producers == [10_000 + number for number in range(count)]


def test_markers_that_have_waited_are_refused_where_the_leadership_ends_between_two_turns(
    node: Node, client: Client
) -> None:
    count = LOGS_OPENED_AT_ONCE + 2 * PARTITIONS_PER_STEP
    waiting_for_one_log(node, client, count)
    node.broker.tick(node.now_ms)
    node.run()
    topic = node.broker.image.topics_by_name["orders"]
    node.change([PartitionChangeRecord(partition_id=0, topic_id=topic.id, leader=-1)])
    node.settle()
    codes = errors_of(client.receive())
    appended = LOGS_OPENED_AT_ONCE + PARTITIONS_PER_STEP
    for number in range(count):
        expected = ErrorCode.NONE if number < appended else ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert codes[10_000 + number, "orders", 0] == expected, number
    assert not client.answers, "there is one answer"
    assert not node.broker.scheduler.working


def test_markers_that_have_waited_until_the_answer_leaves_are_not_appended_late(node: Node, client: Client) -> None:
    count = LOGS_OPENED_AT_ONCE + 3 * PARTITIONS_PER_STEP
    waiting_for_one_log(node, client, count)
    node.broker.tick(node.now_ms)
    node.run()
    node.now_ms += MARKERS_SLOWEST_MS + 10
    node.settle()
    codes = errors_of(client.receive())
    appended = LOGS_OPENED_AT_ONCE + PARTITIONS_PER_STEP
    for number in range(count):
        expected = ErrorCode.NONE if number < appended else ErrorCode.REQUEST_TIMED_OUT
        assert codes[10_000 + number, "orders", 0] == expected, number
    assert orders_end(node) == 1 + appended
    assert not node.broker.scheduler.working


def test_a_marker_goes_into_a_topic_that_recompresses_and_one_that_is_compacted(node: Node, client: Client) -> None:
    node.create_topic("odd", cleanup_policy="compact", compression_type="gzip")
    written(client, "odd", transactional(b"x" * 1000))
    assert ended(client, "odd") == {ErrorCode.NONE}
    data = partitions_of(client.ask(fetch("odd", wanted(), isolation_level=1), 12))[0]
    assert values_of(data)[0] == b"x" * 1000


# Several replicas


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(3)
    cluster.create("orders")
    return cluster


def test_the_answer_waits_for_all_replicas(cluster: Cluster) -> None:
    cluster.settle()
    cluster.cut.update({(2, 1), (3, 1)})
    cluster.advance(600)
    client = cluster.client(1)
    client.send(markers(marker("orders")), 2)
    cluster.advance(100)
    assert not client.answers
    cluster.cut.clear()
    cluster.advance(2_000)
    assert set(errors_of(client.receive()).values()) == {ErrorCode.NONE}


def test_too_slow_replicas_are_told_and_the_marker_may_come_again() -> None:
    cluster = Cluster(3, request_timeout_ms=3_000)
    cluster.create("orders")
    cluster.settle()
    cluster.cut.update({(2, 1), (3, 1)})
    cluster.advance(600)
    client = cluster.client(1)
    client.send(markers(marker("orders")), 2)
    cluster.advance(3_100)
    assert set(errors_of(client.receive()).values()) == {ErrorCode.REQUEST_TIMED_OUT}
    cluster.cut.clear()
    cluster.advance(2_000)
    client.send(markers(marker("orders")), 2)
    cluster.advance(100)
    assert set(errors_of(client.receive()).values()) == {ErrorCode.NONE}


def test_a_slow_partition_keeps_the_answer_for_the_others_a_second_at_most(cluster: Cluster) -> None:
    cluster.create("fast", isr=(1,))
    cluster.settle()
    cluster.cut.update({(2, 1), (3, 1)})
    cluster.advance(600)
    client = cluster.client(1)
    client.send(markers(marker("orders"), marker("fast"), marker("fast", producer_id=8)), 2)
    cluster.advance(MARKERS_SLOWEST_MS - 10)
    assert not client.answers
    cluster.advance(30)
    assert errors_of(client.receive()) == {
        (PRODUCER_ID, "orders", 0): ErrorCode.REQUEST_TIMED_OUT,
        (PRODUCER_ID, "fast", 0): ErrorCode.NONE,
        (8, "fast", 0): ErrorCode.NONE,
    }
    client.send(markers(marker("orders")), 2)
    cluster.advance(3 * MARKERS_SLOWEST_MS)
    assert not client.answers, "by itself it has the whole time"
    cluster.cut.clear()
    cluster.advance(2_000)
    assert set(errors_of(client.receive()).values()) == {ErrorCode.NONE}


def test_a_leadership_that_ends_is_told(cluster: Cluster) -> None:
    cluster.settle()
    cluster.cut.update({(2, 1), (3, 1)})
    cluster.advance(600)
    client = cluster.client(1)
    client.send(markers(marker("orders")), 2)
    cluster.change("orders", leader=2)
    cluster.settle()
    assert set(errors_of(client.receive()).values()) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_who_does_not_lead_says_so_and_who_has_no_replica_does_not_know_it(cluster: Cluster) -> None:
    assert ended(cluster.client(2), "orders") == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    cluster.change("orders", replicas=[1, 2], isr=[1, 2])
    assert ended(cluster.client(3), "orders") == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_too_few_replicas_refuse_the_marker() -> None:
    cluster = Cluster(3, min_insync_replicas=3)
    cluster.create("orders", isr=(1, 2))
    assert ended(cluster.client(1), "orders") == {ErrorCode.NOT_ENOUGH_REPLICAS}


def test_a_plain_producer_does_not_notice(client: Client) -> None:
    assert produced(client, "orders", batch()).base_offset == 0
    assert ended(client, "orders") == {ErrorCode.NONE}
    assert produced(client, "orders", batch()).base_offset == 2
