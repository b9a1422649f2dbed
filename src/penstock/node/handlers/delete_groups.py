"""DeleteGroups (key 42): removes groups without members, and their offsets.

Versions 0-2, flexible from 2. The rules are in `coordinator.group.maintenance`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from penstock.coordinator.group.machine import GroupMachine
from penstock.coordinator.group.maintenance import delete_groups
from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode, RequestError
from penstock.node.request import LATER, Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.delete_groups_request import DeleteGroupsRequest
from penstock.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from penstock.security.rights import DELETE_GROUP

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[DeleteGroupsRequest], now_ms: int) -> Outcome:
    results: dict[str, DeletableGroupResult | None] = dict.fromkeys(request.body.groups_names)
    shards: dict[int, list[str]] = {}
    for group_id in results:
        try:
            node.gate.check(request, DELETE_GROUP, group_id)
            shards.setdefault(node.coordinators.groups.topic.partition_of(group_id), []).append(group_id)
        except RequestError as error:
            results[group_id] = DeletableGroupResult(group_id=group_id, error_code=error.code)
    if not shards:
        return response_of(results)
    outstanding = len(shards)

    def done(
        asked: Sequence[str], answers: Sequence[DeletableGroupResult] | None, code: ErrorCode, message: str, at_ms: int
    ) -> None:
        nonlocal outstanding
        if answers is None:
            failed = coordinator_error(code)
            answers = [DeletableGroupResult(group_id=group_id, error_code=failed) for group_id in asked]
        results.update((answer.group_id, answer) for answer in answers)
        node.journal.groups_deleted(request, (answer.group_id for answer in answers if not answer.error_code))
        outstanding -= 1
        if outstanding == 0:
            node.answer(request, response_of(results), at_ms)

    def deletion(group_ids: list[str]) -> Callable[[GroupMachine], Result[list[DeletableGroupResult]]]:
        return lambda machine: delete_groups(machine.state, group_ids, now_ms)

    for index, group_ids in shards.items():
        answered = node.dispatcher.later(request, partial(done, group_ids))
        node.coordinators.groups.runtime.write(index, deletion(group_ids), answered, now_ms)
    return LATER


def response_of(results: dict[str, DeletableGroupResult | None]) -> Message:
    return DeleteGroupsResponse(results=[result for result in results.values() if result is not None])


def refuse(request: Request[DeleteGroupsRequest], code: ErrorCode, message: str) -> Message:
    """Every group answered with the error."""
    names = [] if request.body is None else request.body.groups_names
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=name, error_code=code) for name in names])


HANDLERS = (Handler(ApiKey.DELETE_GROUPS, handle, refuse),)
