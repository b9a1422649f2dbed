"""When a leader may act: never by what it knew too long ago, by any clock."""

from __future__ import annotations

import pytest

from penstock.guardian.core.lease import Lease
from penstock.records.wall import WallTime

NOW_MS = 1_800_000_000_000
LEASE_MS = 500


@pytest.mark.parametrize(
    ("contact_ms", "holds"),
    [
        (NOW_MS, True),
        (NOW_MS - 1, True),
        (NOW_MS - LEASE_MS + 1, True),
        (NOW_MS - LEASE_MS, False),
        (NOW_MS - 3_600_000, False),
        (NOW_MS + 1, False),
        (NOW_MS + 3_600_000, False),
        (-1, False),
        (None, False),
    ],
)
def test_a_lease_is_half_open_and_has_no_future(contact_ms: int | None, holds: bool) -> None:
    assert Lease(LEASE_MS, WallTime()).holds(contact_ms, NOW_MS) is holds


def test_setting_the_clock_changes_nothing() -> None:
    wall = WallTime()
    lease = Lease(LEASE_MS, wall)
    for ahead_ms in (3_600_000, -3_600_000):
        wall.ahead_ms = ahead_ms
        assert lease.holds(NOW_MS - 100, NOW_MS)
        assert not lease.holds(NOW_MS - LEASE_MS, NOW_MS)


def test_what_was_known_before_the_process_stood_still_is_forgotten() -> None:
    """The time goes on as if nothing had been; so by it alone the lease would still hold."""
    wall = WallTime()
    lease = Lease(LEASE_MS, wall)
    assert lease.holds(NOW_MS, NOW_MS)
    wall.stopped_ms += 60_000
    assert not lease.holds(NOW_MS, NOW_MS + 10)
    assert not lease.holds(NOW_MS + 10, NOW_MS + 20), "what is as old as the end of the stop may be from before it"
    assert lease.holds(NOW_MS + 11, NOW_MS + 20)
    wall.stopped_ms += 1
    assert not lease.holds(NOW_MS + 11, NOW_MS + 20), "each stop counts"


def test_a_stop_before_the_first_question_was_before_the_leadership() -> None:
    wall = WallTime()
    wall.stopped_ms = 60_000
    assert Lease(LEASE_MS, wall).holds(NOW_MS, NOW_MS)
