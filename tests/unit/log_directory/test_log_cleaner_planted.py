"""Faults planted in the swap of the log cleaner, each of which the checks of `test_log_cleaner` must see.

Those in a pass itself (a horizon that is ignored, a map that is off by one, a last batch of a producer that is dropped)
are planted in `unit.log.test_compaction`, those in its order in `test_swap`.
"""

from __future__ import annotations

import pytest
from unit.log_directory import test_log_cleaner as checks

from penstock.log.compaction.log_cleaner import LogCleaner
from penstock.log.name_history import NameHistory
from simulator.world.disk import SimulatedDisk


def test_new_segments_that_are_not_fsynced_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = SimulatedDisk.fsync
    monkeypatch.setattr(
        SimulatedDisk, "fsync", lambda disk, path: None if path.endswith(".cleaned") else fsync(disk, path)
    )
    with pytest.raises(AssertionError):
        checks.test_a_crash_at_any_step_leaves_a_log_with_all_that_must_stay(power_fails=True)


def test_new_bytes_at_an_old_slice_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NameHistory, "find", lambda names, piece: piece.path)
    with pytest.raises(AssertionError):
        checks.test_a_slice_of_before_the_swap_has_the_old_bytes()


def test_a_generation_that_is_not_checked_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogCleaner, "_is_stale", lambda cleaner, cleaning: False)
    with pytest.raises(AssertionError):
        checks.test_a_log_that_was_cut_during_a_pass_keeps_what_it_has()
