"""A clean stop: close all logs, then write the checkpoints, then mark the directories, then it is done.

A directory whose recovery was not complete is not marked, so that the next start goes on with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.log.directory import LogDirectory
from penstock.log.directory_operations import MarkCleanStop
from penstock.log.part import ManagerPart
from penstock.log.replica import State

if TYPE_CHECKING:
    from penstock.log.manager import LogManager

NOT_GOOD = (State.UNRECOVERED, State.RECOVERING, State.BROKEN)


class Stopping(ManagerPart):
    """How far a clean stop is. `proceed` is called after every operation that ended."""

    def __init__(self, manager: LogManager, broker_epoch: int) -> None:
        super().__init__(manager)
        self.broker_epoch = broker_epoch
        self.marking = False
        self.done = False

    def proceed(self) -> None:
        """Takes the next step once nothing of the last one is under way."""
        if self.done or not self.manager.quiet:
            return
        if self.marking:
            self.done = True
            return
        self.marking = True
        for directory in self.manager.online:
            for checkpoint in directory.checkpoints:
                self.manager.upkeep.write_checkpoint(directory, checkpoint)
            if self._good(directory):
                self.manager.emit(MarkCleanStop(directory.index, self, self.broker_epoch))
        if self.manager.quiet:
            self.done = True

    def _good(self, directory: LogDirectory) -> bool:
        """Whether every log of the directory is as its files say."""
        return not any(
            replica.state in NOT_GOOD for replica in self.manager.replicas() if replica.directory is directory
        )
