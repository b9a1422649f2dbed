"""A broker of one request kind for tests of clients: TLS or not, SASL or not, and Metadata once somebody is logged in.

It is asyncio and the exchanges of `security`, as a node's are; it closes the connection where Kafka does.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from penstock.config.sasl import PLAIN
from penstock.errors import ErrorCode
from penstock.protocol.api import API_BY_NUMBER, APIS, ApiKey
from penstock.protocol.frames import decode_request, encode_response
from penstock.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from penstock.protocol.messages.metadata_response import MetadataResponse
from penstock.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from penstock.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from penstock.security.plain import PlainServer
from penstock.security.sasl import LoginFailed, SaslServer
from penstock.security.scram import ScramCredential, ScramMechanism, ScramServer, credential_of

ITERATIONS = 4096


class SecuredBroker:
    """Serves on the loopback; `async with`. `logins` are who logged in, in order; `handshakes` counts SaslHandshake."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        users: Mapping[str, str] | None = None,
        mechanisms: tuple[str, ...] = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512"),
        lifetime_ms: int = 0,
    ) -> None:
        self._tls = tls
        self.users = users
        self._mechanisms = mechanisms
        self._lifetime_ms = lifetime_ms
        self.logins: list[str] = []
        self.handshakes = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._serving: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> SecuredBroker:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._serving.values():
            writer.transport.abort()
        await asyncio.gather(*self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving[task] = writer
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._answer_all(reader, writer)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        finally:
            del self._serving[task]

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        login: SaslServer | None = None
        logged_in = self.users is None
        while True:
            size = int.from_bytes(await reader.readexactly(4), "big")
            if size > 1 << 20:
                return
            header, body = decode_request(memoryview(await reader.readexactly(size)))
            key = ApiKey(header.api_key)
            message: Any
            if key is ApiKey.API_VERSIONS:
                message = api_versions()
            elif key is ApiKey.SASL_HANDSHAKE:
                self.handshakes += 1
                message = self._handshake(body.mechanism)
                login = None if message.error_code else self._login(body.mechanism)
            elif key is ApiKey.SASL_AUTHENTICATE and login is not None:
                message = self._authenticate(login, bytes(body.auth_bytes))
                logged_in = login.complete
            elif logged_in and key is ApiKey.METADATA:
                message = MetadataResponse(cluster_id=f"{self.logins[-1] if self.logins else 'nobody'}")
            else:
                return  # as Kafka: what may not be asked ends the connection
            version = header.api_version
            if key is ApiKey.API_VERSIONS:
                version = min(version, 3)
            for chunk in encode_response(APIS[key], version, header.correlation_id, message):
                writer.write(chunk)
            await writer.drain()
            if getattr(message, "error_code", 0):
                return

    def _handshake(self, mechanism: str) -> SaslHandshakeResponse:
        if self.users is None:
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
        code = ErrorCode.NONE if mechanism in self._mechanisms else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return SaslHandshakeResponse(error_code=code, mechanisms=list(self._mechanisms))

    def _login(self, mechanism: str) -> SaslServer:
        users = self.users or {}
        if mechanism == PLAIN:
            return PlainServer(users)
        scram = ScramMechanism.named(mechanism)
        assert scram is not None

        def look_up(user: str, is_token: bool) -> ScramCredential | None:
            if user not in users or is_token:
                return None
            salted = hashlib.pbkdf2_hmac(scram.hash_name, users[user].encode(), b"salt", ITERATIONS)
            return credential_of(scram, b"salt", salted, ITERATIONS)

        return ScramServer(scram, "of-the-server", look_up, b"decoy")

    def _authenticate(self, login: SaslServer, token: bytes) -> SaslAuthenticateResponse:
        try:
            answer = login.evaluate(token)
        except LoginFailed as failed:
            told = failed.told or f"Authentication failed, invalid credentials with {login.mechanism}"
            return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=told)
        if login.complete:
            self.logins.append(login.user)
        lifetime_ms = self._lifetime_ms if login.complete else 0
        return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms)


def api_versions() -> ApiVersionsResponse:
    """The four APIs that it has."""
    keys = (ApiKey.METADATA, ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE)
    served = [ApiVersion(api_key=key, min_version=0, max_version=API_BY_NUMBER[key].max_version) for key in keys]
    return ApiVersionsResponse(api_keys=served)


def server_context(key_file: str, *, trust_file: str | None = None) -> ssl.SSLContext:
    """A server's TLS context from PEM files; with a trust file clients must show a certificate from there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(key_file)
    if trust_file is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(trust_file)
    return context
