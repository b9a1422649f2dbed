"""Faults planted in the swap of the log cleaner, each of which the checks of `test_log_cleaner` must see.

Those in a pass itself (a horizon that is ignored, a map that is off by one, a last batch of a producer that is dropped)
are planted in `unit.log.test_compaction`.
"""

from __future__ import annotations

import re

import pytest
from support.compacted import MINUTE_MS, Compacted
from unit.log_directory import test_log_cleaner as checks

from penstock.log.compaction.log_cleaner import LogCleaner
from penstock.log.compaction.swap import SwapSegments
from penstock.log.disk import Disk
from penstock.log.name_history import NameHistory
from simulator.world.disk import SimulatedDisk


def test_new_segments_that_are_not_fsynced_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = SimulatedDisk.fsync
    monkeypatch.setattr(
        SimulatedDisk, "fsync", lambda disk, path: None if path.endswith(".cleaned") else fsync(disk, path)
    )
    with pytest.raises(AssertionError):
        checks.test_a_crash_at_any_step_leaves_a_log_with_all_that_must_stay(power_fails=True)


def steps_of_a_swap(monkeypatch: pytest.MonkeyPatch, *, synced: bool = True) -> str:
    """What a swap does to names: `s` for one that becomes `.swap`, `d` for `.deleted`, `n` for a name of the log, and
    `|` where all of them become durable."""
    steps: list[str] = []
    rename, run = SimulatedDisk.rename, SwapSegments.run
    letters = {".swap": "s", ".deleted": "d"}

    def renamed(disk: SimulatedDisk, old: str, new: str) -> None:
        steps.append(next((letters[suffix] for suffix in letters if new.endswith(suffix)), "n"))
        rename(disk, old, new)

    def swap(operation: SwapSegments, disk: Disk) -> object:
        fsync_directory = SimulatedDisk.fsync_directory

        def synchronised(disk: SimulatedDisk, path: str) -> None:
            if synced:
                steps.append("|")
                fsync_directory(disk, path)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SimulatedDisk, "rename", renamed)
            patch.setattr(SimulatedDisk, "fsync_directory", synchronised)
            return run(operation, disk)

    monkeypatch.setattr(SwapSegments, "run", swap)
    topic = Compacted()
    topic.append(11)
    topic.wait(MINUTE_MS)
    return "".join(steps)


def check_order(steps: str) -> None:
    """A power failure may keep any of the names that are not durable yet, in whatever order."""
    assert re.fullmatch(r"\|s+\|d+\|n+\|", steps), steps


def test_each_step_of_a_swap_is_durable_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    check_order(steps_of_a_swap(monkeypatch))


def test_names_that_are_not_fsynced_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError):
        check_order(steps_of_a_swap(monkeypatch, synced=False))


def test_new_bytes_at_an_old_slice_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NameHistory, "find", lambda names, piece: piece.path)
    with pytest.raises(AssertionError):
        checks.test_a_slice_of_before_the_swap_has_the_old_bytes()


def test_a_generation_that_is_not_checked_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogCleaner, "_is_stale", lambda cleaner, cleaning: False)
    with pytest.raises(AssertionError):
        checks.test_a_log_that_was_cut_during_a_pass_keeps_what_it_has()
