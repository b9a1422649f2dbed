"""Threads that help: results in order, errors heard, and nobody waits for threads that were not needed."""

from __future__ import annotations

import threading

import pytest

from penstock.server.helpers import Helpers


def test_results_come_in_the_order_of_the_items() -> None:
    helpers = Helpers("test-helpers", 3)
    assert helpers.map(lambda number: number * 2, range(50)) == [2 * number for number in range(50)]
    assert helpers.map(str, []) == []
    helpers.close()


def test_one_item_needs_no_thread() -> None:
    helpers = Helpers("test-no-helper", 3)
    assert helpers.map(lambda _: threading.current_thread(), [1]) == [threading.current_thread()]
    assert not [each for each in threading.enumerate() if each.name.startswith("test-no-helper")]


def test_so_many_threads_at_most_and_none_after_the_end() -> None:
    helpers = Helpers("test-three", 3)
    together = threading.Barrier(4, timeout=30)
    helpers.map(lambda _: together.wait(), range(4))
    helpers.map(str, range(100))
    found = [each for each in threading.enumerate() if each.name.startswith("test-three")]
    assert len(found) == 3
    helpers.close()
    for each in found:
        each.join(30)
        assert not each.is_alive()
    assert helpers.map(str, [1, 2]) == ["1", "2"], "they start again"
    helpers.close()


def test_where_the_system_has_no_thread_left_who_calls_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    helpers = Helpers("test-none", 3)

    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        for _ in range(2):
            assert helpers.map(lambda _: threading.current_thread(), range(3)) == [threading.current_thread()] * 3
    together = threading.Barrier(2, timeout=30)
    helpers.map(lambda _: together.wait(), range(2))
    helpers.close()


def test_an_error_is_raised_when_all_have_ended() -> None:
    helpers = Helpers("test-error", 2)
    done: list[int] = []

    def work(number: int) -> None:
        if number == 1:
            raise OSError(5, "planted")
        done.append(number)

    with pytest.raises(OSError, match="planted"):
        helpers.map(work, range(10))
    assert sorted(done) == [0, *range(2, 10)]
    helpers.close()


def test_two_callers_share_the_threads() -> None:
    helpers = Helpers("test-shared", 2)
    results: dict[int, list[int]] = {}

    def call(start: int) -> None:
        results[start] = helpers.map(lambda number: number + start, range(200))

    callers = [threading.Thread(target=call, args=(start,)) for start in (0, 1000)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
    assert results == {start: [start + number for number in range(200)] for start in (0, 1000)}
    helpers.close()
