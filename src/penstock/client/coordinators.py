"""Asking the coordinator of a group or of a transactional id, which is looked up and may move.

answer, node_id = await ask(client, "reports", request, lambda got: got.error_code)
await ask(client, "copier", request, lambda got: got.error_code, kind=CoordinatorKind.TRANSACTION)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from penstock.client.admin import refused
from penstock.client.limits import CLIENT_RETRY_BACKOFF_MS
from penstock.errors import ErrorCode, UnreachableError
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest

if TYPE_CHECKING:
    from penstock.client.client import Client

BATCHED_COORDINATORS_FROM = 4
COORDINATOR_TIMEOUT_S = 30.0
MOVED = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
"""Errors after which the coordinator is looked up again."""


class CoordinatorKind(IntEnum):
    """What has coordinators, numbered as in FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1

    def named(self, key: str) -> str:
        """A group or a transactional id in words."""
        return f"group {key}" if self is CoordinatorKind.GROUP else f"transactional id {key}"


async def coordinator(
    client: Client,
    key: str,
    kind: CoordinatorKind = CoordinatorKind.GROUP,
    *,
    timeout_s: float = COORDINATOR_TIMEOUT_S,
) -> int:
    """The node id of the coordinator. Waits while there is none; RequestError when that takes too long."""
    version = (await client.connection(None)).version_for(ApiKey.FIND_COORDINATOR)
    deadline = asyncio.get_running_loop().time() + timeout_s
    while True:
        if version >= BATCHED_COORDINATORS_FROM:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            found = (await client.ask_any(request)).coordinators[0]
        else:
            found = await client.ask_any(FindCoordinatorRequest(key=key, key_type=kind))
        if found.error_code not in MOVED or asyncio.get_running_loop().time() > deadline:
            refused(found.error_code, found.error_message, kind.named(key))
            if found.node_id not in client.brokers:
                await client.refresh([])
            return int(found.node_id)
        await asyncio.sleep(CLIENT_RETRY_BACKOFF_MS / 1000)


async def ask(
    client: Client,
    key: str,
    request: Any,
    error_of: Callable[[Any], int],
    *,
    kind: CoordinatorKind = CoordinatorKind.GROUP,
    known: int | None = None,
    at_most: int | None = None,
    timeout_s: float = COORDINATOR_TIMEOUT_S,
) -> tuple[Any, int]:
    """The coordinator's answer and its node id. Asks again, for `timeout_s`, while `error_of(answer)` says that it has
    moved, or its broker does not answer; so a request may be carried out twice.

    `known` is the coordinator as of an earlier answer, which saves looking it up.
    """
    deadline = asyncio.get_running_loop().time() + timeout_s
    while True:
        late = asyncio.get_running_loop().time() > deadline
        try:
            node_id = await coordinator(client, key, kind, timeout_s=timeout_s) if known is None else known
            answer = await client.send(request, node_id=node_id, at_most=at_most)
        except UnreachableError:
            if late:
                raise
        else:
            if error_of(answer) not in MOVED or late:
                return answer, node_id
        known = None
        await asyncio.sleep(CLIENT_RETRY_BACKOFF_MS / 1000)


async def ask_all(client: Client, request: Any, what: str) -> dict[int, Any]:
    """The answers of all brokers by node id, each of which knows what it coordinates (`what`, in the plural). Waits
    while one still loads that. Raises RequestError."""
    await client.refresh([])

    async def of_broker(node_id: int) -> Any:
        deadline = asyncio.get_running_loop().time() + COORDINATOR_TIMEOUT_S
        while True:
            answer = await client.send(request, node_id=node_id)
            if answer.error_code not in MOVED or asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(CLIENT_RETRY_BACKOFF_MS / 1000)
        refused(answer.error_code, None, f"{what} of broker {node_id}")
        return answer

    brokers = sorted(client.brokers)
    return dict(zip(brokers, await asyncio.gather(*map(of_broker, brokers)), strict=True))
