"""One connection to one broker: requests out, responses in, many in flight, answered in order of correlation id.

A broker that answers with `throttle_time_ms` reads nothing more of the connection for that time (KIP-219): requests
wait here until then, as in Kafka's clients, and what is on its way may take as much longer.

Opening it means, as far as `security` wants it: TLS, then ApiVersions, then a login. If that login ends, requests wait
while the connection logs in again.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
from typing import Any

from penstock.client.limits import CLIENT_RESPONSE_BYTES
from penstock.client.refused import closed_in_handshake, tls_refusal
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.client.transport import dial
from penstock.errors import AuthenticationError, ProtocolError, UnreachableError, UnsupportedVersionError
from penstock.protocol.api import APIS, SOFTWARE_NAME, ApiKey
from penstock.protocol.frames import decode_response, encode_request, foreign_protocol
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest

MUTE_LOOK_S = 0.5
"""While the broker does not read: how often it is looked whether the connection has ended."""


class NoAnswer(UnreachableError):
    """A request had no answer in time; its connection is closed."""


class BrokerConnection:
    """A connection with negotiated versions. Not shared between event loops.

    Attributes:
        versions: what the broker serves of each API. features: the finalized levels as of when it was opened.
    """

    def __init__(
        self, host: str, port: int, client_id: str, timeout_ms: int, security: ClientSecurity = UNSECURED
    ) -> None:
        self.address = f"{host}:{port}"
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        self._host, self._port = host, port
        self._client_id = client_id
        self._timeout_s = timeout_ms / 1000
        self._transport: asyncio.Transport | None = None
        self._correlation_id = 0
        self._waiting: dict[int, tuple[ApiKey, int, asyncio.Future[Any]]] = {}
        self._failure: Exception | None = None
        self._security = security
        self._logging_in = asyncio.Lock()
        self._log_in_at = float("inf")
        self._is_used = False
        self._muted_until = 0.0

    async def open(self, timeout_ms: int | None = None) -> None:
        """Connects, asks for the broker's API versions and logs in.

        Raises UnreachableError, AuthenticationError, ConfigError for a key store that cannot be read.
        """
        timeout_s = self._timeout_s if timeout_ms is None else timeout_ms / 1000
        self._transport = await self._dial(timeout_s)
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version="0")
        try:
            answer = await self._ask(request, version=3, timeout_ms=round(timeout_s * 1000))
        except NoAnswer:
            raise UnreachableError(
                f"{self.address} accepts connections and did not answer in {timeout_s:.0f} s\n"
                "  is it the address of a broker's listener?"
            ) from None
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        self.features = {each.name: each.max_version_level for each in answer.finalized_features}
        if self._security.login is not None:
            await self._log_in()

    async def _dial(self, timeout_s: float) -> asyncio.Transport:
        """Connects, with TLS if the listener has it. Raises UnreachableError, AuthenticationError, ConfigError."""
        context = await asyncio.to_thread(self._security.context) if self._security.has_tls else None
        try:
            async with asyncio.timeout(timeout_s):
                return await dial(self._host, self._port, self, context)
        except ssl.SSLError as error:
            raise tls_refusal(self.address, self._host, error) from None
        except (OSError, TimeoutError) as error:
            if context is not None and isinstance(error, ConnectionResetError):
                raise closed_in_handshake(self.address) from None
            raise UnreachableError(f"cannot reach {self.address}: {reason_of(error)}") from None
        except ValueError:  # of a name that neither the resolver nor TLS can take, such as one with a label too long
            raise UnreachableError(f"cannot reach {self.address}: {self._host} cannot be the name of a host") from None

    async def _log_in(self) -> None:
        """Logs in, at first or again. Raises AuthenticationError, which ends the connection."""
        from penstock.client.login import again_after_s, log_in

        login = self._security.login
        assert login is not None
        if ApiKey.SASL_HANDSHAKE not in self.versions:
            raise AuthenticationError(f"{self.address} takes no logins: the listener has no SASL")
        began = asyncio.get_running_loop().time()
        try:
            lifetime_ms = await log_in(self._ask, login, self.address)
        except AuthenticationError as error:
            self.lost(error)
            raise
        self._log_in_at = began + again_after_s(lifetime_ms, random.random()) if lifetime_ms else float("inf")

    async def _stay_logged_in(self) -> None:
        """Logs in again unless somebody has meanwhile."""
        async with self._logging_in:
            if self._failure is None and asyncio.get_running_loop().time() >= self._log_in_at:
                await self._log_in()

    @property
    def closed(self) -> bool:
        """Whether the connection can no longer be used."""
        return self._transport is None or self._failure is not None

    def version_for(self, key: ApiKey, at_most: int | None = None) -> int:
        """Highest version that both sides know. Raises UnsupportedVersionError naming the API and both ranges."""
        api = APIS[key]
        low, high = self.versions.get(key, (0, -1))
        version = min(high, api.max_version if at_most is None else min(at_most, api.max_version))
        if version < max(low, api.min_version):
            theirs = f"{low}-{high}" if high >= 0 else "nothing"
            raise UnsupportedVersionError(
                f"{self.address} serves {theirs} of {api.name}; this client knows {api.min_version}-{api.max_version}"
            )
        return version

    async def send(
        self,
        message: Any,
        *,
        version: int | None = None,
        at_most: int | None = None,
        timeout_ms: int | None = None,
        answered: bool = True,
    ) -> Any:
        """Sends a request message and waits for its response message.

        `version` forces one, `at_most` caps the negotiated one. `answered` is False for the one request that brokers
        leave without an answer, a produce with acks=0: None comes back when it is on its way.

        Raises UnreachableError, UnsupportedVersionError, ProtocolError, AuthenticationError if the login has ended and
        the broker accepts no other.
        """
        loop = asyncio.get_running_loop()
        while self._failure is None and (wait_s := self._muted_until - loop.time()) > 0:
            await asyncio.sleep(min(wait_s, MUTE_LOOK_S))
        if loop.time() >= self._log_in_at:
            await self._stay_logged_in()
        answer = await self._ask(message, version=version, at_most=at_most, timeout_ms=timeout_ms, answered=answered)
        self._is_used = True
        return answer

    async def _ask(
        self,
        message: Any,
        *,
        version: int | None = None,
        at_most: int | None = None,
        timeout_ms: int | None = None,
        answered: bool = True,
    ) -> Any:
        """`send`, whether logged in or not."""
        key = ApiKey(message.KEY)
        if version is None:
            version = self.version_for(key, at_most)
        if self._failure is not None:
            raise self._failure
        assert self._transport is not None, "open() first"
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        correlation_id = self._correlation_id
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        chunks = encode_request(APIS[key], version, correlation_id, self._client_id, message)
        self._transport.writelines(chunks)  # type: ignore[arg-type]  # a client sends no ranges of files
        if not answered:
            return None
        self._waiting[correlation_id] = (key, version, future)
        try:
            await self._answer(future, self._timeout_s if timeout_ms is None else timeout_ms / 1000)
        finally:
            self._waiting.pop(correlation_id, None)
            if future.done():
                future.exception()  # asyncio would log it, had this request been cancelled as the connection ended
        if not future.done():
            error = NoAnswer(f"{self.address} did not answer {APIS[key].name} in time")
            self.lost(error)  # as Kafka's clients do: a broker that hangs answers nothing else either
            raise error
        return future.result()

    async def _answer(self, future: asyncio.Future[Any], timeout_s: float) -> None:
        """Waits for an answer; longer while the broker does not read because of a quota."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        # not `asyncio.timeout`: when a process goes on that was stopped, time is up and the answer may be there
        await asyncio.wait([future], timeout=timeout_s)
        while not future.done() and (left_s := max(until, self._muted_until + timeout_s) - loop.time()) > 0:
            await asyncio.wait([future], timeout=left_s)

    def frame_received(self, frame: memoryview) -> None:
        """Handles one response. A response whose request was given up is dropped."""
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        entry = self._waiting.get(correlation_id)
        if entry is None:
            return
        key, version, future = entry
        try:
            _, message = decode_response(APIS[key], version, frame)
        except ProtocolError as error:
            self.lost(error)
            return
        throttle_time_ms = getattr(message, "throttle_time_ms", 0)
        if throttle_time_ms > 0:
            until = asyncio.get_running_loop().time() + throttle_time_ms / 1000
            self._muted_until = max(self._muted_until, until)
        if not future.done():
            future.set_result(message)

    def lost(self, error: Exception) -> None:
        """The connection has ended: fails all requests in flight with the reason."""
        if self._failure is None:
            self._failure = error
        for _, _, future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
        if self._transport is not None:
            self._transport.abort()

    def impossible(self, size_bytes: int) -> Exception:
        """The error for a response of an impossible size."""
        spoken = foreign_protocol(size_bytes)
        if spoken is None:
            return ProtocolError(f"a response of {size_bytes} bytes; at most {CLIENT_RESPONSE_BYTES}")
        if spoken == "TLS":
            remedy = "security.protocol must be as the listener's is: SSL or SASL_SSL"
        else:
            remedy = "give the address of a broker's listener"
        return UnreachableError(f"{self.address} speaks {spoken}, not Kafka's protocol\n  {remedy}")

    def hung_up(self, error: Exception | None) -> Exception:
        """Why the other side may have closed the connection."""
        if isinstance(error, ssl.SSLError):
            return tls_refusal(self.address, self._host, error)
        if self._is_used or (self.versions and self._security.login is not None):
            return UnreachableError(f"{self.address} closed the connection")
        if self.versions:
            return UnreachableError(
                f"{self.address} closed the connection at the first request\n"
                "  a listener that wants SASL does so: security.protocol must be as the listener's is, and "
                "sasl.mechanism and sasl.jaas.config say how to log in"
            )
        if self._security.has_tls:
            return closed_in_handshake(self.address)
        return UnreachableError(
            f"{self.address} closed the connection without an answer\n"
            "  a listener that wants TLS does so: security.protocol must be as the listener's is"
        )

    def close(self) -> None:
        """Closes the connection; requests in flight fail."""
        self.lost(UnreachableError(f"the connection to {self.address} was closed"))


def reason_of(error: OSError | TimeoutError) -> str:
    """Why there is no connection. A name with several addresses fails without an errno, with the errors of all."""
    if isinstance(error, socket.gaierror):
        return f"the name cannot be resolved ({(error.strerror or str(error)).lower()})"
    if error.errno is not None:
        return os.strerror(error.errno).lower()
    return "no answer" if isinstance(error, TimeoutError) else str(error).lower()
