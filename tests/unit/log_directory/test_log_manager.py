"""The log manager on simulated disks: replicas are made, opened, closed, deleted; directories fail; stops are clean."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.config.server import Settings
from penstock.config.topic import TopicConfig
from penstock.errors import ConfigError, StorageError
from penstock.log.directory_operations import CreateReplicas, OpenLog, RecoverLog
from penstock.log.events import (
    CheckpointUnreadable,
    DirectoryFailed,
    LogBroken,
    RecordsLost,
    RecoveryFinished,
    StrayFound,
    TailCut,
)
from penstock.log.log import Log
from penstock.log.manager import LogManager, NotOpen, ReplicaRequest
from penstock.log.meta_properties import MetaProperties, write_meta_properties
from penstock.records.builder import BatchBuilder
from simulator.log.node import CLUSTER_ID, LogNode
from simulator.world.disk import SimulatedDisk
from simulator.world.driver import Simulation

SETTINGS = Settings.for_node(1)


def topic_id(number: int) -> UUID:
    return UUID(int=(1 << 100) + number)


def batch(value: bytes = b"value", count: int = 1) -> bytearray:
    builder = BatchBuilder()
    for _ in range(count):
        builder.append(1_700_000_000_000, None, value)
    return bytearray(builder.build())


class World:
    """One machine, its disks, and short words for what tests do."""

    def __init__(self, directories: int = 1, **settings: object) -> None:
        self.simulation = Simulation(1)
        self.disks = [SimulatedDisk(index, clock=self.simulation.clock) for index in range(directories)]
        self.node = LogNode(self.simulation, self.disks, Settings.for_node(1, **settings))
        self.node.start()

    def settle(self, milliseconds: int = 10_000) -> None:
        self.simulation.run(self.simulation.now_ms + milliseconds)

    def create(self, topic: str, partitions: int = 1, number: int = 1) -> None:
        requests = [ReplicaRequest(topic, index, topic_id(number)) for index in range(partitions)]
        self.node.manager.create(requests, self.simulation.now_ms)
        self.node.drain()
        self.settle()

    def append(self, topic: str, partition: int = 0, value: bytes = b"value") -> None:
        now_ms = self.simulation.now_ms
        self.node.use(topic, partition, lambda log: (log.append_as_leader(batch(value), 0, now_ms), None)[1])
        self.settle()

    def log(self, topic: str, partition: int = 0) -> Log:
        found: list[Log] = []
        self.node.use(topic, partition, found.append)
        self.settle()
        return found[0]

    def stop_and_start(self) -> None:
        self.node.stop()
        self.settle()
        assert not self.node.running
        self.node.start()


def test_a_new_replica_has_a_directory_with_its_topics_id_and_is_durable() -> None:
    world = World()
    world.create("clicks", 2)
    world.disks[0].restart()
    assert world.disks[0].content("clicks-1/partition.metadata").startswith(b"version: 0\ntopic_id: ")
    assert world.node.manager.exists("clicks", 0)
    assert not world.node.manager.exists("clicks", 2)


def test_a_batch_of_replicas_is_one_operation_a_directory() -> None:
    world = World(directories=2)
    world.node.manager.create(
        [ReplicaRequest("clicks", index, topic_id(1)) for index in range(10)], world.simulation.now_ms
    )
    operations = world.node.manager.take_operations()
    assert [type(operation) for operation in operations] == [CreateReplicas, CreateReplicas]
    assert [len(operation.names) for operation in operations if isinstance(operation, CreateReplicas)] == [5, 5]


def test_replicas_go_to_the_wished_directory_or_the_one_with_fewest() -> None:
    world = World(directories=3)
    manager = world.node.manager
    second = manager.table.directories[1].id
    manager.create(
        [ReplicaRequest("a", index, topic_id(1), second) for index in range(2)]
        + [ReplicaRequest("b", index, topic_id(2)) for index in range(3)],
        world.simulation.now_ms,
    )
    described = manager.describe()
    assert described == {0: [("b", 0), ("b", 2)], 1: [("a", 0), ("a", 1)], 2: [("b", 1)]}


def test_cordoned_directories_get_no_new_replicas() -> None:
    world = World(directories=2, log_dirs=("/data/0", "/data/1"), cordoned_log_dirs=("/data/0",))
    world.create("clicks", 3)
    assert len(world.node.manager.describe()[1]) == 3
    world = World(cordoned_log_dirs=("*",))
    world.create("clicks")
    assert not world.node.manager.exists("clicks", 0)


def test_a_log_that_nothing_was_written_to_opens_at_once() -> None:
    world = World()
    world.create("clicks")
    manager = world.node.manager
    assert manager.open_log("clicks", 0) is None
    log = manager.log("clicks", 0, world.simulation.now_ms)
    assert log is manager.open_log("clicks", 0)
    assert (log.topic_id, log.log_start_offset, log.log_end_offset) == (topic_id(1), 0, 0)
    assert not manager.take_operations()
    world.append("clicks")
    world.stop_and_start()
    assert world.log("clicks").log_end_offset == 1


def test_a_log_that_opens_while_its_topic_changes_has_the_new_configuration() -> None:
    world = World()
    world.create("clicks")
    world.append("clicks")
    world.stop_and_start()
    manager, now_ms = world.node.manager, world.simulation.now_ms
    with pytest.raises(NotOpen):
        manager.log("clicks", 0, now_ms)
    world.node.drain()
    changed = world.node.topic_configs["clicks"] = TopicConfig.resolve(SETTINGS, {"min.insync.replicas": "2"})
    manager.config_changed("clicks")
    world.settle()
    assert manager.log("clicks", 0, world.simulation.now_ms).config is changed


def test_what_lies_in_a_directory_that_was_there_before_is_looked_for() -> None:
    world = World()
    world.disks[0].make_directory("clicks-0")
    world.create("clicks")
    with pytest.raises(NotOpen):
        world.node.manager.log("clicks", 0, world.simulation.now_ms)
    assert [type(operation) for operation in world.node.manager.take_operations()] == [OpenLog]


def test_a_log_opens_at_first_use_and_those_who_wait_are_called_once() -> None:
    world = World()
    world.create("clicks")
    world.stop_and_start()
    world.settle()
    manager = world.node.manager
    assert manager.open_log("clicks", 0) is None
    called: list[int] = []
    for _ in range(3):
        with pytest.raises(NotOpen) as waiting:
            manager.log("clicks", 0, world.simulation.now_ms)
        waiting.value.opening.when_done.append(called.append)
    operations = manager.take_operations()
    assert [type(operation) for operation in operations] == [OpenLog], "asked three times, opened once"
    result = operations[0].run(world.disks[0])
    operations[0].owner.operation_completed(operations[0], result, 5)
    assert called == [5, 5, 5]
    assert manager.log("clicks", 0, world.simulation.now_ms) is manager.open_log("clicks", 0)


def test_a_log_may_be_asked_for_before_its_directory_is_there() -> None:
    world = World()
    world.node.manager.create([ReplicaRequest("clicks", 0, topic_id(1))], world.simulation.now_ms)
    world.append("clicks")
    assert world.log("clicks").log_end_offset == 1


def test_an_unknown_replica_is_an_error() -> None:
    world = World()
    for use in (world.node.manager.directory_of, world.node.manager.size_of):
        with pytest.raises(StorageError, match="no replica of clicks-0"):
            use("clicks", 0)
    with pytest.raises(StorageError, match="no replica of clicks-0"):
        world.node.manager.log("clicks", 0, 0)


def test_the_log_least_recently_used_closes_when_too_many_are_open() -> None:
    world = World()
    world.create("clicks", 4)
    world.node.manager.table.open_logs_max = 2
    for partition in (0, 1, 0, 2):
        world.append("clicks", partition)
    manager = world.node.manager
    assert [manager.open_log("clicks", partition) is not None for partition in range(4)] == [True, False, True, False]
    assert world.log("clicks", 1).log_end_offset == 1, "and opens again with all it had"


def test_a_deleted_replica_is_gone_at_once_and_its_files_after_the_delay() -> None:
    world = World(log_segment_delete_delay_ms=60_000)
    world.create("clicks")
    world.append("clicks")
    world.node.manager.delete("clicks", 0, world.simulation.now_ms)
    assert not world.node.manager.exists("clicks", 0)
    world.node.drain()
    world.settle(1_000)
    (renamed,) = [entry.name for entry in world.disks[0].list("") if entry.is_directory]
    assert renamed.startswith("clicks-0.")
    assert renamed.endswith("-delete")
    world.settle(60_000)
    assert [entry.name for entry in world.disks[0].list("") if entry.is_directory] == []


def test_a_topic_may_be_deleted_and_made_again_under_load() -> None:
    world = World()
    manager = world.node.manager
    for number in range(1, 6):
        manager.create([ReplicaRequest("clicks", 0, topic_id(number))], world.simulation.now_ms)
        now_ms = world.simulation.now_ms
        world.node.use("clicks", 0, lambda log, now=now_ms: (log.append_as_leader(batch(), 0, now), None)[1])
        world.settle(number % 3)
        manager.delete("clicks", 0, world.simulation.now_ms)
    manager.create([ReplicaRequest("clicks", 0, topic_id(9))], world.simulation.now_ms)
    world.append("clicks")
    assert world.log("clicks").log_end_offset == 1
    assert world.log("clicks").topic_id == topic_id(9)
    assert manager.table.directories[0].error is None


def test_the_files_of_an_interrupted_deletion_go_at_the_next_start() -> None:
    world = World()
    world.create("clicks")
    world.node.manager.delete("clicks", 0, world.simulation.now_ms)
    world.node.drain()
    world.settle(500)
    world.node.kill(power_failed=False)
    world.settle()
    assert [entry.name for entry in world.disks[0].list("") if entry.is_directory] == []


def test_strays_are_set_aside_by_name_and_by_topic_id() -> None:
    world = World()
    world.create("kept", number=1)
    world.create("stray", number=2)
    world.create("remade", number=3)
    world.stop_and_start()
    manager = world.node.manager
    assigned = {"kept": topic_id(1), "remade": topic_id(4)}
    manager.strays.set_aside(lambda topic, _: assigned.get(topic), lambda *_: None, world.simulation.now_ms)
    manager.create([ReplicaRequest("remade", 0, topic_id(4))], world.simulation.now_ms)
    world.append("remade")
    assert world.log("remade").topic_id == topic_id(4)
    assert {event.log for event in world.node.events if isinstance(event, StrayFound)} == {"stray-0", "remade-0"}
    assert manager.exists("kept", 0)
    assert not manager.exists("stray", 0)
    assert sum(entry.name.endswith("-stray") for entry in world.disks[0].list("")) == 2


def test_a_failed_directory_takes_its_logs_offline_and_no_others() -> None:
    world = World(directories=2)
    world.create("clicks", 2)
    world.append("clicks", 0)
    world.append("clicks", 1)
    manager = world.node.manager
    world.disks[0].fail_write_at = world.disks[0].changes
    world.append("clicks", 0)
    assert [event.path for event in world.node.events if isinstance(event, DirectoryFailed)] == ["/data/0"]
    with pytest.raises(StorageError, match="/data/0 is offline"):
        manager.log("clicks", 0, world.simulation.now_ms)
    assert manager.open_log("clicks", 0) is None
    world.append("clicks", 1)
    assert world.log("clicks", 1).log_end_offset == 2
    manager.create([ReplicaRequest("more", index, topic_id(2)) for index in range(3)], world.simulation.now_ms)
    assert len(manager.describe()[1]) == 4
    world.node.stop()
    world.settle()
    assert not world.node.running
    assert not world.disks[0].exists(".kafka_cleanshutdown")
    assert world.disks[1].exists(".kafka_cleanshutdown")


def test_those_who_wait_for_a_log_are_called_when_its_directory_fails() -> None:
    world = World()
    world.create("clicks")
    world.stop_and_start()
    world.settle()
    errors: list[StorageError] = []
    world.node.use("clicks", 0, lambda _: None, errors.append)
    world.node.manager.fail_directory(0, OSError(5, "Input/output error"), world.simulation.now_ms)
    assert [str(error) for error in errors] == ["log directory /data/0 is offline"]


def test_a_log_whose_files_are_beyond_use_stays_shut_alone() -> None:
    world = World()
    world.create("clicks", 2)
    world.stop_and_start()
    world.settle()
    world.disks[0].write("clicks-0/partition.metadata", 0, [b"nonsense"])
    errors: list[StorageError] = []
    world.node.use("clicks", 0, lambda _: None, errors.append)
    world.settle()
    assert len(errors) == 1
    assert [event.log for event in world.node.events if isinstance(event, LogBroken)] == ["clicks-0"]
    world.append("clicks", 1)
    assert world.log("clicks", 1).log_end_offset == 1


def test_a_stop_before_there_is_an_epoch_leaves_the_last_clean_stop_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.create("clicks")
    world.node.stop(broker_epoch=77)
    world.settle()
    with monkeypatch.context() as patch:
        patch.setattr(LogManager, "begin", lambda *_: None)  # the broker was not registered
        for _ in range(2):
            world.disks[0].restart()
            world.node.start()
            assert world.node.manager.previous_broker_epoch == 77
            world.node.stop(broker_epoch=-1)
            world.settle()
    world.disks[0].restart()
    world.node.start()
    world.node.stop(broker_epoch=-1)
    world.settle()
    world.disks[0].restart()
    world.node.start()
    assert world.node.manager.previous_broker_epoch == -1, "of this run nobody knows an epoch"


def test_a_clean_stop_is_marked_and_the_next_start_removes_the_mark_before_it_writes() -> None:
    world = World()
    world.create("clicks")
    world.append("clicks")
    assert world.node.manager.previous_broker_epoch == -1
    world.node.stop(broker_epoch=77)
    world.settle()
    world.disks[0].restart()
    assert world.disks[0].content("recovery-point-offset-checkpoint") == b"0\n1\nclicks 0 1\n"
    assert world.disks[0].content("replication-offset-checkpoint") == b"0\n1\nclicks 0 1\n"
    world.node.start()
    assert world.node.manager.previous_broker_epoch == 77
    assert not world.disks[0].exists(".kafka_cleanshutdown")
    assert world.log("clicks").log_end_offset == 1
    assert world.node.manager.high_watermark("clicks", 0) == 1


def test_after_a_clean_stop_the_next_start_reads_only_the_small_files() -> None:
    world = World()
    world.create("clicks", 20)
    for partition in range(20):
        world.append("clicks", partition, b"v" * 10_000)
    world.node.stop()
    world.settle()
    disk = world.disks[0]
    disk.read_bytes.clear()
    world.node.start()
    world.settle(1_000)
    small = {
        "meta.properties",
        ".kafka_cleanshutdown",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    }
    assert set(disk.read_bytes) == small
    assert sum(disk.read_bytes.values()) == sum(disk.size(path) for path in small - {".kafka_cleanshutdown"}) + len(
        b'{"version":0,"brokerEpoch":1}'
    )


def test_opening_after_a_clean_stop_reads_the_tail_of_the_log_not_its_records() -> None:
    world = World()
    world.create("clicks")
    for _ in range(50):
        world.append("clicks", 0, b"v" * 10_000)
    world.stop_and_start()
    world.disks[0].read_bytes.clear()
    assert world.log("clicks").log_end_offset == 50
    assert world.disks[0].read_bytes.get("clicks-0/00000000000000000000.log", 0) < 25_000


def test_a_stop_waits_for_logs_that_are_being_opened() -> None:
    world = World()
    world.create("clicks")
    world.node.use("clicks", 0, lambda _: None)
    world.node.stop()
    world.settle()
    assert not world.node.running
    assert world.disks[0].exists(".kafka_cleanshutdown")


def test_a_replica_that_may_lie_in_an_offline_directory_is_not_made_anew_elsewhere() -> None:
    world = World(directories=2)
    first, second = (directory.id for directory in world.node.manager.table.directories)
    world.node.manager.fail_directory(0, OSError(5, "Input/output error"), world.simulation.now_ms)
    manager = world.node.manager
    requests = [
        ReplicaRequest("there", 0, topic_id(1), first, is_new=False),
        ReplicaRequest("never-told", 0, topic_id(2), None, is_new=False),
        ReplicaRequest("here", 0, topic_id(3), second, is_new=False),
        ReplicaRequest("new", 0, topic_id(4), None),
    ]
    manager.create(requests, world.simulation.now_ms)
    assert [each.topic for each in requests if manager.exists(each.topic, 0)] == ["here", "new"]


def test_a_directory_id_is_made_once_and_kept() -> None:
    world = World()
    first = world.node.manager.table.directories[0].id
    assert first is not None
    assert world.node.manager.cluster_id == CLUSTER_ID
    world.stop_and_start()
    assert world.node.manager.table.directories[0].id == first


def test_a_directory_of_another_node_stops_the_start() -> None:
    simulation = Simulation(1)
    disk = SimulatedDisk()
    write_meta_properties(disk, MetaProperties("c", 9, None))
    with pytest.raises(ConfigError, match="node id mismatch"):
        LogNode(simulation, [disk], SETTINGS).start()


def test_an_unreadable_checkpoint_is_reported_and_counts_as_empty() -> None:
    world = World()
    world.create("clicks")
    world.append("clicks")
    world.node.stop()
    world.settle()
    world.disks[0].replace("replication-offset-checkpoint", b"garbage\nmore\n")
    world.node.start()
    assert [event.path for event in world.node.events if isinstance(event, CheckpointUnreadable)] == [
        "/data/0/replication-offset-checkpoint"
    ]
    assert world.node.manager.high_watermark("clicks", 0) == 0
    assert world.log("clicks").log_end_offset == 1


def test_an_idle_node_has_no_deadline_and_a_busy_one_writes_its_checkpoints() -> None:
    world = World()
    assert world.node.manager.next_deadline_ms() is None
    world.create("clicks")
    world.append("clicks")
    world.settle(6_000)
    assert world.disks[0].content("replication-offset-checkpoint") == b"0\n1\nclicks 0 1\n"
    changes = world.disks[0].changes
    world.settle(30 * 60_000)
    assert world.disks[0].changes == changes, "nothing changed, nothing is written"


def test_flush_ms_makes_records_durable_and_moves_the_recovery_point() -> None:
    world = World()
    world.node.topic_configs["clicks"] = TopicConfig.resolve(SETTINGS, {"flush.ms": "500"})
    world.create("clicks")
    world.append("clicks")
    world.settle(1_000)
    assert world.log("clicks").recovery_point == 1
    assert world.disks[0].fsyncs > 0
    world.settle(60_000)
    assert world.disks[0].content("recovery-point-offset-checkpoint") == b"0\n1\nclicks 0 1\n"


def test_sizes_of_closed_logs_are_added_up_in_the_lane() -> None:
    world = World()
    world.create("clicks", 3)
    world.append("clicks", 1)
    size_bytes = world.log("clicks", 1).size_bytes
    assert world.node.manager.size_of("clicks", 1) == size_bytes
    world.stop_and_start()
    with pytest.raises(NotOpen) as waiting:
        world.node.manager.size_of("clicks", 0)
    called: list[int] = []
    waiting.value.opening.when_done.append(called.append)
    world.node.drain()
    world.settle(1_000)
    assert len(called) == 1
    assert [world.node.manager.size_of("clicks", partition) for partition in range(3)] == [0, size_bytes, 0]
    assert world.node.manager.open_log("clicks", 1) is None


def test_delete_records_is_in_the_log_start_checkpoint() -> None:
    world = World()
    world.create("clicks")
    for _ in range(3):
        world.append("clicks")
    world.node.use("clicks", 0, lambda log: (log.advance_log_start(2, 3), None)[1])
    world.settle(70_000)
    assert world.disks[0].content("log-start-offset-checkpoint") == b"0\n1\nclicks 0 2\n"
    world.stop_and_start()
    assert world.log("clicks").log_start_offset == 2


def test_after_an_unclean_stop_every_log_is_recovered_a_few_at_a_time_those_asked_for_at_once() -> None:
    world = World(num_recovery_threads_per_data_dir=2)
    world.create("clicks", 6)
    for partition in range(6):
        world.append("clicks", partition)
    world.node.kill(power_failed=False)
    begun: list[str] = []
    recovered = RecoverLog.run

    def noting(operation: RecoverLog, disk: object) -> object:
        begun.append(operation.arguments.name)
        return recovered(operation, disk)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecoverLog, "run", noting)
        patch.setattr(world.node, "restarted", lambda: world.node.use("clicks", 5, lambda _: None))
        world.settle()
    assert sorted(begun) == [f"clicks-{partition}" for partition in range(6)]
    assert "clicks-5" in begun[:3], "asked for: not behind the others"
    assert [world.node.manager.open_log("clicks", partition) is not None for partition in range(6)] == [False] * 5 + [
        True
    ]
    finished = [event for event in world.node.events if isinstance(event, RecoveryFinished)]
    assert [event.logs for event in finished] == [6]
    assert world.log("clicks", 0).log_end_offset == 1


def test_a_stop_during_recovery_is_not_marked_clean_and_the_next_start_goes_on() -> None:
    world = World(num_recovery_threads_per_data_dir=1)
    world.create("clicks", 6)
    world.node.kill(power_failed=False)
    world.simulation.run(world.simulation.now_ms + 1_001)
    world.node.stop()
    world.settle()
    assert not world.node.running
    assert not world.disks[0].exists(".kafka_cleanshutdown")
    world.node.start()
    world.settle()
    world.stop_and_start()
    assert world.node.manager.previous_broker_epoch == 1


def test_a_torn_tail_is_cut_and_reported() -> None:
    world = World()
    world.create("clicks")
    world.append("clicks")
    world.append("clicks")
    path = "clicks-0/00000000000000000000.log"
    world.node.kill(power_failed=False)
    world.disks[0].truncate(path, world.disks[0].size(path) - 5)
    world.settle()
    assert [event.log for event in world.node.events if isinstance(event, TailCut)] == ["clicks-0"]
    assert world.log("clicks").log_end_offset == 1


def test_what_was_lost_behind_a_damage_is_reported_by_offset_range() -> None:
    world = World()
    world.create("clicks")
    for _ in range(4):
        world.append("clicks")
    path = "clicks-0/00000000000000000000.log"
    world.node.kill(power_failed=False)
    world.disks[0].flip_bit(path, world.disks[0].size(path) // 4 + 65, 1)
    world.settle()
    (lost,) = [event for event in world.node.events if isinstance(event, RecordsLost)]
    assert (lost.log, lost.end_offset) == ("clicks-0", 4)
    assert lost.first_offset in (1, 2)
    assert lost.moved_to
    assert world.log("clicks").log_end_offset == 1
