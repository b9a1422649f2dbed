"""Many transactions whose time is over at once: some are aborted in each turn of the loop, and all in the end."""

from __future__ import annotations

from functools import partial
from typing import Any

from unit.coordinator.transaction.transaction_world import TIMEOUT_MS, World

from penstock.coordinator.limits import COORDINATOR_TIMER_WITH_RECORDS, COORDINATOR_TIMERS_PER_TURN
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.transaction.init_producer_id import init_producer_id
from penstock.coordinator.transaction.state import Transactions

PER_TURN = COORDINATOR_TIMERS_PER_TURN // COORDINATOR_TIMER_WITH_RECORDS


def begin(transactional_id: str, now_ms: int, state: Transactions) -> Result[Any]:
    return init_producer_id(state, transactional_id, TIMEOUT_MS, None, now_ms)


def turns(world: World) -> list[int]:
    """How many transactions were aborted, turn by turn, while something is due."""
    found = []
    while (deadline_ms := world.runtime.next_deadline_ms()) is not None and deadline_ms <= world.now_ms:
        before = len(world.state.writing)
        world.runtime.tick(world.now_ms)
        found.append(len(world.state.writing) - before)
    return found


def test_transactions_that_time_out_together_are_aborted_in_several_turns() -> None:
    world = World()
    count = 4 * PER_TURN - 1
    for number in range(count):
        producer = world.begin(f"id-{number}")
        world.add(producer, ("a", 0), of=f"id-{number}")
    world.now_ms += TIMEOUT_MS + 10_000
    assert turns(world) == [PER_TURN] * 3 + [PER_TURN - 1]
    world.settle()
    assert len(world.endings) == count


def test_requests_that_are_too_late_together_are_answered_in_several_turns() -> None:
    world = World()
    world.commits = False
    count = 2 * COORDINATOR_TIMERS_PER_TURN + 1
    answers = []
    for number in range(count):
        init = partial(begin, f"id-{number}", world.now_ms)
        answers.append(world.write(init, settle=False))
    world.settle()
    world.now_ms += 5_000
    told = [0]
    while (deadline_ms := world.runtime.next_deadline_ms()) is not None and deadline_ms <= world.now_ms:
        world.runtime.tick(world.now_ms)
        told.append(sum(answer.done for answer in answers))
    assert told == [0, COORDINATOR_TIMERS_PER_TURN, 2 * COORDINATOR_TIMERS_PER_TURN, count]
