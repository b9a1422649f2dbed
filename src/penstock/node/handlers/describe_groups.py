"""DescribeGroups (key 15): classic groups, their members and assignments.

Versions 0-6, flexible from 5. A missing group is GROUP_ID_NOT_FOUND from version 6 on, before it is in state Dead.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.coordinator.group.classic.describe import describe_groups
from penstock.errors import ErrorCode, RequestError
from penstock.node.limits import GROUPS_PER_STEP
from penstock.node.request import Handler, Request
from penstock.node.steps import Pace, Stepped, in_steps
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_groups_request import DescribeGroupsRequest
from penstock.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from penstock.security.authorizer import ResourceType
from penstock.security.rights import DESCRIBE_GROUP

if TYPE_CHECKING:
    from penstock.node.broker import Broker


NOT_FOUND_FROM = 6


def handle(node: Broker, request: Request[DescribeGroupsRequest], now_ms: int) -> Stepped[Message]:
    groups = yield from in_steps(partial(describe, node, request), request.body.groups, Pace(GROUPS_PER_STEP))
    return DescribeGroupsResponse(groups=groups)


def describe(node: Broker, request: Request[DescribeGroupsRequest], group_id: str) -> DescribedGroup:
    """One group, or the reason why it cannot be described."""
    try:
        node.gate.check(request, DESCRIBE_GROUP, group_id)
        (group,) = node.coordinators.groups.runtime.read(
            node.coordinators.groups.topic.partition_of(group_id),
            lambda machine, at: describe_groups(machine.state, at, [group_id], api_version=request.version),
        )
    except RequestError as error:
        said = error.message if request.version >= NOT_FOUND_FROM else None
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=said)
    if request.body.include_authorized_operations and not group.error_code:
        group.authorized_operations = node.gate.operations(request, ResourceType.GROUP, group_id)
    return group


def refuse(request: Request[DescribeGroupsRequest], code: ErrorCode, message: str) -> Message:
    """Every group answered with the error."""
    names = [] if request.body is None else request.body.groups
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id=name, error_code=code) for name in names])


HANDLERS = (Handler(ApiKey.DESCRIBE_GROUPS, handle, refuse),)
