"""Changes of a quorum's log that found no room on the disk: they wait, and are made again, in order, until there is.

To the replica that is a disk which takes its time, as any disk may: nothing counts before it is durable, so nothing is
acknowledged meanwhile, no vote is given, and nothing is lost. The replica is told besides, so that it gives way to
others (`RaftReplica.ran_out`).

An operation that finds no room has cut away what it had written (`log.space.put_back`), and blows the fuse that all of
them share, so that those behind it fail without touching a file. They are kept in that order. SPACE_RETRY_MS later,
when none is under way any more, the fuse is mended and they run again, with what has come since behind them. An fsync
that fails is no such thing, whatever its reason: it is final.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.log.disk import Operation
from penstock.log.limits import SPACE_RETRY_MS
from penstock.log.operations import EarlierFailed, Fuse, LogOperation
from penstock.log.space import NoSpace


class NoRoom:
    """What waits for room. Only operations with the `fuse` do.

    Attributes:
        kept: to be made again, in order.
        retry_ms: when that is tried; None while there is room.
        under_way: how many operations have not ended.
    """

    __slots__ = ("_fuse", "kept", "retry_ms", "under_way")

    def __init__(self, fuse: Fuse) -> None:
        self.kept: list[LogOperation] = []
        self.retry_ms: int | None = None
        self._fuse = fuse
        self.under_way = 0

    @property
    def waits(self) -> bool:
        """Whether there was no room when something was last to be changed."""
        return self.retry_ms is not None

    @property
    def deadline_ms(self) -> int | None:
        """When `take` has something to do; None: never, or not before an operation has ended."""
        return None if self.under_way else self.retry_ms

    def sent(self, operations: Sequence[Operation]) -> None:
        """Operations are run now."""
        self.under_way += sum(isinstance(operation, LogOperation) for operation in operations)

    def ended(self, operation: Operation) -> None:
        """An operation that was `sent` has ended."""
        self.under_way -= isinstance(operation, LogOperation)

    def keeps(self, operation: Operation, error: OSError, now_ms: int) -> bool:
        """Whether a failed operation is to be made again: it found no room, or one before it has failed."""
        if not (isinstance(operation, LogOperation) and isinstance(error, NoSpace | EarlierFailed)):
            return False
        self.kept.append(operation)
        if isinstance(error, NoSpace):
            self.wait(now_ms)
        return True

    def wait(self, now_ms: int) -> None:
        """Somebody has found no room."""
        self.retry_ms = now_ms + SPACE_RETRY_MS

    def take(self, now_ms: int) -> list[LogOperation] | None:
        """What to make again now, perhaps nothing; None: it is not time yet."""
        if self.under_way or self.retry_ms is None or now_ms < self.retry_ms:
            return None
        kept, self.kept = self.kept, []
        self._fuse.blown = False
        return kept

    def is_over(self) -> bool:
        """Whether everything that waited has been made; there is room then."""
        if self.retry_ms is None or self.kept or self.under_way:
            return False
        self.retry_ms = None
        return True
