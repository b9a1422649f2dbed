"""The requests that move something: what is to be asked for, from the stage of each move and the place where a look
finds its partition. Asking twice for the same does nothing twice: a reassignment to where a partition goes already
changes nothing, nor does an election of who leads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.errors import ErrorCode
from penstock.guardian.core.believing import error_name
from penstock.guardian.core.work.looks import Look
from penstock.guardian.core.work.plans import CANCELLING, CAUGHT_UP, COPYING, SUBMITTED, Move
from penstock.guardian.core.work.progress import BEFORE, OURS, THERE, place_of
from penstock.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions

PREFERRED = 0
TIMEOUT_MS = 8_000
"""How long a cluster may take for one of these requests."""


class Refusal(NamedTuple):
    """A broker's answer for one partition that is not what was wanted."""

    code: int
    message: str

    @property
    def passing(self) -> bool:
        """Whether the same may be granted later."""
        return ErrorCode.of_peer(self.code).retriable


def to_reassign(move: Move, look: Look) -> bool:
    """Whether the reassignment of a move is to be asked for: it was not, or nothing is known of it."""
    return move.state == SUBMITTED and place_of(move, look) == BEFORE


def to_cancel(move: Move, look: Look) -> bool:
    """Whether a reassignment is to be taken back. One whose request may still be under way is, too: this one comes
    after it.
    """
    if move.state != CANCELLING or not (move.adding or move.removing):
        return False
    return place_of(move, look) in (OURS, BEFORE)


def to_elect(move: Move, look: Look) -> bool:
    """Whether the preferred leader is to be elected: it is in sync, and another leads."""
    if move.state != CAUGHT_UP or move.leader < 0 or place_of(move, look) != THERE:
        return False
    placed = look.partitions[move.key]
    return placed.leader != move.leader and move.leader in placed.in_sync


def to_direct(move: Move, look: Look) -> Iterable[tuple[int, str]]:
    """Brokers that are to be told in which directory their replica is to be, with it. Who gets a replica is told
    before; it remembers.
    """
    place = place_of(move, look)
    if move.state not in (SUBMITTED, COPYING) or place not in (BEFORE, THERE):
        return
    if move.state == COPYING and place == BEFORE:
        return
    for broker, path in move.wanted_directories:
        lies, comes = look.directories.get((move.topic, move.partition, broker), (None, None))
        if broker in look.described and path not in (lies, comes):
            yield broker, path


def to_turn_back(move: Move, look: Look) -> Iterable[tuple[int, str]]:
    """Brokers that are to give up copies to another directory, with the directory where the replica lies: to be told to
    be where it is ends a replica's move.
    """
    if move.state == CANCELLING:
        for broker, path in move.wanted_directories:
            lies, comes = look.directories.get((move.topic, move.partition, broker), (None, None))
            if lies is not None and comes == path:
                yield broker, lies


# Requests


def reassignment(wanted: Iterable[tuple[Move, tuple[int, ...] | None]]) -> AlterPartitionReassignmentsRequest:
    """Reassigns the partitions of moves; None takes the reassignment back."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for move, replicas in wanted:
        asked = ReassignablePartition(
            partition_index=move.partition, replicas=None if replicas is None else list(replicas)
        )
        topics.setdefault(move.topic, []).append(asked)
    return AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=[ReassignableTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )


def election(moves: Iterable[Move]) -> ElectLeadersRequest:
    """Has the first replica of each partition lead it."""
    topics: dict[str, list[int]] = {}
    for move in moves:
        topics.setdefault(move.topic, []).append(move.partition)
    wanted = [TopicPartitions(topic=topic, partitions=partitions) for topic, partitions in topics.items()]
    return ElectLeadersRequest(election_type=PREFERRED, topic_partitions=wanted, timeout_ms=TIMEOUT_MS)


def directing(wanted: Iterable[tuple[Move, str]]) -> AlterReplicaLogDirsRequest:
    """Has replicas of one broker be in directories."""
    found: dict[str, dict[str, list[int]]] = {}
    for move, path in wanted:
        found.setdefault(path, {}).setdefault(move.topic, []).append(move.partition)
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[AlterReplicaLogDirTopic(name=name, partitions=each) for name, each in topics.items()],
            )
            for path, topics in found.items()
        ]
    )


# Answers


def refusals_of_reassignment(answer: object) -> dict[tuple[str, int], Refusal]:
    """By partition, what was not granted; empty for an answer that grants all."""
    found: dict[tuple[str, int], Refusal] = {}
    for topic in getattr(answer, "responses", ()):
        for each in topic.partitions:
            if each.error_code not in (ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS):
                found[topic.name, each.partition_index] = refusal(each.error_code, each.error_message)
    return found


def refusals_of_directing(answer: object) -> dict[tuple[str, int], Refusal]:
    """By partition, what a broker refuses. That it does not have a replica yet is no refusal: it remembers."""
    fine = (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    found: dict[tuple[str, int], Refusal] = {}
    for topic in getattr(answer, "results", ()):
        for each in topic.partitions:
            if each.error_code not in fine:
                found[topic.topic_name, each.partition_index] = refusal(each.error_code, None)
    return found


def refusal(code: int, message: str | None) -> Refusal:
    """A refusal, in words."""
    name = error_name(code)
    return Refusal(code, f"{name}: {message}" if message else name)
