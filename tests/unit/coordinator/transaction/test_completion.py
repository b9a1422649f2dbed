"""The completion of an end, whoever says that its markers are written, and how often."""

from __future__ import annotations

from unit.coordinator.transaction.transaction_world import TIMEOUT_MS, T, World

from penstock.coordinator.limits import TRANSACTIONAL_IDS_PER_STEP
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.transaction.records import record_of
from penstock.coordinator.transaction.transaction import TransactionState
from penstock.errors import ErrorCode

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


def test_ends_that_cannot_be_marked_keep_no_other_transaction_from_going_on_after_a_fail_over() -> None:
    world = World()
    world.marks = False
    world.add(world.begin(), A)
    stuck = world.transaction()._replace(state=TransactionState.PREPARE_ABORT)
    names = [f"stuck-{count}" for count in range(2 * TRANSACTIONAL_IDS_PER_STEP)]
    world.write(
        lambda state: Result(ErrorCode.NONE, [record_of(name, stuck, world.version) for name in names], atomic=False)
    )
    world.fail_over()
    world.advance(world.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms + TIMEOUT_MS)
    assert {ending.transactional_id for ending in world.endings} == {T, *names}
