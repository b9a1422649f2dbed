"""Plans at work while brokers lie, are behind, or are somebody else's: nothing is left behind, and nobody is stuck."""

from __future__ import annotations

from typing import Any

from support.fake_cluster import BROKER, FakeCluster, Part
from support.plans_at_work import AtWork, reassigning

from penstock.guardian.core.work.plans import VERIFIED

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
