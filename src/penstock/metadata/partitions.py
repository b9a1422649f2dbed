"""Where new partitions go: replica placement, checks of assignments, the records of new partitions.

Placement stripes, as Kafka's StripedReplicaPlacer: racks take turns, brokers of a rack take turns, from random starting
points; unfenced brokers come before fenced ones, and the first replica, the leader, is always unfenced. When as many
partitions are placed as brokers live, racks and brokers are shuffled, so that the same sets do not come again.

Where that leaves a choice, replicas of a partition go to different hosts, as the brokers have registered them: with
a broker a disk, several brokers share a host and would fall together. With one broker a host it is Kafka's placement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.image import BrokerRegistration
from penstock.metadata.limits import REPLICAS_PER_PARTITION_MAX
from penstock.protocol.messages.metadata.partition_record import PartitionRecord

UNASSIGNED_DIRECTORY = UUID(int=0)
"""Kafka's DirectoryId.UNASSIGNED: the broker chooses the log directory, and tells the controller."""
LOST_DIRECTORY = UUID(int=1)
"""Kafka's DirectoryId.LOST: the broker has lost the directory that the replica lay in."""
MIGRATING_DIRECTORY = UUID(int=2)
"""Kafka's DirectoryId.MIGRATING: the replica was placed before directories had ids."""


class Randomness(Protocol):
    """The part of `random.Random` that placement needs."""

    def randrange(self, stop: int, /) -> int: ...

    def shuffle(self, x: list[Any], /) -> None: ...


class _Row:
    """Brokers of one rack that take turns: all fenced, or all unfenced."""

    __slots__ = ("_brokers", "_left", "_offset", "_round")

    def __init__(self, brokers: list[int], random: Randomness) -> None:
        self._brokers = sorted(brokers)
        self._offset = random.randrange(len(brokers)) if brokers else 0
        self._round = 0
        self._left: list[int] | None = None

    def take(self, round_: int, hosts: Mapping[int, str], used: set[str]) -> int | None:
        """The next broker for the partition of a round, on an unused host if there is one."""
        if not self._brokers:
            return None
        if self._round != round_:
            self._round, self._left = round_, None
            self._offset = (self._offset + 1) % len(self._brokers)
        if self._left is None:
            self._left = self._brokers[self._offset :] + self._brokers[: self._offset]
        if not self._left:
            return None
        position = next((at for at, broker in enumerate(self._left) if hosts[broker] not in used), 0)
        return self._left.pop(position)

    def shuffle(self, random: Randomness) -> None:
        """Another order. Who has not had a turn since the round of this number goes on where it was."""
        random.shuffle(self._brokers)
        if self._left is not None:
            order = self._brokers[self._offset :] + self._brokers[: self._offset]
            self._left = order[len(order) - len(self._left) :]

    def refill(self) -> None:
        """Makes all brokers available again in this round, except those that a partition has."""
        self._left = None


class _Rack:
    __slots__ = ("fenced", "unfenced")

    def __init__(self, unfenced: list[int], fenced: list[int], random: Randomness) -> None:
        self.fenced = _Row(fenced, random)
        self.unfenced = _Row(unfenced, random)


class Placer:
    """Places the replicas of several new partitions, one `place` after the other."""

    def __init__(self, brokers: Mapping[int, BrokerRegistration], random: Randomness) -> None:
        usable = [broker for broker in brokers.values() if may_get_replicas(broker)]
        self._random = random
        self._hosts = {broker.id: host_of(broker) for broker in usable}
        by_rack: dict[str, tuple[list[int], list[int]]] = {}
        for broker in usable:
            unfenced_then_fenced = by_rack.setdefault(broker.rack or "", ([], []))
            unfenced_then_fenced[broker.fenced].append(broker.id)
        self._every_rack = [_Rack(*by_rack[name], random) for name in sorted(by_rack)]
        self._racks = list(self._every_rack)
        self._total = len(usable)
        self._unfenced = sum(not broker.fenced for broker in usable)
        self._turn = random.randrange(len(self._racks)) if self._racks else 0
        self._placed = 0

    def place(self, replication_factor: int) -> list[int]:
        """The replicas of the next partition. Raises RequestError INVALID_REPLICATION_FACTOR when there is no room."""
        self._check(replication_factor)
        if self._placed == self._unfenced and self._unfenced > 1:
            self._shuffle()
            self._placed = 0
        leader_rack, leader = self._take_leader()
        used = {self._hosts[leader]}
        replicas = [leader]
        at, skipped, in_vain = self._turn, False, 0
        while len(replicas) < replication_factor:
            number = at % len(self._racks)
            at += 1
            if number == leader_rack and not skipped:
                skipped = True
                continue
            taken = self._take(self._racks[number], used)
            in_vain = 0 if taken is not None else in_vain + 1
            if taken is None:
                self._refill_after(in_vain)
            elif taken not in replicas:
                replicas.append(taken)
                used.add(self._hosts[taken])
        self._placed += 1
        self._turn = (self._turn + 1) % len(self._racks)
        return replicas

    def _take_leader(self) -> tuple[int, int]:
        """The rack and the broker of the first replica: the next rack with an unfenced broker."""
        for step in range(2 * len(self._racks)):
            number = (self._turn + step) % len(self._racks)
            taken = self._racks[number].unfenced.take(self._placed, self._hosts, set())
            if taken is not None:
                return number, taken
            self._refill_after(step + 1)
        raise AssertionError("some broker is unfenced")

    def _refill_after(self, in_vain: int) -> None:
        """Brokers that had their turn in the round of the same number before the last shuffle count again when there is
        no other: after every rack was asked in vain."""
        if in_vain % len(self._racks) == 0:
            for rack in self._every_rack:
                rack.fenced.refill()
                rack.unfenced.refill()

    def _take(self, rack: _Rack, used: set[str]) -> int | None:
        taken = rack.unfenced.take(self._placed, self._hosts, used)
        return rack.fenced.take(self._placed, self._hosts, used) if taken is None else taken

    def _shuffle(self) -> None:
        self._random.shuffle(self._racks)
        for rack in self._every_rack:
            rack.fenced.shuffle(self._random)
            rack.unfenced.shuffle(self._random)

    def _check(self, replication_factor: int) -> None:
        problem = None
        if replication_factor <= 0:
            problem = f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        elif not self._unfenced:
            problem = "All brokers are currently fenced, or have all their log directories cordoned."
        elif replication_factor > self._total:
            problem = (
                f"The target replication factor of {replication_factor} cannot be reached because only {self._total} "
                "broker(s) are registered or some brokers have all their log directories cordoned."
            )
        if problem is not None:
            raise RequestError(ErrorCode.INVALID_REPLICATION_FACTOR, problem)


def may_get_replicas(broker: BrokerRegistration) -> bool:
    """Whether a broker has a log directory that is not cordoned off (KIP-1066), and is not just stopping. One that has
    stopped is fenced, and expected back like any that is."""
    open_directories = set(broker.log_dirs) - set(broker.cordoned_log_dirs)
    is_stopping = broker.in_controlled_shutdown and not broker.fenced
    return not is_stopping and (bool(open_directories) or not broker.log_dirs)


def host_of(broker: BrokerRegistration) -> str:
    """The host that a broker has registered; itself, if it has none."""
    return broker.endpoints[0].host if broker.endpoints else f"broker {broker.id}"


def check_assignment(
    replicas: Sequence[int], replication_factor: int | None, brokers: Mapping[int, BrokerRegistration]
) -> None:
    """Raises RequestError INVALID_REPLICA_ASSIGNMENT for an invalid assignment by a client.

    `replication_factor` is that of the partitions before, None for the first.
    """
    problem = None
    if not replicas:
        problem = "includes an empty replica list."
    if len(replicas) > REPLICAS_PER_PARTITION_MAX:
        problem = f"includes a partition with more than {REPLICAS_PER_PARTITION_MAX} replicas."
        replicas = ()
    for previous, broker_id in zip([None, *sorted(replicas)], sorted(replicas), strict=False):
        if problem is None and broker_id not in brokers:
            problem = f"includes broker {broker_id}, but no such broker is registered."
        elif problem is None and broker_id == previous:
            problem = f"includes the broker {broker_id} more than once."
    if problem is None and replication_factor is not None and len(replicas) != replication_factor:
        problem = (
            f"includes a partition with {len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {replication_factor} replica(s)."
        )
    if problem is not None:
        raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {problem}")


def new_partition(
    topic_id: UUID, index: int, replicas: Sequence[int], isr: Sequence[int], brokers: Mapping[int, BrokerRegistration]
) -> PartitionRecord:
    """The record that creates a partition, led by the first of its in-sync replicas."""
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=list(isr),
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[default_directory(brokers.get(broker_id)) for broker_id in replicas],
    )


def default_directory(broker: BrokerRegistration | None) -> UUID:
    """The log directory of a new replica: the broker's only one; otherwise the broker chooses and reports it."""
    return broker.log_dirs[0] if broker is not None and len(broker.log_dirs) == 1 else UNASSIGNED_DIRECTORY


def active_of(replicas: Sequence[int], brokers: Mapping[int, BrokerRegistration]) -> list[int]:
    """The replicas that may lead, in order: the first in-sync replicas of a new partition."""
    return [broker_id for broker_id in replicas if brokers[broker_id].active]
