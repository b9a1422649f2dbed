"""What is wrong with one log of a directory is named, and befalls no other log there."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest
from unit.log_directory.test_log_manager import World, batch

from penstock.log.checkpoints import RECOVERY_POINT, parse_checkpoint
from penstock.log.disk import Buffer
from penstock.log.events import DirectoryFailed, LogBroken, NotStoppedCleanly
from penstock.log.open_logs import OpenLogs

LENGTH_POSITION = 8
"""Of a batch."""


def events(world: World, kind: type) -> list[object]:
    return [event for event in world.node.events if isinstance(event, kind)]


def test_damage_that_a_truncation_meets_gives_up_that_log_with_the_reason() -> None:
    world = World()
    world.create("clicks", 2)
    for partition in range(2):
        for _ in range(3):
            world.append("clicks", partition)
    world.disks[0].write(f"clicks-0/{0:020d}.log", len(batch()) + LENGTH_POSITION, [bytes(4)])
    world.node.use("clicks", 0, lambda log: (log.truncate_to(2, world.simulation.now_ms), None)[1])
    world.settle()
    (broken,) = events(world, LogBroken)
    assert str(broken).startswith("clicks-0")
    assert "bug" not in str(broken)
    assert world.node.manager.is_broken("clicks", 0)
    assert world.log("clicks", 1).log_end_offset == 3
    assert not events(world, DirectoryFailed)


def stopped_without_room_for_one() -> World:
    """Three logs with a record each; a clean stop finds no room to close the second."""
    world = World()
    world.create("clicks", 3)
    for partition in range(3):
        world.append("clicks", partition)
    disk = world.disks[0]
    write = disk.write

    def refusing(path: str, position: int, chunks: Sequence[Buffer]) -> None:
        if path.startswith("clicks-1/"):
            raise OSError(errno.ENOSPC, "no space left on device", path)
        write(path, position, chunks)

    disk.write = refusing  # type: ignore[method-assign]
    world.node.stop()
    world.settle()
    assert not world.node.running
    disk.write = write  # type: ignore[method-assign]
    return world


def test_a_log_that_finds_no_room_at_a_clean_stop_keeps_no_other_from_being_closed() -> None:
    world = stopped_without_room_for_one()
    assert len(events(world, NotStoppedCleanly)) == 1
    assert not events(world, DirectoryFailed)
    checkpoint = parse_checkpoint(world.disks[0].content(RECOVERY_POINT))
    assert [checkpoint.get(("clicks", partition), 0) for partition in range(3)] == [1, 0, 1]
    world.node.start()
    world.settle()
    assert world.node.manager.previous_broker_epoch == -1, "the next start recovers the logs of the directory"
    assert [world.log("clicks", partition).log_end_offset for partition in range(3)] == [1, 1, 1]


def test_without_that_the_checkpoints_of_the_others_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def log_failed(logs: OpenLogs, log: object, error: OSError, now_ms: int) -> None:
        logs._failures.directory_failed(0, error, now_ms)

    monkeypatch.setattr(OpenLogs, "log_failed", log_failed)
    with pytest.raises((AssertionError, FileNotFoundError)):
        test_a_log_that_finds_no_room_at_a_clean_stop_keeps_no_other_from_being_closed()
