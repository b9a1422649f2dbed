"""The HTTP listener: uvicorn's HTTP/1.1, in the node's own loop, with a bound on everything a client may take.

Uvicorn's server is not used, only its protocol: the process has its own signals, logging and end. A connection gets the
certificate that is current when it comes. From when a connection is made, or an answer has been sent, the client has
REST_REQUEST_TIMEOUT_S for all of its next request and for reading the answer; so whoever sends or reads a byte now and
then holds a connection for as long, and no longer. What is refused before it is a request is refused in JSON, too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol
from uvicorn.server import ServerState

from penstock.config.listeners import bracketed, split_address
from penstock.errors import ConfigError
from penstock.guardian.limits import (
    REST_ACCEPT_PAUSE_S,
    REST_BACKLOG,
    REST_CONNECTIONS_MAX,
    REST_HEAD_MAX_BYTES,
    REST_LINGER_S,
    REST_REQUEST_TIMEOUT_S,
    REST_STOP_S,
)
from penstock.server.limits import HTTP_HANDSHAKE_TIMEOUT_S
from penstock.server.listener import bind

SETTING = "penstock.guardian.rest.listener"
QUIET = logging.getLogger("penstock.guardian.rest.quiet")
"""What uvicorn would log for every bad request; nothing of it reaches the log."""
REFUSALS = {400: "this is not an HTTP request", 431: f"the head has more than {REST_HEAD_MAX_BYTES} bytes"}

App = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]


class Door:
    """Serves an ASGI application. `context`: TLS for the next connection; None: there is no TLS.

    Attributes: `connections`, how many are open; `made_room`, how many were closed for others, being idle longest;
    `refused`, how many there was no room for.
    """

    def __init__(self, app: App, context: Callable[[], ssl.SSLContext] | None = None) -> None:
        QUIET.setLevel(logging.CRITICAL + 1)
        self.connections = self.made_room = self.refused = 0
        self.context = context
        self.config = Config(
            app, http="h11", ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False,
            server_header=False, date_header=False, proxy_headers=False,
            h11_max_incomplete_event_size=REST_HEAD_MAX_BYTES,
        )  # fmt: skip
        self.config.load()
        self.state = ServerState()
        self._empty = asyncio.Event()
        self._arriving: set[asyncio.Task[None]] = set()
        self._shaking: dict[Connection, asyncio.Task[None]] = {}
        self._socket: socket.socket | None = None

    async def start(self, address: str) -> str:
        """Listens on `host:port`; returns the address with the port that was bound. Raises ConfigError."""
        host, port = split_address(address, SETTING, "127.0.0.1:9600")
        try:
            self._socket = listening = socket_at(host, port)
        except OSError as error:
            raise ConfigError(f"{SETTING}: cannot listen on {address}: {error.strerror}") from error
        self._begin(self._accept(listening))
        return f"{bracketed(host)}:{listening.getsockname()[1]}"

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)
        return task

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listening)
            except OSError:  # no descriptor is left, or the client is gone already
                await asyncio.sleep(REST_ACCEPT_PAUSE_S)
                continue
            has_room = self.has_room()
            if has_room or self.context is None:
                connection = Connection(self, counted=has_room)
                task = self._begin(self._let_in(sock, connection))
                if has_room:
                    self._shaking[connection] = task
                    task.add_done_callback(partial(self._has_shaken, connection, sock))
            else:
                sock.close()

    def _has_shaken(self, connection: Connection, sock: socket.socket, task: asyncio.Task[None]) -> None:
        self._shaking.pop(connection, None)
        if task.cancelled():
            sock.close()

    async def _let_in(self, sock: socket.socket, connection: Connection) -> None:
        """Makes a connection of a socket; with TLS, once it has shaken hands."""
        context = None if self.context is None else self.context()
        timeout_s = None if context is None else HTTP_HANDSHAKE_TIMEOUT_S
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, sock, ssl=context, ssl_handshake_timeout=timeout_s
            )
        except OSError:  # the errors of TLS are of this type, too
            connection.leave()
        except BaseException:
            connection.leave()
            raise

    async def stop(self) -> None:
        """Takes no more connections, waits a little for requests that are being answered, and closes all."""
        if self._socket is None:
            return
        arriving = list(self._arriving)
        for task in arriving:
            task.cancel()
        await asyncio.gather(*arriving, return_exceptions=True)
        self._socket.close()
        self._socket = None
        for each in list(self.state.connections):
            with suppress(h11.LocalProtocolError):
                each.shutdown()
        if self.state.tasks:
            await asyncio.wait(self.state.tasks, timeout=REST_STOP_S)
        for each in list(self.state.connections):
            each.transport.abort()
        for task in list(self.state.tasks):
            task.cancel()
        await asyncio.gather(*self.state.tasks, return_exceptions=True)
        if self.connections:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), REST_LINGER_S)

    def has_room(self) -> bool:
        """Whether one more connection may come in; it counts then, until it `left`.

        Where there are too many, the one goes that has been waited for longest: who holds connections without asking
        anything, or without ever shaking hands, keeps nobody out.
        """
        if self.connections >= REST_CONNECTIONS_MAX:
            idle = [each for each in self.state.connections if isinstance(each, Connection) and each.idle]
            idle += [each for each in self._shaking if each.idle]
            if not idle:
                self.refused += 1
                return False
            self.made_room += 1
            longest = min(idle, key=lambda each: each.since_s)
            longest.leave()
            arriving = self._shaking.pop(longest, None)
            if arriving is not None:
                arriving.cancel()
            if longest.transport is not None:
                longest.transport.abort()
        self.connections += 1
        self._empty.clear()
        return True

    def left(self) -> None:
        """A connection that had room is gone."""
        self.connections -= 1
        if not self.connections:
            self._empty.set()


class Connection(H11Protocol):
    """A connection that speaks HTTP. `counted`: the door has room for it; it is told so otherwise.

    Attributes: `since_s`, when it was last answered, or made, by the clock of the loop.
    """

    def __init__(self, door: Door, *, counted: bool) -> None:
        super().__init__(door.config, door.state, {})
        self.logger, self.access_log = QUIET, False
        self._door = door
        self._counted = counted
        self._began = False
        self.since_s = self.loop.time()
        self._due: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether the head of its next request is waited for."""
        return self._counted and (self.cycle is None or self.cycle.response_complete)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own does
        super().connection_made(transport)
        if not self._counted:
            self._refuse(503, f"{REST_CONNECTIONS_MAX} connections are open: ask again soon")
            return
        self._expect_within(REST_REQUEST_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._due is not None:
            self._due.cancel()
        self.leave()

    def leave(self) -> None:
        """Gone, or never come in: there is room for another one."""
        if self._counted:
            self._counted = False
            self._door.left()

    def data_received(self, data: bytes) -> None:
        self._began = True
        if not self.transport.is_closing():
            super().data_received(data)

    def on_response_complete(self) -> None:
        self._began = bool(self.conn.trailing_data[0])
        self.since_s = self.loop.time()
        closing = self.transport.is_closing()
        self._expect_within(REST_LINGER_S if closing else REST_REQUEST_TIMEOUT_S)
        super().on_response_complete()
        self._unset_keepalive_if_required()

    def send_400_response(self, msg: str) -> None:
        status = getattr(sys.exception(), "error_status_hint", 400)
        self._refuse(status, REFUSALS.get(status, msg))

    def _expect_within(self, seconds: float) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = self.loop.call_later(seconds, self._too_late)

    def _too_late(self) -> None:
        if self._began and not self.transport.is_closing():
            self._refuse(408, f"the request did not come within {REST_REQUEST_TIMEOUT_S:g} s")
        else:
            self.transport.abort()

    def _refuse(self, status: int, why: str) -> None:
        """Answers what is no request, or never became one, and closes; where an answer has begun, only closes."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        body = json.dumps({"error": why}).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        try:
            sent = self.conn.send(h11.Response(status_code=status, headers=headers, reason=STATUS_PHRASES[status]))
            self.transport.write((sent or b"") + body)
        except h11.LocalProtocolError:
            self.transport.abort()
            return
        self._expect_within(REST_LINGER_S)
        self.transport.close()


def socket_at(host: str, port: int) -> socket.socket:
    """A socket that listens, on every interface if the host is empty. Raises OSError."""
    family = socket.AF_INET6 if ":" in host or (not host and socket.has_dualstack_ipv6()) else socket.AF_INET
    address = socket.getaddrinfo(host or None, port, family, socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][4]
    sock = bind(family, address, -1, both=not host)
    sock.listen(REST_BACKLOG)
    return sock
