"""Transactions in a mixed cluster: their coordinator is Kafka's broker and ours in turns, as are partitions' leaders.

Producers of both versions of transactions write into partitions of every broker all along. Each transaction is there
whole or not at all, in order, nothing aborted is read, and every replica of `__transaction_state` has the same bytes.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from interop.kafka_peer import java_source
from interop.mixed_cluster.comparison import replicas_are_equal
from interop.mixed_cluster.nodes import BROKERS, GROUPS, KAFKA, MixedCluster
from interop.transactions.builds import HERE
from interop.transactions.clients import Confluent, Copy, Process, RefusedError, TransactionalClient
from support.processes import wait_until

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPIC, STATE = "written", "__transaction_state"
LED_BY_EACH = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
BATCHES_MIN = 20
MORE = 5
TIMEOUT_MS = 20_000
RECORDS, BATCH = 40, 10
SETTINGS = {
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
}


class Writer:
    """Writes one transaction after the other, a record into each partition; every third is aborted.

    Attributes: `committed`, the numbers of the transactions that it was told are; `unsure`, of those whose commit it
    was told nothing of; `failed`, what went wrong for good.
    """

    def __init__(self, client: TransactionalClient, name: str) -> None:
        self._client, self.name = client, name
        self.committed: list[int] = []
        self.unsure: list[int] = []
        self.failed: list[BaseException] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Writer:
        self._client.open(self.name, self.name, TIMEOUT_MS)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(120)
        assert not self._thread.is_alive()
        assert not self.failed, self.failed

    def wait_for_more(self) -> None:
        """Until some more transactions are committed."""
        enough = len(self.committed) + MORE
        wait_until(lambda: len(self.committed) >= enough or bool(self.failed), f"{self.name} commits", 120)
        assert not self.failed, self.failed

    def _work(self) -> None:
        number = 0
        try:
            while not self._stopping.is_set():
                self._transaction(number)
                number += 1
        except BaseException as error:
            self.failed.append(error)

    def _transaction(self, number: int) -> None:
        try:
            self._client.begin(self.name)
            for partition in range(len(LED_BY_EACH)):
                self._client.send(self.name, TOPIC, partition, f"{self.name}-{number}")
            if number % 3 == 2:
                self._client.abort(self.name)
                return
        except RefusedError:
            self._again()
            return
        try:
            self._client.commit(self.name)
        except RefusedError:
            self.unsure.append(number)
            self._again()
        else:
            self.committed.append(number)

    def _again(self) -> None:
        """A producer of the same id, which ends what the last one left."""
        self._client.close(self.name)
        deadline_s = time.monotonic() + 60
        while True:
            try:
                self._client.open(self.name, self.name, TIMEOUT_MS)
                return
            except RefusedError:
                assert time.monotonic() < deadline_s, "no producer can begin"


def java(cluster: MixedCluster) -> Process:
    source = (HERE / "TransactionalClient.java").read_text()
    return Process(java_source(source), cluster.bootstrap)


@contextmanager
def at_work(cluster: MixedCluster) -> Iterator[list[Writer]]:
    """Writers of both versions; what they wrote is checked at the end."""
    cluster.create_topic(STATE, [[1, 2, 3]], cleanup_policy="compact")
    cluster.create_topic(TOPIC, LED_BY_EACH, min_insync_replicas=2)
    cluster.wait_until_in_sync(STATE)
    cluster.wait_until_in_sync(TOPIC)
    with ExitStack() as stack:
        clients: dict[str, TransactionalClient] = {
            "first": stack.enter_context(Confluent(cluster.bootstrap)),
            "second": stack.enter_context(java(cluster)),
        }
        writers = [stack.enter_context(Writer(client, name)) for name, client in clients.items()]
        yield writers
    with Confluent(cluster.bootstrap) as client:
        read = []
        for partition in range(len(LED_BY_EACH)):
            client.open("end", f"end-{partition}", TIMEOUT_MS)
            client.begin("end")
            client.send("end", TOPIC, partition, "end")
            client.commit("end")
            read.append(client.read(TOPIC, partition, "end"))
    for writer in writers:
        each_is_whole(writer, read)
    for topic in (STATE, TOPIC):
        cluster.wait_until_in_sync(topic)


def each_is_whole(writer: Writer, read: list[list[str]]) -> None:
    """What was committed is in every partition once and in order, and whatever else there is was unsure."""
    of_writer = [[value for value in values if value.startswith(f"{writer.name}-")] for values in read]
    numbers = [[int(value.rpartition("-")[2]) for value in values] for values in of_writer]
    assert all(each == numbers[0] for each in numbers), "transactions are whole"
    assert numbers[0] == sorted(set(numbers[0])), "once, and in order"
    assert set(writer.committed) <= set(numbers[0]) <= {*writer.committed, *writer.unsure}


def more_is_committed(writers: list[Writer]) -> None:
    for writer in writers:
        writer.wait_for_more()


def all_is_equal(cluster: MixedCluster) -> None:
    cluster.wait_until(
        lambda: len({cluster.log_bytes(broker, STATE, 0) for broker in BROKERS}) == 1, "the last of it is everywhere"
    )
    replicas_are_equal({broker: cluster.partition_dir(broker, STATE, 0) for broker in BROKERS}, BATCHES_MIN)
    for partition in range(len(LED_BY_EACH)):
        replicas_are_equal({broker: cluster.partition_dir(broker, TOPIC, partition) for broker in BROKERS}, BATCHES_MIN)


def coordinate(cluster: MixedCluster, topic: str, broker: int) -> None:
    """Makes a broker the coordinator."""
    replicas = [broker, *(each for each in BROKERS if each != broker)]
    cluster.reassign(topic, {0: replicas})
    cluster.elect_preferred(topic, [0])
    cluster.wait_until_in_sync(topic, {0: replicas}, {0: broker})


def test_the_coordinator_moves_in_the_middle_of_transactions(tmp_path: Path) -> None:
    with MixedCluster(tmp_path, settings=SETTINGS) as cluster:
        with at_work(cluster) as writers:
            for broker in (2, KAFKA, 3, KAFKA, 2):
                coordinate(cluster, STATE, broker)
                more_is_committed(writers)
        all_is_equal(cluster)


@pytest.mark.parametrize("how", [pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL])
def test_coordinators_of_both_stop_and_come_back(tmp_path: Path, how: signal.Signals) -> None:
    with MixedCluster(tmp_path, controllers=("kafka",), settings=SETTINGS) as cluster:
        with at_work(cluster) as writers:
            for broker in (2, KAFKA):
                coordinate(cluster, STATE, broker)
                more_is_committed(writers)
                cluster.stop_node(broker, how)
                cluster.wait_until(lambda: cluster.leads_nothing(STATE, broker), "another coordinates")  # noqa: B023
                more_is_committed(writers)
                cluster.start_node(broker)
                cluster.wait_until_in_sync(STATE)
                cluster.wait_until_in_sync(TOPIC)
        all_is_equal(cluster)


def test_offsets_go_with_transactions_whoever_coordinates_which(tmp_path: Path) -> None:
    """The coordinator of the transaction and that of the group, each Kafka's broker and ours."""
    with MixedCluster(tmp_path, settings=SETTINGS) as cluster, Confluent(cluster.bootstrap) as other:
        cluster.create_topic(STATE, [[1, 2, 3]], cleanup_policy="compact")
        cluster.reassign(GROUPS, {0: [1, 2, 3]})
        cluster.wait_until_in_sync(GROUPS, {0: [1, 2, 3]})
        for number, (of_transactions, of_groups) in enumerate([(1, 2), (2, 1), (2, 3)]):
            coordinate(cluster, STATE, of_transactions)
            coordinate(cluster, GROUPS, of_groups)
            source, target = f"from-{number}", f"to-{number}"
            for topic in (source, target):
                cluster.create_topic(topic, [[1, 2, 3], [2, 3, 1]])
                cluster.wait_until_in_sync(topic)
            values = [f"{each}" for each in range(RECORDS // 2)]
            with java(cluster) as client:
                for partition in range(2):
                    write(client, source, partition, *values)
                client.copy(Copy(f"copier-{number}", f"group-{number}", "classic", source, target, RECORDS, BATCH))
                for partition in range(2):
                    write(client, target, partition, "end")
            for partition in range(2):
                copied = [f"copied:{value}" for value in values]
                assert other.read(target, partition, "end") == [*copied, "end"]


def write(client: TransactionalClient, topic: str, partition: int, *values: str) -> None:
    """One transaction of a producer of its own."""
    client.open("other", f"other-{topic}-{partition}-{values[-1]}", TIMEOUT_MS)
    client.begin("other")
    client.send("other", topic, partition, *values)
    client.commit("other")
    client.close("other")
