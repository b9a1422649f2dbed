"""Parts of the node with deadlines of their own: the logs, the quorum, the controller, the coordinators."""

from __future__ import annotations

from collections.abc import Callable

from penstock.node.bugs import Bugs
from penstock.node.limits import DUTY_PAUSE_MS


class Duty:
    """One such part. After a bug in its `tick`, which affects no other part, it pauses for DUTY_PAUSE_MS, and
    `broke(error, now_ms)` is called, if given.

    Attributes: `next_deadline_ms`, a function: when `tick` must be called, at the earliest after such a pause.
    """

    __slots__ = ("_broke", "_bugs", "_name", "_own_deadline_ms", "_rests_until_ms", "_tick", "next_deadline_ms")

    def __init__(
        self,
        name: str,
        tick: Callable[[int], None],
        next_deadline_ms: Callable[[], int | None],
        bugs: Bugs,
        broke: Callable[[Exception, int], None] | None = None,
    ) -> None:
        self._name = name
        self._tick = tick
        self._own_deadline_ms = self.next_deadline_ms = next_deadline_ms
        self._bugs = bugs
        self._broke = broke
        self._rests_until_ms = 0

    def tick(self, now_ms: int) -> None:
        """Does what is due."""
        if now_ms < self._rests_until_ms:
            return
        self.next_deadline_ms = self._own_deadline_ms
        try:
            self._tick(now_ms)
        except Exception as error:
            self._rests_until_ms = now_ms + DUTY_PAUSE_MS
            self.next_deadline_ms = self._deadline_at_rest_ms
            if self._broke is not None:
                self._broke(error, now_ms)
            self._bugs.caught("duty", self._name, error)

    def _deadline_at_rest_ms(self) -> int | None:
        deadline_ms = self._own_deadline_ms()
        return None if deadline_ms is None else max(deadline_ms, self._rests_until_ms)
