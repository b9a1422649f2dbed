"""flush.ms: a log is flushed so long after its first write that was not. Kafka leaves it off, and so do we."""

from __future__ import annotations

from penstock.log.deadlines import Deadlines
from penstock.log.log import Log
from penstock.log.replica import Replica, State


class Flushes:
    """Has one deadline for each log that waits for its flush."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines

    def expect(self, replica: Replica, log: Log) -> None:
        """A log was written to: sets its flush.ms, unless that is off or set already."""
        if replica.flush_set:
            return
        due_ms = log.flush_deadline_ms()
        if due_ms is not None:
            replica.flush_set = True
            self._deadlines.at(due_ms, lambda now_ms: self._flush(replica, now_ms))

    def _flush(self, replica: Replica, now_ms: int) -> None:
        replica.flush_set = False
        if replica.state is not State.OPEN or replica.log is None:
            return
        due_ms = replica.log.flush_deadline_ms()
        if due_ms is not None and due_ms <= now_ms:
            replica.log.flush(now_ms)
        else:
            self.expect(replica, replica.log)
