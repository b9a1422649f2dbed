"""One partition of a coordinator, with time, commits and failures under a test's control.

Time stands still unless the test moves it. What is appended is committed in the same turn, unless `commits` is False.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from unit.coordinator.fake_log import FakeLog

from penstock.coordinator.runtime.runtime import Runtime
from penstock.coordinator.runtime.shard import Shard
from penstock.records.wall import WallTime

START_MS = 1_700_000_000_000
WRITE_TIMEOUT_MS = 5_000
M = TypeVar("M")


class OnePartition(Generic[M]):
    """See the module's head.

    Args:
        topic: what the partition is of. kind: what the coordinator is of, for its messages.
        machine: makes the state machine of a term, from the number of the partition and the term's timers.

    Attributes:
        commits: whether what is appended is committed in the same turn.
        bugs: what the coordinator's own code raised; `settle` raises the first.
    """

    PARTITION = 0

    def __init__(self, topic: str, kind: str, machine: Callable[[int, Any], M], wall: WallTime) -> None:
        self.now_ms = START_MS
        self.log = FakeLog()
        self.commits = True
        self.bugs: list[Exception] = []
        self._work: list[Iterator[None]] = []
        self.runtime: Runtime[Any] = Runtime(
            topic,
            kind,
            machine,
            do=self._work.append,
            now=lambda: self.now_ms,
            write_timeout_ms=WRITE_TIMEOUT_MS,
            linger_ms=0,
            bug=lambda what, error: self.bugs.append(error),
            wall=wall,
        )

    @property
    def shard(self) -> Shard[Any]:
        """The partition in its present term."""
        return self.runtime.shards[self.PARTITION]

    def settle(self) -> None:
        """Ends the turn: long work, reads, appends, and commits if these are not held back."""
        while True:
            busy = bool(self._work)
            while self._work:
                for _ in self._work.pop(0):
                    pass
            busy |= self.log.give_reads(self.now_ms)
            busy |= self.runtime.has_open_batches and not self.runtime.linger_ms
            self.runtime.flush(self.now_ms)
            if self.commits:
                busy |= self.log.commit(self.now_ms)
            if not busy:
                break
        if self.bugs:
            raise self.bugs[0]

    def advance(self, ms: int) -> None:
        """Moves time on, stopping at each deadline on the way."""
        target_ms = self.now_ms + ms
        while True:
            deadline_ms = self.runtime.next_deadline_ms()
            if deadline_ms is None or deadline_ms > target_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self.runtime.tick(self.now_ms)
            self.settle()
        self.now_ms = target_ms

    def commit(self) -> None:
        """Commits what has been appended."""
        self.log.commit(self.now_ms)
        self.settle()

    def elect(self) -> None:
        """This node leads the partition, and loads it."""
        self.runtime.elected(self.PARTITION, self.log, self.now_ms)
        self.settle()

    def resign(self) -> None:
        """This node leads the partition no more."""
        self.runtime.resigned(self.PARTITION, self.now_ms)

    def fail_over(self, *, keep_uncommitted: bool = False) -> None:
        """Another broker takes over, with what was committed, or all that was written."""
        self.resign()
        self.log.new_leader(keep_uncommitted=keep_uncommitted)
        self.elect()
