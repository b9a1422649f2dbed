"""Open file descriptors of one log directory, by path: opened at first use, the least recently used closed at a limit.

The loop and the lane's threads share them. A descriptor is borrowed for one system call; a borrowed one is closed only
when it is given back, so no thread ever uses the number of a closed descriptor. A lock protects the table, but is never
held during a system call that may wait; a file that was opened while another thread renamed or removed something is not
kept, since its path may mean another file by now.

A process that has no descriptor left closes those of files that nobody uses at the moment, half of them at a time, and
from then on keeps one as a spare. If there are no such files, because others have all descriptors (sockets, an
embedding program), the spare is closed to make room.

Renames move the descriptors along. Responses under way still name the old path; a `NameHistory` knows which file they
mean. Another lock is held over each rename, and while a file is opened for a slice, so that a name and its history
change together. A removal is recorded before it happens: no slice may find the file afterwards.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TypeVar

from penstock.log.disk import FileSlice
from penstock.log.name_history import NameHistory

T = TypeVar("T")

SECRET_DIRECTORY, SECRET_FILE = "__cluster_metadata-0", "bootstrap.checkpoint"
"""The metadata log, and what it begins with. They have keys of users and passwords of stores, so only the owner enters
and reads them; other logs may be read by whom the umask lets, for loads from segment files."""
NO_DESCRIPTOR_LEFT = (errno.EMFILE, errno.ENFILE)


def file_mode(path: str) -> int:
    """The rights of a file that is made, before the umask takes some."""
    return 0o600 if path.rpartition("/")[2].startswith(SECRET_FILE) else 0o644


class Handle:
    """An open descriptor and the number of system calls that are using it."""

    __slots__ = ("closing", "descriptor", "uses")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.uses = 0
        self.closing = False


class FileHandles:
    """The descriptors of the files under `root`.

    Args:
        root: absolute path of the log directory.
        descriptors_max: how many stay open; borrowed ones may exceed it temporarily.
        writable: whether files are also opened for writing.

    Attributes: `names`, the history of renamed and removed files.
    """

    def __init__(self, root: str, descriptors_max: int, *, writable: bool = True) -> None:
        assert descriptors_max > 0
        self.root = root
        self.descriptors_max = descriptors_max
        self._flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC
        self._handles: OrderedDict[str, Handle] = OrderedDict()
        self.names = NameHistory()
        self._changes = 0
        self._lock = Lock()
        self._naming = Lock()
        self._spare: int | None = None

    def __len__(self) -> int:
        return len(self._handles)

    def full_path(self, path: str) -> str:
        """Path in the file system of a path within the directory."""
        return f"{self.root}/{path}" if path else self.root

    @contextmanager
    def borrow(self, path: str, *, create: bool = False) -> Iterator[int]:
        """A descriptor of the file for the `with` block, opened (or created) if necessary."""
        handle = self.take(path, create=create)
        try:
            yield handle.descriptor
        finally:
            self.give_back(handle)

    def take(self, path: str, *, create: bool = False) -> Handle:
        """`borrow` without the `with`, for paths that every request takes; the handle must be given back."""
        with self._lock:
            handle = self._used(path)
        return handle or self._open(path, create=create)

    def take_for(self, piece: FileSlice) -> Handle:
        """Like `take`, for the file that a slice means. Raises FileNotFoundError if it is gone."""
        with self._lock:
            handle = self._used(self.names.find(piece))
        if handle is None:
            with self._naming:
                handle = self.take(self.find(piece))
        return handle

    def give_back(self, handle: Handle) -> None:
        """Ends the use of a descriptor; closes it if it was removed from the table meanwhile."""
        with self._lock:
            handle.uses -= 1
            close_it = handle.closing and handle.uses == 0
        if close_it:
            os.close(handle.descriptor)

    def find(self, piece: FileSlice) -> str:
        """The present path of the file that a slice means. Raises FileNotFoundError if it is gone."""
        with self._lock:
            return self.names.find(piece)

    def rename(self, old: str, new: str) -> None:
        """Renames a file or directory: its descriptors follow, those of a replaced file are closed."""
        with self._naming:
            os.replace(self.full_path(old), self.full_path(new))
            self._renamed(old, new)

    def remove(self, path: str, remove: Callable[[str], None]) -> None:
        """Calls `remove` with the full path of a file or directory, and closes its descriptors."""
        with self._lock:
            self.names.removed(path)
        try:
            remove(self.full_path(path))
        finally:
            self.replaced(path)

    def truncated(self, path: str, size_bytes: int) -> None:
        """Invalidates slices beyond the point where a file is about to be cut."""
        with self._lock:
            self.names.truncated(path, size_bytes)

    def _renamed(self, old: str, new: str) -> None:
        with self._lock:
            self._changes += 1
            self.names.renamed(old, new)
            closed = self._pop(new)
            below = old + "/"
            for path in [path for path in self._handles if path == old or path.startswith(below)]:
                self._handles[new + path[len(old) :]] = self._handles.pop(path)
        close_all(closed)

    def replaced(self, path: str) -> None:
        """Closes the descriptors of the file or directory that had this path: another has it now, or none."""
        with self._lock:
            self._changes += 1
            closed = self._pop(path)
            for below in [other for other in self._handles if other.startswith(path + "/")]:
                closed += self._pop(below)
        close_all(closed)

    def close(self) -> None:
        self.replaced("")
        with self._lock:
            closed = [descriptor for path in list(self._handles) for descriptor in self._pop(path)]
            if self._spare is not None:
                closed.append(self._spare)
                self._spare = None
        close_all(closed)

    def _used(self, path: str) -> Handle | None:
        """The handle of a path with one more use. The caller holds the table's lock."""
        handle = self._handles.get(path)
        if handle is not None:
            handle.uses += 1
            self._handles.move_to_end(path)
        return handle

    def _open(self, path: str, *, create: bool) -> Handle:
        changes = self._changes
        flags = self._flags | os.O_CREAT if create else self._flags
        full_path = self.full_path(path)
        handle = Handle(self.with_room(lambda: os.open(full_path, flags, file_mode(path))))
        handle.uses = 1
        with self._lock:
            closed = self._keep(path, handle) if changes == self._changes else self._do_not_keep(handle)
        close_all(closed)
        return handle

    def with_room(self, opens: Callable[[], T]) -> T:
        """Returns the result of `opens`. If no descriptor is left, closes some and calls it again."""
        short = False
        while True:
            try:
                opened = opens()
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR_LEFT or not self._make_room():
                    raise
                short = True
            else:
                if short:
                    self._take_spare()
                return opened

    def _take_spare(self) -> None:
        """Keeps one descriptor for the next time that none is left."""
        with self._lock, suppress(OSError):
            if self._spare is None:
                self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _make_room(self) -> bool:
        """Closes the least recently used idle files, or else the spare. Returns whether it closed any."""
        with self._lock:
            idle = [path for path, handle in self._handles.items() if not handle.uses]
            closed = [descriptor for path in idle[: (len(idle) + 1) // 2] for descriptor in self._pop(path)]
            if not closed and self._spare is not None:
                closed.append(self._spare)
                self._spare = None
        close_all(closed)
        return bool(closed)

    def _keep(self, path: str, handle: Handle) -> list[int]:
        """Puts a handle into the table, replacing one opened meanwhile by another thread; returns what to close."""
        closed = self._pop(path)
        self._handles[path] = handle
        while len(self._handles) > self.descriptors_max:
            closed += self._pop(next(iter(self._handles)))
        return closed

    def _do_not_keep(self, handle: Handle) -> list[int]:
        handle.closing = True
        return []

    def _pop(self, path: str) -> list[int]:
        """Removes a handle from the table; returns its descriptor, to be closed, if no system call is using it."""
        handle = self._handles.pop(path, None)
        if handle is None:
            return []
        handle.closing = True
        return [] if handle.uses else [handle.descriptor]


def close_all(descriptors: list[int]) -> None:
    """Closes descriptors, outside of any lock."""
    for descriptor in descriptors:
        os.close(descriptor)
