"""The next step of a member towards its target assignment (KIP-848, section "Reconciliation").

A member first gives up what it should not have any more and says so in a heartbeat (UNREVOKED_PARTITIONS). Only then it
comes to the new epoch and gets what it should have, less what others have not given up (UNRELEASED_PARTITIONS). When
that is all of it the member is STABLE.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from uuid import UUID

from penstock.coordinator.group.assignors.spec import Partitions
from penstock.coordinator.group.consumer.member import NOTHING, ConsumerMember, Epochs, MemberState, epochs_in_order
from penstock.errors import ErrorCode, RequestError

Owned = Sequence[tuple[UUID, Sequence[int]]]
"""The partitions that a member says it has."""


@dataclass(slots=True)
class Reconciliation:
    """One step of one member towards its target assignment.

    Args:
        assignment_epoch, target: where it should come to.
        topic_ids: what it subscribes to, of the topics that exist; nothing else is assigned, whatever the target says.
        subscribes_to_nothing: not even to topics that do not exist.
        is_owned: whether anybody has a partition.
        owned: what the member says it has; None when it does not say.
    """

    member: ConsumerMember
    assignment_epoch: int
    target: Partitions
    _: KW_ONLY
    topic_ids: Collection[UUID]
    subscribes_to_nothing: bool
    is_owned: Callable[[UUID, int], bool]
    owned: Owned | None

    def step(self, *, subscription_changed: bool) -> ConsumerMember:
        """The member after the step, or the same one when it cannot go on."""
        member = self.member
        match member.state:
            case MemberState.STABLE:
                if member.member_epoch == self.assignment_epoch:
                    return self.drop_unsubscribed() if subscription_changed else member
            case MemberState.UNREVOKED_PARTITIONS:
                if self.still_has(member.pending_revocation):
                    return self.drop_unsubscribed() if subscription_changed else member
            case MemberState.UNKNOWN:
                if self.owned is None or self.owned:
                    raise RequestError(
                        ErrorCode.FENCED_MEMBER_EPOCH,
                        "The consumer group member is in a unknown state. The member must abandon all its partitions "
                        "and rejoin.",
                    )
                return self.next_assignment(self.assignment_epoch)
        return self.next_assignment(member.member_epoch)

    def still_has(self, partitions: Epochs) -> bool:
        """Whether the member reports owning some of these. A member that reports nothing may own them all."""
        if self.owned is None:
            return True
        return any(number in partitions.get(topic, ()) for topic, numbers in self.owned for number in numbers)

    def drop_unsubscribed(self) -> ConsumerMember:
        """Takes from the member at once what it does not subscribe to any more; its target will follow."""
        member = self.member
        kept, revoked = NOTHING, member.assigned
        if not self.subscribes_to_nothing or member.pending_revocation:
            kept = {topic: epochs for topic, epochs in member.assigned.items() if topic in self.topic_ids}
            if len(kept) == len(member.assigned):
                return member
            merged = {topic: dict(epochs) for topic, epochs in member.pending_revocation.items()}
            for topic, epochs in member.assigned.items():
                if topic not in kept:
                    merged.setdefault(topic, {}).update(epochs)
            revoked = epochs_in_order(merged)
        if revoked and self.still_has(revoked):
            return member.at_epoch(
                member.member_epoch, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=revoked
            )
        return member.at_epoch(member.member_epoch, assigned=kept)

    def next_assignment(self, member_epoch: int) -> ConsumerMember:
        """Compares what the member has with its target."""
        assigned = self.member.assigned
        kept: dict[UUID, dict[int, int]] = {}
        revoked: dict[UUID, dict[int, int]] = {}
        gained: dict[UUID, list[int]] = {}
        waits = False
        for topic in dict.fromkeys((*self.target, *assigned)):
            wanted = frozenset(self.target.get(topic, ())) if topic in self.topic_ids else frozenset()
            has = assigned.get(topic, {})
            kept[topic] = {number: epoch for number, epoch in has.items() if number in wanted}
            revoked[topic] = {number: epoch for number, epoch in has.items() if number not in wanted}
            missing = wanted - has.keys()
            gained[topic] = [number for number in missing if self.is_free(topic, number)]
            waits = waits or len(gained[topic]) < len(missing)
        must_revoke = epochs_in_order(revoked)
        if must_revoke and self.still_has(must_revoke):
            return self.member.at_epoch(
                member_epoch,
                state=MemberState.UNREVOKED_PARTITIONS,
                assigned=epochs_in_order(kept),
                pending_revocation=must_revoke,
            )
        for topic, numbers in gained.items():
            kept[topic].update(dict.fromkeys(numbers, self.assignment_epoch))
        return self.member.at_epoch(
            self.assignment_epoch,
            state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
            assigned=same_or_new(assigned, epochs_in_order(kept)),
            pending_revocation=NOTHING,
        )

    def is_free(self, topic: UUID, number: int) -> bool:
        """Nobody has it, or only this member, which has just given it up."""
        return not self.is_owned(topic, number) or number in self.member.pending_revocation.get(topic, ())


def same_or_new(old: Mapping[UUID, Mapping[int, int]], new: Epochs) -> Epochs:
    """The old one if they are equal: one copy less to keep."""
    return old if old == new else new
