"""DeleteGroups (key 42): removes groups without members, and their offsets.

Versions 0-2, flexible from 2. The rules are in `coordinator.group.maintenance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from penstock.coordinator.group.maintenance import delete_groups
from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.errors import ErrorCode, RequestError
from penstock.node.handlers.group_coordinator import check_group
from penstock.node.request import LATER, Handler, Message, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.delete_groups_request import DeleteGroupsRequest
from penstock.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.DELETE, ResourceType.GROUP)


def handle(node: Broker, request: Request[DeleteGroupsRequest], now_ms: int) -> Outcome:
    results: dict[str, DeletableGroupResult | None] = dict.fromkeys(request.body.groups_names)
    shards: dict[int, list[str]] = {}
    for group_id in results:
        try:
            check_group(node, request, Operation.DELETE, group_id)
            shards.setdefault(node.groups.partition_of(group_id), []).append(group_id)
        except RequestError as error:
            results[group_id] = DeletableGroupResult(group_id=group_id, error_code=error.code)
    if not shards:
        return response_of(results)
    outstanding = len(shards)

    def done(
        asked: Sequence[str],
        answers: Sequence[DeletableGroupResult] | None,
        code: ErrorCode,
        message: str,
        at_ms: int,
    ) -> None:
        nonlocal outstanding
        if answers is None:
            failed = coordinator_error(code)
            answers = [DeletableGroupResult(group_id=group_id, error_code=failed) for group_id in asked]
        results.update((answer.group_id, answer) for answer in answers)
        outstanding -= 1
        if outstanding == 0:
            node.answer(request, response_of(results), at_ms)

    for index, group_ids in shards.items():
        operation = partial(delete_groups, group_ids=group_ids, now_ms=now_ms)
        node.groups.runtime.write(index, operation, partial(done, group_ids), now_ms)
    return LATER


def response_of(results: dict[str, DeletableGroupResult | None]) -> Message:
    return DeleteGroupsResponse(results=[result for result in results.values() if result is not None])


def refuse(request: Request[DeleteGroupsRequest], code: ErrorCode, message: str) -> Message:
    """Every group answered with the error."""
    names = [] if request.body is None else request.body.groups_names
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=name, error_code=code) for name in names])


HANDLERS = (Handler(ApiKey.DELETE_GROUPS, handle, AUTHORIZE, refuse),)
