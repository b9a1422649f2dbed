"""Groups in a mixed cluster: their coordinator is Kafka's broker and ours in turns, and each follows the other's log.

Members of both protocols read, commit, join and leave all along. Nothing committed is lost, no partition has two
owners, and every replica of `__consumer_offsets` has the same bytes in the end.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from e2e.cluster.group_history import Members, coordinator_of
from e2e.cluster.history import Writer
from interop.mixed_cluster.comparison import replicas_are_equal
from interop.mixed_cluster.nodes import BROKERS, GROUPS, KAFKA, MixedCluster

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPIC = "read"
LED_BY_EACH = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
PROTOCOLS = ("cooperative", "consumer")
BATCHES_MIN = 20
SETTINGS = {
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.heartbeat.interval.ms": 500,
}


@contextmanager
def at_work(cluster: MixedCluster) -> Iterator[list[Members]]:
    """Groups of both protocols that read what is written; their histories are checked at the end."""
    cluster.create_topic(TOPIC, LED_BY_EACH, min_insync_replicas=2)
    cluster.reassign(GROUPS, {0: [1, 2, 3]})
    cluster.wait_until_in_sync(GROUPS, {0: [1, 2, 3]})
    with ExitStack() as stack:
        stack.enter_context(Writer(cluster.bootstrap, TOPIC))
        groups = [
            stack.enter_context(Members(cluster.bootstrap, TOPIC, each, each, partitions=len(LED_BY_EACH)))
            for each in PROTOCOLS
        ]
        for members in groups:
            members.wait_until_shared()
        more_is_read(groups)
        yield groups
    for members in groups:
        members.check()
    cluster.wait_until_in_sync(GROUPS)


def more_is_read(groups: list[Members]) -> None:
    for members in groups:
        members.wait_for_more()


def one_comes_and_one_goes(groups: list[Members]) -> None:
    """The coordinator of now has to write."""
    for members in groups:
        members.leave()
        members.wait_until_shared()
        members.join()
        members.wait_until_shared()


def all_is_equal(cluster: MixedCluster) -> None:
    replicas_are_equal({broker: cluster.partition_dir(broker, GROUPS, 0) for broker in BROKERS}, BATCHES_MIN)


def test_the_coordinator_moves_between_kafka_and_penstock(tmp_path: Path) -> None:
    with MixedCluster(tmp_path, settings=SETTINGS) as cluster:
        with at_work(cluster) as groups:
            for replicas in ([2, 3, 1], [1, 2, 3], [3, 1, 2], [1, 3, 2]):
                cluster.reassign(GROUPS, {0: replicas}, through=3)
                cluster.elect_preferred(GROUPS, [0], through=2)
                cluster.wait_until_in_sync(GROUPS, {0: replicas}, {0: replicas[0]})
                more_is_read(groups)
                assert coordinator_of(cluster.bootstrap, PROTOCOLS[0]) == replicas[0]
                one_comes_and_one_goes(groups)
        all_is_equal(cluster)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_coordinators_of_both_stop_and_come_back(tmp_path: Path, how: signal.Signals) -> None:
    with MixedCluster(tmp_path, controllers=("kafka",), settings=SETTINGS) as cluster:
        with at_work(cluster) as groups:
            for node in (KAFKA, 2, 3, KAFKA):
                cluster.reassign(GROUPS, {0: [node, *(each for each in BROKERS if each != node)]}, through=node)
                cluster.elect_preferred(GROUPS, [0], through=node)
                cluster.wait_until_in_sync(GROUPS, leaders={0: node})
                more_is_read(groups)
                cluster.stop_node(node, how)
                cluster.wait_until(lead_by_another(cluster, node), f"{node} coordinates nothing")
                more_is_read(groups)
                one_comes_and_one_goes(groups)
                cluster.start_node(node)
                cluster.wait_until_in_sync(GROUPS)
                cluster.wait_until_in_sync(TOPIC)
        all_is_equal(cluster)


def lead_by_another(cluster: MixedCluster, node: int) -> Callable[[], bool]:
    return lambda: cluster.leads_nothing(GROUPS, node)
