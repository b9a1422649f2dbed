"""A simulated log directory: a `Disk` in memory with a page cache, durability, latency and faults, all from one seed.

`SimulatedDisk()` alone is a plain disk in memory, good for any unit test. It is the blocking disk; `disk.loop` is the
view that handlers hold, whose reads raise `NotResident` while `disk.cold` until the same range was read on the
blocking one. Faults are set as attributes at any time:

- `crash_at`: power fails at that change (counted by `changes`: writes, truncations, fsyncs, renames, ...): `PowerLoss`
  is raised there and by everything after it, until `restart()`, which drops or tears what was not synced
  (simulator.world.files says how). `restart(power_failed=False)` is kill -9: the page cache stays.
- `fail_fsync_at`: the n-th fsync from the start fails with EIO, and what it should have written is lost at a crash.
  `fsync_failed` says that it happened since the last power failure, and a file (`FSYNC_FAILED`) tells the next process:
  until a reboot the page cache gives back what the disk does not have.
- `fail_write_at`: the write at that change fails with EIO and writes nothing.
- `unreadable`: reads fail with EIO, but for what is in the page cache; set `cold` as well.
- `capacity_bytes`: a write beyond it writes what fits and fails with ENOSPC; `refused` are the paths of those.
- `no_names_from`: from that change on a rename to a name that is not there fails with ENOSPC and changes nothing, as
  where a directory would have to grow by a block; `unnamed` are the names that it refused.
- `flip_bit(path, position, bit)`: the medium rots.

`read_bytes` counts what was read, by path; `busy_us` is the time the disk would have needed, for virtual latency.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from random import Random

from penstock.errors import NotResident
from penstock.log.disk import FSYNC_FAILED, Buffer, FileInfo, FileSlice
from penstock.log.name_history import NameHistory
from simulator.world.clock import VirtualClock
from simulator.world.files import File, Folder

GRANTED_FILES_MAX = 4096
UNLIMITED_FREE_BYTES = 1 << 50
WRITE_US = 20
FSYNC_US = 4_000
COLD_READ_US = 10_000
WARM_READ_US = 5


class PowerLoss(BaseException):
    """The machine lost power. No code that runs on the disk may catch it, so it is no Exception."""


def os_error(number: int, path: str) -> OSError:
    """The OSError (of the right subclass) that the operating system would raise."""
    return OSError(number, os.strerror(number), path)


class SimulatedDisk:
    """The blocking disk of one simulated log directory. See the module's head for its faults.

    Args:
        directory: index of the log directory.
        random: decides what a power failure leaves; a fixed seed unless given.
        clock: the time that files are stamped with.
    """

    def __init__(
        self, directory: int = 0, *, random: Random | None = None, clock: Callable[[], int] | None = None
    ) -> None:
        self.directory = directory
        self.random = random or Random(0)
        self.clock = clock or VirtualClock()
        self.root = Folder(self.clock())
        self.loop = LoopView(self)
        self.cold = False
        self.crash_at: int | None = None
        self.fail_fsync_at: int | None = None
        self.fail_write_at: int | None = None
        self.unreadable = False
        self.capacity_bytes: int | None = None
        self.refused: list[str] = []
        self.no_names_from: int | None = None
        self.unnamed: list[str] = []
        self.lost_power = False
        self.fsync_failed = False
        self.changes = 0
        self.fsyncs = 0
        self.busy_us = 0
        self.read_bytes: dict[str, int] = {}
        self.granted: OrderedDict[str, list[tuple[int, int]]] = OrderedDict()
        self._names = NameHistory()

    # Reading

    def read(self, path: str, position: int, length: int) -> bytes:
        self._check_power()
        assert position >= 0
        assert length >= 0
        if self.unreadable and not self.is_granted(path, position, length):
            raise os_error(errno.EIO, path)
        data = bytes(self._file(path).content[position : position + length])
        self.read_bytes[path] = self.read_bytes.get(path, 0) + len(data)
        self.busy_us += COLD_READ_US if self.cold and not self.is_granted(path, position, length) else WARM_READ_US
        self._grant(path, position, length)
        return data

    @property
    def names_version(self) -> int:
        return self._names.version

    def find(self, piece: FileSlice) -> str:
        return self._names.find(piece)

    def size(self, path: str) -> int:
        self._check_power()
        return len(self._file(path).content)

    def exists(self, path: str) -> bool:
        self._check_power()
        try:
            self._node(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def list(self, path: str) -> Sequence[FileInfo]:
        self._check_power()
        entries = self._folder(path).entries
        return [self._info(name, entries[name]) for name in sorted(entries)]

    def free_bytes(self) -> int:
        if self.capacity_bytes is None:
            return UNLIMITED_FREE_BYTES
        return max(0, self.capacity_bytes - self._used_bytes())

    def total_bytes(self) -> int:
        return UNLIMITED_FREE_BYTES if self.capacity_bytes is None else self.capacity_bytes

    # Changing

    def write(self, path: str, position: int, chunks: Sequence[Buffer]) -> None:
        data = b"".join(chunks)
        self._before_change()
        self.busy_us += WRITE_US
        if self.fail_write_at is not None and self.changes >= self.fail_write_at:
            self.fail_write_at = None
            raise os_error(errno.EIO, path)
        file = self._create(path)
        room = self._room_for(file, position, len(data))
        if room:
            file.change((position, data[:room]), self.clock())
        self._after_change()
        if room < len(data):
            self.refused.append(path)
            raise os_error(errno.ENOSPC, path)

    def truncate(self, path: str, size_bytes: int) -> None:
        self._before_change()
        self._file(path).change((size_bytes, None), self.clock())
        self._names.truncated(path, size_bytes)
        self._after_change()

    def fsync(self, path: str) -> None:
        file = self._file(path)
        if self._count_fsync():
            file.forget_unsynced()
            self._create(FSYNC_FAILED)
            raise os_error(errno.EIO, path)
        file.sync()

    def fsync_data(self, paths: Sequence[str], directories: Sequence[str] = ()) -> Sequence[str]:
        missing = []
        for path in (*paths, *directories):
            try:
                (self.fsync_directory if path in directories else self.fsync)(path)
            except FileNotFoundError:
                missing.append(path)
        return missing

    def fsync_directory(self, path: str) -> None:
        folder = self._folder(path)
        if self._count_fsync():
            self._create(FSYNC_FAILED)
            raise os_error(errno.EIO, path)
        folder.sync()

    def replace(self, path: str, data: Buffer) -> None:
        temporary = path + ".tmp"
        self.unlink(temporary)
        self.write(temporary, 0, [data])
        self.fsync(temporary)
        self.rename(temporary, path)
        self.fsync_directory(path.rpartition("/")[0])

    def replace_all(self, files: Sequence[tuple[str, Buffer]]) -> None:
        for path, data in files:
            self.unlink(path + ".tmp")
            self.write(path + ".tmp", 0, [data])
        for path, _ in files:
            self.fsync(path + ".tmp")
        for path, _ in files:
            self.rename(path + ".tmp", path)

    def rename(self, old: str, new: str) -> None:
        self._before_change()
        node = self._node(old)
        (source, source_name), (target, target_name) = self._parent(old), self._parent(new)
        existing = target.entries.get(target_name)
        if isinstance(existing, Folder) and (existing.entries or isinstance(node, File)):
            raise os_error(errno.ENOTEMPTY if isinstance(node, Folder) else errno.EISDIR, new)
        if existing is None and self.no_names_from is not None and self.changes >= self.no_names_from:
            self.unnamed.append(new)
            raise os_error(errno.ENOSPC, new)
        if source is target:
            source.change((source_name, None), (target_name, node))
        else:
            source.change((source_name, None))
            target.change((target_name, node))
        self._names.renamed(old, new)
        self._after_change()

    def set_modified(self, path: str, modified_ms: int) -> None:
        self._before_change()
        self._file(path).modified_ms = modified_ms
        self._after_change()

    def unlink(self, path: str) -> None:
        if not self.exists(path):
            return
        folder, name = self._parent(path)
        if isinstance(folder.entries[name], Folder):
            raise os_error(errno.EISDIR, path)
        self._before_change()
        folder.change((name, None))
        self._names.removed(path)
        self._after_change()

    def make_directory(self, path: str) -> None:
        self._check_power()
        if not path:
            return
        folder, name = self._parent(path)
        if isinstance(folder.entries.get(name), Folder):
            return
        if name in folder.entries:
            raise os_error(errno.EEXIST, path)
        self._before_change()
        folder.change((name, Folder(self.clock())))
        self._after_change()

    def remove_directory(self, path: str) -> None:
        folder = self._folder(path)
        for name in sorted(folder.entries):
            child = f"{path}/{name}"
            if isinstance(folder.entries[name], Folder):
                self.remove_directory(child)
            else:
                self.unlink(child)
        self._before_change()
        parent, name = self._parent(path)
        parent.change((name, None))
        self._names.removed(path)
        self._after_change()

    # Faults

    def restart(self, *, power_failed: bool = True) -> None:
        """Brings the machine back: with what the power failure left, or (kill -9) with all that was written."""
        if power_failed:
            self.root.lose_power(self.random)
            self._names = NameHistory()
            self.granted.clear()
            self.fsync_failed = False
        self.lost_power = False
        self.crash_at = None

    def mend(self) -> None:
        """Ends all faults of this disk but the damage that they have done."""
        self.crash_at = self.fail_fsync_at = self.fail_write_at = self.capacity_bytes = self.no_names_from = None
        self.cold = self.unreadable = False

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Flips one bit on the medium and in the page cache alike."""
        file = self._file(path)
        file.content[position] ^= 1 << bit
        if position < len(file.durable):
            file.durable[position] ^= 1 << bit

    def content(self, path: str) -> bytes:
        """The whole file, read past all faults and counters: for checkers and tests."""
        return bytes(self._file(path).content)

    def paths(self) -> Sequence[str]:
        """The paths of all files."""
        return [path for path, _ in self.root.walk()]

    # Inside

    def _check_power(self) -> None:
        if self.lost_power:
            raise PowerLoss

    def _before_change(self) -> None:
        self._check_power()
        self.changes += 1

    def _after_change(self) -> None:
        """A crash at a write comes after the page cache has it, so that any part of it may survive."""
        if self.crash_at is not None and self.changes >= self.crash_at:
            self.lost_power = True
            raise PowerLoss

    def _count_fsync(self) -> bool:
        """Counts an fsync, which a crash interrupts before it did anything; returns whether it is to fail."""
        self._before_change()
        self._after_change()
        self.fsyncs += 1
        self.busy_us += FSYNC_US
        failing = self.fsyncs == self.fail_fsync_at
        self.fsync_failed |= failing
        return failing

    def _used_bytes(self) -> int:
        return sum(len(file.content) for _, file in self.root.walk())

    def _room_for(self, file: File, position: int, length: int) -> int:
        """How many of the bytes to be written still fit."""
        if self.capacity_bytes is None:
            return length
        free = self.capacity_bytes - self._used_bytes()
        return max(0, min(length, len(file.content) + free - position))

    def is_granted(self, path: str, position: int, length: int) -> bool:
        """Whether the range was read on the blocking disk, in one piece, while the disk was cold."""
        return any(start <= position and position + length <= end for start, end in self.granted.get(path, ()))

    def _grant(self, path: str, position: int, length: int) -> None:
        if not self.cold or self.is_granted(path, position, length):
            return
        self.granted.setdefault(path, []).append((position, position + length))
        self.granted.move_to_end(path)
        if len(self.granted) > GRANTED_FILES_MAX:
            self.granted.popitem(last=False)

    @staticmethod
    def _info(name: str, node: File | Folder) -> FileInfo:
        size = len(node.content) if isinstance(node, File) else 0
        return FileInfo(name, size, node.modified_ms, isinstance(node, Folder))

    def _node(self, path: str) -> File | Folder:
        node: File | Folder = self.root
        for name in path.split("/") if path else ():
            if not isinstance(node, Folder):
                raise os_error(errno.ENOTDIR, path)
            if name not in node.entries:
                raise os_error(errno.ENOENT, path)
            node = node.entries[name]
        return node

    def _file(self, path: str) -> File:
        node = self._node(path)
        if isinstance(node, Folder):
            raise os_error(errno.EISDIR, path)
        return node

    def _folder(self, path: str) -> Folder:
        node = self._node(path)
        if isinstance(node, File):
            raise os_error(errno.ENOTDIR, path)
        return node

    def _parent(self, path: str) -> tuple[Folder, str]:
        parent, _, name = path.rpartition("/")
        return self._folder(parent), name

    def _create(self, path: str) -> File:
        folder, name = self._parent(path)
        if name not in folder.entries:
            folder.change((name, File(self.clock())))
        return self._file(path)


class LoopView:
    """The same directory as handlers see it: a read that would wait raises `NotResident`."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self.directory = disk.directory

    def read(self, path: str, position: int, length: int) -> bytes:
        disk = self._disk
        if (disk.cold or disk.unreadable) and length and not disk.is_granted(path, position, length):
            raise NotResident(disk.directory, path, position, length)
        return disk.read(path, position, length)

    @property
    def names_version(self) -> int:
        return self._disk.names_version

    def find(self, piece: FileSlice) -> str:
        return self._disk.find(piece)

    def size(self, path: str) -> int:
        return self._disk.size(path)

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def list(self, path: str) -> Sequence[FileInfo]:
        return self._disk.list(path)

    def write(self, path: str, position: int, chunks: Sequence[Buffer]) -> None:
        self._disk.write(path, position, chunks)

    def truncate(self, path: str, size_bytes: int) -> None:
        self._disk.truncate(path, size_bytes)

    def fsync(self, path: str) -> None:
        self._disk.fsync(path)

    def fsync_data(self, paths: Sequence[str], directories: Sequence[str] = ()) -> Sequence[str]:
        return self._disk.fsync_data(paths, directories)

    def fsync_directory(self, path: str) -> None:
        self._disk.fsync_directory(path)

    def replace(self, path: str, data: Buffer) -> None:
        self._disk.replace(path, data)

    def replace_all(self, files: Sequence[tuple[str, Buffer]]) -> None:
        self._disk.replace_all(files)

    def rename(self, old: str, new: str) -> None:
        self._disk.rename(old, new)

    def set_modified(self, path: str, modified_ms: int) -> None:
        self._disk.set_modified(path, modified_ms)

    def unlink(self, path: str) -> None:
        self._disk.unlink(path)

    def make_directory(self, path: str) -> None:
        self._disk.make_directory(path)

    def remove_directory(self, path: str) -> None:
        self._disk.remove_directory(path)

    def free_bytes(self) -> int:
        return self._disk.free_bytes()

    def total_bytes(self) -> int:
        return self._disk.total_bytes()
