"""The coordinator of a node: its topic is made, it follows the leadership, loads, says what cannot be written."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from support.broker import Client, Node
from support.group_requests import (
    ALONE,
    appends,
    change_partition,
    commit,
    committed,
    consumer_heartbeat,
    coordinate,
    fetch_offsets,
    find,
    heartbeat,
    join,
    loads,
    stable_member,
    sync,
)
from support.requests import batch, produced

from penstock.coordinator.limits import COORDINATOR_LOAD_RETRY_MAX_MS, COORDINATOR_TIMER_RETRY_MS
from penstock.coordinator.runtime.shard import ShardState
from penstock.errors import ErrorCode
from penstock.log.disk import Disk, Operation
from penstock.node.coordinator_topic import partition_for
from penstock.node.groups import OFFSETS_TOPIC
from penstock.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest

AWAY = 2
"""A broker that is not there."""


@pytest.fixture
def node() -> Node:
    made = Node(**ALONE)
    made.create_topic("t", partitions=3)
    coordinate(made)
    return made


@pytest.fixture
def client(node: Node) -> Client:
    return node.connect()


def code_of(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code)


def commit_code(answer: Any) -> ErrorCode:
    (code,) = {each.error_code for topic in answer.topics for each in topic.partitions}
    return ErrorCode(code)


# The topic


def test_the_first_who_asks_for_a_coordinator_has_the_topic_made_with_kafkas_configs() -> None:
    node = Node(offsets_topic_replication_factor=1)
    first, second = node.connect(), node.connect()
    node.held = lambda operation: "__cluster_metadata" in operation.order
    first.send(find("a"), 4)
    second.send(find("b", "c"), 6)
    assert not first.answers
    assert not second.answers
    node.let_go()
    codes = [each.error_code for client in (first, second) for each in client.receive().coordinators]
    assert codes == [ErrorCode.NONE] * 3
    image = node.broker.image
    assert len(image.topics_by_name[OFFSETS_TOPIC].partitions) == 50
    configs = image.topic_configs(OFFSETS_TOPIC)
    assert dict(configs) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(100 << 20),
    }
    shards = node.broker.coordinators.groups.runtime.shards
    assert [shard.state for shard in shards.values()] == [ShardState.ACTIVE] * 50


def test_a_topic_that_cannot_be_made_is_told_to_who_asks_and_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(offsets_topic_replication_factor=3)
    with caplog.at_level(logging.WARNING):
        (found,) = node.connect().ask(find(), 4).coordinators
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert OFFSETS_TOPIC not in node.broker.image.topics_by_name
    assert "offsets.topic.replication.factor is 3" in caplog.text
    (again,) = node.connect().ask(find(), 4).coordinators
    assert again.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "and nobody waits for ever"
    assert caplog.text.count("could not be made") == 1, "clients ask several times a second"


def test_a_topic_that_another_is_making_is_no_reason_to_warn(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(**ALONE)
    node.held = lambda operation: "__cluster_metadata" in operation.order
    node.connect().send(
        CreateTopicsRequest(topics=[CreatableTopic(name=OFFSETS_TOPIC, num_partitions=1, replication_factor=1)]), 7
    )
    with caplog.at_level(logging.WARNING):
        (found,) = node.connect().ask(find(), 4).coordinators
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not caplog.records
    node.let_go()
    (found,) = node.connect().ask(find(), 4).coordinators
    assert found.error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("group", "partitions", "partition"),
    [("g", 50, 3), ("", 50, 0), ("console-consumer-1234", 50, 9), ("gr\u00fcppe", 50, 12), ("\U0001f600", 7, 2)],
)
def test_a_group_belongs_to_the_partition_that_javas_hash_says(group: str, partitions: int, partition: int) -> None:
    assert partition_for(group, partitions) == partition


def test_the_smallest_hash_has_no_absolute_value_and_is_taken_as_nought() -> None:
    assert partition_for("polygenelubricants", 50) == 0, "its hash is -2147483648"


# Leadership


def test_who_does_not_lead_is_not_the_coordinator(node: Node, client: Client) -> None:
    joined = stable_member(client)
    change_partition(node, leader=AWAY)
    assert code_of(client.ask(heartbeat(joined.member_id), 4)) is ErrorCode.NOT_COORDINATOR
    assert not node.broker.coordinators.groups.runtime.shards


def test_who_leads_again_has_the_group_as_it_was(node: Node, client: Client) -> None:
    joined = stable_member(client)
    offsets = commit({("t", 0): 5}, member_id=joined.member_id, generation_id=joined.generation_id)
    assert commit_code(client.ask(offsets, 8)) is ErrorCode.NONE
    change_partition(node, leader=AWAY)
    change_partition(node, leader=1)
    assert code_of(client.ask(heartbeat(joined.member_id), 4)) is ErrorCode.NONE
    assert client.ask(sync(joined), 5).assignment == b"all"
    assert committed(client) == {("t", 0): 5}


def test_a_node_that_dies_comes_back_with_every_group_in_every_partition() -> None:
    node = Node(**{**ALONE, "offsets_topic_num_partitions": 50})
    node.create_topic("t", partitions=3)
    coordinate(node)
    client = node.connect()
    groups = [f"group-{number}" for number in range(100)]
    for number, group in enumerate(groups):
        assert commit_code(client.ask(commit({("t", 1): number}, group), 8)) is ErrorCode.NONE
    assert len({partition_for(group, 50) for group in groups}) > 40
    node.crash(power_failed=False)
    client = node.connect()
    assert [committed(client, group) for group in groups] == [{("t", 1): number} for number in range(100)]


def test_a_leader_that_stays_in_a_new_epoch_goes_on_without_loading(node: Node, client: Client) -> None:
    joined = stable_member(client)
    shard = node.broker.coordinators.groups.runtime.shards[0]
    node.held = loads
    change_partition(node, leader=1, isr=[1])
    assert node.broker.coordinators.groups.runtime.shards[0] is shard
    assert code_of(client.ask(heartbeat(joined.member_id), 4)) is ErrorCode.NONE


def test_a_member_that_waits_is_told_when_the_leadership_ends(node: Node, client: Client) -> None:
    first = stable_member(client)
    waiting = node.connect()
    told = waiting.ask(join(), 9)
    waiting.send(join(told.member_id), 9)
    assert not waiting.answers, "it waits for the first member"
    change_partition(node, leader=AWAY)
    assert code_of(waiting.receive()) is ErrorCode.NOT_COORDINATOR
    assert code_of(client.ask(heartbeat(first.member_id), 4)) is ErrorCode.NOT_COORDINATOR


def test_the_topic_is_deleted_and_its_coordinators_with_it(node: Node, client: Client) -> None:
    joined = stable_member(client)
    node.delete_topic(OFFSETS_TOPIC)
    assert not node.broker.coordinators.groups.runtime.shards
    answer = client.ask(heartbeat(joined.member_id), 4)
    assert code_of(answer) in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


# Loading


@pytest.fixture
def loading(node: Node, client: Client) -> Iterator[Node]:
    """A node that leads the partition again, and waits for the disk. There is an offset in the group."""
    assert commit_code(client.ask(commit({("t", 0): 5}), 8)) is ErrorCode.NONE
    change_partition(node, leader=AWAY)
    node.held = loads
    change_partition(node, leader=1)
    assert node.waiting_operations
    yield node
    assert not node.waiting_operations


def test_while_it_loads_all_are_told_to_wait(loading: Node) -> None:
    client = loading.connect()
    wait = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert code_of(client.ask(join(), 9)) is wait
    assert code_of(client.ask(heartbeat("m"), 4)) is ErrorCode.NONE, "as Kafka: a member lives on meanwhile"
    assert commit_code(client.ask(commit({("t", 0): 6}), 8)) is wait
    assert code_of(client.ask(consumer_heartbeat("m"), 1)) is wait
    (found,) = client.ask(find(), 4).coordinators
    assert found.node_id == 1, "and it is the coordinator"
    loading.let_go()
    assert committed(client) == {("t", 0): 5}


def test_what_has_changed_while_it_loaded_is_known_when_it_has(loading: Node) -> None:
    client = loading.connect()
    loading.create_topic("new", partitions=2)
    loading.let_go()
    (topic,) = client.ask(consumer_heartbeat("m", 0, "new"), 1).assignment.topic_partitions
    assert topic.partitions == [0, 1]


def test_offsets_of_a_topic_that_was_deleted_while_it_loaded_are_gone(loading: Node) -> None:
    loading.delete_topic("t")
    loading.let_go()
    assert committed(loading.connect()) == {}


def test_a_coordinator_that_loses_its_partition_while_it_loads_loads_no_further(loading: Node) -> None:
    change_partition(loading, leader=AWAY)
    loading.let_go()
    assert not loading.broker.coordinators.groups.runtime.shards
    change_partition(loading, leader=1)
    assert committed(loading.connect()) == {("t", 0): 5}


def test_a_coordinator_that_leads_again_while_the_disk_still_writes_waits_for_what_it_wrote(
    node: Node, client: Client
) -> None:
    node.held = appends
    client.send(commit({("t", 0): 7}), 8)
    change_partition(node, leader=AWAY)
    change_partition(node, leader=1)
    node.advance(1_000)
    other = node.connect()
    assert commit_code(other.ask(commit({("t", 0): 8}), 8)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    node.let_go()
    node.advance(COORDINATOR_LOAD_RETRY_MAX_MS)
    assert committed(other) == {("t", 0): 7}
    assert commit_code(other.ask(commit({("t", 0): 8}), 8)) is ErrorCode.NONE


# What happens to the log meanwhile


def test_a_coordinator_works_on_while_its_log_moves_to_another_directory() -> None:
    node = Node(**ALONE, directories=2)
    node.create_topic("t", partitions=3)
    coordinate(node)
    client = node.connect()
    joined = stable_member(client)
    shard = node.broker.coordinators.groups.runtime.shards[0]
    before = node.broker.logs.directory_of(OFFSETS_TOPIC, 0)
    other = next(each for each in node.broker.logs.table.directories if each is not before)
    topics = [AlterReplicaLogDirTopic(name=OFFSETS_TOPIC, partitions=[0])]
    moving = node.connect().ask(
        AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=other.path, topics=topics)]), 2
    )
    assert moving.results[0].partitions[0].error_code == ErrorCode.NONE
    for offset in range(20):
        mine = commit({("t", 0): offset}, member_id=joined.member_id, generation_id=joined.generation_id)
        while (code := commit_code(client.ask(mine, 8))) is not ErrorCode.NONE:
            assert code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "for the moment in which the two logs swap"
            node.advance(10)
        node.advance(100)
    assert node.broker.logs.directory_of(OFFSETS_TOPIC, 0) is other
    assert node.broker.coordinators.groups.runtime.shards[0] is shard, "the group goes on without loading"
    node.crash(power_failed=False)
    client = node.connect()
    assert committed(client) == {("t", 0): 19}
    assert code_of(client.ask(heartbeat(joined.member_id), 4)) is ErrorCode.NONE


def test_a_log_that_was_closed_for_others_is_opened_again_by_the_next_who_writes(node: Node, client: Client) -> None:
    joined = stable_member(client)
    shard = node.broker.coordinators.groups.runtime.shards[0]
    node.broker.logs.table.open_logs_max = 1
    for partition in range(3):
        assert produced(client, "t", batch(), partition=partition).error_code == ErrorCode.NONE
    assert shard.log.partition.log.closed, "the coordinator's was the one longest unused"  # type: ignore[attr-defined]
    mine = commit({("t", 0): 5}, member_id=joined.member_id, generation_id=joined.generation_id)
    codes = [commit_code(client.ask(mine, 8)) for _ in range(2)]
    assert codes in ([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE], [ErrorCode.NONE] * 2)
    assert committed(client) == {("t", 0): 5}
    assert node.broker.coordinators.groups.runtime.shards[0] is shard


# What cannot be written


def test_without_enough_replicas_in_sync_the_coordinator_is_not_available_and_nothing_changes() -> None:
    node = Node(**ALONE, min_insync_replicas=2)
    node.create_topic("t", partitions=3)
    coordinate(node)
    client = node.connect()
    joined = stable_member(client)
    assert commit_code(client.ask(commit({("t", 0): 1}, "other"), 8)) is ErrorCode.NONE
    change_partition(node, replicas=[1, AWAY], isr=[1])
    assert commit_code(client.ask(commit({("t", 0): 2}, "other"), 8)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code_of(client.ask(consumer_heartbeat("m", group_id="new"), 1)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code_of(client.ask(heartbeat(joined.member_id), 4)) is ErrorCode.NONE, "what writes nothing is served"
    assert committed(client, "other") == {("t", 0): 1}
    change_partition(node, replicas=[1], isr=[1])
    assert commit_code(client.ask(commit({("t", 0): 2}, "other"), 8)) is ErrorCode.NONE


def test_what_is_not_replicated_in_time_is_not_available_and_may_be_there_later(node: Node, client: Client) -> None:
    change_partition(node, replicas=[1, AWAY], isr=[1, AWAY])
    client.send(commit({("t", 0): 7}), 8)
    assert not client.answers
    assert committed(node.connect()) == {}, "what is not committed is not shown"
    node.advance(node.settings.offsets_commit_timeout_ms)
    assert commit_code(client.receive()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    change_partition(node, replicas=[1], isr=[1])
    assert committed(node.connect()) == {("t", 0): 7}


def test_an_answer_waits_for_the_disk_as_long_as_the_write_does(node: Node, client: Client) -> None:
    node.held = appends
    client.send(commit({("t", 0): 7}), 8)
    assert not client.answers
    assert committed(node.connect()) == {}
    node.let_go()
    assert commit_code(client.receive()) is ErrorCode.NONE
    assert committed(node.connect()) == {("t", 0): 7}


def test_a_stable_fetch_waits_for_what_was_written_before_it(node: Node, client: Client) -> None:
    node.held = appends
    client.send(commit({("t", 0): 7}), 8)
    reader = node.connect()
    reader.send(fetch_offsets({"t": [0]}, require_stable=True), 8)
    assert not reader.answers
    node.let_go()
    assert reader.receive().groups[0].topics[0].partitions[0].committed_offset == 7


def test_a_coordinator_whose_disk_fails_is_one_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node has another directory to live on: that of its metadata."""
    node = Node(**ALONE, directories=2)
    node.create_topic("t", partitions=2)
    coordinate(node)
    client = node.connect()
    joined = stable_member(client)
    found = node.broker.logs.directory_of(OFFSETS_TOPIC, 0)
    assert found is not None
    node.held = appends
    client.send(commit({("t", 0): 7}, "other"), 8)
    with monkeypatch.context() as patched:
        for operation in node.waiting_operations:
            patched.setattr(type(operation), "run", broken)
        node.let_go()
    assert commit_code(client.receive()) is ErrorCode.NOT_COORDINATOR
    assert code_of(client.ask(heartbeat(joined.member_id), 4)) is ErrorCode.NOT_COORDINATOR


def broken(operation: Operation, disk: Disk) -> None:
    """A write that fails."""
    raise OSError(errno.EIO, "the disk is broken")


def test_a_log_with_a_flipped_bit_is_not_served_and_said_to_be_broken(
    node: Node, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    for offset in range(3):
        assert commit_code(client.ask(commit({("t", 0): offset}), 8)) is ErrorCode.NONE
    (disk,) = node.disks
    (segment,) = (path for path in disk.paths() if f"{OFFSETS_TOPIC}-0/" in path and path.endswith(".log"))
    change_partition(node, leader=AWAY)
    disk.flip_bit(segment, disk.size(segment) - 3)
    change_partition(node, leader=1)
    assert commit_code(client.ask(commit({("t", 0): 9}), 8)) is ErrorCode.NOT_COORDINATOR
    assert f"coordinator of {OFFSETS_TOPIC}-0 cannot be loaded" in caplog.text


def test_a_coordinator_that_has_failed_is_loaded_again_in_the_next_epoch(node: Node, client: Client) -> None:
    assert commit_code(client.ask(commit({("t", 0): 5}), 8)) is ErrorCode.NONE
    (disk,) = node.disks
    (segment,) = (path for path in disk.paths() if f"{OFFSETS_TOPIC}-0/" in path and path.endswith(".log"))
    position = disk.size(segment) - 3
    change_partition(node, leader=AWAY)
    disk.flip_bit(segment, position)
    change_partition(node, leader=1)
    assert commit_code(client.ask(commit({("t", 0): 9}), 8)) is ErrorCode.NOT_COORDINATOR
    disk.flip_bit(segment, position)
    change_partition(node, leader=1, isr=[1])
    assert committed(client) == {("t", 0): 5}


# Topics that are deleted


def test_offsets_of_a_deleted_topic_go_as_soon_as_they_can() -> None:
    node = Node(**ALONE, min_insync_replicas=2)
    node.create_topic("t", partitions=3)
    coordinate(node)
    client = node.connect()
    assert commit_code(client.ask(commit({("t", 0): 1}), 8)) is ErrorCode.NONE
    change_partition(node, replicas=[1, AWAY], isr=[1])
    node.delete_topic("t")
    offsets = node.broker.coordinators.groups.runtime.shards[0].machine.state.offsets.committed
    assert offsets.topics("g") is not None, "without replicas nothing is written"
    change_partition(node, replicas=[1], isr=[1])
    node.advance(COORDINATOR_TIMER_RETRY_MS)
    assert offsets.topics("g") is None


def test_a_topic_that_is_made_again_inherits_no_offsets_even_if_nobody_was_there_to_remove_them(
    node: Node, client: Client
) -> None:
    assert commit_code(client.ask(commit({("t", 0): 5}), 8)) is ErrorCode.NONE
    change_partition(node, leader=AWAY)
    node.delete_topic("t")
    node.create_topic("t", partitions=3)
    change_partition(node, leader=1)
    assert committed(client) == {}
    answer = client.ask(fetch_offsets({"t": [0]}), 8)
    assert answer.groups[0].topics[0].partitions[0].committed_offset == -1
