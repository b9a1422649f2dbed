"""The sizes of replicas: an open log knows its own; that of a closed one is computed from its files once, and kept."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.log.directory_operations import MeasureReplicas
from penstock.log.not_open import NotOpen, Opening
from penstock.log.outbox import Outbox
from penstock.log.replica import Replica
from penstock.log.table import ReplicaTable

MEASURE_BATCH_MAX = 1000
"""Replicas whose sizes one operation adds up."""


class Sizes:
    """Has the sizes of all closed logs of a directory computed when that of one is wanted."""

    def __init__(self, table: ReplicaTable, outbox: Outbox) -> None:
        self._table = table
        self._outbox = outbox

    def of(self, replica: Replica) -> int:
        """Bytes of all segments of a replica in an online directory. Raises NotOpen if they are not known yet."""
        if replica.log is not None:
            return replica.log.size_bytes
        if replica.size_bytes is not None:
            return replica.size_bytes
        directory = replica.directory
        if directory.measuring is None:
            directory.measuring = Opening(directory.path)
            unknown = [
                each.name
                for each in self._table.of_directory(directory)
                if each.log is None and each.size_bytes is None
            ]
            for start in range(0, len(unknown), MEASURE_BATCH_MAX):
                batch = unknown[start : start + MEASURE_BATCH_MAX]
                last = start + MEASURE_BATCH_MAX >= len(unknown)
                measure = MeasureReplicas(directory.index, self._outbox, batch, last=last)
                self._outbox.emit(measure, self._measured, broke=self._broke)
        raise NotOpen(directory.index, directory.measuring)

    def _measured(self, operation: MeasureReplicas, sizes: Mapping[str, int], now_ms: int) -> None:
        for name in operation.names:
            replica = self._table.find_name(name)
            if replica is not None and replica.log is None and replica.size_bytes is None:
                replica.size_bytes = sizes.get(name, 0)
        if operation.last:
            self._table.directories[operation.directory].measured(now_ms)

    def _broke(self, operation: MeasureReplicas, error: Exception, now_ms: int) -> None:
        self._table.directories[operation.directory].measured(now_ms)
