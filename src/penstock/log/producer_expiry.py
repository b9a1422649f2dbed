"""Open logs forget producers silent for `producer.id.expiration.ms`; closed ones forget all that no snapshot has."""

from __future__ import annotations

from collections import deque

from penstock.log.deadlines import Deadlines
from penstock.log.limits import PRODUCERS_EXPIRED_PER_STEP
from penstock.log.log import Log
from penstock.log.replica import Replica, State
from penstock.log.table import ReplicaTable


class ProducerExpiry:
    """Checks open logs that know producers; a deadline exists only while there are any."""

    def __init__(self, table: ReplicaTable, deadlines: Deadlines) -> None:
        self._table = table
        self._deadlines = deadlines
        self._with_producers: dict[str, Replica] = {}
        self._expiring: deque[str] = deque()

    def expect(self, replica: Replica, log: Log) -> None:
        """A log was opened or written to: has it checked, if it knows any producers."""
        if log.producers.producers and log.name not in self._with_producers:
            if not self._with_producers:
                self._set()
            self._with_producers[log.name] = replica

    def _set(self) -> None:
        self._deadlines.after(self._table.settings.producer_id_expiration_check_interval_ms, self._expire)

    def _expire(self, now_ms: int) -> None:
        """Checks a few logs per step; in a log that was closed, the producers' idle time starts again."""
        if not self._expiring:
            self._expiring.extend(self._with_producers)
        looked_at = 0
        while self._expiring and looked_at < PRODUCERS_EXPIRED_PER_STEP:
            name = self._expiring.popleft()
            replica = self._with_producers[name]
            log = replica.log
            if replica.state is State.OPEN and log is not None:
                looked_at += len(log.producers.producers)
                log.producers.remove_idle(now_ms, self._table.settings.producer_id_expiration_ms)
                if log.producers.producers:
                    continue
            del self._with_producers[name]
        if self._expiring:
            self._deadlines.at(now_ms + 1, self._expire)
        elif self._with_producers:
            self._set()
