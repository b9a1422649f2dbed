"""Open file descriptors of one log directory, by path: opened at first use, the least recently used closed at a limit.

The loop and the lane's threads share them. A descriptor is borrowed for the time of one system call; one that is
borrowed is closed only when it is given back, so no thread ever uses the number of a closed descriptor. A lock guards
the table, never a system call that may wait; a file that was opened while another thread renamed or removed something
is not kept, since its path may mean another file by now.

Renames move the descriptors along. Responses under way may still name the old path, so the last renames are remembered:
a path that is gone is looked for where it went.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

RENAMES_REMEMBERED_MAX = 1024
"""Older renames are forgotten; a response that still names such a path fails and its connection is closed."""


class Handle:
    """One open descriptor and how many system calls are using it."""

    __slots__ = ("closing", "descriptor", "uses")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.uses = 0
        self.closing = False


class FileHandles:
    """The descriptors of the files under `root`.

    Args:
        root: absolute path of the log directory.
        descriptors_max: how many stay open; borrowed ones may exceed it for the moment.
        writable: whether files are opened for writing too.
    """

    def __init__(self, root: str, descriptors_max: int, *, writable: bool = True) -> None:
        assert descriptors_max > 0
        self.root = root
        self.descriptors_max = descriptors_max
        self._flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC
        self._handles: OrderedDict[str, Handle] = OrderedDict()
        self._renames: OrderedDict[str, str] = OrderedDict()
        self._changes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._handles)

    def full_path(self, path: str) -> str:
        """Path in the file system of a path within the directory."""
        return f"{self.root}/{path}" if path else self.root

    @contextmanager
    def borrow(self, path: str, *, create: bool = False) -> Iterator[int]:
        """A descriptor of the file for the time of the `with` block, opened (or created) if need be."""
        handle = self.take(path, create=create)
        try:
            yield handle.descriptor
        finally:
            self.give_back(handle)

    def take(self, path: str, *, create: bool = False) -> Handle:
        """`borrow` without the `with`, for the paths that every request takes; must be given back."""
        return self._take_open(path) or self._open(path, create=create)

    def give_back(self, handle: Handle) -> None:
        """The system call is over; closes the descriptor if it was taken out of the table meanwhile."""
        with self._lock:
            handle.uses -= 1
            close_it = handle.closing and handle.uses == 0
        if close_it:
            os.close(handle.descriptor)

    def renamed(self, old: str, new: str) -> None:
        """A file or directory got another name: its descriptors follow, those of a replaced file are closed."""
        with self._lock:
            self._changes += 1
            closed = self._pop(new)
            below = old + "/"
            for path in [path for path in self._handles if path == old or path.startswith(below)]:
                self._handles[new + path[len(old) :]] = self._handles.pop(path)
            self._renames[old] = new
            self._renames.move_to_end(old)
            if len(self._renames) > RENAMES_REMEMBERED_MAX:
                self._renames.popitem(last=False)
        close_all(closed)

    def removed(self, path: str) -> None:
        """A file or directory is gone: its descriptors are closed."""
        with self._lock:
            self._changes += 1
            closed = self._pop(path)
            for below in [other for other in self._handles if other.startswith(path + "/")]:
                closed += self._pop(below)
        close_all(closed)

    def close(self) -> None:
        """Closes all descriptors."""
        self.removed("")
        with self._lock:
            closed = [descriptor for path in list(self._handles) for descriptor in self._pop(path)]
        close_all(closed)

    def _take_open(self, path: str) -> Handle | None:
        with self._lock:
            handle = self._handles.get(path)
            if handle is not None:
                handle.uses += 1
                self._handles.move_to_end(path)
            return handle

    def _open(self, path: str, *, create: bool) -> Handle:
        changes = self._changes
        flags = self._flags | os.O_CREAT if create else self._flags
        try:
            handle = Handle(os.open(self.full_path(path), flags, 0o644))
        except FileNotFoundError:
            moved = None if create else self._moved_to(path)
            if moved is None:
                raise
            return self.take(moved)
        handle.uses = 1
        with self._lock:
            closed = self._keep(path, handle) if changes == self._changes else self._do_not_keep(handle)
            if create:
                self._renames.pop(path, None)
        close_all(closed)
        return handle

    def _keep(self, path: str, handle: Handle) -> list[int]:
        """Puts a handle into the table (replacing one that another thread opened meanwhile); what to close."""
        closed = self._pop(path)
        self._handles[path] = handle
        while len(self._handles) > self.descriptors_max:
            closed += self._pop(next(iter(self._handles)))
        return closed

    def _do_not_keep(self, handle: Handle) -> list[int]:
        handle.closing = True
        return []

    def _moved_to(self, path: str) -> str | None:
        """Where a file went that is not at `path` any more: its own rename, or that of the directory it is in."""
        with self._lock:
            if path in self._renames:
                return self._renames[path]
            folder, separator, rest = path.partition("/")
            if separator and folder in self._renames:
                return f"{self._renames[folder]}/{rest}"
        return None

    def _pop(self, path: str) -> list[int]:
        """Takes a handle out of the table; the descriptor to close, if no system call is using it."""
        handle = self._handles.pop(path, None)
        if handle is None:
            return []
        handle.closing = True
        return [] if handle.uses else [handle.descriptor]


def close_all(descriptors: list[int]) -> None:
    """Closes descriptors, outside of any lock."""
    for descriptor in descriptors:
        os.close(descriptor)
