"""What is believed of the answers of brokers: from messages to what is seen, row by row.

A broker may be broken, or of a cluster that is. So each row is checked before it is taken over: what cannot be true is
left out, and said (`Doubts`). Nothing of it is guessed: what is left out is absent, and whoever needs it says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.guardian.core.limits import GUARDIAN_DOUBTS_TOLD, GUARDIAN_TEXT_MAX
from penstock.guardian.core.sight import SeenBroker, SeenDisk, SeenPartition, SeenTopic
from penstock.protocol.messages.describe_log_dirs_response import DescribeLogDirsResult
from penstock.protocol.messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Changing = Mapping[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...]]]
"""Reassignments under way: the replicas that are added, and those that are removed, by topic and partition."""
PORT_MAX = 65_535
PATH_MAX = 4_096


class Unbelievable(Exception):
    """A row that cannot be true; the text says why, after the name of what it is about."""


class Doubts:
    """What was not believed in one answer: the first of it by name, and how much it was."""

    def __init__(self) -> None:
        self._named: list[str] = []
        self._count = 0

    def add(self, what: str) -> None:
        """One more thing."""
        self._count += 1
        if len(self._named) < GUARDIAN_DOUBTS_TOLD:
            self._named.append(what)

    @property
    def text(self) -> str | None:
        """All of it in a sentence; None for nothing."""
        if not self._count:
            return None
        more = self._count - len(self._named)
        return f"not believed: {'; '.join(self._named)}" + (f"; and {more} more" if more else "")


def error_name(code: int) -> str:
    """The name of an error code that another node gave, or its number if it has none here."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def believed_broker(row: MetadataResponseBroker) -> SeenBroker:
    """A broker. Raises Unbelievable."""
    if row.node_id < 0:
        raise Unbelievable("its id is negative")
    if not 0 < row.port <= PORT_MAX or not 0 < len(row.host) <= GUARDIAN_TEXT_MAX:
        raise Unbelievable("its address is none")
    rack = row.rack
    if rack is not None and len(rack) > GUARDIAN_TEXT_MAX:
        raise Unbelievable("the name of its rack is too long")
    return SeenBroker(row.node_id, row.host, row.port, rack)


def believed_topic(row: MetadataResponseTopic, known: SeenTopic | None, changing: Changing) -> SeenTopic:
    """A topic; `known`, as it was seen before, if nothing of it has changed. Raises Unbelievable."""
    name = row.name
    if not name or len(name) > GUARDIAN_TEXT_MAX:
        raise Unbelievable("its name is none")
    if row.error_code:
        raise Unbelievable(f"it has {error_name(row.error_code)}")
    same = known is not None and known.id == row.topic_id
    before = known.partitions if known is not None and same else ()
    rows = row.partitions
    if any(each.partition_index != index for index, each in enumerate(rows)):
        rows = sorted(rows, key=lambda each: each.partition_index)
        if any(each.partition_index != index for index, each in enumerate(rows)):
            raise Unbelievable("its partitions are not numbered from 0 on")
    changed = len(rows) != len(before)
    partitions = []
    for index, each in enumerate(rows):
        adding, removing = changing.get((name, index), ((), ()))
        old = before[index] if index < len(before) else None
        found = believed_partition(name, each, old, adding, removing)
        changed = changed or found is not old
        partitions.append(found)
    if known is not None and same and not changed and known.internal == row.is_internal:
        return known
    kept = known.min_insync_replicas if known is not None and same else None
    topic_id: UUID = row.topic_id
    return SeenTopic(known.name if known else name, topic_id, tuple(partitions), row.is_internal, kept)


def believed_partition(
    topic: str,
    row: MetadataResponsePartition,
    known: SeenPartition | None,
    adding: tuple[int, ...],
    removing: tuple[int, ...],
) -> SeenPartition:
    """A partition; `known`, if nothing of it has changed. Raises Unbelievable."""
    if (
        known is not None
        and known.leader == row.leader_id
        and known.leader_epoch == row.leader_epoch
        and list(known.replicas) == row.replica_nodes
        and list(known.in_sync) == row.isr_nodes
        and known.adding == adding
        and known.removing == removing
    ):
        return known
    replicas, in_sync = tuple(row.replica_nodes), tuple(row.isr_nodes)
    where = f"partition {row.partition_index}"
    if not replicas or len(set(replicas)) < len(replicas) or min(replicas) < 0:
        raise Unbelievable(f"the replicas of {where} are {told(replicas)}")
    if len(set(in_sync)) < len(in_sync) or not set(in_sync) <= set(replicas):
        raise Unbelievable(f"{told(in_sync)} are in sync of the replicas {told(replicas)} of {where}")
    if row.leader_id != -1 and row.leader_id not in replicas:
        raise Unbelievable(f"broker {row.leader_id} leads {where}, whose replicas are {told(replicas)}")
    name = known.topic if known is not None else topic
    return SeenPartition(
        name, row.partition_index, row.leader_id, row.leader_epoch, replicas, in_sync, adding, removing
    )


def believed_disk(broker: int, row: DescribeLogDirsResult) -> SeenDisk:
    """A log directory, without what lies in it. Raises Unbelievable."""
    if not row.log_dir or len(row.log_dir) > PATH_MAX:
        raise Unbelievable("its path is none")
    total, usable = row.total_bytes, row.usable_bytes
    if total < -1 or usable < -1 or total == 0 or (0 < total < usable):
        raise Unbelievable(f"it has {total} bytes, of which {usable} can be used")
    return SeenDisk(broker, row.log_dir, total, usable, row.error_code)


def told(ids: Sequence[int]) -> str:
    """Ids of brokers, the first of very many."""
    shown = ", ".join(map(str, ids[:8]))
    return f"[{shown}{', …' if len(ids) > 8 else ''}]"
