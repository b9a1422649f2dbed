"""Retention in virtual time: open logs, logs that nobody has opened, and compacted topics."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.config.server import Settings
from penstock.config.topic import TopicConfig
from penstock.log.directory_operations import OpenLog
from penstock.log.disk import Disk
from penstock.log.events import SegmentsRetired
from penstock.log.limits import RETENTION_LOOKED_AT_MAX
from penstock.log.log import Log
from penstock.log.manager import ReplicaRequest
from penstock.log.retention import Retention
from penstock.log.retiring import retire
from penstock.records.builder import BatchBuilder
from simulator.log.node import LogNode
from simulator.world.disk import SimulatedDisk
from simulator.world.driver import Simulation

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
SETTINGS = Settings.for_node(1)


class Topic:
    """A machine with a topic of some partitions whose segments hold two batches of about 1 KB."""

    def __init__(self, partitions: int = 1, **overrides: str) -> None:
        self.simulation = Simulation(7)
        self.disk = SimulatedDisk(clock=self.simulation.clock)
        self.partitions = partitions
        config = TopicConfig.resolve(
            SETTINGS, {"internal.segment.bytes": "2500", **{name.replace("_", "."): v for name, v in overrides.items()}}
        )
        self.node = LogNode(self.simulation, [self.disk], SETTINGS, {"clicks": config})
        self.node.start()
        requests = [ReplicaRequest("clicks", index, UUID(int=1 << 100)) for index in range(partitions)]
        self.node.manager.create(requests, self.simulation.now_ms)
        self.node.drain()

    def wait(self, milliseconds: int) -> None:
        self.simulation.run(self.simulation.now_ms + milliseconds)

    def append(self, count: int, partition: int = 0) -> None:
        for _ in range(count):
            builder = BatchBuilder()
            builder.append(self.simulation.now_ms, None, b"v" * 1000)
            records = bytearray(builder.build())
            now_ms = self.simulation.now_ms
            self.node.use(
                "clicks", partition, lambda log, r=records, n=now_ms: (log.append_as_leader(r, 0, n), None)[1]
            )
            self.wait(100)

    def restart_cleanly(self) -> None:
        self.node.stop()
        self.wait(1_000)
        assert not self.node.running
        self.node.start()

    def segments(self, partition: int = 0) -> list[int]:
        return [
            int(entry.name.removesuffix(".log"))
            for entry in self.disk.list(f"clicks-{partition}")
            if entry.name.endswith(".log")
        ]

    def log(self, partition: int = 0) -> Log:
        found: list[Log] = []
        self.node.use("clicks", partition, found.append)
        self.wait(1_000)
        return found[0]

    def opened(self) -> list[int]:
        return [index for index in range(self.partitions) if self.node.manager.open_log("clicks", index) is not None]


def test_an_open_log_loses_segments_that_are_too_old() -> None:
    topic = Topic(retention_ms=str(HOUR_MS))
    topic.append(5)
    assert topic.segments() == [0, 2, 4]
    topic.wait(30 * MINUTE_MS)
    topic.append(1)
    assert topic.segments() == [0, 2, 4]
    topic.wait(40 * MINUTE_MS)
    assert topic.segments() == [4]
    assert topic.log().log_start_offset == 4


def test_a_partition_never_opened_loses_segments_that_are_too_old_without_being_opened() -> None:
    topic = Topic(partitions=3, retention_ms=str(HOUR_MS))
    for partition in range(3):
        topic.append(5, partition)
    topic.wait(30 * MINUTE_MS)
    for partition in range(3):
        topic.append(1, partition)
    topic.restart_cleanly()
    topic.wait(20 * MINUTE_MS)
    assert [topic.segments(partition) for partition in range(3)] == [[0, 2, 4]] * 3
    topic.wait(20 * MINUTE_MS)
    assert [topic.segments(partition) for partition in range(3)] == [[4]] * 3
    assert topic.opened() == []
    assert {event.reason for event in topic.node.events if isinstance(event, SegmentsRetired)} == {"retention.ms"}
    assert topic.log(1).log_start_offset == 4
    assert topic.log(1).log_end_offset == 6


def test_the_files_of_a_retired_segment_stay_for_the_delay() -> None:
    topic = Topic(retention_bytes="1500", file_delete_delay_ms="60000")
    topic.append(6)
    topic.restart_cleanly()
    topic.wait(31_000)
    names = [entry.name for entry in topic.disk.list("clicks-0")]
    assert "00000000000000000000.log.deleted" in names
    assert "00000000000000000000.timeindex.deleted" in names
    topic.wait(MINUTE_MS)
    assert not [entry.name for entry in topic.disk.list("clicks-0") if entry.name.endswith(".deleted")]
    assert topic.segments() == [4]


def test_a_partition_never_opened_is_kept_to_its_size() -> None:
    topic = Topic(retention_bytes="3000")
    topic.append(7)
    assert topic.segments() == [0, 2, 4, 6]
    topic.restart_cleanly()
    topic.wait(31_000)
    assert topic.segments() == [4, 6], "only what is wholly above the limit goes"
    assert topic.opened() == []
    assert topic.node.manager.size_of("clicks", 0) == topic.log().size_bytes


def test_an_active_segment_that_is_too_old_is_replaced_after_opening_the_log() -> None:
    topic = Topic(retention_ms=str(HOUR_MS))
    topic.append(3)
    topic.restart_cleanly()
    topic.wait(2 * HOUR_MS)
    assert topic.segments() == [3]
    log = topic.log()
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)


def test_an_idle_partition_is_looked_at_once_and_then_only_when_its_time_has_come() -> None:
    topic = Topic(retention_ms=str(10 * HOUR_MS))
    topic.append(4)
    topic.restart_cleanly()
    topic.wait(MINUTE_MS)
    deadline_ms = topic.node.manager.next_deadline_ms()
    assert deadline_ms is not None
    assert deadline_ms > topic.simulation.now_ms + 9 * HOUR_MS
    listings = count_listings(topic.disk)
    topic.wait(9 * HOUR_MS)
    assert listings == []
    topic.wait(2 * HOUR_MS)
    assert listings
    assert topic.segments() == [4]


@pytest.mark.parametrize("is_open", [False, True])
def test_retention_follows_a_clock_that_is_set_ahead(is_open: bool) -> None:
    topic = Topic(retention_ms=str(10 * HOUR_MS))
    topic.append(4)
    if not is_open:
        topic.restart_cleanly()
    topic.wait(10 * MINUTE_MS)
    topic.node.wall.ahead_ms = 24 * HOUR_MS
    topic.node.manager.tick(topic.simulation.now_ms)
    topic.node.drain()
    topic.wait(10 * MINUTE_MS)
    assert topic.segments() == [4]


@pytest.mark.parametrize("is_open", [False, True])
def test_retention_follows_a_clock_that_is_set_back(is_open: bool) -> None:
    topic = Topic(retention_ms=str(10 * HOUR_MS))
    topic.append(4)
    if not is_open:
        topic.restart_cleanly()
    topic.wait(10 * MINUTE_MS)
    topic.node.wall.ahead_ms = -5 * HOUR_MS
    topic.wait(14 * HOUR_MS)
    assert 0 in topic.segments()
    topic.wait(2 * HOUR_MS)
    assert topic.segments() == [4]


def count_listings(disk: SimulatedDisk) -> list[str]:
    listed: list[str] = []
    original = disk.list

    def counting(path: str) -> object:
        listed.append(path)
        return original(path)

    disk.list = counting  # type: ignore[method-assign, assignment]
    return listed


def test_a_changed_configuration_is_heeded_at_the_next_look() -> None:
    topic = Topic()
    topic.append(6)
    topic.restart_cleanly()
    topic.wait(HOUR_MS)
    assert topic.segments() == [0, 2, 4]
    topic.node.topic_configs["clicks"] = TopicConfig.resolve(SETTINGS, {"retention.bytes": "0"})
    topic.node.manager.config_changed("clicks")
    topic.node.drain()
    topic.wait(6 * MINUTE_MS)
    assert topic.segments() == [4]


def test_a_compacted_topic_keeps_everything() -> None:
    topic = Topic(partitions=2, cleanup_policy="compact", retention_ms="1000", retention_bytes="0")
    topic.append(6)
    topic.append(6, 1)
    topic.restart_cleanly()
    topic.wait(3 * HOUR_MS)
    assert topic.segments() == [0, 2, 4]


def test_deleted_records_go_whatever_the_policy() -> None:
    topic = Topic(cleanup_policy="compact")
    topic.append(6)
    topic.node.use("clicks", 0, lambda log: (log.advance_log_start(4, 6), None)[1])
    topic.restart_cleanly()
    topic.wait(MINUTE_MS)
    assert topic.segments() == [4]
    assert topic.opened() == []


def test_nothing_above_the_high_watermark_goes() -> None:
    topic = Topic(retention_bytes="0")
    topic.append(6)
    topic.node.stop()
    topic.wait(1_000)
    topic.disk.replace("replication-offset-checkpoint", b"0\n1\nclicks 0 3\n")
    topic.node.start()
    topic.wait(31_000)
    assert topic.segments() == [2, 4]


def test_a_log_that_is_asked_for_while_retention_looks_opens_after() -> None:
    topic = Topic(retention_bytes="0")
    topic.append(6)
    topic.restart_cleanly()
    manager = topic.node.manager
    topic.simulation.run(manager.next_deadline_ms())
    log = topic.log()
    assert log.log_start_offset == 4
    assert manager.table.directories[0].error is None


def test_a_partition_deleted_while_retention_looks_leaves_nothing() -> None:
    topic = Topic(retention_bytes="0")
    topic.append(6)
    topic.restart_cleanly()
    manager = topic.node.manager
    due_ms = manager.next_deadline_ms()
    assert due_ms is not None
    topic.simulation.run(due_ms - 1)
    topic.simulation.clock.set(due_ms)
    manager.tick(due_ms)
    manager.delete("clicks", 0, due_ms)
    topic.node.drain()
    topic.wait(2 * MINUTE_MS)
    assert manager.table.directories[0].error is None
    assert [entry.name for entry in topic.disk.list("") if entry.is_directory] == []


def test_many_closed_partitions_are_looked_at_a_few_at_a_time() -> None:
    topic = Topic(partitions=100, retention_bytes="0")
    topic.restart_cleanly()
    manager = topic.node.manager
    due_ms = manager.next_deadline_ms()
    assert due_ms is not None
    topic.simulation.clock.set(due_ms)
    manager.tick(due_ms)
    (operation,) = manager.take_operations()
    assert len(operation.requests) == RETENTION_LOOKED_AT_MAX  # type: ignore[attr-defined]
    assert not isinstance(operation, OpenLog)


def test_a_segment_without_a_time_index_is_as_old_as_its_file() -> None:
    simulation = Simulation(1)
    disk: Disk = SimulatedDisk(clock=simulation.clock)
    disk.make_directory("clicks-0")
    for base in (0, 5):
        disk.write(f"clicks-0/{base:020d}.log", 0, [b"x" * 100])
    rule = Retention(HOUR_MS, -1, 0, 10)
    kept = retire(disk, "clicks-0", rule, simulation.now_ms + HOUR_MS)
    assert (kept.segments, kept.next_ms) == (0, simulation.now_ms + HOUR_MS + 1)
    gone = retire(disk, "clicks-0", rule, simulation.now_ms + HOUR_MS + 1)
    assert (gone.segments, gone.bytes, gone.log_start_offset, gone.size_bytes) == (1, 100, 5, 100)
    assert gone.needs_log, "the active segment is as old"
