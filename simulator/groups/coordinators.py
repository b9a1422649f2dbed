"""What holds of the coordinators of groups while a cluster runs, looked at every now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from struct import Struct
from typing import Any

from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.machine import GroupMachine
from penstock.coordinator.runtime.shard import Shard, ShardState
from penstock.metadata.image import PartitionRegistration
from penstock.node.groups import OFFSETS_TOPIC
from penstock.protocol.messages.group.consumer_group_metadata_key import ConsumerGroupMetadataKey
from penstock.protocol.messages.group.group_metadata_key import GroupMetadataKey
from penstock.protocol.record_frames import decode_coordinator_key
from penstock.records.batch import headers
from penstock.records.reader import records
from simulator.cluster.checkers import ClusterChecker
from simulator.cluster.replica_rules import replica_bytes
from simulator.groups.offsets_log import PACKAGE
from simulator.world.checks import check
from simulator.world.machine import Machine

LISTED = "the groups that a coordinator has are those that its log tells of"
SILENT = "who is silent for longer than its session is no member any more"
KIND = Struct(">h")
GROUP_KINDS = frozenset({GroupMetadataKey.KEY, ConsumerGroupMetadataKey.KEY})


Coordinator = tuple[Machine, Shard[GroupMachine], PartitionRegistration]


def coordinators(checker: ClusterChecker) -> Iterator[Coordinator]:
    """All that are what they believe to be, and have nothing in hand."""
    topic = checker.image.topics_by_name.get(OFFSETS_TOPIC)
    for index, registration in enumerate(() if topic is None else topic.partitions):
        machine = checker.machines.get(registration.leader)
        if machine is None or not machine.running:
            continue
        shard = machine.broker.coordinators.groups.runtime.shards.get(index)
        if shard is None or shard.leader_epoch != registration.leader_epoch:
            continue
        if shard.state is ShardState.ACTIVE and shard.batch is None:
            yield machine, shard, registration


class ListedGroups:
    """Looks at the groups that coordinators have, when all that these have decided is in their logs."""

    def __init__(self, checker: ClusterChecker) -> None:
        self._checker = checker
        self._listed: dict[int, set[str]] = {}

    def look(self) -> None:
        """Looks at all coordinators."""
        for machine, shard, _ in coordinators(self._checker):
            self._look_at(machine, shard)

    def _look_at(self, machine: Machine, shard: Shard[GroupMachine]) -> None:
        listed = {group.group_id for group in shard.machine.state.groups.all()}
        if listed == self._listed.get(shard.index):
            return
        told, end_offset = groups_told_of(replica_bytes(machine, OFFSETS_TOPIC, shard.index))
        if end_offset != shard.written_offset:
            return  # it is written in this moment
        where = f"{machine.host} has {names(listed - told)} that are not in {OFFSETS_TOPIC}-{shard.index}, and lacks "
        check(listed == told, LISTED, where + names(told - listed))
        self._listed[shard.index] = listed


class SilentMembers:
    """Looks at the members of consumer groups: who does not live any more has its session, and some time to spare.

    Only the looks count at which the coordinator can do what it should: the same one as before, with all replicas in
    sync. Whoever was seen at so many of them that the time is over should have been removed. A group that has been a
    classic one in between has given its members another session.

    Args:
        living: the ids of all members that live.
    """

    def __init__(self, checker: ClusterChecker, living: Callable[[], set[str]], allowed_ms: int) -> None:
        self._checker = checker
        self._living = living
        self._allowed_ms = allowed_ms
        self._silent_ms: dict[tuple[int, int, str], tuple[ConsumerGroup, int]] = {}

    def look(self, after_ms: int) -> None:
        """So long after the last look."""
        living = self._living()
        before, self._silent_ms = self._silent_ms, {}
        for machine, shard, registration in coordinators(self._checker):
            whole = len(registration.isr) == len(registration.replicas) and not machine.paused
            for group in shard.machine.state.groups.all():
                if isinstance(group, ConsumerGroup):
                    for member_id in sorted(set(group.members) - living):
                        key = (machine.incarnation, shard.leader_epoch, member_id)
                        seen, silent_ms = before.get(key, (group, 0))
                        silent_ms = silent_ms * (seen is group) + after_ms * whole
                        self._silent_ms[key] = group, silent_ms
                        where = f"{machine.host}: {member_id} in {group.group_id}, {silent_ms} ms"
                        check(silent_ms <= self._allowed_ms, SILENT, where)


def names(groups: Set[str]) -> str:
    """The first of these groups, their names shortened, for people."""
    return str([group[:20] for group in sorted(groups)[:5]])


def groups_told_of(content: bytes) -> tuple[set[str], int]:
    """The groups that the log has not ended, and its end offset."""
    found: set[tuple[int, str]] = set()
    end_offset = 0
    for position, header in headers(memoryview(content)):
        end_offset = header.next_offset
        for record in records(content[position : position + header.size_bytes], header):
            assert record.key is not None
            kind = KIND.unpack_from(record.key)[0]
            if kind in GROUP_KINDS:
                key: Any = decode_coordinator_key(PACKAGE, record.key)
                group = (kind, key.group if isinstance(key, GroupMetadataKey) else key.group_id)
                (found.discard if record.value is None else found.add)(group)
    return {group_id for _, group_id in found}, end_offset
