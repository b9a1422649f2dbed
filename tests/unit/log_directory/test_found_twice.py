"""A partition that a node finds in two of its log directories: the metadata says which one is right."""

from __future__ import annotations

from uuid import UUID

import pytest
from unit.log_directory.test_log_manager import World, topic_id

from penstock.errors import StorageError
from penstock.log.events import FoundTwice
from penstock.log.manager import ReplicaRequest
from simulator.world.disk import SimulatedDisk


def twice_at_home(*, clean: bool) -> World:
    """A node with a partition of one record in its second directory, which fails, and then one of three records in its
    first one; it starts with both directories."""
    world = World(directories=2)
    first, second = (directory.id for directory in world.node.manager.table.directories)
    create(world, second)
    world.append("clicks")
    world.node.stop()
    world.settle()
    world.disks[1].rename("clicks-0", "kept-for-later")
    world.node.start()
    create(world, first)
    for _ in range(3):
        world.append("clicks")
    if clean:
        world.node.stop()
        world.settle()
    else:
        world.node.kill(power_failed=False)
    world.disks[1].rename("kept-for-later", "clicks-0")
    if not world.node.running:
        world.node.start()
    return world


def create(world: World, directory_id: UUID | None) -> None:
    wanted = ReplicaRequest("clicks", 0, topic_id(1), directory_id)
    world.node.manager.create([wanted], world.simulation.now_ms)
    world.node.drain()
    world.settle()


def has_it(disk: SimulatedDisk) -> bool:
    return disk.exists("clicks-0")


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("right", [0, 1])
def test_the_one_in_the_directory_of_the_metadata_is_kept(right: int, clean: bool) -> None:
    world = twice_at_home(clean=clean)
    manager = world.node.manager
    wanted = manager.table.directories[right].id
    manager.strays.set_aside(lambda *_: topic_id(1), lambda *_: wanted, world.simulation.now_ms)
    world.node.drain()
    world.settle()
    assert world.log("clicks").log_end_offset == (3, 1)[right]
    assert manager.directory_of("clicks", 0).index == right
    assert [has_it(disk) for disk in world.disks] == [right == 0, right == 1]
    world.append("clicks")
    world.stop_and_start()
    assert world.log("clicks").log_end_offset == (4, 2)[right]
    assert [str(event) for event in world.node.events if isinstance(event, FoundTwice)] == [
        "clicks-0 is in two log directories, /data/0 and /data/1: the metadata decides"
    ]


def test_when_the_metadata_names_neither_both_are_kept_and_none_is_served() -> None:
    world = twice_at_home(clean=True)
    manager = world.node.manager
    manager.strays.set_aside(lambda *_: topic_id(1), lambda *_: None, world.simulation.now_ms)
    with pytest.raises(StorageError, match="clicks-0 is in two log directories, /data/0 and /data/1"):
        manager.log("clicks", 0, world.simulation.now_ms)
    world.settle()
    assert [has_it(disk) for disk in world.disks] == [True, True]
