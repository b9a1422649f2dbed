"""Logs are left alone until their topics' configurations are known, and until what was cut is cut on disk."""

from __future__ import annotations

import pytest
from unit.log_directory.test_log_manager import World, batch

from penstock.config.topic import TopicConfig
from penstock.errors import RequestError, StorageError
from penstock.log.checkpoints import parse_checkpoint
from penstock.log.directory_operations import WriteCheckpoint
from penstock.log.disk import FSYNC_FAILED
from penstock.log.log import Log


def test_a_log_that_was_cut_is_not_appended_to_before_its_recovery_point_is_lower_on_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a crash after an append and a roll would trust records that nobody has checked."""
    world = World()
    world.create("clicks")
    for _ in range(4):
        world.append("clicks")
    log = world.log("clicks")
    log.flush(world.simulation.now_ms)
    world.node.drain()
    world.settle(100_000)
    path = "recovery-point-offset-checkpoint"
    assert parse_checkpoint(world.disks[0].content(path)) == {("clicks", 0): 4}
    on_disk = []
    real = Log.end_truncation

    def end_truncation(cut: Log, now_ms: int) -> None:
        on_disk.append(parse_checkpoint(world.disks[0].content(path)))
        real(cut, now_ms)

    monkeypatch.setattr(Log, "end_truncation", end_truncation)
    log.truncate_to(2, world.simulation.now_ms)
    world.node.drain()
    while log.truncating:
        with pytest.raises(RequestError):
            log.append_as_leader(batch(), 0, world.simulation.now_ms)
        world.settle(1)
    assert on_disk == [{("clicks", 0): 2}]


def test_after_a_failed_fsync_recoveries_write_again_until_a_clean_stop() -> None:
    world = World()
    world.create("clicks")
    world.append("clicks")
    world.disks[0].fail_fsync_at = world.disks[0].fsyncs + 1
    world.log("clicks").flush(world.simulation.now_ms)
    world.node.drain()
    world.settle()
    assert world.disks[0].exists(FSYNC_FAILED)
    world.node.kill(power_failed=False)
    world.settle()
    assert world.node.manager.table.directories[0].doubtful
    assert world.log("clicks").log_end_offset == 1
    world.stop_and_start()
    assert not world.disks[0].exists(FSYNC_FAILED)
    assert not world.node.manager.table.directories[0].doubtful


@pytest.mark.parametrize("clean", [True, False])
def test_no_log_is_looked_at_before_the_topics_configurations_are_known(clean: bool) -> None:
    """By the defaults, retention removes what a topic keeps for ever."""
    world = World(log_retention_ms=1_000, log_initial_task_delay_ms=0)
    world.create("clicks")
    world.append("clicks")
    if clean:
        world.node.stop()
        world.settle()
    else:
        world.node.kill(power_failed=False)
    opened: list[int] = []

    def unknown(topic: str) -> TopicConfig:
        raise AssertionError("nobody knows yet")

    def look() -> None:
        node = world.node
        table = node.manager.table
        known, table.topic_config = table.topic_config, unknown
        node.use("clicks", 0, lambda log: opened.append(log.log_end_offset))
        now_ms = world.simulation.now_ms
        node.manager.tick(now_ms + 1_000_000)
        assert not [each for each in node.manager.take_operations() if not isinstance(each, WriteCheckpoint)]
        assert opened == []
        table.topic_config = known

    world.node.restarted = look
    if clean:
        world.node.start()
    world.settle()
    assert opened == [1], "who waited has it then"


def test_those_who_wait_are_called_when_a_node_stops_before_it_knows_the_configurations() -> None:
    world = World()
    world.create("clicks")
    world.stop_and_start()
    manager = world.node.manager
    manager.table.begun = False
    errors: list[StorageError] = []
    world.node.use("clicks", 0, lambda _: None, errors.append)
    assert errors == []
    world.node.stop()
    world.settle()
    assert [str(error) for error in errors] == ["the node is stopping"]
    assert not world.node.running
