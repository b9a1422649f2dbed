"""Who is told of all requests: what they were allowed, whether they were refused, and how long they took."""

from __future__ import annotations

from typing import Any, Protocol

from penstock.errors import ErrorCode
from penstock.node.request import Request
from penstock.security.rights import Right


class Audit(Protocol):
    """Hears of a request what the gate decides and what leaves by the exit. It must not change anything, nor raise."""

    def decided(self, request: Request[Any], right: Right, name: str, *, allowed: bool) -> None:
        """Whether who asks has a right on the resource of this name; of each that the request needs, in order."""

    def refused(self, request: Request[Any], code: ErrorCode) -> None:
        """Called when a whole request is refused."""

    def answered(self, request: Request[Any], time_ms: int) -> None:
        """Called last for a request: its answer leaves, `time_ms` after the request came."""
