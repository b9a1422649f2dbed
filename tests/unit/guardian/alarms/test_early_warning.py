"""The leader's duty: intents before acts, acts of one leader, other vantage points, and no act without the lease."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from support.sights import CLUSTER, EVERY_MS, START_MS, live, partition, sight_of

from penstock.config.guardian import GuardianSettings
from penstock.errors import ErrorCode
from penstock.guardian.core import calls
from penstock.guardian.core.alarms import vantage
from penstock.guardian.core.alarms.alarm import ACTING, CONFIRMED, ESCALATED, RECOVERED, Alarm, alarm_record
from penstock.guardian.core.alarms.early_warning import EarlyWarning
from penstock.guardian.core.alarms.finding import DEAD_BROKER, SKEWED_LEADERS
from penstock.guardian.core.alarms.submitting import PlanSubmission
from penstock.guardian.core.calls import UNAVAILABLE, Refused, Reply
from penstock.guardian.core.reach import CONTROLLER
from penstock.guardian.core.reach import Ended as CallEnded
from penstock.guardian.core.records import GuardianRecord
from penstock.guardian.core.resources.plans import Plans
from penstock.guardian.core.sight import METADATA, ClusterSight, Sight
from penstock.guardian.core.state import EMPTY, Cluster, cluster_record, replay
from penstock.guardian.core.work.plans import Move, Plan, Work
from penstock.guardian.core.work.replaying import state_record
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.api_versions_response import ApiVersionsResponse
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest
from penstock.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from penstock.protocol.messages.guardian.guardian_mode_record import GuardianModeRecord
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.metadata_response import MetadataResponse, MetadataResponseBroker
from penstock.records.wall import WallTime

REFUSED = "b3:9092: connection refused"


class FakeLeader:
    """The log of a leader: what is appended counts at once, and is committed when `commit_all` is called."""

    def __init__(self, world: World) -> None:
        self.state = replay(EMPTY, [cluster_record(CLUSTER)])
        self.waiting: list[Any] = []
        self.world = world

    def write(self, records: list[GuardianRecord], answered: Any, now_ms: int) -> None:
        self.state = replay(self.state, records)
        self.waiting.append(answered)
        if self.world.commits:
            self.commit_all(now_ms)

    def commit_all(self, now_ms: int, reply: Reply = Reply(calls.OK, {})) -> None:  # noqa: B008 - immutable
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each(reply, now_ms)


class World:
    """A leader with one cluster, and brokers that answer what `answers` says by the class of a request.

    Attributes: `asked`, requests and to whom they went; `submitted`, plans.
    """

    def __init__(self, seen: ClusterSight, mode: str = "act") -> None:
        self.now_ms = 0
        self.leads = self.lease = self.commits = True
        self.wall = WallTime(START_MS)
        self.seen = seen
        self.sight = Sight({CLUSTER.id: seen})
        self.answers: dict[type[Message], Message | str] = {ApiVersionsRequest: REFUSED}
        self.asked: list[tuple[int, Message]] = []
        self.work: list[Iterator[None]] = []
        self.ids = 0
        self.leader = FakeLeader(self)
        self.mode(mode)
        self.duty = self.new_duty()

    def new_duty(self) -> EarlyWarning:
        """That of another node, which remembers nothing."""
        settings = GuardianSettings.from_properties(
            {
                "penstock.guardian.node.id": "1",
                "penstock.guardian.voters": "1@127.0.0.1:9500",
                "penstock.guardian.data.dir": "/data",
                "penstock.guardian.alarm.confirm.ms": "30000",
                "penstock.guardian.heal.delay.ms": "60000",
            }
        )
        reach: Any = self
        leader: Any = self
        return EarlyWarning(
            lambda: leader, self.sight, reach, self.wall, settings, do=self.work.append, new_id=self.new_id,
            submission=PlanSubmission(lambda: leader, self.sight),
        )  # fmt: skip

    def mode(self, mode: str) -> None:
        record = GuardianModeRecord(cluster_id=CLUSTER.id, action="heal", mode=mode)
        self.leader.state = replay(self.leader.state, [record])

    def new_id(self) -> UUID:
        self.ids += 1
        return UUID(int=self.ids)

    def may_act(self, now_ms: int) -> bool:
        return self.leads and self.lease

    def ask(self, cluster: Cluster, broker: int, message: Message, ended: CallEnded, now_ms: int, **_: Any) -> None:
        self.asked.append((broker, message))
        answer = self.answers.get(type(message), "no answer to it within 1 ms")
        if isinstance(answer, str):
            ended(None, answer, now_ms)
        else:
            ended(answer, None, now_ms)

    def run(self, span_ms: int, *, fresh: bool = True) -> None:
        """Every second; every ten the cluster is seen anew."""
        for _ in range(span_ms // 1_000):
            self.now_ms += 1_000
            if fresh and self.now_ms % EVERY_MS == 0:
                self.seen.seen_ms[METADATA] = self.wall.at(self.now_ms)
            self.duty.tick(self.now_ms)
            while self.work:
                for _ in self.work.pop(0):
                    pass

    @property
    def states(self) -> list[str]:
        return [each.state for each in self.leader.state.alarms.by_id.values()]

    def asked_for(self, kind: type[Message]) -> list[int]:
        return [broker for broker, message in self.asked if isinstance(message, kind)]


def dead() -> ClusterSight:
    seen = sight_of((1, 2, 3, 4), partition(0, 3, 1, leader=1, in_sync=(1,)), partition(1, 1, 2), wall_ms=START_MS)
    live(seen, (1, 2, 4))
    return seen


def skewed() -> ClusterSight:
    return sight_of((1, 2), partition(0, 1, 2, leader=2), partition(1, 2, 1), wall_ms=START_MS)


def test_a_missing_broker_is_called_itself() -> None:
    world = World(dead(), mode="observe")
    world.run(100_000)
    assert set(world.asked_for(ApiVersionsRequest)) == {3}
    assert len(world.asked_for(ApiVersionsRequest)) <= 50, "every other second"
    assert world.states == [CONFIRMED]
    assert "does not answer Guardian: b3:9092: connection refused" in str(world.leader.state.alarms.by_id)


@pytest.mark.parametrize("answer", [ApiVersionsResponse(), "b3:9092: it refuses the login: SASL_AUTHENTICATION_FAILED"])
def test_who_answers_or_cannot_be_asked_is_not_dead(answer: Message | str) -> None:
    world = World(dead())
    world.answers[ApiVersionsRequest] = answer
    world.run(300_000)
    assert world.states == []


@pytest.mark.parametrize(("named", "states"), [((1, 2, 4), [CONFIRMED]), ((1, 2, 3, 4), [])])
def test_of_a_broker_without_an_address_a_second_broker_is_asked(named: tuple[int, ...], states: list[str]) -> None:
    """Another one than the controller."""
    seen = dead()
    del seen.departed[3]
    seen.controller = 1
    world = World(seen, mode="observe")
    world.answers[MetadataRequest] = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=each, host="b", port=1) for each in named]
    )
    world.run(100_000)
    assert world.states == states
    assert set(world.asked_for(MetadataRequest)) == {2, 4}
    assert not world.asked_for(ApiVersionsRequest)


def test_a_dead_broker_has_one_plan_that_is_approved_with_it() -> None:
    world = World(dead())
    world.run(400_000)
    (plan,) = world.leader.state.work.plans.values()
    assert (plan.action, plan.state, plan.thin, plan.rate_bytes) == ("heal", "approved", True, -1)
    assert [each.target for each in plan.moves] == [(4, 1)]
    (alarm,) = world.leader.state.alarms.by_id.values()
    assert (alarm.kind, alarm.state, alarm.reason) == (DEAD_BROKER, ACTING, "carried out by plan 1")
    assert str(alarm.id) in plan.principal


def test_where_guardian_only_advises_there_is_no_plan_before_a_person_asks() -> None:
    world = World(dead(), mode="advise")
    world.run(400_000)
    assert not world.leader.state.work.plans
    (alarm,) = world.leader.state.alarms.by_id.values()
    world.leader.state = replay(world.leader.state, [alarm_record(replace(alarm, asked=True))])
    world.run(20_000)
    assert [each.state for each in world.leader.state.work.plans.values()] == ["approved"]


def test_another_leader_finds_the_plan_and_makes_none() -> None:
    world = World(dead())
    world.run(200_000)
    world.duty = world.new_duty()
    world.run(200_000)
    assert len(world.leader.state.work.plans) == 1
    assert world.states == [ACTING]


def test_a_leader_that_finds_the_intent_without_its_plan_makes_it() -> None:
    world = World(dead())
    intent = Alarm(UUID(int=9), CLUSTER.id, DEAD_BROKER, 3, "", ACTING, START_MS, START_MS, heals=1)
    world.leader.state = replay(world.leader.state, [alarm_record(intent)])
    world.run(100_000)
    assert len(world.leader.state.work.plans) == 1


def test_a_plan_that_is_refused_for_a_moment_is_brought_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another plan has moved must have been seen since."""
    real, refusals = Plans.decide, iter(range(3))

    def decide(*given: Any) -> Any:
        if next(refusals, None) is not None:
            raise Refused(UNAVAILABLE, "t-0 has been moved, and has not been seen since: ask again soon")
        return real(*given)

    monkeypatch.setattr(Plans, "decide", decide)
    world = World(dead())
    world.run(400_000)
    assert world.states == [ACTING]
    assert next(refusals, None) is None
    assert len(world.leader.state.work.plans) == 1


def test_a_broker_that_is_back_has_its_plan_taken_back() -> None:
    world = World(dead())
    world.run(200_000)
    live(world.seen, (1, 2, 3, 4))
    world.run(60_000)
    assert world.states == [RECOVERED]
    assert [each.state for each in world.leader.state.work.plans.values()] == ["cancelling"]


@pytest.mark.parametrize("state", ["done", "cancelled"])
def test_what_is_still_there_when_its_plan_has_ended_is_for_a_person(state: str) -> None:
    world = World(dead())
    world.run(200_000)
    (plan,) = world.leader.state.work.plans.values()
    ended = state_record(plan, state, "", world.wall.at(world.now_ms))
    world.leader.state = replay(world.leader.state, [ended])
    world.run(50_000)
    assert world.states == [ACTING], "what was seen may be older than the plan's end"
    world.run(30_000)
    assert world.states == [ESCALATED]
    world.run(400_000)
    assert len(world.leader.state.work.plans) == 1


def test_partitions_of_other_plans_are_left_to_them() -> None:
    seen = dead()
    other = Move(1, "t", UUID(int=1), 0, 2, (3, 1), (2, 1))
    plan = Plan(1, CLUSTER.id, "balance", "User:ann", START_MS, state="running", moves=(other,))
    world = World(seen)
    world.leader.state = replace(world.leader.state, work=Work().with_plan(plan))
    world.run(200_000)
    (alarm,) = world.leader.state.alarms.by_id.values()
    assert alarm.state == ESCALATED
    assert alarm.reason == "nothing of it can be moved: t-0 is in another plan that has not ended"


def test_what_cannot_be_moved_is_for_a_person() -> None:
    seen = dead()
    seen.topics["t"].partitions = (partition(0, 3, leader=-1, in_sync=(3,)),)
    world = World(seen)
    world.run(200_000)
    assert world.states == [ESCALATED]
    assert not world.leader.state.work.plans


def test_preferred_leaders_are_elected_by_the_controller_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World(skewed())
    result = PartitionResult(partition_id=0, error_code=ErrorCode.ELECTION_NOT_NEEDED)
    world.answers[ElectLeadersRequest] = ElectLeadersResponse(
        replica_election_results=[ReplicaElectionResult(topic="t", partition_result=[result])]
    )
    world.run(120_000)
    assert world.asked_for(ElectLeadersRequest) == [CONTROLLER]
    (request,) = [each for _, each in world.asked if isinstance(each, ElectLeadersRequest)]
    assert request.election_type == 0
    assert [(each.topic, each.partitions) for each in request.topic_partitions or []] == [("t", [0])]
    assert world.states == [ACTING]
    world.seen.topics["t"].partitions = (partition(0, 1, 2), partition(1, 2, 1))
    world.run(60_000)
    assert [str(each.msg).split(" cluster=")[0] for each in caplog.records] == [
        "alarm confirmed", "alarm acting", "healing has been begun", "alarm recovered"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("no answer", "the election was not answered: no answer"),
        (ElectLeadersResponse(error_code=31), "the cluster refuses the election: CLUSTER_AUTHORIZATION_FAILED"),
        (
            ElectLeadersResponse(
                replica_election_results=[
                    ReplicaElectionResult(topic="t", partition_result=[PartitionResult(partition_id=0, error_code=999)])
                ]
            ),
            "no leader was elected; t-0: error 999",
        ),
    ],
)
def test_an_act_that_fails_is_for_a_person_and_not_repeated(answer: Message | str, reason: str) -> None:
    world = World(skewed())
    world.answers[ElectLeadersRequest] = answer
    world.run(600_000)
    (alarm,) = world.leader.state.alarms.by_id.values()
    assert (alarm.state, alarm.reason) == (ESCALATED, reason)
    assert len(world.asked_for(ElectLeadersRequest)) == 1


def test_no_act_before_its_intent_is_committed() -> None:
    world = World(skewed())
    world.run(80_000)
    world.commits = False
    world.run(60_000)
    assert world.states == [ACTING]
    assert not world.asked_for(ElectLeadersRequest)
    world.leader.commit_all(world.now_ms)
    assert world.asked_for(ElectLeadersRequest) == [CONTROLLER]


def test_no_act_when_the_intent_is_lost_or_the_lease_is() -> None:
    for reply, lease in ((Reply(calls.UNAVAILABLE, {}), True), (Reply(calls.OK, {}), False)):
        world = World(skewed())
        world.run(80_000)
        world.commits = False
        world.run(30_000)
        world.lease = lease
        world.leader.commit_all(world.now_ms, reply)
        assert not world.asked_for(ElectLeadersRequest)


def test_without_the_lease_nothing_is_looked_at() -> None:
    world = World(dead())
    world.lease = False
    world.run(200_000)
    assert world.states == []
    assert not world.asked


def test_an_intent_of_an_earlier_leader_is_taken_up_when_it_is_seen_to_be_needed() -> None:
    world = World(skewed())
    intent = Alarm(UUID(int=9), CLUSTER.id, SKEWED_LEADERS, 1, "", ACTING, START_MS, START_MS, heals=1)
    world.leader.state = replay(world.leader.state, [alarm_record(intent)])
    world.run(20_000)
    assert not world.asked_for(ElectLeadersRequest), "it must see it for as long as any leader"
    world.run(30_000)
    assert len(world.asked_for(ElectLeadersRequest)) == 1
    assert world.leader.state.alarms.by_id[UUID(int=9)].heals == 1


def test_an_intent_of_an_earlier_leader_is_let_be_where_healing_was_switched_off() -> None:
    world = World(skewed(), mode="observe")
    intent = Alarm(UUID(int=9), CLUSTER.id, SKEWED_LEADERS, 1, "", ACTING, START_MS, START_MS, heals=1)
    world.leader.state = replay(world.leader.state, [alarm_record(intent)])
    world.run(100_000)
    assert not world.asked_for(ElectLeadersRequest)


def test_who_does_not_lead_any_more_wants_no_turn() -> None:
    world = World(dead())
    world.run(5_000)
    assert world.duty.next_deadline_ms() == world.now_ms + 1_000
    world.leads = False
    assert world.duty.next_deadline_ms() == 0
    world.run(1_000)
    assert world.duty.next_deadline_ms() is None
    assert MappingProxyType(world.duty._guarded) == {}


def test_a_cluster_that_is_registered_no_more_is_let_be() -> None:
    world = World(dead())
    world.run(20_000)
    world.leader.state = EMPTY
    world.run(200_000)
    assert world.states == []


def test_what_a_person_has_healed_again_is_begun_again() -> None:
    world = World(dead())
    world.run(200_000)
    (plan,) = world.leader.state.work.plans.values()
    world.leader.state = replay(world.leader.state, [state_record(plan, "cancelled", "", world.wall.at(world.now_ms))])
    world.run(90_000)
    (alarm,) = world.leader.state.alarms.by_id.values()
    assert alarm.state == ESCALATED
    world.leader.state = replay(world.leader.state, [alarm_record(replace(alarm, asked=True))])
    world.run(20_000)
    assert world.states == [ACTING]
    assert [each.state for each in world.leader.state.work.plans.values()] == ["cancelled", "approved"]


def test_a_plan_that_an_earlier_leader_did_not_take_back_is_taken_back() -> None:
    world = World(dead())
    world.run(200_000)
    (alarm,) = world.leader.state.alarms.by_id.values()
    live(world.seen, (1, 2, 3, 4))
    gone = replace(alarm, state=RECOVERED, since_ms=world.wall.at(world.now_ms))
    world.leader.state = replay(world.leader.state, [alarm_record(gone)])
    world.duty = world.new_duty()
    world.run(2_000)
    assert [each.state for each in world.leader.state.work.plans.values()] == ["cancelling"]


def test_brokers_that_come_and_go_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vantage, "GUARDIAN_DEPARTED_MAX", 10)
    world = World(dead())
    for number in range(100, 200):
        live(world.seen, (1, 2, 4, number))
        world.run(10_000)
    assert len(world.seen.departed) <= 10
    assert {1, 2, 3, 4} <= world.seen.departed.keys()
    live(world.seen, (1, 2, 3, 4))
    world.run(30_000)
    assert not world.duty._guarded[CLUSTER.id].vantage._asked_ms
