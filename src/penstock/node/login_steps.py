"""Steps of logins that may block (`penstock.security.sasl.Slow`): operations of a lane that has no directory.

They read keys and replay caches, and those of this node's own logins may wait for a KDC. The lane has a few threads, so
as many steps run at once; those of own logins run one after the other, so that a KDC that does not answer leaves the
other threads to clients. Clients' steps are taken by turns of their addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from penstock.log.disk import Disk, Operation
from penstock.security.sasl import LoginFailed, Slow

LOGIN_LANE = -1
"""Stands for the index of a directory."""
OWN = "own logins"

Ended = Callable[[bytes | LoginFailed, int], None]
"""`ended(token or failure, now_ms)`"""


class LoginStep(Operation):
    """Runs a step, unless nobody waits for it any more."""

    __slots__ = ("step", "tenant", "wanted")

    def __init__(
        self, order: str, step: Slow, ended: Ended, wanted: Callable[[], bool], tenant: Hashable = None
    ) -> None:
        super().__init__(LOGIN_LANE, order, Stepped(ended))
        self.step = step
        self.wanted = wanted
        self.tenant = tenant

    def run(self, disk: Disk) -> Any:
        if not self.wanted():
            return LoginFailed("nobody waits for it")
        try:
            return self.step.run()
        except LoginFailed as failed:
            return failed


class Stepped:
    """Owner of a step: calls `ended` once, also after a bug in the step."""

    __slots__ = ("_ended",)

    def __init__(self, ended: Ended) -> None:
        self._ended: Ended | None = ended

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(result, now_ms)

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        failed = LoginFailed(f"a file that it needs cannot be used: {error.strerror}")
        self.operation_completed(operation, failed, now_ms)

    def operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        self.operation_completed(operation, LoginFailed(f"a bug: {type(error).__name__}"), now_ms)
