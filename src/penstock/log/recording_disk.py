"""A disk that changes nothing: it reads another one, and keeps all changes in memory, as a list.

Reads see the changes. `apply` makes them on the real disk, in the order in which they were recorded, so that a crash in
between leaves what it would have left without the detour.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.errors import PenstockError
from penstock.log.disk import Buffer, Disk, FileInfo, FileSlice

Change = tuple[Any, ...]
"""The name of a method of `Disk`, and its arguments."""

CHANGES = frozenset(
    (
        "write",
        "truncate",
        "fsync",
        "fsync_directory",
        "replace",
        "rename",
        "set_modified",
        "unlink",
        "make_directory",
        "remove_directory",
    )
)


class TooManyChangesError(PenstockError):
    """The changes would take more memory than they may."""


def apply(disk: Disk, changes: Iterable[Change]) -> None:
    """Makes recorded changes. Raises OSError as the disk does."""
    for method, *arguments in changes:
        assert method in CHANGES, method
        getattr(disk, method)(*arguments)


class Content:
    """What a changed file has: the first `size_bytes` of a file of the real disk, or `data`."""

    __slots__ = ("data", "size_bytes", "source")

    def __init__(self, source: str, size_bytes: int, data: bytearray | None = None) -> None:
        self.source = source
        self.size_bytes = size_bytes
        self.data = data


class RecordingDisk:
    """See the module's head. `changes` holds at most `bytes_max` of written data; beyond it TooManyChangesError."""

    def __init__(self, disk: Disk, bytes_max: int) -> None:
        self.directory = disk.directory
        self.changes: list[Change] = []
        self._disk = disk
        self._bytes_left = bytes_max
        self._files: dict[str, Content | None] = {}
        self._directories: list[str] = []

    # Reading

    @property
    def names_version(self) -> int:
        return self._disk.names_version

    def find(self, piece: FileSlice) -> str:
        return self._disk.find(piece)

    def read(self, path: str, position: int, length: int) -> bytes:
        if path not in self._files:
            return self._disk.read(path, position, length)
        content = self._changed(path)
        if content.data is not None:
            return bytes(content.data[position : position + length])
        length = min(length, content.size_bytes - position)
        return self._disk.read(content.source, position, length) if length > 0 else b""

    def size(self, path: str) -> int:
        return self._disk.size(path) if path not in self._files else self._changed(path).size_bytes

    def exists(self, path: str) -> bool:
        if path in self._files:
            return self._files[path] is not None
        return path in self._directories or self._disk.exists(path)

    def list(self, path: str) -> Sequence[FileInfo]:
        found = {} if path in self._directories else {info.name: info for info in self._disk.list(path)}
        for changed, content in self._files.items():
            directory, _, name = changed.rpartition("/")
            if directory != path:
                continue
            before = found.pop(name, None)
            if content is not None:
                modified_ms = before.modified_ms if before is not None else 0
                found[name] = FileInfo(name, content.size_bytes, modified_ms, is_directory=False)
        return [found[name] for name in sorted(found)]

    def free_bytes(self) -> int:
        return self._disk.free_bytes()

    def total_bytes(self) -> int:
        return self._disk.total_bytes()

    # Changing

    def write(self, path: str, position: int, chunks: Sequence[Buffer]) -> None:
        data = b"".join(chunks)
        self._take_room(len(data))
        written = self._writable(path)
        assert written.data is not None
        if len(written.data) < position:
            written.data += bytes(position - len(written.data))
        written.data[position : position + len(data)] = data
        written.size_bytes = len(written.data)
        self.changes.append(("write", path, position, [data]))

    def truncate(self, path: str, size_bytes: int) -> None:
        content = self._changed(path)
        if content.data is not None or size_bytes > content.size_bytes:
            content = self._writable(path)
            assert content.data is not None
            content.data = content.data[:size_bytes].ljust(size_bytes, b"\0")
        content.size_bytes = size_bytes
        self.changes.append(("truncate", path, size_bytes))

    def fsync(self, path: str) -> None:
        self.changes.append(("fsync", path))

    def fsync_data(self, paths: Sequence[str], directories: Sequence[str] = ()) -> Sequence[str]:
        self.changes.extend(("fsync", path) for path in paths)
        self.changes.extend(("fsync_directory", path) for path in directories)
        return ()

    def fsync_directory(self, path: str) -> None:
        self.changes.append(("fsync_directory", path))

    def replace(self, path: str, data: Buffer) -> None:
        self._take_room(len(data))
        self._files[path] = Content(path, len(data), bytearray(data))
        self.changes.append(("replace", path, bytes(data)))

    def replace_all(self, files: Sequence[tuple[str, Buffer]]) -> None:
        for path, data in files:
            self.replace(path, data)

    def rename(self, old: str, new: str) -> None:
        self._files[new] = self._changed(old)
        self._files[old] = None
        self.changes.append(("rename", old, new))

    def set_modified(self, path: str, modified_ms: int) -> None:
        """See `Disk`; `list` shows it only once the changes are made."""
        self._changed(path)
        self.changes.append(("set_modified", path, modified_ms))

    def unlink(self, path: str) -> None:
        self._files[path] = None
        self.changes.append(("unlink", path))

    def make_directory(self, path: str) -> None:
        if not self.exists(path):
            self._directories.append(path)
        self.changes.append(("make_directory", path))

    def remove_directory(self, path: str) -> None:
        for info in self.list(path):
            self._files[f"{path}/{info.name}"] = None
        self.changes.append(("remove_directory", path))

    def _changed(self, path: str) -> Content:
        """The content of a file that is, or is about to be, not what the real disk has. Raises FileNotFoundError."""
        if path not in self._files:
            self._files[path] = Content(path, self._disk.size(path))
        content = self._files[path]
        if content is None:
            raise FileNotFoundError(errno.ENOENT, "the file has been removed", path)
        return content

    def _writable(self, path: str) -> Content:
        """The content of a file, in memory; that of a new one is empty."""
        content = self._changed(path) if self.exists(path) else Content(path, 0, bytearray())
        if content.data is None:
            self._take_room(content.size_bytes)
            content.data = bytearray(self._disk.read(content.source, 0, content.size_bytes))
        self._files[path] = content
        return content

    def _take_room(self, count: int) -> None:
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise TooManyChangesError("the changes to the files of a log are too many to be kept in memory")
