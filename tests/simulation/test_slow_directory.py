"""Two brokers with two log directories each, one of them slow: whoever has to do with the other one does not wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from penstock.log.disk import Buffer, Operation
from penstock.metadata.format import FormatRequest
from penstock.node.coordinator_topic import partition_for
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records.builder import BatchBuilder
from penstock.replication.fetcher import Fetcher
from simulator.node.client import Client
from simulator.world.disk import SimulatedDisk
from simulator.world.driver import Lanes, Simulation
from simulator.world.machine import CLUSTER_ID, Machine
from simulator.world.network import Network

SLOW_US = 200_000
TOPIC, OFFSETS = "t", "__consumer_offsets"
PARTITIONS = 12
PAUSE_US = 16_000
RUN_MS = 4_000


class SlowDisk(SimulatedDisk):
    """Every write and fsync takes `slow_us` more."""

    slow_us = 0

    def write(self, path: str, position: int, chunks: Sequence[Buffer]) -> None:
        self.busy_us += self.slow_us
        super().write(path, position, chunks)

    def fsync(self, path: str) -> None:
        self.busy_us += self.slow_us
        super().fsync(path)

    def fsync_directory(self, path: str) -> None:
        self.busy_us += self.slow_us
        super().fsync_directory(path)


class SlowDirectoryRun:
    """Broker 1 leads, and broker 2 follows it, on both directories. Clients ask broker 1: one produces to a partition
    on the first directory with acks=all, so that its latency has the follower in it, one reads it, one commits offsets
    of a group whose log is there. Two others produce to partitions on the second directory, which may be slow, at both
    brokers. Every append is fsynced.
    """

    def __init__(self, *, is_slow: bool) -> None:
        self.simulation = Simulation(11)
        self.random = Random(11)
        self.network = Network(self.simulation, half_open_probability=0.0)
        self.machines = [self._machine(number) for number in (1, 2)]
        for machine in self.machines:
            machine.start()
        self.wait(5_000)
        self.clients = {name: self._client(name) for name in ("producer", "reader", "committer", "other", "another")}
        self._create()
        self.hot = self._find(TOPIC, 0)
        self.cold = [self._find(TOPIC, 1), self._find(TOPIC, 1, after=self._find(TOPIC, 1))]
        number = self._find(OFFSETS, 0)
        self.group = next(name for name in map(str, range(1000)) if partition_for(name, PARTITIONS) == number)
        self._produce("producer", self.hot)
        for name, partition in zip(("other", "another"), self.cold, strict=True):
            self._produce(name, partition)
        self._read()
        self._commit()
        self.wait(2_000)
        for machine in self.machines:
            machine.disks[1].slow_us = SLOW_US if is_slow else 0  # type: ignore[attr-defined]
        self.wait(1_000)
        for client in self.clients.values():
            client.latencies_us.clear()
        self.wait(RUN_MS)

    def p99_us(self, name: str) -> int:
        return self.clients[name].percentile_us(0.99)

    def wait(self, milliseconds: int) -> None:
        self.simulation.run(self.simulation.now_ms + milliseconds)

    def _machine(self, number: int) -> Machine:
        host, is_controller = f"node-{number}", number == 1
        listeners = [f"PLAINTEXT://{host}:9092", *([f"CONTROLLER://{host}:9093"] if is_controller else [])]
        return Machine(
            self.simulation,
            [SlowDisk(index, clock=self.simulation.clock) for index in range(2)],
            network=self.network,
            host=host,
            format_request=FormatRequest(CLUSTER_ID, number, "/data/0"),
            node_id=number,
            process_roles="broker,controller" if is_controller else "broker",
            listeners=",".join(listeners),
            controller_quorum_voters="1@node-1:9093",
            offsets_topic_num_partitions=PARTITIONS,
            offsets_topic_replication_factor=2,
            log_flush_interval_messages=1,
        )

    def _client(self, name: str) -> Client:
        return Client(self.simulation, self.machines[0], name)

    def _create(self) -> None:
        client = self._client("admin")
        topics = [CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=2)]
        client.ask(CreateTopicsRequest(topics=topics, timeout_ms=1_000), 7, lambda _: None)
        self.wait(3_000)
        client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["0"]), 4, lambda _: None)
        self.wait(5_000)

    def _find(self, topic: str, directory: int, after: int = -1) -> int:
        """A partition that broker 1 leads, on this directory at both brokers."""
        found = self.machines[0].broker.image.topics_by_name[topic]
        for number in range(after + 1, PARTITIONS):
            places = {machine.broker.logs.directory_of(topic, number).index for machine in self.machines}
            if places == {directory} and found.partitions[number].leader == 1:
                return number
        raise AssertionError(f"no partition of {topic} is on directory {directory} at both brokers, led by 1")

    def _again(self, ask: Callable[[], None]) -> Callable[[Any], None]:
        """Asks after a pause of any length, so that the clients do not march in step."""
        return lambda _: self.simulation.after_us(self.random.randrange(PAUSE_US), ask)

    def _produce(self, name: str, partition: int) -> None:
        builder = BatchBuilder()
        builder.append(self.simulation.now_ms, None, b"v" * 100)
        data = [PartitionProduceData(index=partition, records=builder.build())]
        topics = [TopicProduceData(name=TOPIC, partition_data=data)]
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)
        self.clients[name].ask(request, 9, self._again(lambda: self._produce(name, partition)))

    def _read(self) -> None:
        wanted = [FetchPartition(partition=self.hot, fetch_offset=0, partition_max_bytes=5_000)]
        topics = [FetchTopic(topic=TOPIC, partitions=wanted)]
        self.clients["reader"].ask(FetchRequest(max_wait_ms=100, topics=topics), 12, self._again(self._read))

    def _commit(self) -> None:
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
        request = OffsetCommitRequest(group_id=self.group, generation_id_or_member_epoch=-1, topics=topics)
        self.clients["committer"].ask(request, 8, self._again(self._commit))


@pytest.fixture(scope="module")
def well() -> SlowDirectoryRun:
    """The same while no directory is slow."""
    return SlowDirectoryRun(is_slow=False)


def test_clients_followers_and_coordinators_of_another_directory_keep_their_latency(well: SlowDirectoryRun) -> None:
    slow = SlowDirectoryRun(is_slow=True)
    assert slow.p99_us("other") > 2 * SLOW_US, "the leader's and the follower's writes are slow"
    for name in ("producer", "reader", "committer"):
        assert len(slow.clients[name].latencies_us) > 150
        assert slow.p99_us(name) <= 1.1 * well.p99_us(name), name


def test_planted_fetches_of_a_follower_wait_for_every_write(
    well: SlowDirectoryRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fetcher, "leave_out_writing", lambda _: None)
    slow = SlowDirectoryRun(is_slow=True)
    assert slow.p99_us("producer") > 1.5 * well.p99_us("producer")


def test_planted_all_directories_have_one_lane(well: SlowDirectoryRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_one_line(lanes: Lanes, operations: Sequence[Operation]) -> None:
        everything = (0, "everything")
        for operation in operations:
            if everything in lanes._queues:
                lanes._queues[everything].append(operation)
            else:
                lanes._queues[everything] = deque([operation])
                lanes._start(everything, operation)

    monkeypatch.setattr(Lanes, "run", in_one_line)
    slow = SlowDirectoryRun(is_slow=True)
    assert slow.p99_us("producer") > 5 * well.p99_us("producer")
