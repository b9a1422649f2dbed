"""A clean stop: close all logs, then write the checkpoints, then mark the directories.

A directory whose recovery was not complete is not marked, so that the next start continues it.
"""

from __future__ import annotations

from penstock.log.checkpointing import Checkpointing
from penstock.log.clean_shutdown import UNKNOWN_BROKER_EPOCH
from penstock.log.directory import LogDirectory
from penstock.log.directory_operations import MarkCleanStop
from penstock.log.outbox import Outbox
from penstock.log.replica import State
from penstock.log.table import ReplicaTable

NOT_GOOD = (State.UNRECOVERED, State.RECOVERING, State.BROKEN)


class Stopping:
    """How far a clean stop is. Attributes: `done`, whether it is complete, or nothing more can be done for it."""

    def __init__(self, table: ReplicaTable, outbox: Outbox, checkpointing: Checkpointing) -> None:
        self.done = False
        self._table = table
        self._outbox = outbox
        self._checkpointing = checkpointing
        self._broker_epoch = UNKNOWN_BROKER_EPOCH
        self._marking = False

    def begin(self, broker_epoch: int) -> None:
        """Begins to close all logs. Call `proceed` until it is done."""
        self._broker_epoch = broker_epoch
        self._table.stopping = True

    def proceed(self) -> None:
        """Takes the next step once nothing of the last one is under way."""
        if self.done or not self._quiet():
            return
        if not self._marking:
            self._marking = True
            for directory in self._table.online:
                for checkpoint in directory.checkpoints:
                    self._checkpointing.write(directory, checkpoint)
                if self._good(directory):
                    self._outbox.emit(MarkCleanStop(directory.index, self._outbox, self._broker_epoch))
        self.done = self._quiet()

    def _quiet(self) -> bool:
        return not self._table.open and self._outbox.quiet

    def _good(self, directory: LogDirectory) -> bool:
        """Whether the files of every log of the directory are complete."""
        return not any(replica.state in NOT_GOOD for replica in self._table.of_directory(directory))
