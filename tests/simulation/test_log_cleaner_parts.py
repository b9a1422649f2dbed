"""The log cleaner under random work and faults, by seed, with so little room that its passes go in parts."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from simulation.test_log_cleaner import World

from penstock.log.compaction.parts import Room
from penstock.log.events import LogPartCleaned


def run_in_parts(seeds: Iterable[int], monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of parts that another one followed."""
    count = 0
    for seed in seeds:
        room = Room(part_bytes=seed % 3 * 400, spare_bytes=0, reserve_bytes=0)
        monkeypatch.setattr(Room, "of", staticmethod(lambda *_, room=room: room))
        world = World(seed)
        world.run()
        count += len(world.topic.events(LogPartCleaned))
    return count


def test_readers_see_the_last_value_of_every_key_while_passes_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_in_parts(range(20), monkeypatch) > 40


@pytest.mark.long
def test_readers_see_the_last_value_of_every_key_while_passes_go_in_parts_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run_in_parts(range(20, 1_000), monkeypatch) > 2_000
