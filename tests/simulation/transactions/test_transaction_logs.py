"""The rules for the logs of simulated transactions, held against logs that were made by hand."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from penstock.protocol.messages.transaction.transaction_log_key import TransactionLogKey
from penstock.protocol.messages.transaction.transaction_log_value import TransactionLogValue
from penstock.protocol.record_frames import encode_coordinator_key, encode_coordinator_value
from penstock.records.builder import BatchBuilder
from penstock.records.control import ControlType, EndTransactionMarker, end_transaction_marker
from simulator.transactions.history import (
    ALL_OR_NOTHING,
    EPOCHS,
    ONLY_COMMITTED,
    LedgerHistory,
    Transaction,
    TransactionHistory,
)
from simulator.transactions.log_rules import ENDS, NOT_TWICE, ONE_MARKER, LedgerLog, stable_offset, whole
from simulator.transactions.readers import batches, committed_values
from simulator.transactions.state_log import FOLLOWS, FORGOTTEN, KNOWN, StateLog, Status
from simulator.world.checks import Violation

COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


class Log:
    """A log that is made by hand."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.end = 0

    def data(self, producer_id: int, epoch: int, *values: bytes) -> Log:
        builder = BatchBuilder(
            base_offset=self.end, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True
        )
        for value in values:
            builder.append(0, None, value)
        return self._add(builder.build(), len(values))

    def marker(self, producer_id: int, epoch: int, kind: ControlType) -> Log:
        marker = EndTransactionMarker(kind, 0)
        batch = end_transaction_marker(
            marker, producer_id=producer_id, producer_epoch=epoch, wall_ms=0, base_offset=self.end
        )
        return self._add(batch, 1)

    def _add(self, batch: bytearray, count: int) -> Log:
        self.content += batch
        self.end += count
        return self


class Known:
    """Transactions whose values begin with their names."""

    def __init__(self) -> None:
        self.history = TransactionHistory()
        self.ledger = LedgerHistory("clicks", 0, self.history)

    def transaction(self, name: str, identity: tuple[int, int], *values: bytes, commit: bool = True) -> Transaction:
        transaction = self.history.begin(name, identity, 0)
        for value in values:
            self.history.write(transaction, self.ledger.place, value)
        transaction.asked_commit = commit
        return transaction

    def check(self, log: Log, *, calm: bool = False) -> LedgerLog:
        rules = LedgerLog(self.ledger, calm=calm)
        rules.check(bytes(log.content), "clicks-0")
        return rules


@pytest.fixture
def known() -> Known:
    return Known()


def test_what_is_committed_is_told_from_what_is_not(known: Known) -> None:
    known.transaction("one", (1, 0), b"a", b"b")
    known.transaction("two", (2, 5), b"c")
    log = Log().data(1, 0, b"a").data(2, 5, b"c").marker(2, 6, ABORT).data(1, 0, b"b").marker(1, 0, COMMIT)
    rules = known.check(log, calm=True)
    assert rules.committed == {0: b"a", 3: b"b"}
    assert rules.records == {0: b"a", 1: b"c", 3: b"b"}


WRONG: dict[str, tuple[str, Callable[[Log], Log]]] = {
    "no marker": (ENDS, lambda log: log.data(1, 1, b"a")),
    "a marker of an earlier epoch": (EPOCHS, lambda log: log.data(1, 1, b"a").marker(1, 0, COMMIT)),
    "a marker of a much later epoch": (ONE_MARKER, lambda log: log.data(1, 1, b"a").marker(1, 3, COMMIT)),
    "an earlier epoch": (EPOCHS, lambda log: log.data(1, 1, b"a").marker(1, 2, COMMIT).data(1, 1, b"b")),
    "a transaction that goes on after its end": (
        ONE_MARKER,
        lambda log: log.data(1, 1, b"a").marker(1, 1, COMMIT).data(1, 1, b"b").marker(1, 1, COMMIT),
    ),
    "two transactions with one end": (
        ONE_MARKER,
        lambda log: log.data(1, 1, b"a").data(1, 1, b"of another").marker(1, 1, COMMIT),
    ),
    "two epochs with one end": (
        ONE_MARKER,
        lambda log: log.data(1, 1, b"a").data(1, 2, b"b").marker(1, 2, COMMIT),
    ),
    "a commit that nobody asked for": (
        ONLY_COMMITTED,
        lambda log: log.data(1, 1, b"of another").marker(1, 1, COMMIT),
    ),
    "a marker too many where nothing fails": (
        NOT_TWICE,
        lambda log: log.data(1, 1, b"a").marker(1, 2, COMMIT).marker(1, 2, COMMIT).marker(1, 2, COMMIT),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_log_that_breaks_a_rule_is_found(known: Known, name: str) -> None:
    known.transaction("one", (1, 1), b"a", b"b")
    known.transaction("two", (1, 1), b"of another", commit=False)
    rule, make = WRONG[name]
    with pytest.raises(Violation, match=rule):
        known.check(make(Log()), calm=True)


def test_a_marker_that_ends_nothing_is_no_fault_where_nodes_fail(known: Known) -> None:
    known.transaction("one", (1, 1), b"a")
    known.check(Log().data(1, 1, b"a").marker(1, 2, COMMIT).marker(1, 2, COMMIT).marker(1, 2, COMMIT))


def test_a_transaction_does_not_end_in_two_ways(known: Known) -> None:
    known.transaction("one", (1, 1), b"a").settle(True, "elsewhere")
    with pytest.raises(Violation, match=ALL_OR_NOTHING):
        known.check(Log().data(1, 1, b"a").marker(1, 1, ABORT))


@pytest.mark.parametrize(
    ("high_watermark", "expected"),
    [(6, 0), (4, 0), (3, 0), (7, 2), (8, 4), (9, 9)],
)
def test_the_last_stable_offset_by_a_log(high_watermark: int, expected: int) -> None:
    log = Log().data(1, 0, b"a", b"b").data(2, 0, b"c").data(1, 0, b"d").data(3, 0, b"e", b"f")
    log.marker(1, 0, COMMIT).marker(2, 0, COMMIT).marker(3, 0, COMMIT)
    bytes_of_log = bytes(log.content)
    assert whole(bytes_of_log + bytes_of_log[:70]) == len(bytes_of_log)
    assert stable_offset(batches(bytes_of_log, "log"), high_watermark, 0) == expected
    assert stable_offset(batches(bytes_of_log, "log"), high_watermark, 5) == max(5, expected)


def test_an_open_transaction_holds_the_last_stable_offset() -> None:
    log = Log().data(1, 0, b"a").marker(1, 0, COMMIT).data(2, 0, b"c").data(1, 0, b"d")
    assert stable_offset(batches(bytes(log.content), "log"), 4, 0) == 2
    assert stable_offset(batches(bytes(log.content), "log"), 1, 0) == 0
    assert stable_offset(batches(bytes(log.content), "log"), 1, 0, loaded_to=4) == 1


@pytest.mark.parametrize(("loaded_to", "expected"), [(0, 0), (7, 2), (8, 4), (9, 6)])
def test_a_log_that_was_loaded_knows_only_the_markers_from_then_on(loaded_to: int, expected: int) -> None:
    log = Log().data(1, 0, b"a", b"b").data(2, 0, b"c").data(1, 0, b"d").data(3, 0, b"e", b"f")
    log.marker(1, 0, COMMIT).marker(2, 0, COMMIT).marker(3, 0, COMMIT)
    assert stable_offset(batches(bytes(log.content), "log"), 6, 0, loaded_to=loaded_to) == expected


def test_a_reader_of_committed_records_passes_over_aborted_ones() -> None:
    log = Log().data(1, 0, b"a").data(2, 0, b"c").marker(1, 0, ABORT).data(1, 0, b"d").marker(2, 0, COMMIT)
    aborted = [SimpleNamespace(producer_id=1, first_offset=0)]
    data = SimpleNamespace(aborted_transactions=aborted, records=bytes(log.content), last_stable_offset=5)
    assert committed_values(data, 0, "reader") == ({1: b"c", 3: b"d"}, 5)
    data.last_stable_offset = 4
    with pytest.raises(Violation, match=ONLY_COMMITTED):
        committed_values(data, 0, "reader")


# The log of the coordinators


def state_log(*states: tuple[Status, int, int]) -> bytes:
    """Of one transactional id: status, producer id and epoch, one after the other."""
    content = bytearray()
    for offset, (status, producer_id, epoch) in enumerate(states):
        builder = BatchBuilder(base_offset=offset)
        value = TransactionLogValue(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_timeout_ms=1,
            transaction_status=status,
            transaction_partitions=[],
        )
        key = encode_coordinator_key(TransactionLogKey(transactional_id="payer-0"))
        builder.append(0, key, encode_coordinator_value(value, 0))
        content += builder.build()
    return bytes(content)


def checked(known: Known, *states: tuple[Status, int, int], cleaned: bool = False) -> StateLog:
    log = StateLog(known.history, cleaned=cleaned)
    assert log.check(state_log(*states), "__transaction_state-0") == len(states)
    log.check_whole()
    return log


S = Status


def test_the_states_of_a_transaction(known: Known) -> None:
    known.transaction("one", (1, 0)).settle(True, "its producer was told so")
    states = [(S.EMPTY, 1, 0), (S.ONGOING, 1, 0), (S.PREPARE_COMMIT, 1, 1), (S.COMPLETE_COMMIT, 1, 1)]
    assert checked(known, *states, (S.PREPARE_ABORT, 1, 2), (S.COMPLETE_ABORT, 2, 0)).commits == {1: 1}


@pytest.mark.parametrize(
    ("states", "rule"),
    [
        ([(S.ONGOING, 1, 0), (S.PREPARE_COMMIT, 1, 1), (S.ONGOING, 1, 1)], FORGOTTEN),
        ([(S.ONGOING, 1, 0), (S.PREPARE_COMMIT, 1, 1), (S.COMPLETE_ABORT, 1, 1)], FORGOTTEN),
        ([(S.ONGOING, 1, 0), (S.PREPARE_ABORT, 1, 1)], ENDS),
        ([(S.ONGOING, 1, 0)], ENDS),
        ([(S.EMPTY, 1, 0), (S.PREPARE_COMMIT, 1, 1)], FOLLOWS),
        ([(S.ONGOING, 1, 1), (S.PREPARE_ABORT, 1, 0)], EPOCHS),
        ([(S.ONGOING, 2, 0), (S.PREPARE_COMMIT, 2, 1), (S.COMPLETE_COMMIT, 2, 1)], ONLY_COMMITTED),
        ([(S.EMPTY, 1, 0)], KNOWN),
    ],
)
def test_states_that_break_a_rule_are_found(known: Known, states: list[tuple[Status, int, int]], rule: str) -> None:
    known.transaction("one", (1, 0)).settle(True, "its producer was told so")
    with pytest.raises(Violation, match=rule):
        checked(known, *states)


def test_of_a_compacted_log_the_last_states_count(known: Known) -> None:
    known.transaction("one", (1, 0)).settle(True, "its producer was told so")
    checked(known, (S.ONGOING, 1, 0), (S.COMPLETE_COMMIT, 1, 1), cleaned=True)
    with pytest.raises(Violation, match=ENDS):
        checked(known, (S.COMPLETE_COMMIT, 1, 1), (S.ONGOING, 1, 1), cleaned=True)
