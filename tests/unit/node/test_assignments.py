"""The controller knows in which log directory each replica lies (KIP-858)."""

from __future__ import annotations

import errno
from typing import Any
from uuid import UUID

import pytest
from support.broker import Node
from support.requests import batch, produced

from penstock.metadata.image import NO_LEADER
from penstock.node import assignments
from penstock.node.assignments import Assignments
from penstock.node.limits import DUTY_PAUSE_MS
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.metadata.config_record import ConfigRecord
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord
from simulator.world.disk import SimulatedDisk


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
    assert not len(node.broker.replication.assignments)


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
    assert node.broker.dispatcher.exit.counters[ApiKey.ASSIGN_REPLICAS_TO_DIRS].requests == 1
    node.stop()
    node.start()
    node.advance(1_000)
    assert node.broker.ready
    assert node.broker.dispatcher.exit.counters[ApiKey.ASSIGN_REPLICAS_TO_DIRS].requests == 0


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


def node_with_an_empty_replica() -> tuple[Node, int]:
    """A node whose second directory was replaced while it was the last in sync of a partition, whose index is given."""
    node = Node(directories=2)
    topic_id = node.create_topic("t", partitions=2)
    node.advance(10)
    index = [node.broker.logs.directory_of("t", each).index for each in range(2)].index(1)
    lie = [actual(node, "t", 2)[index] or UUID(int=0), UUID(int=0)]
    node.change(
        [PartitionChangeRecord(topic_id=topic_id, partition_id=index, replicas=[1, 2], isr=[1], directories=lie)]
    )
    node.stop()
    give_another_id(node.disks[1])
    node.start()
    return node, index


def allow_unclean_elections(node: Node) -> None:
    name = "unclean.leader.election.enable"
    node.change([ConfigRecord(resource_type=2, resource_name="t", name=name, value="true")])


def test_an_empty_replica_leads_when_unclean_elections_are_allowed(caplog: pytest.LogCaptureFixture) -> None:
    node, index = node_with_an_empty_replica()
    node.advance(25_000)
    found = node.broker.image.topics_by_name["t"].partitions[index]
    assert (found.leader, found.isr) == (NO_LEADER, (1,)), "replica 2 may have what this one had"
    assert [record.message for record in caplog.records if "are empty" in record.message] == [
        "replicas that were the last in sync are empty, since their log directory is gone; bring it back, or elect "
        f"others uncleanly: t-{index}"
    ], "said once"
    allow_unclean_elections(node)
    node.advance(11_000)
    assert told(node, "t", 2) == actual(node, "t", 2)
    assert node.broker.image.topics_by_name["t"].partitions[index].leader == 1


def test_a_bug_while_empty_replicas_are_looked_at_again_ends_no_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    node, _ = node_with_an_empty_replica()
    node.advance(25_000)
    node.bugs_expected = True
    real: Any = Assignments.look

    def look(*arguments: Any) -> None:
        monkeypatch.undo()
        raise LookupError("a bug")

    monkeypatch.setattr(Assignments, "look", look)
    node.advance(11_000)
    assert [type(bug) for bug in node.bugs] == [LookupError]
    assert Assignments.look is real
    allow_unclean_elections(node)
    node.advance(11_000 + DUTY_PAUSE_MS)
    assert told(node, "t", 2) == actual(node, "t", 2)


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
