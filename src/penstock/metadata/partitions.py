"""Where new partitions go, and who leads: replica placement, checks of assignments, elections.

Placement stripes: racks take turns, brokers of a rack take turns, from random starting points; unfenced brokers come
before fenced ones, and the first replica, the leader, is always unfenced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from uuid import UUID

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.image import NO_LEADER, BrokerRegistration, PartitionRegistration, TopicImage
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord
from penstock.protocol.messages.metadata.partition_record import PartitionRecord

UNASSIGNED_DIRECTORY = UUID(int=0)
"""Kafka's DirectoryId.UNASSIGNED: the broker chooses the log directory, and tells the controller."""


class Placer:
    """Places the replicas of several new partitions, one `place` after the other."""

    def __init__(self, brokers: Mapping[int, BrokerRegistration], random: Random) -> None:
        racks: dict[str, tuple[list[int], list[int]]] = {}
        for broker in brokers.values():
            unfenced_then_fenced = racks.setdefault(broker.rack or "", ([], []))
            unfenced_then_fenced[broker.fenced].append(broker.id)
        self._racks = [racks[name] for name in sorted(racks)]
        self._total = len(brokers)
        self._unfenced = sum(len(unfenced) for unfenced, _ in self._racks)
        self._turn = random.randrange(len(self._racks)) if self._racks else 0
        self._turns = [random.randrange(1 << 16) for _ in self._racks]

    def place(self, replication_factor: int) -> list[int]:
        """The replicas of the next partition. Raises RequestError INVALID_REPLICATION_FACTOR when there is no room."""
        self._check(replication_factor)
        if self._total == 1:
            return list(self._racks[0][0])
        queues = self._queues()
        leader_rack = next(number for number in self._rack_order() if queues[number] and self._racks[number][0])
        order = self._rack_order(leader_rack)
        replicas: list[int] = []
        while len(replicas) < replication_factor:
            for number in order:
                if queues[number] and len(replicas) < replication_factor:
                    replicas.append(queues[number].pop(0))
        self._turn = (self._turn + 1) % len(self._racks)
        self._turns = [turn + 1 for turn in self._turns]
        return replicas

    def _check(self, replication_factor: int) -> None:
        problem = None
        if replication_factor <= 0:
            problem = f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        elif not self._unfenced:
            problem = "All brokers are currently fenced."
        elif replication_factor > self._total:
            problem = (
                f"The target replication factor of {replication_factor} cannot be reached because only {self._total} "
                "broker(s) are registered or some brokers have all their log directories cordoned."
            )
        if problem is not None:
            raise RequestError(ErrorCode.INVALID_REPLICATION_FACTOR, problem)

    def _rack_order(self, first: int | None = None) -> list[int]:
        start = self._turn if first is None else first
        return [(start + step) % len(self._racks) for step in range(len(self._racks))]

    def _queues(self) -> list[list[int]]:
        """The brokers of each rack in the order they are taken for one partition."""
        return [
            rotated(unfenced, turn) + rotated(fenced, turn)
            for (unfenced, fenced), turn in zip(self._racks, self._turns, strict=True)
        ]


def rotated(brokers: list[int], turn: int) -> list[int]:
    """The brokers from the one whose turn it is, round to the one before."""
    start = turn % len(brokers) if brokers else 0
    return brokers[start:] + brokers[:start]


def check_assignment(
    replicas: Sequence[int], replication_factor: int | None, brokers: Mapping[int, BrokerRegistration]
) -> None:
    """Raises RequestError INVALID_REPLICA_ASSIGNMENT for replicas that a person chose and that cannot be.

    `replication_factor` is that of the partitions before, None for the first.
    """
    problem = None
    if not replicas:
        problem = "includes an empty replica list."
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
        directories=[default_directory(brokers[broker_id]) for broker_id in replicas],
    )


def default_directory(broker: BrokerRegistration) -> UUID:
    """The log directory of a new replica: the broker's only one, else the broker chooses and tells."""
    return broker.log_dirs[0] if len(broker.log_dirs) == 1 else UNASSIGNED_DIRECTORY


def active_of(replicas: Sequence[int], brokers: Mapping[int, BrokerRegistration]) -> list[int]:
    """Those replicas that may lead, in their order: the first in-sync replicas of a new partition."""
    return [broker_id for broker_id in replicas if brokers[broker_id].active]


def elect(
    topic: TopicImage,
    index: int,
    acceptable: Callable[[int], bool],
    *,
    leaving: int | None = None,
    unclean: bool = False,
) -> PartitionChangeRecord | None:
    """The change of one partition after a broker came or went, or None when it stays as it is.

    `acceptable` says which brokers may lead; `leaving` is the broker that leaves the in-sync replicas, unless it is
    the last of them; `unclean` whether a replica that is not in sync may lead when no other can.
    """
    partition = topic.partitions[index]
    isr = [broker_id for broker_id in partition.isr if broker_id != leaving] or list(partition.isr)
    leader, recovering = chosen_leader(partition, isr, acceptable, unclean=unclean)
    if recovering:
        isr = [leader]
    record = PartitionChangeRecord(partition_id=index, topic_id=topic.id)
    if tuple(isr) != partition.isr:
        record.isr = isr
    if leader != partition.leader:
        record.leader = leader
    if recovering:
        record.leader_recovery_state = 1
    return record if record.isr is not None or leader != partition.leader else None


def chosen_leader(
    partition: PartitionRegistration, isr: Sequence[int], acceptable: Callable[[int], bool], *, unclean: bool
) -> tuple[int, bool]:
    """The leader that stays or takes over, and whether it has to recover since it was not in sync."""
    if partition.leader in isr and acceptable(partition.leader):
        return partition.leader, False
    for broker_id in partition.replicas:
        if broker_id in isr and acceptable(broker_id):
            return broker_id, False
    if unclean:
        for broker_id in partition.replicas:
            if acceptable(broker_id):
                return broker_id, True
    return NO_LEADER, False
