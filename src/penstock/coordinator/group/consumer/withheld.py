"""What members should have by the last target assignment while the next one is written in parts.

The parts are in the group's `targets` at once, as they are in the log. Until the record of the new assignment epoch
follows, members are told what they should have had before; so nobody sees half of the one and half of the other. It is
soft state: whoever loads a log that ends between two parts knows the last one no more, and computes a new one.
"""

from __future__ import annotations

from penstock.coordinator.group.assignors.spec import Partitions
from penstock.coordinator.group.consumer.member import ConsumerMember


class Withheld:
    """See the module's head. `assignment_epoch`: of the last target assignment. It says nothing of any other."""

    __slots__ = ("_targets", "assignment_epoch")

    def __init__(self, assignment_epoch: int) -> None:
        self.assignment_epoch = assignment_epoch
        self._targets: dict[tuple[bool, str], Partitions] = {}

    def keep(self, member: ConsumerMember, target: Partitions) -> None:
        """The member's target in the log is about to be replaced. That may be more than once; the first time counts."""
        self._targets.setdefault(who(member), target)

    def find(self, member: ConsumerMember) -> Partitions | None:
        """The target that the member is shown; None if it was not replaced."""
        return self._targets.get(who(member))


def who(member: ConsumerMember) -> tuple[bool, str]:
    """A member, or all those who are one static member in turn."""
    return (False, member.member_id) if member.instance_id is None else (True, member.instance_id)
