"""DescribeGroups (key 15): classic groups, their members and assignments.

Versions 0-6, flexible from 5. From version 6 on a group that is not there is GROUP_ID_NOT_FOUND; before it is Dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordinator.group.classic.describe import describe_groups
from penstock.errors import ErrorCode, RequestError
from penstock.node.handlers.authorization import authorized_operations
from penstock.node.handlers.group_coordinator import check_group
from penstock.node.request import Handler, Message, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.describe_groups_request import DescribeGroupsRequest
from penstock.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.DESCRIBE, ResourceType.GROUP)

NOT_FOUND_FROM = 6


def handle(node: Broker, request: Request[DescribeGroupsRequest], now_ms: int) -> Outcome:
    return DescribeGroupsResponse(groups=[describe(node, request, group_id) for group_id in request.body.groups])


def describe(node: Broker, request: Request[DescribeGroupsRequest], group_id: str) -> DescribedGroup:
    """One group, or why it cannot be described."""
    try:
        check_group(node, request, Operation.DESCRIBE, group_id)
        (group,) = node.groups.runtime.read(
            node.groups.partition_of(group_id),
            lambda shard, at: describe_groups(shard, at, [group_id], api_version=request.version),
        )
    except RequestError as error:
        said = error.message if request.version >= NOT_FOUND_FROM else None
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=said)
    if request.body.include_authorized_operations and not group.error_code:
        group.authorized_operations = authorized_operations(node, request, ResourceType.GROUP, group_id)
    return group


def refuse(request: Request[DescribeGroupsRequest], code: ErrorCode, message: str) -> Message:
    """Every group answered with the error."""
    names = [] if request.body is None else request.body.groups
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id=name, error_code=code) for name in names])


HANDLERS = (Handler(ApiKey.DESCRIBE_GROUPS, handle, AUTHORIZE, refuse),)
