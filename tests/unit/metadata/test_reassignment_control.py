"""Reassignments: begun, completed, changed, cancelled, listed."""

from __future__ import annotations

import pytest
from unit.metadata.cluster import Cluster
from unit.metadata.controller_state import directory_of

from penstock.errors import ErrorCode
from penstock.metadata.reassignments import list_reassignments


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(replicas=(1, 2), broker_ids=(1, 2, 3, 4))


def lists(cluster: Cluster, index: int = 0) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    partition = cluster.partition(index)
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


def test_new_replicas_are_added_before_old_ones_go(cluster: Cluster) -> None:
    assert not cluster.reassign([3, 4]).failed
    assert lists(cluster) == ((3, 4, 1, 2), (3, 4), (1, 2))
    partition = cluster.partition()
    assert (partition.isr, partition.leader, partition.leader_epoch) == ((1, 2), 1, 0)
    assert partition.directories == tuple(directory_of(each) for each in (3, 4, 1, 2))


def test_a_new_order_is_there_at_once(cluster: Cluster) -> None:
    cluster.reassign([2, 1])
    assert lists(cluster) == ((2, 1), (), ())
    assert (cluster.partition().leader, cluster.partition().leader_epoch) == (1, 0)
    assert len(cluster.controller.indexes.imbalanced) == 1


def test_fewer_replicas_are_there_at_once_under_a_new_leader_epoch(cluster: Cluster) -> None:
    cluster.reassign([1])
    assert lists(cluster) == ((1,), (), ())
    assert (cluster.partition().isr, cluster.partition().leader_epoch) == ((1,), 1)


def test_the_same_replicas_again_change_nothing(cluster: Cluster) -> None:
    before = cluster.partition()
    assert not cluster.reassign([1, 2]).failed
    assert cluster.partition() is before


def test_a_cancelled_reassignment_leaves_no_trace(cluster: Cluster) -> None:
    cluster.reassign([3, 4])
    cluster.change(isr=[1, 2, 3])
    assert not cluster.reassign(None).failed
    assert lists(cluster) == ((1, 2), (), ())
    assert (cluster.partition().isr, cluster.partition().leader) == ((1, 2), 1)
    assert cluster.reassign(None).code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_what_would_need_an_unclean_election_is_not_cancelled_unless_the_topic_allows_it() -> None:
    for allowed in (False, True):
        configs = {"unclean.leader.election.enable": str(allowed).lower()}
        cluster = Cluster(replicas=(1, 2), broker_ids=(1, 2, 3, 4), configs=configs)
        cluster.reassign([3, 4])
        cluster.change(isr=[3], leader=3)
        error = cluster.reassign(None)
        if allowed:
            assert (lists(cluster), cluster.partition().isr) == (((1, 2), (), ()), (1,))
        else:
            assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert error.message == (
                "Unable to revert partition assignment for t:0 because it would require an unclean leader election."
            )


def test_another_target_takes_the_place_of_the_first(cluster: Cluster) -> None:
    cluster.reassign([3])
    cluster.reassign([4])
    assert lists(cluster) == ((4, 1, 2, 3), (4,), (1, 2, 3))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([1, 2, 3], "The replication factor is changed from 2 to 3"),
        ([1], "The replication factor is changed from 2 to 1"),
        ([3, 4], None),
    ],
)
def test_the_number_of_replicas_may_be_kept(cluster: Cluster, target: list[int], message: str | None) -> None:
    error = cluster.reassign(target, allow=False)
    assert error.message == message
    assert error.code is (ErrorCode.NONE if message is None else ErrorCode.INVALID_REPLICATION_FACTOR)


def test_the_number_of_replicas_is_that_after_the_one_in_progress(cluster: Cluster) -> None:
    cluster.reassign([3, 4])
    assert not cluster.reassign([1, 3], allow=False).failed


def test_only_what_moves_is_listed(cluster: Cluster) -> None:
    cluster.create("u", [[1], [1], [1]], {})
    cluster.reassign([3, 4])
    image, indexes = cluster.controller.image, cluster.controller.indexes
    assert [(topic.name, moving) for topic, moving in list_reassignments(image, indexes, None)] == [("t", [0])]
    assert list_reassignments(image, indexes, [("u", [0, 1]), ("nowhere", [0])]) == []
    assert [moving for _, moving in list_reassignments(image, indexes, [("t", [0, 7])])] == [[0]]
