"""Plans at work on a fake cluster: moved as planned, once, within caps, and no throttle left, whoever leads."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from support.fake_cluster import BROKER, TOPIC, FakeCluster
from support.plans_at_work import NAME, AtWork, reassigning

from penstock.errors import ErrorCode
from penstock.guardian.core.resources import moves
from penstock.guardian.core.sight import METADATA
from penstock.guardian.core.work import worker
from penstock.guardian.core.work.plans import CANCELLED, DONE, SUPERSEDED, VERIFIED

CHANGES = 12
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.add("a", [1, 2], [2, 3], [3, 1], [1, 2], [2, 3], [3, 1])
    return made


@pytest.fixture
def work(cluster: FakeCluster) -> AtWork:
    return AtWork(cluster)


SIX = reassigning(
    ("a", 0, [4, 2]), ("a", 1, [4, 3]), ("a", 2, [4, 1]), ("a", 3, [2, 4]), ("a", 4, [3, 4]), ("a", 5, [1, 4])
)


def test_a_plan_is_done_as_planned_and_once(work: AtWork) -> None:
    number = work.submit(SIX, rate_bytes=5_000_000)
    assert work.finish(number).state == DONE
    assert [move.state for move in work.moves()] == [VERIFIED] * 6
    assert [part.replicas for part in work.cluster.topics["a"][1]] == [
        [4, 2], [4, 3], [4, 1], [2, 4], [3, 4], [1, 4]
    ]  # fmt: skip
    assert set(work.cluster.begun.values()) == {1}
    assert work.cluster.configs == {}
    assert not work.state.work.limits
    assert work.cluster.most[4] == 2, "the cap of a broker's incoming moves is used, and kept"


def test_caps_are_kept_and_may_change_meanwhile(work: AtWork) -> None:
    number = work.submit(SIX, caps={"cluster": 1})
    work.run(2_000)
    assert work.cluster.most["all"] == 1
    work.ask("PATCH", f"/v1/plans/{number}", {"caps": {"cluster": 20, "broker_in": 3}})
    work.finish(number)
    assert work.cluster.most[4] == 3


def test_throttles_are_set_before_copies_begin_and_put_back(work: AtWork) -> None:
    configs = work.cluster.configs
    configs[BROKER, "1", LEADER_RATE] = "9000000"
    configs[BROKER, "2", LEADER_RATE] = "1000"
    configs[TOPIC, "a", FOLLOWERS] = "7:7"
    before = dict(configs)
    number = work.submit(reassigning(("a", 0, [4, 2])), rate_bytes=5_000_000)
    assert work.run(2_000, lambda: work.cluster.begun["a", 0] == 1)
    assert configs[BROKER, "1", LEADER_RATE] == "5000000"
    assert configs[BROKER, "2", LEADER_RATE] == "1000", "a lower rate of somebody else's holds"
    assert configs[BROKER, "4", FOLLOWER_RATE] == "5000000"
    assert configs[TOPIC, "a", LEADERS] == "0:1,0:2"
    assert configs[TOPIC, "a", FOLLOWERS] == "7:7,0:4"
    shown = work.ask("GET", "/v1/limits").body["limits"]
    assert {(each["config"], each["before"]) for each in shown if each.get("broker") == "1"} == {
        (LEADER_RATE, "9000000")
    }
    work.finish(number)
    assert configs == before


def test_a_rate_changes_by_a_fifth_and_not_too_often(work: AtWork) -> None:
    work.cluster.copies_ms = 60_000
    number = work.submit(reassigning(("a", 0, [4, 2])), rate_bytes=5_000_000)

    def rate() -> str | None:
        return work.cluster.configs.get((BROKER, "4", FOLLOWER_RATE))

    work.run(3_000)
    work.ask("PATCH", f"/v1/plans/{number}", {"rate_bytes": 5_500_000})
    work.run(15_000)
    assert rate() == "5000000"
    work.ask("PATCH", f"/v1/plans/{number}", {"rate_bytes": 8_000_000})
    work.run(3_000)
    assert rate() == "8000000"
    work.ask("PATCH", f"/v1/plans/{number}", {"rate_bytes": 1_000_000})
    work.run(3_000)
    assert rate() == "8000000"
    work.run(9_000)
    assert rate() == "1000000"


def test_what_somebody_else_has_set_meanwhile_stays(work: AtWork) -> None:
    number = work.submit(reassigning(("a", 0, [4, 2])), rate_bytes=5_000_000)
    work.run(2_000, lambda: work.cluster.begun["a", 0] == 1)
    work.cluster.configs[BROKER, "4", FOLLOWER_RATE] = "77"
    work.cluster.configs[TOPIC, "a", LEADERS] += ",5:1"
    work.finish(number)
    assert work.cluster.configs == {(BROKER, "4", FOLLOWER_RATE): "77", (TOPIC, "a", LEADERS): "5:1"}


def test_leaders_and_directories_move(work: AtWork) -> None:
    plan = {
        "version": 1,
        "partitions": [
            {"topic": "a", "partition": 0, "replicas": [2, 1], "log_dirs": ["any", "any"]},
            {"topic": "a", "partition": 1, "replicas": [2, 3], "log_dirs": ["/b", "any"]},
            {"topic": "a", "partition": 2, "replicas": [4, 1], "log_dirs": ["/b", "any"]},
        ],
        "leaders": [
            {"topic": "a", "partition": 0, "broker": 2},
            {"topic": "a", "partition": 2, "broker": 4},
        ],
        "moves": [
            {
                "id": 1, "topic": "a", "partition": 0, "kind": "leader", "bytes": 0, "why": "2 has fewer",
                "from": {"broker": 1}, "to": {"broker": 2},
            },
            {
                "id": 2, "topic": "a", "partition": 1, "kind": "disk", "bytes": 9, "why": "/a is full.",
                "from": {"broker": 2, "dir": "/a"}, "to": {"broker": 2, "dir": "/b"},
            },
            {
                "id": 3, "topic": "a", "partition": 2, "kind": "replica", "bytes": 7, "why": "4 is empty",
                "from": {"broker": 3, "dir": "/a"}, "to": {"broker": 4, "dir": "/b"},
            },
        ],
    }  # fmt: skip
    number = work.submit(plan, rate_bytes=1_000_000)
    work.run(4_000, lambda: bool(work.cluster.part("a", 1).futures))
    assert work.cluster.configs[BROKER, "2", "replica.alter.log.dirs.io.max.bytes.per.second"] == "1000000"
    work.finish(number)
    parts = work.cluster.topics["a"][1]
    assert (parts[0].leader, parts[0].replicas, work.cluster.begun["a", 0]) == (2, [2, 1], 0)
    assert (parts[1].directories[2], work.cluster.begun["a", 1]) == ("/b", 1)
    assert (parts[2].directories[4], parts[2].leader, work.cluster.begun["a", 2]) == ("/b", 4, 1)
    assert work.cluster.configs == {}
    told = work.ask("GET", "/v1/moves/1-3").body
    assert [each["state"] for each in told["stages"]] == [
        "waiting", "submitted", "copying", "caught up", "leader set", "verified"
    ]  # fmt: skip
    said = " ".join(told["sentences"])
    assert "Move 1-3 takes a-2 from brokers 3 and 1 to brokers 4 and 1. Broker 4 is to lead it. It copies 7" in said
    assert "(replica, from broker 3 to broker 4): 4 is empty." in said
    assert "It is done, and was found as planned." in said


def test_a_plan_waits_for_its_approval_and_for_its_mode(work: AtWork) -> None:
    work.ask("PATCH", f"/v1/clusters/{NAME}", {"modes": {"balance": "observe"}})
    work.see()
    number = work.ask("POST", "/v1/plans", {"cluster": NAME, "plan": SIX}).body["id"]
    refused = work.ask("PATCH", f"/v1/plans/{number}", {"state": "approved"})
    assert (refused.status, "set-mode clicks balance=advise" in refused.body["error"]) == (409, True)
    work.run(5_000)
    assert work.cluster.asked == {}
    assert work.ask("GET", "/v1/moves/1-1").body["sentences"][-1] == "It waits: plan 1 is checked."
    work.ask("PATCH", f"/v1/clusters/{NAME}", {"modes": {"balance": "act"}})
    work.finish(number)
    kinds = [each["kind"] for each in reversed(work.ask("GET", "/v1/decisions").body["decisions"])]
    assert kinds == ["submit", "start", "end"]


def test_a_paused_plan_begins_nothing_and_ends_what_it_has_begun(work: AtWork) -> None:
    number = work.submit(SIX)
    work.run(1_000, lambda: bool(work.cluster.begun))
    work.ask("PATCH", f"/v1/plans/{number}", {"state": "paused"})
    work.run(20_000)
    begun = len(work.cluster.begun)
    assert begun < 6
    assert sum(move.state == VERIFIED for move in work.moves()) == begun
    work.ask("PATCH", f"/v1/plans/{number}", {"state": "running"})
    work.finish(number)


def test_a_cancelled_plan_takes_its_reassignments_back(work: AtWork) -> None:
    work.cluster.copies_ms = 600_000
    number = work.submit(SIX, rate_bytes=1_000_000)
    work.run(5_000, lambda: len(work.cluster.begun) == 2)
    work.run(1_000)
    work.ask("PATCH", f"/v1/plans/{number}", {"state": "cancelled"})
    assert work.finish(number).state == CANCELLED
    assert [part.replicas for part in work.cluster.topics["a"][1]][:2] == [[1, 2], [2, 3]]
    assert work.cluster.configs == {}
    assert all(part.target is None for part in work.cluster.topics["a"][1])


def test_a_dead_broker_cancels_the_moves_that_need_it(work: AtWork) -> None:
    number = work.submit(reassigning(("a", 0, [4, 2]), ("a", 1, [2, 1])), rate_bytes=1_000_000)
    work.run(2_000, lambda: len(work.cluster.begun) == 2)
    work.cluster.alive.discard(4)
    assert work.finish(number).state == DONE
    first, second = work.moves()
    assert (first.state, first.reason) == (CANCELLED, "broker 4 is dead")
    assert second.state == VERIFIED
    assert {key for key in work.cluster.configs if key[1] != "4"} == set()
    work.cluster.alive.add(4)
    work.run(10_000)
    assert work.cluster.configs == {}, "its own config is put back when it is there again"
    assert not work.state.work.limits


def test_moves_of_a_deleted_topic_are_superseded(work: AtWork) -> None:
    work.cluster.add("b", [1, 2])
    work.cluster.copies_ms = 600_000
    number = work.submit(reassigning(("b", 0, [3, 2])), rate_bytes=1_000_000)
    work.run(3_000, lambda: bool(work.cluster.begun))
    del work.cluster.topics["b"]
    work.cluster.configs = {key: each for key, each in work.cluster.configs.items() if key[1] != "b"}
    assert work.finish(number).state == SUPERSEDED
    assert "deleted" in work.moves()[0].reason
    assert work.cluster.configs == {}


def test_waiting_moves_of_a_grown_topic_are_superseded(work: AtWork) -> None:
    number = work.submit(reassigning(("a", 0, [4, 2]), ("a", 1, [4, 3])), caps={"cluster": 1})
    work.run(2_000, lambda: bool(work.cluster.begun))
    work.cluster.topics["a"][1].append(work.cluster.part("a", 5))
    work.finish(number)
    assert [each.state for each in work.moves()] == [VERIFIED, SUPERSEDED]
    assert "has 7 partitions now, and had 6" in work.moves()[1].reason


def test_foreign_reassignments_are_left_alone(work: AtWork) -> None:
    number = work.submit(reassigning(("a", 0, [4, 2])))
    part = work.cluster.part("a", 0)
    part.target, part.done_ms = [3, 2], 20_000
    work.run(15_000)
    assert part.target == [3, 2]
    assert work.cluster.begun["a", 0] == 0
    work.run(20_000)
    (move,) = work.moves()
    assert move.state == "blocked"
    assert "is on brokers 3 and 2, not on brokers 1 and 2 as when it was planned" in move.reason
    work.ask("PATCH", f"/v1/plans/{number}", {"state": "cancelled"})
    assert work.finish(number).state == CANCELLED
    assert part.replicas == [3, 2]


def test_a_move_begins_only_where_all_are_in_sync_and_some_are_to_spare(work: AtWork) -> None:
    work.cluster.min_isr = 2
    number = work.submit(reassigning(("a", 0, [4, 2])))
    work.run(5_000)
    (move,) = work.moves()
    assert (move.state, work.cluster.begun["a", 0]) == ("blocked", 0)
    assert "2 replicas are left, and min.insync.replicas asks for 2" in move.reason
    work.ask("PATCH", f"/v1/plans/{number}", {"state": "cancelled"})
    work.finish(number)
    work.cluster.min_isr = 1
    work.cluster.alive.discard(2)
    second = work.submit(reassigning(("a", 0, [4, 2])))
    work.run(15_000)
    assert work.cluster.begun["a", 0] == 0
    work.see()
    assert "broker 2 are not in sync" in work.ask("GET", f"/v1/moves/{second}-1").body["sentences"][-1]
    work.cluster.alive.add(2)
    work.finish(second)


def test_a_thin_plan_moves_what_has_nothing_to_spare(work: AtWork) -> None:
    work.cluster.min_isr = 2
    number = work.submit(reassigning(("a", 0, [4, 2])), thin=True)
    assert work.finish(number).state == DONE


def test_what_the_cluster_refuses_is_blocked_with_its_reason(work: AtWork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "BLOCKED_AGAIN_MS", 3_000)
    work.cluster.refuse["a", 0] = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    number = work.submit(reassigning(("a", 0, [4, 2])), rate_bytes=1_000_000)
    work.run(4_000, lambda: work.moves()[0].state == "blocked")
    assert work.moves()[0].reason == "the cluster refuses the reassignment: INVALID_REPLICA_ASSIGNMENT"
    work.cluster.refuse.clear()
    assert work.finish(number).state == DONE
    assert work.cluster.configs == {}


def test_somebody_else_cancels_a_reassignment(work: AtWork) -> None:
    work.cluster.copies_ms = 60_000
    number = work.submit(reassigning(("a", 0, [4, 2])), rate_bytes=1_000_000)
    work.run(3_000, lambda: bool(work.cluster.begun))
    work.run(1_000)
    work.cluster.part("a", 0).target = None
    assert work.finish(number).state == CANCELLED
    assert work.moves()[0].reason == "somebody else has cancelled the reassignment of a-0"
    assert work.cluster.configs == {}


def test_a_cluster_with_work_is_not_forgotten(work: AtWork) -> None:
    number = work.submit(SIX, rate_bytes=1_000_000)
    refused = work.ask("DELETE", f"/v1/clusters/{NAME}")
    assert (refused.status, "cancel it first" in refused.body["error"]) == (409, True)
    work.finish(number)
    assert work.ask("DELETE", f"/v1/clusters/{NAME}").status == 200


def leaders_change(work: AtWork, number: int) -> None:
    """Again and again another node leads, and then one that stays."""
    for _ in range(CHANGES):
        work.run(work.random.randrange(20, 1_500), lambda: work.plan(number).ended)
        work.depose()
    work.finish(number)


@pytest.mark.parametrize("seed", range(8))
def test_whoever_leads_nothing_is_done_twice(cluster: FakeCluster, seed: int) -> None:
    work = AtWork(cluster, seed, lost=0.15)
    number = work.submit(SIX, rate_bytes=2_000_000, caps={"cluster": 3})
    leaders_change(work, number)
    assert [move.state for move in work.moves()] == [VERIFIED] * 6
    assert set(cluster.begun.values()) == {1}
    assert cluster.most["all"] <= 3
    assert cluster.most[4] <= 2
    assert cluster.thin_ms < 300
    assert cluster.configs == {}


def test_a_node_without_the_lease_does_nothing(work: AtWork) -> None:
    work.submit(SIX)
    work.node.lease = False
    work.run(5_000)
    assert not work.cluster.begun
    assert work.node.executor.acts == 0


@pytest.mark.parametrize(
    ("plan", "status", "said"),
    [
        ([], 400, "plan must be a JSON object"),
        ({"partitions": []}, 400, "moves nothing"),
        ({"partitions": [{"topic": "a", "partition": -1, "replicas": [1]}]}, 400, "whole number from 0"),
        ({"partitions": [{"topic": "a", "partition": 0, "replicas": "x"}]}, 400, "must be a list"),
        (reassigning(("a", 0, [1, 1])), 400, "two replicas would be on one broker"),
        (reassigning(("a", 0, [4, 2]), ("a", 0, [4, 2])), 400, "a-0 is there twice"),
        (reassigning(("a", 9, [1, 2])), 409, "a-9 is not there"),
        (reassigning(("z", 0, [1, 2])), 409, "z-0 is not there"),
        (reassigning(("a", 0, [4])), 409, "has 2 replicas, and would have 1"),
        (reassigning(("a", 0, [9, 2])), 409, "broker 9, which is not there"),
        (
            reassigning(("a", 0, [4, 2]), leaders=[{"topic": "a", "partition": 0, "broker": 2}]),
            400,
            "must be the first",
        ),
        (reassigning(("a", 0, [4, 2]), leaders=[{"topic": "a", "partition": 3, "broker": 2}]), 400, "not among"),
        (reassigning(("a", 0, [4, 2]), moves=[{"kind": "swop"}]), 400, "must be one of leader"),
        (
            {"partitions": [{"topic": "a", "partition": 0, "replicas": [4, 2], "log_dirs": ["/nope", "any"]}]},
            409,
            "broker 4 has no directory /nope",
        ),
    ],
)
def test_plans_that_do_not_fit_are_refused_in_a_sentence(work: AtWork, plan: Any, status: int, said: str) -> None:
    written = len(work.log)
    reply = work.ask("POST", "/v1/plans", {"cluster": NAME, "plan": plan})
    assert (reply.status, said in reply.body["error"]) == (status, True), reply.body
    assert len(work.log) == written


def test_a_plan_made_for_other_places_is_refused(work: AtWork) -> None:
    move = {
        "id": 1, "topic": "a", "partition": 0, "kind": "replica", "from": {"broker": 3}, "to": {"broker": 4}
    }  # fmt: skip
    reply = work.ask("POST", "/v1/plans", {"cluster": NAME, "plan": reassigning(("a", 0, [4, 2]), moves=[move])})
    assert reply.status == 409
    assert reply.body["error"] == "a-0 has no replica on broker 3 any more, but on 1, 2: plan anew"


def test_racks_are_not_made_fewer(work: AtWork) -> None:
    work.see()
    (seen,) = work.sight.clusters.values()
    for broker in (2, 4):
        seen.brokers[broker] = type(seen.brokers[broker])(broker, "b", 1, "same")
    reply = work.ask("POST", "/v1/plans", {"cluster": NAME, "plan": reassigning(("a", 0, [4, 2]))})
    assert (reply.status, "fewer racks" in reply.body["error"]) == (409, True)


def test_a_partition_is_in_one_plan_at_a_time(work: AtWork) -> None:
    work.submit(SIX)
    reply = work.ask("POST", "/v1/plans", {"cluster": NAME, "plan": reassigning(("a", 0, [3, 2]))})
    assert (reply.status, reply.body["error"]) == (409, "a-0 is in plan 1, which has not ended: cancel it first")


def test_a_cluster_that_was_not_seen_has_no_plans(work: AtWork) -> None:
    work.sight.clusters.clear()
    reply = work.ask("POST", "/v1/plans", {"cluster": NAME, "plan": SIX})
    assert (reply.status, "has not been looked at yet" in reply.body["error"]) == (503, True)


def test_a_plan_is_not_held_against_what_was_seen_before_its_partitions_moved(work: AtWork) -> None:
    """Else it would wait for ever for them to be where they were."""
    (seen,) = work.sight.clusters.values()
    seen.seen_ms[METADATA] = work.now_ms
    first = reassigning(("a", 0, [4, 2]))
    number = int(work.ask("POST", "/v1/plans", {"cluster": NAME, "plan": first}).body["id"])
    work.ask("PATCH", f"/v1/plans/{number}", {"state": "approved"})
    work.finish(number)
    more = {"cluster": NAME, "plan": reassigning(("a", 0, [3, 2]))}
    reply = work.ask("POST", "/v1/plans", more)
    assert (reply.status, "a-0 has been moved, and has not been seen since" in reply.body["error"]) == (503, True)
    others = {"cluster": NAME, "plan": reassigning(("a", 1, [4, 3]))}
    assert work.ask("POST", "/v1/plans", others).status == 201
    work.see()
    (seen,) = work.sight.clusters.values()
    seen.seen_ms[METADATA] = work.now_ms
    assert work.ask("POST", "/v1/plans", more).status == 201


def test_copies_without_a_rate_give_way_to_others_and_come_back(work: AtWork) -> None:
    work.cluster.copies_ms = 600_000
    number = work.submit(reassigning(("a", 0, [4, 2]), ("a", 1, [4, 3]), ("a", 5, [3, 4])), rate_bytes="auto")
    work.run(3_000, lambda: work.cluster.begun["a", 1] == 1)

    def rate() -> int:
        return int(work.cluster.configs[BROKER, "4", FOLLOWER_RATE])

    assert rate() == 20_000_000
    others = work.cluster.part("a", 4)
    others.hurt = True
    assert work.run(60_000, lambda: work.plan(number).state == "paused")
    assert work.plan(number).reason == "copies hurt others: 1 replicas that nobody moves are not in sync"
    assert rate() == 1_000_000
    assert work.cluster.begun["a", 5] == 0
    said = work.ask("GET", "/v1/moves/1-3").body["sentences"][-1]
    assert "plan 1 is paused, since copies hurt others" in said
    assert work.run(60_000, lambda: work.cluster.part("a", 0).target is None), "what copies is taken back in the end"
    assert work.moves()[0].reason.startswith("copies hurt others")
    others.hurt = False
    work.cluster.copies_ms = 1_000
    assert work.finish(number).state == DONE
    assert [each.state for each in work.moves()] == [CANCELLED, CANCELLED, VERIFIED]
    assert work.cluster.configs == {}


def test_a_stage_that_no_move_has_is_refused(work: AtWork) -> None:
    work.submit(SIX)
    reply = work.ask("GET", "/v1/moves?state=block")
    assert reply.status == 400
    assert "did you mean blocked?" in reply.body["error"]
    for state in moves.STATES:
        found = work.ask("GET", f"/v1/moves?{urlencode({'state': state})}").body["moves"]
        assert {each["state"] for each in found} <= {state}
