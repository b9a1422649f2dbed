"""What a log directory's file system must offer, and the operations that run on it.

The rooms above the line never open a file. They hold a `Disk`, one a log directory, and use it in two ways:

- *Reads on the loop*: `disk.read` answers at once from the page cache or raises `NotResident`; the node's dispatcher
  then has the directory's lane do the read and runs the handler again. So handlers read first and change state after.
- *Everything that may block* (append, fsync, roll, unlink, checkpoint) is an `Operation`: an object that knows how to
  run itself on a blocking disk. The node emits operations as effects; the shell runs each inline or in the lane,
  first-in first-out for operations of the same `order`, and reports the end back to the node, which tells `owner`.

`server.disk` is the real one, `simulator.world.disk` the simulated one. Paths are relative to the log directory,
with "/" between parts; "" is the directory itself.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Buffer = bytes | bytearray | memoryview

FSYNC_FAILED = ".penstock-fsync-failed"
"""A file that a disk makes in its directory when an fsync fails there, not fsynced itself. What the fsync should have
written is in the page cache and not on the medium, and no later fsync writes it; a process that finds the file does not
trust what it reads. A power failure may take the file: what is read after that is on the medium."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One entry of a directory listing."""

    name: str
    size_bytes: int
    modified_ms: int
    is_directory: bool


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A range of a file that a response contains without its bytes having been read; the shell reads it when it sends.

    `directory` is the index of the log directory, `path` is relative to it. `names_version` is the disk's version at
    which the path named this file; None: whichever file has it when it is read.
    """

    directory: int
    path: str
    position: int
    length: int
    names_version: int | None = None

    def part(self, start: int, length: int) -> FileSlice:
        """`length` bytes of it, `start` bytes after its own beginning."""
        assert 0 <= start <= start + length <= self.length
        return FileSlice(self.directory, self.path, self.position + start, length, self.names_version)


class Disk(Protocol):
    """One log directory. Raises OSError as the operating system does (FileNotFoundError, ENOSPC, EIO).

    The instance that handlers hold raises `NotResident` from `read` instead of waiting; the instance that operations
    and start-up get blocks. Both have the same methods.
    """

    directory: int

    @property
    def names_version(self) -> int:
        """Counts renames, removals and truncations, which change what a path means; see `FileSlice`."""
        ...

    def find(self, piece: FileSlice) -> str:
        """The present path of the file that a slice means. FileNotFoundError if that file is gone."""
        ...

    def read(self, path: str, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the end of the file. May raise NotResident."""
        ...

    def size(self, path: str) -> int:
        """Length of the file in bytes."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> Sequence[FileInfo]:
        """Entries of a directory, sorted by name."""
        ...

    def write(self, path: str, position: int, chunks: Sequence[Buffer]) -> None:
        """Writes all chunks one after the other at `position`, creating the file if it is missing. Not durable."""
        ...

    def truncate(self, path: str, size_bytes: int) -> None: ...

    def fsync(self, path: str) -> None:
        """Makes a file's content durable. A failure is final: the directory goes offline, it is never retried. See
        `FSYNC_FAILED`."""
        ...

    def fsync_data(self, paths: Sequence[str], directories: Sequence[str] = ()) -> Sequence[str]:
        """Makes the contents of several files, and the names in several directories, durable, at the same time where
        that is faster. Returns those of the paths that are not there. A failure is as final as that of `fsync`."""
        ...

    def fsync_directory(self, path: str) -> None:
        """Makes creations, renames and removals in a directory durable."""
        ...

    def replace(self, path: str, data: Buffer) -> None:
        """Writes a whole file atomically and durably: temporary file, fsync, rename, fsync of the directory."""
        ...

    def replace_all(self, files: Sequence[tuple[str, Buffer]]) -> None:
        """Writes many small files, each atomically, its content durable before its name is there.

        One wait for the medium where the file system can do that for all; the names themselves become durable with
        `fsync_directory`.
        """
        ...

    def rename(self, old: str, new: str) -> None:
        """Renames a file or directory, replacing a file that is in the way. Open handles follow."""
        ...

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Says when a file was modified last, in wall time. Durable with the next `fsync` of the file."""
        ...

    def unlink(self, path: str) -> None:
        """Removes a file; a missing one is no error."""
        ...

    def make_directory(self, path: str) -> None:
        """Creates one directory; an existing one is no error."""
        ...

    def remove_directory(self, path: str) -> None:
        """Removes a directory with all that is in it."""
        ...

    def free_bytes(self) -> int:
        """Free space of the file system."""
        ...

    def total_bytes(self) -> int:
        """Size of the file system."""
        ...


def read_slice(disk: Disk, piece: FileSlice) -> bytes:
    """As `Disk.read`, of the file that a slice means. FileNotFoundError if it is gone, or went while it was read."""
    path = disk.find(piece)
    data = disk.read(path, piece.position, piece.length)
    if disk.find(piece) != path:
        raise FileNotFoundError(errno.ENOENT, "the file got another name while it was read", path)
    return data


class OperationOwner(Protocol):
    """The object told how an operation ended. It is called on the loop, in the order in which operations of one `order`
    were emitted."""

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None: ...

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None: ...

    def operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        """A bug: the operation, or the handling of its end, raised `error`. Ends only what the operation was for."""


class Operation(ABC):
    """Work on one log directory that may block. Subclasses define `run`.

    Attributes:
        directory: index of the log directory whose disk `run` is given.
        order: operations with the same (directory, order) run one at a time, first-in first-out. A log's name, usually.
        inline: whether the shell may run it on the loop when the disk is healthy (small appends to the page cache);
            otherwise it always goes to the lane (fsync, roll, unlink, reads from a cold file).
        owner: told how it ended.
        tenant, size_bytes: for whom it reads, and how much: tenants take turns for the threads of a lane. None: it is
            the node's own work. Where several of an order run together, the first one's counts.
    """

    __slots__ = ("directory", "inline", "order", "owner")

    tenant: Hashable = None
    size_bytes: int = 0

    def __init__(self, directory: int, order: str, owner: OperationOwner, *, inline: bool = False) -> None:
        self.directory = directory
        self.order = order
        self.owner = owner
        self.inline = inline

    @abstractmethod
    def run(self, disk: Disk) -> Any:
        """Does the work on a blocking disk, off the loop or on it. Touches no state that the loop uses."""
