"""ListGroups (key 16): the groups that this broker coordinates.

Versions 0-5, flexible from 3; filters of states from 4 on, of types from 5 on. While a partition is being loaded the
list would be incomplete: COORDINATOR_LOAD_IN_PROGRESS. Thousands of groups are listed in steps, between which the event
loop is free; each group is listed as committed at its step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.coordinator.group.maintenance import list_some
from penstock.coordinator.runtime.shard import Shard, ShardState
from penstock.errors import ErrorCode
from penstock.node.limits import LISTED_GROUPS_PER_STEP
from penstock.node.request import LATER, Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.list_groups_request import ListGroupsRequest
from penstock.protocol.messages.list_groups_response import ListGroupsResponse
from penstock.security.rights import LIST_GROUP

if TYPE_CHECKING:
    from penstock.coordinator.group.machine import GroupMachine
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[ListGroupsRequest], now_ms: int) -> Outcome:
    steps = node.dispatcher.guard_steps(request, list_in_steps(node, request))
    if next(steps, steps) is not steps:
        node.scheduler.do(steps)
    return LATER


def list_in_steps(node: Broker, request: Request[ListGroupsRequest]) -> Iterator[None]:
    """Lists some groups a step, and answers after the last."""
    body, shards = request.body, node.coordinators.groups.runtime.shards
    response = ListGroupsResponse()
    may_see = node.gate.allowing(request, LIST_GROUP)
    looked_at = 0
    for index in sorted(shards):
        shard = shards.get(index)
        if shard is not None and shard.state is ShardState.LOADING:
            node.answer(
                request, ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), node.scheduler.now_ms
            )
            return
        if shard is None or not serves(shard):
            continue
        groups = list(shard.machine.state.groups.all(at=shard.committed_offset))
        for start in range(0, len(groups), LISTED_GROUPS_PER_STEP):
            if not serves(shard):
                break
            some = groups[start : start + LISTED_GROUPS_PER_STEP]
            response.groups.extend(
                group
                for group in list_some(some, shard.committed_offset, body.states_filter, body.types_filter)
                if may_see(group.group_id)
            )
            looked_at += len(some)
            if looked_at >= LISTED_GROUPS_PER_STEP:
                looked_at = 0
                yield
    node.answer(request, response, node.scheduler.now_ms)


def serves(shard: Shard[GroupMachine]) -> bool:
    """Whether the shard is loaded, and still led by this broker."""
    return shard.state is ShardState.ACTIVE


HANDLERS = (Handler(ApiKey.LIST_GROUPS, handle),)
