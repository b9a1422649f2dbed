"""Logins of this node at others: what a new link says first where the other side's listener asks for SASL.

A login is a SaslHandshake and the tokens of the mechanism, each in a request of the link, before any other. A key that
has to be derived from the password (SCRAM) is derived in the lane of the metadata log's directory, and kept: the same
user has the same salt at every node. A step of the mechanism that may block (GSSAPI) runs in the lane of logins.

Where the answer says that the login ends (KIP-368), it is renewed on the same link before that: nothing more is sent
until what is under way has been answered, and then the link logs in again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.config.sasl import SaslLogin
from penstock.errors import ErrorCode
from penstock.events import RateLimit, events
from penstock.log.disk import Disk, Operation
from penstock.node.effects import Effect, Run
from penstock.node.limits import DERIVED_KEYS_MAX, REFUSAL_REPEAT_MS, REFUSALS_REMEMBERED_MAX
from penstock.node.login_steps import OWN, Ended, LoginStep
from penstock.protocol.message import Message
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from penstock.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from penstock.security.mechanisms import Mechanisms
from penstock.security.sasl import Derivation, LoginFailed, SaslClient, Slow

logger = events("node.logins")

HANDSHAKE_VERSION = 1
AUTHENTICATE_VERSION = 2
ORDER = "the key of a login"

Answered = Callable[[Message | None, str | None, int], None]
Over = Callable[[str | None, int, int], None]
"""`over(reason, lifetime_ms, now_ms)`: the login failed for a reason, or lasts (0: for ever)."""


@dataclass(frozen=True, slots=True)
class LoginLink:
    """A link as a login sees it: `ask` sends a request before all others; `alive`: whether the link is still up."""

    ask: Callable[[Message, int, Answered, int], None]
    alive: Callable[[], bool]


class Derive(Operation):
    """Derives the key of a password, in a lane; it touches no disk."""

    __slots__ = ("derivation",)

    def __init__(self, directory: int, derivation: Derivation, owner: Derived) -> None:
        super().__init__(directory, ORDER, owner)
        self.derivation = derivation

    def run(self, disk: Disk) -> Any:
        return self.derivation.derive()


class Derived:
    """Owner of a derivation: calls `go_on` with the key, or None after a bug."""

    __slots__ = ("_go_on",)

    def __init__(self, go_on: Callable[[bytes | None, int], None]) -> None:
        self._go_on = go_on

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        self._go_on(result, now_ms)

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        self._go_on(None, now_ms)

    def operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        self._go_on(None, now_ms)


class PeerLogins:
    """See the module's head. `directory`: the index of the metadata log's, whose lane derives keys."""

    def __init__(self, mechanisms: Mechanisms, emit: Callable[[Effect], None], directory: int) -> None:
        self._mechanisms = mechanisms
        self._emit = emit
        self._directory = directory
        self._keys: dict[Derivation, bytes] = {}
        self._failures = RateLimit(REFUSAL_REPEAT_MS, REFUSALS_REMEMBERED_MAX)

    def needed(self, listener: str) -> bool:
        """Whether a link to this listener of another node begins with a login."""
        return self._mechanisms.login(listener) is not None

    def begin(self, listener: str, peer: str, link: LoginLink, over: Over, now_ms: int, *, host: str = "") -> None:
        """Logs in on a link, first or again; `host` is where it goes."""
        settings = self._mechanisms.login(listener)
        if settings is None:  # the settings have changed since
            over(None, 0, now_ms)
            return
        client = self._mechanisms.client(settings, host)
        PeerLogin(self, settings, client, peer=peer, link=link, over=over).begin(now_ms)

    def derive(self, derivation: Derivation, go_on: Callable[[bytes | None, int], None], now_ms: int) -> None:
        """Has a key derived, unless it is known."""
        known = self._keys.get(derivation)
        if known is not None:
            go_on(known, now_ms)
            return

        def derived(key: bytes | None, at_ms: int) -> None:
            if key is not None:
                if len(self._keys) >= DERIVED_KEYS_MAX:
                    self._keys.clear()
                self._keys[derivation] = key
            go_on(key, at_ms)

        self._emit(Run(Derive(self._directory, derivation, Derived(derived))))

    def run(self, step: Slow, ended: Ended, wanted: Callable[[], bool]) -> None:
        """Has a step of a mechanism run where it may block."""
        self._emit(Run(LoginStep(OWN, step, ended, wanted)))

    def failed(self, login: SaslLogin, peer: str, reason: str, now_ms: int) -> None:
        """Tells people, once in a while, that this node cannot log in."""
        suppressed = self._failures.suppressed((peer, reason), now_ms)
        if suppressed is not None:
            who = {"mechanism": login.mechanism, "user": login.user, "peer": peer}
            more = {"more_since_the_last": suppressed} if suppressed else {}
            logger.warning("this node cannot log in to another", **who, reason=reason, **more)


class PeerLogin:
    """One login on one link."""

    __slots__ = ("_link", "_logins", "_over", "_peer", "_sasl", "_settings")

    def __init__(
        self, logins: PeerLogins, settings: SaslLogin, sasl: SaslClient, *, peer: str, link: LoginLink, over: Over
    ) -> None:
        self._logins = logins
        self._settings = settings
        self._sasl = sasl
        self._peer = peer
        self._link = link
        self._over = over

    def begin(self, now_ms: int) -> None:
        """Names the mechanism."""
        request = SaslHandshakeRequest(mechanism=self._settings.mechanism)
        self._link.ask(request, HANDSHAKE_VERSION, self._handshaken, now_ms)

    def _handshaken(self, answer: Message | None, reason: str | None, now_ms: int) -> None:
        if answer is None:
            return  # the link is lost, and its calls with it
        assert isinstance(answer, SaslHandshakeResponse)
        if answer.error_code:
            code = ErrorCode.of_peer(answer.error_code)
            self._fail(f"it answers {code.name}; its mechanisms are {', '.join(answer.mechanisms) or 'none'}", now_ms)
        else:
            self._go_on(self._sasl.first(), now_ms)

    def _go_on(self, token: bytes | Slow, now_ms: int) -> None:
        if isinstance(token, Slow):
            self._logins.run(token, self._stepped, self._link.alive)
        else:
            self._send(token, now_ms)

    def _stepped(self, token: bytes | LoginFailed, now_ms: int) -> None:
        if not self._link.alive():
            return
        if isinstance(token, LoginFailed):
            self._fail(str(token), now_ms)
        else:
            self._send(token, now_ms)

    def _send(self, token: bytes, now_ms: int) -> None:
        request = SaslAuthenticateRequest(auth_bytes=token)
        self._link.ask(request, AUTHENTICATE_VERSION, self._answered, now_ms)

    def _answered(self, answer: Message | None, reason: str | None, now_ms: int) -> None:
        if answer is None:
            return
        assert isinstance(answer, SaslAuthenticateResponse)
        if answer.error_code:
            code = ErrorCode.of_peer(answer.error_code)
            self._fail(f"it answers {code.name}: {answer.error_message}", now_ms)
            return
        try:
            step = self._sasl.evaluate(bytes(answer.auth_bytes))
        except LoginFailed as failed:
            self._fail(str(failed), now_ms)
            return
        if isinstance(step, Derivation):
            self._logins.derive(step, self._derived, now_ms)
        elif step is not None:
            self._go_on(step, now_ms)
        else:
            self._over(None, answer.session_lifetime_ms, now_ms)

    def _derived(self, key: bytes | None, now_ms: int) -> None:
        if not self._link.alive():
            return
        if key is None:
            self._fail("the key of its password could not be derived", now_ms)
        else:
            self._send(self._sasl.derived(key), now_ms)

    def _fail(self, reason: str, now_ms: int) -> None:
        self._logins.failed(self._settings, self._peer, reason, now_ms)
        self._over(f"this node cannot log in: {reason}", 0, now_ms)
