"""Which of a node's directories gets a new replica."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.config.server import Settings
from penstock.config.topic import TopicConfig
from penstock.config.values import GiB, MiB
from penstock.log.directory import LogDirectory
from penstock.log.limits import PROMISED_MS, PROMISED_REPLICAS_MAX
from penstock.log.placement import Placement
from penstock.log.replica import Replica, State
from penstock.log.table import ReplicaTable
from simulator.world.disk import SimulatedDisk


class Disks:
    """Directories with so much free space, and what is put into them."""

    def __init__(self, *free_bytes: int, **settings: object) -> None:
        disks = [SimulatedDisk(index) for index in range(len(free_bytes))]
        directories = [LogDirectory(disk.directory, f"/data/{disk.directory}", disk.loop, disk) for disk in disks]
        for directory, free in zip(directories, free_bytes, strict=True):
            directory.space.measured(free, 1000 * GiB, 0, 0)
        self.table = ReplicaTable(directories, Settings.for_node(1, **settings), lambda _: TopicConfig.defaults())
        self.placement = Placement(self.table)

    def place(self, topic: str, count: int, now_ms: int = 0, *, size_bytes: int = 0) -> list[int]:
        """Creates partitions, all in one call; gives the indexes of their directories."""
        placing = self.placement.begin(now_ms)
        first = len(self.table.of_topic(topic))
        for partition in range(first, first + count):
            directory = placing.best(self.table.directories)
            assert directory is not None
            replica = Replica(topic, partition, UUID(int=1), directory, State.CLOSED)
            replica.size_bytes = size_bytes
            self.table.add(replica)
            placing.took(replica)
        return [replica.directory.index for replica in self.table.of_topic(topic)[first:]]


def test_the_directory_with_the_most_free_bytes_is_taken_until_that_is_promised() -> None:
    disks = Disks(100 * GiB, 103 * GiB)
    assert disks.place("t", 7) == [1, 1, 1, 0, 1, 0, 1], "a segment of 1 GiB each; of equal ones the emptier"


def test_equal_directories_get_the_same_number() -> None:
    disks = Disks(100 * GiB, 100 * GiB, 100 * GiB)
    assert sorted(disks.place("t", 9)) == [0] * 3 + [1] * 3 + [2] * 3


def test_what_replicas_of_the_topic_take_here_is_what_another_is_promised() -> None:
    disks = Disks(100 * GiB, 101 * GiB)
    disks.place("t", 2, size_bytes=20 * GiB)
    after = PROMISED_MS + 1
    assert disks.place("t", 3, after) == [1, 0, 1], "20 GiB each, not a segment"


def test_a_promise_ends_when_it_is_kept_or_when_its_time_is_over() -> None:
    disks = Disks(100 * GiB, 102 * GiB)
    assert disks.place("t", 3) == [1, 1, 0]
    (first, *_) = disks.table.of_topic("t")
    first.size_bytes = 2 * GiB
    assert disks.place("u", 1) == [1], "the first one is large by now, which the free bytes say"
    assert disks.place("v", 3) == [1, 0, 1]
    assert disks.place("w", 2, PROMISED_MS) == [1, 1], "nothing is promised any more"


def test_a_move_is_promised_what_it_has_not_copied_yet() -> None:
    disks = Disks(100 * GiB, 110 * GiB)
    main = Replica("moved", 0, UUID(int=1), disks.table.directories[0], State.CLOSED)
    main.size_bytes = 30 * GiB
    future = Replica("moved", 0, UUID(int=1), disks.table.directories[1], State.CLOSED, own_name="moved-0.f-future")
    future.size_bytes = 0
    disks.table.add(main)
    disks.table.add(future)
    assert disks.place("t", 1) == [0]
    future.size_bytes = 29 * GiB
    assert disks.place("u", 1) == [1]


def test_of_equal_directories_the_least_written_one_is_taken() -> None:
    disks = Disks(100 * GiB, 100 * GiB)
    busy = disks.table.directories[0].space
    busy.written_bytes = 100 * MiB
    busy.measured(100 * GiB, 1000 * GiB, 0, 1000)
    assert disks.place("t", 1) == [1]


def test_a_full_directory_is_taken_only_if_all_are() -> None:
    disks = Disks(100 * GiB, 1 * GiB)
    disks.table.directories[0].space.ran_out()
    assert disks.place("t", 2) == [1, 1]
    disks.table.directories[1].space.ran_out()
    assert disks.place("u", 1) == [0]


def test_by_count_it_is_as_in_kafka() -> None:
    disks = Disks(1 * GiB, 100 * GiB, penstock_log_dir_placement="count")
    assert disks.place("t", 4) == [0, 1, 0, 1]


@pytest.mark.parametrize("topics", [PROMISED_REPLICAS_MAX + 10])
def test_the_memory_of_promises_is_bounded(topics: int) -> None:
    disks = Disks(100 * GiB, 100 * GiB)
    disks.place("t", topics)
    assert len(disks.placement._promises) == PROMISED_REPLICAS_MAX
