"""Two nodes that call each other over the simulated network: what is done to it, and to them, ends every call once."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from penstock.node.outgoing import Peer
from penstock.protocol import frames
from penstock.protocol.api import APIS, ApiKey
from penstock.protocol.messages.metadata_request import MetadataRequest
from simulator.node.client import Client
from simulator.world.disk import SimulatedDisk
from simulator.world.driver import Simulation
from simulator.world.machine import LISTENER, RESTART_DELAY_MS, Machine
from simulator.world.network import Network

PORT = 9092
DAY_MS = 86_400_000


class TwoNodes:
    """Two machines, each a cluster of its own, that call each other."""

    def __init__(self, seed: int = 1, **settings: Any) -> None:
        self.simulation = Simulation(seed)
        self.network = Network(self.simulation, half_open_probability=0.5)
        self.machines = [
            Machine(
                self.simulation,
                [SimulatedDisk(0, random=Random(seed), clock=self.simulation.clock)],
                network=self.network,
                host=f"node-{number}",
                node_id=number,
                **settings,
            )
            for number in (1, 2)
        ]
        for machine in self.machines:
            machine.start()
        self.answers: list[Any] = []
        self.reasons: list[str] = []
        self.wait(2_000)
        assert all(machine.broker.ready for machine in self.machines)

    def wait(self, milliseconds: int) -> None:
        self.simulation.run(self.simulation.now_ms + milliseconds)

    def peer(self, machine: Machine) -> Peer:
        return Peer(machine.settings.node_id, *machine.address(), LISTENER)

    def call(self, caller: int = 0, *, timeout_ms: int = 1_000) -> None:
        target = self.machines[1 - caller]

        def done(answer: Any, reason: str | None, now_ms: int) -> None:
            if answer is None:
                assert reason is not None
                self.reasons.append(reason)
                self.simulation.trace(reason)
            else:
                self.answers.append(answer)
                self.simulation.trace(f"answer of {[broker.node_id for broker in answer.brokers]}")

        self.machines[caller].do(
            lambda broker: (
                broker.calls.outgoing.call(
                    self.peer(target),
                    MetadataRequest(topics=None),
                    timeout_ms=timeout_ms,
                    done=done,
                    now_ms=broker.now_ms,
                )
                and None
            )
        )


def test_a_node_asks_another() -> None:
    world = TwoNodes()
    world.call(0)
    world.call(1)
    world.wait(20)
    assert sorted(answer.brokers[0].node_id for answer in world.answers) == [1, 2]
    assert not world.reasons
    assert sorted(answer.brokers[0].host for answer in world.answers) == ["node-1", "node-2"]


def test_calls_fail_in_a_partition_and_succeed_after_it() -> None:
    world = TwoNodes()
    world.call()
    world.wait(20)
    world.network.partition("node-1", "node-2")
    world.call()
    world.wait(1_100)
    assert world.reasons == ["node 2 at node-2:9092: no answer to Metadata within 1000 ms"]
    world.call()
    world.wait(1_100)
    assert len(world.reasons) == 2
    world.network.heal()
    world.wait(5_000)
    world.call()
    world.wait(100)
    assert len(world.answers) == 2


@pytest.mark.parametrize(("source", "target"), [("node-1", "node-2"), ("node-2", "node-1")])
def test_one_way_of_a_connection_is_not_enough(source: str, target: str) -> None:
    world = TwoNodes()
    world.call()
    world.wait(20)
    world.network.partition(source, target, both_ways=False)
    world.call()
    world.wait(1_100)
    assert len(world.reasons) == 1


def test_a_node_that_dies_is_noticed_and_one_that_is_back_is_found() -> None:
    world = TwoNodes()
    world.call()
    world.wait(20)
    lost: list[str] = []
    outgoing = world.machines[0].broker.calls.outgoing
    outgoing.on_link_lost.append(lambda peer, channel, reason, now_ms: lost.append(reason))
    world.machines[1].restart_delay_ms = None
    world.machines[1].kill(power_failed=False)
    world.wait(20)
    assert lost == ["closed by the other side"]
    world.call()
    world.wait(50)
    assert world.reasons == ["node 2 at node-2:9092: connection refused"]
    world.machines[1].start()
    world.wait(2_000)
    world.call()
    world.wait(100)
    assert len(world.answers) == 2


def test_a_process_that_is_stopped_answers_when_it_goes_on() -> None:
    world = TwoNodes()
    world.call()
    world.wait(20)
    world.machines[1].pause(3_000)
    world.call(timeout_ms=2_000)
    world.call(timeout_ms=10_000)
    world.wait(2_500)
    assert len(world.reasons) == 2, "the second is behind the first"
    world.call(timeout_ms=10_000)
    world.wait(1_000)
    assert len(world.answers) == 2


@pytest.mark.parametrize("step_ms", [-DAY_MS, -60_000, 60_000, DAY_MS])
def test_what_waits_goes_on_waiting_when_the_clock_is_set(step_ms: int) -> None:
    world = TwoNodes()
    world.network.partition("node-1", "node-2")
    world.call(timeout_ms=60_000)
    world.wait(100)
    machine = world.machines[0]
    before_ms = machine.now_ms
    machine.step_clock(step_ms)
    world.wait(9_000)
    assert not world.reasons
    assert machine.now_ms == before_ms + 9_000
    assert machine.broker.scheduler.wall.at(machine.now_ms) == machine.now_ms + step_ms
    world.wait(2_000)
    assert len(world.reasons) == 1


def test_a_process_that_starts_begins_to_count_by_the_clock() -> None:
    world = TwoNodes()
    machine = world.machines[0]
    machine.step_clock(-DAY_MS)
    before_ms = machine.now_ms
    machine.kill()
    world.wait(RESTART_DELAY_MS)
    assert machine.now_ms == before_ms + RESTART_DELAY_MS - DAY_MS


def test_the_time_for_which_a_process_is_stopped_does_not_count() -> None:
    world = TwoNodes()
    machine = world.machines[0]
    before_ms = machine.now_ms
    machine.pause(60_000)
    world.wait(60_001)
    assert machine.now_ms <= before_ms + 20_000


def test_a_slow_machine_is_slow_to_answer() -> None:
    world = TwoNodes()
    world.machines[1].event_us = 50_000
    world.call()
    world.wait(20)
    assert not world.answers
    world.wait(500)
    assert len(world.answers) == 1


def test_a_client_goes_through_the_network_too() -> None:
    world = TwoNodes()
    client = Client(world.simulation, world.machines[0], "client-1")
    answers: list[Any] = []
    request = MetadataRequest(topics=None)
    client.ask(request, 12, answers.append)
    world.wait(20)
    world.network.partition("client-1", "node-1")
    client.ask(request, 12, answers.append)
    world.wait(29_000)
    assert len(answers) == 1
    world.wait(2_000)
    assert answers[1] is None
    client.machine = world.machines[1]
    client.ask(request, 12, answers.append)
    world.wait(20)
    assert [broker.node_id for broker in answers[2].brokers] == [2]


def test_a_client_that_sends_ahead_is_read_as_fast_as_it_is_served() -> None:
    world = TwoNodes(penstock_connection_max_in_flight=4)
    end = Raw(world)
    for number in range(50):
        chunks = frames.encode_request(APIS[ApiKey.METADATA], 12, number, "raw", MetadataRequest(topics=None))
        end.socket.send(b"".join(chunks)[4:])  # type: ignore[arg-type]
    world.wait(100)
    assert [int.from_bytes(frame[:4], "big") for frame in end.frames] == list(range(50))


class Raw:
    """A client's bare connection to the first node."""

    def __init__(self, world: TwoNodes) -> None:
        self.frames: list[bytearray] = []
        self.socket = world.network.dial("raw", world.machines[0].address(), self)
        world.wait(10)
        assert self.socket.open

    def up(self) -> None:
        pass

    def received(self, frame: bytearray) -> None:
        self.frames.append(frame)

    def lost(self, reason: str) -> None:
        raise AssertionError(reason)


def chaos(seed: int) -> TwoNodes:
    """Both nodes call each other while the network and the machines fail."""
    world = TwoNodes(seed, connections_max_idle_ms=5_000)
    random = Random(seed)
    calls = 0
    for _ in range(100):
        step = random.randrange(12)
        if step < 6:
            calls += 1
            world.call(random.randrange(2), timeout_ms=random.randrange(10, 3_000))
        elif step == 6:
            names = ["node-1", "node-2"]
            random.shuffle(names)
            world.network.partition(*names, both_ways=random.random() < 0.5)
        elif step < 10:
            world.network.heal()
        elif step == 10:
            world.network.break_connections("node-1")
        else:
            random.choice(world.machines).pause(random.randrange(2_000))
        world.wait(random.randrange(300))
    world.network.heal()
    world.wait(60_000)
    assert len(world.answers) + len(world.reasons) == calls
    assert len(world.answers) > 5
    for machine in world.machines:
        assert not machine.dialled, "idle connections are closed"
        assert all(number < 0 for number in machine.broker.connections), "but the one to itself"
    return world


@pytest.mark.parametrize("first", range(1, 41, 10))
def test_every_call_ends_once_and_no_connection_is_left(first: int) -> None:
    for seed in range(first, first + 10):
        chaos(seed)


def test_a_seed_gives_the_same_trace_every_time() -> None:
    assert chaos(5).simulation.trace_hash == chaos(5).simulation.trace_hash
    assert chaos(5).simulation.trace_hash != chaos(6).simulation.trace_hash
