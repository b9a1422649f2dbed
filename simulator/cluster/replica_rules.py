"""What holds of the replicas of partitions and of the metadata log while a cluster runs, looked at now and then.

- *Replicas are equal*: an in-sync replica has below its leader's high watermark what the leader has, and any other
  below its own. Where a leader was elected uncleanly, who is not in sync may have what is gone until he follows.
- *Log matching*: batches of the metadata log with the same offset and epoch are the same, after the same.
- *Leader completeness*: whoever begins to lead the metadata quorum has everything that anybody knew as committed in an
  earlier epoch. Who was elected long ago and begins late, after another was, may lack what that one has committed.
- *Waiting*: nobody waits for an offset that is reached, or on behalf of a request that was answered.

Files are read past all faults and costs: a run is the same whether anybody looks or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.metadata.image import MetadataImage, PartitionRegistration
from penstock.node.handlers.produce import Produce
from penstock.raft.topic import METADATA
from penstock.records.batch import BatchHeader, headers
from penstock.replication.partition import Partition
from simulator.world.checks import check
from simulator.world.machine import Machine

EQUAL = "replicas are equal"
MATCHING = "log matching"
COMPLETE = "leader completeness"
REACHED = "nobody waits for what is reached"
ANSWERED = "nobody waits who was answered"

Committed = tuple[int, int, int]
"""Next offset, leader epoch, checksum."""


def replica_bytes(machine: Machine, topic: str, index: int) -> bytes:
    """All batches of a replica, as they lie on its disks."""
    return folder_bytes(machine, f"{topic}-{index}")


def folder_bytes(machine: Machine, name: str) -> bytes:
    """The segments of a log, one after the other."""
    found = []
    for disk in machine.disks:
        if not disk.lost_power and disk.exists(name):
            names = [file.name for file in disk.list(name)]
            found += [disk.content(f"{name}/{file}") for file in names if file.endswith(".log")]
    return b"".join(found)


def batches_below(content: bytes, limit: int) -> Iterator[tuple[bytes, BatchHeader]]:
    """The batches that end below an offset; what comes after may be half written."""
    for position, header in headers(memoryview(content)):
        if header.next_offset > limit:
            return
        yield content[position : position + header.size_bytes], header


def check_waiting(partition: Partition, where: str) -> None:
    """Whoever waits does so for something to come, and has not been told that his time is up."""
    for waiters, end in (
        (partition.waiting_for_watermark, partition.high_watermark),
        (partition.waiting_for_end, partition.log_end_offset),
    ):
        for offset, waiter, _ in waiters:
            check(offset > end, REACHED, f"{where}: somebody waits for {offset}, it is at {end}")
            answered = isinstance(waiter, Produce) and not waiter.outstanding
            check(not answered, ANSWERED, f"{where}: somebody waits for {offset}")


def led_partition(
    machines: dict[int, Machine], registration: PartitionRegistration, topic: str, index: int
) -> Partition | None:
    """A partition on its leader, if that runs, and leads in the epoch of this metadata."""
    if registration.leader < 0 or not machines[registration.leader].running:
        return None
    leading = machines[registration.leader].broker.replicas.leading()
    led = next((each for each in leading if (each.topic, each.index) == (topic, index)), None)
    return led if led is not None and led.leader_epoch == registration.leader_epoch else None


class ReplicaRules:
    """Holds the replicas of partitions against their leaders."""

    def __init__(self, machines: dict[int, Machine]) -> None:
        self._machines = machines

    def look(self, image: MetadataImage, topic: str, index: int, *, unclean: bool) -> None:
        """Compares the replicas of a partition with its leader, if that leads in the newest epoch."""
        registration = image.partition(topic, index)
        led = None if registration is None else led_partition(self._machines, registration, topic, index)
        if registration is None or led is None:
            return
        leader = self._machines[registration.leader]
        content = replica_bytes(leader, topic, index)
        leaders_end = led.log_end_offset
        for broker_id in registration.replicas:
            machine = self._machines[broker_id]
            if machine is leader or not machine.running:
                continue
            log = machine.broker.logs.open_log(topic, index)
            if log is None or log.truncating:
                continue
            limit = min(led.high_watermark, leaders_end, log.log_end_offset)
            if broker_id not in registration.isr:
                follower = machine.broker.replicas.follower(topic, index)
                if follower is None or unclean:
                    continue
                limit = min(limit, follower.high_watermark)
            self._compare(content, replica_bytes(machine, topic, index), limit, f"{topic}-{index} of {machine.host}")

    def look_at_waiting(self) -> None:
        """Looks at who waits on the partitions that nodes lead, or believe that they do."""
        for machine in self._machines.values():
            if machine.running:
                for led in machine.broker.replicas.leading():
                    check_waiting(led, f"{led.topic}-{led.index} of {machine.host}")

    def _compare(self, leaders: bytes, own: bytes, limit: int, where: str) -> None:
        size = min(len(leaders), len(own))
        if leaders[:size] == own[:size]:
            return
        known = {header.base_offset: batch for batch, header in batches_below(leaders, limit)}
        start = min(known, default=limit)
        for batch, header in batches_below(own, limit):
            same = header.base_offset < start or known.get(header.base_offset) == batch
            check(same, EQUAL, f"{where} at {header.base_offset}, below the high watermark {limit}")


class QuorumRules:
    """Holds the metadata logs of all nodes against each other."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._machines = machines
        self._batches: dict[tuple[int, int], tuple[int, int, int]] = {}
        self._committed: dict[int, Committed] = {}
        self._known_in: dict[int, int] = {}
        """By base offset, the least epoch in which anybody knew the batch as committed."""
        self._seen: dict[Machine, bytes] = {}
        self._checked: dict[Machine, int] = {}

    def look(self) -> None:
        """Looks at all nodes that run."""
        for machine in self._machines:
            if machine.running:
                self._look_at(machine)

    def elected(self, leader: Machine, epoch: int) -> None:
        """A node has begun to lead."""
        self.look()
        log = {header.base_offset: contents(header) for _, header in headers(memoryview(self._seen[leader]))}
        earlier = {base: each for base, each in self._committed.items() if self._known_in[base] < epoch}
        committed_end = max((next_offset for next_offset, _, _ in earlier.values()), default=0)
        start = min(log, default=committed_end)
        end = max((next_offset for next_offset, _, _ in log.values()), default=start)
        detail = f"{leader.host} leads epoch {epoch} with a log to {end}, committed is {committed_end}"
        check(end >= committed_end or not log, COMPLETE, detail)
        for base, committed in earlier.items():
            detail = f"{leader.host} leads epoch {epoch} with {log.get(base)} at {base}, committed was {committed}"
            check(base < start or log.get(base) == committed, COMPLETE, detail)

    def _look_at(self, machine: Machine) -> None:
        content, before = folder_bytes(machine, METADATA.directory), self._seen.get(machine, b"")
        self._seen[machine] = content
        known = len(before) if before and content.startswith(before) else 0
        if not known:
            self._checked[machine] = 0
        if len(content) > known:
            self._match(machine, content[known:])
        self._commit(machine, content)

    def _match(self, machine: Machine, content: bytes) -> None:
        epoch_before = -1
        for _, header in headers(memoryview(content)):
            place = (header.base_offset, header.leader_epoch)
            own = (header.next_offset, header.crc, epoch_before)
            known = self._batches.setdefault(place, own)
            same = known[:2] == own[:2] and (epoch_before < 0 or known[2] in (-1, epoch_before))
            check(same, MATCHING, f"{machine.host} has another batch at {place}: {own}, not {known}")
            epoch_before = header.leader_epoch

    def _commit(self, machine: Machine, content: bytes) -> None:
        """What the node knows as committed is so for ever."""
        quorum = machine.broker.quorum
        high_watermark = quorum.metadata.high_watermark
        if high_watermark <= self._checked[machine]:
            return
        for _, header in batches_below(content, high_watermark):
            if header.base_offset >= self._checked[machine]:
                own = contents(header)
                known = self._committed.setdefault(header.base_offset, own)
                known_in = self._known_in.get(header.base_offset, quorum.epoch)
                self._known_in[header.base_offset] = min(known_in, quorum.epoch)
                check(known == own, COMPLETE, f"{machine.host} commits {own} at {header.base_offset}, it was {known}")
        self._checked[machine] = high_watermark


def contents(header: BatchHeader) -> Committed:
    """What makes a batch this one."""
    return header.next_offset, header.leader_epoch, header.crc
