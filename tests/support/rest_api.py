"""The REST API in a loop of the test's own: door, application and desk, with a made-up node behind them."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.guardian.core import answering
from penstock.guardian.core.accounts import Role, Token, User, hash_of, new_token, token_record, user_record
from penstock.guardian.core.calls import Call, Known, Reply
from penstock.guardian.core.sight import Sight
from penstock.guardian.core.state import EMPTY, GuardianState, replay
from penstock.guardian.rest.app import app_of
from penstock.guardian.rest.desk import Answered, Desk
from penstock.guardian.rest.door import App, Door
from penstock.protocol.messages.own.guardian_call_response import GuardianCallResponse

TOKEN = new_token(bytes(8), bytes(range(32)))
PATIENCE_S = 20.0
"""How long a test waits for what must come."""


def state_with_ann() -> GuardianState:
    token = Token(bytes(8).hex(), "ann", hash_of(TOKEN), "", 0, 1_000_000)
    return replay(EMPTY, [user_record(User("ann", (Role("admin"),))), token_record(token)])


@dataclass
class FakeBack:
    """A node that answers reads from its state, or as `how` says; it makes no change."""

    state: GuardianState = field(default_factory=state_with_ann)
    age_ms: int | None = 0
    wall_ms: int = 1_000
    now_ms: int = 1_000
    calls: list[Call] = field(default_factory=list)
    how: Callable[[Call, Answered], None] | None = None

    def ask(self, call: Call, answered: Answered) -> None:
        self.calls.append(call)
        if self.how is not None:
            self.how(call, answered)
            return
        reply = answering.read(Known(self.state, Sight(), self.wall_ms), call) if not call.changes else Reply(200, {})
        answered(GuardianCallResponse(status=reply.status, body=reply.encoded, answered_by=7, leader_id=8, age_ms=9), 0)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


def parsed(data: bytes) -> list[Answer]:
    """All responses in what a connection has said."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        size = int(headers.get("content-length", 0))
        body, data = data[:size], data[size:]
        found.append(Answer(int(first.split(" ")[1]), headers, json.loads(body) if body else None))
    return found


class Served:
    """A door, its address, and what its clients do."""

    def __init__(self, door: Door, address: str, back: FakeBack, bugs: list[str]) -> None:
        self.door = door
        self.port = int(address.rpartition(":")[2])
        self.back = back
        self.bugs = bugs
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(self, **more: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, **more)
        self.writers.append(writer)
        return reader, writer

    async def said(self, *pieces: bytes, **more: Any) -> list[Answer]:
        """What the server says to these bytes until it closes."""
        reader, writer = await self.connect(**more)
        for piece in pieces:
            writer.write(piece)
        data = await asyncio.wait_for(reader.read(), PATIENCE_S)
        writer.close()
        return parsed(data)

    async def ask(self, method: str, path: str, *headers: str, body: bytes = b"", token: str | None = TOKEN) -> Answer:
        lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", *headers]
        if token is not None:
            lines.append(f"Authorization: Bearer {token}")
        if body:
            lines.append(f"Content-Length: {len(body)}")
        (answer,) = await self.said("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return answer

    async def until_empty(self) -> None:
        """Waits until no connection is left."""
        async with asyncio.timeout(PATIENCE_S):
            while self.door.connections:
                await asyncio.sleep(0.001)


@asynccontextmanager
async def serving(
    back: FakeBack | None = None,
    app: App | None = None,
    context: Callable[[], ssl.SSLContext] | None = None,
) -> AsyncIterator[Served]:
    bugs: list[str] = []
    back = back or FakeBack()
    desk = Desk(back, lambda what, error: bugs.append(f"{what}: {error}"))
    door = Door(app or app_of(desk, answering.RESOURCES.values()), context)
    address = await door.start("127.0.0.1:0")
    served = Served(door, address, back, bugs)
    try:
        yield served
    finally:
        await door.stop()
        for writer in served.writers:
            writer.close()
            await asyncio.wait([asyncio.ensure_future(writer.wait_closed())], timeout=PATIENCE_S)
        assert (door.connections, door._arriving) == (0, set())


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(3 * PATIENCE_S):
            await work

    asyncio.run(limited())


GET = f"GET /v1/users HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
"""A request but for its last line."""
