"""The HTTP endpoint of a node: GET /metrics (Prometheus), /telemetry (a frame of `penstock.protocol.telemetry`),
/healthz (the process works), /readyz (the node serves).

HTTP/1.1 as far as that needs: one GET for each connection, with bounds on its head and its time. With TLS, a connection
gets the certificate that is current when it comes; its handshake is on the loop, in steps of a millisecond or two, so
there are few connections at a time. With a token, /metrics and /telemetry are for those who send it; probes need none.
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections.abc import Callable, Generator, Iterable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from penstock.config.listeners import bracketed, split_address
from penstock.errors import ConfigError, Report
from penstock.events import events
from penstock.server.limits import (
    HTTP_CONNECTIONS_MAX,
    HTTP_HANDSHAKE_TIMEOUT_S,
    HTTP_HEAD_MAX_BYTES,
    HTTP_TIMEOUT_MS,
    METRICS_STEP_MS,
)
from penstock.server.listener import is_loopback
from penstock.server.metrics import CONTENT_TYPE, PrometheusText

if TYPE_CHECKING:
    from penstock.node.metrics import Sample

logger = events("server.http")

PLAIN = "text/plain; charset=utf-8"
BYTES = "application/octet-stream"
FOR_TOKENS = ("/metrics", "/telemetry")
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


def log_it(what: str, error: Exception) -> None:
    """Logs an error: the default report of an endpoint."""
    logger.error("a bug: a request was not answered", trace=True, request=what)


class HttpEndpoint:
    """Serves `samples()` as metrics, and `ready()` as readiness, with lines of `notes()` about what is still under way.

    `report` gets the errors of these. `context`: TLS for the next connection; None: there is no TLS. `token`: what
    `Authorization: Bearer` must be for the metrics. `telemetry`: makes the answer to the query of /telemetry, in steps;
    raises ValueError, in a sentence, for a query that it does not understand. None: there is no /telemetry.
    """

    def __init__(
        self,
        samples: Callable[[], Iterable[Sample | None]],
        ready: Callable[[], bool],
        report: Report = log_it,
        notes: Callable[[], Iterable[str]] = tuple,
        *,
        context: Callable[[], ssl.SSLContext] | None = None,
        token: str | None = None,
        telemetry: Callable[[str], Generator[object, None, bytes]] | None = None,
    ) -> None:
        self._samples = samples
        self._ready = ready
        self._report = report
        self._notes = notes
        self._context = context
        self._telemetry = telemetry
        self._token = None if token is None else token.encode()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._gathering = asyncio.Lock()

    async def start(self, address: str) -> str:
        """Listens on `host:port`; returns the address with the port that was bound. Raises ConfigError."""
        host, port = split_address(address, "penstock.metrics.listener", "127.0.0.1:9644")
        try:
            self._server = await asyncio.start_server(self._serve, host or None, port, limit=HTTP_HEAD_MAX_BYTES)
        except OSError as error:
            raise ConfigError(f"penstock.metrics.listener: cannot listen on {address}: {error.strerror}") from error
        if not is_loopback(host) and (self._context is None or self._token is None):
            lacking = "encryption" if self._context is None else "a token"
            logger.warning(f"metrics are open to the network without {lacking}", address=address)
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
                    if self._context is not None:
                        await writer.start_tls(self._context(), ssl_handshake_timeout=HTTP_HANDSHAKE_TIMEOUT_S)
                    for piece in await self._answer(await reader.readuntil(b"\r\n\r\n")):
                        writer.write(piece)
                        await writer.drain()
            except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
                pass
            except asyncio.CancelledError:
                writer.transport.abort()
                return
        writer.close()

    async def _answer(self, head: bytes) -> Sequence[bytes]:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3:
            return response(400, "not an HTTP request\n")
        method, target, _ = words
        if method not in ("GET", "HEAD"):
            return response(405, "only GET\n")
        path, _, query = target.partition("?")
        if path in FOR_TOKENS and not self._may_see_metrics(head):
            return response(401, "the token is missing or wrong (penstock.metrics.token)\n")
        try:
            answer = await self._get(path, query)
        except Exception as error:
            self._report(f"GET {path}", error)
            answer = response(500, "a bug; see the log\n")
        return answer[:1] if method == "HEAD" else answer

    def _may_see_metrics(self, head: bytes) -> bool:
        if self._token is None:
            return True
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"authorization":
                scheme, _, sent = value.strip().partition(b" ")
                return scheme.lower() == b"bearer" and hmac.compare_digest(sent.strip(), self._token)
        return False

    async def _get(self, path: str, query: str) -> Sequence[bytes]:
        if path == "/metrics":
            async with self._gathering:
                return response_of(200, await self._metrics(), CONTENT_TYPE)
        if path == "/telemetry" and self._telemetry is not None:
            return await self._frame(self._telemetry, query)
        if path == "/healthz":
            return response(200, "ok\n")
        if path == "/readyz":
            ready = self._ready()
            lines = ["ready" if ready else "not ready", *self._notes()]
            return response(200 if ready else 503, "".join([f"{line}\n" for line in lines]))
        there_are = "/metrics, /healthz" if self._telemetry is None else "/metrics, /telemetry, /healthz"
        return response(404, f"there are {there_are} and /readyz\n")

    async def _frame(self, telemetry: Callable[[str], Generator[object, None, bytes]], query: str) -> Sequence[bytes]:
        """A frame of telemetry. Other tasks have their turn after each step."""
        try:
            steps = telemetry(query)
        except ValueError as error:
            return response(400, f"{error}\n")
        async with self._gathering:
            try:
                while True:
                    next(steps)
                    await asyncio.sleep(0)
            except StopIteration as ended:
                return response_of(200, [ended.value], BYTES)

    async def _metrics(self) -> Sequence[bytes]:
        """All samples as text. On a large node that is long work: other tasks have their turn every METRICS_STEP_MS."""
        text = PrometheusText()
        pieces = []
        until_s = perf_counter() + METRICS_STEP_MS / 1000
        for sample in self._samples():
            if sample is not None:
                text.add(sample)
            if perf_counter() > until_s:
                pieces.append(text.take())
                await asyncio.sleep(0)
                until_s = perf_counter() + METRICS_STEP_MS / 1000
        return [*pieces, text.take()]


def response(status: int, text: str, content_type: str = PLAIN) -> Sequence[bytes]:
    """A whole response, head and body, after which the connection is closed."""
    return response_of(status, [text.encode()], content_type)


def response_of(status: int, body: Sequence[bytes], content_type: str) -> Sequence[bytes]:
    """A whole response whose body is in pieces."""
    size_bytes = sum(map(len, body))
    head = f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {content_type}\r\nContent-Length: {size_bytes}\r\n"
    if status == 401:
        head += "WWW-Authenticate: Bearer\r\n"
    return [f"{head}Connection: close\r\n\r\n".encode(), *body]
