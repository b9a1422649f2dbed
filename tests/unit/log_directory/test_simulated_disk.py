"""The simulated disk: what a power failure, a failing fsync, a full or a cold disk do."""

from __future__ import annotations

import errno
from random import Random

import pytest

from penstock.errors import NotResident
from simulator.world.disk import PowerLoss, SimulatedDisk


def after_power_failure(seed: int) -> SimulatedDisk:
    disk = SimulatedDisk(random=Random(seed))
    disk.write("durable", 0, [b"d" * 2000])
    disk.fsync("durable")
    disk.fsync_directory("")
    disk.write("durable", 2000, [b"e" * 2000])
    disk.write("unsynced", 0, [b"u" * 2000])
    disk.restart()
    return disk


def test_what_was_synced_survives_every_power_failure() -> None:
    for seed in range(200):
        assert after_power_failure(seed).content("durable")[:2000] == b"d" * 2000


def test_what_was_not_synced_survives_wholly_partly_or_not_at_all() -> None:
    found = [after_power_failure(seed) for seed in range(200)]
    tails = [disk.content("durable")[2000:] for disk in found]
    assert b"" in tails
    assert b"e" * 2000 in tails
    assert any(tail and set(tail) == {ord("e")} and len(tail) < 2000 for tail in tails), "a torn write"
    assert any(b"\0" in tail and b"e" in tail for tail in tails), "sectors out of order"
    assert {disk.exists("unsynced") for disk in found} == {True, False}


def test_a_file_whose_directory_was_not_synced_may_be_gone_with_all_its_synced_content() -> None:
    kept = set()
    for seed in range(50):
        disk = SimulatedDisk(random=Random(seed))
        disk.write("a", 0, [b"a"])
        disk.fsync("a")
        disk.restart()
        kept.add(disk.exists("a"))
    assert kept == {True, False}


def test_a_rename_is_never_half_done() -> None:
    for seed in range(100):
        disk = SimulatedDisk(random=Random(seed))
        disk.replace("f", b"old")
        disk.write("f.tmp", 0, [b"new"])
        disk.fsync("f.tmp")
        disk.rename("f.tmp", "f")
        disk.restart()
        assert disk.content("f") in (b"old", b"new")


def test_replace_is_atomic_wherever_the_power_fails() -> None:
    for crash in range(1, 7):
        for seed in range(20):
            disk = SimulatedDisk(random=Random(seed))
            disk.replace("f", b"old")
            disk.crash_at = disk.changes + crash
            try:
                disk.replace("f", b"new")
            except PowerLoss:
                disk.restart()
            assert disk.content("f") in (b"old", b"new")


def test_after_a_power_loss_nothing_works_until_the_restart() -> None:
    disk = SimulatedDisk()
    disk.crash_at = 1
    with pytest.raises(PowerLoss):
        disk.write("a", 0, [b"a"])
    for use in (lambda: disk.read("a", 0, 1), lambda: disk.fsync("a"), lambda: disk.list(""), lambda: disk.unlink("a")):
        with pytest.raises(PowerLoss):
            use()
    disk.restart(power_failed=False)
    assert disk.read("a", 0, 1) == b"a", "kill -9 leaves the page cache"


def test_the_nth_fsync_fails_and_what_it_should_have_written_is_lost_for_good() -> None:
    disk = SimulatedDisk()
    disk.write("a", 0, [b"first"])
    disk.fsync("a")
    disk.fsync_directory("")
    disk.fail_fsync_at = 3
    disk.write("a", 0, [b"other"])
    with pytest.raises(OSError, match="Input/output") as failed:
        disk.fsync("a")
    assert failed.value.errno == errno.EIO
    assert disk.read("a", 0, 5) == b"other", "the page cache still shows it"
    disk.fsync("a")
    disk.restart()
    assert disk.content("a") == b"first", "a second fsync succeeds without having written anything"


def test_a_full_disk_takes_what_fits() -> None:
    disk = SimulatedDisk()
    disk.capacity_bytes = 10
    disk.write("a", 0, [b"12345678"])
    with pytest.raises(OSError, match="No space") as full:
        disk.write("a", 8, [b"9abc"])
    assert full.value.errno == errno.ENOSPC
    assert disk.content("a") == b"123456789a"
    assert disk.free_bytes() == 0
    disk.write("a", 0, [b"over"])
    disk.unlink("a")
    assert disk.free_bytes() == 10


def test_a_flipped_bit_stays() -> None:
    disk = SimulatedDisk()
    disk.write("a", 0, [b"\0\0"])
    disk.fsync("a")
    disk.fsync_directory("")
    disk.flip_bit("a", 1, 3)
    disk.restart()
    assert disk.content("a") == b"\0\x08"


def test_a_cold_disk_refuses_the_loop_what_no_lane_has_read() -> None:
    disk = SimulatedDisk(1)
    disk.write("a", 0, [b"0123456789"])
    disk.cold = True
    with pytest.raises(NotResident):
        disk.loop.read("a", 0, 4)
    disk.read("a", 0, 4)
    disk.read("a", 6, 4)
    assert disk.loop.read("a", 1, 2) + disk.loop.read("a", 6, 4) == b"126789"
    with pytest.raises(NotResident):
        disk.loop.read("a", 2, 6)


def test_the_disk_counts_what_was_read_and_how_long_it_took() -> None:
    disk = SimulatedDisk()
    disk.write("a", 0, [b"0123456789"])
    disk.read("a", 0, 4)
    disk.read("a", 8, 4)
    assert disk.read_bytes == {"a": 6}
    before_us = disk.busy_us
    disk.fsync("a")
    assert disk.busy_us > before_us


def test_a_write_that_fails_leaves_the_file_as_it_was_and_the_next_one_succeeds() -> None:
    disk = SimulatedDisk()
    disk.write("log", 0, [b"before"])
    disk.fail_write_at = disk.changes + 1
    with pytest.raises(OSError, match="Input/output error"):
        disk.write("log", 6, [b"failed"])
    disk.write("log", 6, [b"after"])
    assert disk.content("log") == b"beforeafter"


def test_an_unreadable_disk_gives_what_is_cached_and_is_whole_again_when_it_is_mended() -> None:
    disk = SimulatedDisk()
    disk.write("log", 0, [b"0123456789"])
    disk.cold = True
    disk.read("log", 0, 4)
    disk.unreadable = True
    assert disk.loop.read("log", 1, 2) == b"12"
    with pytest.raises(NotResident):
        disk.loop.read("log", 2, 6)
    with pytest.raises(OSError, match="Input/output error"):
        disk.read("log", 2, 6)
    disk.mend()
    assert disk.loop.read("log", 2, 6) == b"234567"
