"""A small client of Guardian: one call, asked of one node after the other until one answers it.

A change has a request id, and keeps it however often it is asked for. So a call whose answer was lost, or that a node
could not answer because the leader has just died, is asked again, and is done once.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from penstock.client.client import parse_address
from penstock.client.connection import BrokerConnection
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.errors import PenstockError, UnreachableError
from penstock.protocol.messages.own.guardian_call_request import GuardianCallRequest

UNAVAILABLE = (429, 503, 507)
"""Statuses of answers that another node, or the same one a little later, would not give."""
AGAIN_S = 0.1
NODE_TIMEOUT_MS = 3_000
"""How long one node may take before the next is asked."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: status and body as of HTTP, which node gave it, whom it knows as the leader, and how old at most, in
    ms, what it knows is; -1 where something is not known.
    """

    status: int
    body: dict[str, Any]
    node_id: int
    leader_id: int
    age_ms: int


class GuardianClient:
    """Asks the nodes of one Guardian.

    Args:
        addresses: "host:port", several separated by commas. security: TLS and login, for all nodes alike.
        timeout_ms: how long a call is tried for.

    Raises ValueError for an address that is none.
    """

    def __init__(self, addresses: str, *, security: ClientSecurity = UNSECURED, timeout_ms: int = 15_000) -> None:
        self._addresses = [parse_address(each) for each in addresses.split(",")]
        self._security = security
        self._timeout_s = timeout_ms / 1000

    async def call(self, method: str, path: str, body: Any = None, *, request_id: UUID) -> Answer:
        """Makes a call.

        Raises UnreachableError when no node has answered it in time, with the last reason; PenstockError where
        it may not be made, AuthenticationError, and ConfigError for a key store that cannot be read.
        """
        encoded = b"" if body is None else json.dumps(body).encode()
        request = GuardianCallRequest(method=method, path=path, body=encoded, request_id=request_id)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._timeout_s
        reason = ""
        number = 0
        while True:
            host, port = self._addresses[number % len(self._addresses)]
            number += 1
            left_ms = round((deadline_s - loop.time()) * 1000)
            try:
                answer = await self._ask(host, port, request, max(1, min(NODE_TIMEOUT_MS, left_ms)))
            except UnreachableError as error:
                reason = str(error).partition("\n")[0]
            else:
                if answer.status not in UNAVAILABLE:
                    return answer
                reason = f"node {answer.node_id}: {answer.body.get('error', answer.status)}"
            if loop.time() + AGAIN_S >= deadline_s:
                raise UnreachableError(
                    f"Guardian did not answer: {reason}\n  is it running there? --guardian says where to look"
                )
            if number % len(self._addresses) == 0:
                await asyncio.sleep(AGAIN_S)

    async def _ask(self, host: str, port: int, request: GuardianCallRequest, timeout_ms: int) -> Answer:
        connection = BrokerConnection(host, port, "penstock-guardian", timeout_ms, self._security)
        try:
            await connection.open()
            response = await connection.send(request, timeout_ms=timeout_ms)
        finally:
            connection.close()
        if response.error_code:
            raise PenstockError(f"{host}:{port} does not allow this: {response.error_message}")
        try:
            body = json.loads(bytes(response.body))
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise PenstockError(f"{host}:{port} answers with something that is not a JSON object")
        return Answer(response.status, body, response.answered_by, response.leader_id, response.age_ms)
