"""When somebody looks how much room a log directory has: while it is written to, while it is full, and on request.

A directory that nobody writes to is not looked at, so an idle node has no deadline for this. What is found at the start
comes from there.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.log.deadlines import Deadlines
from penstock.log.directory import LogDirectory
from penstock.log.disk import Disk, Operation, OperationOwner
from penstock.log.events import DirectoryFull, DirectoryHasRoom, LogEvent
from penstock.log.limits import SPACE_LOOK_MS
from penstock.log.listener import LogListener
from penstock.log.outbox import Outbox
from penstock.log.table import ReplicaTable


class MeasureSpace(Operation):
    """Asks the file system of a directory. The result are its free and its total bytes."""

    __slots__ = ()

    def __init__(self, directory: int, owner: OperationOwner) -> None:
        super().__init__(directory, ".space", owner)

    def run(self, disk: Disk) -> tuple[int, int]:
        return disk.free_bytes(), disk.total_bytes()


class SpaceLooks:
    """Keeps the `space` of all directories current, and tells of changes. Attributes: `due`, those to measure now."""

    def __init__(
        self,
        table: ReplicaTable,
        deadlines: Deadlines,
        report: Callable[[LogEvent], None],
        listener: LogListener,
    ) -> None:
        self._table = table
        self._deadlines = deadlines
        self._report = report
        self._listener = listener
        self.due: list[LogDirectory] = []

    def start(self, directory: LogDirectory, now_ms: int) -> None:
        """The first look, at the start, which waits for the disk. Raises OSError as the disk does."""
        disk = directory.blocking_disk
        self._take_in(directory, disk.free_bytes(), disk.total_bytes(), now_ms)

    def written(self, directory: LogDirectory) -> None:
        """Records have been written there."""
        if not directory.space.look_due:
            self._look(directory, SPACE_LOOK_MS)

    def look_soon(self) -> None:
        """Somebody wants to know."""
        for directory in self._table.online:
            if not directory.space.look_due:
                self._look(directory, 0)

    def _look(self, directory: LogDirectory, delay_ms: int) -> None:
        directory.space.look_due = True
        self._deadlines.after(delay_ms, lambda _: self.due.append(directory))

    def ran_out(self, directory: LogDirectory, error: OSError, now_ms: int) -> None:
        """A write has found no room."""
        self._deadlines.seen(now_ms)
        if directory.space.ran_out():
            self._tell(directory, now_ms, error)
        self.written(directory)

    def measure(self, outbox: Outbox) -> None:
        """Has those that are due measured."""
        due, self.due = self.due, []
        for directory in due:
            outbox.emit(MeasureSpace(directory.index, outbox), self._measured, background=True)

    def _measured(self, operation: MeasureSpace, found: tuple[int, int], now_ms: int) -> None:
        self._deadlines.seen(now_ms)
        directory = self._table.directories[operation.directory]
        directory.space.look_due = False
        self._take_in(directory, *found, now_ms)

    def _take_in(self, directory: LogDirectory, free_bytes: int, total_bytes: int, now_ms: int) -> None:
        wanted_bytes = self._table.settings.penstock_log_dir_reserve_bytes
        if directory.space.measured(free_bytes, total_bytes, wanted_bytes, now_ms):
            self._tell(directory, now_ms)
        if directory.space.full:
            self.written(directory)

    def _tell(self, directory: LogDirectory, now_ms: int, error: OSError | None = None) -> None:
        space = directory.space
        if space.full:
            reason = str(error) if error is not None else ""
            self._report(DirectoryFull(directory.path, space.free_bytes, space.reserve_bytes, space.back_bytes, reason))
        else:
            self._report(DirectoryHasRoom(directory.path, space.free_bytes))
        self._listener.space_changed(directory.index, now_ms)
