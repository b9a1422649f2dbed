"""Somebody sets the clocks of a cluster, and stops its processes for a while: no leader and no session moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.cluster import clocks
from simulator.cluster.scenarios import SCENARIOS
from simulator.cluster.world import ClusterWorld
from simulator.groups.scenarios import GROUP_SCENARIOS
from simulator.groups.world import GroupWorld
from simulator.world.machine import Machine

DAY_MS = 86_400_000
STEPS_MS = [-DAY_MS, -60_000, 12_000, 60_000, DAY_MS]
SPLIT = replace(SCENARIOS["calm"], nodes=(3,), controllers=1, session_ms=(9_000,), load_ms=3_000)
GROUPS = replace(GROUP_SCENARIOS["groups-calm"], protocols=(("classic", "consumer"), ("classic",), ("consumer",)))


def whose(world: ClusterWorld, role: str) -> list[Machine]:
    """The machines of a role: the active controller, or the brokers."""
    if role == "controller":
        controller = world.faults.cluster.controller()
        assert controller is not None
        return [controller]
    return [machine for machine in world.machines if machine.settings.is_broker]


def state(world: ClusterWorld) -> dict[str, object]:
    """Who leads what, and who is in sync."""
    found = {each.name: world.checker.image.partition(each.topic, each.index) for each in world.partitions}
    known = {name: each and (each.leader, each.leader_epoch, each.isr) for name, each in found.items()}
    brokers = {each.id: (each.epoch, each.fenced) for each in world.checker.image.brokers.values()}
    return {**known, "brokers": brokers, "quorum": world._leader_epochs()["the controller"]}


@pytest.mark.parametrize("step_ms", STEPS_MS)
@pytest.mark.parametrize("role", ["controller", "broker"])
def test_a_clock_that_is_set_moves_no_leader_and_fences_nobody(role: str, step_ms: int) -> None:
    world = ClusterWorld(1, SPLIT)
    world._boot()
    world.simulation.run(world.simulation.now_ms + 2_000)
    before = state(world)
    for machine in whose(world, role):
        machine.step_clock(step_ms)
    for _ in range(150):
        world.simulation.run(world.simulation.now_ms + 100)
        assert state(world) == before


def test_a_controller_that_stood_still_takes_nobody_for_dead_whom_it_could_not_hear() -> None:
    world = ClusterWorld(1, SPLIT)
    world._boot()
    world.simulation.run(world.simulation.now_ms + 2_000)
    before = state(world)
    (controller,) = whose(world, "controller")
    controller.pause(20_000)
    world.simulation.run(world.simulation.now_ms + 40_000)
    assert state(world) == before


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("scenario", ["calm", "connections"])
def test_a_cluster_lives_the_same_life_whatever_its_clocks_say(
    scenario: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the microsecond: the hash of the trace is that of a run in which no clock is set."""
    wrong = ClusterWorld(seed, SCENARIOS[scenario]).run().trace_hash
    monkeypatch.setattr(clocks, "STEPS_MS", (0,))
    assert ClusterWorld(seed, SCENARIOS[scenario]).run().trace_hash == wrong


def test_groups_live_while_clocks_are_set() -> None:
    GroupWorld(1, GROUPS).run()


def test_it_gets_later_on_all_machines_at_once_and_only_when_it_may() -> None:
    world = ClusterWorld(1, SPLIT)
    may = False
    clocks.of_cleaned(world.simulation, world.machines, lambda: may).begin()
    world.simulation.run(world.simulation.now_ms + 60_000)
    ahead = [machine.wall_ahead_ms for machine in world.machines]
    assert 0 < max(ahead) - min(ahead) <= clocks.APART_MS_MAX
    assert max(ahead) < clocks.LATER_MS // 2
    may = True
    world.simulation.run(world.simulation.now_ms + 60_000)
    ahead = [machine.wall_ahead_ms for machine in world.machines]
    assert max(ahead) - min(ahead) <= clocks.APART_MS_MAX
    assert 10 * clocks.LATER_MS < min(ahead) < clocks.AHEAD_MS_MAX


def test_a_replica_that_is_away_lacks_something() -> None:
    world = ClusterWorld(1, SPLIT)
    world._boot()
    world.simulation.run(world.simulation.now_ms + 1_000)
    assert world._nothing_is_missing()
    away, *_ = whose(world, "broker")
    away.reboots = False
    away.kill(power_failed=False)
    assert not world._nothing_is_missing()
