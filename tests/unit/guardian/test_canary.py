"""Canaries: where they are, what topic they have, what they measure, and what a failed one says."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from support.sights import CLUSTER, START_MS, partition, sight_of

from penstock.guardian.core import answering
from penstock.guardian.core.alarms.census import census_of
from penstock.guardian.core.alarms.dead_brokers import DeadBrokers
from penstock.guardian.core.alarms.evacuation import evacuation
from penstock.guardian.core.alarms.finding import Subject
from penstock.guardian.core.alarms.metrics import canary_samples
from penstock.guardian.core.calls import Call, Known
from penstock.guardian.core.canary import Canary
from penstock.guardian.core.canary_topic import lacking, partitions_of
from penstock.guardian.core.limits import GUARDIAN_CANARY_LATENCIES_MAX
from penstock.guardian.core.reach import CONTROLLER
from penstock.guardian.core.sight import CANARY_TOPIC, METADATA, ClusterSight, SeenCanary, Sight
from penstock.guardian.core.state import EMPTY, Cluster, cluster_record, replay
from penstock.protocol.message import Message
from penstock.protocol.messages.create_partitions_request import CreatePartitionsRequest
from penstock.protocol.messages.create_topics_request import CreateTopicsRequest
from penstock.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from penstock.protocol.messages.guardian.guardian_mode_record import GuardianModeRecord
from penstock.protocol.messages.produce_request import ProduceRequest
from penstock.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.records.builder import BatchBuilder
from penstock.records.wall import WallTime

OFFSET = 41


def canary_partitions(*brokers: int) -> list[Any]:
    return [partition(index, each, topic=CANARY_TOPIC) for index, each in enumerate(brokers)]


def written(code: int = 0) -> Message:
    got = PartitionProduceResponse(index=0, error_code=code, base_offset=OFFSET)
    return ProduceResponse(responses=[TopicProduceResponse(name=CANARY_TOPIC, partition_responses=[got])])


def read(offset: int = OFFSET, code: int = 0, records: bytes | None = None) -> Message:
    batch = BatchBuilder(base_offset=offset)
    batch.append(START_MS, None, b"canary")
    data = bytes(batch.build()) if records is None else records
    got = PartitionData(partition_index=0, error_code=code, high_watermark=offset + 1, records=data)  # type: ignore[arg-type]
    return FetchResponse(responses=[FetchableTopicResponse(topic=CANARY_TOPIC, partitions=[got])])


class World:
    """A leader with one cluster whose brokers answer each kind of request, some milliseconds later."""

    def __init__(self, seen: ClusterSight, *, where: str = "by-mode", mode: str = "advise") -> None:
        self.now_ms = 0
        self.leads = self.lease = True
        self.wall = WallTime(START_MS)
        self.seen = seen
        self.state = replay(EMPTY, [cluster_record(CLUSTER)])
        self.mode(mode)
        self.sight = Sight({CLUSTER.id: seen})
        self.answers: dict[type[Message], list[tuple[int, Message | str]]] = {}
        self.asked: list[tuple[int, Message]] = []
        self.due: list[tuple[int, Any, Any]] = []
        world: Any = self
        self.duty = Canary(lambda: world, self.sight, world, self.wall, where=where, every_ms=5_000)

    def mode(self, mode: str) -> None:
        self.state = replay(self.state, [GuardianModeRecord(cluster_id=CLUSTER.id, action="heal", mode=mode)])

    def may_act(self, now_ms: int) -> bool:
        return self.leads and self.lease

    def ask(self, cluster: Cluster, broker: int, message: Message, ended: Any, now_ms: int, **_: Any) -> None:
        self.asked.append((broker, message))
        answers = self.answers.get(type(message)) or [(5, "no answer to it within 1 ms")]
        after_ms, answer = answers.pop(0) if len(answers) > 1 else answers[0]
        self.due.append((now_ms + after_ms, ended, answer))

    def run(self, span_ms: int, *, fresh: bool = True) -> None:
        for _ in range(span_ms):
            self.now_ms += 1
            if fresh:
                self.seen.seen_ms[METADATA] = self.wall.at(self.now_ms)
            for each in [each for each in self.due if each[0] <= self.now_ms]:
                self.due.remove(each)
                _, ended, answer = each
                if isinstance(answer, str):
                    ended(None, answer, self.now_ms)
                else:
                    ended(answer, None, self.now_ms)
            if self.now_ms % 100 == 0:
                self.duty.tick(self.now_ms)

    def asked_for(self, kind: type[Message]) -> list[int]:
        return [broker for broker, message in self.asked if isinstance(message, kind)]


def measured(**more: Any) -> World:
    world = World(sight_of((1, 2), *canary_partitions(1, 2)), **more)
    world.answers = {ProduceRequest: [(20, written())], FetchRequest: [(10, read())]}
    return world


def test_the_time_from_a_write_to_its_being_read_is_measured_every_few_seconds() -> None:
    world = measured()
    world.run(16_000)
    assert world.asked_for(ProduceRequest) == [1, 2] * 4
    assert sorted(world.seen.canaries) == [1, 2]
    assert list(world.seen.canaries[1].latencies_ms) == [30] * 4
    produce = next(each for _, each in world.asked if isinstance(each, ProduceRequest))
    fetch = next(each for _, each in world.asked if isinstance(each, FetchRequest))
    assert produce.topic_data[0].name == CANARY_TOPIC
    assert produce.topic_data[0].topic_id == fetch.topics[0].topic_id == UUID(int=1)
    assert fetch.topics[0].partitions[0].fetch_offset == OFFSET


def test_what_cannot_be_read_at_once_is_asked_for_until_it_is_there() -> None:
    world = measured()
    world.answers[FetchRequest] = [(500, read(records=b"")), (500, read(records=b"")), (10, read())]
    world.run(4_000)
    assert max(world.seen.canaries[1].latencies_ms) == 20 + 500 + 10


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({ProduceRequest: [(5, "b1: connection refused")]}, "its write: b1: connection refused"),
        ({ProduceRequest: [(5, written(29))]}, "its write: TOPIC_AUTHORIZATION_FAILED"),
        ({ProduceRequest: [(5, ProduceResponse())]}, "its write: no result"),
        ({FetchRequest: [(5, "b1: it broke")]}, "its read: b1: it broke"),
        ({FetchRequest: [(5, read(code=6))]}, "its read: NOT_LEADER_OR_FOLLOWER"),
        ({FetchRequest: [(500, read(records=b""))]}, "its read: the record was not there within 5000 ms"),
        ({FetchRequest: [(500, read(records=b"nonsense"))]}, "its read: the record was not there within 5000 ms"),
        ({FetchRequest: [(500, read(offset=3))]}, "its read: the record was not there within 5000 ms"),
    ],
)
def test_a_measurement_that_fails_says_why_and_is_no_latency(answers: Any, said: str) -> None:
    world = measured()
    world.answers |= answers
    world.run(7_000)
    canary = world.seen.canaries[1]
    assert (canary.failure, list(canary.latencies_ms)) == (said, [])
    assert 0 < canary.failures <= 2


def test_a_broker_that_does_not_answer_is_not_asked_again_meanwhile() -> None:
    world = measured()
    world.answers[ProduceRequest] = [(60_000, written())]
    world.run(30_000)
    assert world.asked_for(ProduceRequest) == [1, 2]


@pytest.mark.parametrize(
    ("where", "mode", "there"),
    [("by-mode", "observe", 0), ("by-mode", "advise", 1), ("always", "observe", 1), ("never", "act", 0)],
)
def test_nothing_is_written_where_guardian_only_observes(where: str, mode: str, there: int) -> None:
    world = measured(where=where, mode=mode)
    world.run(3_000)
    assert bool(world.asked) is bool(there)
    assert (world.duty.next_deadline_ms() is None) is (where == "never")


@pytest.mark.parametrize("fault", ["leads", "lease", "old", "failed", "twice"])
def test_nothing_is_written_without_the_lease_or_on_what_is_old(fault: str) -> None:
    world = measured()
    if fault in ("leads", "lease"):
        setattr(world, fault, False)
    elif fault == "old":
        world.seen.seen_ms[METADATA] = START_MS - 60_000
    else:
        world.seen.failures["metadata" if fault == "failed" else "identity"] = "no answer"
    world.run(3_000, fresh=fault != "old")
    assert not world.asked


def test_the_topic_has_a_partition_for_each_broker_and_is_asked_for_now_and_then() -> None:
    world = World(sight_of((1, 2, 5)))
    world.answers[CreateTopicsRequest] = [
        (5, CreateTopicsResponse(topics=[CreatableTopicResult(name=CANARY_TOPIC, error_code=29)]))
    ]
    world.run(40_000)
    assert world.asked_for(CreateTopicsRequest) == [CONTROLLER, CONTROLLER]
    (topic,) = next(each for _, each in world.asked if isinstance(each, CreateTopicsRequest)).topics
    assert topic.name == CANARY_TOPIC
    assert [each.broker_ids for each in topic.assignments] == [[1], [2], [5]]
    assert {each.name: each.value for each in topic.configs}["min.insync.replicas"] == "1"
    assert world.seen.canary_problem == "its topic: TOPIC_AUTHORIZATION_FAILED"


def test_a_new_broker_gets_a_partition() -> None:
    request = lacking(sight_of((1, 2, 5, 6), *canary_partitions(2, 1)))
    assert isinstance(request, CreatePartitionsRequest)
    assert (request.topics[0].name, request.topics[0].count) == (CANARY_TOPIC, 4)
    assert [each.broker_ids for each in request.topics[0].assignments or []] == [[5], [6]]
    assert lacking(sight_of((1, 2), *canary_partitions(2, 1))) is None


def test_a_partition_that_somebody_has_moved_or_widened_measures_nobody_else() -> None:
    moved = [partition(0, 1, leader=2, topic=CANARY_TOPIC), partition(1, 2, 1, topic=CANARY_TOPIC)]
    assert partitions_of(sight_of((1, 2), *moved))[1] == {}
    assert isinstance(lacking(sight_of((1, 2), *moved)), CreatePartitionsRequest)


def test_latencies_are_bounded_and_have_quantiles() -> None:
    canary = SeenCanary()
    assert canary.quantile_ms(0.5) is None
    for each in range(1, GUARDIAN_CANARY_LATENCIES_MAX + 11):
        canary.succeeded(START_MS, each)
    assert len(canary.latencies_ms) == GUARDIAN_CANARY_LATENCIES_MAX
    assert (canary.quantile_ms(0.5), canary.quantile_ms(0.99)) == (41, 70)


def test_metrics_have_the_quantiles_of_each_broker() -> None:
    world = measured()
    world.answers[ProduceRequest] = [(20, written()), (5, "refused"), (20, written())]
    world.run(6_500)
    found = {(each.name, *each.labels.values()): each.value for each in canary_samples(world.state, world.sight)}
    assert found["penstock_guardian_canary_seconds", "clicks", "1", "0.5"] == 0.03
    assert found["penstock_guardian_canary_failures_total", "clicks", "2"] == 1


@pytest.mark.parametrize(
    ("failure", "read_ms", "agreed"),
    [
        ("its write: b3:9092: connection refused", START_MS - 5_000, True),
        ("its write: NOT_LEADER_OR_FOLLOWER", START_MS - 5_000, False),
        ("its write: b3:9092: connection refused", START_MS, False),
    ],
)
def test_a_canary_that_fails_is_a_witness(failure: str, read_ms: int, agreed: bool) -> None:
    seen = sight_of((1, 2), partition(0, 3, 1, leader=1, in_sync=(1,)))
    seen.canaries[3] = SeenCanary(read_ms=read_ms, failed_ms=START_MS - 1_000, failure=failure)
    (finding,) = DeadBrokers().look(seen, census_of(seen), START_MS).findings.values()
    assert finding.agreed is agreed


def test_the_topic_of_the_canaries_is_no_reason_for_an_alarm() -> None:
    seen = sight_of((1, 2), *canary_partitions(1, 3), partition(0, 1, 2))
    assert not census_of(seen).missing
    assert evacuation(seen, Subject(3))["violations"] == []


def test_no_plan_moves_the_partitions_of_the_canaries() -> None:
    seen = sight_of((1, 2), *canary_partitions(1, 2), partition(0, 1, 2))
    known = Known(replay(EMPTY, [cluster_record(CLUSTER)]), Sight({CLUSTER.id: seen}), START_MS)
    reply = answering.read(known, Call("GET", "/v1/model?cluster=clicks", b"", UUID(int=0), "User:ann"))
    assert (reply.status, list(reply.body["topics"])) == (200, ["t"])


def test_a_cluster_that_is_registered_no_more_is_let_be() -> None:
    world = measured()
    world.run(2_000)
    world.state = EMPTY
    before = len(world.asked)
    world.run(20_000)
    assert len([each for each in world.asked[before:] if isinstance(each[1], ProduceRequest)]) == 0
    assert MappingProxyType(world.duty._perches) == {}
