"""The coordinator's broker dies or stops under groups at work: nothing committed is lost, no partition has two owners.

Members join, process, commit and leave all along, in groups of both protocols; at the end the history is checked, and
how long anybody had to wait.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from e2e.cluster.group_history import History, Members, Owned, Processed, check_owners, check_records, coordinator_of
from e2e.cluster.history import Writer, check, create_topic, leaders_and_isr, wait_for_full_isr
from support.processes import Cluster, wait_until

logger = logging.getLogger(__name__)

PARTITIONS = 6
SETTINGS = {
    "min_insync_replicas": 2,
    "broker_session_timeout_ms": 2000,
    "broker_heartbeat_interval_ms": 500,
    "offsets_topic_num_partitions": 1,
    "group_initial_rebalance_delay_ms": 0,
    "group_consumer_min_heartbeat_interval_ms": 300,
    "group_consumer_heartbeat_interval_ms": 500,
}
ALL = ("range", "cooperative", "consumer")
SILENCE_MAX_S = 20.0
"""Longest time that some partition may stand still when the broker that leads it and coordinates its group is gone."""


def kill(cluster: Cluster, node: int) -> None:
    cluster.kill(node)


def stop(cluster: Cluster, node: int) -> None:
    cluster.stop(node)


@contextmanager
def at_work(cluster: Cluster, protocols: Sequence[str]) -> Iterator[list[Members]]:
    """Groups of these protocols that read what is written; all histories are checked at the end."""
    create_topic(cluster.bootstrap, "t", PARTITIONS, 3)
    with ExitStack() as stack:
        writer = stack.enter_context(Writer(cluster.bootstrap, "t", socket_timeout_ms=4000))
        groups = [
            stack.enter_context(Members(cluster.bootstrap, "t", each, each, partitions=PARTITIONS))
            for each in protocols
        ]
        for members in groups:
            members.wait_until_shared()
        more_is_read(groups)
        yield groups
    for members in groups:
        members.check()
    assert not writer.failed
    check(writer, cluster.bootstrap, PARTITIONS)


def more_is_read(groups: Sequence[Members]) -> None:
    for members in groups:
        members.wait_for_more()


def one_comes_and_one_goes(groups: Sequence[Members]) -> None:
    """The coordinator of now has to write."""
    for members in groups:
        members.join()
        members.wait_until_shared()
        members.leave()
        members.wait_until_shared()


def another_coordinates(cluster: Cluster, group: str, node: int) -> None:
    """Waits until the broker that is asked has heard that the node does not coordinate the group any more."""
    wait_until(lambda: coordinator_of(cluster.bootstrap, group) != node, f"another node than {node} coordinates")


def wait_until_in_sync(cluster: Cluster) -> None:
    for topic in ("__consumer_offsets", "t"):
        wait_for_full_isr(cluster.bootstrap, topic, 3)


def fail_over(tmp_path: Path, protocols: Sequence[str], end: Callable[[Cluster, int], None], turns: int) -> None:
    """Ends the coordinator's node so many times under groups of these protocols."""
    with Cluster(tmp_path, **SETTINGS) as cluster, at_work(cluster, protocols) as groups:
        for _ in range(turns):
            victim = coordinator_of(cluster.bootstrap, protocols[0])
            since_s = time.monotonic()
            end(cluster, victim)
            more_is_read(groups)
            silences = {each.group: round(each.history.longest_silence_s(since_s), 2) for each in groups}
            logger.info("longest silences of a partition, in seconds: %s", silences)
            assert max(silences.values()) < SILENCE_MAX_S, silences
            another_coordinates(cluster, protocols[0], victim)
            one_comes_and_one_goes(groups)
            cluster.start(victim)
            cluster.wait_ready(victim)
            wait_until_in_sync(cluster)


@pytest.mark.slow
def test_the_coordinators_broker_is_killed_under_groups_of_both_protocols(tmp_path: Path) -> None:
    fail_over(tmp_path, ("cooperative", "consumer"), kill, 1)


@pytest.mark.slow
@pytest.mark.parametrize("end", [kill, pytest.param(stop, marks=pytest.mark.long)])
def test_coordinators_go_one_after_the_other(tmp_path: Path, end: Callable[[Cluster, int], None]) -> None:
    fail_over(tmp_path, ALL, end, 4)


@pytest.mark.slow
def test_a_frozen_coordinator_is_replaced_and_nobody_believes_it_when_it_thaws(tmp_path: Path) -> None:
    with Cluster(tmp_path, replica_lag_time_max_ms=3000, **SETTINGS) as cluster, at_work(cluster, ALL) as groups:
        for _ in range(2):
            frozen = coordinator_of(cluster.bootstrap, ALL[0])
            since_s = time.monotonic()
            others = ",".join(f"127.0.0.1:{cluster.ports[each]}" for each in cluster.roles if each != frozen)
            cluster.signal(frozen, signal.SIGSTOP)
            try:
                wait_until(
                    lambda: leaders_and_isr(others, "__consumer_offsets")[0][0] not in (frozen, -1),  # noqa: B023
                    "another node coordinates",
                )
                more_is_read(groups)
                silences = {each.group: round(each.history.longest_silence_s(since_s), 2) for each in groups}
                logger.info("longest silences of a partition, in seconds: %s", silences)
            finally:
                cluster.signal(frozen, signal.SIGCONT)
            more_is_read(groups)
            one_comes_and_one_goes(groups)
            wait_until_in_sync(cluster)


@pytest.mark.long
def test_the_whole_cluster_dies_at_once_and_the_groups_go_on(tmp_path: Path) -> None:
    with Cluster(tmp_path, **SETTINGS) as cluster, at_work(cluster, ALL) as groups:
        for _ in range(2):
            for node in cluster.roles:
                cluster.kill(node)
            for node in cluster.roles:
                cluster.start(node)
            cluster.wait_ready(*cluster.roles)
            more_is_read(groups)
            one_comes_and_one_goes(groups)
            wait_until_in_sync(cluster)


# The checks find what is planted


def owned(member: str, from_s: float, to_s: float | None = None, *, committed: int = 0, lost: bool = False) -> Owned:
    return Owned(member, 0, from_s, committed, to_s, lost)


def test_two_owners_are_found() -> None:
    check_owners([owned("a", 0, 1), owned("b", 1, 2), owned("a", 3)])
    for wrong in (
        [owned("a", 0), owned("b", 1)],
        [owned("a", 0, 2), owned("b", 1)],
        [owned("b", 1), owned("a", 0, 5)],
        [owned("a", 0, 1, lost=True)],
    ):
        with pytest.raises(AssertionError):
            check_owners(wrong)


def read(member: str, *offsets: int, at_s: float = 0.5) -> list[Processed]:
    return [Processed(member, 0, offset, at_s) for offset in offsets]


def test_a_record_that_is_left_out_or_read_again_after_its_commit_is_found() -> None:
    turns = [owned("a", 0, 1), owned("b", 1, 2, committed=2)]
    check_records(turns, read("a", 0, 1, 2) + read("b", 2, 3, at_s=1.5))
    for wrong in (
        read("a", 0, 2),
        read("a", 0, 1, 1),
        read("a", 1),
        read("a", 0, 1, 2) + read("b", 1, 2, at_s=1.5),
        read("a", 0, 1, 2) + read("b", 4, at_s=1.5),
        read("a", 0, at_s=1.5),
        read("b", 0),
    ):
        with pytest.raises(AssertionError):
            check_records(turns, wrong)


def test_silence_is_that_of_the_slowest_partition() -> None:
    history = History()
    now_s = time.monotonic()
    history.processed = [Processed("a", 0, number, now_s - 8 + number) for number in range(8)]
    history.processed += [Processed("a", 1, 0, now_s - 9)]
    assert history.longest_silence_s(now_s - 5) == pytest.approx(5, abs=0.5)
