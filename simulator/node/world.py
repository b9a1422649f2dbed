"""A world for a whole node: clients create topics, produce, fetch and change settings while the machine fails.

- *Producers* are idempotent, one batch in flight, and repeat a batch with the same sequence until it is answered, as
  real ones do. Every value is sent once.
- *Admins* create and delete topics and change their settings.
- *Readers* fetch from anywhere and remember what they saw.

`durable-*` topics are flushed before a record counts (`flush.messages=1`): what was acknowledged there survives
everything. The others survive kill -9, and a power failure in part. At the end everything is read and compared.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from penstock.errors import ErrorCode, PenstockError
from penstock.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records.batch import check_crc, headers
from penstock.records.builder import BatchBuilder
from penstock.records.reader import records
from simulator.node.client import Client
from simulator.world.checks import Violation, check, disk_failed, replayable
from simulator.world.disk import SimulatedDisk
from simulator.world.driver import Simulation
from simulator.world.machine import RESTART_DELAY_MS, Machine

RUN_MS = 5_000
FINAL_MS = 120_000
THINK_MS = 30
RETRY_MS = 40
WATCH_MS = 200
CRASH_AFTER_CHANGES_MAX = 500
FETCH_BYTES = 2_000
ADMINS = 3
TOPICS = ("durable-a", "durable-b", "loose-a")
PARTITIONS = 2
PRODUCE_VERSION, FETCH_VERSION, CREATE_VERSION, DELETE_VERSION, METADATA_VERSION, INIT_VERSION = 9, 12, 7, 5, 9, 4

SETTINGS: dict[str, Any] = {
    "log_flush_offset_checkpoint_interval_ms": 500,
    "replica_high_watermark_checkpoint_interval_ms": 300,
    "log_initial_task_delay_ms": 200,
    "log_retention_check_interval_ms": 500,
    "num_partitions": PARTITIONS,
    "auto_create_topics_enable": False,
}
AGAIN = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NONE,
)

TopicPartition = tuple[str, int]


class Partition:
    """What the clients know of one partition.

    Attributes:
        acknowledged: offset to value, of batches that were answered.
        sent: values that were sent at least once.
        seen: offset to value, of what readers saw.
    """

    def __init__(self, topic: str, index: int) -> None:
        self.topic = topic
        self.index = index
        self.acknowledged: dict[int, bytes] = {}
        self.sent: set[bytes] = set()
        self.seen: dict[int, bytes] = {}

    @property
    def durable(self) -> bool:
        return self.topic.startswith("durable")

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    def forget(self) -> None:
        """A power failure: what was not flushed may be gone, and its offsets may be given again."""
        if not self.durable:
            self.acknowledged.clear()
            self.seen.clear()


class Producer:
    """One idempotent producer with a partition of its own."""

    def __init__(self, world: NodeWorld, partition: Partition) -> None:
        self.world = world
        self.partition = partition
        self.client = Client(world.simulation, world.machine, f"producer of {partition.name}")
        self.producer_id = -1
        self.epoch = -1
        self.sequence = 0
        self.values: list[bytes] = []
        self.count = 0

    def go_on(self) -> None:
        """Sends the next batch, or the last one again."""
        if self.producer_id < 0:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            self.client.ask(request, INIT_VERSION, self._got_id)
            return
        if not self.values:
            if not self.world.loading:
                return
            self._new_values()
        builder = BatchBuilder(producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=self.sequence)
        for value in self.values:
            builder.append(self.world.simulation.now_ms, None, value)
        data = PartitionProduceData(index=self.partition.index, records=builder.build())
        topic = TopicProduceData(name=self.partition.topic, partition_data=[data])
        self.client.ask(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic]), PRODUCE_VERSION, self._answered)

    def _new_values(self) -> None:
        for _ in range(self.world.random.randrange(1, 5)):
            self.count += 1
            filler = b"." * self.world.random.randrange(200)
            self.values.append(f"{self.partition.name} {self.producer_id} {self.count} ".encode() + filler)
        self.partition.sent.update(self.values)

    def _got_id(self, response: Any) -> None:
        if response is None or response.error_code:
            check(response is None or response.error_code in AGAIN, "ids are given", str(response))
            self._later(RETRY_MS)
            return
        check(response.producer_id not in self.world.producer_ids, "a producer id is given once", str(response))
        self.world.producer_ids.add(response.producer_id)
        self.producer_id, self.epoch, self.sequence = response.producer_id, response.producer_epoch, 0
        self.go_on()

    def _answered(self, response: Any) -> None:
        if response is None:
            self._later(RETRY_MS)
            return
        answer = response.responses[0].partition_responses[0]
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            for number, value in enumerate(self.values):
                self._acknowledged(answer.base_offset + number, value)
            self.sequence += len(self.values)
            self.values = []
            self._later(self.world.random.randrange(THINK_MS))
        elif code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
            check(not self.partition.durable, "a producer's state survives", f"{self.partition.name}: {code.name}")
            self.producer_id = -1  # what it had sent before was lost with the power: a new producer goes on
            self.values = []
            self._later(RETRY_MS)
        else:
            check(code in AGAIN, "a batch is taken or refused for a time", f"{self.partition.name}: {code.name}")
            self._later(RETRY_MS)

    def _acknowledged(self, offset: int, value: bytes) -> None:
        known = self.partition.acknowledged.setdefault(offset, value)
        check(known == value, "an offset keeps its value", f"{self.partition.name} at {offset}: {value!r}, {known!r}")

    def _later(self, delay_ms: int) -> None:
        self.world.simulation.after_ms(delay_ms, self.go_on)


def decoded(content: memoryview) -> dict[int, bytes]:
    """Offset to value of all records, their checksums checked, as a client does.

    Raises:
        PenstockError: a batch is damaged.
    """
    values = {}
    for position, header in headers(content):
        check_crc(content, position, header)
        for record in records(content[position : position + header.size_bytes], header):
            values[record.offset] = bytes(record.value or b"")
    return values


class Reader:
    """Fetches from somewhere, again and again; at the end everything."""

    def __init__(self, world: NodeWorld, name: str) -> None:
        self.world = world
        self.client = Client(world.simulation, world.machine, name)
        self.whole: Partition | None = None
        self.values: dict[int, bytes] = {}
        self.done: Callable[[dict[int, bytes]], None] = lambda _: None

    def go_on(self) -> None:
        """Reads somewhere in a partition."""
        if self.world.loading:
            partition = self.world.random.choice(self.world.partitions)
            offset = self.world.random.randrange(max(partition.acknowledged, default=0) + 2)
            self._fetch(partition, offset, self._looked)

    def read_all(self, partition: Partition, done: Callable[[dict[int, bytes]], None]) -> None:
        """Reads a partition from its beginning to its end."""
        self.whole, self.values, self.done = partition, {}, done
        self._fetch(partition, 0, self._read_on)

    def _fetch(self, partition: Partition, offset: int, then: Callable[[Partition, int, Any], None]) -> None:
        wanted = FetchPartition(
            partition=partition.index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES, current_leader_epoch=-1
        )
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            topics=[FetchTopic(topic=partition.topic, partitions=[wanted])],
        )
        self.client.ask(request, FETCH_VERSION, lambda response: then(partition, offset, response))

    def _take(self, partition: Partition, offset: int, response: Any) -> dict[int, bytes] | None:
        """The records of an answer; None when there is none."""
        if response is None or response.error_code or not response.responses:
            return None
        data = response.responses[0].partitions[0]
        if data.error_code:
            code = ErrorCode(data.error_code)
            check(code in (*AGAIN, ErrorCode.OFFSET_OUT_OF_RANGE), "a fetch is answered", code.name)
            return None
        try:
            values = decoded(memoryview(data.records or b""))
        except PenstockError as error:
            raise Violation(f"nothing is served that was not written: {partition.name} at {offset}: {error}") from error
        for at, value in values.items():
            check(at < data.high_watermark, "nothing above the high watermark is served", f"{partition.name} {at}")
            check(
                value in partition.sent, "nothing is served that was not written", f"{partition.name} {at}: {value!r}"
            )
            for known in (partition.seen.setdefault(at, value), partition.acknowledged.get(at, value)):
                check(known == value, "an offset keeps its value", f"{partition.name} {at}: {known!r}, {value!r}")
        return {at: value for at, value in values.items() if at >= offset}

    def _looked(self, partition: Partition, offset: int, response: Any) -> None:
        self._take(partition, offset, response)
        self.world.reads += response is not None
        self.world.simulation.after_ms(self.world.random.randrange(2 * THINK_MS), self.go_on)

    def _read_on(self, partition: Partition, offset: int, response: Any) -> None:
        values = self._take(partition, offset, response)
        if values is None:
            self.world.simulation.after_ms(RETRY_MS, lambda: self._fetch(partition, offset, self._read_on))
        elif values:
            self.values |= values
            self._fetch(partition, max(values) + 1, self._read_on)
        else:
            self.done(self.values)


class Admin:
    """Creates and deletes topics of its own; what was answered must hold from then on."""

    def __init__(self, world: NodeWorld, number: int) -> None:
        self.world = world
        self.number = number
        self.client = Client(world.simulation, world.machine, f"admin {number}")
        self.present: set[str] = set()
        self.absent: set[str] = set()
        self.count = 0

    def create_load_topics(self, then: Callable[[], None]) -> None:
        """The topics that the load uses."""

        def answered(response: Any) -> None:
            made = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            if response is None or any(topic.error_code not in made for topic in response.topics):
                self.world.simulation.after_ms(RETRY_MS, lambda: self.create_load_topics(then))
                return
            self.present.update(TOPICS)
            then()

        self.client.ask(self._create(TOPICS), CREATE_VERSION, answered)

    def _create(self, names: tuple[str, ...]) -> CreateTopicsRequest:
        topics = []
        for name in names:
            configs = [CreatableTopicConfig(name="index.interval.bytes", value="200")]
            if name.startswith("durable"):
                configs.append(CreatableTopicConfig(name="flush.messages", value="1"))
            topics.append(CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1, configs=configs))
        return CreateTopicsRequest(topics=topics, timeout_ms=5_000)

    def go_on(self) -> None:
        """Creates a topic, or deletes one of those it created."""
        if not self.world.loading:
            return
        own = sorted(self.present - set(TOPICS))
        if own and self.world.random.random() < 0.4:
            name = self.world.random.choice(own)
            self.present.discard(name)
            request = DeleteTopicsRequest(topic_names=[name], timeout_ms=5_000)
            self.client.ask(request, DELETE_VERSION, lambda response: self._deleted(name, response))
        else:
            self.count += 1
            name = f"other-{self.number}-{self.count}"
            self.client.ask(self._create((name,)), CREATE_VERSION, lambda response: self._created(name, response))

    def _created(self, name: str, response: Any) -> None:
        if response is not None and response.topics[0].error_code == ErrorCode.NONE:
            self.present.add(name)
            self.world.metadata_changes += 1
        self.world.simulation.after_ms(self.world.random.randrange(8 * THINK_MS), self.go_on)

    def _deleted(self, name: str, response: Any) -> None:
        if response is not None and response.responses[0].error_code == ErrorCode.NONE:
            self.absent.add(name)
            self.world.metadata_changes += 1
        self.world.simulation.after_ms(self.world.random.randrange(8 * THINK_MS), self.go_on)

    def check_topics(self, then: Callable[[], None]) -> None:
        """What was created is there, what was deleted is not."""

        def answered(response: Any) -> None:
            if response is None:
                self.world.simulation.after_ms(RETRY_MS, lambda: self.check_topics(then))
                return
            names = {topic.name for topic in response.topics}
            check(self.present <= names, "metadata survives", f"created and gone: {sorted(self.present - names)}")
            check(not self.absent & names, "metadata survives", f"deleted and back: {sorted(self.absent & names)}")
            then()

        self.client.ask(MetadataRequest(topics=None), METADATA_VERSION, answered)


class NodeWorld:
    """One run. `run` raises Violation, with the seed and the end of the trace, if the code breaks a rule."""

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(seed)
        self.random = self.simulation.random
        self.disks = [
            SimulatedDisk(index, random=Random(self.random.getrandbits(64)), clock=self.simulation.clock)
            for index in range(self.random.choice((1, 2)))
        ]
        self.machine = Machine(self.simulation, self.disks, **SETTINGS)
        self.machine.before_start = self._set_faults
        self.machine.died = self._died
        self.machine.stopped = self._stopped
        self.partitions = [Partition(topic, index) for topic in TOPICS for index in range(PARTITIONS)]
        self.producers = [Producer(self, partition) for partition in self.partitions]
        self.readers = [Reader(self, f"reader {number}") for number in range(2)]
        self.admins = [Admin(self, number) for number in range(ADMINS)]
        self.producer_ids: set[int] = set()
        self.faults = False
        self.loading = True
        self.reads = 0
        self.metadata_changes = 0
        self._finished = False

    def run(self) -> Simulation:
        """The whole run."""
        with replayable(self.simulation, "node"):
            self.machine.start()
            self.admins[0].create_load_topics(self._begin)
            self.simulation.run(self.simulation.now_ms + RUN_MS)
            self._end_well()
        return self.simulation

    def _begin(self) -> None:
        """The topics are there: the load and the faults begin."""
        self.faults = True
        self._set_faults()
        begins = [producer.go_on for producer in self.producers] + [reader.go_on for reader in self.readers]
        for begin in begins + [admin.go_on for admin in self.admins]:
            begin()
        self.simulation.after_ms(self.random.randrange(RUN_MS), self._kill)
        self.simulation.after_ms(self.random.randrange(RUN_MS), self._stop)
        self.simulation.after_ms(WATCH_MS, self._watch)

    def _kill(self) -> None:
        if self.machine.running and self.faults and not disk_failed(self.machine.log_directories):
            self.machine.kill(power_failed=False)

    def _stop(self) -> None:
        if self.machine.running and self.faults:
            self.machine.shutdown()

    def _watch(self) -> None:
        """Reboots a machine that has lost a disk, as an operator would."""
        if self.faults:
            if self.machine.running and disk_failed(self.machine.log_directories):
                self.machine.kill()
            self.simulation.after_ms(WATCH_MS, self._watch)

    def _stopped(self) -> None:
        if disk_failed(self.machine.log_directories):
            self.machine.kill()
        else:
            self.simulation.after_ms(RESTART_DELAY_MS, self.machine.start)

    def _end_well(self) -> None:
        """No more faults: everybody finishes, the machine loses its power once more, and everything is read."""
        self.loading = False
        self.faults = False
        self._set_faults()
        if self.machine.running and disk_failed(self.machine.log_directories):
            self.machine.kill()
        self.simulation.run(self.simulation.now_ms + FINAL_MS)
        for admin in self.admins:
            admin.check_topics(lambda: None)
        self.simulation.run(self.simulation.now_ms + FINAL_MS)
        unfinished = [producer.partition.name for producer in self.producers if producer.values]
        check(not unfinished, "every batch is answered in the end", str(unfinished))
        self.machine.kill()
        self.simulation.run(self.simulation.now_ms + FINAL_MS)
        for admin in self.admins:
            admin.check_topics(lambda: None)
        self._read_all(list(self.partitions))
        self.simulation.run(self.simulation.now_ms + FINAL_MS)
        check(self._finished, "a node that is well answers", "reading it all did not come to an end")

    def _read_all(self, left: list[Partition]) -> None:
        if not left:
            self._finished = True
            return
        partition = left.pop()
        reader = Reader(self, f"last reader of {partition.name}")

        def done(values: dict[int, bytes]) -> None:
            self._compare(partition, values)
            self._read_all(left)

        reader.read_all(partition, done)

    def _compare(self, partition: Partition, values: dict[int, bytes]) -> None:
        """What is in a partition at the end, against what its clients know."""
        self.simulation.trace(f"{partition.name} has {len(values)} records")
        lost = sorted(set(partition.acknowledged) - set(values))
        check(not lost, "what was acknowledged survives", f"{partition.name}: offsets {lost[:5]}")
        again = len(values) - len(set(values.values()))
        check(again == 0, "nothing is there twice", f"{partition.name}: {again} values")
        check(
            sorted(values) == list(range(len(values))), "offsets have no gap", f"{partition.name}: {sorted(values)[:9]}"
        )

    def _died(self) -> None:
        if self.machine.lost_power:
            for partition in self.partitions:
                partition.forget()

    def _set_faults(self) -> None:
        for disk in self.disks:
            disk.mend()
        if not self.faults:
            return
        disk = self.random.choice(self.disks)
        fault = self.random.randrange(8)
        if fault < 5:
            disk.crash_at = disk.changes + self.random.randrange(1, CRASH_AFTER_CHANGES_MAX)
        elif fault == 5:
            disk.fail_fsync_at = disk.fsyncs + self.random.randrange(1, 60)
        elif fault == 6:
            disk.capacity_bytes = sum(disk.size(path) for path in disk.paths()) + self.random.randrange(30_000)
        disk.cold = self.random.random() < 0.3
