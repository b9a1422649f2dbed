"""`.lock`: two processes never use one log directory, whether they are Penstock or Apache Kafka.

The lock is a POSIX record lock on the whole file, as Java's FileChannel.lock takes it. Such a lock does not exclude the
process that holds it, and it is dropped when *any* descriptor of the file is closed. So a registry records which
directories this process has locked, and nothing else ever opens the file.
"""

from __future__ import annotations

import fcntl
import os

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
