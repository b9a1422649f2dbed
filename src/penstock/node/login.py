"""The state of one connection's login; the rules are `penstock.node.logins`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto

from penstock.node.limits import LOGIN_AGAIN_PAUSE_MS
from penstock.node.metrics import LoginCounters
from penstock.node.timers import Timer
from penstock.security.sasl import SaslServer


class LoginState(IntEnum):
    """See `penstock.node.logins`."""

    FIRST = auto()
    ASKED = auto()
    BEGUN = auto()
    DONE = auto()
    FAILED = auto()


@dataclass(slots=True, eq=False)
class Login:
    """A connection's login.

    Attributes:
        until_ms: requests are served before this time, as `WallTime.elapsed` counts, without asking here.
        ends_ms: when the login ends, in the same time; also while the client logs in again.
        expires: whether the login ends at all, so that the client may log in again.
        headers: tokens come in SaslAuthenticate requests. knows_lifetimes: of a version that tells when it ends.
        mechanism: that the client has logged in with; empty before. again: it has, and does so again.
    """

    frame_max_bytes: int
    counters: LoginCounters
    until_ms: int = 0
    ends_ms: int = 0
    state: LoginState = LoginState.FIRST
    expires: bool = False
    headers: bool = False
    knows_lifetimes: bool = False
    mechanism: str = ""
    again: bool = False
    again_ms: int = -LOGIN_AGAIN_PAUSE_MS
    problem: str = ""
    server: SaslServer | None = None
    timer: Timer | None = None
