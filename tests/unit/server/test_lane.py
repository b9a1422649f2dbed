"""Lanes: first-in first-out for an order wherever operations run, and off the loop while the disk is slow."""

from __future__ import annotations

import errno
import itertools
import threading
from typing import Any

import pytest

from penstock.node.effects import Run
from penstock.server import lane as lane_module
from penstock.server.lane import Completions, Lane
from penstock.server.limits import LANE_HEALTHY_AFTER_MS, LANE_SLOW_LATELY_MS
from penstock.server.waiting import near_dirty_limit


@pytest.fixture(autouse=True)
def a_clean_page_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else this machine writes is not our matter here."""
    monkeypatch.setattr(lane_module, "near_dirty_limit", lambda: False)


def test_operations_of_one_order_run_first_in_first_out(world: Any, note: Any) -> None:
    notes: list[str] = []
    gate = threading.Event()
    operations = [note("slow", notes, wait=gate), *(note(str(n), notes, inline=n % 2 == 0) for n in range(6))]
    world.node.effects += [Run(operation) for operation in operations]
    world.shell.kick()
    world.settle()
    assert notes == []
    gate.set()
    world.run_until(lambda: len(world.node.completed) == 7)
    assert notes == ["slow", *"012345"]
    assert [operation.name for operation, _ in world.node.completed] == notes


def test_another_order_does_not_wait(world: Any, note: Any) -> None:
    notes: list[str] = []
    gate = threading.Event()
    world.node.effects += [Run(note("slow", notes, wait=gate)), Run(note("quick", notes, order="other"))]
    world.shell.kick()
    world.run_until(lambda: notes == ["quick"])
    gate.set()
    world.run_until(lambda: len(world.node.completed) == 2)


def test_an_inline_operation_runs_in_the_turn_and_its_effects_follow_in_it(world: Any, note: Any) -> None:
    notes: list[str] = []
    world.node.effects += [Run(note("a", notes, inline=True))]
    world.shell.kick()
    world.settle(2)
    assert world.node.completed[0][1] == "a"
    assert not world.shell.lanes[0]._threads


def test_a_failing_operation_reports_its_error(world: Any, note: Any) -> None:
    class Failing(note):  # type: ignore[misc]
        def run(self, disk: Any) -> None:
            raise OSError(errno.ENOSPC, "full")

    class Broken(note):  # type: ignore[misc]
        def run(self, disk: Any) -> None:
            raise ValueError("a bug")

    world.node.effects += [Run(Failing("f", [])), Run(Failing("f", [], inline=True, order="i")), Run(Broken("b", []))]
    world.shell.kick()
    world.run_until(lambda: len(world.node.failed) == 2 and world.node.broke)
    assert [error.errno for _, error in world.node.failed] == [errno.ENOSPC, errno.ENOSPC]
    assert [type(error) for _, error in world.node.broke] == [ValueError], "which says nothing of the disk"


def test_an_append_during_which_the_machine_was_busy_with_others_is_not_slow(
    note: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    times_s = itertools.count(0.0, 0.02)
    lane = Lane(0, None, Completions(lambda: None), threads=1, clock_s=lambda: next(times_s))  # type: ignore[arg-type]
    monkeypatch.setattr(lane_module, "times_waited", lambda: 7)
    assert lane.run(note("preempted", [], inline=True)) is not None
    assert lane.healthy
    waits = itertools.count()
    monkeypatch.setattr(lane_module, "times_waited", lambda: next(waits))
    assert lane.run(note("waited", [], inline=True)) is not None
    assert not lane.healthy


def test_a_slow_append_sends_appends_to_the_lane_until_it_has_been_healthy(
    note: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    waits = itertools.count()
    monkeypatch.setattr(lane_module, "times_waited", lambda: next(waits))

    class Slow(note):  # type: ignore[misc]
        def run(self, disk: Any) -> None:
            nonlocal now_s
            now_s += 0.02

    woken = threading.Event()
    completions = Completions(woken.set)
    lane = Lane(0, None, completions, threads=1, clock_s=lambda: now_s)  # type: ignore[arg-type]
    notes: list[str] = []
    assert lane.run(note("fast", notes, inline=True)) is not None
    assert not lane.slow
    assert lane.run(Slow("slow", notes, inline=True)) is not None
    assert not lane.healthy
    assert lane.slow
    assert lane.run(note("in the lane", notes, inline=True)) is None
    assert woken.wait(5)
    for outcome in completions.take():
        lane.heard(outcome)
    assert notes == ["fast", "in the lane"]
    now_s += LANE_SLOW_LATELY_MS / 1000
    assert not lane.slow
    assert not lane.healthy
    now_s += LANE_HEALTHY_AFTER_MS / 1000
    assert lane.run(note("inline again", notes, inline=True)) is not None
    lane.close()


def test_one_wake_up_for_many_outcomes() -> None:
    wakes: list[int] = []
    completions = Completions(lambda: wakes.append(1))
    for number in range(10):
        completions.put(number)  # type: ignore[arg-type]
    assert completions.take() == list(range(10))
    assert len(wakes) == 1
    completions.put(10)  # type: ignore[arg-type]
    assert len(wakes) == 2


def test_the_kernel_near_its_dirty_limit_keeps_appends_off_the_loop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, note: Any
) -> None:
    figures = tmp_path / "vmstat"
    figures.write_text("nr_free_pages 1\nnr_dirty 700\nnr_writeback 200\nnr_dirty_threshold 1000\nx 1\n")
    assert near_dirty_limit(str(figures))
    figures.write_text("nr_free_pages 1\nnr_dirty 100\nnr_writeback 0\nnr_dirty_threshold 1000\nx 1\n")
    assert not near_dirty_limit(str(figures))
    assert not near_dirty_limit(str(tmp_path / "missing"))
    monkeypatch.setattr(lane_module, "near_dirty_limit", lambda: True)
    lane = Lane(0, None, Completions(lambda: None), threads=1)  # type: ignore[arg-type]
    assert lane.run(note("a", [], inline=True)) is None
    lane.close()
