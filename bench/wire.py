"""Many connections to one broker from one process, for benchmarks: frames out, answers in, in order.

A heartbeat is the same bytes each time, so a member encodes it once and compares the answer with the last good one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from penstock.errors import ErrorCode
from penstock.protocol.api import APIS, ApiKey
from penstock.protocol.frames import decode_response, encode_request
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest

VERSIONS = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.METADATA: 12,
    ApiKey.ALTER_CLIENT_QUOTAS: 1,
    ApiKey.API_VERSIONS: 4,
    ApiKey.FIND_COORDINATOR: 6,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
}


def frame_of(api: ApiKey, message: Message, client_id: str = "bench") -> bytes:
    """A request as it goes over the wire."""
    return b"".join(map(bytes, encode_request(APIS[api], VERSIONS[api], 0, client_id, message)))


def answer_of(api: ApiKey, frame: bytes) -> Any:
    """What an answer says."""
    return decode_response(APIS[api], VERSIONS[api], frame)[1]


def check(code: int, *expected: ErrorCode) -> ErrorCode:
    """Raises RuntimeError unless it is NONE or expected."""
    if code and code not in expected:
        raise RuntimeError(f"the broker answered {ErrorCode(code).name}")
    return ErrorCode(code)


class Wire(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._received = bytearray()
        self._loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while len(received) >= 4:
            end = 4 + int.from_bytes(received[:4], "big")
            if len(received) < end:
                break
            answer = bytes(received[4:end])
            del received[:end]
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        for each in self._waiting:
            if not each.done():
                each.set_exception(ConnectionError("the broker has closed the connection"))
        self._waiting.clear()

    def exchange(self, frame: bytes) -> asyncio.Future[bytes]:
        """Sends a frame; its answer follows."""
        answer: asyncio.Future[bytes] = self._loop.create_future()
        self._waiting.append(answer)
        self.transport.write(frame)
        return answer

    async def ask(self, api: ApiKey, message: Message) -> Any:
        """Sends a request and reads its answer."""
        return answer_of(api, await self.exchange(frame_of(api, message)))

    def close(self) -> None:
        self.transport.close()


async def connect(bootstrap: str) -> Wire:
    """A new connection."""
    host, _, port = bootstrap.rpartition(":")
    _, wire = await asyncio.get_running_loop().create_connection(Wire, host, int(port))
    return wire


async def connect_many(bootstrap: str, count: int) -> list[Wire]:
    """Connections, as many at a time as the backlog of a listener takes (50): a client that finds it full tries again
    after a second. Each has been answered once, as a connected socket may still be in the backlog.
    """
    wires: list[Wire] = []
    while len(wires) < count:
        wires += await asyncio.gather(*(greet(bootstrap) for _ in range(min(50, count - len(wires)))))
    return wires


async def greet(bootstrap: str) -> Wire:
    """A connection that the broker has accepted."""
    wire = await connect(bootstrap)
    await wire.ask(ApiKey.API_VERSIONS, ApiVersionsRequest(client_software_name="bench", client_software_version="1"))
    return wire


async def wait_for_coordinator(bootstrap: str) -> None:
    """Asks for a coordinator, which has the coordinator's topic made, until there is one."""
    wire = await connect(bootstrap)
    while True:
        answer = await wire.ask(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(coordinator_keys=["any"]))
        if not check(answer.coordinators[0].error_code, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            break
        await asyncio.sleep(0.1)
    wire.close()
