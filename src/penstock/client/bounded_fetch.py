"""Asks one URL, or reads a file, and lets the other side neither take for ever nor give without end.

    data = fetch("https://login.example.com/keys", limits=FetchLimits(...))

Blocks: call it in a thread. A redirect is an error, since where it leads was not allowed; there are no proxies, no
cookies and no compression. All of it has one deadline: a timer cuts the connection, also one that dribbles.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import stat
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from penstock.client.limits import FETCH_CHUNK_BYTES, FETCH_DEADLINE_MS
from penstock.client.tls import client_context, read_material
from penstock.config.broker.tls import TlsSettings
from penstock.config.oauthbearer import Texts

OK = (http.client.OK, http.client.CREATED)
LATER = (408, 425, 429)
"""Answers that say: try again."""


class FetchFailed(Exception):
    """What was asked for did not come. `again`: another try may do better. `body`: what a server said beside it."""

    def __init__(self, message: str, *, again: bool, body: bytes = b"") -> None:
        super().__init__(message)
        self.again = again
        self.body = body


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How long connecting and each silence may take, and all together, in ms; and how large what comes may be."""

    bytes_max: int
    connect_ms: int = 10_000
    read_ms: int = 10_000
    all_ms: int = FETCH_DEADLINE_MS


def fetch(
    url: str,
    limits: FetchLimits,
    *,
    tls: Texts = (),
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """What a URL has; with a `body` it is posted there. `tls`: settings by name for the connection.

    Raises FetchFailed; ConfigError for stores that cannot be read.
    """
    parts = urlsplit(url)
    if parts.scheme.lower() == "file":
        return read_file(unquote(parts.path), limits.bytes_max)
    context = tls_context(tls) if parts.scheme.lower() == "https" else None
    asking = Asking(parts, limits, context)
    try:
        return asking.ask("GET" if body is None else "POST", body, dict(headers or {}))
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason or error
        raise FetchFailed(f"the TLS connection to {parts.netloc} failed: {reason}", again=True) from None
    except (OSError, http.client.HTTPException) as error:
        why = f"no answer within {limits.all_ms} ms" if asking.late else f"{error or type(error).__name__}"
        raise FetchFailed(f"{parts.netloc} cannot be asked: {why}", again=True) from None
    finally:
        asking.close()


def tls_context(tls: Texts) -> ssl.SSLContext:
    """What the connection is made with. Reads files. Raises ConfigError."""
    declared = TlsSettings.by_name()
    given = {declared[name].attribute: declared[name].parse(text) for name, text in tls}
    settings = TlsSettings({**vars(TlsSettings.defaults()), **given})
    return client_context(settings, read_material(settings))


def read_file(path: str, bytes_max: int) -> bytes:
    """A file's content. Raises FetchFailed, also for what is no ordinary file."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FetchFailed(f"{path} is no ordinary file", again=False)
            data = file.read(bytes_max + 1)
    except (OSError, ValueError) as error:
        raise FetchFailed(f"{path} cannot be read: {error}", again=True) from None
    if len(data) > bytes_max:
        raise FetchFailed(f"{path} is larger than {bytes_max} bytes", again=False)
    return data


class Asking:
    """One request and its answer. `late`: the deadline has passed, and the connection was cut."""

    def __init__(self, parts: SplitResult, limits: FetchLimits, context: ssl.SSLContext | None) -> None:
        assert parts.hostname is not None, "the URL was checked"
        self.late = False
        self._parts = parts
        self._limits = limits
        self._context = context
        self._sock: socket.socket | None = None  # the connection gives its own away with the answer
        self._connection = (
            http.client.HTTPConnection(parts.hostname, parts.port)
            if context is None
            else http.client.HTTPSConnection(parts.hostname, parts.port, context=context)
        )
        self._timer = threading.Timer(limits.all_ms / 1000, self._cut)
        self._timer.daemon = True

    def ask(self, method: str, body: bytes | None, headers: dict[str, str]) -> bytes:
        """The answer's body. Raises FetchFailed, OSError, HTTPException."""
        connection, parts = self._connection, self._parts
        self._timer.start()
        self._connect().settimeout(self._limits.read_ms / 1000)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body, {"Accept": "application/json", "Cache-Control": "no-cache", **headers})
        with connection.getresponse() as response:
            data = self._body(response)
        if response.status not in OK:
            again = response.status >= http.client.INTERNAL_SERVER_ERROR or response.status in LATER
            raise FetchFailed(f"{parts.netloc} answers {response.status}", again=again, body=data)
        return data

    def _connect(self) -> socket.socket:
        """The connection, which can be cut from the first byte of its handshake on."""
        connection = self._connection
        sock = socket.create_connection((connection.host, connection.port), self._limits.connect_ms / 1000)
        if self._context is None:
            self._sock = sock
        else:
            name = self._parts.hostname
            secured = self._context.wrap_socket(sock, server_hostname=name, do_handshake_on_connect=False)
            self._sock = secured
            if not self.late:
                secured.do_handshake()
        if self.late:
            raise TimeoutError
        connection.sock = self._sock
        return self._sock

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        """The body, as long as it is not too large: what follows is never read."""
        chunks, size = [], 0
        while chunk := response.read1(FETCH_CHUNK_BYTES):
            size += len(chunk)
            if size > self._limits.bytes_max:
                raise FetchFailed(
                    f"the answer of {self._parts.netloc} is larger than {self._limits.bytes_max} bytes", again=False
                )
            chunks.append(chunk)
        if self.late:
            raise TimeoutError
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        return b"".join(chunks)

    def _cut(self) -> None:
        self.late = True
        if self._sock is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the connection."""
        self._timer.cancel()
        self._connection.close()
        if self._sock is not None:
            self._sock.close()
