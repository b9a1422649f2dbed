"""A member of a consumer group, as a value: every change makes a new one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple
from uuid import UUID

from penstock.coordinator.group.assignors.spec import topic_order

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2
"""A static member that leaves for a while: what it has stays its own until its session ends."""

Epochs = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic, each with the member epoch at which it was assigned. Never changed once made."""

NOTHING: Epochs = {}


class MemberState(IntEnum):
    """How far a member is with its reconciliation; the numbers are those of the records.

    STABLE: it has its target. UNREVOKED_PARTITIONS: it has to give up some first. UNRELEASED_PARTITIONS: it waits for
    others to give up theirs. UNKNOWN: a newer release wrote something else.
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> MemberState:
        return cls(number) if number in cls._value2member_map_ else cls.UNKNOWN


class ClassicProtocol(NamedTuple):
    """A protocol that a classic member supports, with its subscription in that protocol's form."""

    name: str
    metadata: bytes


class ClassicMetadata(NamedTuple):
    """Details of a member that uses the classic protocol. Its first protocol is the one used in answers."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


class ConsumerMember(NamedTuple):
    """See the module's head.

    Attributes:
        member_epoch: STATIC_LEAVING_EPOCH for a static member that is away.
        previous_member_epoch: what the member may still believe when it missed the last answer.
        subscribed_topic_regex: empty when it has none.
        server_assignor: the assignor that it asks for; None leaves it to the others.
        assigned: what it has, and may have. pending_revocation: what it has to give up.
        classic: of a member that speaks the classic protocol.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    server_assignor: str | None = None
    assigned: Epochs = NOTHING
    pending_revocation: Epochs = NOTHING
    classic: ClassicMetadata | None = None

    def with_(self, **changes: Any) -> ConsumerMember:
        """A copy with some attributes changed."""
        return self._replace(**changes)

    def at_epoch(self, member_epoch: int, **changes: Any) -> ConsumerMember:
        """A copy that has come to an epoch."""
        return self._replace(member_epoch=member_epoch, previous_member_epoch=self.member_epoch, **changes)

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member has reached its target of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def assignment_epoch(self, topic_id: UUID, partition: int) -> int | None:
        """The epoch at which it got a partition that it has, or still has to give up; None if it is not its own."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch


def epochs_in_order(partitions: Mapping[UUID, Mapping[int, int]]) -> Epochs:
    """The same with topics and numbers ascending, and without empty topics."""
    return {
        topic: dict(sorted(partitions[topic].items()))
        for topic in sorted(partitions, key=topic_order)
        if partitions[topic]
    }
