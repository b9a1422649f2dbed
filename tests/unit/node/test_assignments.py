"""The controller knows in which log directory each replica lies (KIP-858)."""

from __future__ import annotations

import errno
from uuid import UUID

import pytest
from support.broker import Node
from support.requests import batch, produced

from penstock.metadata.image import NO_LEADER
from penstock.node import assignments
from penstock.protocol.api import ApiKey
from penstock.testing.simulator.disk import SimulatedDisk


def told(node: Node, topic: str, partitions: int) -> list[UUID | None]:
    """The directory of each partition of this broker, as the metadata has it."""
    found = node.broker.image.topics_by_name[topic].partitions
    return [found[index].directory(node.broker.node_id) for index in range(partitions)]


def actual(node: Node, topic: str, partitions: int) -> list[UUID | None]:
    """The directory that each replica is in."""
    return [node.broker.logs.directory_of(topic, index).id for index in range(partitions)]


def test_with_several_directories_the_broker_tells_which_it_has_chosen() -> None:
    node = Node(directories=3)
    node.create_topic("t", partitions=7)
    node.advance(10)
    assert told(node, "t", 7) == actual(node, "t", 7)
    assert len(set(actual(node, "t", 7))) == 3
    assert not len(node.broker.publishing.assignments)


def test_many_replicas_are_told_in_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignments, "DIRECTORY_ASSIGNMENTS_PER_REQUEST_MAX", 2)
    node = Node(directories=2)
    node.create_topic("t", partitions=5)
    node.advance(10)
    assert told(node, "t", 5) == actual(node, "t", 5)


def test_what_the_metadata_knows_is_not_told_again() -> None:
    node = Node(directories=2)
    node.create_topic("t", partitions=4)
    node.advance(10)
    assert node.broker.request_counters[ApiKey.ASSIGN_REPLICAS_TO_DIRS].requests == 1
    node.stop()
    node.start()
    node.advance(1_000)
    assert node.broker.ready
    assert node.broker.request_counters[ApiKey.ASSIGN_REPLICAS_TO_DIRS].requests == 0


def test_a_directory_that_was_replaced_is_told_at_the_next_start() -> None:
    node = Node(directories=2)
    node.create_topic("t", partitions=4)
    node.advance(10)
    node.stop()
    before = told(node, "t", 4)
    give_another_id(node.disks[1])
    node.start()
    node.advance(1_000)
    assert told(node, "t", 4) == actual(node, "t", 4) != before


def give_another_id(disk: SimulatedDisk) -> None:
    text = disk.content("meta.properties").decode()
    old = next(line for line in text.splitlines() if line.startswith("directory.id="))
    disk.replace("meta.properties", text.replace(old, "directory.id=4L6g3nShT-eMCtK--X86sw").encode())


def test_of_two_replicas_of_which_none_is_known_to_be_right_nothing_is_told() -> None:
    node = Node(directories=2)
    node.create_topic("t", partitions=2)
    node.advance(10)
    index = [node.broker.logs.directory_of("t", each).index for each in range(2)].index(1)
    node.stop()
    before = told(node, "t", 2)
    node.disks[0].make_directory(f"t-{index}")
    give_another_id(node.disks[1])
    node.start()
    node.advance(1_000)
    assert node.broker.ready
    assert node.broker.logs.is_broken("t", index)
    assert told(node, "t", 2) == before
    assert [disk.exists(f"t-{index}") for disk in node.disks] == [True, True]


def test_replicas_of_a_failed_directory_lead_no_more() -> None:
    node = Node(directories=2)
    node.create_topic("t", partitions=4)
    node.advance(10)
    broken = [index for index in range(4) if node.broker.logs.directory_of("t", index).index == 1]

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    node.disks[1].write = fail  # type: ignore[method-assign, assignment]
    produced(node.connect(), "t", batch(), partition=broken[0])
    node.advance(10)
    partitions = node.broker.image.topics_by_name["t"].partitions
    assert [index for index in range(4) if partitions[index].leader == NO_LEADER] == broken
