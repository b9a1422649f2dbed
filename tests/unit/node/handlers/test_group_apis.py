"""The APIs of groups: who may, who is told elsewhere, what is refused before the coordinator, what versions say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from support.broker import Client, Node
from support.group_requests import (
    ALONE,
    GROUP,
    change_partition,
    commit,
    committed,
    consumer_heartbeat,
    coordinate,
    delete_groups,
    delete_offsets,
    describe,
    describe_consumers,
    fetch_offsets,
    find,
    heartbeat,
    join,
    join_new,
    leave,
    stable_member,
    sync,
)

from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.errors import ErrorCode
from penstock.node.handlers import list_groups
from penstock.node.scheduler import Scheduler
from penstock.protocol.message import Message, Struct
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.join_group_response import JoinGroupResponse
from penstock.protocol.messages.list_groups_request import ListGroupsRequest
from penstock.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from penstock.security.authorizer import AclOperation, ResourceType

UNKNOWN_ID = UUID(int=77)
JOINED = JoinGroupResponse(generation_id=1, member_id="m", protocol_name="range")

OF_A_GROUP: dict[str, tuple[Callable[[], Message], int, AclOperation]] = {
    "FindCoordinator": (find, 4, AclOperation.DESCRIBE),
    "JoinGroup": (join, 9, AclOperation.READ),
    "SyncGroup": (lambda: sync(JOINED), 5, AclOperation.READ),
    "Heartbeat": (lambda: heartbeat("m"), 4, AclOperation.READ),
    "LeaveGroup": (lambda: leave("m"), 5, AclOperation.READ),
    "OffsetCommit": (lambda: commit({("t", 0): 1}), 8, AclOperation.READ),
    "OffsetFetch": (lambda: fetch_offsets({"t": [0]}), 8, AclOperation.DESCRIBE),
    "OffsetDelete": (lambda: delete_offsets("t", 0), 0, AclOperation.DELETE),
    "DeleteGroups": (delete_groups, 2, AclOperation.DELETE),
    "DescribeGroups": (describe, 6, AclOperation.DESCRIBE),
    "ConsumerGroupHeartbeat": (lambda: consumer_heartbeat("m"), 1, AclOperation.READ),
    "ConsumerGroupDescribe": (describe_consumers, 1, AclOperation.DESCRIBE),
}
"""A request of each API that names a group, a version, and what one must be allowed to do with the group."""


@pytest.fixture
def node() -> Node:
    made = Node(**ALONE)
    made.create_topic("t", partitions=3)
    made.create_topic("u", partitions=1)
    coordinate(made)
    return made


@pytest.fixture
def client(node: Node) -> Client:
    return node.connect()


def errors_in(value: Any) -> set[ErrorCode]:
    """Every error in a response."""
    if isinstance(value, list):
        return set[ErrorCode]().union(*map(errors_in, value))
    if not isinstance(value, Struct):
        return set()
    found = {ErrorCode(getattr(value, name)) for name in value.__slots__ if name == "error_code"}
    return found.union(*(errors_in(getattr(value, name)) for name in value.__slots__)) - {ErrorCode.NONE}


# Who may


@pytest.mark.parametrize("api", OF_A_GROUP)
def test_who_may_not_is_refused_and_nothing_happens(node: Node, client: Client, api: str) -> None:
    make, version, needed = OF_A_GROUP[api]
    joined = stable_member(client)
    node.acls.refused = lambda operation, resource, _: (operation, resource) == (needed, ResourceType.GROUP)
    answer = client.ask(make(), version)
    assert errors_in(answer) == {ErrorCode.GROUP_AUTHORIZATION_FAILED}
    node.acls.refused = lambda *_: False
    assert client.ask(heartbeat(joined.member_id), 4).error_code == ErrorCode.NONE
    assert committed(client) == {}


@pytest.mark.parametrize("api", OF_A_GROUP)
def test_who_may_do_only_what_is_needed_is_not_refused(node: Node, client: Client, api: str) -> None:
    make, version, needed = OF_A_GROUP[api]
    node.acls.refused = lambda operation, resource, _: resource is ResourceType.GROUP and operation is not needed
    assert ErrorCode.GROUP_AUTHORIZATION_FAILED not in errors_in(client.ask(make(), version))


def test_groups_that_one_may_not_describe_are_not_listed(node: Node, client: Client) -> None:
    for group in ("mine", "theirs"):
        client.ask(commit({("t", 0): 1}, group), 8)
    node.acls.refused = lambda _, resource, name: resource is ResourceType.CLUSTER or name == "theirs"
    answer = client.ask(ListGroupsRequest(), 5)
    assert [group.group_id for group in answer.groups] == ["mine"]
    node.acls.refused = lambda _, resource, name: name == "theirs"
    answer = client.ask(ListGroupsRequest(), 5)
    assert {group.group_id for group in answer.groups} == {"mine", "theirs"}, "DESCRIBE on the cluster shows them all"


def test_offsets_of_topics_that_one_may_not_read_are_refused_and_the_others_committed(
    node: Node, client: Client
) -> None:
    node.acls.refused = lambda _, resource, name: resource is ResourceType.TOPIC and name == "t"
    answer = client.ask(commit({("t", 0): 1, ("u", 0): 2, ("none", 0): 3}), 8)
    codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert codes == {
        "t": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "u": ErrorCode.NONE,
        "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    node.acls.refused = lambda *_: False
    assert committed(client) == {("u", 0): 2}


def test_offsets_of_topics_that_one_may_not_describe_are_not_shown(node: Node, client: Client) -> None:
    client.ask(commit({("t", 0): 1, ("u", 0): 2}), 8)
    node.acls.refused = lambda _, resource, name: resource is ResourceType.TOPIC and name == "t"
    assert committed(client) == {("u", 0): 2}
    (group,) = client.ask(fetch_offsets({"t": [0], "u": [0]}), 8).groups
    found = {
        topic.name: (topic.partitions[0].committed_offset, topic.partitions[0].error_code) for topic in group.topics
    }
    assert found == {"t": (-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED), "u": (2, ErrorCode.NONE)}


def test_offsets_of_topics_that_one_may_not_read_are_not_deleted(node: Node, client: Client) -> None:
    client.ask(commit({("t", 0): 1, ("u", 0): 2}), 8)
    node.acls.refused = lambda _, resource, name: resource is ResourceType.TOPIC and name == "t"
    assert errors_in(client.ask(delete_offsets("t", 0), 0)) == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert errors_in(client.ask(delete_offsets("u", 0), 0)) == set()
    node.acls.refused = lambda *_: False
    assert committed(client) == {("t", 0): 1}


def test_a_consumer_may_not_subscribe_to_topics_that_it_may_not_describe(node: Node, client: Client) -> None:
    node.acls.refused = lambda _, resource, name: resource is ResourceType.TOPIC and name == "t"
    answer = client.ask(consumer_heartbeat("m", 0, "u", "t"), 1)
    assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert client.ask(consumer_heartbeat("m", 0, "u"), 1).error_code == ErrorCode.NONE


def test_a_pattern_matches_no_topics_that_the_consumer_may_not_describe(node: Node, client: Client) -> None:
    node.acls.refused = lambda _, resource, name: resource is ResourceType.TOPIC and name == "t"
    answer = client.ask(consumer_heartbeat("m", subscribed_topic_names=None, subscribed_topic_regex="t|u"), 1)
    node.acls.refused = lambda *_: False
    while not (answer.assignment and answer.assignment.topic_partitions):
        assert answer.error_code == ErrorCode.NONE
        node.advance(300)
        answer = client.ask(consumer_heartbeat("m", answer.member_epoch), 1)
    assert [each.topic_id for each in answer.assignment.topic_partitions] == [node.broker.image.topics_by_name["u"].id]


def test_a_group_is_hidden_from_who_may_not_describe_the_topics_of_its_members(node: Node, client: Client) -> None:
    assert client.ask(consumer_heartbeat("m", 0, "u", "t"), 1).error_code == ErrorCode.NONE
    node.acls.refused = lambda _, resource, name: resource is ResourceType.TOPIC and name == "t"
    (group,) = client.ask(describe_consumers(), 1).groups
    assert (group.error_code, group.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    node.acls.refused = lambda _, resource, name: resource is ResourceType.TOPIC and name == "other"
    (group,) = client.ask(describe_consumers(), 1).groups
    assert (group.error_code, len(group.members)) == (ErrorCode.NONE, 1)


def test_what_one_may_do_with_a_group_is_told_when_asked_for(node: Node, client: Client) -> None:
    stable_member(client)
    assert client.ask(consumer_heartbeat("m", group_id="new"), 1).error_code == ErrorCode.NONE
    node.acls.refused = lambda operation, *_: operation is AclOperation.DELETE
    bits = sum(1 << code for code in (3, 8, 10, 11))
    for request, version in (
        (describe(include_authorized_operations=True), 6),
        (describe_consumers("new", include_authorized_operations=True), 1),
    ):
        (group,) = client.ask(request, version).groups
        assert (group.error_code, group.authorized_operations) == (ErrorCode.NONE, bits)
    (group,) = client.ask(describe(), 6).groups
    assert group.authorized_operations == -(2**31), "not asked for"


# Who is told elsewhere


@pytest.mark.parametrize("api", [api for api in OF_A_GROUP if api != "FindCoordinator"])
def test_every_api_says_that_the_coordinator_is_elsewhere(node: Node, client: Client, api: str) -> None:
    make, version, _ = OF_A_GROUP[api]
    change_partition(node, leader=2)
    assert errors_in(client.ask(make(), version)) == {ErrorCode.NOT_COORDINATOR}


def test_a_coordinator_that_is_not_alive_is_not_available(node: Node, client: Client) -> None:
    change_partition(node, leader=2)
    (found,) = client.ask(find(), 4).coordinators
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


@pytest.mark.parametrize("api", [api for api in OF_A_GROUP if api != "FindCoordinator"])
def test_without_the_topic_no_api_finds_a_coordinator(api: str) -> None:
    make, version, _ = OF_A_GROUP[api]
    node = Node(**ALONE)
    node.create_topic("t")
    codes = errors_in(node.connect().ask(make(), version))
    assert codes <= {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
    assert codes


@pytest.mark.parametrize(
    ("failed", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_clients_hear_of_the_coordinators_own_log_in_terms_of_coordinators(failed: ErrorCode, told: ErrorCode) -> None:
    assert coordinator_error(failed) is told


# What is refused before the coordinator


def test_offsets_of_partitions_that_are_not_there_are_refused_one_by_one(client: Client) -> None:
    answer = client.ask(commit({("t", 0): 1, ("t", 3): 2, ("t", -1): 3, ("none", 0): 4}), 8)
    codes = {
        (topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {("t", 0): ErrorCode.NONE, ("t", 3): unknown, ("t", -1): unknown, ("none", 0): unknown}
    assert [topic.name for topic in answer.topics].count("t") == 1, "a topic once"
    assert committed(client) == {("t", 0): 1}


@pytest.mark.parametrize("bad", [-1, 3])
def test_one_partition_that_is_not_there_is_seen_among_others(client: Client, bad: int) -> None:
    (topic,) = client.ask(commit({("t", 0): 1, ("t", bad): 3}), 8).topics
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {each.partition_index: each.error_code for each in topic.partitions} == {0: ErrorCode.NONE, bad: unknown}


def test_each_partition_is_answered_if_a_request_names_a_topic_twice(client: Client) -> None:
    twice = commit({("t", 7): 1})
    twice.topics += commit({("t", 8): 1, ("t", 0): 5}).topics + commit({("t", 9): 1}).topics
    (topic,) = client.ask(twice, 8).topics
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    codes = {each.partition_index: each.error_code for each in topic.partitions}
    assert codes == {7: unknown, 8: unknown, 9: unknown, 0: ErrorCode.NONE}
    both = delete_offsets("t", 7)
    both.topics = [*both.topics, *delete_offsets("t", 8).topics, *delete_offsets("t", 0).topics]
    (topic,) = client.ask(both, 0).topics
    assert {each.partition_index: each.error_code for each in topic.partitions} == {
        7: unknown,
        8: unknown,
        0: ErrorCode.NONE,
    }


def test_offsets_are_committed_and_fetched_by_topic_id(node: Node, client: Client) -> None:
    topic_id = node.broker.image.topics_by_name["t"].id
    answer = client.ask(commit({(topic_id, 0): 1, (topic_id, 9): 2, (UNKNOWN_ID, 0): 3}), 10)
    codes = {
        (topic.topic_id, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions
    }
    assert codes == {
        (topic_id, 0): ErrorCode.NONE,
        (topic_id, 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (UNKNOWN_ID, 0): ErrorCode.UNKNOWN_TOPIC_ID,
    }
    (group,) = client.ask(fetch_offsets({topic_id: [0, 1], UNKNOWN_ID: [0]}), 10).groups
    found = {
        (topic.topic_id, each.partition_index): (each.committed_offset, each.error_code)
        for topic in group.topics
        for each in topic.partitions
    }
    assert found == {
        (topic_id, 0): (1, ErrorCode.NONE),
        (topic_id, 1): (-1, ErrorCode.NONE),
        (UNKNOWN_ID, 0): (-1, ErrorCode.UNKNOWN_TOPIC_ID),
    }
    (group,) = client.ask(fetch_offsets(None), 10).groups
    assert [topic.topic_id for topic in group.topics] == [topic_id], "of all topics, by id"


def test_deletion_of_offsets_answers_each_partition(client: Client) -> None:
    client.ask(commit({("t", 0): 1, ("t", 1): 2}), 8)
    answer = client.ask(delete_offsets("t", 0, 7), 0)
    codes = {each.partition_index: each.error_code for topic in answer.topics for each in topic.partitions}
    assert codes == {0: ErrorCode.NONE, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert committed(client) == {("t", 1): 2}


def test_groups_of_many_partitions_are_deleted_with_one_answer() -> None:
    node = Node(**{**ALONE, "offsets_topic_num_partitions": 8})
    node.create_topic("t")
    coordinate(node)
    client = node.connect()
    groups = [f"group-{number}" for number in range(20)]
    for group in groups[:10]:
        client.ask(commit({("t", 0): 1}, group), 8)
    node.acls.refused = lambda operation, _, name: operation is AclOperation.DELETE and name == "group-3"
    answer = client.ask(delete_groups(*groups), 2)
    codes = {each.group_id: each.error_code for each in answer.results}
    wanted = {
        group: ErrorCode.NONE if number < 10 else ErrorCode.GROUP_ID_NOT_FOUND for number, group in enumerate(groups)
    }
    assert codes == {**wanted, "group-3": ErrorCode.GROUP_AUTHORIZATION_FAILED}
    assert committed(client, "group-3") == {("t", 0): 1}


def test_offsets_of_several_groups_are_fetched_with_one_answer_in_the_order_of_the_question() -> None:
    node = Node(**{**ALONE, "offsets_topic_num_partitions": 8})
    node.create_topic("t")
    coordinate(node)
    client = node.connect()
    groups = [f"group-{number}" for number in range(5)]
    for number, group in enumerate(groups):
        client.ask(commit({("t", 0): number}, group), 8)
    for stable in (False, True):
        answer = client.ask(fetch_offsets({"t": [0]}, *reversed(groups), require_stable=stable), 8)
        found = [(group.group_id, group.topics[0].partitions[0].committed_offset) for group in answer.groups]
        assert found == [(f"group-{number}", number) for number in (4, 3, 2, 1, 0)]


# The shapes of versions


def test_one_coordinator_is_asked_for_before_version_4(client: Client) -> None:
    for version in range(4):
        answer = client.ask(FindCoordinatorRequest(key=GROUP), version)
        assert (answer.error_code, answer.node_id, answer.port) == (ErrorCode.NONE, 1, 9092)


@pytest.mark.parametrize("kind", [2, 7])
def test_coordinators_that_are_not_there_are_refused_at_once(client: Client, kind: int) -> None:
    (found,) = client.ask(find("x", kind=kind), 6).coordinators
    assert found.error_code == ErrorCode.INVALID_REQUEST
    assert found.error_message


@pytest.mark.parametrize("version", range(1, 8))
def test_offsets_are_fetched_for_one_group_before_version_8(client: Client, version: int) -> None:
    client.ask(commit({("t", 0): 1}), 8)
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
    answer = client.ask(OffsetFetchRequest(group_id=GROUP, topics=topics), version)
    assert [each.committed_offset for each in answer.topics[0].partitions] == [1, -1]


@pytest.mark.parametrize("version", range(1, 9))
def test_an_error_of_the_group_is_told_where_the_version_has_room_for_it(
    node: Node, client: Client, version: int
) -> None:
    change_partition(node, leader=2)
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    old = OffsetFetchRequest(group_id=GROUP, topics=topics)
    answer = client.ask(old if version < 8 else fetch_offsets({"t": [0]}), version)
    assert errors_in(answer) == {ErrorCode.NOT_COORDINATOR}


@pytest.mark.parametrize("version", range(10))
def test_a_join_is_answered_in_every_version(client: Client, version: int) -> None:
    answer = client.ask(join(), version)
    if version >= 4:
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        answer = client.ask(join(answer.member_id), version)
    assert (answer.error_code, answer.protocol_name) == (ErrorCode.NONE, "range")
    assert answer.leader == answer.member_id


@pytest.mark.parametrize("version", [6, 7])
def test_a_join_that_is_refused_has_no_protocol(client: Client, version: int) -> None:
    answer = client.ask(join("", GROUP, session_timeout_ms=1), version)
    assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert answer.protocol_name == (None if version >= 7 else "")


def test_a_sync_names_its_protocol_from_version_5_on(client: Client) -> None:
    joined = join_new(client)
    request = sync(joined, {joined.member_id: b"all"})
    request.protocol_name = None  # type: ignore[attr-defined]
    assert client.ask(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    request.protocol_type = None  # type: ignore[attr-defined]
    assert client.ask(request, 4).assignment == b"all"


def test_a_consumer_group_without_a_name_is_invalid(client: Client) -> None:
    assert errors_in(client.ask(describe_consumers(""), 1)) == {ErrorCode.INVALID_GROUP_ID}


def test_a_group_that_is_not_there_is_dead_before_version_6_and_an_error_from_then_on(client: Client) -> None:
    (old,) = client.ask(describe("none"), 5).groups
    (new,) = client.ask(describe("none"), 6).groups
    assert (old.error_code, old.group_state) == (ErrorCode.NONE, "Dead")
    assert new.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert new.error_message


def test_who_a_member_is_is_kept_as_kafka_keeps_it(client: Client) -> None:
    stable_member(client)
    (group,) = client.ask(describe(), 6).groups
    (member,) = group.members
    assert (member.client_id, member.client_host) == ("test", "/127.0.0.1")


@pytest.mark.parametrize(
    "settings", [{"group_coordinator_rebalance_protocols": ("classic",)}, {}], ids=["off", "level"]
)
def test_where_consumer_groups_are_not_served_they_are_unsupported(settings: dict[str, Any]) -> None:
    node = Node(**ALONE, **settings)
    node.create_topic("t")
    coordinate(node)
    if not settings:
        node.broker.state.image = with_features(node, 0)
    client = node.connect()
    assert errors_in(client.ask(consumer_heartbeat("m"), 1)) == {ErrorCode.UNSUPPORTED_VERSION}
    assert errors_in(client.ask(describe_consumers(), 1)) == {ErrorCode.UNSUPPORTED_VERSION}


def with_features(node: Node, level: int) -> Any:
    """The node's image with another group.version."""
    return replace(node.broker.image, features={**node.broker.image.features, "group.version": level})


def test_a_group_is_listed_with_its_state_and_kind(client: Client) -> None:
    stable_member(client)
    client.ask(consumer_heartbeat("m", group_id="new"), 1)
    client.ask(commit({("t", 0): 1}, "simple"), 8)
    found = {
        group.group_id: (group.group_state, group.group_type) for group in client.ask(ListGroupsRequest(), 5).groups
    }
    assert found["g"] == ("Stable", "classic")
    assert found["simple"] == ("Empty", "classic")
    assert found["new"][1] == "consumer"
    only = client.ask(ListGroupsRequest(states_filter=["stable"], types_filter=["CLASSIC"]), 5).groups
    assert [group.group_id for group in only] == ["g"]


def test_many_groups_are_listed_some_a_step_and_others_are_served_between(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [f"g{number}" for number in range(5)]
    for group in groups:
        client.ask(commit({("t", 0): 1}, group), 8)
    work: list[Iterator[None]] = []
    monkeypatch.setattr(list_groups, "LISTED_GROUPS_PER_STEP", 2)
    monkeypatch.setattr(Scheduler, "do", lambda scheduler, steps: work.append(steps))
    client.send(ListGroupsRequest(), 5)
    (steps,) = work
    assert not client.answers
    (topic,) = node.connect().ask(commit({("t", 0): 2}, "g0"), 8).topics
    assert topic.partitions[0].error_code == ErrorCode.NONE
    assert len(list(steps)) == 1, "the third step is the last"
    node.run()
    assert [group.group_id for group in client.receive().groups] == groups


def test_groups_of_a_partition_that_is_lost_while_groups_are_listed_are_left_out(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        client.ask(commit({("t", 0): 1}, f"g{number}"), 8)
    work: list[Iterator[None]] = []
    monkeypatch.setattr(list_groups, "LISTED_GROUPS_PER_STEP", 1)
    monkeypatch.setattr(Scheduler, "do", lambda scheduler, steps: work.append(steps))
    client.send(ListGroupsRequest(), 5)
    change_partition(node, leader=2)
    for _ in work.pop():
        pass
    node.run()
    assert [group.group_id for group in client.receive().groups] == ["g0"]


def test_a_member_whose_connection_is_lost_while_it_waits_disturbs_nobody(node: Node, client: Client) -> None:
    first = stable_member(client)
    lost = node.connect()
    told = lost.ask(join(), 9)
    lost.send(join(told.member_id), 9)
    node.disconnect(lost)
    client.send(join(first.member_id), 9)
    joined = client.receive()
    assert joined.error_code == ErrorCode.NONE
    assert len(joined.members) == 2, "it is a member until its session ends"
    node.advance(11_000)
    assert client.ask(heartbeat(joined.member_id, joined.generation_id), 4).error_code in (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    )


def test_two_requests_of_a_connection_are_answered_in_their_order_even_when_the_first_waits(
    node: Node, client: Client
) -> None:
    stable_member(client)
    second = node.connect()
    told = second.ask(join(), 9)
    second.send(join(told.member_id), 9)
    second.send(describe(), 6)
    assert not second.answers, "the join waits, and what follows waits for it"
    assert join_new(node.connect(), "another").error_code == ErrorCode.NONE
    (group,) = client.ask(describe(), 6).groups
    assert group.group_state == "PreparingRebalance"
