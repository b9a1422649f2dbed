"""flush.ms: a log is flushed this long after its first unflushed write. Off by default, as in Kafka."""

from __future__ import annotations

from penstock.config.values import LONG_MAX
from penstock.log.deadlines import Deadlines
from penstock.log.log import Log
from penstock.log.replica import Replica, State


class Flushes:
    """Keeps one deadline for each log that waits for its flush."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines

    def expect(self, replica: Replica, log: Log) -> None:
        """A log was written to: sets its deadline, unless flush.ms is off or it is set already."""
        if replica.flush_set or log.config.flush_ms == LONG_MAX:
            return
        due_ms = deadline_ms(log)
        if due_ms is not None:
            replica.flush_set = True
            self._deadlines.at(due_ms, lambda now_ms: self._flush(replica, now_ms))

    def _flush(self, replica: Replica, now_ms: int) -> None:
        replica.flush_set = False
        if replica.state is not State.OPEN or replica.log is None:
            return
        due_ms = deadline_ms(replica.log)
        if due_ms is not None and due_ms <= now_ms:
            replica.log.flush(now_ms)
        else:
            self.expect(replica, replica.log)


def deadline_ms(log: Log) -> int | None:
    """When flush.ms wants a flush; None when nothing is unflushed or flush.ms is off."""
    first_ms = log.files.first_unflushed_ms
    return None if first_ms < 0 or log.config.flush_ms == LONG_MAX else first_ms + log.config.flush_ms
