"""ConsumerGroupHeartbeat (key 68), versions 0-1: the one request of the consumer group protocol (KIP-848).

Member epoch 0 joins, -1 leaves, -2 leaves for a while (static members). The client makes its member id itself from
version 1; before, an empty one is answered with a new one. A subscription by regular expression comes with version 1.

The answer says when to come again. Apache Kafka always says `group.consumer.heartbeat.interval.ms`, so a rebalance
takes several times that. Here it is a short time, `penstock.group.consumer.reconcile.heartbeat.interval.ms`, while the
member is not where it should be, or its group is about to settle; see `interval_ms`. On a broker with few members the
stable ones come sooner, too, so that they hear soon of who joins and leaves; see `stable_interval_ms`.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.consumer import members, regexes, target, timers, upgrade
from penstock.coordinator.group.consumer.current import Owned
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.leave import leave
from penstock.coordinator.group.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
)
from penstock.coordinator.group.context import Context
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.limits import (
    GROUP_SETTLING_HEARTBEATS_PER_SECOND,
    GROUP_SETTLING_MS,
    GROUP_STABLE_HEARTBEAT_MIN_MS,
)
from penstock.coordinator.runtime.result import CoordinatorRecord, Result
from penstock.errors import ErrorCode, RequestError
from penstock.events import events
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

OWN_MEMBER_ID_FROM = 1

logger = events("coordinator.group")


class Stays(NamedTuple):
    """What a member is answered that is as it was."""

    member_id: str
    member_epoch: int
    interval_ms: int


def consumer_group_heartbeat(
    state: GroupState, context: Context, request: ConsumerGroupHeartbeatRequest, now_ms: int
) -> Result[ConsumerGroupHeartbeatResponse]:
    """See the module's head.

    Raises RequestError: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID,
    FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED,
    INVALID_REGULAR_EXPRESSION.
    """
    stays = steady(state, context, request, now_ms)
    if stays is None:
        return full_heartbeat(state, context, request, now_ms)
    return Result(
        ConsumerGroupHeartbeatResponse(
            member_id=stays.member_id, member_epoch=stays.member_epoch, heartbeat_interval_ms=stays.interval_ms
        )
    )


def steady(state: GroupState, context: Context, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> Stays | None:
    """Takes the heartbeat of a member that has its target, and returns what it is to be answered: the same as
    `full_heartbeat` would, at less cost. None for any other: then nothing has changed.
    """
    group = state.groups.find(request.group_id)
    if not isinstance(group, ConsumerGroup):
        return None
    settled = settled_member(state, group, context, request, now_ms)
    member = settled or waiting_member(state, group, context, request, now_ms)
    if member is None:
        return None
    times = state.settings_of(group.group_id)
    state.timers.set((timers.SESSION, group.group_id, member.member_id), now_ms + times.consumer_session_timeout_ms)
    if settled is None and is_settling(group):
        stable_ms = times.consumer_heartbeat_interval_ms
        interval = soon_interval_ms(state, context, len(group.members), stable_ms, now_ms)
    else:
        interval = stable_interval_ms(state, times.consumer_heartbeat_interval_ms)
    return Stays(member.member_id, member.member_epoch, interval)


def settled_member(
    state: GroupState, group: ConsumerGroup, context: Context, request: ConsumerGroupHeartbeatRequest, now_ms: int
) -> ConsumerMember | None:
    """The member, if its heartbeat reports no change and nothing is under way in its group, as is almost always so."""
    member = group.members.get(request.member_id)
    if member is None or request.member_epoch != member.member_epoch:
        return None
    epoch = group.epoch()
    settled = (
        epoch.group == epoch.assignment
        and member.is_reconciled_to(epoch.assignment)
        and not state.wall.within(epoch.assignment_timestamp_ms, GROUP_SETTLING_MS, now_ms)
        and not group.topics_may_have_changed
        and not group.regex_members
        and says_nothing(request, context, member)
    )
    return member if settled else None


def waiting_member(
    state: GroupState, group: ConsumerGroup, context: Context, request: ConsumerGroupHeartbeatRequest, now_ms: int
) -> ConsumerMember | None:
    """The member, if its heartbeat reports no change and it has its target, while its group has just been given that,
    or it is too early for the next.
    """
    member = group.members.get(request.member_id)
    if member is None or request.member_epoch != member.member_epoch:
        return None
    epoch = group.epoch()
    waits = (
        member.is_reconciled_to(epoch.assignment)
        and (epoch.group == epoch.assignment or target.is_too_early(state, group, now_ms))
        and not group.topics_may_have_changed
        and not group.regex_members
        and says_nothing(request, context, member)
    )
    return member if waits else None


def is_settling(group: ConsumerGroup) -> bool:
    """Whether a group is about to be assigned anew, or some of its members do not have their targets yet."""
    epoch = group.epoch()
    return epoch.group > epoch.assignment or group.stable_count(epoch.assignment) < len(group.members)


def full_heartbeat(
    state: GroupState, context: Context, request: ConsumerGroupHeartbeatRequest, now_ms: int
) -> Result[ConsumerGroupHeartbeatResponse]:
    """A heartbeat that may change something."""
    check_request(request, context.api_version, state.settings.broker().group_consumer_assignors)
    if request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH):
        return leave(state, find_group(state, request.group_id), request, now_ms)
    written: list[CoordinatorRecord] = []
    joins = request.member_epoch == JOINING_EPOCH
    classic = state.groups.find(request.group_id) if joins else None
    if joins:
        group = group_to_join(state, request.group_id, written)
    else:
        group = find_group(state, request.group_id, missing="Consumer group {} not found.")
    members.check_room(group, request.member_id, state.settings.broker().group_consumer_max_size)
    owned = owned_of(request)
    old = member_of(group, request, request.member_id or str(state.new_id()), owned, written)
    change = target.Change(state, group, old, updated(old, context, request), written, now_ms, context.sees)
    new, assignment_epoch, group_epoch = advance(change, owned)
    if isinstance(classic, ClassicGroup) and classic.members:
        upgrade.hand_over(state, classic, group, now_ms)
    timers.set_session(state, request.group_id, new, now_ms)
    if joins:
        origin = {"client": new.client_id, "host": new.client_host.lstrip("/")}
        logger.info("member joined", group=request.group_id, member=new.member_id, **origin)
    response = ConsumerGroupHeartbeatResponse(
        member_id=new.member_id,
        member_epoch=new.member_epoch,
        heartbeat_interval_ms=interval_ms(change, context, new, assignment_epoch, group_epoch),
    )
    if joins or is_full(request) or new.assigned != old.assigned:
        response.assignment = assignment_of(new)
    return Result(response, written)


def check_request(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: tuple[str, ...]) -> None:
    """Raises RequestError: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR."""
    epoch = request.member_epoch
    if api_version >= OWN_MEMBER_ID_FROM or epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH:
        check_text(request.member_id, "MemberId can't be empty.")
    check_text(request.group_id, "GroupId can't be empty.")
    check_text(request.instance_id, "InstanceId can't be empty.")
    check_text(request.rack_id, "RackId can't be empty.")
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise RequestError(ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise RequestError(ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            )
    elif epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        raise RequestError(ErrorCode.INVALID_REQUEST, "InstanceId can't be null.")
    elif epoch < STATIC_LEAVING_EPOCH:
        raise RequestError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise RequestError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def check_text(value: str | None, message: str) -> None:
    """Raises RequestError INVALID_REQUEST for a text of nothing but blanks."""
    if value is not None and not value.strip():
        raise RequestError(ErrorCode.INVALID_REQUEST, message)


# The group and the member


def find_group(state: GroupState, group_id: str, missing: str = "Group {} not found.") -> ConsumerGroup:
    """The consumer group. Raises RequestError GROUP_ID_NOT_FOUND."""
    if group_id not in state.groups:
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, missing.format(group_id))
    return state.groups.get_of(ConsumerGroup, group_id)


def group_to_join(state: GroupState, group_id: str, written: list[CoordinatorRecord]) -> ConsumerGroup:
    """The group to join: an existing one, a new one, or a converted classic one. The latter two enter the state later.

    Raises RequestError GROUP_ID_NOT_FOUND when a classic group cannot become a consumer group, or one of another kind
    has members.
    """
    group = state.groups.find(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if isinstance(group, ClassicGroup) and not group.is_empty:
        return upgrade.convert(state, group, written)
    if group is not None:
        if not group.is_empty:
            return state.groups.get_of(ConsumerGroup, group_id)
        written += group.tombstones()
    return ConsumerGroup(state.timeline, group_id)


def member_of(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    owned: Owned | None,
    written: list[CoordinatorRecord],
) -> ConsumerMember:
    """The member that the request is from, a new one if it joins."""
    joins = request.member_epoch == JOINING_EPOCH
    if request.instance_id is None:
        return members.dynamic_member(group, member_id, request.member_epoch, owned, create=joins)
    return members.static_member(
        group, member_id, request.member_epoch, request.instance_id, owned, written=written, create=joins
    )


def updated(member: ConsumerMember, context: Context, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    """The member with the changes of the request; the same object if there are none."""
    if says_nothing(request, context, member):
        return member
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return member.with_(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        subscribed_topic_names=member.subscribed_topic_names if names is None else frozenset(names),
        subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
        client_id=context.client_id,
        client_host=context.client_host,
        classic=None,
    )


def says_nothing(request: ConsumerGroupHeartbeatRequest, context: Context, member: ConsumerMember) -> bool:
    """Whether the request only reports that the member is alive, as almost all do."""
    return (
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == -1
        and request.server_assignor is None
        and request.rack_id is None
        and member.classic is None
        and (request.instance_id is None or request.instance_id == member.instance_id)
        and context.client_id == member.client_id
        and context.client_host == member.client_host
    )


def owned_of(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    """The partitions that the member reports owning."""
    partitions = request.topic_partitions
    return None if partitions is None else [(each.topic_id, each.partitions) for each in partitions]


# What comes of it


def advance(change: target.Change, owned: Owned | None) -> tuple[ConsumerMember, int, int]:
    """Advances group epoch, target assignment and member.

    Returns the member, the assignment epoch and the group epoch as they will be.
    """
    names_changed = target.subscription_changed(change)
    regex = regexes.update(change)
    group_epoch = change.group.epoch().group
    is_first = not group_epoch  # no member is at epoch 0: that is the one of who joins
    bump = is_first or names_changed or regex is regexes.RegexUpdate.RESOLVED
    if bump or change.group.topics_may_have_changed:
        group_epoch = target.raise_group_epoch(change, bump=bump)
    new_target = target.update_target(change, group_epoch)
    member = target.reconcile(change, new_target, owned, subscription_changed=names_changed or regex.is_updated)
    return member, new_target.epoch, group_epoch


def interval_ms(
    change: target.Change, context: Context, new: ConsumerMember, assignment_epoch: int, group_epoch: int
) -> int:
    """When the member, as it is `new` after all, should send its next heartbeat.

    Soon, if it does not have its target yet, or an assignment is due. Soon for a while, too, if others do not: a group
    that has changed is likely to change again. The members of a large group do not all come soon at once.
    """
    state, group = change.state, change.group
    stable_ms = state.settings_of(group.group_id).consumer_heartbeat_interval_ms
    if not new.is_reconciled_to(assignment_epoch):
        return soon_interval_ms(state, context, len(group.members), stable_ms, change.now_ms)
    epoch = group.epoch()
    is_new = assignment_epoch != epoch.assignment
    is_recent = is_new or state.wall.within(epoch.assignment_timestamp_ms, GROUP_SETTLING_MS, change.now_ms)
    if group_epoch > assignment_epoch or (is_recent and others_reconcile(group, new, assignment_epoch)):
        return soon_interval_ms(state, context, len(group.members), stable_ms, change.now_ms)
    return stable_interval_ms(state, stable_ms)


def soon_interval_ms(state: GroupState, context: Context, members: int, configured_ms: int, now_ms: int) -> int:
    """When a member of a group that changes should send its next heartbeat; of many members each comes more seldom, and
    so does each of many groups that change at the same time (`pace`).
    """
    soon_ms = state.settings.broker().penstock_group_consumer_reconcile_heartbeat_interval_ms
    soon_ms = max(soon_ms, members * 1000 // GROUP_SETTLING_HEARTBEATS_PER_SECOND)
    if soon_ms >= configured_ms:
        return configured_ms
    return min(state.pace.interval_ms(soon_ms, now_ms, context.principal), configured_ms)


def stable_interval_ms(state: GroupState, configured_ms: int) -> int:
    """When a member that waits for nothing should send its next heartbeat.

    As configured, or sooner while all members of this broker together then do not send more heartbeats than allowed.
    """
    heartbeats_per_second = state.settings.broker().penstock_group_consumer_stable_heartbeats_per_second
    if not heartbeats_per_second:
        return configured_ms
    share_ms = state.timers.of_all_shards * 1000 // heartbeats_per_second
    return min(max(share_ms, GROUP_STABLE_HEARTBEAT_MIN_MS), configured_ms)


def others_reconcile(group: ConsumerGroup, member: ConsumerMember, assignment_epoch: int) -> bool:
    """Whether a member other than this one does not have its target of this epoch."""
    present = group.members.get(member.member_id) or group.static_member(member.instance_id)
    others = len(group.members) - (present is not None)
    stable = group.stable_count(assignment_epoch)
    if present is not None and present.is_reconciled_to(assignment_epoch):
        stable -= 1
    return stable < others


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request is complete, as after a missed answer; the answer is complete then, too."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def assignment_of(member: ConsumerMember) -> Assignment:
    """The member's present assignment."""
    return Assignment(
        topic_partitions=[topic_partitions(topic, list(epochs)) for topic, epochs in member.assigned.items()]
    )


def topic_partitions(topic_id: UUID, partitions: list[int]) -> TopicPartitions:
    return TopicPartitions(topic_id=topic_id, partitions=partitions)
