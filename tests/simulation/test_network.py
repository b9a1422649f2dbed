"""The simulated network: TCP's promises hold whatever is done to it, and nodes that call each other live through it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from simulator.world import network as network_module
from simulator.world.driver import Simulation
from simulator.world.network import RETRANSMIT_MAX_MS, SYN_RETRY_MS, Network, Quality, Socket, Way

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
    wires.network.partition(A, B)
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
