"""The requests of the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, to a group of whatever kind.

What every request is checked for is here. The rest depends on the kind of the group, and is looked up by that: a
classic group is what the protocol was made for (`classic/`), a consumer group serves classic members while it migrates
(`consumer/classic.py`). To a kind that is not in the table such members are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.coordinator.group.base import NO_MEMBER, Group, JoinReply, SyncReply
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.heartbeat import heartbeat_classic
from penstock.coordinator.group.classic.join import join_classic, join_new
from penstock.coordinator.group.classic.leave import leave_classic
from penstock.coordinator.group.classic.request import Join
from penstock.coordinator.group.classic.sync import sync_classic
from penstock.coordinator.group.consumer import classic as consumer_classic
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.context import Context
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.limits import STRING_MAX_BYTES
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse
from penstock.protocol.messages.join_group_request import JoinGroupRequest
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from penstock.protocol.messages.sync_group_request import SyncGroupRequest

G = TypeVar("G", bound=Group)

MEMBER_ID_PREFIX_MAX_BYTES = STRING_MAX_BYTES - len("-6b33fd3e-8ed1-4f8c-9a58-2f1d5b5e5c1a")
"""What the id of a member may begin with: the whole is a string of the protocol and of the group's record."""
MANY_MEMBERS_FROM = 3
"""The first version of LeaveGroup that names more than one member."""


@dataclass(frozen=True, slots=True)
class Rules(Generic[G]):
    """How a kind of group handles requests from classic members. A sync is for a group that has members."""

    join: Callable[[GroupState, G, Join, int], Result[None]]
    sync: Callable[[GroupState, G, SyncGroupRequest, SyncReply, int], Result[None]]
    heartbeat: Callable[[GroupState, G, HeartbeatRequest, int], Result[HeartbeatResponse]]
    leave: Callable[[GroupState, G, LeaveGroupRequest, int], Result[LeaveGroupResponse]]


CLASSIC: Rules[ClassicGroup] = Rules(join_classic, sync_classic, heartbeat_classic, leave_classic)
CONSUMER: Rules[ConsumerGroup] = Rules(
    consumer_classic.join, consumer_classic.sync, consumer_classic.heartbeat, consumer_classic.leave
)
RULES: Mapping[type[Group], Rules[Any]] = {ClassicGroup: CLASSIC, ConsumerGroup: CONSUMER}


def join_group(
    state: GroupState, context: Context, request: JoinGroupRequest, reply: JoinReply, now_ms: int
) -> Result[None]:
    """JoinGroup. The answer goes to `reply`, now or when the rebalance's first phase is over.

    Raises RequestError when the request is not taken at all: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT,
    INVALID_REQUEST, and what the rules of the group's kind raise. The caller answers that, and what becomes of the
    Result's records when they are lost, if `reply` has not been called before.
    """
    check_join(state, context.client_id, request)
    join = Join.of(context, request, reply)
    group = state.groups.find(request.group_id)
    if group is None:
        return join_new(state, join, [], now_ms)
    if group.is_empty and not isinstance(group, ClassicGroup):
        return join_new(state, join, group.tombstones(), now_ms)
    rules = RULES.get(type(group))
    if rules is None:
        return join.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id, now_ms)
    return rules.join(state, group, join, now_ms)


def check_join(state: GroupState, client_id: str, request: JoinGroupRequest) -> None:
    """Raises RequestError: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INVALID_REQUEST."""
    if not request.group_id:
        raise RequestError(ErrorCode.INVALID_GROUP_ID, "a group id is needed to join a group")
    prefix = client_id if request.group_instance_id is None else request.group_instance_id
    if request.member_id == NO_MEMBER and len(prefix.encode()) > MEMBER_ID_PREFIX_MAX_BYTES:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"a client id or instance id of {len(prefix.encode())} bytes is too long for a member id that begins with "
            f"it; at most {MEMBER_ID_PREFIX_MAX_BYTES} are taken",
        )
    settings = state.settings.broker()
    least_ms, most_ms = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not least_ms <= request.session_timeout_ms <= most_ms:
        raise RequestError(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"a session timeout of {request.session_timeout_ms} ms is not within {least_ms} "
            f"(group.min.session.timeout.ms) and {most_ms} (group.max.session.timeout.ms)",
        )


def sync_group(state: GroupState, request: SyncGroupRequest, reply: SyncReply, now_ms: int) -> Result[None]:
    """SyncGroup. The answer goes to `reply`, now or when the assignment is stored.

    Raises RequestError: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS. The caller answers that, if `reply` was not called before.
    """
    if not request.group_id:
        raise RequestError(ErrorCode.INVALID_GROUP_ID, "a group id is needed to sync")
    group = state.groups.find(request.group_id)
    rules = None if group is None else RULES.get(type(group))
    if group is None or group.is_empty or rules is None:
        raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
    return rules.sync(state, group, request, reply, now_ms)


def heartbeat(state: GroupState, request: HeartbeatRequest, now_ms: int) -> Result[HeartbeatResponse]:
    """Handles Heartbeat. While the log is being read the caller answers NONE, as Kafka does: no member has to act on
    that.

    Raises RequestError: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    if not request.group_id:
        raise RequestError(ErrorCode.INVALID_GROUP_ID, "a group id is needed for a heartbeat")
    group = state.groups.find(request.group_id)
    rules = None if group is None else RULES.get(type(group))
    if group is None or rules is None:
        raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {request.group_id} not found.")
    return rules.heartbeat(state, group, request, now_ms)


def leave_group(
    state: GroupState, context: Context, request: LeaveGroupRequest, now_ms: int
) -> Result[LeaveGroupResponse]:
    """LeaveGroup. From version 3 one request may name many members (KIP-345); each has an answer of its own. Before,
    the error of the one member is that of the response.

    Raises RequestError INVALID_GROUP_ID.
    """
    if not request.group_id:
        raise RequestError(ErrorCode.INVALID_GROUP_ID, "a group id is needed to leave a group")
    if context.api_version < MANY_MEMBERS_FROM:
        request = LeaveGroupRequest(group_id=request.group_id, members=[MemberIdentity(member_id=request.member_id)])
    group = state.groups.find(request.group_id) or state.pending.forming(request.group_id)
    rules = None if group is None else RULES.get(type(group))
    if group is None or rules is None:
        result = Result(LeaveGroupResponse(members=[unknown(member) for member in request.members]))
    else:
        result = rules.leave(state, group, request, now_ms)
    if context.api_version < MANY_MEMBERS_FROM and result.response is not None and not result.response.error_code:
        result.response.error_code = result.response.members[0].error_code
        result.response.members = []
    return result


def unknown(member: MemberIdentity) -> MemberResponse:
    """The answer to a client that is not a member of the group."""
    return MemberResponse(
        member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=ErrorCode.UNKNOWN_MEMBER_ID
    )
