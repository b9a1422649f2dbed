"""The coordinator's broker dies or stops under groups at work: nothing committed is lost, no partition has two owners.

Members join, process, commit and leave all along, in groups of both protocols; at the end the history is checked, and
how long anybody had to wait.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from e2e.cluster.group_history import History, Members, Owned, Processed, check_owners, check_records, coordinator_of
from e2e.cluster.history import Writer, check, create_topic, wait_for_full_isr
from support.processes import Cluster

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
SILENCE_MAX_S = 20.0
"""Longest time that some partition may stand still when the broker that leads it and coordinates its group is gone."""


def kill(cluster: Cluster, node: int) -> None:
    cluster.kill(node)


def stop(cluster: Cluster, node: int) -> None:
    cluster.stop(node)


def fail_over(
    tmp_path: Path, protocols: tuple[str, ...], end: Callable[[Cluster, int], None], turns: int
) -> dict[str, float]:
    """Ends the coordinator's node so many times under groups of these protocols; the longest silences by protocol."""
    silences = dict.fromkeys(protocols, 0.0)
    with Cluster(tmp_path, **SETTINGS) as cluster:
        create_topic(cluster.bootstrap, "t", PARTITIONS, 3)
        with Writer(cluster.bootstrap, "t") as writer:
            groups = [Members(cluster.bootstrap, "t", each, each, partitions=PARTITIONS) for each in protocols]
            try:
                for members in groups:
                    members.wait_until_shared()
                    members.wait_for_more()
                for _ in range(turns):
                    victim = coordinator_of(cluster.bootstrap, protocols[0])
                    since_s = time.monotonic()
                    end(cluster, victim)
                    for members in groups:
                        members.wait_for_more()
                        silence_s = members.history.longest_silence_s(since_s)
                        silences[members.group] = max(silences[members.group], silence_s)
                    assert coordinator_of(cluster.bootstrap, protocols[0]) != victim
                    for members in groups:
                        members.join()
                        members.wait_until_shared()
                        members.leave()
                        members.wait_until_shared()
                    cluster.start(victim)
                    cluster.wait_ready(victim)
                    wait_for_full_isr(cluster.bootstrap, "__consumer_offsets", 3)
                    wait_for_full_isr(cluster.bootstrap, "t", 3)
            finally:
                for members in groups:
                    members.__exit__()
        for members in groups:
            members.check()
        assert not writer.failed
        check(writer, cluster.bootstrap, PARTITIONS)
    logger.info("longest silences, in seconds: %s", silences)
    return silences


def test_the_coordinators_broker_is_killed_under_groups_of_both_protocols(tmp_path: Path) -> None:
    silences = fail_over(tmp_path, ("cooperative", "consumer"), kill, 1)
    assert max(silences.values()) < SILENCE_MAX_S, silences


@pytest.mark.slow
@pytest.mark.parametrize("end", [kill, stop])
def test_coordinators_go_one_after_the_other(tmp_path: Path, end: Callable[[Cluster, int], None]) -> None:
    silences = fail_over(tmp_path, ("range", "cooperative", "consumer"), end, 4)
    assert max(silences.values()) < SILENCE_MAX_S, silences


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
