"""One partition on three brokers, a controller and a network, as a random schedule drives them: real leaders, followers
and logs (on simulated disks), everything else a model.

A step delivers a message, runs a disk operation, has a client produce, lets time pass, or breaks something; any message
may be late, lost, or overtaken. `check` holds it all against what was promised: what is below a high watermark that was
ever shown stays there, unchanged, on every replica that may be elected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from uuid import UUID

from penstock.errors import ErrorCode, RequestError
from penstock.log.directory import LogDirectory
from penstock.log.loading import OpenArguments
from penstock.log.log import Log
from penstock.log.recovery import recover_log
from penstock.metadata.image import NO_LEADER, BrokerRegistration, MetadataImage, PartitionRegistration, TopicImage
from penstock.metadata.persistent import PersistentMap
from penstock.node.fetch_answers import divergence
from penstock.protocol.messages.alter_partition_response import PartitionData as Altered
from penstock.protocol.messages.fetch_response import PartitionData
from penstock.records.batch import headers, read_header
from penstock.replication.appends import ACKS_ALL, Prepared
from penstock.replication.fetch_session import Session, Subscription
from penstock.replication.follower import Follower, Position, State
from penstock.replication.in_sync_replicas import Proposal
from penstock.replication.partition import Partition
from penstock.replication.replicas import Replicas
from simulator.world.disk import SimulatedDisk
from support.logs import NOW_MS, OneLog, batch, topic_config

TOPIC = "t"
NAME = "t-0"
TOPIC_ID = UUID(int=7)
BROKERS = (1, 2, 3)
LAG_MS = 1_000
FETCH_BYTES = 400

Batch = tuple[int, int, int]
"""Base offset, last offset, CRC."""


class BrokerLog(OneLog):
    """The log of a broker, and the log manager around it."""

    def __init__(self, world: World, broker: Machine, **config: Any) -> None:
        self.world = world
        self.broker = broker
        self.kept_high_watermark = 0
        super().__init__(topic_config(segment_bytes=1500, **config), SimulatedDisk(), NAME)

    def take(self) -> None:
        super().take()

    def configure(self, min_insync_replicas: int) -> None:
        """The topic asks for so many; configurations come before what the metadata says of partitions."""
        if self.config.min_insync_replicas != min_insync_replicas:
            self.config = topic_config(segment_bytes=1500, min_insync_replicas=min_insync_replicas)
            self.log.config = self.config

    def exists(self, topic: str, partition: int) -> bool:
        return True

    def directory_of(self, topic: str, partition: int) -> LogDirectory:
        return LogDirectory(0, "/data/0", self.disk, self.disk)

    def create(self, requests: Any, now_ms: int) -> None:
        raise AssertionError("it is there")

    def get(self, topic: str, partition: int, now_ms: int) -> Log:
        return self.log

    def high_watermark(self, topic: str, partition: int) -> int:
        return self.kept_high_watermark

    def set_high_watermark(self, topic: str, partition: int, offset: int) -> None:
        self.kept_high_watermark = offset

    def log_advanced(self, log: Log, now_ms: int) -> None:
        self.broker.replicas.log_advanced(log, self.world.now_ms)

    def log_start_moved(self, log: Log) -> None:
        self.broker.replicas.log_start_moved(log, self.world.now_ms)

    def log_truncated(self, log: Log, now_ms: int) -> None:
        self.broker.replicas.log_truncated(log, self.world.now_ms)

    def batches(self) -> list[Batch]:
        """What is written, from the start."""
        found = []
        for _, header in headers(self.content()):
            found.append((header.base_offset, header.last_offset, header.crc))
        return found


class Logs:
    """A BrokerLog as `Replicas` uses a log manager."""

    def __init__(self, one: BrokerLog) -> None:
        self._one = one

    def __getattr__(self, name: str) -> Any:
        return getattr(self._one, "get" if name == "log" else name)


class Machine:
    """A broker: its replica, as leader or follower, and what it has heard of the metadata."""

    def __init__(self, world: World, broker_id: int) -> None:
        self.world = world
        self.id = broker_id
        self.one = BrokerLog(world, self, min_insync_replicas=world.min_insync_replicas)
        self.alive = True
        self.waiter = Waiter(world)
        self.boot()

    def boot(self) -> None:
        """A process begins: it knows of nothing but its log."""
        self.fetch: object | None = None
        self.seen = 0
        self.deaf = False
        logs = Logs(self.one)
        self.broker_epoch = -1
        more: Any = {"followers": lambda: self, "broker_epoch": lambda: self.broker_epoch, "lag_time_max_ms": LAG_MS}
        self.replicas = Replicas(self.id, lambda: logs, lambda *_: None, lambda *_: None, self, **more)  # type: ignore[arg-type,return-value]
        self.replicas.caught_up = True
        self.lagging: dict[int, Partition] = {}

    def learn(self, count: int = 1) -> None:
        """Takes over the next states of the metadata; several at once are one change, as an image is."""
        count = min(count, len(self.world.history) - self.seen)
        if count <= 0 or self.deaf:
            return
        self.seen += count
        state = self.world.history[self.seen - 1]
        self.replicas.set_image(state.image())
        self.one.configure(state.min_insync_replicas)
        self.broker_epoch = state.brokers[self.id].epoch
        self.replicas.partition_changed(TOPIC, 0, state.partition, self.world.now_ms)

    @property
    def follower(self) -> Follower | None:
        return self.replicas.follower(TOPIC, 0)

    def leading(self) -> Partition | None:
        """Its partition if it believes that it leads."""
        if not self.alive or not self.seen:
            return None
        found = self.replicas.leader(TOPIC, 0, self.world.now_ms)
        return found if isinstance(found, Partition) else None

    # FollowerDriver, IsrDriver

    def follow(self, follower: Follower, now_ms: int) -> None:
        if follower.state is State.OPENING:
            self.replicas.follower_log(follower, now_ms)

    def unfollow(self, follower: Follower, now_ms: int) -> None:
        """The next fetch finds out."""

    def follower_moved(self, follower: Follower, now_ms: int) -> None:
        if follower.state is State.ASKING:
            self.world.send(self.ask_offsets(follower, follower.leader_id))

    def ask_offsets(self, follower: Follower, leader_id: int) -> Callable[[], None]:
        def ask() -> None:
            leader = None if leader_id == NO_LEADER else self.world.machines[leader_id].leading()
            if leader is not None:
                follower.leader_offsets(leader.log_start_offset, leader.log_end_offset, self.world.now_ms)
            else:
                follower.leader_offsets_failed(ErrorCode.NOT_LEADER_OR_FOLLOWER, self.world.now_ms)

        return ask

    def follower_retries(self, follower: Follower, delay_ms: int, now_ms: int) -> None:
        self.world.send(lambda: follower.retry(self.world.now_ms), lossless=True)

    def follower_wrote(self, follower: Follower, size_bytes: int) -> None:
        """Nobody counts."""

    def high_watermark_moved(self, follower: Follower) -> None:
        self.replicas.high_watermark_moved(follower)

    def follower_failed(self, follower: Follower, error: Exception) -> None:
        raise AssertionError(f"{follower}: {error}") from error

    def propose(self, partition: Partition, now_ms: int) -> None:
        assert partition.isr.proposal is not None
        self.world.propose(self, partition, partition.isr.proposal)

    def lags(self, partition: Partition, now_ms: int) -> None:
        self.lagging[partition.index] = partition

    def look(self, now_ms: int) -> None:
        """The world looks often enough."""

    def forget(self, partition: Partition) -> None:
        self.lagging.pop(partition.index, None)

    def accepted(self, proposal: Proposal) -> None:
        """Nobody counts."""


class Waiter:
    """Producers: what they were told with acks=all must be replicated."""

    def __init__(self, world: World) -> None:
        self.world = world

    def appended(self, slot: Any, code: ErrorCode, now_ms: int) -> None:
        if code is ErrorCode.NONE:
            self.world.acknowledged.append(slot)

    def broke(self, error: Exception, now_ms: int) -> None:
        raise error


@dataclass(frozen=True)
class Registered:
    """A broker as the controller knows it."""

    epoch: int
    fenced: bool


@dataclass(frozen=True)
class Metadata:
    """The controller's state at one offset."""

    partition: PartitionRegistration
    brokers: dict[int, Registered]
    min_insync_replicas: int

    def image(self) -> MetadataImage:
        brokers = {
            broker_id: BrokerRegistration(broker_id, each.epoch, UUID(int=1), (), {}, fenced=each.fenced)
            for broker_id, each in self.brokers.items()
        }
        topics: PersistentMap[str, TopicImage] = PersistentMap()
        return MetadataImage(
            brokers=brokers, topics_by_name=topics.set(TOPIC, TopicImage(TOPIC, TOPIC_ID, (self.partition,)))
        )


class World:
    """See the module's head.

    Attributes:
        history: the metadata log. committed: base offset -> batch below a high watermark that was shown.
        shown: the greatest high watermark shown. acknowledged: (base offset, CRC) that producers were told of.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.actions: Actions = ACTIONS
        self.now_ms = NOW_MS
        self.min_insync_replicas = random.choice([1, 2])
        self.messages: list[Callable[[], None]] = []
        self.committed: dict[int, Batch] = {}
        self.shown = 0
        self.acknowledged: list[tuple[int, int]] = []
        self.produced = 0
        brokers = {broker_id: Registered(broker_id, fenced=False) for broker_id in BROKERS}
        self.history = [Metadata(PartitionRegistration(BROKERS, BROKERS, 1), brokers, self.min_insync_replicas)]
        self.machines: dict[int, Machine] = {}
        for broker_id in BROKERS:
            self.machines[broker_id] = Machine(self, broker_id)
        for machine in self.machines.values():
            machine.learn()

    # The network

    def send(self, message: Callable[[], None], *, lossless: bool = False) -> None:
        if lossless or self.random.random() > 0.05:
            self.messages.append(message)

    def deliver(self, machine: Machine) -> None:
        if self.messages:
            at = self.random.randrange(len(self.messages)) if self.random.random() < 0.3 else 0
            self.messages.pop(at)()

    # Replication

    def fetch(self, machine: Machine) -> None:
        """A follower sends its next fetch; one that is under way is given up now and then."""
        follower = machine.follower
        if not machine.alive or follower is None or not follower.ready or follower.leader_id == NO_LEADER:
            return
        if machine.fetch is not None and self.random.random() > 0.1:
            return
        process, position, leader_id = machine.replicas, follower.position, follower.leader_id
        under_way = machine.fetch = object()
        epoch = process.broker_epoch

        def arrive() -> None:
            answer = self.serve(leader_id, machine.id, epoch, position)
            self.send(lambda: receive(answer))
            if answer is None:
                self.messages.append(lambda: receive(None))

        def receive(answer: PartitionData | None) -> None:
            if machine.replicas is process and machine.fetch is under_way:
                machine.fetch = None
                current = machine.follower
                if answer is not None and current is not None and current.leader_id == leader_id:
                    current.fetched(position, answer, self.now_ms)

        self.send(arrive)

    def serve(self, leader_id: int, replica_id: int, epoch: int, asked: Position) -> PartitionData | None:
        """What a leader answers: as the Fetch handler does."""
        machine = self.machines[leader_id]
        if not machine.alive:
            return None
        leader = machine.leading()
        if leader is None:
            return PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if code := leader.check_epoch(asked.leader_epoch):
            return PartitionData(error_code=code)
        subscription = Subscription(
            Session(uses_topic_ids=True, privileged=True, now_ms=self.now_ms), (TOPIC_ID, 0), TOPIC, TOPIC_ID, 1
        )
        subscription.fetch_offset = asked.fetch_offset
        subscription.last_fetched_epoch = asked.last_fetched_epoch
        try:
            diverging = divergence(leader, subscription) if asked.last_fetched_epoch >= 0 else None
            if diverging is not None:
                return PartitionData(diverging_epoch=diverging)
            if not leader.log_start_offset <= asked.fetch_offset <= leader.log_end_offset:
                return PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
            code = leader.follower_fetched(
                replica_id,
                asked.fetch_offset,
                asked.log_start_offset,
                broker_epoch=epoch,
                session=subscription.session,
                now_ms=self.now_ms,
            )
            if code:
                return PartitionData(error_code=code)
            records = bytearray(leader.log.read_bytes(asked.fetch_offset, FETCH_BYTES))
        except RequestError as error:
            return PartitionData(error_code=error.code)
        return PartitionData(
            high_watermark=leader.high_watermark, log_start_offset=leader.log_start_offset, records=records
        )

    def produce(self, machine: Machine) -> None:
        """A client writes to whoever believes to lead."""
        leader = machine.leading()
        if leader is None or len(machine.one.taken) > 3:
            return
        self.produced += 1
        data = batch(*[b"%d" % self.produced] * self.random.randint(1, 3), timestamp_ms=self.now_ms)
        acks = self.random.choice([1, ACKS_ALL])
        prepared = leader.append_as_leader(data, read_header(data), acks, self.now_ms)
        if isinstance(prepared, Prepared) and acks == ACKS_ALL:
            slot = (prepared.base_offset, read_header(data).crc)
            leader.wait(prepared, acks, machine.waiter, slot, self.now_ms)

    def operate(self, machine: Machine) -> None:
        if machine.alive:
            machine.one.now_ms = self.now_ms
            machine.one.take()
            if machine.one.taken:
                machine.one.run_one()

    def look_after(self, machine: Machine) -> None:
        if machine.alive:
            machine.lagging = {i: each for i, each in machine.lagging.items() if each.look_after_followers(self.now_ms)}

    # The controller

    @property
    def state(self) -> Metadata:
        return self.history[-1]

    def change(self, partition: PartitionRegistration | None = None, **brokers: Registered) -> None:
        changed = {**self.state.brokers, **{int(name[1:]): each for name, each in brokers.items()}}
        self.history.append(Metadata(partition or self.state.partition, changed, self.min_insync_replicas))

    def alter(self, **changes: Any) -> None:
        partition = self.state.partition
        self.change(partition.with_(partition_epoch=partition.partition_epoch + 1, **changes))

    def elect(self, *, by_force: bool = False) -> None:
        """Clean elections only: another leader out of the ISR, when there has to be one, or for no reason."""
        partition = self.state.partition
        fit = [each for each in partition.isr if not self.state.brokers[each].fenced]
        if partition.leader in fit and not by_force:
            return
        others = [each for each in fit if each != partition.leader] or fit
        leader = self.random.choice(others) if others else NO_LEADER
        if leader != partition.leader:
            self.alter(leader=leader, leader_epoch=partition.leader_epoch + 1)

    def fence(self, broker_id: int) -> None:
        """A broker's session has ended: it leaves the ISR, unless it is the last."""
        registered = self.state.brokers[broker_id]
        partition = self.state.partition
        self.change(**{f"b{broker_id}": replace(registered, fenced=True)})
        if broker_id in partition.isr and self.may_leave(partition):
            self.set_in_sync(tuple(each for each in partition.isr if each != broker_id))
        self.elect()

    def may_leave(self, partition: PartitionRegistration) -> bool:
        """Whether the in-sync replicas may be one fewer."""
        return len(partition.isr) > 1

    def set_in_sync(self, isr: tuple[int, ...]) -> None:
        self.alter(isr=isr)

    def register(self, broker_id: int) -> None:
        """A new incarnation, unfenced at once."""
        self.change(**{f"b{broker_id}": Registered(len(self.history) + 10, fenced=False)})
        self.elect()

    def propose(self, machine: Machine, partition: Partition, proposal: Proposal) -> None:
        process, own_epoch = machine.replicas, machine.replicas.broker_epoch

        def arrive() -> None:
            answer = self.decide(machine.id, own_epoch, proposal)
            self.messages.append(lambda: receive(answer))

        def receive(answer: ErrorCode | Altered) -> None:
            if machine.replicas is not process or not machine.alive:
                return
            if self.random.random() < 0.1:
                answer = ErrorCode.UNKNOWN_SERVER_ERROR  # the answer was lost: tried again
            if partition.alter_answered(proposal, answer, self.now_ms):
                self.messages.append(arrive)

        self.messages.append(arrive)

    def decide(self, leader_id: int, broker_epoch: int, proposal: Proposal) -> ErrorCode | Altered:
        """AlterPartition, as the controller decides it."""
        partition, brokers = self.state.partition, self.state.brokers
        if proposal.leader_epoch != partition.leader_epoch or partition.leader != leader_id:
            return ErrorCode.FENCED_LEADER_EPOCH
        if proposal.partition_epoch != partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for broker_id, epoch in proposal.isr:
            if brokers[broker_id].fenced or epoch not in (-1, brokers[broker_id].epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        self.set_in_sync(tuple(broker_id for broker_id, _ in proposal.isr))
        partition = self.state.partition
        return Altered(
            leader_id=leader_id,
            leader_epoch=partition.leader_epoch,
            isr=list(partition.isr),
            partition_epoch=partition.partition_epoch,
        )

    # Faults

    def crash(self, machine: Machine) -> None:
        """A broker dies. The power fails only for one whose loss the others can bear, and the controller knows it."""
        if not machine.alive or sum(each.alive for each in self.machines.values()) < 2:
            return
        power_fails = self.random.random() < 0.3
        fit = [each for each in self.state.partition.isr if each != machine.id and self.machines[each].alive]
        if power_fails and not fit:
            return
        machine.alive = False
        machine.one.taken.clear()
        if power_fails or self.random.random() < 0.5:
            self.fence(machine.id)
        if power_fails:
            self.lost_power(machine.id)
            machine.one.disk.restart(power_failed=True)
            machine.one.kept_high_watermark = 0

    def lost_power(self, broker_id: int) -> None:
        """What a broker had not flushed is gone, and it is in no ISR."""

    def revive(self, machine: Machine) -> None:
        if not machine.alive:
            self.start(machine)

    def start(self, machine: Machine) -> None:
        """A broker comes back; as Kafka's, it recovers its log, and registers before it does anything."""
        one = machine.one
        machine.alive = True
        if self.state.brokers[machine.id].fenced is False:
            self.fence(machine.id)
        report = recover_log(one.disk, OpenArguments(NAME, one.config, 0, 0, self.now_ms))
        one.open(recovery_point=report.recovery_point)
        one.kept_high_watermark = self.random.randint(0, min(one.kept_high_watermark, one.log.log_end_offset))
        machine.boot()
        self.register(machine.id)
        machine.learn(len(self.history))

    # A run

    def step(self) -> None:
        """Something happens, to some broker."""
        (action,) = self.random.choices(*zip(*self.actions, strict=True))
        action(self, self.random.choice(list(self.machines.values())))
        self.note()

    def hear(self, machine: Machine) -> None:
        """A broker hears of the metadata; deaf for a while, it hears of several changes at once."""
        if self.random.random() < 0.05:
            machine.deaf = not machine.deaf
        if machine.alive:
            machine.learn(self.random.choice([1, 1, 3, len(self.history)]))

    def wait(self, machine: Machine) -> None:
        self.now_ms += self.random.choice([1, 50, LAG_MS // 2, LAG_MS + 1])

    def notice(self, machine: Machine) -> None:
        """The controller misses a dead broker; or it has somebody else lead, for no reason."""
        if machine.alive:
            self.elect(by_force=True)
        else:
            self.fence(machine.id)

    def note(self) -> None:
        """Remembers what high watermarks show."""
        for machine in self.machines.values():
            if not machine.alive or not machine.seen:
                continue
            follower = machine.follower
            partition = machine.replicas.in_use(TOPIC, 0)
            replica = partition if partition is not None else follower
            if replica is None or replica.high_watermark <= self.shown:
                continue
            self.shown = replica.high_watermark
            for found in machine.one.batches():
                if found[1] < self.shown:
                    assert self.committed.setdefault(found[0], found) == found, f"{found} was {self.committed}"

    def check(self) -> None:
        """Everything that was shown is on every replica that may be elected, and on the leader."""
        partition = self.state.partition
        for broker_id in (*partition.isr, *partition.elr):
            machine = self.machines[broker_id]
            have = set(machine.one.batches()) if machine.one.log.segments.all else set()
            lost = [each for each in self.committed.values() if each not in have]
            assert not lost, f"broker {broker_id} lacks {lost[:3]}, and may be elected: {partition}"
        for base_offset, crc in self.acknowledged:
            known = self.committed.get(base_offset, (-1, -1, -1))
            assert known[2] == crc, f"what was acknowledged at {base_offset} is {known}"

    def run(self, steps: int) -> None:
        for number in range(steps):
            self.step()
            if number % 10 == 0:
                self.check()
        self.heal()

    def heal(self) -> None:
        """All comes back and is given time: then all replicas are in sync and the same."""
        for machine in self.machines.values():
            if not machine.alive:
                self.start(machine)
        self.elect()
        for _ in range(400):
            for machine in self.machines.values():
                machine.deaf = False
                machine.learn(len(self.history))
                machine.fetch = None if not self.messages else machine.fetch
                for _ in range(3):
                    self.operate(machine)
                self.fetch(machine)
            while self.messages:
                self.messages.pop(0)()
            self.note()
            self.now_ms += 10
        self.check()
        logs = [machine.one.batches() for machine in self.machines.values()]
        assert logs[0] == logs[1] == logs[2], [each[-3:] for each in logs]
        assert sorted(self.state.partition.isr) == list(BROKERS), self.state.partition
        leader = self.machines[self.state.partition.leader].leading()
        assert leader is not None
        assert leader.high_watermark == leader.log_end_offset, leader


Actions = tuple[tuple[Callable[[Any, Machine], None], float], ...]

ACTIONS: Actions = (
    (World.deliver, 300),
    (World.operate, 200),
    (World.fetch, 200),
    (World.produce, 120),
    (World.hear, 100),
    (World.look_after, 30),
    (World.wait, 25),
    (World.crash, 6),
    (World.revive, 25),
    (World.notice, 6),
)
"""What may happen, and how often."""
