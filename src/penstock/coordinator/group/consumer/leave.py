"""Members that leave, and members that are fenced because a timer is due, such as their session timeout.

When all remaining members speak the classic protocol, the group becomes a classic one again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from penstock.coordinator.group import records_consumer as records
from penstock.coordinator.group.consumer import downgrade, timers
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.member import NOTHING, STATIC_LEAVING_EPOCH, ConsumerMember, MemberState
from penstock.coordinator.group.consumer.members import check_known, check_not_fenced, remove_member
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import CoordinatorRecord, Result
from penstock.errors import ErrorCode
from penstock.events import events
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

logger = events("coordinator.group")

R = TypeVar("R")


def leave(
    state: GroupState, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, now_ms: int
) -> Result[ConsumerGroupHeartbeatResponse]:
    """The last heartbeat of a member. Raises RequestError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    member_id, instance_id = request.member_id, request.instance_id
    response = ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)
    if instance_id is None:
        return fence(state, group, [group.member(member_id)], response, now_ms)
    member = check_known(group.static_member(instance_id), instance_id)
    check_not_fenced(member, member_id, instance_id)
    if request.member_epoch == STATIC_LEAVING_EPOCH:
        return Result(response, [records.current_assignment(group.group_id, leave_for_a_while(member))])
    return fence(state, group, [member], response, now_ms)


def leave_for_a_while(member: ConsumerMember) -> ConsumerMember:
    """A static member that leaves temporarily: it keeps its partitions, at an epoch its successor has never seen."""
    return member.with_(
        member_epoch=STATIC_LEAVING_EPOCH,
        pending_revocation=NOTHING,
        assigned={topic: dict.fromkeys(numbers, 0) for topic, numbers in member.assigned.items()},
    )


def fence(
    state: GroupState, group: ConsumerGroup, members: Sequence[ConsumerMember], response: R | None, now_ms: int
) -> Result[R]:
    """Removes members: what they had goes to the others."""
    if not members:
        return Result(response)
    if downgrade.may_downgrade(state, group, members):
        converted = downgrade.convert(state, group, response, now_ms, leaving=members)
        if converted is not None:
            return converted
    written: list[CoordinatorRecord] = []
    for member in members:
        logger.info("member left", group=group.group_id, member=member.member_id)
        written += remove_member(group.group_id, member.member_id)
    regexes = unused_regexes(group, members)
    written += (records.regular_expression_tombstone(group.group_id, regex) for regex in regexes)
    metadata_hash = state.topics.hash(group.topics_without(list(members), regexes), state.image)
    written.append(records.group_epoch(group.group_id, group.epoch().group + 1, metadata_hash))

    def appended(code: ErrorCode, at_ms: int) -> None:
        present = state.groups.find(group.group_id)
        for member in members:
            if present is None or not present.has_member(member.member_id):
                timers.cancel_all(state, group.group_id, member.member_id)

    return Result(response, written, appended)


def unused_regexes(group: ConsumerGroup, members: Sequence[ConsumerMember]) -> list[str]:
    """The regular expressions that no member uses once these members are gone."""
    counts: dict[str, int] = {}
    for member in members:
        if member.subscribed_topic_regex:
            counts[member.subscribed_topic_regex] = counts.get(member.subscribed_topic_regex, 0) + 1
    return [regex for regex, count in counts.items() if group.regex_members.get(regex) == count]


# Timers


def expired(state: GroupState, key: tuple[str, str, str], now_ms: int) -> Result[Any]:
    """A timer of a member is due: fences the member, if it still exists."""
    kind, group_id, member_id = key
    group = state.groups.find_of(ConsumerGroup, group_id)
    member = None if group is None else group.members.get(member_id)
    if group is None or member is None:
        return Result()
    if kind == timers.REBALANCE and (
        member.state is not MemberState.UNREVOKED_PARTITIONS or member.member_epoch == STATIC_LEAVING_EPOCH
    ):
        return Result()
    logger.info("member timed out", group=group_id, member=member_id, timer=kind)
    return fence(state, group, [member], None, now_ms)


def loaded(state: GroupState, now_ms: int) -> None:
    """Gives every member a whole session after the state was loaded."""
    for group in state.groups.all():
        if isinstance(group, ConsumerGroup):
            for _, member in group.members.items():
                timers.set_session(state, group.group_id, member, now_ms)
                if member.state is MemberState.UNREVOKED_PARTITIONS and not member.uses_classic_protocol:
                    timers.set_rebalance(state, group.group_id, member, now_ms)


EXPIRED = dict.fromkeys(timers.KINDS, expired)
