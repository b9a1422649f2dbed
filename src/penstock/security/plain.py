"""The mechanism PLAIN (RFC 4616): authorization id, user and password in one token, with NUL between them.

The server knows passwords from its JAAS configuration. A password is compared in constant time, and as long for a user
that does not exist. Whoever asks to act for another user is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest

from penstock.config.sasl import PLAIN
from penstock.security.limits import SASL_MESSAGE_MAX_CHARACTERS
from penstock.security.sasl import LoginFailed

INVALID = "Authentication failed: Invalid username or password"
OTHER_AUTHORIZATION_ID = "Authentication failed: Client requested an authorization id that is different from username"


class PlainServer:
    """The server's side. `passwords`: by user."""

    mechanism = PLAIN
    expires_at_ms: int | None = None
    token_authenticated = False

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self.complete = False
        self.user = ""
        self._passwords = passwords

    def evaluate(self, token: bytes) -> bytes:
        """Checks the one token of the exchange; the answer is empty. Raises LoginFailed."""
        if self.complete or len(token) > SASL_MESSAGE_MAX_CHARACTERS:
            raise LoginFailed("a PLAIN login has one token of ordinary length")
        parts = token.split(b"\0")
        if len(parts) != 3:
            told = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            raise LoginFailed(told, told)
        try:
            authorization_id, user, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise LoginFailed("the PLAIN token is not UTF-8", INVALID) from None
        if not user:
            raise LoginFailed("no user", "Authentication failed: username not specified")
        self.user = user
        if not password:
            raise LoginFailed("no password", "Authentication failed: password not specified")
        expected = self._passwords.get(user)
        right = same(password, "" if expected is None else expected)
        if not right or not expected:
            raise LoginFailed("unknown user" if expected is None else "wrong password", INVALID)
        if authorization_id and authorization_id != user:
            raise LoginFailed("another authorization id", OTHER_AUTHORIZATION_ID)
        self.complete = True
        return b""


class PlainClient:
    """The client's side."""

    mechanism = PLAIN

    def __init__(self, user: str, password: str) -> None:
        self.complete = False
        self._token = b"\0".join((b"", user.encode(), password.encode()))

    def first(self) -> bytes:
        """User and password."""
        return self._token

    def evaluate(self, answer: bytes) -> bytes | None:
        """The server has let us in, and says so with an empty answer. Raises LoginFailed."""
        if answer:
            raise LoginFailed("the server answered PLAIN with a challenge")
        self.complete = True
        return None

    def derived(self, key: bytes) -> bytes:
        """PLAIN derives no keys."""
        raise LoginFailed("PLAIN derives no keys")


def same(given: str, expected: str) -> bool:
    """Whether two passwords are equal, in a time that tells nothing about the expected one, not even its length."""
    return compare_digest(sha256(given.encode()).digest(), sha256(expected.encode()).digest())
