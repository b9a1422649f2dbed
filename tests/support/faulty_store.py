"""An HTTP proxy that loses answers: between a table's writers and its object store, or its Iceberg catalog.

    with FaultyStore("http://127.0.0.1:5000", fault_of) as store:
        open_table("s3://lake/clicks", "test", storage_options={"AWS_ENDPOINT_URL": store.address, ...})

`fault_of` is asked at each request what becomes of it. Whatever it says, a client sees only what a client of a real
store can see: an error, no answer, half an answer, or the answer to a request that was made twice. A request that is
LATE comes to the store when its client has long given up, after some others.
"""

from __future__ import annotations

import enum
import http.client
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

HOP_BY_HOP = ("host", "transfer-encoding", "expect", "connection", "content-length")
LATE_BY = 3
"""How many other requests come to the store before one that is late."""
UPSTREAM_TIMEOUT_S = 60.0


class Fault(enum.Enum):
    """What becomes of a request."""

    REFUSED = "answered with 503, not applied"
    DROPPED = "not applied, not answered"
    FAILED = "applied, answered with 500"
    UNANSWERED = "applied, not answered"
    REPEATED = "applied twice, answered as the second time"
    LATE = "not answered, applied later"
    CUT = "applied, half of the answer"


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a client, whole."""

    method: str
    path: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


FaultOf = Callable[[Request], Fault | None]


class FaultyStore:
    """The proxy, on threads of this process. A context manager."""

    def __init__(self, upstream: str, fault_of: FaultOf) -> None:
        self._fault_of = fault_of
        self._seen = 0
        self._upstream = urlsplit(upstream)
        self._late: list[tuple[int, Request]] = []
        self._lock = threading.Lock()
        store = self

        class Handler(_Handler):
            proxy = store

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.close_all()

    def settle(self) -> None:
        """What was late comes to the store now."""
        with self._lock:
            late, self._late = self._late, []
        for _, request in late:
            self._apply(request)

    def handle(self, request: Request) -> Answer | None:
        """The answer, or None for none; a body that is shorter than its length says is a cut one."""
        self._overdue()
        fault = self._fault_of(request)
        answer = None
        if fault in (Fault.DROPPED, Fault.LATE, Fault.REFUSED):
            if fault is Fault.LATE:
                with self._lock:
                    self._late.append((self._seen + LATE_BY, request))
        else:
            answer = self._apply(request)
            if fault is Fault.REPEATED:
                answer = self._apply(request)
        with self._lock:
            self._seen += 1
        if fault is Fault.REFUSED:
            return _error(503, "SlowDown")
        if fault is Fault.FAILED:
            return _error(500, "InternalError")
        if fault is Fault.CUT and answer is not None and answer.body:
            return Answer(answer.status, answer.headers, answer.body[: len(answer.body) // 2])
        return None if fault in (Fault.DROPPED, Fault.LATE, Fault.UNANSWERED, Fault.CUT) else answer

    def _overdue(self) -> None:
        with self._lock:
            due = [each for at, each in self._late if at <= self._seen]
            self._late = [pair for pair in self._late if pair[0] > self._seen]
        for request in due:
            self._apply(request)

    def _apply(self, request: Request) -> Answer:
        host, port = self._upstream.hostname, self._upstream.port
        assert host is not None
        connection = http.client.HTTPConnection(host, port, timeout=UPSTREAM_TIMEOUT_S)
        try:
            headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
            connection.request(request.method, request.path, request.body, {"Host": f"{host}:{port}", **headers})
            response = connection.getresponse()
            return Answer(response.status, response.getheaders(), response.read())
        finally:
            connection.close()


def _error(status: int, code: str) -> Answer:
    body = f"<Error><Code>{code}</Code><Message>no luck</Message></Error>".encode()
    return Answer(status, [("content-type", "application/xml"), ("content-length", str(len(body)))], body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gave up, or was killed, is what this is for."""

    def close_all(self) -> None:
        for each in list(self._open):
            each.close()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes: each answer would wait for a delayed acknowledgement
    proxy: FaultyStore

    def any_method(self) -> None:
        answer = self.proxy.handle(Request(self.command, self.path, dict(self.headers.items()), self._body()))
        if answer is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        told = {name.lower(): value for name, value in answer.headers}
        length = (
            int(told["content-length"]) if self.command == "HEAD" and "content-length" in told else len(answer.body)
        )
        if self.command != "HEAD" and int(told.get("content-length", length)) > length:  # a cut one
            length = int(told["content-length"])
            self.close_connection = True
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _body(self) -> bytes:
        if "chunked" not in (self.headers.get("transfer-encoding") or "").lower():
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = any_method  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Silent."""
