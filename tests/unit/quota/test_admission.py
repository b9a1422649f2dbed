"""Which connections may come in, and when: by number and by rate, of the broker, a listener and an address."""

from __future__ import annotations

import pytest

from penstock.quota.admission import Admission, ConnectionLimits, ListenerLimit
from penstock.quota.usages import Windows

CLIENTS, NODES, QUORUM = "CLIENTS", "NODES", "QUORUM"
A, B = "10.0.0.1", "10.0.0.2"
WINDOW_MS = 1_000


def admission(sockets_max: int = 1_000, **limits: object) -> Admission:
    made = Admission(Windows(11, WINDOW_MS), sockets_max)
    made.configure(ConnectionLimits(protected=NODES, apart=frozenset({QUORUM}), **limits))  # type: ignore[arg-type]
    return made


def come(of: Admission, listener: str, now_ms: int = 0, address: str = A) -> int | None:
    """One connection: what it is told; if that is 0, it comes in."""
    wait_ms = of.wait_ms(listener, now_ms)
    if wait_ms == 0:
        of.arrives(listener, now_ms)
        of.entered(listener, address)
    return wait_ms


def come_at_once(of: Admission, listener: str, now_ms: int = 0) -> int:
    """How many come in without a wait; then one waits."""
    count = 0
    while come(of, listener, now_ms) == 0:
        count += 1
        assert count < 10_000
    return count


# How many


def test_a_listener_that_is_full_waits_until_one_leaves() -> None:
    of = admission(listeners={CLIENTS: ListenerLimit(2)})
    assert [come(of, CLIENTS) for _ in range(3)] == [0, 0, None]
    assert come(of, "OTHER") == 0
    assert of.excess == 0
    of.left("OTHER", A)
    assert come(of, CLIENTS) is None, "that was another listener's"
    of.left(CLIENTS, A)
    assert come(of, CLIENTS) == 0


def test_a_full_broker_waits_and_nodes_come_in_at_a_clients_expense() -> None:
    of = admission(connections_max=3)
    assert [come(of, CLIENTS) for _ in range(4)] == [0, 0, 0, None]
    assert of.excess == 0
    assert come(of, NODES) == 0
    assert of.excess == 1
    assert (of.gives_way(CLIENTS), of.gives_way(NODES), of.gives_way(QUORUM)) == (True, False, False)
    of.left(CLIENTS, A)
    assert of.excess == 0
    assert come(of, CLIENTS) is None


def test_nodes_have_a_limit_of_their_own() -> None:
    of = admission(listeners={NODES: ListenerLimit(1)})
    assert [come(of, NODES), come(of, NODES), come(of, CLIENTS)] == [0, None, 0]


def test_an_inter_broker_listener_that_is_the_only_one_is_not_protected() -> None:
    of = Admission(Windows(11, WINDOW_MS))
    of.configure(ConnectionLimits(connections_max=1))
    assert [come(of, NODES), come(of, NODES)] == [0, None]


def test_connections_of_controllers_do_not_count_for_the_broker() -> None:
    of = admission(connections_max=2, listeners={QUORUM: ListenerLimit(3)})
    assert [come(of, QUORUM) for _ in range(4)] == [0, 0, 0, None]
    assert [come(of, CLIENTS) for _ in range(3)] == [0, 0, None]
    assert of.excess == 0


def test_no_more_than_there_are_descriptors_for() -> None:
    of = admission(sockets_max=3)
    assert [come(of, QUORUM), come(of, CLIENTS), come(of, CLIENTS), come(of, CLIENTS)] == [0, 0, 0, None]
    assert of.is_full
    assert come(of, QUORUM) == 0
    assert of.excess == 1


def test_less_than_there_are_is_an_excess() -> None:
    of = admission()
    for _ in range(5):
        come(of, CLIENTS)
        come(of, QUORUM)
    of.configure(ConnectionLimits(connections_max=2, protected=NODES, apart=frozenset({QUORUM})))
    assert of.excess == 3
    of.configure(ConnectionLimits(listeners={CLIENTS: ListenerLimit(2)}))
    assert of.excess == 0, "a listener's limit closes nobody"
    assert come(of, CLIENTS) is None


def test_an_address_has_its_limit() -> None:
    of = admission(of_address_max=2, of_addresses={B: 1})
    assert [of.allows(A), of.allows(B)] == [True, True]
    for address in (A, B, A):
        come(of, CLIENTS, address=address)
    assert [of.allows(A), of.allows(B)] == [False, False]
    of.left(CLIENTS, B)
    assert of.allows(B)


# How many a second


def test_what_the_windows_allow_comes_at_once_and_then_the_rate_holds() -> None:
    of = admission(per_second=2)
    assert come_at_once(of, CLIENTS) == 20
    assert of.wait_ms(CLIENTS, 0) == 500, "asked again: the same one waits"
    assert of.wait_ms(CLIENTS, 499) == 1
    assert come(of, CLIENTS, 500) == 0
    assert of.listeners[CLIENTS].throttle_ms == 500
    came = sum(come(of, CLIENTS, now_ms) == 0 for now_ms in range(501, 60_500, 10))
    assert came == pytest.approx(2 * 60, rel=0.05)


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_the_rate_holds_over_any_time(limit: int) -> None:
    of = admission(per_second=limit)
    came_ms = [now_ms for now_ms in range(0, 40_000, 2) if come(of, CLIENTS, now_ms) == 0]
    for since_ms in range(0, 30_000, 1_000):
        came = sum(since_ms <= each < since_ms + 10_000 for each in came_ms)
        burst = 10 * limit if since_ms == 0 else 0
        assert came <= 11 * limit + burst + 2, "windows are forgotten as a whole, one of eleven at a time"


def test_the_brokers_rate_is_of_all_listeners_but_the_protected_one() -> None:
    of = admission(per_second=1)
    for listener in [CLIENTS, "OTHER"] * 5:
        assert come(of, listener) == 0
    assert come(of, CLIENTS) == 1_000
    assert come(of, "OTHER") == 1_000, "the one that waits counts, and no wait is longer than a window"
    assert [come(of, NODES) for _ in range(30)] == [0] * 30
    assert [come(of, QUORUM) for _ in range(30)] == [0] * 30
    assert come(of, CLIENTS, 1_000) == 0


def test_a_listeners_rate_is_its_own_and_the_longer_wait_counts() -> None:
    of = admission(per_second=100, listeners={CLIENTS: ListenerLimit(per_second=2), NODES: ListenerLimit(per_second=1)})
    assert come_at_once(of, CLIENTS) == 20
    assert come_at_once(of, NODES) == 10
    assert come(of, "OTHER") == 0
    assert come(of, CLIENTS, 400) == 100


def test_who_waits_for_a_rate_waits_for_room_too() -> None:
    of = admission(per_second=1, connections_max=10)
    assert come_at_once(of, CLIENTS) == 10
    assert come(of, CLIENTS, 1_000) is None
    of.left(CLIENTS, A)
    assert come(of, CLIENTS, 1_000) == 0


def test_a_raised_rate_does_not_shorten_a_wait_and_a_rate_of_nothing_is_one_a_window() -> None:
    of = admission(per_second=1)
    assert come_at_once(of, CLIENTS) == 10
    of.configure(ConnectionLimits(per_second=1_000))
    assert come(of, CLIENTS, 0) == 1_000
    of.configure(ConnectionLimits(per_second=0))
    assert come(of, CLIENTS, 1_000) == 0
    assert come(of, CLIENTS, 1_000) == WINDOW_MS


def test_who_is_above_the_rate_of_its_address_counts_for_no_other() -> None:
    of = admission(per_second=2, listeners={CLIENTS: ListenerLimit(per_second=1)})
    for _ in range(100):
        assert of.wait_ms(CLIENTS, 0) == 0
        of.arrives(CLIENTS, 0)
        of.refused_by_rate(CLIENTS, 250, 0)
    assert of.listeners[CLIENTS].address_throttle_ms == 25_000
    assert come_at_once(of, CLIENTS) == 10, "as many as its listener allows"
    assert of.rate.per_second(0) == pytest.approx(1.1), "and the one that waits"
    assert of.wait_ms(CLIENTS, 100_000) == 0
    of.arrives(CLIENTS, 100_000)
    of.refused_by_rate(CLIENTS, 250, 200_000)
    assert of.rate.per_second(200_000) == 0, "what is forgotten is not taken back"


def test_a_connection_that_has_not_waited_counts_when_it_arrives() -> None:
    of = admission(per_second=2)
    for _ in range(20):
        assert of.is_open(CLIENTS, 0)
        of.arrives(CLIENTS, 0)
    assert not of.is_open(CLIENTS, 0)
    assert of.wait_ms(CLIENTS, 0) == 500


def test_with_one_window_the_first_does_not_wait() -> None:
    of = Admission(Windows(1, WINDOW_MS))
    of.configure(ConnectionLimits(per_second=10))
    assert come(of, CLIENTS) == 0
