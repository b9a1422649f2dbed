"""What the metadata says about the directories that were found: which belong to this node, and which of two is right.

A partition is found in two log directories when one of them failed, the partition left this node and came back, to
another directory, and then the first one was repaired.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from penstock.errors import StorageError
from penstock.log.compaction.schedule import CleaningSchedule
from penstock.log.events import FoundTwice, LogEvent
from penstock.log.failures import Failures
from penstock.log.open_logs import OpenLogs
from penstock.log.replica import Replica, State
from penstock.log.replica_directories import ReplicaDirectories
from penstock.log.retention_schedule import RetentionSchedule
from penstock.log.table import ReplicaTable


@dataclass(eq=False)
class Strays:
    """Adopts the replicas found at start, and sets aside those that are not this node's."""

    _table: ReplicaTable
    _logs: OpenLogs
    _directories: ReplicaDirectories
    _failures: Failures
    _retention: RetentionSchedule
    _cleaning: CleaningSchedule
    _report: Callable[[LogEvent], None]
    _rivals: list[Replica] = field(default_factory=list, init=False)

    def found(self, replica: Replica) -> None:
        """Adopts a replica found at start. Of two of a partition the first is in the table for the time being."""
        other = self._table.find(*replica.key)
        if other is None:
            self._use(replica)
        else:
            self._rivals.append(replica)
            self._report(FoundTwice(replica.name, other.directory.path, replica.directory.path))

    def _use(self, replica: Replica) -> None:
        """Puts a replica into the table, to be recovered if necessary."""
        self._table.add(replica)
        self._retention.changed(replica)
        self._cleaning.changed(replica)
        if replica.state is State.UNRECOVERED:
            self._table.will_recover(replica)

    def set_aside(
        self, assigned: Callable[[str, int], UUID | None], directory: Callable[[str, int], UUID | None], now_ms: int
    ) -> None:
        """Renames directories of partitions that are not this node's, once the metadata is known.

        Of a partition found in two log directories, the one in the directory that the metadata names is kept. If the
        metadata names neither, the partition is not served.

        Args:
            assigned: returns the topic id of a partition of this node, or None. directory: the id of its log directory.
        """
        rivals, self._rivals = self._rivals, []
        for rival in rivals:
            self._resolve(rival, directory(rival.topic, rival.partition), now_ms)
        for replica in list(self._table.replicas()):
            topic_id = assigned(replica.topic, replica.partition)
            if topic_id is None or replica.topic_id not in (None, topic_id):
                self._directories.dismiss(replica, "stray", now_ms)
            else:
                replica.topic_id = topic_id

    def _resolve(self, rival: Replica, wanted: UUID | None, now_ms: int) -> None:
        """Decides which of two replicas of a partition is kept."""
        kept = self._table.find(*rival.key)
        if kept is None or rival.directory.error is not None:
            return  # nobody leaves or comes before the metadata is known, but directories fail
        if wanted is not None and wanted == rival.directory.id:
            self._table.remove(kept)
            self._use(rival)
            self._logs.recover_next(rival.directory, now_ms)
            kept, rival = rival, kept
        if wanted is not None and wanted == kept.directory.id:
            self._directories.leave(rival, "stray", now_ms)
        else:
            places = f"{kept.directory.path} and {rival.directory.path}"
            error = f"{kept.name} is in two log directories, {places}\n  move the older one away"
            self._failures.replica_broken(kept, StorageError(error), now_ms)
