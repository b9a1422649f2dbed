"""Plans at work while brokers lie, are behind, or are somebody else's: nothing is left behind, and nobody is stuck."""

from __future__ import annotations

from typing import Any

import pytest
from support.fake_cluster import BROKER, FakeCluster, Part
from support.plans_at_work import NAME, AtWork, reassigning

from penstock.cli.guardian.clusters import left_lines
from penstock.errors import ErrorCode
from penstock.guardian.core.sight import IDENTITY
from penstock.guardian.core.work import worker
from penstock.guardian.core.work.plans import CANCELLED, DONE, SUPERSEDED, VERIFIED
from penstock.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


class SickCluster(FakeCluster):
    """A cluster with a broker that lives and whose replicas never come in sync: its disk is dead."""

    sick = 1

    def _go_on(self, name: str, index: int, part: Part) -> None:
        super()._go_on(name, index, part)
        part.in_sync = [each for each in part.in_sync if each != self.sick]
        self._lead(part)


def test_a_plan_that_heals_a_disk_does_not_take_the_replicas_it_heals_for_hurt() -> None:
    cluster = SickCluster(copies_ms=60_000)
    cluster.add("a", *([2, 1] for _ in range(6)))
    work = AtWork(cluster)
    cluster.at(0)
    plan = reassigning(*(("a", index, [2, 4]) for index in range(6)))
    number = work.submit(plan, action="heal", rate_bytes="auto", thin=True, caps={"cluster": 2})
    work.finish(number, 600_000)
    assert [move.state for move in work.moves(number)] == [VERIFIED] * 6
    assert cluster.configs == {}


class DeafCluster(FakeCluster):
    """A cluster whose brokers, while `deaf`, do not take changes of configs."""

    deaf = False

    def _IncrementalAlterConfigs(self, broker: int, request: Any) -> Any:  # noqa: N802 - by the request's name
        return None if self.deaf else super()._IncrementalAlterConfigs(broker, request)


def test_a_rate_whose_change_was_meant_and_lost_is_put_back_all_the_same() -> None:
    cluster = DeafCluster(copies_ms=30_000)
    cluster.add("a", [1, 2])
    work = AtWork(cluster)
    number = work.submit(reassigning(("a", 0, [4, 2])), rate_bytes=5_000_000)
    assert work.run(3_000, lambda: cluster.begun["a", 0] == 1)
    assert cluster.configs[BROKER, "4", FOLLOWER_RATE] == "5000000"
    work.run(11_000)
    work.ask("PATCH", f"/v1/plans/{number}", {"rate_bytes": 1_000_000})
    cluster.deaf = True
    assert work.run(5_000, lambda: any(each.state == "intended" for each in work.state.work.limits.values()))
    assert work.run(30_000, lambda: cluster.part("a", 0).target is None)
    work.run(2_000)
    cluster.deaf = False
    work.finish(number)
    assert cluster.configs == {}


def test_a_rate_of_somebody_else_outlives_a_change_of_ours() -> None:
    cluster = FakeCluster(copies_ms=30_000)
    cluster.add("a", [1, 2])
    work = AtWork(cluster)
    number = work.submit(reassigning(("a", 0, [4, 2])), rate_bytes=5_000_000)
    assert work.run(3_000, lambda: cluster.begun["a", 0] == 1)
    cluster.configs[BROKER, "4", FOLLOWER_RATE] = "700000"
    work.run(11_000)
    work.ask("PATCH", f"/v1/plans/{number}", {"rate_bytes": 1_000_000})
    work.run(3_000)
    assert cluster.configs[BROKER, "4", FOLLOWER_RATE] == "700000", "a lower rate of somebody else's holds"
    assert cluster.configs[BROKER, "1", LEADER_RATE] == "1000000"
    work.finish(number)
    assert cluster.configs == {(BROKER, "4", FOLLOWER_RATE): "700000"}


class ForgetfulCluster(FakeCluster):
    """A cluster with a broker that knows nothing of its topics while `forgets`, for it is behind; others know them."""

    forgets = False

    def _forgotten(self, broker: int, answered: Any, message: Any) -> Any:
        if not self.forgets or broker != -1:
            return answered(broker, message)
        kept, self.topics = self.topics, {}
        try:
            return answered(broker, message)
        finally:
            self.topics = kept

    def _Metadata(self, broker: int, request: Any) -> Any:  # noqa: N802 - by the request's name
        return self._forgotten(broker, super()._Metadata, request)

    def _DescribeConfigs(self, broker: int, request: Any) -> Any:  # noqa: N802 - by the request's name
        return self._forgotten(broker, super()._DescribeConfigs, request)


@pytest.mark.parametrize("at_ms", [1_000, 5_600, 6_100, 7_000])
def test_what_one_broker_does_not_know_for_a_moment_is_not_taken_for_deleted(at_ms: int) -> None:
    cluster = ForgetfulCluster(copies_ms=5_000)
    cluster.add("a", [1, 2])
    work = AtWork(cluster)
    number = work.submit(reassigning(("a", 0, [4, 2])), rate_bytes=5_000_000)
    assert work.run(3_000, lambda: cluster.begun["a", 0] == 1)
    work.run(at_ms)
    cluster.forgets = True
    work.run(1_200)
    cluster.forgets = False
    assert work.finish(number).state == DONE
    assert cluster.configs == {}


def test_a_number_of_replicas_that_is_none_is_not_believed() -> None:
    cluster = FakeCluster()
    cluster.add("a", [1, 2])
    work = AtWork(cluster)
    number = work.submit(reassigning(("a", 0, [4, 2])))
    cluster.min_isr = "9" * 5_000  # type: ignore[assignment]
    work.run(5_000)
    assert not work.bugs
    assert cluster.begun["a", 0] == 0
    work.see()
    cluster.min_isr = 1
    assert work.finish(number).state == DONE


class ElsewhereCluster(FakeCluster):
    """A cluster whose addresses may lead to another one, with topics of the same names."""

    kafka_id = "fake"

    def _Metadata(self, broker: int, request: Any) -> Any:  # noqa: N802 - by the request's name
        found = super()._Metadata(broker, request)
        found.cluster_id = self.kafka_id
        return found


def test_nothing_is_done_to_another_cluster_at_the_same_addresses() -> None:
    cluster = ElsewhereCluster(copies_ms=5_000)
    cluster.add("a", [1, 2])
    work = AtWork(cluster)
    number = work.submit(reassigning(("a", 0, [4, 2])), rate_bytes=5_000_000)
    assert work.run(3_000, lambda: cluster.begun["a", 0] == 1)
    cluster.kafka_id = "another"
    ours, cluster.configs, cluster.topics = (cluster.configs, cluster.topics), {}, {}
    before = cluster.asked.copy()
    work.run(20_000)
    acts = {name: count - before[name] for name, count in cluster.asked.items() if "Alter" in name}
    assert not any(acts.values()), acts
    assert work.moves()[0].state == "copying"
    cluster.kafka_id = "fake"
    cluster.configs, cluster.topics = ours
    assert work.finish(number).state == DONE
    assert cluster.configs == {}


def test_no_plan_is_taken_for_a_cluster_that_is_another_one_now() -> None:
    cluster = FakeCluster()
    cluster.add("a", [1, 2])
    work = AtWork(cluster)
    (seen,) = work.sight.clusters.values()
    seen.failures[IDENTITY] = "its brokers say that they are cluster x, and it was fake"
    reply = work.ask("POST", "/v1/plans", {"cluster": NAME, "plan": reassigning(("a", 0, [4, 2]))})
    assert (reply.status, "say that they are cluster x" in reply.body["error"]) == (409, True)


class SilentCluster(FakeCluster):
    """A cluster that does not answer while it is `silent`."""

    silent = False

    def answer(self, broker: int, message: Any) -> Any:
        return None if self.silent else super().answer(broker, message)


def test_a_cluster_that_never_answers_again_is_removed_by_force_and_what_is_left_is_told() -> None:
    cluster = SilentCluster(copies_ms=60_000)
    cluster.add("a", [1, 2], [2, 3])
    cluster.configs[BROKER, "1", LEADER_RATE] = "9000000"
    work = AtWork(cluster)
    plan = reassigning(("a", 0, [4, 2]), ("a", 1, [4, 3]))
    number = work.submit(plan, rate_bytes=5_000_000, caps={"cluster": 1})
    assert work.run(3_000, lambda: cluster.begun["a", 0] == 1)
    work.run(1_000)
    cluster.silent = True
    work.ask("PATCH", f"/v1/plans/{number}", {"state": "cancelled"})
    work.run(60_000)
    assert work.plan(number).state == "cancelling", "nobody knows what has become of it"
    path = f"/v1/clusters/{NAME}"
    refused = work.ask("DELETE", path)
    assert (refused.status, "remove it by force (`--force`)" in refused.body["error"]) == (409, True)
    assert work.ask("DELETE", f"{path}?force=perhaps").status == 400
    assert work.ask("DELETE", f"{path}?farce=true").status == 400
    asked = work.node.executor
    assert work.run(10_000, lambda: any(each.round is not None for each in asked.running.values()))
    reply = work.ask("DELETE", f"{path}?force=true")
    assert reply.status == 200
    left = reply.body["left"]
    assert (left["plans"], left["moves_under_way"], left["throttles_left"]) == ([number], 1, 5)
    assert left["moves"] == [
        {"id": "1-1", "topic": "a", "partition": 0, "state": "copying", "before": [1, 2], "replicas": [4, 2]}
    ]
    throttle = {"broker": "1", "config": LEADER_RATE, "value": "5000000", "before": "9000000"}
    assert throttle in left["throttles"]
    told = left_lines(dict(reply.body))
    assert told[1] == "  move 1-1: a-0 to brokers 4,2, copying"
    assert f"  broker 1: {LEADER_RATE}=5000000, before: 9000000" in told
    assert not work.state.clusters
    assert not work.state.work.limits
    assert work.finish(number).state == CANCELLED
    assert work.plan(number).reason == "User:ann has removed clicks by force"
    decision = work.ask("GET", "/v1/decisions").body["decisions"][0]
    assert (decision["kind"], throttle in decision["detail"]["throttles"]) == ("leave behind", True)
    said = work.ask("GET", "/v1/moves/1-1").body["sentences"][-1]
    assert said == "It was left as it was: plan 1 is cancelled, since User:ann has removed clicks by force."
    before = cluster.asked.copy()
    work.run(20_000)
    assert not asked.running
    assert not work.bugs
    assert cluster.asked == before


def test_a_cluster_without_work_is_removed_by_force_like_any_other() -> None:
    work = AtWork(FakeCluster())
    reply = work.ask("DELETE", f"/v1/clusters/{NAME}?force=true")
    assert (reply.status, reply.body["left"]["plans"]) == (200, [])
    assert not work.state.work.decisions


@pytest.mark.parametrize("seed", range(20))
def test_a_round_ends_where_its_cluster_is_removed_by_force(seed: int) -> None:
    cluster = FakeCluster()
    cluster.add("a", [1, 2], [2, 3])
    work = AtWork(cluster, seed)
    number = work.submit(reassigning(("a", 0, [4, 2]), ("a", 1, [4, 3])), rate_bytes=5_000_000)
    work.run(50 + 40 * seed)
    assert work.ask("DELETE", f"/v1/clusters/{NAME}?force=true").status == 200
    acts = work.node.executor.acts
    work.run(5_000)
    assert not work.bugs
    assert work.node.executor.acts == acts
    assert work.finish(number).state == CANCELLED


class LaggingCluster(DeafCluster):
    """A cluster whose brokers tell of configs later than they have them, and do not answer changes while `mute`."""

    lag_ms = 2_000
    mute = False

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.told: list[tuple[int, dict[tuple[int, str, str], str]]] = [(-self.lag_ms, {})]

    def _IncrementalAlterConfigs(self, broker: int, request: Any) -> Any:  # noqa: N802 - by the request's name
        answer = super()._IncrementalAlterConfigs(broker, request)
        self.told.append((self.now_ms, dict(self.configs)))
        return None if self.mute else answer

    def _DescribeConfigs(self, broker: int, request: Any) -> Any:  # noqa: N802 - by the request's name
        kept, self.configs = self.configs, [
            configs for at_ms, configs in self.told if at_ms <= self.now_ms - self.lag_ms
        ][-1]  # fmt: skip
        try:
            return super()._DescribeConfigs(broker, request)
        finally:
            self.configs = kept


def test_a_config_that_was_clean_before_a_change_was_sent_is_not_taken_for_clean_after_it() -> None:
    cluster = LaggingCluster()
    cluster.add("a", [1, 2])
    work = AtWork(cluster)
    cluster.deaf = True
    number = work.submit(reassigning(("a", 0, [4, 2])), rate_bytes=5_000_000)
    set_state = lambda state: work.ask("PATCH", f"/v1/plans/{number}", {"state": state})  # noqa: E731 - short
    assert work.run(2_000, lambda: len(work.state.work.limits) == 5)
    set_state("paused")
    work.run(1_500)
    cluster.deaf, cluster.mute = False, True
    set_state("running")
    assert work.run(2_000, lambda: bool(cluster.configs))
    set_state("cancelled")
    work.run(3_000)
    cluster.mute = False
    work.run(10_000)
    work.finish(number)
    assert cluster.configs == {}


class KafkaCluster(FakeCluster):
    """A cluster that ends a reassignment when the new replicas are there, whoever of the others is not."""

    def _go_on(self, name: str, index: int, part: Part) -> None:
        if part.target is not None and self.now_ms >= part.done_ms and self.alive.issuperset(part.adding):
            part.directories |= {each: self.hints.pop((name, index, each), "/a") for each in part.adding}
            part.in_sync = [each for each in part.target if each in part.in_sync or each in part.adding]
            part.replicas, part.target = list(part.target), None
        super()._go_on(name, index, part)


def test_a_replica_that_was_there_before_and_is_dead_is_not_waited_for() -> None:
    cluster = KafkaCluster(copies_ms=5_000)
    cluster.add("a", [1, 2, 3])
    work = AtWork(cluster)
    number = work.submit(reassigning(("a", 0, [4, 2, 3])), rate_bytes=5_000_000)
    assert work.run(3_000, lambda: cluster.begun["a", 0] == 1)
    cluster.alive.discard(2)
    work.run(60_000)
    assert work.moves()[0].state == VERIFIED
    assert work.finish(number).state == DONE
    assert {name for _, name, _ in cluster.configs} == {"2"}, "that of the dead broker is taken away when it is back"
    cluster.alive.add(2)
    work.run(10_000)
    assert cluster.configs == {}


def in_a_directory(work: AtWork) -> int:
    """A plan whose replicas have moved, and whose last look has failed."""
    plan = {
        "version": 1, "leaders": [], "moves": [],
        "partitions": [{"topic": "a", "partition": 0, "replicas": [4, 2], "log_dirs": ["/b", "any"]}],
    }  # fmt: skip
    number = work.submit(plan)
    assert work.run(20_000, lambda: work.moves()[0].state == "caught up")
    return number


def test_a_move_whose_broker_dies_before_the_last_look_ends() -> None:
    cluster = FakeCluster()
    cluster.add("a", [1, 2])
    work = AtWork(cluster)
    number = in_a_directory(work)
    cluster.alive.discard(4)
    work.finish(number, 60_000)
    assert work.moves()[0].reason == "its replicas have moved; broker 4 cannot tell any more in which directories"


def test_a_move_whose_replica_was_taken_to_another_directory_before_the_last_look_ends() -> None:
    cluster = FakeCluster()
    cluster.add("a", [1, 2])
    work = AtWork(cluster)
    number = in_a_directory(work)
    cluster.part("a", 0).directories[4] = "/a"
    work.finish(number, 60_000)
    assert work.moves()[0].state == SUPERSEDED


class GuardedCluster(FakeCluster):
    """A cluster that refuses changes of configs with `code`; without one it leaves them out of its answers."""

    code: ErrorCode | None = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    def _IncrementalAlterConfigs(self, broker: int, request: Any) -> Any:  # noqa: N802 - by the request's name
        if self.code == ErrorCode.NONE:
            return super()._IncrementalAlterConfigs(broker, request)
        responses = [
            AlterConfigsResourceResponse(
                resource_type=each.resource_type, resource_name=each.resource_name, error_code=self.code
            )
            for each in request.resources
            if self.code is not None
        ]
        return IncrementalAlterConfigsResponse(responses=responses)


def test_a_move_whose_throttle_is_refused_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "BLOCKED_AGAIN_MS", 3_000)
    cluster = GuardedCluster()
    cluster.add("a", [1, 2])
    work = AtWork(cluster)
    number = work.submit(reassigning(("a", 0, [4, 2])), rate_bytes=5_000_000)
    work.run(10_000)
    (move,) = work.moves()
    assert move.state == "blocked"
    assert move.reason.startswith("its cluster refuses leader.replication.throttled.rate of broker 1: CLUSTER_AUTH")
    assert len(move.stages) == 2
    assert not cluster.begun
    cluster.code = ErrorCode.NONE
    assert work.finish(number).state == DONE
    assert cluster.configs == {}


def test_a_throttle_of_which_an_answer_says_nothing_is_not_in_place() -> None:
    cluster = GuardedCluster()
    cluster.code = None
    cluster.add("a", [1, 2])
    work = AtWork(cluster)
    number = work.submit(reassigning(("a", 0, [4, 2])), rate_bytes=5_000_000)
    work.run(10_000)
    assert not cluster.begun
    cluster.code = ErrorCode.NONE
    assert work.finish(number).state == DONE
