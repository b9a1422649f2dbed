"""How long a cluster that is well takes for what happens every day: to stop a node, all of them, to start again.

In virtual time, so the figures are those of waiting: for a heartbeat, a grace, an election.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from simulator.cluster.scenarios import Scenario
from simulator.cluster.world import ClusterWorld
from simulator.world.machine import Machine

CALM = Scenario("calm", "nothing happens", nodes=(3,))
SEEDS = range(1, 6)


class World:
    """Three nodes that are ready, with topics, and no load."""

    def __init__(self, seed: int) -> None:
        self.world = ClusterWorld(seed, CALM)
        self.machines = self.world.machines
        self.world._boot()
        self.wait_until_whole()
        self.world.simulation.run(self.world.simulation.now_ms + 1_000)
        for machine in self.machines:
            machine.stopped = lambda: None
            machine.restart_delay_ms = None

    @property
    def controller(self) -> Machine:
        return next(machine for machine in self.machines if machine.broker.controller.active)

    @property
    def whole(self) -> bool:
        """Whether all are ready, one is the active controller, and every replica is in sync."""
        if not all(machine.running and machine.broker.ready for machine in self.machines):
            return False
        image = self.controller.broker.image if any(each.broker.controller.active for each in self.machines) else None
        topics = [] if image is None else list(image.topics_by_name.values())
        return bool(topics) and all(
            len(each.isr) == len(self.machines) for topic in topics for each in topic.partitions
        )

    def stop(self, machines: Iterable[Machine]) -> int:
        """Stops machines cleanly, all at once; how long that took, in ms."""
        simulation, stopping = self.world.simulation, list(machines)
        began_ms = simulation.now_ms
        for machine in stopping:
            machine.shutdown()
        while any(machine.running for machine in stopping):
            assert simulation.now_ms < began_ms + 10_000
            simulation.run(simulation.now_ms + 1)
        return simulation.now_ms - began_ms

    def kill(self, victim: Machine) -> int:
        """kill -9; how long until everything that it led is led by others, in ms."""
        simulation, node_id = self.world.simulation, victim.settings.node_id
        others = [each for each in self.machines if each is not victim]
        began_ms = simulation.now_ms
        victim.kill(power_failed=False)

        def led(machine: Machine) -> bool:
            topics = machine.broker.image.topics_by_name.values()
            return all(each.leader not in (-1, node_id) for topic in topics for each in topic.partitions)

        while not all(led(each) for each in others):
            assert simulation.now_ms < began_ms + 10_000
            simulation.run(simulation.now_ms + 1)
        return simulation.now_ms - began_ms

    def wait_until_whole(self) -> int:
        """How long it takes until all are ready and in sync, in ms."""
        simulation = self.world.simulation
        began_ms = simulation.now_ms
        while not self.whole:
            assert simulation.now_ms < began_ms + 20_000
            simulation.run(simulation.now_ms + 5)
        return simulation.now_ms - began_ms


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_stops_without_waiting_for_anybodys_next_heartbeat(seed: int) -> None:
    world = World(seed)
    controller = world.controller
    for machine in sorted(world.machines, key=lambda each: each is controller):
        assert world.stop([machine]) <= 150
        machine.start()
        assert world.wait_until_whole() <= 1_500


@pytest.mark.parametrize("seed", SEEDS)
def test_all_nodes_stop_at_once_and_start_again(seed: int) -> None:
    world = World(seed)
    assert world.stop(world.machines) <= 400
    for machine in world.machines:
        machine.start()
    assert world.wait_until_whole() <= 1_000


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_process_led_that_died_is_led_by_others_at_once(seed: int) -> None:
    """Its connections break and its address refuses new ones, so nobody gives it the grace of a broken connection."""
    world = World(seed)
    controller = world.controller
    victims = sorted(world.machines, key=lambda each: each is controller)[1:]
    for victim, at_most_ms in zip(victims, (40, 250), strict=True):
        world.wait_until_whole()
        assert world.kill(victim) <= at_most_ms
        victim.start()


@pytest.mark.parametrize("seed", SEEDS)
def test_who_asks_right_after_a_leader_has_died_is_not_sent_to_it(seed: int) -> None:
    world = World(seed)
    simulation = world.world.simulation
    topic = next(iter(world.controller.broker.image.topics_by_name.values()))
    leader_id = topic.partitions[0].leader
    leader, other, _ = sorted(world.machines, key=lambda each: each.settings.node_id != leader_id)
    assert not other.broker.calls.suspects.brokers(other.now_ms)
    leader.kill(power_failed=False)
    simulation.run(simulation.now_ms + 3)
    assert other.broker.calls.suspects.brokers(other.now_ms) == {leader_id}
    leader.start()
    simulation.run(simulation.now_ms + 1_000)
    assert not other.broker.calls.suspects.brokers(other.now_ms)
