"""A replica whose log directory is gone was made anew, and is empty: it is not taken for what it was."""

from __future__ import annotations

from uuid import UUID

import pytest
from unit.metadata.cluster import Cluster
from unit.metadata.controller_state import directory_of

from penstock.errors import ErrorCode
from penstock.metadata import brokers
from penstock.metadata.brokers import Registration
from penstock.metadata.directories import assign_directories
from penstock.metadata.image import NO_LEADER, Endpoint
from penstock.metadata.leadership import UNCLEAN

NEW = UUID(int=0xD777)


def returns(cluster: Cluster, broker_id: int, *directories: UUID) -> None:
    """A broker that was stopped cleanly is back, with these log directories."""
    registration = Registration(
        broker_id,
        UUID(int=cluster.last_offset),
        [Endpoint("PLAINTEXT", "host", 1)],
        directories,
        None,
        cluster.epoch_of(broker_id),
    )
    result = brokers.register_broker(cluster.controller, registration, cluster.last_offset + 1)
    cluster.replay(result.records)
    cluster.unfence(broker_id)


def tells(cluster: Cluster, broker_id: int, directory: UUID) -> ErrorCode:
    """A broker tells where its replica lies."""
    key = (cluster.topic.id, 0)
    result = assign_directories(cluster.controller, broker_id, cluster.epoch_of(broker_id), {key: directory})
    cluster.replay(result.records)
    return result.response[key]


def leaderless(*last: int, elr: bool, **configs: str) -> Cluster:
    """All have gone, those named last: the last alone is in sync, or with the one before it eligible."""
    cluster = Cluster(elr=elr, configs={"min.insync.replicas": "2", **configs})
    for broker_id in (*{1, 2, 3} - set(last), *last):
        cluster.fence(broker_id)
    return cluster


def test_an_eligible_replica_that_was_made_anew_is_not_elected() -> None:
    cluster = leaderless(2, 1, elr=True)
    returns(cluster, 2, NEW)
    assert tells(cluster, 2, NEW) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (cluster.partition().leader, cluster.partition().elr) == (NO_LEADER, (1, 2))
    cluster.unfence(1)
    assert cluster.partition().leader == 1
    assert tells(cluster, 2, NEW) is ErrorCode.NONE
    after = cluster.partition()
    assert (after.directory(2), after.isr, after.elr) == (NEW, (1,), ()), "it has to copy everything first"


def test_the_last_in_sync_replica_that_was_made_anew_is_not_elected() -> None:
    cluster = leaderless(1, 2, elr=False)
    returns(cluster, 2, NEW)
    assert tells(cluster, 2, NEW) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (cluster.partition().leader, cluster.partition().isr) == (NO_LEADER, (2,))
    cluster.unfence(1)
    assert cluster.elect(UNCLEAN).code is ErrorCode.NONE
    assert cluster.partition().leader == 1, "an unclean election takes one that may have something"
    assert tells(cluster, 2, NEW) is ErrorCode.NONE


def test_the_last_known_leader_that_was_made_anew_is_not_elected() -> None:
    cluster = leaderless(2, 1, elr=True)
    for broker_id in (1, 2):
        cluster.register(broker_id, incarnation=2)
    assert (cluster.partition().elr, cluster.partition().last_known_elr) == ((), (1,))
    returns(cluster, 1, NEW)
    assert tells(cluster, 1, NEW) is ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.partition().leader == NO_LEADER


def test_a_directory_that_is_back_has_what_was_in_sync() -> None:
    cluster = leaderless(1, 2, elr=False)
    returns(cluster, 2, NEW)
    tells(cluster, 2, NEW)
    returns(cluster, 2, NEW, directory_of(2))
    assert cluster.partition().leader == 2


def test_a_replica_that_was_moved_is_what_it_was() -> None:
    cluster = leaderless(1, 2, elr=False)
    returns(cluster, 2, NEW, directory_of(2))
    assert tells(cluster, 2, NEW) is ErrorCode.NONE
    assert (cluster.partition().leader, cluster.partition().directory(2)) == (2, NEW)


@pytest.mark.parametrize("elr", [False, True])
def test_where_nobody_else_has_anything_it_is_elected(elr: bool) -> None:
    cluster = Cluster(replicas=(2,), elr=elr)
    cluster.fence(2)
    returns(cluster, 2, NEW)
    assert tells(cluster, 2, NEW) is ErrorCode.NONE
    assert cluster.partition().leader == 2


def test_a_topic_that_rather_loses_records_does_not_wait() -> None:
    cluster = leaderless(1, 2, elr=False, **{"unclean.leader.election.enable": "true"})
    returns(cluster, 2, NEW)
    assert tells(cluster, 2, NEW) is ErrorCode.NONE
    assert cluster.partition().leader == 2
