"""What happened to the files of a log directory under their names, so that a slice always means the same file.

A slice names its file by the path, and by the number of name changes when it was made. A later rename is followed, of
the file or of the directory it is in; a file that was removed, or cut to less than the slice needs, is gone, whatever
has its name now.
"""

from __future__ import annotations

import errno
from collections import deque
from typing import NamedTuple

from penstock.log.disk import FileSlice
from penstock.log.limits import NAME_CHANGES_REMEMBERED_MAX


class Change(NamedTuple):
    """One change of what a path means: `new`, where its file went; None if it was removed, or cut to `size_bytes`."""

    version: int
    new: str | None
    size_bytes: int


class NameHistory:
    """The latest changes, by path. `version` counts all of them."""

    def __init__(self) -> None:
        self.version = 0
        self._changes: dict[str, list[Change]] = {}
        self._order: deque[str] = deque()
        self._forgotten = 0

    def renamed(self, old: str, new: str) -> None:
        """A file or directory got another name; anything that had that name before is removed."""
        self._note(new, None)
        self._note(old, new)

    def removed(self, path: str) -> None:
        """A file or directory is gone."""
        self._note(path, None)

    def truncated(self, path: str, size_bytes: int) -> None:
        """Notes that the bytes of a file beyond this size are no longer the same."""
        self._note(path, None, size_bytes)

    def _note(self, path: str, new: str | None, size_bytes: int = 0) -> None:
        self.version += 1
        self._changes.setdefault(path, []).append(Change(self.version, new, size_bytes))
        self._order.append(path)
        if len(self._order) > NAME_CHANGES_REMEMBERED_MAX:
            oldest = self._order.popleft()
            changes = self._changes[oldest]
            self._forgotten = changes.pop(0).version
            if not changes:
                del self._changes[oldest]

    def find(self, piece: FileSlice) -> str:
        """The present path of the file that a slice means.

        Raises FileNotFoundError if the file is gone, or if the change is too old to be remembered.
        """
        path, version = piece.path, piece.names_version
        if version is None or version == self.version:
            return path
        if version < self._forgotten:
            raise FileNotFoundError(errno.ENOENT, "nobody remembers which file this was", path)
        while (found := self._next(path, version)) is not None:
            name, change = found
            version = change.version
            if change.new is not None:
                path = change.new + path[len(name) :]
            elif piece.position + piece.length > change.size_bytes:
                raise FileNotFoundError(errno.ENOENT, "the file was removed or cut since", path)
        return path

    def _next(self, path: str, version: int) -> tuple[str, Change] | None:
        """The first change after a version to a file, or to the directory it is in, and to which of the two."""
        found = None
        for name in (path, path.partition("/")[0]):
            for change in self._changes.get(name, ()):
                if change.version > version:
                    if found is None or change.version < found[1].version:
                        found = name, change
                    break
        return found
