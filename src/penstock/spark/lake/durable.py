"""Local files that are on the disk, with their names, when they are closed.

A commit may outlive a power cut that the files which it names did not. So they are forced to the disk before the
commit, and the commit's own entry after it; an object store does as much by itself.
"""

from __future__ import annotations

import os
from contextlib import suppress
from io import BufferedWriter, FileIO


class DurableFile(BufferedWriter):
    """A new file.

    Args:
        path: where; FileExistsError if it is there.
        root: a directory above it that lasts; those between are made.
    """

    def __init__(self, path: str, root: str) -> None:
        self._directories = directories_between(path, root)
        os.makedirs(self._directories[0], exist_ok=True)
        super().__init__(FileIO(path, "xb"))

    def close(self) -> None:
        """Forces the file and the directories to the disk."""
        if self.closed:
            return
        try:
            self.flush()
            os.fsync(self.fileno())
        finally:
            super().close()
        for each in self._directories:
            sync(each)


def directories_between(path: str, root: str) -> list[str]:
    """The directory of a file and those above it, down to up, to `root`."""
    found = [os.path.dirname(path)]
    while found[-1] != root and len(found[-1]) > len(root):
        found.append(os.path.dirname(found[-1]))
    return found


def sync_above(path: str) -> None:
    """Forces the directories above a path to the disk, some of which may be new, as far as we may read them."""
    while path != (path := os.path.dirname(path)):
        with suppress(PermissionError):
            sync(path)


def sync(path: str) -> None:
    """Forces a file or a directory to the disk; one that is gone by now needs none."""
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
