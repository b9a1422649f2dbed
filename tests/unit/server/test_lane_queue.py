"""What waits for a thread of a lane: tenants take turns, and the node's own work has every other one."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.node.effects import Run, Send
from penstock.server.lane import Completions, Lane
from penstock.server.lane_queue import LaneQueue
from penstock.server.limits import LANE_OPERATION_BYTES, LANE_TURN_BYTES

TURN_READS = LANE_TURN_BYTES // LANE_OPERATION_BYTES
"""Small reads that one turn has room for."""


def taken(queue: LaneQueue[str], count: int) -> list[str | None]:
    return [queue.get() for _ in range(count)]


def test_the_nodes_own_work_waits_first_in_first_out() -> None:
    queue: LaneQueue[str] = LaneQueue()
    for entry in "abc":
        queue.put(entry, None, 1 << 30)
    queue.end()
    assert taken(queue, 4) == ["a", "b", "c", None]


def test_one_read_of_a_tenant_waits_for_one_turn_of_200_of_another() -> None:
    queue: LaneQueue[str] = LaneQueue()
    for number in range(200):
        queue.put(f"a{number}", "a", 0)
    queue.put("b", "b", 0)
    order = taken(queue, 201)
    assert order.index("b") == TURN_READS
    assert [each for each in order if each != "b"] == [f"a{number}" for number in range(200)]
    assert not queue.tenants


def test_a_turn_is_measured_in_bytes() -> None:
    queue: LaneQueue[str] = LaneQueue()
    for _ in range(100):
        queue.put("large", "a", 2 * LANE_TURN_BYTES - LANE_OPERATION_BYTES)
        queue.put("small", "b", 0)
    order = taken(queue, 100)
    assert order.count("large") in range(100 // (2 * TURN_READS + 1) - 1, 100 // (2 * TURN_READS + 1) + 3)


def test_own_work_and_tenants_have_every_other_turn() -> None:
    queue: LaneQueue[str] = LaneQueue()
    for number in range(3):
        queue.put(f"a{number}", "a", 0)
    for number in range(5):
        queue.put(f"own{number}", None, 0)
    assert taken(queue, 8) == ["own0", "a0", "own1", "a1", "own2", "a2", "own3", "own4"]


@given(st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.integers(0, 3 * LANE_TURN_BYTES)), max_size=60))
def test_all_is_taken_and_each_tenant_keeps_its_order(entries: list[tuple[str | None, int]]) -> None:
    queue: LaneQueue[Any] = LaneQueue()
    for number, (tenant, size_bytes) in enumerate(entries):
        queue.put((tenant, number), tenant, size_bytes)
    order = [queue.get() for _ in entries]
    assert sorted(number for _, number in order) == list(range(len(entries)))
    for tenant in (None, "a", "b", "c"):
        numbers = [number for of, number in order if of == tenant]
        assert numbers == sorted(numbers)
    assert not queue.tenants


def test_cold_reads_of_tenants_take_turns_in_a_lane_and_logs_keep_their_order(note: Any) -> None:
    gate, done = threading.Event(), threading.Event()
    notes: list[str] = []
    completions = Completions(done.set)
    lane = Lane(0, None, completions, threads=1)  # type: ignore[arg-type]

    def run(name: str, order: str, tenant: str | None = None) -> None:
        operation = note(name, notes, order=order)
        operation.tenant = tenant
        assert lane.run(operation) is None

    assert lane.run(note("first", notes, order="gate", wait=gate)) is None
    for number in range(200):
        run(f"a{number}", f"read {number}", "a")
    run("b", "read b", "b")
    for number in range(3):
        run(f"w{number}", "log")
    gate.set()
    while lane.busy:
        assert done.wait(10)
        done.clear()
        for outcome in completions.take():
            lane.heard(outcome)
    lane.close()
    assert notes.index("b") <= TURN_READS + 5
    assert [each for each in notes if each.startswith("w")] == ["w0", "w1", "w2"]
    assert len(notes) == 205


@pytest.mark.parametrize("tenant", [("user", "alice"), None])
def test_a_piece_of_an_answer_is_read_in_the_turn_of_whom_it_is_for(make_world: Any, tenant: Any) -> None:
    world = make_world(resident=0)
    world.node.tenant_of = lambda number: tenant
    seen: list[Any] = []
    lane = world.shell.lanes[0]
    run = lane.run
    lane.run = lambda operation: seen.append((operation.tenant, operation.size_bytes)) or run(operation)
    client = world.connect()
    (number,) = world.shell.connections
    world.node.effects.append(Send(number, [b"head", world.file("log", b"x" * 100), b"tail"]))
    world.shell.kick()
    assert world.read(client, 108) == b"head" + b"x" * 100 + b"tail"
    assert seen == [(tenant, 100)]


def test_the_operations_that_are_run_have_no_tenant_unless_they_are_reads(note: Any) -> None:
    operation = note("a", [])
    assert (Run(operation).operation.tenant, operation.size_bytes) == (None, 0)
