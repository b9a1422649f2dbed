"""Verifications of one transaction that wait for a coordinator together, and answers that make no sense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from support.transactions import PRODUCER_ID, TRANSACTIONAL_ID, ScriptedCoordinator, in_transaction, transactional

from penstock.errors import ErrorCode
from penstock.node import verification
from penstock.node.limits import VERIFICATIONS_WAITING_MAX
from penstock.node.verification import Errors, Operation

OFFSETS = "__consumer_offsets"


class Asking:
    """A node whose coordinator is silent, and what it was asked to verify: `ended` has the errors by name."""

    def __init__(self) -> None:
        self.coordinator = ScriptedCoordinator()
        self.node = self.coordinator.node()
        self.node.create_topic("orders", partitions=9)
        self.ended: dict[str, Errors] = {}
        self.coordinator.silent = True
        self.verify("under way", {"orders": [8]}, transactional_id="another")

    def verify(
        self,
        name: str,
        partitions: Mapping[str, Sequence[int]],
        *,
        transactional_id: str = TRANSACTIONAL_ID,
        producer_id: int = PRODUCER_ID,
        epoch: int = 0,
        operation: Operation = Operation.ADD_PARTITION,
    ) -> None:
        def done(errors: Errors, now_ms: int) -> None:
            assert name not in self.ended, "each is answered once"
            self.ended[name] = errors

        self.node.broker.verifier.verify(
            transactional_id,
            producer_id,
            epoch,
            partitions,
            operation=operation,
            done=done,
            now_ms=self.node.now_ms,
        )
        self.node.advance(5)

    def asked(self) -> list[tuple[int, dict[str, list[int]]]]:
        """What was asked about the transaction: its producer's epoch and the partitions, request by request."""
        return [
            (each.producer_epoch, {topic.name: topic.partitions for topic in each.topics})
            for request in self.coordinator.transactions
            for each in request
            if each.transactional_id == TRANSACTIONAL_ID
        ]


@pytest.fixture
def asking() -> Asking:
    return Asking()


def test_records_and_offsets_of_one_transaction_wait_together_and_are_verified_in_turn(asking: Asking) -> None:
    asking.verify("records", {"orders": [0, 1]})
    asking.verify("offsets", {OFFSETS: [0]})
    asking.verify("more", {"orders": [2]}, operation=Operation.GENERIC_ERROR_SUPPORTED)
    assert len(asking.node.broker.verifier) == 3
    assert not asking.ended
    asking.coordinator.let_go(asking.node)
    assert asking.ended == {"under way": {}, "records": {}, "offsets": {}, "more": {}}
    assert asking.asked() == [(0, {"orders": [0, 1]}), (0, {OFFSETS: [0]}), (0, {"orders": [2]})]
    assert len({len(each) for each in asking.coordinator.transactions}) == 1, "an id is once in a request"


def test_who_waits_for_another_producer_id_of_the_same_transactional_id_is_left_to_the_coordinator(
    asking: Asking,
) -> None:
    asking.verify("the last epoch", {"orders": [0]}, epoch=32766)
    asking.verify("the next producer id", {"orders": [0]}, producer_id=PRODUCER_ID + 1)
    asking.coordinator.let_go(asking.node)
    assert asking.ended == {"under way": {}, "the last epoch": {}, "the next producer id": {}}


def test_a_repeated_request_ends_only_the_one_that_it_repeats_and_a_newer_epoch_ends_all(asking: Asking) -> None:
    asking.verify("records", {"orders": [0, 1]})
    asking.verify("offsets", {OFFSETS: [0]})
    asking.verify("records again", {"orders": [1]})
    assert asking.ended == {"records": dict.fromkeys([("orders", 0), ("orders", 1)], ErrorCode.NETWORK_EXCEPTION)}
    asking.verify("zombie", {"orders": [7]}, epoch=-1)
    asking.verify("newer", {"orders": [3]}, epoch=1)
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH
    assert asking.ended["zombie"] == {("orders", 7): fenced}
    assert asking.ended["offsets"] == {(OFFSETS, 0): fenced}
    assert asking.ended["records again"] == {("orders", 1): fenced}
    asking.coordinator.let_go(asking.node)
    assert asking.ended["newer"] == {}
    assert asking.asked() == [(1, {"orders": [3]})]


def test_one_transaction_takes_no_more_than_all_places(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    assert VERIFICATIONS_WAITING_MAX > 2
    monkeypatch.setattr(verification, "VERIFICATIONS_WAITING_MAX", 2)
    for index in range(3):
        asking.verify(str(index), {"orders": [index]})
    assert asking.ended == {"2": {("orders", 2): ErrorCode.COORDINATOR_NOT_AVAILABLE}}
    asking.verify("0 again", {"orders": [0]})
    assert asking.ended["0"] == {("orders", 0): ErrorCode.NETWORK_EXCEPTION}, "it takes the place of the first"
    asking.coordinator.let_go(asking.node)
    assert asking.ended["1"] == asking.ended["0 again"] == {}
    assert len(asking.node.broker.verifier) == 0


def test_an_error_that_nobody_knows_is_one_of_the_server(asking: Asking) -> None:
    unknown: Any = 9_999
    asking.coordinator.says += [ErrorCode.NONE, lambda topic, index: unknown if index else ErrorCode.NONE]
    asking.verify("records", {"orders": [0, 1]})
    asking.coordinator.let_go(asking.node)
    assert asking.ended == {"under way": {}, "records": {("orders", 1): ErrorCode.UNKNOWN_SERVER_ERROR}}
    asking.coordinator.whole = unknown
    asking.verify("again", {"orders": [0]})
    assert asking.ended["again"] == {("orders", 0): ErrorCode.UNKNOWN_SERVER_ERROR}


@pytest.mark.parametrize("broken", ["errors_by_transaction", "in_request"])
def test_a_bug_leaves_nobody_without_an_answer(broken: str, asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    asking.node.bugs_expected = True

    def fail(*_: Any) -> Any:
        raise RuntimeError("planted")

    where: Any = verification if broken == "errors_by_transaction" else verification.Verification
    monkeypatch.setattr(where, broken, fail)
    asking.verify("records", {"orders": [0, 1]})
    asking.verify("offsets", {OFFSETS: [0]})
    asking.coordinator.let_go(asking.node)
    asking.node.advance(5)
    server = ErrorCode.UNKNOWN_SERVER_ERROR
    assert asking.ended["records"] == {("orders", 0): server, ("orders", 1): server}
    assert asking.ended["offsets"] == {(OFFSETS, 0): server}
    assert {str(bug) for bug in asking.node.bugs} == {"planted"}
    monkeypatch.undo()
    asking.verify("later", {"orders": [2]})
    assert asking.ended["later"] == {}


def test_a_producer_is_answered_when_the_coordinators_answer_makes_no_sense(asking: Asking) -> None:
    unknown: Any = 9_999
    asking.coordinator.silent, asking.coordinator.whole = False, unknown
    client = asking.node.connect()
    client.send(in_transaction("orders", transactional()), 12)
    asking.coordinator.let_go(asking.node)
    found = client.receive().responses[0].partition_responses[0]
    assert found.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
