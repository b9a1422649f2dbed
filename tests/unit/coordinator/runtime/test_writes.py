"""Writes of a coordinator: batches, answers when they commit, and going back when they do not."""

from __future__ import annotations

import weakref
from typing import Never

import pytest
from unit.coordinator.runtime.counters import Counters, Desk, P, number

from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode, RequestError


class Response:
    """An answer that can be held weakly."""


def test_an_answer_leaves_when_the_records_are_committed() -> None:
    desk = Desk()
    desk.put("a", 1)
    assert desk.numbers() == {"a": 1}
    assert desk.committed() == {}
    desk.flush()
    assert desk.answers == []
    desk.commit()
    assert desk.answers == ["a"]
    assert desk.committed() == {"a": 1}


def test_the_writes_of_a_turn_are_one_batch() -> None:
    desk = Desk()
    desk.put("a", 1)
    desk.put("b", 2)
    desk.flush()
    assert len(desk.log.batches) == 1
    assert desk.log.end_offset == 2


def test_a_batch_is_appended_when_its_linger_is_over() -> None:
    desk = Desk(linger_ms=10)
    desk.put("a", 1)
    desk.now_ms += 9
    desk.flush()
    assert not desk.log.batches
    assert desk.runtime.next_deadline_ms() == desk.now_ms + 1
    desk.now_ms += 1
    desk.flush()
    assert desk.log.batches


def test_what_does_not_fit_begins_another_batch() -> None:
    desk = Desk()
    desk.log.max_batch_bytes = 300
    for index in range(10):
        desk.put(f"name {index}", index)
    desk.flush()
    assert len(desk.log.batches) > 1
    desk.commit()
    assert len(desk.answers) == 10


def test_records_that_belong_together_are_in_one_batch_or_refused() -> None:
    desk = Desk()
    desk.log.max_batch_bytes = 300
    desk.put("a", 1)
    desk.write(Result("two", [number("b", 1), number("c", 1)]))
    desk.write(Result("many", [number(f"name {index}", 1) for index in range(10)]))
    assert desk.answers == [ErrorCode.RECORD_LIST_TOO_LARGE]
    assert desk.numbers() == {"a": 1, "b": 1, "c": 1}
    desk.write(Result("spread", [number(f"name {index}", 1) for index in range(10)], atomic=False))
    desk.flush()
    desk.commit()
    assert desk.answers[1:] == ["a", "two", "spread"]


def test_a_batch_that_is_refused_is_undone_with_all_that_looked_at_it() -> None:
    desk = Desk()
    desk.put("a", 1)
    desk.flush()
    desk.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.put("a", 2)
    desk.write(Result("looked"))
    desk.flush()
    assert desk.answers == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    assert desk.numbers() == {"a": 1}
    desk.log.refuses = None
    desk.put("b", 3)
    desk.flush()
    desk.commit()
    assert desk.answers[2:] == ["a", "b"]
    assert desk.committed() == {"a": 1, "b": 3}


def test_a_write_is_refused_when_the_batch_before_it_is() -> None:
    desk = Desk()
    desk.log.max_batch_bytes = 200
    desk.put("a", 1)
    desk.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.put("b" * 60, 2)
    assert desk.answers == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    assert desk.numbers() == {}


def test_who_only_looks_waits_for_what_was_written_before() -> None:
    desk = Desk()
    desk.write(Result("at once"))
    assert desk.answers == ["at once"]
    desk.put("a", 1)
    desk.flush()
    desk.write(Result("later"))
    assert desk.answers == ["at once"]
    desk.commit()
    assert desk.answers == ["at once", "a", "later"]


def test_lost_leadership_is_told_to_all_who_wait() -> None:
    desk = Desk()
    machine = desk.machine
    desk.put("a", 1)
    desk.flush()
    desk.put("b", 2)
    desk.runtime.resigned(P, desk.now_ms)
    assert desk.answers == [ErrorCode.NOT_COORDINATOR] * 2
    assert machine.told == ["loaded", "unloaded"]
    desk.put("c", 3)
    assert desk.answers[2:] == [ErrorCode.NOT_COORDINATOR]


def test_a_write_that_takes_too_long_is_answered_and_may_commit_all_the_same() -> None:
    desk = Desk()
    desk.put("a", 1)
    desk.flush()
    desk.now_ms += 500
    desk.runtime.tick(desk.now_ms)
    assert desk.answers == [ErrorCode.REQUEST_TIMED_OUT]
    desk.commit()
    assert desk.answers == [ErrorCode.REQUEST_TIMED_OUT]
    assert desk.committed() == {"a": 1}


def test_a_write_without_a_caller_does_not_time_out_early() -> None:
    desk = Desk()
    heard: list[ErrorCode] = []
    result = Result(None, [number("a", 1)], lambda code, now_ms: heard.append(code))
    desk.runtime.write(P, lambda machine: result, None, desk.now_ms)
    desk.flush()
    desk.runtime.tick(desk.now_ms)
    assert heard == []
    desk.commit()
    assert heard == [ErrorCode.NONE]


def test_records_of_what_has_been_done_already_are_not_replayed() -> None:
    desk = Desk()
    desk.put("a", 1, replay=False)
    desk.flush()
    desk.commit()
    assert desk.numbers() == {}
    assert desk.log.end_offset == 1


def test_who_changed_something_hears_what_became_of_its_records_before_the_answer() -> None:
    desk = Desk()
    desk.put("a", 1, appended=lambda code, now_ms: desk.answers.append(f"appended {code.name}"))
    desk.flush()
    desk.commit()
    assert desk.answers == ["appended NONE", "a"]


def test_what_an_operation_raises_is_its_answer() -> None:
    desk = Desk()

    def refuse(machine: object) -> Result[None]:
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, "no such group")

    desk.runtime.write(P, refuse, desk.done, desk.now_ms)
    assert desk.answers == [ErrorCode.GROUP_ID_NOT_FOUND]


def test_a_bug_in_a_replay_undoes_the_batch_and_is_not_hidden() -> None:
    desk = Desk()
    desk.put("a", 1)
    desk.put("broken", 1)
    assert [type(bug) for bug in desk.bugs] == [ZeroDivisionError]
    assert desk.answers == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert desk.numbers() == {}
    desk.put("b", 1)
    desk.flush()
    desk.commit()
    assert desk.answers[2:] == ["b"]


def broken(*_: object, **__: object) -> Never:
    raise ZeroDivisionError


def test_a_bug_in_an_operation_ends_it_alone() -> None:
    desk = Desk()
    desk.runtime.write(P, broken, desk.done, desk.now_ms)
    assert desk.answers == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert [type(bug) for bug in desk.bugs] == [ZeroDivisionError]


def test_a_bug_in_who_is_told_of_a_commit_keeps_nobody_else_waiting() -> None:
    desk = Desk()
    desk.put("a", 1)
    desk.put("b", 2, appended=broken)
    desk.runtime.write(P, lambda machine: Result("c", [number("c", 3)]), broken, desk.now_ms)
    desk.put("d", 4)
    desk.flush()
    desk.commit()
    assert desk.answers == ["a", ErrorCode.UNKNOWN_SERVER_ERROR, "d"]
    assert [type(bug) for bug in desk.bugs] == [ZeroDivisionError] * 2
    assert desk.committed() == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_a_bug_in_who_is_told_of_a_timeout_or_of_the_end_keeps_nobody_else_waiting() -> None:
    desk = Desk()
    desk.put("a", 1, appended=broken)
    desk.put("b", 2)
    desk.flush()
    desk.now_ms += 500
    desk.runtime.tick(desk.now_ms)
    assert desk.answers == [ErrorCode.REQUEST_TIMED_OUT] * 2
    desk.put("c", 3, appended=broken)
    desk.put("d", 4)
    desk.runtime.resigned(P, desk.now_ms)
    assert desk.answers[2:] == [ErrorCode.NOT_COORDINATOR] * 2
    assert len(desk.bugs) == 2


def test_a_state_that_a_bug_leaves_in_doubt_is_loaded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    desk.put("a", 1)
    desk.flush()
    desk.commit()
    desk.put("b", 2)
    with monkeypatch.context() as plant:
        plant.setattr(desk.log, "append", broken)
        desk.flush()
    assert desk.answers == ["a", ErrorCode.NOT_COORDINATOR]
    assert [type(bug) for bug in desk.bugs] == [ZeroDivisionError]
    deadline_ms = desk.runtime.next_deadline_ms()
    assert deadline_ms is not None
    desk.now_ms = deadline_ms
    desk.runtime.tick(desk.now_ms)
    desk.load()
    assert desk.numbers() == {"a": 1}


def test_a_bug_at_the_end_of_loading_fails_the_shard_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counters, "loaded", broken)
    desk = Desk()
    desk.put("a", 1)
    assert desk.answers == [ErrorCode.NOT_COORDINATOR]
    assert len(desk.bugs) == 1


def test_what_was_answered_is_not_kept_until_it_would_have_timed_out() -> None:
    desk = Desk()
    desk.write(Result(response := Response(), [number("a", 1)]))
    held = weakref.ref(response)
    del response
    desk.flush()
    desk.commit()
    desk.answers.clear()
    assert held() is None


def test_what_cannot_be_encoded_is_refused_and_changes_nothing() -> None:
    desk = Desk()
    desk.put("x" * 40_000, 1)
    assert len(desk.answers) == 1
    assert isinstance(desk.answers[0], ErrorCode)
    assert desk.numbers() == {}


def test_a_partition_that_another_wrote_to_is_loaded_anew() -> None:
    desk = Desk()
    desk.put("a", 1)
    desk.flush()
    desk.commit()
    stolen = bytearray(desk.log.batches[0])
    desk.put("b", 2)
    desk.log.write(stolen)
    desk.flush()
    desk.load()
    assert desk.answers == ["a", ErrorCode.NOT_COORDINATOR]
    assert desk.numbers() == {"a": 1}
    desk.put("c", 3)
    desk.flush()
    desk.commit()
    assert desk.answers[2:] == ["c"]
