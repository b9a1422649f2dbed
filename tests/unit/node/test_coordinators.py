"""A second coordinator beside that of groups, with a topic and a machine of its own, which nothing else knows of.

It keeps one number for each name (see `unit.coordinator.runtime.counters`), and counts how often it was loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.broker import Node
from support.group_requests import ALONE, change_partition, coordinate
from unit.coordinator.runtime.counters import Counters, number

from penstock.coordinator.runtime.result import Result
from penstock.coordinator.runtime.shard import Shard, ShardState
from penstock.coordinator.runtime.timers import ShardTimers
from penstock.errors import ErrorCode
from penstock.metadata.delta import MetadataDelta
from penstock.node.coordinator import Coordinator, KeyType
from penstock.node.coordinator_host import CoordinatorHost
from penstock.node.coordinator_list import Coordinators
from penstock.node.coordinator_topic import TopicSpec
from penstock.node.metrics import Sample
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.api_versions_response import ApiVersionsResponse
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.security.rights import DESCRIBE_TRANSACTIONAL_ID, Right

TOPIC = "__counters"


class CounterService:
    """What this coordinator has of its own. `broken`: it fails when it is told of metadata."""

    name, package = "counter", "group"
    key_type: KeyType | None = KeyType.SHARE
    right: Right | None = DESCRIBE_TRANSACTIONAL_ID
    spec = TopicSpec(TOPIC, "counters", 3, 1, "counters.replication.factor", {"cleanup.policy": "compact"})
    write_timeout_ms = 500
    linger_ms = -1

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.changed_topics: list[str] = []
        self.broken = False

    def machine(self, index: int, timers: ShardTimers) -> Counters:
        return Counters(timers)

    def loaded(self, coordinator: Coordinator[Counters], shard: Shard[Counters], now_ms: int) -> None:
        self.put(coordinator, shard.index, "loads", (shard.machine.numbers.get("loads") or 0) + 1, now_ms)

    def published(
        self, coordinator: Coordinator[Counters], shard: Shard[Counters], delta: MetadataDelta, now_ms: int
    ) -> None:
        if self.broken:
            raise ZeroDivisionError
        if shard.index == 0:
            self.changed_topics += [topic.name for topic in delta.topics.values()]

    def samples(self, coordinator: Coordinator[Counters]) -> Iterator[Sample | None]:
        return iter(())

    def put(self, coordinator: Coordinator[Counters], index: int, name: str, value: int, now_ms: int) -> None:
        result = Result(name, [number(name, value)])
        coordinator.runtime.write(index, lambda machine: result, self.done, now_ms)

    def done(self, response: Any, code: ErrorCode, message: str, now_ms: int) -> None:
        self.answers.append(code or response)


class WithCounters(Coordinators):
    """The list with one line more."""

    def __init__(self, host: CoordinatorHost) -> None:
        super().__init__(host)
        self.service = CounterService()
        self.counters = Coordinator(host, self.service)
        self.all = (*self.all, self.counters)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node whose counters have been asked for."""
    monkeypatch.setattr("penstock.node.broker.Coordinators", WithCounters)
    node = Node(**ALONE)
    made: list[int] = []
    coordinators(node).counters.topic.create(made.append, node.now_ms)
    node.run()
    node.settle()
    assert made == [node.now_ms]
    return node


def coordinators(node: Node) -> WithCounters:
    found = node.broker.coordinators
    assert isinstance(found, WithCounters)
    return found


def numbers(node: Node, index: int) -> dict[str, int]:
    """What a partition has, as far as it is committed."""
    read = coordinators(node).counters.runtime.read
    return read(index, lambda machine, at: dict(machine.numbers.items(at=at)))


def test_its_topic_is_made_and_its_partitions_are_elected_and_loaded(node: Node) -> None:
    topic = node.broker.image.topics_by_name[TOPIC]
    assert len(topic.partitions) == 3
    assert dict(node.broker.image.topic_configs(TOPIC)) == {"cleanup.policy": "compact"}
    shards = coordinators(node).counters.runtime.shards
    assert {index: shard.state for index, shard in shards.items()} == dict.fromkeys(range(3), ShardState.ACTIVE)
    assert shards[0].machine.told == ["loaded"]


def test_clients_find_it_by_the_type_of_its_keys(node: Node) -> None:
    client = node.connect()
    answer = client.ask(FindCoordinatorRequest(key_type=KeyType.SHARE, coordinator_keys=["apples"]), 6)
    (found,) = answer.coordinators
    assert (found.error_code, found.node_id) == (0, node.broker.state.node_id)
    answer = client.ask(FindCoordinatorRequest(key_type=7, coordinator_keys=["apples"]), 6)
    assert [each.error_code for each in answer.coordinators] == [ErrorCode.INVALID_REQUEST], "nobody has these"


def test_its_errors_are_counted_apart(node: Node) -> None:
    assert node.broker.bugs.counts["counter"] == 0
    coordinators(node).service.broken = True
    node.bugs_expected = True
    node.create_topic("t")
    assert node.broker.bugs.counts["counter"] == 3, "once for each partition"


def test_what_it_writes_is_committed_and_loaded_again(node: Node) -> None:
    assert [numbers(node, index) for index in range(3)] == [{"loads": 1}] * 3, "it may write when it is loaded"
    counters, service = coordinators(node).counters, coordinators(node).service
    index = counters.topic.partition_of("apples")
    service.put(counters, index, "apples", 7, node.now_ms)
    assert service.answers == ["loads"] * 3, "not before it is committed"
    node.run()
    assert service.answers == ["loads"] * 3 + ["apples"]
    node.restart()
    assert numbers(node, index) == {"loads": 2, "apples": 7}
    node.crash(power_failed=False)
    assert numbers(node, index) == {"loads": 3, "apples": 7}


def test_its_timers_are_due(node: Node) -> None:
    shard = coordinators(node).counters.runtime.shards[1]
    shard.machine.timers.set("noon", node.now_ms + 60_000)
    node.advance(59_999)
    assert shard.machine.told == ["loaded"]
    node.advance(1)
    assert shard.machine.told == ["loaded", "expired noon"]


def test_it_resigns_with_the_leadership_and_with_its_topic(node: Node) -> None:
    shards = coordinators(node).counters.runtime.shards
    first, second = shards[0].machine, shards[1].machine
    change_partition(node, 0, TOPIC, leader=-1)
    assert first.told[-1] == "unloaded"
    assert sorted(shards) == [1, 2]
    node.delete_topic(TOPIC)
    assert second.told[-1] == "unloaded"
    assert not shards


def test_it_hears_of_metadata_and_fails_alone(node: Node) -> None:
    service = coordinators(node).service
    node.create_topic("t")
    assert service.changed_topics[-1] == "t"
    service.broken = node.bugs_expected = True
    node.create_topic("u")
    assert len(node.bugs) == 3, "one a partition"
    assert node.broker.bugs.counts["counter"] == 3
    coordinate(node)
    assert len(coordinators(node).groups.runtime.shards) > 0


def test_it_asks_brokers_itself_included(node: Node) -> None:
    counters = coordinators(node).counters
    answers: list[Any] = []
    ask = (ApiVersionsRequest(), lambda answer, now_ms: answers.append(answer), node.now_ms)
    assert not counters.call(99, *ask, timeout_ms=1_000), "nobody knows where that is"
    assert counters.call(node.broker.node_id, *ask, timeout_ms=1_000)
    assert not answers
    node.run()
    node.settle()
    (answer,) = answers
    assert isinstance(answer, ApiVersionsResponse)
