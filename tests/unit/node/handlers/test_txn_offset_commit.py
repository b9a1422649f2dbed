"""TxnOffsetCommit: verified or added before the first of a transaction, written once, and answered by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from support.broker import Client, Node
from support.group_requests import ALONE, appends, coordinate, fetch_offsets, heartbeat
from support.requests import batch, produced

from penstock.coordinator.runtime.transactions import TransactionEnd
from penstock.errors import ErrorCode
from penstock.node.groups import OFFSETS_TOPIC, complete_transaction
from penstock.node.verification import Operation, Verified
from penstock.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from penstock.security.authorizer import ResourceType

PLACE = (OFFSETS_TOPIC, 0)
VERSIONS = range(TxnOffsetCommitRequest.MAX_VERSION + 1)


class FakeVerifier:
    """A coordinator of transactions that says what the test wants.

    Attributes:
        asked: id, producer, epoch, partitions and operation of each verification.
        error: its answer. answers: whether it answers at once; else `answer` does.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.asked: list[tuple[str, int, int, Mapping[str, Sequence[int]], Operation]] = []
        self.error = ErrorCode.NONE
        self.answers = True
        self._waiting: list[Verified] = []

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Mapping[str, Sequence[int]],
        *,
        operation: Operation,
        done: Verified,
        now_ms: int,
    ) -> None:
        self.asked.append((transactional_id, producer_id, producer_epoch, partitions, operation))
        self._waiting.append(done)
        if self.answers:
            self.node.broker.scheduler.timers.at(now_ms, self._answer)

    def answer(self) -> None:
        self._answer(self.node.now_ms)
        self.node.run()
        self.node.settle()

    def _answer(self, now_ms: int) -> None:
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done({PLACE: self.error} if self.error else {}, now_ms)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    return node_with(monkeypatch)


def node_with(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Node:
    """A node with the topics `t` and `u` whose coordinator of transactions is a `FakeVerifier`."""
    made = Node(**ALONE, **settings)
    made.create_topic("t", partitions=3)
    made.create_topic("u")
    coordinate(made)
    monkeypatch.setattr(made.broker.calls, "verifier", FakeVerifier(made))
    return made


@pytest.fixture
def client(node: Node) -> Client:
    return node.connect()


def verifier_of(node: Node) -> FakeVerifier:
    verifier: Any = node.broker.verifier
    assert isinstance(verifier, FakeVerifier)
    return verifier


def commit(
    offsets: Mapping[tuple[str, int], int], *, group: str = "g", producer_id: int = 7, epoch: int = 0, **fields: Any
) -> TxnOffsetCommitRequest:
    """Offsets by topic and partition; the transactional id is `x`."""
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        wanted = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        topics.setdefault(topic, []).append(wanted)
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=group,
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
        **fields,
    )


def codes(answer: TxnOffsetCommitResponse) -> dict[tuple[str, int], int]:
    return {(topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions}


def end(node: Node, producer_id: int = 7, epoch: int = 0, *, commit: bool = True) -> list[ErrorCode]:
    """A marker, as WriteTxnMarkers has it written; what it is answered."""
    told: list[ErrorCode] = []
    marker = TransactionEnd(producer_id, epoch, commit, 0)
    groups = node.broker.coordinators.groups
    complete_transaction(groups, 0, marker, lambda code, now_ms: told.append(code), node.now_ms)
    node.broker.tick(node.now_ms)
    node.run()
    node.settle()
    return told


def offsets_of(client: Client, *partitions: int, stable: bool = False) -> list[tuple[int, int]]:
    """Code and offset of partitions of `t`."""
    answer = client.ask(fetch_offsets({"t": partitions}, require_stable=stable), 9)
    (topic,) = answer.groups[0].topics
    return [(each.error_code, each.committed_offset) for each in topic.partitions]


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_are_pending_until_the_marker_in_every_version(version: int, node: Node, client: Client) -> None:
    assert codes(client.ask(commit({("t", 0): 5, ("u", 0): 6}), version)) == {("t", 0): 0, ("u", 0): 0}
    assert offsets_of(client, 0) == [(0, -1)]
    assert offsets_of(client, 0, stable=True) == [(ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)]
    assert end(node) == [ErrorCode.NONE]
    assert offsets_of(client, 0, stable=True) == [(0, 5)]


@pytest.mark.parametrize(
    ("version", "operation"),
    [
        (0, Operation.DEFAULT_ERROR),
        (3, Operation.DEFAULT_ERROR),
        (4, Operation.GENERIC_ERROR_SUPPORTED),
        (5, Operation.ADD_PARTITION),
    ],
)
def test_the_first_commit_of_a_transaction_is_verified_and_by_new_clients_added(
    version: int, operation: Operation, node: Node, client: Client
) -> None:
    for offset in (5, 6):
        client.ask(commit({("t", 0): offset}, epoch=3), version)
    assert verifier_of(node).asked == [("x", 7, 3, {OFFSETS_TOPIC: [0]}, operation)]
    end(node, epoch=3)
    client.ask(commit({("t", 0): 7}, epoch=3), version)
    assert len(verifier_of(node).asked) == 2


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_what_is_not_verified_is_not_written(error: ErrorCode, told: ErrorCode, node: Node, client: Client) -> None:
    verifier_of(node).error = error
    assert codes(client.ask(commit({("t", 0): 5, ("t", 1): 6}), 5)) == {("t", 0): told, ("t", 1): told}
    assert offsets_of(client, 0, stable=True) == [(0, -1)]
    verifier_of(node).error = ErrorCode.NONE
    assert codes(client.ask(commit({("t", 0): 5}), 5)) == {("t", 0): 0}


@pytest.mark.parametrize(("version", "told"), [(1, "COORDINATOR_NOT_AVAILABLE"), (2, "COORDINATOR_LOAD_IN_PROGRESS")])
def test_clients_of_old_versions_are_not_told_that_a_coordinator_is_loading(
    version: int, told: str, node: Node, client: Client
) -> None:
    verifier_of(node).error = ErrorCode.NETWORK_EXCEPTION
    assert codes(client.ask(commit({("t", 0): 5}), version)) == {("t", 0): ErrorCode[told]}


@pytest.mark.parametrize(
    ("version", "epoch", "told"),
    [(4, 0, ErrorCode.INVALID_TXN_STATE), (5, 1, ErrorCode.INVALID_PRODUCER_EPOCH)],
)
def test_a_transaction_that_ends_while_it_is_verified_is_not_begun_again(
    version: int, epoch: int, told: ErrorCode, node: Node, client: Client
) -> None:
    verifier_of(node).answers = False
    client.send(commit({("t", 0): 5}), version)
    assert end(node, epoch=epoch, commit=False) == [ErrorCode.NONE]
    verifier_of(node).answer()
    assert codes(client.receive()) == {("t", 0): told}
    assert offsets_of(client, 0, stable=True) == [(0, -1)]


def test_the_late_marker_of_the_transaction_before_ends_no_verification_of_the_next(node: Node, client: Client) -> None:
    """With transaction.version 2 a marker has the epoch of the transaction that comes after it."""
    client.ask(commit({("t", 0): 5}), 5)
    verifier_of(node).answers = False
    client.send(commit({("t", 1): 6}, epoch=1), 5)
    assert end(node, epoch=1) == [ErrorCode.NONE]
    verifier_of(node).answer()
    assert codes(client.receive()) == {("t", 1): 0}
    assert offsets_of(client, 0, 1, stable=True) == [(0, 5), (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)]


def test_without_verification_old_clients_are_believed_and_new_ones_added_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = node_with(monkeypatch, transaction_partition_verification_enable=False)
    client = node.connect()
    client.ask(commit({("t", 0): 5}), 4)
    assert verifier_of(node).asked == []
    assert offsets_of(client, 0, stable=True) == [(ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)]
    client.ask(commit({("t", 0): 5}, producer_id=8), 5)
    assert len(verifier_of(node).asked) == 1


def test_what_comes_after_it_on_the_connection_waits_for_the_verification_and_others_do_not(
    node: Node, client: Client
) -> None:
    verifier_of(node).answers = False
    client.send(commit({("t", 0): 5}), 5)
    client.send(fetch_offsets({"t": [0]}, require_stable=True), 9)
    assert not client.answers
    assert offsets_of(node.connect(), 0, stable=True) == [(0, -1)]
    verifier_of(node).answer()
    assert codes(client.receive()) == {("t", 0): 0}
    (topic,) = client.receive().groups[0].topics
    assert topic.partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_who_is_gone_when_the_verification_ends_has_committed_all_the_same(node: Node, client: Client) -> None:
    verifier_of(node).answers = False
    client.send(commit({("t", 0): 5}), 5)
    node.disconnect(client)
    verifier_of(node).answer()
    assert offsets_of(node.connect(), 0, stable=True) == [(ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)]


def test_each_partition_that_does_not_exist_or_is_not_to_be_read_has_its_own_error(node: Node, client: Client) -> None:
    node.acls.refused = lambda operation, resource, name: name == "u"
    wanted = {("t", 0): 1, ("t", 3): 1, ("t", -1): 1, ("none", 0): 1, ("u", 0): 1}
    assert codes(client.ask(commit(wanted), 5)) == {
        ("t", 0): 0,
        ("t", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("u", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    verifier_of(node).asked.clear()
    assert codes(client.ask(commit({("none", 0): 1}, producer_id=8), 5)) == {
        ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    assert verifier_of(node).asked == []


def test_an_error_of_the_coordinator_is_that_of_the_partitions_that_it_was_asked_for(
    node: Node, client: Client
) -> None:
    wanted = commit({("t", 0): 1, ("t", 3): 1}, generation_id=4, member_id="m")
    assert codes(client.ask(wanted, 5)) == {
        ("t", 0): ErrorCode.ILLEGAL_GENERATION,
        ("t", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.parametrize(
    ("lacking", "told"),
    [
        (ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_who_may_not_write_for_the_id_or_read_the_group_commits_nothing(
    lacking: ResourceType, told: ErrorCode, node: Node, client: Client
) -> None:
    node.acls.refused = lambda operation, resource, name: resource is lacking
    assert codes(client.ask(commit({("t", 0): 1, ("none", 0): 1}), 5)) == {("t", 0): told, ("none", 0): told}
    assert verifier_of(node).asked == []


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"producer_id": -1}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"epoch": -1}, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_what_cannot_be_right_is_refused_before_anybody_is_asked(
    fields: dict[str, Any], told: ErrorCode, node: Node, client: Client
) -> None:
    assert codes(client.ask(commit({("t", 0): 1}, **fields), 5)) == {("t", 0): told}
    assert verifier_of(node).asked == []


def test_a_commit_that_fits_into_no_batch_is_refused_before_it_is_verified(node: Node, client: Client) -> None:
    wide = "w" * 200
    node.create_topic(wide, partitions=9_000)
    answer = client.ask(commit({(wide, index): 1 for index in range(9_000)}), 5)
    assert set(codes(answer).values()) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert verifier_of(node).asked == []


def test_who_does_not_coordinate_the_group_says_so_and_asks_nobody(client: Client) -> None:
    lonely = Node(offsets_topic_num_partitions=1)
    lonely.create_topic("t")
    answer = lonely.connect().ask(commit({("t", 0): 1}), 5)
    assert codes(answer) == {("t", 0): ErrorCode.NOT_COORDINATOR}


def test_who_does_not_lead_tells_the_coordinator_of_the_transaction_so(node: Node) -> None:
    lonely = Node(offsets_topic_num_partitions=1)
    assert end(lonely) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_the_answer_waits_for_the_disk_and_so_does_that_to_a_marker(node: Node, client: Client) -> None:
    node.held = appends
    client.send(commit({("t", 0): 5}), 5)
    assert not client.answers
    assert end(node) == []
    node.let_go()
    assert codes(client.receive()) == {("t", 0): 0}
    assert offsets_of(client, 0, stable=True) == [(0, 5)]


def test_open_transactions_survive_a_restart_and_a_crash(node: Node, client: Client) -> None:
    client.ask(commit({("t", 0): 5}), 5)
    client.ask(commit({("t", 1): 6}, producer_id=8), 5)
    assert end(node) == [ErrorCode.NONE]
    for again in (node.restart, lambda: node.crash(power_failed=False)):
        again()
        fresh = node.connect()
        assert offsets_of(fresh, 0, 1, stable=True) == [(0, 5), (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)]
    assert end(node, producer_id=8) == [ErrorCode.NONE]
    assert offsets_of(node.connect(), 0, 1, stable=True) == [(0, 5), (0, 6)]


def test_other_requests_of_the_group_go_on_meanwhile(node: Node, client: Client) -> None:
    verifier_of(node).answers = False
    client.send(commit({("t", 0): 5}), 5)
    other = node.connect()
    assert other.ask(heartbeat("nobody"), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert produced(other, "t", batch(b"v")).error_code == 0
