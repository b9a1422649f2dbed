"""Members of a consumer group that speak the classic protocol, while the group migrates (KIP-848, "Online Migration").

JoinGroup does what a heartbeat does: it updates the member and brings it a step nearer to its target; what the member
has comes with its subscription. The generation is the member epoch. SyncGroup tells what the member has. A heartbeat
only answers REBALANCE_IN_PROGRESS when there is something to come for.
"""

from __future__ import annotations

from penstock.coordinator.group.base import NO_MEMBER, JoinReply, SyncReply
from penstock.coordinator.group.classic.request import Join
from penstock.coordinator.group.consumer import downgrade, members, regexes, target, target_runs, timers
from penstock.coordinator.group.consumer.current import Owned
from penstock.coordinator.group.consumer.embedded import encode_assignment, owned_by
from penstock.coordinator.group.consumer.group import PROTOCOL_TYPE, ConsumerGroup
from penstock.coordinator.group.consumer.leave import fence
from penstock.coordinator.group.consumer.member import (
    LEAVING_EPOCH,
    ClassicMetadata,
    ClassicProtocol,
    ConsumerMember,
    MemberState,
)
from penstock.coordinator.group.context import Context
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import KEPT, CoordinatorRecord, Result
from penstock.errors import ErrorCode, ProtocolError, RequestError
from penstock.protocol.consumer_protocol import decode_subscription, version_of
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse
from penstock.protocol.messages.join_group_request import JoinGroupRequest
from penstock.protocol.messages.join_group_response import JoinGroupResponse
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from penstock.protocol.messages.sync_group_request import SyncGroupRequest
from penstock.protocol.messages.sync_group_response import SyncGroupResponse

MEMBER_ID_REQUIRED_FROM = 4
DISABLED = "disabled"
"""The migration policy under which classic members do not join, not even again."""


# JoinGroup


def join(state: GroupState, group: ConsumerGroup, join: Join, now_ms: int) -> Result[None]:
    """JoinGroup of a classic member to a consumer group that is not empty.

    Raises RequestError: INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    context, request, reply = join.context, join.request, join.reply
    member_id = request.member_id or str(state.new_id())
    check_join(state, group, member_id, request)
    is_static = request.group_instance_id is not None
    if request.member_id == NO_MEMBER and not is_static and context.api_version >= MEMBER_ID_REQUIRED_FROM:
        reply(JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED), now_ms)
        return Result()
    subscription = subscription_of(request)
    written: list[CoordinatorRecord] = []
    old = member_of(group, member_id, request, written)
    present = group.static_member(request.group_instance_id)
    new = joined(old, context, request, subscription)
    change = target.Change(state, group, old, new, written, now_ms, context.sees)
    subscribes_anew = target.subscription_changed(change)
    subscribes_anew = regexes.update(change).is_updated or subscribes_anew
    group_epoch = group.epoch().group
    if subscribes_anew or group.topics_may_have_changed:
        group_epoch = target.raise_group_epoch(change, bump=subscribes_anew)
    owned = owned_by(subscription, state.image)
    if present is not None and downgrade.may_downgrade_by(state, group, present):
        result = join_and_downgrade(change, owned, group_epoch, subscribes_anew, reply)
        if result is not None:
            return result
    new_target = target.update_target(change, group_epoch)
    new = target.reconcile(change, new_target, owned, subscription_changed=subscribes_anew)

    def appended(code: ErrorCode, at_ms: int) -> None:
        if code in KEPT:
            timers.set_session(state, group.group_id, new, at_ms)
            timers.set_sync(state, group.group_id, new, at_ms)
        if not code:
            reply(response_to(new), at_ms)

    return Result(records=written, appended=appended)


def join_and_downgrade(
    change: target.Change, owned: Owned, group_epoch: int, subscribes_anew: bool, reply: JoinReply
) -> Result[None] | None:
    """The member replaces the last one that did not speak the classic protocol. None: the group stays as it is.

    Nobody hears in a stable classic group of what he has not got yet. So it rebalances when someone waits for what
    another has; Apache Kafka looks at the epochs alone, and those partitions have no owner until the next rebalance.
    """
    state, group, new = change.state, change.group, change.new
    epoch = group.epoch()
    some_wait = any(
        member.state is MemberState.UNRELEASED_PARTITIONS and member.instance_id != new.instance_id
        for _, member in group.members.items()
    )
    rebalance = some_wait or epoch.assignment < group_epoch
    records_before = len(change.records)
    if not rebalance:
        new_target = target.Target(epoch.assignment, group.target(new))
        new = target.reconcile(change, new_target, owned, subscription_changed=subscribes_anew)
    result: Result[None] | None = downgrade.convert(
        state, group, None, change.now_ms, joining=new, before=change.records, rebalance=rebalance
    )
    if result is None:
        del change.records[records_before:]
        return None
    converted = result.appended
    assert converted is not None

    def appended(code: ErrorCode, at_ms: int) -> None:
        converted(code, at_ms)
        if not code:
            reply(response_to(new), at_ms)

    return Result(records=result.records, appended=appended)


def check_join(state: GroupState, group: ConsumerGroup, member_id: str, request: JoinGroupRequest) -> None:
    """Raises RequestError: INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED."""
    settings = state.settings.broker()
    if settings.group_consumer_migration_policy.lower() == DISABLED:
        raise RequestError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Cannot join the consumer group {group.group_id} with the classic protocol because the group migration is "
            "disabled.",
        )
    members.check_room(group, member_id, settings.group_consumer_max_size)
    classic = group.classic_member_count
    if request.protocol_type != PROTOCOL_TYPE or not any(
        (group.protocols.get(protocol.name) or 0) == classic for protocol in request.protocols
    ):
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")


def subscription_of(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """The member's subscription, taken from its first protocol."""
    try:
        return decode_subscription(request.protocols[0].metadata)
    except ProtocolError as error:
        raise RequestError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"The subscription of the member cannot be read: {error}."
        ) from None


def member_of(
    group: ConsumerGroup, member_id: str, request: JoinGroupRequest, written: list[CoordinatorRecord]
) -> ConsumerMember:
    """The member that the request speaks of, a new one if need be."""
    if request.group_instance_id is None:
        return members.dynamic_member(group, member_id, LEAVING_EPOCH, [], create=True, classic=True)
    return members.static_member(
        group,
        member_id,
        LEAVING_EPOCH,
        request.group_instance_id,
        [],
        written=written,
        create=request.member_id == NO_MEMBER,
        classic=True,
    )


def joined(
    member: ConsumerMember, context: Context, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    """The member as the request says."""
    timeout_ms = request.rebalance_timeout_ms
    return member.with_(
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",
        client_id=context.client_id,
        client_host=context.client_host,
        classic=ClassicMetadata(
            request.session_timeout_ms,
            tuple(ClassicProtocol(each.name, bytes(each.metadata)) for each in request.protocols),
        ),
    )


def response_to(member: ConsumerMember) -> JoinGroupResponse:
    """The response to a member that has joined. The group has no leader, since the coordinator assigns."""
    assert member.classic is not None
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=member.classic.protocols[0].name,
    )


# SyncGroup and Heartbeat


def sync(
    state: GroupState,
    group: ConsumerGroup,
    request: SyncGroupRequest,
    reply: SyncReply,
    now_ms: int,
) -> Result[None]:
    """SyncGroup of a classic member. Raises RequestError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS."""
    member = find_classic(group, request.member_id, request.group_instance_id)
    assert member.classic is not None
    check_generation(member, request.generation_id)
    check_protocol(member, member.classic.protocols[0].name, request)
    if group.epoch().assignment > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        timers.set_join(state, group.group_id, member, now_ms)
        raise RequestError(
            ErrorCode.REBALANCE_IN_PROGRESS,
            f"A new rebalance is triggered in group {group.group_id} and member {member.member_id} should rejoin to "
            "catch up.",
        )
    version = version_of(member.classic.protocols[0].metadata, ConsumerProtocolSubscription)
    partitions = {topic: list(epochs) for topic, epochs in member.assigned.items()}
    response = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encode_assignment(partitions, version, state.image),
    )

    def appended(code: ErrorCode, at_ms: int) -> None:
        if not code:
            timers.cancel_sync(state, group.group_id, member.member_id)
            timers.set_session(state, group.group_id, member, at_ms)
            reply(response, at_ms)

    return Result(appended=appended)


def heartbeat(
    state: GroupState, group: ConsumerGroup, request: HeartbeatRequest, now_ms: int
) -> Result[HeartbeatResponse]:
    """Heartbeat of a classic member. Raises RequestError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION."""
    member = find_classic(group, request.member_id, request.group_instance_id)
    check_generation(member, request.generation_id)
    timers.set_session(state, group.group_id, member, now_ms)
    has_to_join = (
        member.member_epoch < group.epoch().assignment
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
        or assignment_is_due(state, group)
    )
    if has_to_join:
        timers.set_join(state, group.group_id, member, now_ms)
    return Result(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if has_to_join else ErrorCode.NONE))


def assignment_is_due(state: GroupState, group: ConsumerGroup) -> bool:
    """Whether the group needs a new assignment, and only classic members are there to bring it about.

    Apache Kafka leaves such a group as it is until somebody joins: what a member had that has left, nobody has.
    """
    if (
        group.classic_member_count < len(group.members)
        or state.settings.broker().group_consumer_migration_policy.lower() == DISABLED
    ):
        return False
    epoch = group.epoch()
    if group.topics_may_have_changed and state.topics.hash(group.topics, state.image) == epoch.metadata_hash:
        group.refreshed_epoch = epoch.group
    behind = epoch.group > epoch.assignment and not target_runs.is_under_way(state, group)
    return group.topics_may_have_changed or behind


def find_classic(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member. Raises RequestError: UNKNOWN_MEMBER_ID, also for one of the other protocol, FENCED_INSTANCE_ID."""
    if instance_id is None:
        member = group.member(member_id)
    else:
        found = group.static_member(instance_id)
        if found is None:
            raise RequestError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member with instance id {instance_id} is not a member of group {group.group_id}.",
            )
        members.check_not_fenced(found, member_id, instance_id)
        member = found
    if not member.uses_classic_protocol:
        raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.member_id} does not use the classic protocol.")
    return member


def check_generation(member: ConsumerMember, generation_id: int) -> None:
    """Raises RequestError ILLEGAL_GENERATION."""
    if generation_id != member.member_epoch:
        raise RequestError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation_id} is not equal to the member epoch {member.member_epoch} of "
            f"member {member.member_id}.",
        )


def check_protocol(member: ConsumerMember, protocol_name: str, request: SyncGroupRequest) -> None:
    """Raises RequestError INCONSISTENT_GROUP_PROTOCOL."""
    if request.protocol_type is not None and request.protocol_type != PROTOCOL_TYPE:
        raise RequestError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocol type {request.protocol_type} from member {member.member_id} request is not equal to the "
            f"group protocol type {PROTOCOL_TYPE}.",
        )
    if request.protocol_name is not None and request.protocol_name != protocol_name:
        raise RequestError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocol name {request.protocol_name} from member {member.member_id} request is not equal to the "
            f"protocol name {protocol_name} returned in the join response.",
        )


# LeaveGroup


def leave(
    state: GroupState, group: ConsumerGroup, request: LeaveGroupRequest, now_ms: int
) -> Result[LeaveGroupResponse]:
    """LeaveGroup. Members of either protocol may be named: administrators remove static members so."""
    leaving: dict[str, ConsumerMember] = {}
    answers: list[MemberResponse] = []
    for identity in request.members:
        answer = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
        try:
            member = find_leaving(group, identity)
            leaving[member.member_id] = member
        except RequestError as error:
            answer.error_code = error.code
        answers.append(answer)
    return fence(state, group, list(leaving.values()), LeaveGroupResponse(members=answers), now_ms)


def find_leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """The member that leaves. Raises RequestError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.member(identity.member_id)
    member = members.check_known(group.static_member(instance_id), instance_id)
    if identity.member_id != NO_MEMBER:
        members.check_not_fenced(member, identity.member_id, instance_id)
    return member
