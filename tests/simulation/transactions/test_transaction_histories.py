"""What the clients know of simulated transactions: each rule is broken by what breaks it, and by nothing else."""

from __future__ import annotations

import pytest

from simulator.cluster.history import KEEPS, ONCE, SURVIVES, WRITTEN
from simulator.transactions.history import (
    ALL_OR_NOTHING,
    COUNT,
    EPOCHS,
    ONLY_COMMITTED,
    PENDING,
    LedgerHistory,
    Transaction,
    TransactionHistory,
)
from simulator.world.checks import Violation

GROUP = "group-of-chain-0"


@pytest.fixture
def history() -> TransactionHistory:
    return TransactionHistory()


@pytest.fixture
def ledger(history: TransactionHistory) -> LedgerHistory:
    return LedgerHistory("clicks", 0, history)


def begun(history: TransactionHistory, ledger: LedgerHistory, *values: bytes, name: str = "payer-0-1/1") -> Transaction:
    """A transaction whose values are sent, and not acknowledged."""
    transaction = history.begin(name, (1, 0), 0)
    for value in values:
        history.write(transaction, ledger.place, value)
        ledger.sent.add(value)
    return transaction


def test_a_transaction_that_is_committed_is_read_whole(history: TransactionHistory, ledger: LedgerHistory) -> None:
    transaction = begun(history, ledger, b"a", b"b")
    ledger.acknowledge(0, b"a", 0)
    ledger.acknowledge(1, b"b", 0)
    transaction.ask_commit()
    ledger.gave_committed(0, 3, {0: b"a", 1: b"b"}, "reader")
    transaction.settle(True, "its producer was told so")
    ledger.check_whole({0: b"a", 1: b"b"})


def test_a_record_is_not_read_before_a_commit_is_asked_for(history: TransactionHistory, ledger: LedgerHistory) -> None:
    begun(history, ledger, b"a")
    with pytest.raises(Violation, match=ONLY_COMMITTED):
        ledger.gave_committed(0, 1, {0: b"a"}, "reader")


def test_an_aborted_record_is_not_read(history: TransactionHistory, ledger: LedgerHistory) -> None:
    transaction = begun(history, ledger, b"a")
    transaction.settle(False, "its producer was told so")
    with pytest.raises(Violation, match=ONLY_COMMITTED):
        ledger.gave_committed(0, 1, {0: b"a"}, "reader")


def test_half_a_transaction_is_not_read(history: TransactionHistory, ledger: LedgerHistory) -> None:
    transaction = begun(history, ledger, b"a", b"b")
    ledger.acknowledge(0, b"a", 0)
    ledger.acknowledge(1, b"b", 0)
    transaction.ask_commit()
    with pytest.raises(Violation, match=ALL_OR_NOTHING):
        ledger.gave_committed(0, 3, {0: b"a"}, "reader")


def test_what_a_producer_was_told_is_so(history: TransactionHistory, ledger: LedgerHistory) -> None:
    transaction = begun(history, ledger, b"a")
    ledger.acknowledge(0, b"a", 0)
    transaction.ask_commit()
    transaction.settle(True, "its producer was told so")
    with pytest.raises(Violation, match=ALL_OR_NOTHING):
        ledger.gave_committed(0, 2, {}, "reader")


def test_where_no_answer_came_either_may_be_the_case(history: TransactionHistory, ledger: LedgerHistory) -> None:
    for number, (name, found) in enumerate((("payer-0-1/1", {0: b"a"}), ("payer-0-1/2", {}))):
        value = b"ab"[number : number + 1]
        transaction = begun(history, ledger, value, name=name)
        ledger.acknowledge(2 * number, value, 0)
        transaction.ask_commit()
        ledger.gave_committed(2 * number, 2 * number + 2, found, "reader")
        assert transaction.committed is bool(found)


def test_a_record_acknowledged_after_readers_have_passed_it_is_aborted(
    history: TransactionHistory, ledger: LedgerHistory
) -> None:
    transaction = begun(history, ledger, b"a")
    ledger.gave_committed(0, 2, {}, "reader")
    ledger.acknowledge(0, b"a", 0)
    assert transaction.committed is False


def test_what_is_of_no_transaction_is_not_passed_over(ledger: LedgerHistory) -> None:
    ledger.sent.add(b"plain")
    ledger.acknowledge(0, b"plain", 0)
    with pytest.raises(Violation, match=SURVIVES):
        ledger.gave_committed(0, 1, {}, "reader")


def test_a_reader_of_all_records_is_given_the_aborted_ones(history: TransactionHistory, ledger: LedgerHistory) -> None:
    begun(history, ledger, b"a")
    ledger.acknowledge(0, b"a", 0)
    with pytest.raises(Violation, match=SURVIVES):
        ledger.read_past(0, 2, set(), "reader")


@pytest.mark.parametrize(("offset", "value", "rule"), [(1, b"a", ONCE), (0, b"b", SURVIVES), (1, b"unknown", WRITTEN)])
def test_a_record_stays_where_it_is(
    history: TransactionHistory, ledger: LedgerHistory, offset: int, value: bytes, rule: str
) -> None:
    begun(history, ledger, b"a", b"b")
    ledger.acknowledge(0, b"a", 0)
    with pytest.raises(Violation, match=rule):
        ledger.saw(offset, value)


def test_an_offset_keeps_its_record(history: TransactionHistory, ledger: LedgerHistory) -> None:
    begun(history, ledger, b"a", b"b")
    ledger.saw(0, b"a")
    with pytest.raises(Violation, match=KEEPS):
        ledger.saw(0, b"b")


def test_what_was_acknowledged_is_there_in_the_end(history: TransactionHistory, ledger: LedgerHistory) -> None:
    begun(history, ledger, b"a")
    ledger.acknowledge(0, b"a", 0)
    with pytest.raises(Violation, match=SURVIVES):
        ledger.check_whole({})


def test_of_a_compacted_log_aborted_records_may_be_gone(history: TransactionHistory) -> None:
    ledger = LedgerHistory("clicks", 0, history, cleaned=True)
    begun(history, ledger, b"a")
    ledger.acknowledge(0, b"a", 0)
    ledger.read_past(0, 2, set(), "reader")
    ledger.check_whole({})


def test_an_offset_counts_when_its_transaction_is_committed(history: TransactionHistory, ledger: LedgerHistory) -> None:
    transaction = begun(history, ledger, name="chain-0-1/1")
    transaction.offset = 7
    with pytest.raises(Violation, match=PENDING):
        history.saw_offset(GROUP, 7, transaction.name)
    transaction.ask_commit()
    history.saw_offset(GROUP, 7, transaction.name)
    assert transaction.committed


@pytest.mark.parametrize(("offset", "name"), [(8, "chain-0-1/1"), (7, "chain-0-1/2")])
def test_an_offset_that_nobody_has_brought_is_found(
    history: TransactionHistory, ledger: LedgerHistory, offset: int, name: str
) -> None:
    begun(history, ledger, name="chain-0-1/1").offset = 7
    with pytest.raises(Violation, match=WRITTEN):
        history.saw_offset(GROUP, offset, name)


def test_offsets_and_records_share_their_fate(history: TransactionHistory, ledger: LedgerHistory) -> None:
    transaction = begun(history, ledger, b"a", name="chain-0-1/1")
    transaction.offset = 7
    ledger.acknowledge(0, b"a", 0)
    transaction.ask_commit()
    ledger.gave_committed(0, 2, {}, "reader")
    with pytest.raises(Violation, match=ALL_OR_NOTHING):
        history.saw_offset(GROUP, 7, transaction.name)


def test_a_chain_takes_a_record_once(history: TransactionHistory, ledger: LedgerHistory) -> None:
    for number in range(2):
        transaction = history.begin(f"chain-0-1/{number}", (1, 0), 0)
        value = b"made %d" % number
        history.write(transaction, ledger.place, value, b"source")
        ledger.sent.add(value)
        transaction.ask_commit()
    ledger.gave_committed(0, 1, {0: b"made 0"}, "reader")
    with pytest.raises(Violation, match=COUNT):
        ledger.gave_committed(1, 2, {1: b"made 1"}, "reader")


def test_two_processes_are_not_given_one_epoch(history: TransactionHistory) -> None:
    history.given("payer-0", (1, 0), "payer-0-1", None)
    history.given("payer-0", (1, 0), "payer-0-1", None)
    with pytest.raises(Violation, match=EPOCHS):
        history.given("payer-0", (1, 0), "payer-0-2", None)


@pytest.mark.parametrize("identity", [(1, 4), (1, 5)])
def test_epochs_go_on_only(history: TransactionHistory, identity: tuple[int, int]) -> None:
    with pytest.raises(Violation, match=EPOCHS):
        history.given("payer-0", identity, "payer-0-2", (1, 5))
    history.given("payer-0", (2, 0), "payer-0-2", (1, 5))
    assert history.newest("payer-0") == (2, 0)
