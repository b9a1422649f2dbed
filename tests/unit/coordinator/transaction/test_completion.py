"""The completion of an end, whoever says that its markers are written, and how often."""

from __future__ import annotations

from unit.coordinator.transaction.transaction_world import World

from penstock.coordinator.transaction.transaction import TransactionState

A = ("a", 0)


def test_who_is_told_twice_that_all_markers_are_written_completes_the_end_once() -> None:
    world = World()
    world.marks = False
    producer = world.begin()
    world.add(producer, A)
    world.end(producer)
    world.commits = False
    world.mark(world.endings[-1])
    world.mark(world.endings[-1])
    world.commits = True
    world.settle()
    assert world.states()[-2:] == [TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT]
    assert not world.state.endings
