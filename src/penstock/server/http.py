"""The HTTP endpoint of a node: GET /metrics (Prometheus), /healthz (the process works), /readyz (the node serves).

HTTP/1.1 as far as that needs: one GET a connection, head and time bounded, nothing else understood.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from penstock.config.limits import HTTP_CONNECTIONS_MAX, HTTP_HEAD_MAX_BYTES, HTTP_TIMEOUT_MS
from penstock.config.listeners import bracketed, split_address
from penstock.errors import ConfigError
from penstock.server.listener import is_loopback
from penstock.server.logs import events
from penstock.server.metrics import CONTENT_TYPE, prometheus_text

if TYPE_CHECKING:
    from penstock.node.metrics import Sample

logger = events("server.http")

PLAIN = "text/plain; charset=utf-8"
REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class HttpEndpoint:
    """Serves `samples()` as metrics, and `ready()` as readiness."""

    def __init__(self, samples: Callable[[], Iterable[Sample]], ready: Callable[[], bool]) -> None:
        self._samples = samples
        self._ready = ready
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, address: str) -> str:
        """Listens on `host:port`; returns the address with the port that was bound. Raises ConfigError."""
        host, port = split_address(address, "penstock.metrics.listener", "127.0.0.1:9644")
        try:
            self._server = await asyncio.start_server(self._serve, host or None, port, limit=HTTP_HEAD_MAX_BYTES)
        except OSError as error:
            raise ConfigError(f"penstock.metrics.listener: cannot listen on {address}: {error.strerror}") from error
        if not is_loopback(host):
            logger.warning("metrics are open to the network", address=address)
        return f"{bracketed(host)}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Closes the endpoint and its connections."""
        if self._server is not None:
            self._server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) < HTTP_CONNECTIONS_MAX:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            try:
                async with asyncio.timeout(HTTP_TIMEOUT_MS / 1000):
                    writer.write(self._answer(await reader.readuntil(b"\r\n\r\n")))
                    await writer.drain()
            except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
                pass
            except asyncio.CancelledError:
                writer.transport.abort()
                return
        writer.close()

    def _answer(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3:
            return response(400, "not an HTTP request\n")
        method, target, _ = words
        if method not in ("GET", "HEAD"):
            return response(405, "only GET\n")
        path = target.split("?", 1)[0]
        if path == "/metrics":
            answer = response(200, prometheus_text(self._samples()), CONTENT_TYPE)
        elif path == "/healthz":
            answer = response(200, "ok\n")
        elif path == "/readyz":
            answer = response(200, "ready\n") if self._ready() else response(503, "not ready\n")
        else:
            answer = response(404, "there are /metrics, /healthz and /readyz\n")
        return answer.split(b"\r\n\r\n")[0] + b"\r\n\r\n" if method == "HEAD" else answer


def response(status: int, text: str, content_type: str = PLAIN) -> bytes:
    """A whole response, after which the connection is closed."""
    body = text.encode()
    head = f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body
