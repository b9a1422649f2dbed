"""Records that belong to a producer's transaction, and the markers that end it."""

from __future__ import annotations

import pytest
from unit.coordinator.runtime.counters import Counters, Desk, P, number

from penstock.coordinator.runtime.result import Result
from penstock.coordinator.runtime.shard import ShardState
from penstock.coordinator.runtime.transactions import Transaction, TransactionEnd
from penstock.errors import ErrorCode
from penstock.records.batch import BatchHeader, read_header
from penstock.records.builder import BatchBuilder
from penstock.records.control import ControlType, EndTransactionMarker, control_records
from penstock.records.reader import records


def headers(desk: Desk) -> list[BatchHeader]:
    return [read_header(batch) for batch in desk.log.batches]


# Records


def test_records_of_a_transaction_are_a_batch_of_their_producer_and_are_appended_at_once() -> None:
    desk = Desk(linger_ms=5)
    desk.put("a", 1)
    desk.put_in_transaction("b", 2, producer_id=5, epoch=3)
    desk.put("c", 3)
    assert len(desk.log.batches) == 2
    desk.now_ms += 5
    desk.flush()
    found = [(each.is_transactional, each.is_control, each.producer_id, each.producer_epoch) for each in headers(desk)]
    assert found == [(False, False, -1, -1), (True, False, 5, 3), (False, False, -1, -1)]
    assert [each.base_sequence for each in headers(desk)] == [-1, -1, -1]
    assert desk.machine.producers == [(-1, -1), (5, 3), (-1, -1)]
    assert desk.answers == []
    desk.commit()
    assert desk.answers == ["a", "b", "c"]


def test_two_transactions_never_share_a_batch() -> None:
    desk = Desk()
    for producer_id in (5, 6, 5):
        desk.put_in_transaction("a", producer_id, producer_id=producer_id)
    assert [each.producer_id for each in headers(desk)] == [5, 6, 5]


def test_a_transaction_that_nobody_has_verified_writes_nothing() -> None:
    desk = Desk()
    desk.put("a", 1)
    result = Result("b", [number("b", 2)])
    desk.runtime.write(P, lambda machine: result, desk.done, desk.now_ms, transaction=Transaction(5, 0))
    assert desk.answers == [ErrorCode.INVALID_TXN_STATE]
    assert desk.numbers() == {"a": 1}
    desk.commit()
    assert desk.answers == [ErrorCode.INVALID_TXN_STATE, "a"]


def test_a_marker_that_comes_while_a_transaction_is_verified_makes_that_void() -> None:
    desk = Desk()
    guard = desk.runtime.guard(P, 5, 0, desk.now_ms)
    assert guard is not None
    desk.end(commit=False)
    result = Result("b", [number("b", 2)])
    desk.runtime.write(P, lambda machine: result, desk.done, desk.now_ms, transaction=Transaction(5, 0, guard))
    assert desk.answers == [ErrorCode.INVALID_TXN_STATE]
    assert desk.numbers() == {}


def test_a_transaction_that_is_open_here_needs_no_guard() -> None:
    desk = Desk()
    desk.put_in_transaction("a", 1)
    assert desk.runtime.guard(P, 5, 0, desk.now_ms) is None
    assert desk.runtime.guard(P, 5, 1, desk.now_ms) is not None
    desk.put_in_transaction("a", 2)
    assert desk.numbers() == {"a": 2}


def test_a_fenced_producer_is_refused_and_what_was_open_is_written() -> None:
    desk = Desk()
    desk.put_in_transaction("a", 1, epoch=4)
    desk.put("b", 2)
    result = Result("a", [number("a", 9)])
    desk.runtime.write(P, lambda machine: result, desk.done, desk.now_ms, transaction=Transaction(5, 3))
    desk.flush()
    desk.commit()
    assert desk.answers == [ErrorCode.INVALID_PRODUCER_EPOCH, "a", "b"]
    assert desk.numbers() == {"a": 1, "b": 2}


def test_a_transaction_is_refused_when_the_batch_before_it_is() -> None:
    desk = Desk()
    desk.put("a", 1)
    desk.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.put_in_transaction("b", 2)
    desk.log.refuses = None
    assert desk.answers == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    assert desk.numbers() == {}
    desk.put_in_transaction("b", 3)
    assert desk.numbers() == {"b": 3}


def test_records_of_a_transaction_that_fit_into_no_batch_are_refused() -> None:
    desk = Desk()
    desk.log.max_batch_bytes = 100
    result = Result("a", [number("a", each) for each in range(10)], atomic=False)
    transaction = Transaction(5, 0, desk.runtime.guard(P, 5, 0, desk.now_ms))
    desk.runtime.write(P, lambda machine: result, desk.done, desk.now_ms, transaction=transaction)
    assert desk.answers == [ErrorCode.RECORD_LIST_TOO_LARGE]
    assert desk.log.batches == []


def test_a_transaction_in_a_partition_that_another_wrote_to_is_refused_and_the_partition_loaded_anew() -> None:
    desk = Desk()
    builder = BatchBuilder()
    builder.append(0, b"\0\1\0\1x\0\1t\0\0\0\0", None)
    desk.log.append(builder.build(), desk.now_ms)
    desk.put_in_transaction("a", 1)
    assert desk.answers == [ErrorCode.NOT_COORDINATOR]
    desk.flush()
    desk.load()
    assert desk.shard.state is ShardState.ACTIVE
    desk.put_in_transaction("a", 1)
    assert desk.numbers() == {"a": 1}


# Markers


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_written_as_kafka_writes_it_and_replayed(commit: bool) -> None:
    desk = Desk()
    desk.put_in_transaction("a", 1, epoch=3)
    desk.put("b", 2)
    desk.end(commit=commit, epoch=3)
    assert desk.machine.markers == [((5, 3), commit)]
    header, batch = headers(desk)[-1], desk.log.batches[-1]
    assert (header.is_control, header.is_transactional, header.base_offset) == (True, True, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 3, -1)
    (record,) = control_records(batch, header)
    assert record.message == EndTransactionMarker(ControlType.COMMIT if commit else ControlType.ABORT, 0)
    assert record.timestamp_ms == desk.now_ms
    assert len(list(records(batch, header, 0))) == 1
    desk.commit()
    assert desk.answers == ["a", "b", TransactionEnd(5, 3, commit, 0)]


def test_a_marker_counts_for_readers_when_it_is_replicated_and_goes_with_its_leader() -> None:
    desk = Desk()
    desk.put_in_transaction("a", 1)
    desk.commit()
    desk.end()
    assert desk.runtime.read(P, lambda machine, at: dict(machine.ended.items(at=at))) == {}
    desk.runtime.resigned(P, desk.now_ms)
    assert desk.answers == ["a", ErrorCode.NOT_COORDINATOR]
    desk.log.new_leader()
    desk.elect()
    assert desk.machine.markers == []


def test_a_marker_that_is_refused_changes_nothing() -> None:
    desk = Desk()
    desk.put_in_transaction("a", 1, epoch=3)
    desk.end(epoch=2)
    desk.end(epoch=3, version=2)
    desk.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.end(epoch=3)
    desk.log.refuses = None
    refused = [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.NOT_ENOUGH_REPLICAS]
    assert desk.answers == refused
    assert desk.machine.markers == []
    desk.end(epoch=4, version=2)
    desk.commit()
    assert desk.answers[3:] == ["a", TransactionEnd(5, 4, True, 0, 2)]
    assert desk.machine.markers == [((5, 4), True)]


def test_a_marker_is_refused_when_the_batch_before_it_is() -> None:
    desk = Desk()
    desk.put_in_transaction("a", 1)
    desk.put("b", 1)
    desk.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.end()
    assert desk.answers == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    assert desk.numbers() == {"a": 1}
    assert desk.machine.markers == []


def test_a_marker_is_answered_in_time_and_commits_all_the_same() -> None:
    desk = Desk()
    desk.end()
    desk.now_ms += 500
    desk.runtime.tick(desk.now_ms)
    assert desk.answers == [ErrorCode.REQUEST_TIMED_OUT]
    desk.commit()
    assert desk.shard.is_committed
    assert len(desk.answers) == 1


def test_who_does_not_lead_writes_no_marker() -> None:
    desk = Desk(load=False)
    desk.end()
    desk.runtime.elected(P, desk.log, desk.now_ms)
    desk.runtime.resigned(P, desk.now_ms)
    desk.end()
    assert desk.answers == [ErrorCode.NOT_COORDINATOR] * 2


def test_a_marker_in_a_partition_that_another_wrote_to_is_refused_and_the_partition_loaded_anew() -> None:
    desk = Desk()
    builder = BatchBuilder()
    builder.append(0, b"\0\1\0\1x\0\1t\0\0\0\0", None)
    desk.log.append(builder.build(), desk.now_ms)
    desk.end()
    assert desk.answers == [ErrorCode.NOT_COORDINATOR]
    desk.flush()
    desk.load()
    desk.end()
    desk.commit()
    assert desk.answers[1:] == [TransactionEnd(5, 0, True, 0)]


def test_a_bug_while_a_marker_is_replayed_has_the_partition_loaded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    desk.put("a", 1)
    desk.end(producer_id=Counters.broken_id)
    assert [type(bug) for bug in desk.bugs] == [ZeroDivisionError]
    assert desk.answers == [ErrorCode.NOT_COORDINATOR] * 2
    monkeypatch.setattr(Counters, "broken_id", -1)
    deadline_ms = desk.runtime.next_deadline_ms()
    assert deadline_ms is not None
    desk.now_ms = deadline_ms
    desk.runtime.tick(desk.now_ms)
    desk.load()
    assert desk.machine.markers == [((13, 0), True)]
