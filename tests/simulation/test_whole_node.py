"""A whole node under crashes and failing disks. Each rule is shown to catch a planted bug."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from penstock.log import recovery, segment_scan
from penstock.log.directory_operations import RecoverLog
from penstock.log.disk import Disk
from penstock.log.operations import Write
from penstock.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records.builder import BatchBuilder
from simulator.node.client import Client
from simulator.node.world import NodeWorld
from simulator.world.checks import Violation
from simulator.world.disk import LoopView, SimulatedDisk
from simulator.world.driver import Simulation
from simulator.world.machine import Machine

HUNT_SEEDS = 60
METADATA_LOG = "__cluster_metadata-0"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, 101, 10))
def test_what_was_acknowledged_survives_as_promised(first: int) -> None:
    for seed in range(first, first + 10):
        NodeWorld(seed).run()


@pytest.mark.slow
def test_the_runs_reach_what_they_are_to_test() -> None:
    events, reads, changes, incarnations = "", 0, 0, 0
    for seed in range(1, 19):
        world = NodeWorld(seed)
        world.run()
        events += world.simulation.trace_tail + "".join(map(str, world.machine.events))
        reads += world.reads
        changes += world.metadata_changes
        incarnations += world.machine.incarnation
    assert incarnations > 60
    assert reads > 1_500
    assert changes > 200
    for happening in ("cut", "lost offsets", "No space left", "Input/output error"):
        assert happening in events, happening


def test_the_same_seed_gives_the_same_trace_under_every_hash_seed() -> None:
    hashes = set()
    for hash_seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-m", "simulator.worlds", "--world", "node", "--seeds", "1..3"]
        hashes.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(hashes) == 1, hashes


def broken_rule() -> str:
    """The rule by which the first seed that finds a planted bug does so; empty if none does."""
    for seed in range(1, HUNT_SEEDS + 1):
        try:
            NodeWorld(seed).run()
        except Violation as violation:
            return str(violation).split(":")[0]
    return ""


@pytest.fixture
def skip_fsync(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Plants that files of the metadata log whose path has these words are never fsynced."""

    def plant(words: str) -> None:
        real = SimulatedDisk.fsync

        def forgetful(disk: SimulatedDisk, path: str) -> None:
            if not (path.startswith(METADATA_LOG) and words in path):
                real(disk, path)

        monkeypatch.setattr(SimulatedDisk, "fsync", forgetful)

    return plant


def test_planted_the_election_is_not_fsynced(skip_fsync: Callable[[str], None]) -> None:
    skip_fsync("quorum-state")
    assert broken_rule() == "a node starts after a crash"


def test_planted_the_metadata_log_is_not_fsynced(skip_fsync: Callable[[str], None]) -> None:
    skip_fsync(".log")
    assert broken_rule() in ("metadata survives", "a producer id is given once", "a node starts after a crash")


def test_planted_flush_messages_does_not_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Write.work

    def unsynced(write: Write, disk: SimulatedDisk) -> object:
        paths, write.sync_paths = write.sync_paths, []
        try:
            return real(write, disk)
        finally:
            write.sync_paths = paths

    monkeypatch.setattr(Write, "work", unsynced)
    assert broken_rule() in (
        "what was acknowledged survives",
        "an offset keeps its value",
        "a producer's state survives",
    )


def test_planted_a_torn_tail_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_scan, "check_crc", lambda *_: None)
    assert broken_rule() in ("nothing is served that was not written", "an offset keeps its value")


def test_planted_recovery_forgets_the_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "recover_producers", lambda *_, **__: None)
    assert broken_rule() in ("nothing is there twice", "a producer's state survives", "an offset keeps its value")


def test_a_log_is_recovered_by_its_topics_own_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a topic that became what it is after the node's first images."""
    simulation = Simulation(3)
    machine = Machine(simulation, [SimulatedDisk(clock=simulation.clock)])
    client = Client(simulation, machine, "admin")
    machine.start()
    simulation.run(simulation.now_ms + 2_000)
    compacted = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    topics = [CreatableTopic(name="seats", num_partitions=1, replication_factor=1, configs=compacted)]
    client.ask(CreateTopicsRequest(topics=topics, timeout_ms=1_000), 7, lambda _: None)
    simulation.run(simulation.now_ms + 1_000)
    machine.kill(power_failed=False)
    policies = []
    recovered = RecoverLog.run

    def noting(operation: RecoverLog, disk: Disk) -> object:
        policies.append((operation.arguments.name, operation.arguments.config.cleanup_policy))
        return recovered(operation, disk)

    monkeypatch.setattr(RecoverLog, "run", noting)
    simulation.run(simulation.now_ms + 10_000)
    assert policies == [("seats-0", ("compact",))]


# A cold disk


class ColdDiskRun:
    """One producer on a disk that is well; if wanted, a reader on another whose every page is cold."""

    def __init__(self, *, with_reader: bool) -> None:
        self.simulation = Simulation(11)
        self.disks = [SimulatedDisk(index, clock=self.simulation.clock) for index in range(2)]
        self.machine = Machine(self.simulation, self.disks)
        self.producer = Client(self.simulation, self.machine, "producer")
        self.reader = Client(self.simulation, self.machine, "reader")
        self.offset = 0
        self.machine.start()
        self.wait(2_000)
        names = [CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(2)]
        self.producer.ask(CreateTopicsRequest(topics=names, timeout_ms=1_000), 7, lambda _: None)
        self.wait(1_000)
        where = {self.machine.broker.logs.directory_of(f"t{number}", 0).index: f"t{number}" for number in range(2)}
        self.hot, self.cold = where[0], where[1]
        self._fill(40)
        self.wait(5_000)
        self.producer.latencies_us.clear()
        if with_reader:
            self.disks[1].cold = True
            self._read()
            self._cool_down()
        self._produce()
        self.wait(5_000)

    def wait(self, milliseconds: int) -> None:
        self.simulation.run(self.simulation.now_ms + milliseconds)

    def _request(self, topic: str, value: bytes) -> ProduceRequest:
        builder = BatchBuilder()
        builder.append(self.simulation.now_ms, None, value)
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=builder.build())])
        return ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[data])

    def _fill(self, left: int) -> None:
        if left:
            self.reader.ask(self._request(self.cold, b"v" * 10_000), 9, lambda _: self._fill(left - 1))

    def _produce(self) -> None:
        request = self._request(self.hot, b"value")
        self.producer.ask(request, 9, lambda _: self.simulation.after_us(300, self._produce))

    def _read(self) -> None:
        self.offset = (self.offset + 7) % 40
        wanted = FetchPartition(partition=0, fetch_offset=self.offset, partition_max_bytes=20_000)
        topics = [FetchTopic(topic=self.cold, partitions=[wanted])]
        self.reader.ask(FetchRequest(max_wait_ms=10, min_bytes=1, topics=topics), 12, lambda _: self._read())

    def _cool_down(self) -> None:
        """The kernel drops what was read."""
        self.disks[1].granted.clear()
        self.simulation.after_ms(20, self._cool_down)


def test_a_disk_that_is_all_cold_leaves_the_latency_of_other_clients_as_it_is() -> None:
    alone = ColdDiskRun(with_reader=False).producer
    beside = ColdDiskRun(with_reader=True)
    assert len(beside.reader.latencies_us) > 50
    assert beside.reader.percentile_us(0.5) > 10_000, "the reader itself waits for the disk"
    for share in (0.5, 0.99, 0.999):
        assert beside.producer.percentile_us(share) <= 1.05 * alone.percentile_us(share)


def test_planted_the_loop_reads_a_cold_disk_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoopView, "read", lambda view, *arguments: view._disk.read(*arguments))
    beside = ColdDiskRun(with_reader=True).producer
    alone = ColdDiskRun(with_reader=False).producer
    assert beside.percentile_us(0.99) > 5 * alone.percentile_us(0.99)
