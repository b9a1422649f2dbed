"""OAUTHBEARER on either side: one message with a token, and if it is refused one more of each side.

A server that refuses a token says so in JSON and waits for the client's byte 1; the login then fails with the same
JSON, as in Kafka. Stricter than there: after a refused token nothing else is taken, and no second token.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from penstock.config.oauthbearer import OAUTHBEARER, BearerListener
from penstock.security.oauthbearer.keys import KeyRing, verify
from penstock.security.oauthbearer.messages import GIVE_UP, first_message, parse_first
from penstock.security.oauthbearer.tokens import Accepted, TokenRefused, check, parse
from penstock.security.sasl import LoginFailed


class OAuthBearerServer:
    """The server's side. `ring`: the keys of the listener. `wall_ms`: the time, in milliseconds since the epoch."""

    mechanism = OAUTHBEARER
    token_authenticated = False

    def __init__(self, bearer: BearerListener, ring: KeyRing, wall_ms: Callable[[], int]) -> None:
        self.complete = False
        self.user = ""
        self.expires_at_ms: int | None = None
        self._bearer = bearer
        self._ring = ring
        self._wall_ms = wall_ms
        self._refused: tuple[str, str] | None = None

    def evaluate(self, token: bytes) -> bytes:
        """The answer to the client's message: nothing, or why its token is refused. Raises LoginFailed."""
        if self._refused is not None:
            why, told = self._refused
            raise LoginFailed(why, told) if token == GIVE_UP else LoginFailed(f"{why}; and then a second message")
        if self.complete:
            raise LoginFailed("an OAUTHBEARER login has one message")
        first = parse_first(token)
        try:
            accepted = self._accepted(first.token)
        except TokenRefused as wrong:
            told = refusal(wrong)
            self._refused = (f"the token is refused: {wrong}", told)
            return told.encode()
        if first.authorization_id and first.authorization_id != accepted.subject:
            raise LoginFailed(
                "another authorization id",
                f"Authentication failed: Client requested an authorization id ({first.authorization_id}) that is "
                f"different from the token's principal name ({accepted.subject})",
            )
        self.user, self.expires_at_ms = accepted.subject, accepted.expires_at_ms
        self.complete = True
        return b""

    def _accepted(self, text: str) -> Accepted:
        token = parse(text)
        if not self._bearer.rules.unsigned:
            verify(token, self._ring)
        return check(token, self._bearer.rules, self._wall_ms())


def refusal(wrong: TokenRefused) -> str:
    """What a client is told whose token is refused, in Kafka's JSON."""
    scope = f', "scope":{json.dumps(wrong.scope)}' if wrong.scope else ""
    return f'{{"status":"{wrong.status}"{scope}}}'


class OAuthBearerClient:
    """The client's side. `extensions`: names and values that go with the token."""

    mechanism = OAUTHBEARER

    def __init__(self, token: str, extensions: Iterable[tuple[str, str]] = ()) -> None:
        self.complete = False
        self._first = first_message(token, extensions)
        self._refused = ""

    def first(self) -> bytes:
        """The token."""
        return self._first

    def evaluate(self, answer: bytes) -> bytes | None:
        """The login is over if the answer is empty; else the token is refused, and the server waits for us to give up.
        Raises LoginFailed.
        """
        if self._refused:
            raise LoginFailed(f"the server refused the token and went on: {self._refused}")
        if answer:
            self._refused = answer[:1000].decode(errors="replace")
            return GIVE_UP
        self.complete = True
        return None

    def derived(self, key: bytes) -> bytes:
        """OAUTHBEARER derives no keys."""
        raise LoginFailed("OAUTHBEARER derives no keys")
