"""The identity of a member: finds or creates the member that a request is from, and fences outdated ones."""

from __future__ import annotations

from penstock.coordinator.group import records_consumer as records
from penstock.coordinator.group.consumer.current import Owned
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.member import JOINING_EPOCH, STATIC_LEAVING_EPOCH, ConsumerMember, Epochs
from penstock.coordinator.runtime.result import CoordinatorRecord
from penstock.errors import ErrorCode, RequestError


def check_room(group: ConsumerGroup, member_id: str, max_size: int) -> None:
    """Raises RequestError GROUP_MAX_SIZE_REACHED when a new member is one too many."""
    if len(group.members) >= max_size and member_id not in group.members:
        raise RequestError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {max_size} members.",
        )


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Raises RequestError FENCED_MEMBER_EPOCH. A member may be one epoch late, if it missed the answer to its last
    heartbeat and has nothing that it should not have."""
    if epoch in (JOINING_EPOCH, member.member_epoch):
        return
    if epoch > member.member_epoch:
        comparison = "greater"
    elif epoch == member.previous_member_epoch and is_subset(owned, member.assigned):
        return
    else:
        comparison = "smaller"
    raise RequestError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {comparison} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def is_subset(owned: Owned | None, assigned: Epochs) -> bool:
    """Whether a member reports its partitions, and all of them are assigned to it."""
    return owned is not None and all(
        topic in assigned and all(number in assigned[topic] for number in numbers) for topic, numbers in owned
    )


def check_known(member: ConsumerMember | None, instance_id: str) -> ConsumerMember:
    """Raises RequestError UNKNOWN_MEMBER_ID when there is no static member with the instance id."""
    if member is None:
        raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    return member


def check_not_fenced(member: ConsumerMember, member_id: str, instance_id: str) -> None:
    """Raises RequestError FENCED_INSTANCE_ID when another member has taken the instance id since."""
    if member.member_id != member_id:
        raise RequestError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )


def check_released(member: ConsumerMember, member_id: str, instance_id: str) -> None:
    """Raises RequestError UNRELEASED_INSTANCE_ID while the member with the instance id has not left."""
    if member.member_epoch != STATIC_LEAVING_EPOCH:
        raise RequestError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {member.member_id} member.",
        )


def dynamic_member(
    group: ConsumerGroup, member_id: str, epoch: int, owned: Owned | None, *, create: bool, classic: bool = False
) -> ConsumerMember:
    """The member; a new one if `create` is set. Raises RequestError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH."""
    member = group.members.get(member_id)
    if member is None:
        if not create:
            raise group.unknown(member_id)
        member = ConsumerMember(member_id)
    if not classic:
        check_epoch(member, epoch, owned)
    return member


def static_member(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    instance_id: str,
    owned: Owned | None,
    *,
    written: list[CoordinatorRecord],
    create: bool,
    classic: bool = False,
) -> ConsumerMember:
    """The static member. With `create` a new one, which takes over everything from its predecessor, if there is one;
    that is added to `written`.

    Raises RequestError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, FENCED_MEMBER_EPOCH.
    """
    present = group.static_member(instance_id)
    if create:
        if present is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if not classic and not present.uses_classic_protocol:
            check_released(present, member_id, instance_id)
        member = present.with_(member_id=member_id, member_epoch=JOINING_EPOCH, previous_member_epoch=JOINING_EPOCH)
        replace_member(group, present, member, written)
        return member
    present = check_known(present, instance_id)
    check_not_fenced(present, member_id, instance_id)
    if not classic:
        check_epoch(present, epoch, owned)
    return present


def replace_member(
    group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember, written: list[CoordinatorRecord]
) -> None:
    """Puts a static member in the place of another."""
    group_id = group.group_id
    written += remove_member(group_id, old.member_id)
    written += (
        records.member_subscription(group_id, new),
        records.target_assignment(group_id, new.member_id, group.targets.get(old.member_id) or {}),
        records.current_assignment(group_id, new),
    )


def remove_member(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """The records that delete a member."""
    return [
        records.current_assignment_tombstone(group_id, member_id),
        records.target_assignment_tombstone(group_id, member_id),
        records.member_subscription_tombstone(group_id, member_id),
    ]
