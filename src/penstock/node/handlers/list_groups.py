"""ListGroups (key 16): the groups that this broker coordinates.

Versions 0-5, flexible from 3; filters of states from 4 on, of types from 5 on. While a partition is being loaded the
list would lack groups: COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordinator.group.maintenance import list_groups
from penstock.coordinator.runtime.shard import ShardState
from penstock.errors import ErrorCode
from penstock.node.handlers.authorization import allowed
from penstock.node.request import Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.list_groups_request import ListGroupsRequest
from penstock.protocol.messages.list_groups_response import ListGroupsResponse
from penstock.security.authorizer import CLUSTER_NAME, Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.DESCRIBE, ResourceType.GROUP)
"""Open to all: groups that who asks may not describe are left out. DESCRIBE on the cluster shows them all."""


def handle(node: Broker, request: Request[ListGroupsRequest], now_ms: int) -> Outcome:
    body = request.body
    response = ListGroupsResponse()
    sees_all = allowed(node, request, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    for _, shard in sorted(node.groups.runtime.shards.items()):
        if shard.state is ShardState.LOADING:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if shard.state is ShardState.ACTIVE:
            response.groups.extend(
                group
                for group in list_groups(shard.machine, shard.committed_offset, body.states_filter, body.types_filter)
                if sees_all or allowed(node, request, Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
            )
    return response


HANDLERS = (Handler(ApiKey.LIST_GROUPS, handle, AUTHORIZE),)
