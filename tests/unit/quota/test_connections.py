"""New connections a second, by address."""

from __future__ import annotations

import math

from penstock.quota.connections import ConnectionRates
from penstock.quota.usages import Windows


def rates(limits: dict[str | None, float], addresses_max: int = 100) -> ConnectionRates:
    made = ConnectionRates(Windows(11, 1_000), addresses_max)
    for address, limit in limits.items():
        made.change(address, address or "", limit)
    return made


def test_what_the_windows_allow_may_come_at_once_and_then_one_at_a_time() -> None:
    of = rates({"10.0.0.1": 2})
    assert [of.delay_ms("10.0.0.1", 0) for _ in range(20)] == [0] * 20
    assert of.delay_ms("10.0.0.1", 0) == 500
    assert of.delay_ms("10.0.0.1", 0) == 500, "who was refused does not count"
    assert of.delay_ms("10.0.0.2", 0) == 0
    assert of.refused == 2
    assert of.delay_ms("10.0.0.1", 11_000) == 0


def test_a_delay_is_at_most_a_window() -> None:
    of = rates({"10.0.0.1": 0.01})
    assert of.delay_ms("10.0.0.1", 0) == 0
    assert of.delay_ms("10.0.0.1", 0) == 1_000


def test_a_default_holds_for_each_address_that_has_no_own() -> None:
    of = rates({None: 1, "10.0.0.1": math.inf})
    for address in ("10.0.0.2", "10.0.0.3"):
        assert [of.delay_ms(address, 0) for _ in range(10)] == [0] * 10
        assert of.delay_ms(address, 0) > 0
    assert not any(of.delay_ms("10.0.0.1", 0) for _ in range(100))


def test_what_is_kept_is_bounded_and_forgotten() -> None:
    of = rates({None: 1}, addresses_max=10)
    for number in range(1_000):
        of.delay_ms(f"10.0.1.{number}", 0)
    assert len(of._rates) == 10
    for number in range(20):
        of.delay_ms("10.0.0.1", 60_000)
        of.delay_ms(f"10.0.2.{number}", 60_000 + number * 20_000)
    assert len(of._rates) <= 2, "those of before are gone, and those that came at other times"
    of.change(None, "", None)
    assert of.delay_ms("10.0.0.1", 0) == 0


def test_with_one_window_an_address_may_connect_at_its_rate() -> None:
    of = ConnectionRates(Windows(1, 1_000), 100)
    of.change(None, "", 10)
    allowed = sum(not of.delay_ms("10.0.0.1", now_ms) for now_ms in range(0, 10_000, 10))
    assert 90 <= allowed <= 110


def test_of_several_names_of_an_address_the_last_counts_and_each_can_go() -> None:
    of = rates({})
    for name, limit in (("10.1", 1), ("10.0.1", 3), ("10.0.0.1", 2)):
        of.change("10.0.0.1", name, limit)
    assert allowed_at_once(of) == 10, "that of 10.1, in the order of the names"
    of.change("10.0.0.1", "10.1", None)
    assert allowed_at_once(of) == 30
    of.change("10.0.0.1", "10.0.1", None)
    of.change("10.0.0.1", "unknown", None)
    assert allowed_at_once(of) == 20
    of.change("10.0.0.1", "10.0.0.1", None)
    assert allowed_at_once(of) == 50, "no limit is left"


def allowed_at_once(of: ConnectionRates) -> int:
    of._rates.clear()
    return sum(not of.delay_ms("10.0.0.1", 0) for _ in range(50))


def test_a_change_costs_what_changed() -> None:
    class Counted(dict):  # type: ignore[type-arg]
        walks = 0

        def __iter__(self):  # type: ignore[no-untyped-def]
            Counted.walks += 1
            return super().__iter__()

    of = rates({f"10.1.{number // 256}.{number % 256}": 1 for number in range(1_000)})
    of._limits, of._named = Counted(of._limits), Counted(of._named)
    of.change("10.1.0.7", "10.1.0.7", 2)
    of.change("10.1.0.8", "10.1.0.8", None)
    assert (of._limits["10.1.0.7"], "10.1.0.8" in of._limits, len(of._limits)) == (2, False, 999)
    assert Counted.walks == 0
