"""A classic group: its members, what they can agree on, and how far the present generation has come.

This is soft state; the operations of this package change it. The methods keep its parts consistent: how many members
wait to join, how many support each protocol, who is a static member, who leads.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from penstock.coordinator.group import records
from penstock.coordinator.group.base import NO_MEMBER, Group, GroupType, JoinReply, PartitionCheck
from penstock.coordinator.group.classic.member import ClassicMember, Protocols
from penstock.coordinator.group.classic.subscription import subscribed_topics
from penstock.coordinator.runtime.result import CoordinatorRecord
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.group.group_metadata_value import GroupMetadataValue
from penstock.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from penstock.protocol.messages.list_groups_response import ListedGroup

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of consumers, whose metadata we can read."""
NO_TIMESTAMP = -1


class State(Enum):
    """See the package's head. The values are what tools show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


BEFORE: Final = {
    State.EMPTY: (State.PREPARING_REBALANCE,),
    State.PREPARING_REBALANCE: (State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY),
    State.COMPLETING_REBALANCE: (State.PREPARING_REBALANCE,),
    State.STABLE: (State.COMPLETING_REBALANCE,),
    State.DEAD: tuple(State),
}
"""From which states each can be reached."""


class ClassicGroup(Group):
    """See the module's head.

    Attributes:
        state, previous_state, state_timestamp_ms: the latter None when the log does not tell.
        protocol_type, protocol_name: what the members agree on; None without members.
        generation_id: one more with each rebalance that ends.
        leader_id: the member that assigns.
        members: by member id. static_members: instance id -> member id.
        pending: member ids that were given out (KIP-394) and have not joined yet.
        pending_sync: members that have not synced in this generation.
        topics: what the members subscribe to; None when that is not known.
        was_consumer_group: it has only just become a classic one; nobody may have what a member had that left for that.
        new_member_added: somebody has joined while an initial rebalance is delayed.
        initial_delay_ms, initial_remaining_ms: of the initial rebalance that is being delayed; None: none is.
    """

    __slots__ = (
        "_awaiting_join", "_supporters", "generation_id", "group_id", "initial_delay_ms", "initial_remaining_ms",
        "leader_id", "members", "new_member_added", "pending", "pending_sync", "previous_state", "protocol_name",
        "protocol_type", "state", "state_timestamp_ms", "static_members", "topics", "was_consumer_group",
    )  # fmt: skip

    TYPE = GroupType.CLASSIC

    def __init__(self, group_id: str, state: State = State.EMPTY, *, wall_ms: int | None = None) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = State.DEAD
        self.state_timestamp_ms = wall_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending: dict[str, None] = {}
        self.pending_sync: dict[str, None] = {}
        self.topics: frozenset[str] | None = None
        self.was_consumer_group = False
        self.new_member_added = False
        self.initial_delay_ms = 0
        self.initial_remaining_ms: int | None = None
        self._awaiting_join = 0
        self._supporters: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"ClassicGroup({self.group_id!r}, {self.state.value}, generation {self.generation_id})"

    # Members

    def add(self, member: ClassicMember, reply: JoinReply | None = None) -> None:
        """Adds a member, whose join waits for `reply` to be called."""
        assert member.member_id not in self.members, f"{member!r} is in {self!r} already"
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, f"{member!r} is in {self!r} already"
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        assert self.protocol_type == member.protocol_type, f"{member!r} has another protocol type than {self!r}"
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        self.await_join(member, reply)
        self.pending.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Removes a member or a pending member id. Who waits for its join has been answered before."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            self.await_join(member, None)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending.pop(member_id, None)
        self.pending_sync.pop(member_id, None)

    def update(
        self,
        member: ClassicMember,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        reply: JoinReply | None,
    ) -> None:
        """Applies what a member sends when it joins again."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self.await_join(member, reply)

    def rename(self, member: ClassicMember, member_id: str) -> None:
        """Gives a member another id; everything else about it stays."""
        old_id = member.member_id
        members = list(self.members.values())
        member.member_id = member_id
        self.members = {each.member_id: each for each in members}
        assert member.instance_id is not None
        self.static_members[member.instance_id] = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id
        if old_id in self.pending_sync:
            del self.pending_sync[old_id]

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Raises RequestError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another has the instance's place."""
        if instance_id is not None:
            present = self.static_members.get(instance_id)
            if present is None:
                raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
            if present != member_id:
                raise RequestError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Joins that wait

    @property
    def awaiting_join(self) -> int:
        """How many members wait for the answer to a join."""
        return self._awaiting_join

    @property
    def all_joined(self) -> bool:
        """Whether all members wait for the rebalance to go on."""
        return self._awaiting_join == len(self.members) and not self.pending

    def await_join(self, member: ClassicMember, reply: JoinReply | None) -> None:
        """Sets or clears the receiver of the answer to a member's join. An earlier receiver gets no answer."""
        self._awaiting_join += (reply is not None) - member.awaits_join
        member.join_reply = reply

    def answer_join(self, member: ClassicMember, response: JoinGroupResponse, now_ms: int) -> bool:
        """Answers a waiting join. Returns whether there was one."""
        reply = member.join_reply
        self.await_join(member, None)
        if reply is None:
            return False
        reply(response, now_ms)
        return True

    def elect_leader(self) -> bool:
        """Another member leads if the leader has not joined again. Returns whether there is one that has joined."""
        leader = self.members.get(self.leader_id or NO_MEMBER)
        if leader is not None and leader.awaits_join:
            return True
        joined = next((member for member in self.members.values() if member.awaits_join), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    # Protocols

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member with these protocols can join: all others support one of them, too."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        if self.protocol_type != protocol_type:
            return False
        return any(self._supporters.get(name, 0) == len(self.members) for name in protocols)

    def select_protocol(self) -> str:
        """The protocol that all support and most prefer; of equals the one voted for first."""
        assert self.members, f"{self!r} has nobody to vote"
        candidates = {name for name, count in self._supporters.items() if count == len(self.members)}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def _count(self, member: ClassicMember, by: int) -> None:
        for name in member.protocols:
            count = self._supporters.get(name, 0) + by
            if count:
                self._supporters[name] = count
            else:
                del self._supporters[name]

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL

    def learn_topics(self) -> None:
        """Reads what the members subscribe to from their metadata, if these are consumers."""
        if not self.uses_consumer_protocol:
            self.topics = None
        elif not self.members:
            self.topics = frozenset()
        elif self.protocol_name is None:
            self.topics = None
        else:
            self.topics = subscribed_topics(member.protocols[self.protocol_name] for member in self.members.values())

    # States

    @property
    def can_rebalance(self) -> bool:
        return self.state in BEFORE[State.PREPARING_REBALANCE]

    def move(self, state: State, wall_ms: int) -> None:
        """Enters another state; the time is stored."""
        assert self.state in BEFORE[state], f"{self!r} cannot become {state.value}"
        self.previous_state, self.state = self.state, state
        self.was_consumer_group = False
        self.state_timestamp_ms = wall_ms

    def next_generation(self, wall_ms: int) -> None:
        """The present members make the next generation; without any the group is empty."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.learn_topics()
        self.move(State.COMPLETING_REBALANCE if self.members else State.EMPTY, wall_ms)
        self.pending_sync.clear()

    def joined(self, member: ClassicMember) -> JoinGroupResponse:
        """The JoinGroup response for a member's generation; the leader's response lists all members."""
        is_leader = member.member_id == self.leader_id
        return JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader_id or "",
            member_id=member.member_id,
            members=self.joined_members() if is_leader else [],
        )

    def joined_members(self) -> list[JoinGroupResponseMember]:
        """The members, as the leader is told."""
        assert self.protocol_name is not None
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.protocols[self.protocol_name],
            )
            for member in self.members.values()
        ]

    def record(self, assignment: dict[str, bytes] | None = None) -> CoordinatorRecord:
        """The generation as it is stored; the assignment by member id, or the present one."""
        name = self.protocol_name
        assert name is not None or not self.members
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=name,
            leader=self.leader_id,
            current_state_timestamp=self._stored_timestamp_ms,
            members=[
                member.record(name or "", member.assignment if assignment is None else assignment[member.member_id])
                for member in self.members.values()
            ],
        )
        return records.group_metadata(self.group_id, value)

    def new_record(self) -> CoordinatorRecord:
        """A group that has just been made as it is stored, whatever has joined it by now."""
        value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=self._stored_timestamp_ms)
        return records.group_metadata(self.group_id, value)

    @property
    def _stored_timestamp_ms(self) -> int:
        return NO_TIMESTAMP if self.state_timestamp_ms is None else self.state_timestamp_ms

    # As a group of any kind

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    def state_name(self, committed_offset: int | None = None) -> str:
        return self.state.value

    def listed(self, committed_offset: int) -> ListedGroup:
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            group_state=self.state.value,
            group_type=self.TYPE.value,
        )

    def has_member(self, member_id: str) -> bool:
        return member_id in self.members

    def is_subscribed(self, topic: str) -> bool:
        return self.uses_consumer_protocol if self.topics is None else topic in self.topics

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        api_version: int,
        *,
        transactional: bool,
    ) -> PartitionCheck | None:
        if self.state is State.DEAD:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation_or_epoch < 0 and self.state is State.EMPTY:
            return None  # a tool, or a consumer that assigns its partitions itself
        if generation_or_epoch >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if generation_or_epoch != self.generation_id:
                raise RequestError(ErrorCode.ILLEGAL_GENERATION)
        elif not transactional and self.state is not State.EMPTY:
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not transactional and self.state is State.COMPLETING_REBALANCE:
            raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS)
        return None

    def check_fetch(self, member_id: str | None, member_epoch: int, committed_offset: int | None) -> None:
        if self.state is State.DEAD:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is in dead state.")

    def check_delete_offsets(self) -> None:
        if self.state is State.DEAD:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is in dead state.")
        if not self.is_empty and not self.uses_consumer_protocol:
            raise RequestError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        if self.state is State.DEAD:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is in dead state.")
        super().check_delete()

    def tombstones(self) -> list[CoordinatorRecord]:
        return [records.group_metadata_tombstone(self.group_id)]

    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        if self.protocol_type is None:
            return commit_timestamp_ms  # the offsets of consumers without a group
        if self.state is State.EMPTY:
            return commit_timestamp_ms if self.state_timestamp_ms is None else self.state_timestamp_ms
        if self.state is State.STABLE and self.uses_consumer_protocol and self.topics is not None:
            return commit_timestamp_ms  # only of topics that nobody subscribes to any more
        return None
