"""ConsumerGroupDescribe (key 69): consumer groups, their members, current and target assignments (KIP-848).

Versions 0-1, flexible. A group is hidden from a requester who may not describe its members' topics.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.coordinator.group.consumer.describe import describe_consumer_groups
from penstock.errors import ErrorCode, RequestError
from penstock.node.handlers.group_coordinator import check_consumer_protocol
from penstock.node.limits import GROUPS_PER_STEP
from penstock.node.request import Handler, Request
from penstock.node.steps import Pace, Stepped, in_steps
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from penstock.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from penstock.security.authorizer import ResourceType
from penstock.security.rights import DESCRIBE_GROUP, DESCRIBE_TOPIC

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[ConsumerGroupDescribeRequest], now_ms: int) -> Stepped[Message]:
    check_consumer_protocol(node)
    groups = yield from in_steps(partial(describe, node, request), request.body.group_ids, Pace(GROUPS_PER_STEP))
    return ConsumerGroupDescribeResponse(groups=groups)


def describe(node: Broker, request: Request[ConsumerGroupDescribeRequest], group_id: str) -> DescribedGroup:
    """One group, or why it cannot be described."""
    try:
        node.gate.check(request, DESCRIBE_GROUP, group_id)
        if not group_id:
            raise RequestError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        (group,) = node.coordinators.groups.runtime.read(
            node.coordinators.groups.topic.partition_of(group_id),
            lambda machine, at: describe_consumer_groups(machine.state, at, [group_id]),
        )
    except RequestError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    if not all(map(node.gate.allowing(request, DESCRIBE_TOPIC), topics_of(group))):
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message=f"{request.principal} may not DESCRIBE all topics that the group's members have",
        )
    if request.body.include_authorized_operations and not group.error_code:
        group.authorized_operations = node.gate.operations(request, ResourceType.GROUP, group_id)
    return group


def topics_of(group: DescribedGroup) -> list[str]:
    """The topics that members have, or are to have."""
    found = {
        each.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for each in assignment.topic_partitions
    }
    return sorted(found)


def refuse(request: Request[ConsumerGroupDescribeRequest], code: ErrorCode, message: str) -> Message:
    """Every group answered with the error."""
    names = [] if request.body is None else request.body.group_ids
    return ConsumerGroupDescribeResponse(groups=[DescribedGroup(group_id=name, error_code=code) for name in names])


HANDLERS = (Handler(ApiKey.CONSUMER_GROUP_DESCRIBE, handle, refuse),)
