"""The wall clock is set over the delete horizon, ahead and back, between passes and during one: no value reappears."""

from __future__ import annotations

from random import Random

import pytest
from support.compacted import MINUTE_MS, SECOND_MS, Compacted
from support.keyed import Keyed
from unit.log_directory.test_log_cleaner import Interrupted

from penstock.log.compaction.offset_map import Added, OffsetMap
from penstock.log.events import LogCleaned

DAY_MS = 24 * 60 * MINUTE_MS
ALWAYS = {"min_cleanable_dirty_ratio": "0"}


def with_a_deleted_key(machine: Compacted) -> Keyed:
    """A key whose value is in a closed segment, and its delete marker in a later one."""
    keyed = Keyed(machine)
    keyed.put(b"gone")
    for key in (b"a", b"b", b"a", b"b"):
        keyed.put(key)
    keyed.delete(b"gone")
    return keyed


def more(keyed: Keyed) -> None:
    """Closes the segment that there is, and leaves something to clean."""
    for _ in range(3):
        keyed.put(b"a")


def cleaned(keyed: Keyed) -> int:
    """Has what there is cleaned; how many delete markers a reader meets then."""
    machine = keyed.machine
    passes = len(machine.events(LogCleaned))
    more(keyed)
    for _ in range(10):
        machine.wait(MINUTE_MS)
        if isinstance(machine, Interrupted):
            machine.go_on()
    assert len(machine.events(LogCleaned)) > passes
    found, markers = keyed.found()
    assert found == keyed.latest
    return markers


@pytest.mark.parametrize("steps", [(0,), (2,), (2, -2), (2, -4, 2), (-2, 2, 2), (400, -400, 400)], ids=str)
def test_between_passes(steps: tuple[int, ...]) -> None:
    machine = Compacted(**ALWAYS)
    keyed = with_a_deleted_key(machine)
    assert cleaned(keyed) == 1
    ahead_days = 0
    is_past = False
    for days in steps:
        ahead_days += days
        machine.node.wall.ahead_ms += days * DAY_MS
        is_past = is_past or ahead_days >= 1
        assert cleaned(keyed) == (0 if is_past else 1), "a marker goes with its horizon, and is gone then"
    keyed.put(b"gone")
    cleaned(keyed)


@pytest.mark.parametrize("days", [2, -2])
def test_during_a_pass(days: int) -> None:
    machine = Interrupted(**ALWAYS)
    keyed = with_a_deleted_key(machine)
    more(keyed)
    machine.until_a_pass()
    machine.node.wall.ahead_ms += days * DAY_MS
    machine.go_on()
    assert keyed.found() == (keyed.latest, 1), "the horizon was set by the clock at its beginning"
    machine.node.wall.ahead_ms -= days * DAY_MS
    assert cleaned(keyed) == 1
    more(keyed)
    machine.node.wall.ahead_ms += 2 * DAY_MS
    machine.until_a_pass()
    machine.node.wall.ahead_ms -= 2 * DAY_MS
    machine.go_on()
    machine.wait(SECOND_MS)
    assert keyed.found()[0] == keyed.latest
    cleaned(keyed)


def at_random(seed: int) -> None:
    """Keys come, go and come back while the clock is set again and again, before, in and after passes."""
    random = Random(seed)
    machine = Interrupted(**ALWAYS, delete_retention_ms=str(random.choice([0, 1, DAY_MS])))
    keyed = Keyed(machine)
    for _ in range(60):
        key = b"%d" % random.randrange(4)
        match random.randrange(6):
            case 0 | 1:
                keyed.put(key)
            case 2:
                keyed.delete(key)
            case 3:
                machine.wait(random.randrange(3 * MINUTE_MS))
            case 4:
                machine.node.wall.ahead_ms += random.choice([-2, -1, 1, 2]) * DAY_MS + random.randrange(-1, 2)
            case _:
                machine.go_on()
        if random.random() < 0.2:
            assert keyed.found()[0] == keyed.latest
    cleaned(keyed)


@pytest.mark.parametrize("seed", range(5))
def test_at_random(seed: int) -> None:
    at_random(seed)


def test_a_map_that_does_not_note_delete_markers_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the marker goes in its time, and what it deleted is still there."""
    add = OffsetMap.add

    def with_values_only(offsets: OffsetMap, data: bytes, header: object, start_offset: int) -> object:
        return add(offsets, data, header, start_offset) if len(data) > 100 else Added(False)  # type: ignore[arg-type]

    monkeypatch.setattr(OffsetMap, "add", with_values_only)
    with pytest.raises(AssertionError):
        test_between_passes((2,))
    with pytest.raises(AssertionError):
        all(at_random(seed) is None for seed in range(5))
