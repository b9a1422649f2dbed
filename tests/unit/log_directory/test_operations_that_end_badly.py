"""Operations of the log manager that fail or break off by a bug, and what a clean stop makes of that."""

from __future__ import annotations

import pytest

from penstock.errors import StorageError
from penstock.log.directory_operations import RecoverLog, SetAside
from penstock.log.manager import LogManager, ReplicaRequest

from .test_log_manager import World, topic_id


def test_a_bug_in_an_operation_does_not_keep_a_node_from_stopping() -> None:
    world = World()
    manager = world.node.manager
    manager.create([ReplicaRequest("clicks", 0, topic_id(1))], world.simulation.now_ms)
    (operation,) = manager.take_operations()
    operation.owner.operation_broke(operation, ValueError("planted"), world.simulation.now_ms)
    assert manager.is_broken("clicks", 0)
    world.node.stop()
    world.settle()
    assert not world.node.running


def test_what_falls_due_with_something_that_raises_is_done_later() -> None:
    world = World()
    manager, done = world.node.manager, list[int]()

    def broken(now_ms: int) -> None:
        raise ValueError("planted")

    now_ms = world.simulation.now_ms
    manager.deadlines.at(now_ms, broken)
    manager.deadlines.at(now_ms, done.append)
    with pytest.raises(ValueError, match="planted"):
        manager.tick(now_ms)
    assert manager.next_deadline_ms() == now_ms
    manager.tick(now_ms + 1)
    assert done == [now_ms + 1]


def started_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> LogManager:
    """After a crash of the process; what is to be done then is taken by the test."""
    world.node.kill(power_failed=False)
    monkeypatch.setattr(world.node, "drain", lambda: None)
    world.settle()
    return world.node.manager


def test_a_bug_in_a_recovery_does_not_keep_the_next_log_from_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(num_recovery_threads_per_data_dir=1)
    world.create("clicks", partitions=2)
    manager = started_anew(world, monkeypatch)
    (first,) = manager.take_operations()
    assert isinstance(first, RecoverLog)
    first.owner.operation_broke(first, ValueError("planted"), world.simulation.now_ms)
    (second,) = manager.take_operations()
    assert isinstance(second, RecoverLog)
    assert second.replica is not first.replica


def test_an_operation_that_fails_takes_its_directory_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(directories=2)
    world.create("clicks", partitions=2)
    manager = started_anew(world, monkeypatch)
    failed, other = manager.take_operations()
    failed.owner.operation_failed(failed, OSError("gone"), world.simulation.now_ms)
    assert [directory.index for directory in manager.table.online] == [other.directory]
    with pytest.raises(StorageError, match="offline"):
        manager.log("clicks", failed.directory, world.simulation.now_ms)


def test_a_clean_stop_is_complete_when_the_directories_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr(world.node, "drain", lambda: None)
    manager = world.node.manager
    manager.stop(7, world.simulation.now_ms)
    (mark,) = manager.take_operations()
    assert not manager.finish_stop()
    mark.owner.operation_completed(mark, mark.run(world.disks[0]), world.simulation.now_ms)
    assert manager.finish_stop()
    assert manager.stopped


def test_a_directory_with_an_unrecovered_replica_on_its_way_into_use_is_not_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(directories=2)
    world.create("clicks")
    manager = world.node.manager
    target = manager.table.directories[1 - manager.directory_of("clicks", 0).index]
    manager.moving.begin(("clicks", 0), topic_id(1), target)
    world.node.drain()
    world.settle()
    world.node.kill(power_failed=False)
    world.settle()
    world.stop_and_start()
    clean = [directory.clean_epoch is not None for directory in world.node.manager.table.directories]
    assert clean == [index != target.index for index in range(2)]


def test_a_replica_comes_into_use_though_the_directory_that_it_leaves_fails_at_that_moment() -> None:
    world = World(directories=2)
    world.create("clicks")
    manager, key = world.node.manager, ("clicks", 0)
    source = manager.directory_of(*key)
    target = manager.table.directories[1 - source.index]
    manager.moving.begin(key, topic_id(1), target)
    world.node.drain()
    world.settle()
    manager.moving.swap(key)
    manager.fail_directory(source.index, OSError("gone"), world.simulation.now_ms)
    (rename,) = (each for each in manager.take_operations() if isinstance(each, SetAside))
    assert (rename.directory, rename.renamed) == (target.index, "clicks-0")
