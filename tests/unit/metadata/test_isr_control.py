"""AlterPartition: what a leader may say of who is in sync."""

from __future__ import annotations

import pytest
from unit.metadata.cluster import Cluster

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.alter_partition import AlteredPartition, WantedIsr, alter_partitions


def wanted(cluster: Cluster, *replicas: int, **changes: int) -> WantedIsr:
    """A leader's proposal for partition 0 of topic `t`, up to date but for `changes`."""
    partition = cluster.partition()
    epochs = {broker_id: cluster.epoch_of(broker_id) for broker_id in (1, 2, 3)}
    return WantedIsr(
        cluster.topic.id,
        changes.get("index", 0),
        changes.get("leader_epoch", partition.leader_epoch),
        changes.get("partition_epoch", partition.partition_epoch),
        [(each, changes.get(f"epoch_{each}", epochs[each])) for each in replicas],
        changes.get("recovery", 0),
    )


def propose(cluster: Cluster, proposal: WantedIsr, leader: int = 1) -> AlteredPartition:
    result = alter_partitions(cluster.controller, leader, cluster.epoch_of(leader), [proposal])
    cluster.replay(result.records)
    return result.response[0]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(replicas=(1, 2, 3))


def test_a_replica_leaves_and_comes_back(cluster: Cluster) -> None:
    answer = propose(cluster, wanted(cluster, 1, 3))
    assert answer.partition is not None
    assert (answer.code, answer.partition.isr, answer.partition.partition_epoch) == (ErrorCode.NONE, (1, 3), 1)
    assert answer.partition == cluster.partition(), "the answer is the state that follows"
    assert answer.partition.leader_epoch == 0, "nobody is fenced off by a change of followers"
    assert propose(cluster, wanted(cluster, 1, 2, 3)).code is ErrorCode.NONE
    assert cluster.partition().isr == (1, 2, 3)


def test_what_is_so_already_is_answered_without_a_record(cluster: Cluster) -> None:
    answer = propose(cluster, wanted(cluster, 1, 2, 3))
    assert (answer.code, cluster.partition().partition_epoch) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize(
    ("replicas", "changes", "code"),
    [
        ((1, 2), {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ((1, 2), {"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2), {"epoch_2": 12345}, ErrorCode.INELIGIBLE_REPLICA),
        ((1, 2), {"epoch_2": -1}, ErrorCode.NONE),
        ((2, 3), {}, ErrorCode.INVALID_REQUEST),
        ((), {}, ErrorCode.INVALID_REQUEST),
        ((1, 1), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"recovery": 1}, ErrorCode.INVALID_REQUEST),
        ((1,), {"recovery": 1}, ErrorCode.INVALID_REQUEST),
        ((1,), {"recovery": 7}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"index": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_each_error(cluster: Cluster, replicas: tuple[int, ...], changes: dict[str, int], code: ErrorCode) -> None:
    assert propose(cluster, wanted(cluster, *replicas, **changes)).code is code


def test_a_replica_that_is_none_is_refused() -> None:
    cluster = Cluster(replicas=(1, 2))
    assert propose(cluster, wanted(cluster, 1, 3)).code is ErrorCode.INVALID_REQUEST


def test_only_the_leader_is_heard(cluster: Cluster) -> None:
    assert propose(cluster, wanted(cluster, 1, 2), leader=2).code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("why", ["fenced", "shutting down"])
def test_a_replica_that_is_not_active_may_not_join(cluster: Cluster, why: str) -> None:
    assert propose(cluster, wanted(cluster, 1, 3)).code is ErrorCode.NONE
    if why == "fenced":
        cluster.fence(2)
    else:
        cluster.begin_shutdown(2)
    assert propose(cluster, wanted(cluster, 1, 2, 3)).code is ErrorCode.INELIGIBLE_REPLICA


def test_a_replica_that_has_restarted_since_may_not_join(cluster: Cluster) -> None:
    before = cluster.epoch_of(2)
    cluster.register(2, incarnation=2)
    cluster.unfence(2)
    assert cluster.partition().isr == (1, 3), "a new incarnation is in no in-sync replicas"
    assert propose(cluster, wanted(cluster, 1, 2, 3, epoch_2=before)).code is ErrorCode.INELIGIBLE_REPLICA
    assert propose(cluster, wanted(cluster, 1, 2, 3)).code is ErrorCode.NONE


def test_a_leader_of_an_earlier_life_is_stale(cluster: Cluster) -> None:
    with pytest.raises(RequestError) as raised:
        alter_partitions(cluster.controller, 1, 0, [wanted(cluster, 1, 2)])
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_leader_that_has_recovered_says_so(cluster: Cluster) -> None:
    cluster.change(isr=[1], leader_recovery_state=1)
    assert propose(cluster, wanted(cluster, 1, 2, recovery=1)).code is ErrorCode.INVALID_REQUEST
    assert propose(cluster, wanted(cluster, 1, recovery=0)).code is ErrorCode.NONE
    assert cluster.partition().leader_recovery_state == 0


def test_the_change_that_completes_a_reassignment_may_elect_another_leader() -> None:
    cluster = Cluster(replicas=(1, 2))
    cluster.reassign([3])
    assert cluster.partition().replicas == (3, 1, 2)
    answer = propose(cluster, wanted(cluster, 1, 2, 3))
    assert answer.code is ErrorCode.NEW_LEADER_ELECTED
    after = cluster.partition()
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == ((3,), (3,), 3, 1)
    assert (after.adding_replicas, after.removing_replicas) == ((), ())
