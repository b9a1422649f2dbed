"""How a connection of the client logs in: SaslHandshake 1 names the mechanism, SaslAuthenticate carries its tokens.

The exchange itself is of `security` (`SaslClient`); deriving a key from a password takes up to half a second and runs
in a thread, and so does getting a token (OAUTHBEARER). A refusal is final: Kafka's clients do not try it again either
(AuthenticationError).

A broker may say how long a login holds (KIP-368). Then the connection logs in again before that, between two requests,
at a moment drawn from 85 to 95 % of that time so that not all connections do it at once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from penstock.client.bearer_tokens import BearerToken, current, refused
from penstock.client.limits import CLIENT_LOGIN_TOKENS
from penstock.client.security import Login
from penstock.config.sasl import PLAIN
from penstock.errors import AuthenticationError, ErrorCode
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from penstock.security.gssapi import GssapiClient
from penstock.security.oauthbearer.exchange import OAuthBearerClient
from penstock.security.plain import PlainClient
from penstock.security.sasl import Derivation, LoginFailed, SaslClient, Slow
from penstock.security.scram import ScramClient, ScramMechanism

NONCE_BYTES = 24
AGAIN_FROM, AGAIN_TO = 0.85, 0.95
"""Of the time that a login holds, when to log in again: as Kafka's clients."""

Ask = Callable[[Any], Awaitable[Any]]


async def log_in(ask: Ask, login: Login, address: str) -> int:
    """Logs in. Returns for how many ms the login holds, 0 for as long as the connection.

    Args:
        ask: sends a request and gives its answer.
        login: how, as whom.
        address: of the broker, for errors.

    Raises AuthenticationError, UnreachableError, ProtocolError.
    """
    bearer = None if login.source is None else await current(login.source)
    shaken = await ask(SaslHandshakeRequest(mechanism=login.mechanism))
    if shaken.error_code != ErrorCode.NONE:
        raise handshake_refusal(address, login.mechanism, ErrorCode.of_peer(shaken.error_code), shaken.mechanisms)
    client = exchange(login, address.rpartition(":")[0].strip("[]"), bearer)
    answer = None
    try:
        token: bytes | None = await ready(client.first())
    except LoginFailed as failed:
        raise refusal(address, login, str(failed), by_broker=False) from None
    for _ in range(CLIENT_LOGIN_TOKENS):
        if token is None:
            assert answer is not None
            return int(answer.session_lifetime_ms)
        answer = await ask(SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code != ErrorCode.NONE:
            if login.source is not None:
                refused(login.source)
            raise refusal(address, login, answer.error_message or ErrorCode.of_peer(answer.error_code).name)
        try:
            token = await following(client, bytes(answer.auth_bytes))
        except LoginFailed as failed:
            raise refusal(address, login, str(failed)) from None
    raise refusal(address, login, f"the exchange does not end after {CLIENT_LOGIN_TOKENS} tokens")


async def following(client: SaslClient, answer: bytes) -> bytes | None:
    """The token after an answer, or None if the login is over. Raises LoginFailed."""
    token = client.evaluate(answer)
    if isinstance(token, Derivation):
        return client.derived(await asyncio.to_thread(token.derive))
    return None if token is None else await ready(token)


async def ready(token: bytes | Slow) -> bytes:
    """A token, after the step that makes it. Raises LoginFailed."""
    return await asyncio.to_thread(token.run) if isinstance(token, Slow) else token


def exchange(login: Login, host: str, bearer: BearerToken | None = None) -> SaslClient:
    """The client's side of the mechanism, with a broker at a host; `bearer` is the token of OAUTHBEARER."""
    if login.kerberos is not None:
        from penstock.client.kerberos import LibraryKerberos

        return GssapiClient(partial(LibraryKerberos().initiator, login.kerberos, host))
    if login.source is not None:
        assert bearer is not None, "whoever logs in by a token has got one"
        return OAuthBearerClient(bearer.text, login.source.extensions)
    if login.mechanism == PLAIN:
        return PlainClient(login.username, login.password)
    mechanism = ScramMechanism.named(login.mechanism)
    assert mechanism is not None, "client_security has checked it"
    return ScramClient(
        mechanism, login.username, login.password, secrets.token_urlsafe(NONCE_BYTES), token=login.is_token
    )


def again_after_s(lifetime_ms: int, drawn: float) -> float:
    """When a login is to be renewed, in seconds; `drawn` is a random number of [0, 1)."""
    return lifetime_ms / 1000 * (AGAIN_FROM + (AGAIN_TO - AGAIN_FROM) * drawn)


def handshake_refusal(address: str, mechanism: str, code: ErrorCode, served: list[str]) -> AuthenticationError:
    """The error for a refused SaslHandshake."""
    if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        return AuthenticationError(
            f"{address} does not take logins by {mechanism}, but by {', '.join(served) or 'none'}\n"
            "  sasl.mechanism must be one of those"
        )
    if code is ErrorCode.ILLEGAL_SASL_STATE:
        return AuthenticationError(
            f"{address} takes no logins: the listener has no SASL\n"
            "  security.protocol must be as the listener's is: PLAINTEXT or SSL"
        )
    return AuthenticationError(f"{address} refuses a login by {mechanism}: {code.name}")


def refusal(address: str, login: Login, why: str, *, by_broker: bool = True) -> AuthenticationError:
    """The error for a login that the broker refused, or whose answers are wrong, or that could not begin."""
    if login.kerberos is not None:
        what = f"{address} refuses the login" if by_broker else "there is no ticket for the login"
        return AuthenticationError(
            f"{what} of {login.username or 'the ticket cache'} by GSSAPI: {why}\n"
            "  sasl.jaas.config says whose key or tickets to use, sasl.kerberos.service.name what the broker is called"
        )
    if login.source is not None:
        return AuthenticationError(
            f"{address} refuses the token of {login.source.client_id or login.source.url} by {login.mechanism}: {why}\n"
            "  the broker's log says why; issuer, audience and scope must be what it expects"
        )
    return AuthenticationError(
        f"{address} refuses the login of {login.username} by {login.mechanism}: {why}\n"
        "  sasl.jaas.config has the name and the password, sasl.mechanism how they are checked"
    )
