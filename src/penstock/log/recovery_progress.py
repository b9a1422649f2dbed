"""How far the recovery of a log directory is, for metrics, for who asks whether the node is ready, and for the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class UnderWay(Protocol):
    """A recovery that is under way: how many segments it has left to scan, 0 while that is not known."""

    @property
    def segments_left(self) -> int: ...


@dataclass(slots=True)
class RecoveryProgress:
    """See the module's head.

    Attributes:
        logs: to be recovered since the start, those that are among them.
        recovered: of these. read_bytes: by their recoveries.
        under_way: the recoveries that run.
        said_ms: when the log has said it last.
    """

    logs: int = 0
    recovered: int = 0
    read_bytes: int = 0
    under_way: set[UnderWay] = field(default_factory=set)
    said_ms: int = 0

    @property
    def logs_left(self) -> int:
        return max(self.logs - self.recovered, len(self.under_way))

    @property
    def segments_left(self) -> int:
        """Of the logs whose recovery is under way; nobody has looked at the others."""
        return sum(recovery.segments_left for recovery in self.under_way)

    def ended(self) -> None:
        """All logs of the directory are recovered."""
        self.logs = self.recovered = self.read_bytes = 0
