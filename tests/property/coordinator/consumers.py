"""Consumers of classic groups as clients write them, and what must hold of them whatever happens.

A consumer goes step by step: it joins, syncs (the leader shares the partitions out), fetches where to begin, consumes,
commits, and sends heartbeats. It does what clients do on each error. Time, steps, crashes and the coordinator's
failures are the test's.
"""

from __future__ import annotations

from typing import Any

from unit.coordinator.world import Answer, World, subscription

from penstock.coordinator.group.classic.group import ClassicGroup, State
from penstock.errors import ErrorCode
from penstock.protocol.messages.group.group_metadata_key import GroupMetadataKey
from penstock.protocol.messages.group.group_metadata_value import GroupMetadataValue
from penstock.protocol.messages.join_group_response import JoinGroupResponse
from penstock.protocol.messages.sync_group_response import SyncGroupResponse

PARTITIONS = 5
SESSION_MS = 10_000
REBALANCE_MS = 20_000
FATAL = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


class Consumer:
    """See the module's head.

    Attributes:
        alive: it has not crashed, left, or been fenced.
        positions: of the partitions that it believes to own; None while it owns none.
        owned_once: member id, generation and positions of when it came to own some the last time.
    """

    def __init__(self, world: World, instance_id: str | None, version: int, protocols: tuple[str, ...]) -> None:
        self.world = world
        self.instance_id = instance_id
        self.version = version
        self.protocols = protocols
        self.metadata = subscription(["t"])
        self.alive = True
        self.member_id = ""
        self.generation_id = -1
        self.positions: dict[int, int] | None = None
        self.owned_once: tuple[str, int, dict[int, int]] | None = None
        self._join: Answer[JoinGroupResponse] | None = None
        self._sync: Answer[SyncGroupResponse] | None = None
        self._fetch: Answer[Any] | None = None
        self._assigned: list[int] = []
        self.answers: list[Answer[Any]] = []

    def step(self) -> None:
        """Does the next thing, if it waits for nothing."""
        if not self.alive:
            return
        if self._join is not None:
            if self._join.done:
                self._joined(self._join)
        elif self._sync is not None:
            if self._sync.done:
                self._synced(self._sync)
        elif self._fetch is not None:
            if self._fetch.done:
                self._fetched(self._fetch)
        elif self.generation_id < 0:
            self.join()
        else:
            beat = self._keep(self.world.heartbeat(self.member_id, self.generation_id, instance_id=self.instance_id))
            self._heard(beat.code)

    def join(self) -> None:
        """Joins, or joins again."""
        self.positions = None
        self.generation_id = -1
        self._sync = self._fetch = None
        self._join = self._keep(
            self.world.join(
                member_id=self.member_id,
                instance_id=self.instance_id,
                protocols=[(name, self.metadata) for name in self.protocols],
                session_ms=SESSION_MS,
                rebalance_ms=REBALANCE_MS,
                version=self.version,
            )
        )

    def _keep(self, answer: Answer[Any]) -> Answer[Any]:
        self.answers = [each for each in self.answers if not each.done]
        self.answers.append(answer)
        return answer

    def _joined(self, answer: Answer[JoinGroupResponse]) -> None:
        self._join = None
        if answer.code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.value.member_id
        elif answer.code:
            self._heard(answer.code)
        else:
            joined = answer.value
            self.member_id, self.generation_id = joined.member_id, joined.generation_id
            leads = joined.leader == joined.member_id and not joined.skip_assignment
            assignment = {}
            if leads:
                names = [member.member_id for member in joined.members]
                assignment = {name: bytes(range(at, PARTITIONS, len(names))) for at, name in enumerate(names)}
            self._sync = self._keep(self.world.sync(joined, assignment, group_instance_id=self.instance_id))

    def _synced(self, answer: Answer[SyncGroupResponse]) -> None:
        self._sync = None
        if answer.code:
            self._heard(answer.code, again=True)
            return
        self._assigned = list(answer.value.assignment)
        assert is_stored(self.world, self.member_id, self.generation_id, answer.value.assignment)
        self._fetch = self._keep(self.world.fetch_offsets({"t": self._assigned}, require_stable=True))

    def _fetched(self, answer: Answer[Any]) -> None:
        self._fetch = None
        if answer.code:
            self._fetch = self._keep(self.world.fetch_offsets({"t": self._assigned}, require_stable=True))
            return
        (found,) = answer.value.topics
        self.positions = {each.partition_index: max(each.committed_offset, 0) for each in found.partitions}
        self.owned_once = (self.member_id, self.generation_id, dict.fromkeys(self.positions, 0))

    def _heard(self, code: ErrorCode, *, again: bool = False) -> None:
        if code in FATAL:
            self.alive = False
            self.positions = None
        elif code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
            self.generation_id = -1
            self.positions = None
        elif again or code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self.generation_id = -1
            self.positions = None

    def consume(self, records: int) -> None:
        """Is given some records of each partition that it owns."""
        if self.alive and self.positions is not None:
            self.positions = {partition: at + records for partition, at in self.positions.items()}

    def commit(self) -> Answer[Any] | None:
        """Commits its positions."""
        if not self.alive or not self.positions:
            return None
        return self._keep(
            self.world.commit_offsets(
                {("t", partition): at for partition, at in self.positions.items()},
                member_id=self.member_id,
                generation_id=self.generation_id,
                instance_id=self.instance_id,
            )
        )

    def leave(self) -> None:
        """Leaves; a static member's process only ends."""
        if self.alive and self.member_id and self.instance_id is None:
            self.world.leave(self.member_id)
        self.alive = False
        self.positions = None


def check_group(world: World) -> None:
    """The parts of the group's soft state fit together."""
    group = world.state.groups.find("g")
    if group is None:
        return
    assert isinstance(group, ClassicGroup)
    members = group.members
    assert group.awaiting_join == sum(member.awaits_join for member in members.values())
    assert group.static_members == {
        member.instance_id: member_id for member_id, member in members.items() if member.instance_id is not None
    }
    assert (group.leader_id in members) if members else group.leader_id is None
    assert set(group.pending_sync) <= set(members)
    assert not set(group.pending) & set(members)
    assert all(member_id == member.member_id for member_id, member in members.items())
    supporters: dict[str, int] = {}
    for member in members.values():
        for name in member.protocols:
            supporters[name] = supporters.get(name, 0) + 1
    assert group._supporters == supporters
    if group.state is State.EMPTY:
        assert not members
    if group.state is not State.COMPLETING_REBALANCE:
        assert not any(member.awaits_sync for member in members.values())
    if group.state is not State.PREPARING_REBALANCE:
        allowed = [member for member in members.values() if member.awaits_join and member.instance_id is not None]
        assert group.awaiting_join == len(allowed), "only a static member that comes back waits for the log"
    timers = world.state.timers
    for member_id, member in members.items():
        assert member.is_heard_of or ("classic-session", "g", member_id) in timers, f"{member} lives forever"
    assert len(world.runtime.timers) <= 2 * (len(members) + len(world.state.pending)) + 30
    if group.state is State.PREPARING_REBALANCE:
        assert ("classic-join", "g") in timers


def check_owners(world: World, consumers: list[Consumer]) -> None:
    """No partition has two owners among those whose commits the coordinator would take."""
    if not world.runtime.shards:
        return
    group = world.state.groups.find("g")
    if not isinstance(group, ClassicGroup):
        return
    owners: dict[int, str] = {}
    for consumer in consumers:
        member = group.members.get(consumer.member_id)
        if consumer.positions is None or member is None or consumer.generation_id != group.generation_id:
            continue
        if consumer.instance_id is not None and group.static_members.get(consumer.instance_id) != consumer.member_id:
            continue
        for partition in consumer.positions:
            assert partition not in owners, f"{partition} belongs to {owners[partition]} and {consumer.member_id}"
            owners[partition] = consumer.member_id
        if group.state is State.STABLE:
            assert bytes(consumer.positions) == member.assignment


def check_log(world: World) -> None:
    """Generations only grow in the log."""
    generation_id = -1
    for key, value, _ in world.written():
        if isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            if value is None:
                generation_id = -1
            else:
                assert value.generation >= generation_id
                generation_id = value.generation


def is_stored(world: World, member_id: str, generation_id: int, assignment: bytes) -> bool:
    """Whether the committed part of the log has the assignment."""
    for key, value, _ in reversed(world.written(committed=True)):
        if isinstance(key, GroupMetadataKey) and isinstance(value, GroupMetadataValue):
            for member in value.members:
                if (value.generation, member.member_id, member.assignment) == (generation_id, member_id, assignment):
                    return True
    return False
