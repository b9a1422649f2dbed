"""The simulated network: TCP's promises hold whatever is done to it, and nodes that call each other live through it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from penstock.node.outgoing import Peer
from penstock.protocol import frames
from penstock.protocol.api import APIS, ApiKey
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.testing.simulator import network as network_module
from penstock.testing.simulator.client import Client
from penstock.testing.simulator.disk import SimulatedDisk
from penstock.testing.simulator.driver import Simulation
from penstock.testing.simulator.machine import LISTENER, RESTART_DELAY_MS, SLEW_MS, Machine
from penstock.testing.simulator.network import RETRANSMIT_MAX_MS, SYN_RETRY_MS, Network, Quality, Socket, Way

PORT = 9092
A, B, C = "a", "b", "c"


class End:
    """Notes what its end of a connection hears."""

    def __init__(self, world: Wires, name: str) -> None:
        self.world = world
        self.name = name
        self.socket: Socket
        self.frames: list[bytes] = []
        self.arrived_us: list[int] = []
        self.is_up = False
        self.reasons: list[str] = []

    def up(self) -> None:
        self.is_up = True

    def received(self, frame: bytearray) -> None:
        assert not self.reasons, "nothing follows the end"
        self.frames.append(bytes(frame))
        self.arrived_us.append(self.world.simulation.now_us)

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)


class Wires:
    """A network, and listeners on B that note their ends."""

    def __init__(self, seed: int = 1, **settings: Any) -> None:
        self.simulation = Simulation(seed)
        self.network = Network(self.simulation, **settings)
        self.accepted: list[End] = []
        self.network.listen(B, PORT, self._accept)

    def _accept(self, socket: Socket) -> End:
        end = End(self, f"accepted {len(self.accepted)}")
        end.socket = socket
        self.accepted.append(end)
        return end

    def dial(self, host: str = A, target: str = B) -> End:
        end = End(self, f"dialled from {host}")
        end.socket = self.network.dial(host, (target, PORT), end)
        return end

    def pair(self) -> tuple[End, End]:
        near = self.dial()
        self.wait(10)
        assert near.is_up
        return near, self.accepted[-1]

    def wait(self, milliseconds: int) -> None:
        self.simulation.run(self.simulation.now_ms + milliseconds)


def test_what_is_sent_arrives_in_order_and_after_the_connection() -> None:
    wires = Wires()
    near, far = wires.pair()
    for number in range(100):
        near.socket.send(b"%d" % number)
        far.socket.send(b"%d" % -number)
    wires.wait(10)
    assert far.frames == [b"%d" % number for number in range(100)]
    assert near.frames == [b"%d" % -number for number in range(100)]
    assert len(set(far.arrived_us)) > 1, "each has a latency of its own"


def test_a_port_where_nobody_listens_refuses() -> None:
    wires = Wires()
    wires.network.stop_listening(B, PORT)
    near = wires.dial()
    wires.wait(10)
    assert near.reasons == ["connection refused"]
    assert not wires.network.sockets


def test_closing_is_heard_after_what_was_sent() -> None:
    wires = Wires()
    near, far = wires.pair()
    near.socket.send(b"last")
    near.socket.close()
    near.socket.send(b"too late")
    wires.wait(10)
    assert (far.frames, far.reasons) == ([b"last"], ["closed by the other side"])
    assert near.reasons == [], "who closes knows"
    assert not wires.network.sockets


def test_a_partition_delays_and_loses_nothing() -> None:
    wires = Wires()
    near, far = wires.pair()
    near.socket.send(b"before")
    wires.network.partition(A, B)
    near.socket.send(b"during")
    far.socket.send(b"other way")
    wires.wait(60_000)
    assert far.frames == near.frames == []
    wires.network.heal()
    near.socket.send(b"after")
    wires.wait(RETRANSMIT_MAX_MS + 10)
    assert far.frames == [b"before", b"during", b"after"]
    assert near.frames == [b"other way"]


def test_a_partition_one_way_lets_the_other_way_through() -> None:
    wires = Wires()
    near, far = wires.pair()
    wires.network.partition(A, B, both_ways=False)
    near.socket.send(b"blocked")
    far.socket.send(b"free")
    wires.wait(1_000)
    assert (near.frames, far.frames) == ([b"free"], [])
    beginning = wires.dial()
    answering = wires.dial(B, A)
    wires.wait(100)
    assert not beginning.is_up
    assert not answering.is_up


def test_a_partition_keeps_the_news_of_a_close_and_lets_it_through_later() -> None:
    wires = Wires()
    near, far = wires.pair()
    wires.network.partition(A, B)
    near.socket.close()
    wires.wait(10_000)
    assert far.reasons == []
    wires.network.heal(B, A)
    wires.wait(RETRANSMIT_MAX_MS + 10)
    assert far.reasons == ["closed by the other side"]


def test_a_partition_of_two_leaves_others_alone() -> None:
    wires = Wires()
    wires.network.isolate(A, [A, B, C])
    near, other = wires.dial(A), wires.dial(C)
    wires.wait(100)
    assert other.is_up
    assert not near.is_up


def test_a_connection_begun_in_a_partition_comes_up_when_it_has_healed() -> None:
    wires = Wires()
    wires.network.partition(A, B)
    near = wires.dial()
    wires.wait(SYN_RETRY_MS // 2)
    wires.network.heal()
    wires.wait(SYN_RETRY_MS // 2 - 10)
    assert not near.is_up
    wires.wait(20)
    assert near.is_up


def test_a_connection_to_a_host_that_stays_away_times_out_unless_it_was_given_up() -> None:
    wires = Wires()
    wires.network.power_off(B)
    patient, hasty = wires.dial(), wires.dial()
    wires.wait(5_000)
    hasty.socket.close()
    wires.wait(200_000)
    assert patient.reasons == ["connection timed out"]
    assert hasty.reasons == []
    assert not wires.network.sockets


def test_a_process_that_is_killed_closes_its_connections_and_ports() -> None:
    wires = Wires()
    near, far = wires.pair()
    far.socket.send(b"last words")
    wires.network.process_died(B)
    late = wires.dial()
    wires.wait(10)
    assert (near.frames, near.reasons) == ([b"last words"], ["closed by the other side"])
    assert late.reasons == ["connection refused"]
    assert far.reasons == []


def test_a_host_without_power_is_heard_of_and_says_nothing_itself() -> None:
    wires = Wires()
    near, far = wires.pair()
    far.socket.send(b"on its way")
    wires.network.power_off(B)
    wires.wait(10)
    assert (near.frames, near.reasons) == ([], ["connection reset"])
    assert far.reasons == []


def test_a_half_open_connection_is_noticed_by_who_sends_when_the_host_is_back() -> None:
    wires = Wires(half_open_probability=1.0)
    silent, asking = wires.pair()[0], wires.pair()[0]
    wires.network.power_off(B)
    wires.wait(10_000)
    asking.socket.send(b"are you there?")
    wires.wait(10_000)
    assert asking.reasons == []
    wires.network.power_on(B)
    wires.wait(RETRANSMIT_MAX_MS + 10)
    assert asking.reasons == ["connection reset"]
    assert silent.reasons == []
    silent.socket.send(b"and you?")
    wires.wait(10)
    assert silent.reasons == ["connection reset"]


def test_connections_that_are_broken_tell_both_ends_and_lose_what_travels() -> None:
    wires = Wires()
    near, far = wires.pair()
    other = wires.dial(C)
    wires.wait(10)
    near.socket.send(b"lost")
    assert wires.network.break_connections(A, B) == 1
    wires.wait(10)
    assert near.reasons == far.reasons == ["connection reset"]
    assert far.frames == []
    assert other.reasons == []


def test_connections_that_fall_silent_tell_nobody_and_carry_nothing() -> None:
    wires = Wires()
    near, far = wires.pair()
    assert wires.network.silence_connections(A, B) == 1
    near.socket.send(b"lost")
    wires.wait(10)
    assert near.socket.open
    near.socket.close()
    wires.wait(10)
    assert far.socket.open
    assert far.frames == []
    assert far.reasons == []


def test_latency_and_bandwidth_are_of_one_direction_between_two_hosts() -> None:
    wires = Wires()
    near, far = wires.pair()
    wires.network.set_quality(A, B, Quality(latency_us=(10_000, 10_000), bytes_per_s=1_000_000))
    begun_us = wires.simulation.now_us
    for _ in range(3):
        near.socket.send(b"x" * 100_000)
    far.socket.send(b"quick")
    wires.wait(1_000)
    assert [arrived_us - begun_us for arrived_us in far.arrived_us] == [110_000, 210_000, 310_000]
    assert near.arrived_us[0] - begun_us < 1_000
    wires.network.set_quality(A, B, None)
    begun_us = wires.simulation.now_us
    near.socket.send(b"x" * 100_000)
    wires.wait(10)
    assert far.arrived_us[-1] - begun_us < 1_000


class Traffic:
    """Frames on many connections while everything happens to the network; each end must hear a prefix, in order."""

    def __init__(self, seed: int) -> None:
        self.wires = Wires(seed, half_open_probability=0.5)
        self.random = Random(seed)
        self.ends: list[End] = []
        self.sent: dict[int, list[bytes]] = {}

    def run(self) -> None:
        network = self.wires.network
        steps: tuple[Callable[[], object], ...] = (
            self.connect,
            self.send,
            self.send,
            self.send,
            lambda: self.random.choice(self.ends).socket.close() if self.ends else None,
            lambda: network.partition(*self.random.sample((A, B, C), 2), both_ways=self.random.random() < 0.5),
            network.heal,
            lambda: network.break_connections(self.random.choice((A, B))) if self.random.random() < 0.2 else None,
            self.restart,
            lambda: self.wires.wait(self.random.randrange(500)),
        )
        for _ in range(400):
            self.random.choice(steps)()
            self.wires.simulation.run(self.wires.simulation.now_ms + 1)
        network.heal()
        self.wires.wait(200_000)
        self.check()

    def connect(self) -> None:
        self.ends.append(self.wires.dial(self.random.choice((A, C))))

    def restart(self) -> None:
        if self.random.random() < 0.2:
            down = self.wires.network.power_off if self.random.random() < 0.5 else self.wires.network.process_died
            down(B)
            self.wires.wait(self.random.randrange(1_000))
            self.wires.network.power_on(B)
            self.wires.network.listen(B, PORT, self.wires._accept)

    def send(self) -> None:
        everybody = [end for end in self.ends + self.wires.accepted if end.socket.open]
        if everybody:
            end = self.random.choice(everybody)
            frame = b"%d" % self.random.getrandbits(32)
            self.sent.setdefault(end.socket.number, []).append(frame)
            end.socket.send(frame)

    def check(self) -> None:
        heard = 0
        for end in self.ends + self.wires.accepted:
            sent = self.sent.get(end.socket.other.number, [])
            assert end.frames == sent[: len(end.frames)], "in order, none left out"
            assert len(end.reasons) <= 1
            if end.socket.open and end.socket.other.open:
                assert end.frames == sent, "late, not lost"
            heard += len(end.frames)
        assert heard


def run_all(seeds: range) -> None:
    for seed in seeds:
        Traffic(seed).run()


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_whatever_happens_a_connection_carries_everything_in_order_or_dies(first: int) -> None:
    run_all(range(first, first + 10))


def test_planted_a_way_that_forgets_what_a_partition_held(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(network: Network, way: Way) -> None:
        way.held.clear()

    monkeypatch.setattr(network_module.Network, "_arrive_again", forgetful)
    with pytest.raises(AssertionError, match=r"late, not lost|none left out"):
        run_all(range(40))


# Nodes on it


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
                broker.outgoing.call(
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
    world.machines[0].broker.outgoing.on_link_lost.append(lambda peer, channel, reason, now_ms: lost.append(reason))
    world.machines[1].restart_delay_ms = None
    world.machines[1].kill(power_failed=False)
    world.wait(20)
    assert lost == ["closed by the other side"]
    world.call()
    world.wait(20)
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


def test_a_clock_that_jumps_ahead_ends_what_has_waited_too_long_by_it() -> None:
    world = TwoNodes()
    world.network.partition("node-1", "node-2")
    world.call(timeout_ms=60_000)
    world.wait(100)
    world.machines[0].step_clock(3_600_000)
    world.wait(10)
    assert len(world.reasons) == 1
    assert world.machines[0].now_ms - world.machines[1].now_ms == 3_600_000


def test_a_clock_that_is_set_back_is_followed_slowly_and_read_at_the_next_start() -> None:
    world = TwoNodes()
    machine = world.machines[0]
    machine.step_clock(-1_000)
    before_ms = machine.now_ms
    world.wait(5_500)
    assert machine.now_ms == before_ms + 5_500 - 5 * SLEW_MS
    machine.kill()
    world.wait(RESTART_DELAY_MS)
    assert machine.now_ms == before_ms + 5_500 + RESTART_DELAY_MS - 1_000


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
