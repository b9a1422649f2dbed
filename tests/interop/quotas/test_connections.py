"""Limits on connections, changed by kafka-configs: Penstock and Apache Kafka 4.3.1 do the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from interop.quotas.doors import OUTSIDE_S, Caller, Doors, kafka_doors, penstock_doors, took_s
from interop.tools.toolbox import Toolbox

pytestmark = [pytest.mark.java, pytest.mark.slow]

BURST_S = 2
"""What a rate allows in so many seconds may come at once; see `doors.WINDOWS`."""
RATE = 10


@pytest.fixture(scope="module")
def both() -> Iterator[dict[str, Doors]]:
    with Toolbox() as tools, penstock_doors(tools) as ours, kafka_doors(tools) as kafkas:
        yield {each.name: each for each in (ours, kafkas)}


@pytest.fixture(params=["penstock", "kafka"])
def doors(both: dict[str, Doors], request: pytest.FixtureRequest) -> Doors:
    return both[request.param]


def test_a_full_listener_waits_for_room_or_for_a_higher_limit(doors: Doors) -> None:
    name = "listener.name.clients.max.connections"
    with doors.limited({name: 2}), ExitStack() as stack:
        first, second, third, fourth = [stack.enter_context(Caller(doors.clients)) for _ in range(4)]
        assert first.answered()
        assert second.answered()
        assert not third.answered(OUTSIDE_S)
        with Caller(doors.nodes) as another:
            assert another.answered(), "another listener has room"
        first.socket.close()
        assert third.answered()
        assert not fourth.answered(OUTSIDE_S)
        doors.set_limits({name: 3})
        assert fourth.answered()


def test_beyond_the_brokers_limit_a_node_comes_in_for_who_has_been_idle_longest(doors: Doors) -> None:
    limits = {"max.connections": 3, "listener.name.nodes.max.connections": 100}
    with doors.limited(limits), ExitStack() as stack:
        first, second, third = one_by_one(doors.clients, 3, stack)
        first.again()
        waits = stack.enter_context(Caller(doors.clients))
        assert not waits.answered(OUTSIDE_S)
        node = stack.enter_context(Caller(doors.nodes))
        assert node.answered()
        assert second.closed(), "idle longest"
        first.again()
        third.again()
        assert not waits.answered(OUTSIDE_S), "its place is the node's"
        node.socket.close()
        assert waits.answered()


def test_a_listener_without_its_own_limit_has_the_brokers_even_that_of_nodes(doors: Doors) -> None:
    with doors.limited({"max.connections": 2}), ExitStack() as stack:
        nodes = [stack.enter_context(Caller(doors.nodes)) for _ in range(3)]
        assert [nodes[0].answered(), nodes[1].answered()] == [True, True]
        assert not nodes[2].answered(OUTSIDE_S)


def test_a_lowered_limit_closes_who_has_been_idle_longest(doors: Doors) -> None:
    with ExitStack() as stack:
        callers = one_by_one(doors.clients, 10, stack)
        callers[0].again()
        with doors.limited({"max.connections": 6, "listener.name.nodes.max.connections": 100}):
            assert [each.closed() for each in callers[1:5]] == [True] * 4
            callers[0].again()


def one_by_one(address: str, count: int, stack: ExitStack) -> list[Caller]:
    """Connections of which each has been idle for longer than the next."""
    callers = []
    for _ in range(count):
        callers.append(stack.enter_context(Caller(address)))
        assert callers[-1].answered()
        time.sleep(0.02)
    return callers


def test_a_listeners_rate_makes_its_connections_wait(doors: Doors) -> None:
    with doors.limited({"listener.name.clients.max.connection.creation.rate": RATE}):
        beyond = 15
        assert took_s(doors.clients, BURST_S * RATE + beyond) >= 0.8 * beyond / RATE
        assert took_s(doors.nodes, BURST_S * RATE + beyond) < 0.8 * beyond / RATE


def test_the_brokers_rate_does_not_hold_for_nodes(doors: Doors) -> None:
    own = "listener.name.nodes.max.connection.creation.rate"
    with doors.limited({"max.connection.creation.rate": RATE, own: 1_000}):
        beyond = 15
        assert took_s(doors.nodes, BURST_S * RATE + beyond) < 0.8 * beyond / RATE
        assert took_s(doors.clients, BURST_S * RATE + beyond) >= 0.8 * beyond / RATE


@pytest.mark.parametrize(
    "config",
    [
        "max.connections=0",
        "max.connections=-1",
        "max.connections=many",
        "max.connections=2147483648",
        "max.connection.creation.rate=0",
        "max.connection.creation.rate=-1",
        "max.connection.creation.rate=1.5",
        "listener.name.clients.max.connections=0",
        "listener.name.clients.max.connections=-1",
        "listener.name.clients.max.connections=many",
        "listener.name.clients.max.connection.creation.rate=0",
        "listener.name.clients.max.connection.creation.rate=-1",
        "listener.name.nobody.max.connections=5",
        "listener.name.clients.max.connections.per.ip=5",
        "max.connections.per.ip=-1",
        "max.connections.per.ip=0",
        "max.connections.per.ip.overrides=nonsense",
        "max.connections.per.ip.overrides=[::1:5]",
    ],
)
def test_bad_limits_are_refused_alike(both: dict[str, Doors], config: str) -> None:
    found = {}
    for doors in both.values():
        done = doors.alter("--add-config", config)
        refused = [line for line in done.error.splitlines() if "Exception" in line]
        found[doors.name] = (done.status, [line.split(": ")[:2] for line in refused[:1]])
        if done.status == 0:
            doors.alter("--delete-config", config.partition("=")[0])
    assert found["penstock"] == found["kafka"], found


def test_nobody_waits_once_all_limits_are_gone(doors: Doors) -> None:
    assert took_s(doors.clients, 100) < 10
