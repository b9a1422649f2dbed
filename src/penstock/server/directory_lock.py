"""`.lock`: two processes never use one log directory, whether they are Penstock or Apache Kafka.

The lock is a POSIX record lock on the whole file, as Java's FileChannel.lock takes it. Such a lock does not exclude the
process that holds it, and it is dropped when *any* descriptor of the file is closed. So a registry records which
directories this process has locked, and nothing else ever opens the file.
"""

from __future__ import annotations

import fcntl
import os
import sys
from struct import Struct

from penstock.errors import StorageError

LOCK_FILE = ".lock"

_locked: dict[str, int] = {}
_handed_over: dict[str, int] = {}


class DirectoryLock:
    """The lock of one log directory, held until `release`."""

    def __init__(self, path: str) -> None:
        """Takes the lock.

        Raises:
            StorageError: this or another process holds it; the message says what to do.
        """
        self.path = os.path.realpath(path)
        if self.path in _handed_over:
            _locked[self.path] = _handed_over.pop(self.path)
            return
        if self.path in _locked:
            raise StorageError(f"log directory {path} is used twice by this process; give each node its own log.dirs")
        descriptor = os.open(f"{self.path}/{LOCK_FILE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if not isinstance(error, BlockingIOError | PermissionError):
                raise
            raise StorageError(
                f"log directory {path} is in use by another process\n"
                "  stop it first, or give this node its own log.dirs"
            ) from None
        _locked[self.path] = descriptor

    def release(self) -> None:
        """Releases the lock; does nothing the second time."""
        descriptor = _locked.pop(self.path, None)
        if descriptor is not None:
            os.close(descriptor)

    def hand_over(self) -> None:
        """Keeps other processes out until this one takes the lock again, which then succeeds."""
        _handed_over[self.path] = _locked.pop(self.path)


def has_been_locked(path: str) -> bool:
    """Whether a process has ever locked a log directory."""
    return os.path.exists(f"{path}/{LOCK_FILE}")


def holder_of(path: str) -> int | None:
    """The process that holds the lock of a log directory, None if nobody does; asks only, and takes no lock.

    A process in another container has the number 0 or one that means nothing here.
    """
    full = os.path.realpath(path)
    if full in _locked or full in _handed_over:
        return os.getpid()
    try:
        descriptor = os.open(f"{full}/{LOCK_FILE}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        asked = fcntl.fcntl(descriptor, fcntl.F_GETLK, FLOCK.pack(*flock(fcntl.F_WRLCK)))
    finally:
        os.close(descriptor)
    kind, pid = of_flock(FLOCK.unpack(asked))
    return None if kind == fcntl.F_UNLCK else pid


# `struct flock` in C: type and whence, start and length of the range, process; macOS has another order.
FLOCK = Struct("qqihh") if sys.platform == "darwin" else Struct("hhqqi4x")


def flock(kind: int) -> tuple[int, ...]:
    """The fields for a lock of the whole file."""
    return (0, 0, 0, kind, os.SEEK_SET) if sys.platform == "darwin" else (kind, os.SEEK_SET, 0, 0, 0)


def of_flock(fields: tuple[int, ...]) -> tuple[int, int]:
    """Kind of lock and process."""
    return (fields[3], fields[2]) if sys.platform == "darwin" else (fields[0], fields[4])
