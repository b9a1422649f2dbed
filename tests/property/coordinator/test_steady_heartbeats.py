"""A heartbeat that says what the last one said takes a short way. What comes of it is what the long way gives, to the
byte: two nodes that are asked the same answer the same, one of which has only the long way.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.broker import Node
from support.group_requests import ALONE, commit, consumer_heartbeat, coordinate, join, leave, sync

from penstock.coordinator.group.consumer import heartbeat as consumer_rules
from penstock.errors import ErrorCode
from penstock.log.operations import Write
from penstock.node.groups import OFFSETS_TOPIC
from penstock.node.handlers import consumer_group_heartbeat as consumer_handler
from penstock.node.handlers import heartbeat as classic_handler
from penstock.protocol.message import Message
from penstock.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from penstock.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.join_group_response import JoinGroupResponse

CLIENTS, SETTLED = 4, 3
"""The members of the consumer group at first are settled; another may join."""
SETTLED_MS = 6_000

GROUPS = st.sampled_from(["classic", "consumers", "both", ""])
NUMBERS = st.integers(0, CLIENTS - 1)
CLASSIC_BEAT = st.sampled_from(
    [
        *({"generation_id": each} for each in (-1, 0, 2, 7)),
        *({"member_id": each} for each in ("", "nobody")),
        *({"group_instance_id": each} for each in ("i", "")),
        {"generation_id": 7, "group_instance_id": "i"},
    ]
)
CONSUMER_BEAT = st.sampled_from(
    [
        *({"member_epoch": each} for each in (-2, -1, 0, 1, 9)),
        *({"member_id": each} for each in ("", "nobody")),
        *({"instance_id": each} for each in ("i", "")),
        *({"server_assignor": each} for each in ("range", "none")),
        *({"subscribed_topic_names": each} for each in (["t"], ["t", "u"], [])),
        {"subscribed_topic_regex": "t.*"},
        {"rebalance_timeout_ms": 5_000},
        {"rack_id": "r"},
        {"topic_partitions": []},
        {"rack_id": "", "member_epoch": 1},
    ]
)
STEADY = st.one_of(
    st.tuples(st.just("heartbeat"), st.just("classic"), st.just(0), st.integers(0, 4), st.just({})),
    st.tuples(st.just("consumer"), st.just("consumers"), NUMBERS, st.integers(0, 1), st.just({})),
)
ALMOST = st.one_of(
    st.tuples(st.just("heartbeat"), st.just("classic"), st.just(0), st.integers(0, 4), CLASSIC_BEAT),
    st.tuples(st.just("consumer"), st.just("consumers"), NUMBERS, st.integers(0, 1), CONSUMER_BEAT),
)
OTHER = st.one_of(
    st.tuples(st.just("join"), st.sampled_from(["classic", "both"]), NUMBERS),
    st.tuples(st.just("leave"), GROUPS, NUMBERS),
    st.tuples(st.just("heartbeat"), GROUPS, NUMBERS, st.integers(0, 4), st.just({}) | CLASSIC_BEAT),
    st.tuples(st.just("consumer joins"), st.sampled_from(["consumers", "both"]), NUMBERS),
    st.tuples(st.just("consumer"), GROUPS, NUMBERS, st.integers(0, 1), st.just({}) | CONSUMER_BEAT),
    st.tuples(st.just("time passes"), st.sampled_from([1, 300, 1_000, SETTLED_MS, 50_000])),
    st.tuples(st.just("partitions are added")),
    st.tuples(st.just("rights"), st.booleans()),
    st.tuples(st.just("commit is held")),
    st.tuples(st.just("writes go on")),
    st.tuples(st.just("another client id"), NUMBERS),
)
STEPS = st.lists(st.one_of(STEADY, STEADY, ALMOST, OTHER), min_size=12, max_size=30)


class Asked:
    """A node with clients that ask for themselves, each a member of every group that it has joined."""

    def __init__(self) -> None:
        self.node = Node(**ALONE)
        self.node.create_topic("t", partitions=4)
        coordinate(self.node)
        self.clients = [self.node.connect() for _ in range(CLIENTS)]
        self.committer = self.node.connect()
        self.names = ["test"] * CLIENTS
        self.heard: list[tuple[int, bytes]] = []
        self.member_ids = {("consumers", number): f"member {number}" for number in range(CLIENTS)}
        self.epochs: dict[tuple[str, int], int] = {}
        self.owned: dict[tuple[str, int], list[TopicPartitions]] = {}
        self.join("classic", 0)
        for number in range(SETTLED):
            self.consumer_joins("consumers", number)
        for _ in range(6):
            self.time_passes(SETTLED_MS)
            self.heartbeat("classic", 0, 4, {})
            for number in range(SETTLED):
                self.consumer("consumers", number, 1, {})

    def ask(self, number: int, message: Message, version: int) -> Any:
        """The answer, if there is one yet."""
        client = self.clients[number]
        client.send(message, version, self.names[number])
        answer = None
        while client.answers:
            self.heard.append((number, client.answers[0]))
            answer = client.receive()
        return answer

    def do(self, what: str, *about: Any) -> None:
        getattr(self, what.replace(" ", "_"))(*about)

    def join(self, group: str, number: int) -> None:
        """A member of the classic protocol joins; who leads gives itself all."""
        told = self.ask(number, join(self.member_ids.get((group, number), ""), group), 9)
        if isinstance(told, JoinGroupResponse) and told.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            told = self.ask(number, join(told.member_id, group), 9)
        if isinstance(told, JoinGroupResponse) and not told.error_code:
            self.member_ids[group, number] = told.member_id
            self.epochs[group, number] = told.generation_id
            self.ask(number, sync(told, {each.member_id: b"all" for each in told.members}, group), 5)

    def leave(self, group: str, number: int) -> None:
        self.ask(number, leave(self.member_ids.get((group, number), "nobody"), group=group), 5)

    def heartbeat(self, group: str, number: int, version: int, said: dict[str, Any]) -> None:
        """Of a classic member; instance ids come with version 3."""
        place = group, number
        usual = {"member_id": self.member_ids.get(place, "nobody"), "generation_id": self.epochs.get(place, 1)}
        told = {name: value for name, value in said.items() if version >= 3 or name != "group_instance_id"}
        self.ask(number, HeartbeatRequest(group_id=group, **(usual | told)), version)

    def consumer_joins(self, group: str, number: int) -> None:
        """A member of a consumer group joins."""
        self._took(group, number, self.ask(number, consumer_heartbeat(f"member {number}", 0, group_id=group), 1))

    def consumer(self, group: str, number: int, version: int, said: dict[str, Any]) -> None:
        """A heartbeat to a consumer group; patterns come with version 1."""
        usual = {
            "member_id": f"member {number}",
            "member_epoch": self.epochs.get((group, number), 1),
            "topic_partitions": self.owned.pop((group, number), None),
        }
        told = {name: value for name, value in said.items() if version or name != "subscribed_topic_regex"}
        request = ConsumerGroupHeartbeatRequest(group_id=group, **(usual | told))
        self._took(group, number, self.ask(number, request, version))

    def _took(self, group: str, number: int, answer: Any) -> None:
        if isinstance(answer, ConsumerGroupHeartbeatResponse) and not answer.error_code:
            self.epochs[group, number] = answer.member_epoch
            if answer.assignment is not None:
                self.owned[group, number] = [
                    TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                    for each in answer.assignment.topic_partitions
                ]

    def time_passes(self, duration_ms: int) -> None:
        self.node.advance(duration_ms)

    def partitions_are_added(self) -> None:
        self.node.add_partitions("t", len(self.node.broker.image.topics_by_name["t"].partitions) + 1)

    def rights(self, some: bool) -> None:
        """All rights on the group `both` are taken, or given back."""
        self.node.acls.refused = lambda operation, resource, name: some and name == "both"

    def commit_is_held(self) -> None:
        """Somebody commits an offset; what groups write does not come to the disk for now."""
        self.node.held = lambda operation: isinstance(operation, Write) and OFFSETS_TOPIC in operation.order
        self.committer.send(commit({("t", 0): 5}, "another"), 9)

    def writes_go_on(self) -> None:
        self.node.let_go()

    def another_client_id(self, number: int) -> None:
        self.names[number] += "!"

    def timers(self) -> dict[Any, int]:
        """When what is due."""
        held = self.node.broker.coordinators.groups.runtime.timers._deadlines
        return {key: deadline_ms for keys in held.values() for key, (deadline_ms, _) in keys.items()}


@settings(max_examples=100)
@given(STEPS)
def test_the_short_way_gives_what_the_long_way_gives(steps: list[tuple[Any, ...]]) -> None:
    short, long = Asked(), Asked()
    for step in steps:
        short.do(*step)
        with pytest.MonkeyPatch.context() as patch:
            for handler in (classic_handler, consumer_handler):
                patch.setattr(handler, "settled", lambda node, group_id: None)
            patch.setattr(consumer_rules, "steady", lambda *_: None)
            long.do(*step)
        assert short.heard == long.heard
        assert short.timers() == long.timers()


@pytest.mark.parametrize("beat", [("heartbeat", "classic", 0, 4, {}), ("consumer", "consumers", 0, 1, {})])
def test_steady_members_take_the_short_way(beat: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    asked.heard.clear()

    def long_way(*_: Any, **__: Any) -> None:
        raise AssertionError("the long way")

    monkeypatch.setattr(classic_handler, "write", long_way)
    monkeypatch.setattr(consumer_handler, "write", long_way)
    asked.do(*beat)
    assert len(asked.heard) == 1
