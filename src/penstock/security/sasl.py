"""What all SASL mechanisms have in common: an exchange of tokens, as a state machine of its own on either side.

The server's side: `evaluate(token)` returns the answer; the login is over when `complete` is True, and `user` then says
who it was. The client's side: `first()` is the first token, `evaluate(answer)` returns the next one; it returns a
`Derivation` when a key must be derived first, which is slow: the caller runs `derive()` where it may block, gives the
key to `derived` and sends what that returns. It returns None when the login is over.

Where either side has to reach the world for a token, it gives a `Slow`: the caller runs that where it may block, and
sends what it returns.

Neither draws randomness, reads a clock or keeps a connection; nonces are given. `LoginFailed` ends an exchange.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import pbkdf2_hmac
from typing import Protocol

from penstock.errors import ErrorCode, PenstockError


class LoginFailed(PenstockError):
    """An exchange that failed. The message is for our log; `told` is what the peer may know, empty for no more than
    that its credentials are invalid: whether a user exists is nobody's business who has not logged in.
    """

    code = ErrorCode.SASL_AUTHENTICATION_FAILED

    def __init__(self, message: str, told: str = "") -> None:
        super().__init__(message)
        self.told = told


class LoginInterrupted(LoginFailed):
    """An exchange that failed though nothing is wrong with the credentials, as far as is known: the connection is
    closed without an answer, which has Kafka's clients try again.
    """


@dataclass(frozen=True, slots=True)
class Slow:
    """A step of an exchange that may block: `run` returns the token that it makes, and raises LoginFailed. Never call
    it on an event loop.
    """

    run: Callable[[], bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Derivation:
    """A key to be derived from a password (PBKDF2, RFC 8018): milliseconds to half a second of a core."""

    hash_name: str
    password: bytes = field(repr=False)
    salt: bytes
    iterations: int

    def derive(self) -> bytes:
        """The key. Never call it on an event loop."""
        return pbkdf2_hmac(self.hash_name, self.password, self.salt, self.iterations)


class SaslServer(Protocol):
    """A server's side of one login.

    Attributes:
        user: who has logged in, once `complete`; before, who claims to.
        expires_at_ms: when the credential itself ends, in milliseconds since the epoch; None for never.
        token_authenticated: the credential is a delegation token.
    """

    mechanism: str
    complete: bool
    user: str
    expires_at_ms: int | None
    token_authenticated: bool

    def evaluate(self, token: bytes) -> bytes | Slow:
        """The answer to a token of the client. Raises LoginFailed, or NotResident if it is to be asked again."""
        ...


class SaslClient(Protocol):
    """A client's side of one login."""

    mechanism: str
    complete: bool

    def first(self) -> bytes | Slow:
        """The token that begins the exchange."""
        ...

    def evaluate(self, answer: bytes) -> bytes | Slow | Derivation | None:
        """The next token, a key to derive first, or None if the login is over. Raises LoginFailed."""
        ...

    def derived(self, key: bytes) -> bytes:
        """The next token, now that the key is derived."""
        ...


NewServer = Callable[[], SaslServer]
"""Begins a login with one mechanism."""
