"""What readers of committed records see of a partition, whatever happens to its log in the middle of transactions."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from support.broker import Client, Node
from support.replicated import Cluster
from support.requests import batch, fetch, list_offsets, partitions_of, produce, values_of, wanted
from support.transactions import ScriptedCoordinator, ended, errors_of, in_transaction, marker, markers, transactional

from penstock.errors import ErrorCode
from penstock.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

ABORTED, COMMITTED, OPEN = 11, 12, 13
"""Producer ids of the transactions of `filled`."""


class Seen(NamedTuple):
    """What a reader of committed records is told: what it may read, the aborted transactions in it, and the end."""

    last_stable_offset: int
    aborted: list[tuple[int, int]]
    values: list[bytes]
    end_offset: int


def seen(client: Client, offset: int = 0, topic: str = "orders") -> Seen:
    """Reads as a consumer of committed records does, to the end."""
    values: list[bytes] = []
    aborted: list[tuple[int, int]] = []
    data = partitions_of(client.ask(fetch(topic, wanted(offset=offset), isolation_level=1), 12))[0]
    assert data.error_code == ErrorCode.NONE
    assert data.aborted_transactions is not None
    aborted += [(each.producer_id, each.first_offset) for each in data.aborted_transactions]
    values += [value for value in values_of(data) if value and value.isalpha()]
    answer = client.ask(list_offsets(topic, (0, -1), isolation_level=1), 7)
    return Seen(data.last_stable_offset, aborted, values, answer.topics[0].partitions[0].offset)


def begin(client: Client, producer_id: int, value: bytes, *, sequence: int = 0, epoch: int = 0) -> None:
    request = in_transaction(
        "orders", transactional(value, producer_id=producer_id, sequence=sequence, epoch=epoch), acks=1
    )
    assert client.ask(request, 11).responses[0].partition_responses[0].error_code == ErrorCode.NONE


def filled(client: Client) -> None:
    """Offsets: 0 plain, 1 to be aborted, 2 to be committed, 3 open, 4 aborted again, 5 abort, 6 commit, 7 plain."""
    client.ask(produce("orders", batch(b"first")), 9)
    begin(client, ABORTED, b"bad")
    begin(client, COMMITTED, b"good")
    begin(client, OPEN, b"open")
    begin(client, ABORTED, b"bad", sequence=1)
    assert ended(client, "orders", producer_id=ABORTED, commit=False) == {ErrorCode.NONE}
    assert ended(client, "orders", producer_id=COMMITTED) == {ErrorCode.NONE}
    client.ask(produce("orders", batch(b"last")), 9)


BEFORE = Seen(3, [(ABORTED, 1)], [b"first", b"bad", b"good"], 3)
"""As long as the open transaction is."""
AFTER = Seen(9, [(ABORTED, 1), (OPEN, 3)], [b"first", b"bad", b"good", b"open", b"bad", b"last"], 9)
"""When it has been aborted, too."""


@pytest.fixture
def node() -> Node:
    node = ScriptedCoordinator().node(directories=2)
    node.create_topic("orders")
    return node


def test_a_reader_of_committed_records_ends_where_the_oldest_transaction_is_open(node: Node) -> None:
    client = node.connect()
    filled(client)
    assert seen(client) == BEFORE
    uncommitted = partitions_of(client.ask(fetch("orders", wanted()), 12))[0]
    assert (uncommitted.last_stable_offset, uncommitted.high_watermark) == (3, 8)
    assert uncommitted.aborted_transactions is None
    ended(client, "orders", producer_id=OPEN, commit=False)
    assert seen(client) == AFTER


@pytest.mark.parametrize("offset", range(9))
def test_the_aborted_transactions_are_those_that_the_records_read_may_be_part_of(offset: int, node: Node) -> None:
    client = node.connect()
    filled(client)
    ended(client, "orders", producer_id=OPEN, commit=False)
    expected = [pair for pair, last in (((ABORTED, 1), 5), ((OPEN, 3), 8)) if last >= offset]
    assert seen(client, offset).aborted == expected


def test_a_fetch_that_gets_little_is_told_of_what_it_gets(node: Node) -> None:
    client = node.connect()
    filled(client)
    ended(client, "orders", producer_id=OPEN, commit=False)
    data = partitions_of(client.ask(fetch("orders", wanted(max_bytes=1), isolation_level=1), 12))[0]
    assert (values_of(data), data.aborted_transactions) == ([b"first"], [])


def test_a_fetch_that_waits_is_woken_by_the_marker(node: Node) -> None:
    client, other = node.connect(), node.connect()
    begin(client, COMMITTED, b"good")
    other.send(fetch("orders", wanted(), isolation_level=1, min_bytes=1, max_wait_ms=30_000), 12)
    begin(client, COMMITTED, b"more", sequence=1)
    assert not other.answers
    ended(client, "orders", producer_id=COMMITTED)
    assert values_of(partitions_of(other.receive())[0])[:2] == [b"good", b"more"]


@pytest.mark.parametrize("how", ["clean", "crash", "power failure"])
def test_a_restart_changes_nothing(how: str, node: Node) -> None:
    filled(node.connect())
    for _ in range(2):
        if how == "clean":
            node.restart()
        else:
            if how == "power failure":
                for log in (node.broker.logs.open_log("orders", 0),):
                    assert log is not None
                    log.flush(node.now_ms)  # type: ignore[union-attr]
                node.run()
            node.crash(power_failed=how == "power failure")
        client = node.connect()
        assert seen(client) == BEFORE
    ended(client, "orders", producer_id=OPEN, commit=False)
    assert seen(client) == AFTER
    node.restart()
    assert seen(node.connect()) == AFTER


def test_a_guard_does_not_survive_a_restart(node: Node) -> None:
    guards = []
    for _ in range(2):
        node.connect().ask(produce("orders", batch()), 9)
        partition = node.broker.replicas.in_use("orders", 0)
        assert partition is not None
        guards.append(partition.log.producers.guard(7, 0))
        node.restart()
    assert guards[0] is not guards[1]


def deleted(client: Client, offset: int) -> None:
    topic = DeleteRecordsTopic(name="orders", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    answer = client.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1_000), 2)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("offset", range(1, 9))
def test_deleted_records_do_not_hold_readers_back_and_a_transaction_that_lost_its_first_is_ended_all_the_same(
    offset: int, node: Node
) -> None:
    client = node.connect()
    filled(client)
    deleted(client, offset)
    for _ in range(2):
        found = seen(client, offset)
        assert (found.last_stable_offset, found.end_offset) == (max(3, offset), max(3, offset))
        node.restart()
        client = node.connect()
    assert ended(client, "orders", producer_id=OPEN, commit=False) == {ErrorCode.NONE}
    found = seen(client, offset)
    assert found.last_stable_offset == found.end_offset == 9
    assert (OPEN, 3) in found.aborted


def moved(node: Node, path: str) -> None:
    topics = [AlterReplicaLogDirTopic(name="orders", partitions=[0])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
    answer = node.connect().ask(request, 2)
    assert answer.results[0].partitions[0].error_code == ErrorCode.NONE
    node.advance(1_000)


def test_a_move_to_another_directory_takes_the_transactions_along(node: Node) -> None:
    client = node.connect()
    filled(client)
    replica = node.broker.logs.directory_of("orders", 0)
    target = next(each for each in node.broker.logs.table.directories if each is not replica)
    moved(node, target.path)
    assert node.broker.logs.directory_of("orders", 0) is target
    assert seen(client) == BEFORE
    begin(client, OPEN, b"open", sequence=1)
    ended(client, "orders", producer_id=OPEN, commit=False)
    assert seen(client).last_stable_offset == 10
    node.restart()
    assert seen(node.connect()).aborted == AFTER.aborted


# Several replicas


@pytest.fixture
def cluster() -> Cluster:
    coordinator = ScriptedCoordinator()
    cluster = Cluster(3, handlers=coordinator.handlers)
    cluster.create("__transaction_state")
    cluster.create("orders")
    return cluster


def settled(cluster: Cluster, client: Client, request: object, version: int) -> object:
    client.send(request, version)  # type: ignore[arg-type]
    cluster.advance(100)
    return client.receive()


def replicated(cluster: Cluster, leader: int = 1) -> Client:
    """Fills the partition on all replicas, with the open transaction."""
    client = cluster.client(leader)
    for producer_id, value in ((ABORTED, b"bad"), (COMMITTED, b"good"), (OPEN, b"open")):
        request = in_transaction("orders", transactional(value, producer_id=producer_id))
        answer = settled(cluster, client, request, 11)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE  # type: ignore[attr-defined]
    for producer_id, commit in ((ABORTED, False), (COMMITTED, True)):
        answer = settled(cluster, client, markers(marker("orders", producer_id=producer_id, commit=commit)), 2)
        assert set(errors_of(answer).values()) == {ErrorCode.NONE}
    return client


def test_a_new_leader_knows_the_transactions_and_ends_them(cluster: Cluster) -> None:
    before = seen(replicated(cluster))
    assert before == Seen(2, [(ABORTED, 0)], [b"bad", b"good"], 2)
    cluster.kill(1)
    cluster.change("orders", leader=2, isr=[2, 3])
    cluster.change("__transaction_state", leader=2, isr=[2, 3])
    cluster.settle()
    client = cluster.client(2)
    assert seen(client) == before
    request = in_transaction("orders", transactional(b"more", producer_id=OPEN, sequence=1))
    answer = settled(cluster, client, request, 11)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE  # type: ignore[attr-defined]
    settled(cluster, client, markers(marker("orders", producer_id=OPEN, commit=False)), 2)
    after = seen(client)
    assert (after.last_stable_offset, after.aborted) == (7, [(ABORTED, 0), (OPEN, 2)])


def test_a_marker_counts_only_once_it_is_replicated(cluster: Cluster) -> None:
    client = replicated(cluster)
    cluster.cut.update({(2, 1), (3, 1)})
    cluster.advance(600)
    client.send(markers(marker("orders", producer_id=OPEN)), 2)
    cluster.advance(100)
    assert not client.answers
    assert seen(cluster.client(1)).last_stable_offset == 2
    cluster.cut.clear()
    cluster.advance(2_000)
    assert seen(cluster.client(1)).last_stable_offset == 6


def test_a_marker_that_is_cut_opens_its_transaction_again_and_a_begin_that_is_cut_is_forgotten(
    cluster: Cluster,
) -> None:
    client = replicated(cluster)
    cluster.cut.update({(2, 1), (3, 1)})
    cluster.advance(600)
    begin(client, 14, b"lost")
    client.send(markers(marker("orders", producer_id=OPEN)), 2)
    cluster.advance(100)
    log = cluster.log(1, "orders")
    assert (log.log_end_offset, list(log.producers.ongoing.values())) == (7, [14])
    guard = log.producers.guard(15, 0)
    cluster.change("orders", leader=2, isr=[2, 3])
    cluster.cut.clear()
    cluster.advance(2_000)
    log = cluster.log(1, "orders")
    assert (log.log_end_offset, list(log.producers.ongoing.values())) == (5, [OPEN])
    assert log.producers.last_stable_offset(5) == 2
    assert 14 not in log.producers.producers
    assert log.producers.guard(15, 0) is not guard, "what was asked before the cut may have ended since"
    cluster.change("orders", leader=1)
    cluster.settle()
    assert seen(cluster.client(1)) == Seen(2, [(ABORTED, 0)], [b"bad", b"good"], 2)


def test_a_batch_that_was_verified_for_a_leader_of_before_is_refused(cluster: Cluster) -> None:
    replicated(cluster)
    cluster.change("__transaction_state", leader=3)
    cluster.cut.add((1, 3))
    client = cluster.client(1)
    client.send(in_transaction("orders", transactional(b"late", producer_id=20), timeout_ms=60_000), 12)
    cluster.advance(50)
    cluster.change("orders", leader=2)
    cluster.change("orders", leader=1)
    cluster.cut.clear()
    cluster.advance(2_000)
    found = client.receive().responses[0].partition_responses[0]
    assert found.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert 20 not in cluster.log(1, "orders").producers.producers


def test_a_coordinator_on_another_node_is_asked(cluster: Cluster) -> None:
    cluster.change("__transaction_state", leader=3)
    client = cluster.client(1)
    answer = settled(cluster, client, in_transaction("orders", transactional()), 12)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE  # type: ignore[attr-defined]
    cluster.kill(3)
    answer = settled(cluster, client, in_transaction("orders", transactional(producer_id=8)), 12)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS  # type: ignore[attr-defined]
    cluster.change("__transaction_state", leader=2)
    answer = settled(cluster, client, in_transaction("orders", transactional(producer_id=8), acks=1), 12)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE  # type: ignore[attr-defined]


def test_consumers_of_a_follower_see_what_is_committed_there() -> None:
    coordinator = ScriptedCoordinator()
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    cluster = Cluster(3, handlers=coordinator.handlers, replica_selector_class=selector)
    cluster.create("__transaction_state")
    cluster.create("orders")
    replicated(cluster)
    cluster.advance(600)
    topic_id = cluster.nodes[2].broker.image.topics_by_name["orders"].id
    data = partitions_of(cluster.client(2).ask(fetch(topic_id, wanted(), isolation_level=1), 13))[0]
    assert (data.error_code, data.last_stable_offset, values_of(data)) == (ErrorCode.NONE, 2, [b"bad", b"good"])
    assert [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()] == [(ABORTED, 0)]
