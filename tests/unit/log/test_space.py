"""When a log directory counts as full, and when it does not any more."""

from __future__ import annotations

import errno

import pytest

from penstock.config.values import GiB, KiB, MiB
from penstock.log.space import NoSpace, Space, put_back, reserve_of
from simulator.world.disk import SimulatedDisk


@pytest.mark.parametrize(
    ("wanted_bytes", "total_bytes", "reserve_bytes"),
    [
        (None, 100 * GiB, 256 * MiB),
        (None, 1 * GiB, 1 * GiB // 20),
        (None, 16 * MiB, 16 * MiB // 20),
        (0, 100 * GiB, 0),
        (3 * MiB, 16 * MiB, 3 * MiB),
    ],
)
def test_the_reserve_is_bounded_on_small_disks_unless_it_is_set(
    wanted_bytes: int | None, total_bytes: int, reserve_bytes: int
) -> None:
    assert reserve_of(wanted_bytes, total_bytes) == reserve_bytes


def test_a_directory_is_full_below_the_reserve_until_a_quarter_more_is_free() -> None:
    space = Space()
    reserve_bytes = 4 * MiB
    looks = [(4 * MiB, False), (4 * MiB - 1, True), (4 * MiB, True), (5 * MiB - 1, True), (5 * MiB, False)]
    changes = []
    for number, (free_bytes, full) in enumerate(looks):
        changes.append(space.measured(free_bytes, GiB, reserve_bytes, number))
        assert space.full is full, free_bytes
    assert changes == [False, True, False, False, True]


def test_after_a_write_that_found_no_room_one_look_that_finds_some_is_not_enough() -> None:
    """A quota, or a lack of inodes, does not show in the free bytes."""
    space = Space()
    assert not space.measured(GiB, GiB, 0, 0)
    assert space.ran_out()
    assert not space.ran_out()
    assert space.exhausted
    assert not space.measured(GiB, GiB, 0, 1000)
    assert (space.full, space.exhausted) == (True, False)
    assert space.measured(GiB, GiB, 0, 2000)
    assert not space.full


def test_without_a_reserve_a_little_must_be_free_all_the_same() -> None:
    space = Space()
    space.ran_out()
    for now_ms in range(1000, 10_000, 1000):
        space.measured(256 * KiB - 1, GiB, 0, now_ms)
        assert space.full
    space.measured(256 * KiB, GiB, 0, 10_000)
    space.measured(256 * KiB, GiB, 0, 11_000)
    assert not space.full


def test_the_write_rate_follows_what_is_written_within_minutes() -> None:
    space = Space()
    for second in range(1, 301):
        space.written_bytes += 1000
        space.measured(GiB, GiB, 0, second * 1000)
    assert 900 <= space.write_rate <= 1000
    space.measured(GiB, GiB, 0, 900_000)
    assert space.write_rate < 100


def test_only_what_found_no_room_is_put_back() -> None:
    disk = SimulatedDisk()
    disk.write("a", 0, [b"before"])
    disk.write("a", 6, [b"more"])
    disk.write("b", 0, [b"new"])
    put_back(OSError(errno.EIO, "broken"), disk, [("a", 6)], ["b"])
    assert disk.size("a") == 10
    with pytest.raises(NoSpace):
        put_back(OSError(errno.EDQUOT, "over the quota"), disk, [("a", 6), ("missing", 0)], ["b", "missing"])
    assert disk.content("a") == b"before"
    assert not disk.exists("b")
