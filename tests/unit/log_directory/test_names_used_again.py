"""A new log of a name that a deleted one had: nothing of the old one becomes true of it, even if there was no room to
write down that it was deleted.

By the old one's checkpoints it would begin where that did, be trusted as far, serve what is not replicated, or count as
cleaned. And a directory that does not say whose log it has might be taken for the new one's.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from unit.log_directory.test_log_manager import World, topic_id

from penstock.log.checkpoints import (
    CLEANER_OFFSET,
    HIGH_WATERMARK,
    LOG_START,
    RECOVERY_POINT,
    parse_checkpoint,
)
from penstock.log.directory_operations import CreateReplicas, WriteCheckpoint
from penstock.log.disk import Buffer
from penstock.log.events import DirectoryFailed
from penstock.log.manager import NotOpen, ReplicaRequest
from simulator.world.disk import SimulatedDisk

FILES = (RECOVERY_POINT, LOG_START, HIGH_WATERMARK, CLEANER_OFFSET)
WRITTEN_MS = 61_000
"""Within this time every changed checkpoint is written."""


class Room:
    """For one file there is no room while `none`; `refused` counts its writes meanwhile."""

    def __init__(self, patch: pytest.MonkeyPatch, file: str) -> None:
        self.none = False
        self.refused = 0
        real = SimulatedDisk.write

        def write(disk: SimulatedDisk, path: str, position: int, chunks: list[Buffer]) -> None:
            if self.none and path == f"{file}.tmp":
                self.refused += 1
                raise OSError(errno.ENOSPC, "No space left on device", path)
            real(disk, path, position, chunks)

        patch.setattr(SimulatedDisk, "write", write)


@pytest.fixture(params=FILES)
def file(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch, file: str) -> Room:
    return Room(monkeypatch, file)


def with_old_log() -> World:
    """A node with a log of eight records that begins at 5, of which every checkpoint on the disk says something."""
    world = World()
    world.create("clicks")
    for _ in range(8):
        world.append("clicks")
    log = world.log("clicks")
    log.flush(world.simulation.now_ms)
    assert log.advance_log_start(5, 8)
    (directory,) = world.node.manager.table.directories
    assert directory.clean_offsets.set(("clicks", 0), 4)
    world.node.manager._checkpointing.write(directory, directory.clean_offsets)
    world.node.drain()
    world.settle(WRITTEN_MS)
    assert [said_of_clicks(world, file) for file in FILES] == [8, 5, 8, 4]
    return world


def said_of_clicks(world: World, file: str) -> int | None:
    """The offset of clicks-0 in a checkpoint file on the disk."""
    disk = world.disks[0]
    return parse_checkpoint(disk.content(file)).get(("clicks", 0)) if disk.exists(file) else None


def delete(world: World) -> None:
    world.node.manager.delete("clicks", 0, world.simulation.now_ms)
    world.node.drain()


def create_anew(world: World, settle_ms: int = 100) -> None:
    world.node.manager.create([ReplicaRequest("clicks", 0, topic_id(2))], world.simulation.now_ms)
    world.node.drain()
    world.settle(settle_ms)


def assert_new(world: World) -> None:
    """The log is one that nothing was ever written to, and no checkpoint speaks of another."""
    log = world.log("clicks")
    assert log.topic_id == topic_id(2)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 0, 0)
    assert world.node.manager.high_watermark("clicks", 0) == 0
    assert [said_of_clicks(world, file) or 0 for file in FILES] == [0, 0, 0, 0]
    assert not [event for event in world.node.events if isinstance(event, DirectoryFailed)]


def while_it_finds_no_room(world: World) -> None:
    delete(world)
    create_anew(world)


def after_it_has_found_no_room(world: World) -> None:
    delete(world)
    world.settle(WRITTEN_MS)
    create_anew(world)


def with_another_topic_that_leaves(world: World) -> None:
    delete(world)
    world.create("views", number=3)
    create_anew(world)


WHEN = pytest.mark.parametrize(
    "happens", [while_it_finds_no_room, after_it_has_found_no_room, with_another_topic_that_leaves]
)


@WHEN
@pytest.mark.parametrize("power_fails", [True, False], ids=["power failure", "kill"])
def test_after_a_crash_a_new_log_has_nothing_of_the_old_one(
    room: Room, happens: Callable[[World], None], power_fails: bool
) -> None:
    world = with_old_log()
    room.none = True
    happens(world)
    assert room.refused
    world.node.kill(power_failed=power_fails)
    room.none = False
    world.settle()
    create_anew(world)  # as the metadata has it, at every start
    world.settle(WRITTEN_MS)
    assert_new(world)


@WHEN
def test_a_new_log_is_there_as_soon_as_there_is_room(room: Room, happens: Callable[[World], None]) -> None:
    world = with_old_log()
    room.none = True
    happens(world)
    assert room.refused
    assert not world.disks[0].exists("clicks-0"), "nothing of it is on the disk before"
    room.none = False
    world.settle(5_000)
    assert world.disks[0].exists("clicks-0/partition.metadata")
    world.append("clicks")
    assert (world.log("clicks").log_start_offset, world.log("clicks").log_end_offset) == (0, 1)


def test_a_new_log_waits_for_a_write_that_is_under_way(room: Room, file: str) -> None:
    """The checkpoint is being written as it is without the old log, when the new one is created."""
    world = with_old_log()
    delete(world)
    world.settle(1_000)
    manager, disk = world.node.manager, world.disks[0]
    for checkpoint in manager.table.directories[0].checkpoints:
        manager._checkpointing.write(manager.table.directories[0], checkpoint)
    writes = manager.take_operations()
    assert [type(write) for write in writes] == [WriteCheckpoint] * 4
    manager.create([ReplicaRequest("clicks", 0, topic_id(2))], world.simulation.now_ms)
    (create,) = manager.take_operations()
    assert isinstance(create, CreateReplicas), "nothing is written twice"
    room.none = True
    for write in writes:
        try:
            write.run(disk)
        except OSError:
            assert isinstance(write, WriteCheckpoint)
            assert write.file == file
    with pytest.raises(OSError, match="no room"):
        create.run(disk)
    assert not disk.exists("clicks-0")


def test_other_topics_are_created_while_a_checkpoint_of_what_is_there_finds_no_room(room: Room) -> None:
    """What has found no room tells of logs that are there, and takes nothing from a new one."""
    world = with_old_log()
    room.none = True
    directory = world.node.manager.table.directories[0]
    for checkpoint in directory.checkpoints:
        checkpoint.set(("clicks", 0), 6)
        world.node.manager._checkpointing.write(directory, checkpoint)
    world.create("views", number=3)
    assert room.refused
    assert world.disks[0].exists("views-0/partition.metadata")


def test_whoever_wants_a_log_that_waits_for_a_checkpoint_is_told(room: Room) -> None:
    world = with_old_log()
    room.none = True
    delete(world)
    asked: list[int] = []
    world.node.manager.create([ReplicaRequest("clicks", 0, topic_id(2))], world.simulation.now_ms)
    replica = world.node.manager.table.find("clicks", 0)
    assert replica is not None
    replica.when_open().append(asked.append)
    world.node.drain()
    world.settle(100)
    assert asked
    assert replica.no_room


# Whose log it is

METADATA = "clicks-0/partition.metadata"


def without_id(world: World) -> None:
    """A start with a directory that has lost its topic id, as a power failure after its creation may have it."""
    world.node.kill(power_failed=False)
    world.disks[0].unlink(METADATA)
    world.disks[0].fsync_directory("clicks-0")
    world.settle(1_001)
    world.node.manager.create([ReplicaRequest("clicks", 0, topic_id(1))], world.simulation.now_ms)


def test_a_log_without_records_takes_none_before_it_says_whose_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(monkeypatch, METADATA)
    world = World()
    world.create("clicks")
    room.none = True
    without_id(world)
    world.append("clicks")
    assert room.refused > 2, "it is tried again"
    with pytest.raises(NotOpen) as waiting:
        world.node.manager.log("clicks", 0, world.simulation.now_ms)
    assert waiting.value.no_room, "nobody should wait for it"
    assert [entry.name for entry in world.disks[0].list("clicks-0") if entry.name.endswith(".log")] == []
    room.none = False
    world.settle(5_000)
    assert world.disks[0].exists(METADATA)
    world.append("clicks")
    world.node.kill()
    world.settle()
    assert world.log("clicks").topic_id == topic_id(1)


def test_records_of_a_topic_that_was_deleted_meanwhile_are_not_those_of_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There was no room for the topic id, room for the records, and then the topic was made again."""
    room = Room(monkeypatch, METADATA)
    world = World()
    world.create("clicks")
    room.none = True
    without_id(world)
    world.append("clicks")
    world.node.kill(power_failed=False)
    room.none = False
    world.settle(1_001)
    create_anew(world)
    assert_new(world)


def test_a_log_with_records_is_read_although_there_is_no_room_for_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that a broker made which knew no topic ids."""
    room = Room(monkeypatch, METADATA)
    world = World()
    world.create("clicks")
    world.append("clicks")
    room.none = True
    without_id(world)
    assert world.log("clicks").log_end_offset == 1
    assert room.refused
    assert not [event for event in world.node.events if isinstance(event, DirectoryFailed)]


def test_a_log_that_is_deleted_while_it_waits_for_its_id_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(monkeypatch, METADATA)
    world = World()
    world.create("clicks")
    room.none = True
    without_id(world)
    world.append("clicks")
    delete(world)
    room.none = False
    world.settle(100_000)
    assert not world.disks[0].exists("clicks-0")
    create_anew(world)
    assert_new(world)
