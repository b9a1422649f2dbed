"""An issuer of tokens: keys, what it signs with them, and an HTTP server with a JWKS and a token endpoint.

    issuer = Issuer()
    issuer.token("alice")
    with issuer.serving():
        issuer.jwks_url, issuer.token_url

What its server does can be changed: `broken` answers 500, `huge` and `slow` never end, `dribbling` sends a byte at a
time.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from penstock.config.jaas import OAUTHBEARER_MODULE
from penstock.config.oauthbearer import ALLOWED_URLS, TokenRules

ISSUER = "https://issuer.example.com"
AUDIENCE = "kafka"
CLIENT, SECRET = "a-client", "client-secret-canary"
RULES = TokenRules(issuer=ISSUER, audiences=(AUDIENCE,))
HUGE_BYTES = 1 << 30
RSA = RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"})
"""Made once: it takes a while."""


def encoded(part: Any) -> str:
    """A part of a token."""
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unsigned(claims: Mapping[str, Any], **header: Any) -> str:
    """A token that nobody has signed."""
    return f"{encoded({'alg': 'none', **header})}.{encoded(dict(claims))}."


class Issuer:
    """See the module's head. `asked`: the paths that were, in order; `lifetime_s`: of the tokens it gives;
    `mends_after`: after so many questions it does what it should.
    """

    def __init__(self) -> None:
        self.keys: list[RSAKey | ECKey] = [RSA, self.new_key("ec")]
        self.mode = ""
        self.mends_after = 1 << 30
        self.lifetime_s = 3600
        self.asked: list[str] = []
        self.refuses: Mapping[str, str] = {}
        self._server: ThreadingHTTPServer | None = None
        self._scheme = "http"
        self._over = threading.Event()

    @staticmethod
    def new_key(key_id: str, curve: Any = "P-256") -> ECKey:
        """A key, which is not among the issuer's yet."""
        return ECKey.generate_key(curve, {"kid": key_id, "use": "sig"})

    @property
    def jwks(self) -> bytes:
        """The public keys."""
        return json.dumps({"keys": [key.as_dict(private=False) for key in self.keys]}).encode()

    def claims(self, subject: str = "alice", **changes: Any) -> dict[str, Any]:
        """Claims of a good token, with changes; None leaves one out."""
        now_s = int(time.time())
        good = {
            "iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": now_s, "exp": now_s + self.lifetime_s,
        }  # fmt: skip
        return {name: value for name, value in {**good, **changes}.items() if value is not None}

    def token(
        self, subject: str = "alice", *, algorithm: str = "ES256", key: Any = None, header: Any = None, **changes: Any
    ) -> str:
        """A signed token; `key` by default the issuer's own for the algorithm, `header` what stands beside `alg`."""
        if key is None:
            key = self.keys[0] if algorithm[0] in "RP" else self.keys[1]
        head = {"alg": algorithm, "kid": key.kid, **(header or {})}
        head = {name: value for name, value in head.items() if value is not None}
        registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
        claims = json.dumps(self.claims(subject, **changes))
        return jws.serialize_compact(head, claims, key, algorithms=[algorithm], registry=registry)

    @contextmanager
    def serving(self, tls: ssl.SSLContext | None = None) -> Iterator[Issuer]:
        """Serves on the loopback."""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.answer(self, "")

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                issuer.answer(self, self.rfile.read(size).decode())

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._over.clear()
        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            server.block_on_close = False
            self._server, self._scheme = server, "http" if tls is None else "https"
            if tls is not None:
                server.socket = tls.wrap_socket(server.socket, server_side=True)
            thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
            thread.start()
            try:
                yield self
            finally:
                self._over.set()
                server.shutdown()
                thread.join()

    @property
    def base(self) -> str:
        assert self._server is not None
        return f"{self._scheme}://localhost:{self._server.server_address[1]}"

    @property
    def jwks_url(self) -> str:
        return f"{self.base}/jwks"

    @property
    def token_url(self) -> str:
        return f"{self.base}/token"

    def answer(self, handler: BaseHTTPRequestHandler, body: str) -> None:
        """Answers one request."""
        self.asked.append(handler.path)
        if len(self.asked) > self.mends_after:
            self.mode = ""
        with suppress(OSError):
            if self.mode == "broken":
                self._send(handler, 500, b"{}")
            elif self.mode == "elsewhere":
                handler.send_response(302)
                handler.send_header("Location", self.jwks_url)
                handler.end_headers()
            elif self.mode in ("huge", "dribbling", "slow"):
                self._endless(handler)
            elif handler.path == "/jwks":
                self._send(handler, 200, self.jwks)
            else:
                self._token(handler, body)

    def _token(self, handler: BaseHTTPRequestHandler, body: str) -> None:
        wanted = "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        form = parse_qs(body)
        if self.refuses:
            self._send(handler, 400, json.dumps(self.refuses).encode())
        elif handler.headers.get("Authorization") != wanted or form.get("grant_type") != ["client_credentials"]:
            self._send(handler, 401, b'{"error":"invalid_client","error_description":"who is that?"}')
        else:
            token = self.token(CLIENT, scope=form.get("scope", [None])[0])
            self._send(handler, 200, json.dumps({"access_token": token, "token_type": "Bearer"}).encode())

    def _endless(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        if self.mode == "huge":
            handler.send_header("Content-Length", str(HUGE_BYTES))
        handler.end_headers()
        if self.mode == "slow":
            self._over.wait(60)
            return
        piece = b" " * (1 << 16) if self.mode == "huge" else b" "
        for _ in range(HUGE_BYTES // len(piece)):
            handler.wfile.write(piece)
            if self.mode == "dribbling" and self._over.wait(0.01):
                return

    @staticmethod
    def _send(handler: BaseHTTPRequestHandler, status: int, data: bytes) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)


def listener_properties(jwks_url: str, listener: str = "secured", **more: str) -> dict[str, str]:
    """Settings by which a listener takes the issuer's tokens; `more` with `__` for a point."""
    prefix = f"listener.name.{listener}.oauthbearer.sasl."
    given = {
        f"{prefix}jaas.config": f"{OAUTHBEARER_MODULE} required;",
        f"{prefix}oauthbearer.jwks.endpoint.url": jwks_url,
        f"{prefix}oauthbearer.expected.issuer": ISSUER,
        f"{prefix}oauthbearer.expected.audience": AUDIENCE,
        ALLOWED_URLS: jwks_url,
    }
    return {**given, **{name.replace("__", "."): text for name, text in more.items()}}


def client_properties(
    url: str, options: str = f'clientId="{CLIENT}" clientSecret="{SECRET}"', **more: str
) -> dict[str, str]:
    """Properties of a client that gets a token at a URL; `more` with `__` for a point."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{OAUTHBEARER_MODULE} required {options};",
        "sasl.oauthbearer.token.endpoint.url": url,
        **{name.replace("__", "."): text for name, text in more.items()},
    }
