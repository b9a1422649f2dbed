"""The mechanism GSSAPI (RFC 4752): both sides prove by Kerberos tickets who they are.

The security context itself (RFC 2743) is a library's; `Kerberos` is what the two sides here need of one. Its steps read
keys, replay caches and tickets, and may ask a KDC, so each step of an exchange is a `Slow`, run where it may block.
A connection has one step under way at most, so the state of an exchange belongs to that step while it runs.

    CONTEXT   tokens of the context, until it stands
    READY     (server) the client's empty answer to the last of them; what follows is wrapped
    OFFERED   which layers there are, and the client's choice: none, as in Kafka; encryption is TLS's
    DONE

The name of an authorization identity that a client may add is ignored, as by Kafka: who has logged in is who the ticket
says.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, auto
from functools import partial
from typing import Protocol

from penstock.config.broker.sasl import GSSAPI
from penstock.config.kerberos import KerberosLogin
from penstock.errors import ConfigError
from penstock.security.limits import GSSAPI_CONTEXT_TOKENS_MAX, SASL_MESSAGE_MAX_CHARACTERS
from penstock.security.sasl import LoginFailed, LoginInterrupted, Slow

NO_LAYER = 1
OFFER = bytes([NO_LAYER, 0, 0, 0])
"""The only layer is none, and nothing is received in it."""
CHOICE_MIN_BYTES = 4


class GssError(Exception):
    """A security context that cannot go on. `retriable`: nothing is wrong with the credentials, as far as is known, so
    that the client may try again: a replay, or a ticket that is not valid yet.
    """

    def __init__(self, message: str, *, retriable: bool = False) -> None:
        super().__init__(message)
        self.retriable = retriable


class GssContext(Protocol):
    """One side's security context. Every method may block, and raises GssError.

    Attributes:
        complete: whether it stands.
        peer: the name of the other side, once it stands.
        expires_at_ms: when the ticket ends, in milliseconds since the epoch; None: not at all.
    """

    @property
    def complete(self) -> bool: ...

    @property
    def peer(self) -> str: ...

    @property
    def expires_at_ms(self) -> int | None: ...

    def step(self, token: bytes) -> bytes:
        """The token that answers one; empty if there is none."""

    def wrap(self, data: bytes) -> bytes:
        """Data that the other side can be sure about."""

    def unwrap(self, token: bytes) -> bytes:
        """The data of the other side."""


class Kerberos(Protocol):
    """What makes contexts. `default_realm`: of this machine; empty if it has none."""

    @property
    def default_realm(self) -> str: ...

    def acceptor(self, login: KerberosLogin) -> GssContext:
        """The server's side."""

    def initiator(self, login: KerberosLogin, host: str) -> GssContext:
        """The client's side, with a service on a host."""


class State(IntEnum):
    """See the module's head."""

    CONTEXT = auto()
    READY = auto()
    OFFERED = auto()
    DONE = auto()


class GssapiServer:
    """The server's side. `open_context` makes its context, and may block; `ends_with_ticket`: the login does."""

    mechanism = GSSAPI
    token_authenticated = False

    def __init__(self, open_context: Callable[[], GssContext], *, ends_with_ticket: bool) -> None:
        self.complete = False
        self.user = ""
        self.expires_at_ms: int | None = None
        self._open_context = open_context
        self._ends_with_ticket = ends_with_ticket
        self._context: GssContext | None = None
        self._state = State.CONTEXT
        self._tokens = 0

    def evaluate(self, token: bytes) -> Slow:
        """The step that answers a token. Raises LoginFailed."""
        if self.complete or len(token) > SASL_MESSAGE_MAX_CHARACTERS:
            raise LoginFailed("a GSSAPI token that is too long, or after the end")
        return Slow(partial(guarded, partial(self._step, token)))

    def _step(self, token: bytes) -> bytes:
        if self._context is None:
            self._context = self._open_context()
        context = self._context
        if self._state is State.CONTEXT:
            self._tokens += 1
            if self._tokens > GSSAPI_CONTEXT_TOKENS_MAX:
                raise LoginFailed("a GSSAPI context that takes too many tokens")
            answer = context.step(token)
            if context.complete:
                self.user = context.peer
                self._state = State.READY
                return answer or self._offer(context)
            return answer
        if self._state is State.READY:
            if token:
                raise LoginFailed("a GSSAPI token where an empty one must be")
            return self._offer(context)
        choice = context.unwrap(token)
        if len(choice) < CHOICE_MIN_BYTES or choice[0] != NO_LAYER:
            raise LoginFailed("a GSSAPI client that wants a security layer: encryption is TLS's")
        self._state = State.DONE
        self.expires_at_ms = context.expires_at_ms if self._ends_with_ticket else None
        self._context = None
        self.complete = True
        return b""

    def _offer(self, context: GssContext) -> bytes:
        self._state = State.OFFERED
        return context.wrap(OFFER)


class GssapiClient:
    """The client's side. `open_context` makes its context, and may ask a KDC."""

    mechanism = GSSAPI

    def __init__(self, open_context: Callable[[], GssContext]) -> None:
        self.complete = False
        self._open_context = open_context
        self._context: GssContext | None = None
        self._state = State.CONTEXT

    def first(self) -> Slow:
        """The step that makes the first token of the context."""
        return Slow(partial(guarded, partial(self._step, b"")))

    def evaluate(self, answer: bytes) -> Slow | None:
        """The step that makes the next token, or None if the server has let us in. Raises LoginFailed."""
        if self._state is State.DONE:
            if answer:
                raise LoginFailed("the server goes on after the end of GSSAPI")
            self.complete = True
            return None
        if len(answer) > SASL_MESSAGE_MAX_CHARACTERS:
            raise LoginFailed("the server's GSSAPI token is too long")
        return Slow(partial(guarded, partial(self._step, answer)))

    def _step(self, answer: bytes) -> bytes:
        if self._context is None:
            self._context = self._open_context()
        context = self._context
        if not context.complete:
            return context.step(answer)
        offer = context.unwrap(answer)
        if len(offer) != len(OFFER) or not offer[0] & NO_LAYER:
            raise LoginFailed("the server wants a security layer of GSSAPI, which is not here")
        self._state = State.DONE
        self._context = None
        return context.wrap(OFFER)

    def derived(self, key: bytes) -> bytes:
        """GSSAPI derives no keys."""
        raise LoginFailed("GSSAPI derives no keys")


def guarded(step: Callable[[], bytes]) -> bytes:
    """Runs a step. Raises LoginFailed."""
    try:
        return step()
    except GssError as error:
        kind = LoginInterrupted if error.retriable else LoginFailed
        raise kind(f"GSSAPI: {error}") from None
    except ConfigError as error:  # what it needs is not installed
        raise LoginFailed(str(error)) from None
