"""The real disk: one log directory in the file system, as the loop and as lanes see it.

`BlockingDisk` waits for the disk; lanes, start-up and tools use it. `LoopDisk` is the same directory for handlers:
`read` answers from the page cache, or raises `NotResident`. Linux tells the two apart by `preadv` with RWF_NOWAIT, if
the file system supports it (ext4 and xfs do, tmpfs and some overlays do not: each directory is probed). Otherwise the
last `RESIDENT_TAIL_BYTES` of a file count as resident, since they were written or read lately.

A range that a lane has read since is *granted*: the loop then reads it even if the kernel may have dropped it again, so
that a handler which is run again always makes progress.

A slice of a response is read by `read_slice` into a buffer of its own. On the loop that returns the resident part,
perhaps nothing; the shell has the lane read the rest.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from penstock.errors import NotResident
from penstock.log.disk import FSYNC_FAILED, Buffer, FileInfo, FileSlice
from penstock.log.space import is_full
from penstock.server.file_handles import SECRET_DIRECTORY, SECRET_FILE, FileHandles, file_mode
from penstock.server.helpers import Helpers

IOV_MAX = 1024
"""Buffers of one pwritev (Linux and macOS alike); more go out in further calls."""
DESCRIPTORS_MAX = 4096
"""Descriptors that one log directory keeps open unless told otherwise."""
FSYNC_HELPERS_MAX = 3
"""Threads of one log directory that fsync files of the same round, besides the lane's. ext4 commits its journal once
for all of them: 16 files that grew took 18 ms one after the other, 2 ms on 4 threads, and no less on more."""
RESIDENT_TAIL_BYTES = 64 << 20
"""Without RWF_NOWAIT, how much of the end of a file counts as resident."""
GRANTED_RANGES_MAX = 1024
"""Ranges that lanes have read and the loop may read again; the oldest are forgotten."""

_PROBE_FILE = ".penstock-probe"
_NOWAIT_REFUSED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


def supports_nowait(path: str) -> bool:
    """Whether reads in this directory can report that they would wait; makes and removes an empty file to find out.

    Where there is no room for it, no: a broker starts on a full disk, too.
    """
    if not hasattr(os, "RWF_NOWAIT"):
        return False
    probe = f"{path}/{_PROBE_FILE}"
    try:
        descriptor = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if is_full(error):
            return False
        raise
    try:
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno not in _NOWAIT_REFUSED:
            raise
        return False
    finally:
        os.close(descriptor)
        os.unlink(probe)
    return True


class BlockingDisk:
    """A log directory whose methods wait for the disk. Safe to use from several threads.

    Args:
        directory: index of the log directory.
        path: of the directory, which must exist.
        durable: whether fsync is done; without it a power failure may lose anything (tests and the fixture).
        descriptors_max: how many files stay open.
        writable: False opens files for reading only (tools that look at another node's directory).
        probed: False leaves out what only `loop` needs, and the file that finding it out makes for a moment.

    Attributes:
        loop: the same directory for handlers.
    """

    def __init__(
        self,
        directory: int,
        path: str,
        *,
        durable: bool = True,
        descriptors_max: int = DESCRIPTORS_MAX,
        writable: bool = True,
        probed: bool = True,
    ) -> None:
        self.directory = directory
        self.path = os.path.realpath(path)
        self.durable = durable
        self.handles = FileHandles(self.path, descriptors_max, writable=writable)
        self._fsyncs = Helpers(f"penstock-fsync-{directory}", FSYNC_HELPERS_MAX)
        self._place = place_of(self.path)
        self.loop = LoopDisk(self, nowait=writable and probed and supports_nowait(self.path))

    def close(self) -> None:
        """Closes all descriptors and ends all threads; the disk can still be used afterwards."""
        self.handles.close()
        self._fsyncs.close()

    # Reading

    def read(self, path: str, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`, waiting for them; fewer only at the end of the file."""
        with self.handles.borrow(path) as descriptor:
            data = os.pread(descriptor, length, position)
            while len(data) < length:
                more = os.pread(descriptor, length - len(data), position + len(data))
                if not more:
                    break
                data += more
        self.loop.grant(path, position, length)
        return data

    @property
    def names_version(self) -> int:
        return self.handles.names.version

    def find(self, piece: FileSlice) -> str:
        return self.handles.find(piece)

    def read_slice(self, piece: FileSlice) -> memoryview:
        """The bytes of a slice, waiting for them.

        Raises:
            FileNotFoundError: the file is gone.
            OSError: also (EIO) if it ends before the slice does.
        """
        buffer = memoryview(bytearray(piece.length))
        filled = 0
        names = self.handles.names
        version = names.version
        handle = self.handles.take_for(piece)
        try:
            while filled < piece.length:
                count = os.preadv(handle.descriptor, [buffer[filled:]], piece.position + filled)
                if not count:
                    raise OSError(errno.EIO, "the file ends before the slice of it does", piece.path)
                filled += count
        finally:
            self.handles.give_back(handle)
        if names.version != version:
            self.handles.find(piece)  # it may have been cut, and written to, while it was read
        return buffer

    def size(self, path: str) -> int:
        with self.handles.borrow(path) as descriptor:
            return os.fstat(descriptor).st_size

    def exists(self, path: str) -> bool:
        return os.path.lexists(self._full(path))

    def list(self, path: str) -> Sequence[FileInfo]:
        found = []
        with self.handles.with_room(lambda: os.scandir(self._full(path))) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # removed while we were listing
                    continue
                modified_ms = status.st_mtime_ns // 1_000_000
                found.append(FileInfo(entry.name, status.st_size, modified_ms, entry.is_dir(follow_symlinks=False)))
        found.sort(key=lambda info: info.name)
        return found

    def _check_place(self) -> None:
        """Raises OSError if the path means another directory by now: its file system was unmounted, most likely.

        Files that are open would still be written, and new ones would be made on the file system below.
        """
        if place_of(self.path) != self._place:
            raise OSError(errno.ENODEV, "another directory is there than before: was its disk unmounted?", self.path)

    def free_bytes(self) -> int:
        self._check_place()
        status = os.statvfs(self.path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self) -> int:
        status = os.statvfs(self.path)
        return status.f_blocks * status.f_frsize

    # Changing

    def write(self, path: str, position: int, chunks: Sequence[Buffer]) -> None:
        handle = self.handles.take(path, create=True)
        try:
            for start in range(0, len(chunks), IOV_MAX):
                position = write_all(handle.descriptor, position, chunks[start : start + IOV_MAX])
        finally:
            self.handles.give_back(handle)

    def truncate(self, path: str, size_bytes: int) -> None:
        self.handles.truncated(path, size_bytes)
        with self.handles.borrow(path) as descriptor:
            os.ftruncate(descriptor, size_bytes)

    def fsync(self, path: str) -> None:
        if self.durable:
            with self.handles.borrow(path) as descriptor, self._noting_failure():
                sync(descriptor)

    def fsync_data(self, paths: Sequence[str], directories: Sequence[str] = ()) -> Sequence[str]:
        """See `Disk`; each file with one fdatasync, several of them on as many threads."""
        if not self.durable:
            return ()
        works = [partial(self._fsync_data, path) for path in paths]
        works += [partial(self.fsync_directory, path) for path in directories]
        there = self._fsyncs.map(is_there, works)
        return [path for path, found in zip((*paths, *directories), there, strict=True) if not found]

    def _fsync_data(self, path: str) -> None:
        with self.handles.borrow(path) as descriptor, self._noting_failure():
            sync_data(descriptor)

    def fsync_directory(self, path: str) -> None:
        if not self.durable:
            return
        descriptor = self._open_beside(self._full(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            with self._noting_failure():
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        """Runs an fsync; if it fails, leaves a note for the next process."""
        try:
            yield
        except OSError:
            with suppress(OSError):
                os.close(self._open_beside(self._full(FSYNC_FAILED), os.O_WRONLY | os.O_CREAT))
            raise

    def replace(self, path: str, data: Buffer) -> None:
        """Replaces a file (see `Disk`); the temporary file has the suffix `.tmp`, as in Kafka, and is not kept open."""
        self._check_place()
        temporary = f"{self._full(path)}.tmp"
        descriptor = self._open_beside(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            write_all(descriptor, 0, [data])
            if self.durable:
                with self._noting_failure():
                    sync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, self._full(path))
        self.handles.replaced(path)
        self.fsync_directory(path.rpartition("/")[0])

    def replace_all(self, files: Sequence[tuple[str, Buffer]]) -> None:
        at_once = self.durable and len(files) >= SYNCFS_FILES_MIN and SYNCFS is not None
        for path, data in files:
            descriptor = self._open_beside(f"{self._full(path)}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                write_all(descriptor, 0, [data])
                if self.durable and not at_once:
                    with self._noting_failure():
                        sync(descriptor)
            finally:
                os.close(descriptor)
        if at_once:
            with self._noting_failure():
                sync_filesystem(self.path)
        for path, _ in files:
            os.replace(f"{self._full(path)}.tmp", self._full(path))

    def _open_beside(self, full_path: str, flags: int) -> int:
        """A descriptor that is not kept open."""
        return self.handles.with_room(lambda: os.open(full_path, flags | os.O_CLOEXEC, file_mode(full_path)))

    def rename(self, old: str, new: str) -> None:
        self.handles.rename(old, new)

    def set_modified(self, path: str, modified_ms: int) -> None:
        with self.handles.borrow(path) as descriptor:
            os.utime(descriptor, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def unlink(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self.handles.remove(path, os.unlink)

    def make_directory(self, path: str) -> None:
        self._check_place()
        try:
            os.mkdir(self._full(path), 0o700 if path == SECRET_DIRECTORY else 0o755)
        except FileExistsError:
            if not os.path.isdir(self._full(path)):
                raise

    def hide_secrets(self) -> None:
        """Takes others' rights from what an older version made, and users' keys are in; as far as we may."""
        for name, mode in ((SECRET_DIRECTORY, 0o700), (SECRET_FILE, 0o600)):
            with suppress(OSError):
                os.chmod(self._full(name), mode)

    def remove_directory(self, path: str) -> None:
        assert path, "the log directory itself is never removed"
        self.handles.remove(path, shutil.rmtree)

    def _full(self, path: str) -> str:
        return self.handles.full_path(path)


class LoopDisk(BlockingDisk):
    """The directory for handlers; shares descriptors with its blocking disk."""

    def __init__(self, disk: BlockingDisk, *, nowait: bool) -> None:
        self.directory = disk.directory
        self.path = disk.path
        self.durable = disk.durable
        self.handles = disk.handles
        self._place = disk._place
        self.loop = self
        self.nowait = nowait
        self._granted: OrderedDict[tuple[str, int, int], None] = OrderedDict()

    def read(self, path: str, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position` out of the page cache.

        Raises:
            NotResident: some of them are not in the page cache.
        """
        handle = self.handles.take(path)
        try:
            if (path, position, length) in self._granted:
                return os.pread(handle.descriptor, length, position)
            buffer = bytearray(length)
            count = self._read_resident(handle.descriptor, memoryview(buffer), position)
            if count < length and position + count < os.fstat(handle.descriptor).st_size:
                raise NotResident(self.directory, path, position, length)
        finally:
            self.handles.give_back(handle)
        return bytes(memoryview(buffer)[:count]) if count < length else bytes(buffer)

    def read_slice(self, piece: FileSlice) -> memoryview:
        """The resident bytes from the start of a slice, perhaps none. Raises FileNotFoundError if its file is gone."""
        buffer = memoryview(bytearray(piece.length))
        names = self.handles.names
        version = names.version
        handle = self.handles.take_for(piece)
        try:
            count = self._read_resident(handle.descriptor, buffer, piece.position)
        finally:
            self.handles.give_back(handle)
        if names.version != version:
            self.handles.find(piece)  # it may have been cut, and written to, while it was read
        if count == piece.length:
            return buffer
        return memoryview(bytes(buffer[:count]))  # a view would keep all of the buffer while a slow client reads

    def grant(self, path: str, position: int, length: int) -> None:
        """A lane has read the range: the loop may read it without asking. Called from lanes."""
        self._granted[path, position, length] = None
        while len(self._granted) > GRANTED_RANGES_MAX:
            try:
                self._granted.popitem(last=False)
            except KeyError:  # another lane was faster
                return

    def _read_resident(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """Fills the buffer from the page cache as far as possible; returns the number of bytes."""
        if not self.nowait:
            tail_begin = os.fstat(descriptor).st_size - RESIDENT_TAIL_BYTES
            return os.preadv(descriptor, [buffer], position) if position >= tail_begin else 0
        try:
            return os.preadv(descriptor, [buffer], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return 0


def place_of(path: str) -> tuple[int, int] | None:
    """Which directory a path means; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def write_all(descriptor: int, position: int, chunks: Sequence[Buffer]) -> int:
    """Writes at most IOV_MAX buffers one after the other, even if the kernel takes them in parts; returns the end."""
    left = memoryview(chunks[0]).nbytes if len(chunks) == 1 else sum(memoryview(chunk).nbytes for chunk in chunks)
    while left:
        written = os.pwritev(descriptor, chunks, position)
        if not written:
            raise OSError(errno.EIO, "the file system wrote nothing and gave no reason")
        position += written
        left -= written
        if left:
            chunks = skip(chunks, written)
    return position


def skip(chunks: Sequence[Buffer], count: int) -> Sequence[Buffer]:
    """The chunks without their first `count` bytes."""
    for index, chunk in enumerate(chunks):
        view = memoryview(chunk).cast("B")
        if count < len(view):
            return [view[count:], *chunks[index + 1 :]]
        count -= len(view)
    return []


def sync(descriptor: int) -> None:
    """fsync down to the medium, for which macOS needs another call."""
    if sys.platform == "darwin":
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def is_there(work: Callable[[], None]) -> bool:
    """Does work on a file or directory; returns whether there is one."""
    try:
        work()
    except FileNotFoundError:
        return False
    return True


def sync_data(descriptor: int) -> None:
    """As `sync`, without what a reader of the file does not need, such as the time of its change."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        sync(descriptor)


def _find_syncfs() -> Callable[[int], int] | None:
    """Linux's syncfs(2), which Python's os lacks."""
    if sys.platform != "linux":
        return None
    import ctypes

    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


SYNCFS = _find_syncfs()
SYNCFS_FILES_MIN = 16
"""From so many small files on, one syncfs is cheaper than an fsync each."""


def sync_filesystem(path: str) -> None:
    """Makes everything written to a file system durable. Raises OSError if that failed for any of it."""
    import ctypes

    assert SYNCFS is not None
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if SYNCFS(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(descriptor)
