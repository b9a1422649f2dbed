"""The audit interface: hears of every request whether it was allowed, whether it was refused, and how long it took."""

from __future__ import annotations

from typing import Any, Protocol

from penstock.errors import ErrorCode
from penstock.node.request import Request
from penstock.security.rights import Right


class Audit(Protocol):
    """Hears of the gate's decisions and of the answers at the exit. It must not change anything or raise."""

    def decided(self, request: Request[Any], right: Right, name: str, *, allowed: bool) -> None:
        """The gate has decided whether the requester has a right on the resource of this name; once for each check."""

    def refused(self, request: Request[Any], code: ErrorCode) -> None:
        """The whole request is refused."""

    def ended(self, request: Request[Any], time_ms: int, *, answered: bool) -> None:
        """The last call for a request, `time_ms` after it arrived: its answer leaves, or the connection is gone."""
