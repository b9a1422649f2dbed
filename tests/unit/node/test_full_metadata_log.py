"""A node whose metadata log has no room: it serves on with what it knows, refuses changes, and goes on by itself."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from support.broker import Node
from support.requests import batch, fetch, partitions_of, produced, values_of, wanted

from penstock.errors import ErrorCode, StorageError
from penstock.log.events import DirectoryFailed, MetadataLogFull, MetadataLogHasRoom, NotStoppedCleanly
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest


@pytest.fixture
def node() -> Node:
    """A node with the partition `t-0` on its second disk; the metadata log is on the first."""
    made = Node(directories=2, cordoned_log_dirs=("/data/0",), penstock_log_dir_reserve_bytes=0)
    made.create_topic("t")
    assert made.broker.logs.directory_of("t", 0).index == 1
    assert produced(made.connect(), "t", batch(b"before")).error_code == 0
    return made


def fill(node: Node, free_bytes: int = 0) -> None:
    disk = node.disks[0]
    disk.capacity_bytes = sum(disk.size(path) for path in disk.paths()) + free_bytes


def create(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=30_000)


def told(node: Node) -> list[Any]:
    return [type(event) for event in node.events if isinstance(event, MetadataLogFull | MetadataLogHasRoom)]


def metric(node: Node, name: str) -> float:
    (found,) = [sample.value for sample in node.broker.metrics() if sample.name == name]
    return found


def topics(node: Node) -> set[str]:
    return set(node.broker.image.topics_by_name)


@pytest.mark.parametrize("free_bytes", [0, 40, 100, 170])
def test_it_serves_on_and_what_was_asked_for_is_done_when_there_is_room(node: Node, free_bytes: int) -> None:
    fill(node, free_bytes)
    asking, other = node.connect(), node.connect()
    for number in range(4):
        asking.send(create(f"waits-{number}"), 7)
    assert told(node) == [MetadataLogFull]
    assert metric(node, "penstock_metadata_log_full") == 1
    refused = other.ask(create("refused"), 7).topics[0]
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert refused.error_message == "There is no room for the metadata log."
    node.advance(10_000)
    assert produced(other, "t", batch(b"meanwhile")).base_offset == 1
    read = partitions_of(other.ask(fetch("t", wanted(0)), 12))[0]
    assert values_of(read) == [b"before", b"meanwhile"]
    assert {topic.name for topic in other.ask(MetadataRequest(topics=None), 9).topics} == topics(node)
    node.disks[0].capacity_bytes = None
    node.advance(1_000)
    assert told(node) == [MetadataLogFull, MetadataLogHasRoom]
    assert metric(node, "penstock_metadata_log_full") == 0
    while asking.asked:
        answer = asking.receive().topics[0]
        assert (answer.error_code == ErrorCode.NONE) == (answer.name in topics(node))
    assert "waits-0" in topics(node)
    assert other.ask(create("later"), 7).topics[0].error_code == ErrorCode.NONE
    assert not [event for event in node.events if isinstance(event, DirectoryFailed)]
    assert node.broker.failure is None
    before = topics(node)
    node.crash()
    assert topics(node) == before


def test_what_was_not_acknowledged_may_be_lost_with_the_process_and_nothing_else_is(node: Node) -> None:
    fill(node)
    node.connect().send(create("waits"), 7)
    node.disks[0].capacity_bytes = None
    node.crash()
    assert topics(node) == {"t"}
    assert node.connect().ask(create("later"), 7).topics[0].error_code == ErrorCode.NONE


def test_a_stop_does_not_wait_for_room(node: Node) -> None:
    fill(node)
    node.connect().send(create("waits"), 7)
    node.broker.shutdown(node.now_ms)
    node.run()
    node.advance(10_000)
    assert node.broker.stopped
    assert node.broker.failure is None
    assert not [event for event in node.events if isinstance(event, DirectoryFailed)]
    (said,) = [str(event) for event in node.events if isinstance(event, NotStoppedCleanly)]
    assert said.startswith("log directory /data/0 has no room for a clean stop ([Errno 28] No space left")
    node.disks[0].capacity_bytes = None
    node.start()
    assert topics(node) >= {"t"}
    read = partitions_of(node.connect().ask(fetch("t", wanted(0)), 12))[0]
    assert values_of(read) == [b"before"]


def test_it_does_not_start_without_room_and_says_so(node: Node) -> None:
    node.stop()
    fill(node)
    with pytest.raises(StorageError, match=r"(?s)/data/0 .*No space left.*make room"):
        node.start()
    node.disks[0].capacity_bytes = None
    node.start()
    assert node.broker.logs.previous_broker_epoch >= 0, "the clean stop still counts"


def test_an_error_of_the_medium_still_ends_the_node(node: Node) -> None:
    def failing(*_: Any) -> None:
        raise OSError(errno.EIO, "the medium fails")

    node.disks[0].write = failing  # type: ignore[method-assign]
    node.connect().send(create("u"), 7)
    assert isinstance(node.broker.failure, OSError)
