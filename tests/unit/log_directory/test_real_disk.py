"""The real disk: descriptors, residency, the lock."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from support.file_systems import Mount

from penstock.errors import NotResident, StorageError
from penstock.log.disk import FSYNC_FAILED, FileSlice
from penstock.log.limits import NAME_CHANGES_REMEMBERED_MAX
from penstock.log.name_history import NameHistory
from penstock.server import disk as disk_module
from penstock.server.directory_lock import DirectoryLock
from penstock.server.disk import BlockingDisk, skip, supports_nowait, write_all
from penstock.server.file_handles import FileHandles
from simulator.world.disk import SimulatedDisk


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_no_more_descriptors_stay_open_than_the_limit_and_none_after_close(tmp_path: Path) -> None:
    before = open_descriptors()
    disk = BlockingDisk(0, str(tmp_path), descriptors_max=5)
    for number in range(50):
        disk.write(f"f{number}", 0, [b"x"])
        assert open_descriptors() <= before + 5
    disk.close()
    assert open_descriptors() == before


def test_a_descriptor_that_is_borrowed_survives_eviction_and_is_closed_after(tmp_path: Path) -> None:
    handles = FileHandles(str(tmp_path), 1)
    before = open_descriptors()
    with handles.borrow("a", create=True) as descriptor:
        with handles.borrow("b", create=True):
            pass
        os.write(descriptor, b"still open")
        handles.replaced("a")
    assert (tmp_path / "a").read_bytes() == b"still open"
    handles.close()
    assert open_descriptors() == before


@pytest.fixture
def few_descriptors() -> Iterator[Callable[[int], list[int]]]:
    """A function that leaves the process so many descriptors; it gives those that were taken for that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []

    def leave(count: int) -> list[int]:
        highest = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 20, hard))
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(count):
            os.close(taken.pop())
        return taken

    yield leave
    for descriptor in taken:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_files_are_closed_for_others_when_no_descriptor_is_left(
    tmp_path: Path, few_descriptors: Callable[[int], list[int]]
) -> None:
    disk = BlockingDisk(0, str(tmp_path), descriptors_max=1_000)
    few_descriptors(4)
    for number in range(50):
        disk.write(f"f{number}", 0, [b"%d" % number])
        disk.replace(f"r{number}", b"%d" % number)
    assert [int(disk.read(f"f{number}", 0, 9)) for number in range(50)] == list(range(50))
    assert len(disk.list("")) == 100
    disk.close()


def test_the_spare_descriptor_serves_when_others_have_all(
    tmp_path: Path, few_descriptors: Callable[[int], list[int]]
) -> None:
    disk = BlockingDisk(0, str(tmp_path), descriptors_max=1_000)
    taken = few_descriptors(3)
    for number in range(10):
        disk.write(f"f{number}", 0, [b"x"])
    with disk.handles.borrow("f8"), disk.handles.borrow("f9"):
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        assert disk.read("f0", 0, 1) == b"x"
    disk.close()


def test_whoever_has_read_has_given_the_descriptor_back(tmp_path: Path) -> None:
    disk = BlockingDisk(0, str(tmp_path))
    disk.write("a", 0, [b"0123"])
    for each in (disk, disk.loop):
        assert each.read("a", 1, 2) == b"12"
        assert bytes(each.read_slice(FileSlice(0, "a", 1, 2))) in (b"12", b"")
    with suppress(OSError):
        disk.read_slice(FileSlice(0, "a", 1, 20))
    handle = disk.handles.take("a")
    assert handle.uses == 1
    disk.handles.give_back(handle)
    disk.close()


def test_a_failed_fdatasync_of_one_of_many_is_noted_and_the_callers_to_hear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = BlockingDisk(0, str(tmp_path))
    paths = [f"{number}.log" for number in range(12)]
    for path in paths:
        disk.write(path, 0, [b"x"])
    synced: list[str] = []

    def fails(descriptor: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        if synced[-1] == "7.log":
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(disk_module.os, "fdatasync", fails)
    with pytest.raises(OSError, match="Input/output"):
        disk.fsync_data(paths)
    assert sorted(synced) == sorted(paths), "each once, and the others are waited for"
    assert disk.exists(FSYNC_FAILED)
    disk.close()


def test_files_are_fsynced_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = BlockingDisk(0, str(tmp_path))
    paths = ["a.log", "b.log"]
    for path in paths:
        disk.write(path, 0, [b"x"])
    together = Barrier(2, timeout=30)
    monkeypatch.setattr(disk_module.os, "fdatasync", lambda _: together.wait())
    assert disk.fsync_data(paths) == []
    disk.close()


@pytest.mark.parametrize("way", ["fsync", "fsync_directory", "replace", "replace_all"])
def test_an_fsync_that_fails_is_noted_for_the_next_process(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = BlockingDisk(0, str(tmp_path))
    disk.write("a", 0, [b"x"])
    disk.fsync("a")
    assert not disk.exists(FSYNC_FAILED)

    def fails(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(disk_module.os, "fsync", fails)
    attempts: dict[str, Callable[[], None]] = {
        "fsync": lambda: disk.fsync("a"),
        "fsync_directory": lambda: disk.fsync_directory(""),
        "replace": lambda: disk.replace("b", b"y"),
        "replace_all": lambda: disk.replace_all([("b", b"y")]),
    }
    with pytest.raises(OSError, match="Input/output"):
        attempts[way]()
    assert disk.exists(FSYNC_FAILED)
    disk.close()


def piece(disk: BlockingDisk | SimulatedDisk, path: str, length: int, position: int = 0) -> FileSlice:
    """A slice as a log makes it."""
    return FileSlice(disk.directory, path, position, length, disk.names_version)


def test_a_response_under_way_finds_a_file_that_was_renamed(tmp_path: Path) -> None:
    disk = BlockingDisk(0, str(tmp_path))
    disk.make_directory("t-0")
    disk.write("t-0/0.log", 0, [b"records"])
    disk.close()
    wanted = piece(disk, "t-0/0.log", 7)
    disk.rename("t-0/0.log", "t-0/0.log.deleted")
    assert disk.loop.read_slice(wanted) == b"records"
    disk.close()
    disk.rename("t-0", "t-0.x-delete")
    assert disk.read_slice(wanted) == b"records"
    assert disk.read_slice(piece(disk, "t-0.x-delete/0.log.deleted", 7)) == b"records"
    with pytest.raises(FileNotFoundError):
        disk.read("t-0/0.log", 0, 7)
    disk.close()


Way = Callable[[BlockingDisk | SimulatedDisk], None]


def remade_after_a_rename(disk: BlockingDisk | SimulatedDisk) -> None:
    disk.rename("t-0", "t-0.x-delete")
    disk.make_directory("t-0")
    disk.write("t-0/0.log", 0, [b"another"])


def remade_after_a_removal(disk: BlockingDisk | SimulatedDisk) -> None:
    disk.remove_directory("t-0")
    disk.make_directory("t-0")
    disk.write("t-0/0.log", 0, [b"another"])


def swapped(disk: BlockingDisk | SimulatedDisk) -> None:
    disk.write("t-0/0.log.swap", 0, [b"another"])
    disk.rename("t-0/0.log.swap", "t-0/0.log")


def moved_aside_and_swapped(disk: BlockingDisk | SimulatedDisk) -> None:
    disk.write("t-0/0.log.swap", 0, [b"another"])
    disk.rename("t-0/0.log", "t-0/0.log.deleted")
    disk.rename("t-0/0.log.swap", "t-0/0.log")


def renamed_and_unlinked(disk: BlockingDisk | SimulatedDisk) -> None:
    disk.rename("t-0/0.log", "t-0/0.log.deleted")
    disk.unlink("t-0/0.log.deleted")
    disk.write("t-0/0.log", 0, [b"another"])


def cut_and_written(disk: BlockingDisk | SimulatedDisk) -> None:
    disk.truncate("t-0/0.log", 3)
    disk.write("t-0/0.log", 3, [b"ther"])


@pytest.mark.parametrize("simulated", [False, True])
@pytest.mark.parametrize(
    ("way", "survives"),
    [
        (remade_after_a_rename, True),
        (remade_after_a_removal, False),
        (swapped, False),
        (moved_aside_and_swapped, True),
        (renamed_and_unlinked, False),
        (cut_and_written, False),
    ],
)
def test_a_slice_gives_the_bytes_that_it_was_made_for_or_none(
    way: Way, survives: bool, simulated: bool, tmp_path: Path
) -> None:
    disk = SimulatedDisk() if simulated else BlockingDisk(0, str(tmp_path))
    disk.make_directory("t-0")
    disk.write("t-0/0.log", 0, [b"records"])
    wanted = piece(disk, "t-0/0.log", 7)
    way(disk)

    def read(slice_: FileSlice) -> bytes:
        if isinstance(disk, BlockingDisk):
            whole = bytes(disk.read_slice(slice_))
            assert bytes(disk.loop.read_slice(slice_)) == whole
            return whole
        return disk.read(disk.find(slice_), slice_.position, slice_.length)

    if survives:
        assert read(wanted) == b"records"
        assert read(wanted.part(3, 2)) == b"or"
    else:
        with pytest.raises(FileNotFoundError):
            read(wanted)
    new = read(piece(disk, "t-0/0.log", 7))
    assert new in {b"another", b"recther"}
    assert read(FileSlice(0, "t-0/0.log", 0, 7)) == new, "without a version: what has the name"
    if way is cut_and_written:
        assert read(wanted.part(0, 3)) == b"rec", "what was not cut is what it was"
    if isinstance(disk, BlockingDisk):
        disk.close()


def test_a_slice_of_a_time_that_nobody_remembers_is_gone() -> None:
    history = NameHistory()
    wanted = FileSlice(0, "a", 0, 1, history.version)
    for number in range(NAME_CHANGES_REMEMBERED_MAX):
        history.removed(f"b{number}")
    assert history.find(wanted) == "a"
    history.removed("b")
    with pytest.raises(FileNotFoundError, match="nobody remembers"):
        history.find(wanted)
    assert history.find(FileSlice(0, "a", 0, 1, history.version)) == "a"


def test_threads_may_read_write_and_rename_at_once(tmp_path: Path) -> None:
    disk = BlockingDisk(0, str(tmp_path), descriptors_max=3)
    wrong: list[object] = []

    def work(name: str) -> None:
        try:
            for number in range(200):
                disk.write(f"{name}{number}", 0, [name.encode() * 4])
                disk.rename(f"{name}{number}", f"{name}{number}.deleted")
                if disk.read(f"{name}{number}.deleted", 0, 9) != name.encode() * 4:
                    wrong.append(name)
                disk.unlink(f"{name}{number}.deleted")
        except OSError as error:
            wrong.append(error)

    threads = [Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    disk.close()


def test_a_slice_that_the_file_does_not_have_is_an_error(tmp_path: Path) -> None:
    disk = BlockingDisk(0, str(tmp_path))
    disk.write("a", 0, [b"abc"])
    with pytest.raises(OSError, match="ends before"):
        disk.read_slice(piece(disk, "a", 4))
    assert disk.loop.read_slice(piece(disk, "a", 4, 1)) == b"bc"
    disk.close()


def test_the_resident_part_of_a_slice_takes_no_more_memory_than_its_bytes(tmp_path: Path) -> None:
    disk = BlockingDisk(0, str(tmp_path))
    disk.write("a", 0, [b"abc"])
    data = disk.loop.read_slice(piece(disk, "a", 1 << 20))
    assert len(memoryview(data.obj)) == len(data), "of a large buffer the rest would be kept for its first bytes"
    disk.close()


def test_a_cold_read_is_refused_until_a_lane_has_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = BlockingDisk(2, str(tmp_path))
    disk.write("a", 0, [b"0123456789"])

    def all_is_cold(*_: object) -> int:
        raise BlockingIOError

    disk.loop.nowait = True
    monkeypatch.setattr(disk_module.os, "preadv", all_is_cold)
    with pytest.raises(NotResident) as refused:
        disk.loop.read("a", 2, 4)
    assert (refused.value.directory, refused.value.path, refused.value.position, refused.value.length) == (2, "a", 2, 4)
    assert len(disk.loop.read_slice(piece(disk, "a", 4))) == 0
    disk.read("a", 2, 4)
    assert disk.loop.read("a", 2, 4) == b"2345"
    with pytest.raises(NotResident):
        disk.loop.read("a", 0, 4)
    disk.close()


def test_a_partly_resident_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = BlockingDisk(0, str(tmp_path))
    disk.write("a", 0, [b"0123456789"])
    disk.loop.nowait = True
    monkeypatch.setattr(disk_module.os, "preadv", lambda *_: 3)
    with pytest.raises(NotResident):
        disk.loop.read("a", 0, 10)
    assert disk.loop.read("a", 7, 10) == b"\0\0\0", "three bytes up to the end of the file are all there is"
    disk.close()


def test_without_nowait_the_tail_of_a_file_counts_as_resident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = BlockingDisk(0, str(tmp_path))
    disk.loop.nowait = False
    monkeypatch.setattr(disk_module, "RESIDENT_TAIL_BYTES", 4)
    disk.write("a", 0, [b"0123456789"])
    assert disk.loop.read("a", 6, 4) == b"6789"
    with pytest.raises(NotResident):
        disk.loop.read("a", 5, 4)
    disk.read("a", 5, 4)
    assert disk.loop.read("a", 5, 4) == b"5678"
    disk.close()


def test_granted_ranges_are_bounded(tmp_path: Path) -> None:
    disk = BlockingDisk(0, str(tmp_path))
    disk.write("a", 0, [b"x"])
    for position in range(disk_module.GRANTED_RANGES_MAX + 50):
        disk.read("a", position, 1)
    assert len(disk.loop._granted) == disk_module.GRANTED_RANGES_MAX
    disk.close()


def test_the_probe_leaves_no_file_behind(tmp_path: Path) -> None:
    assert supports_nowait(str(tmp_path)) in (True, False)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"content")
    real = os.open

    def full(path: str, flags: int, *more: Any, **others: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, flags, *more, **others)

    monkeypatch.setattr(os, "open", full)
    disk = BlockingDisk(0, str(tmp_path))
    assert disk.read("a", 0, 100) == b"content"
    disk.close()


def test_a_partial_write_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT)
    real = os.pwritev

    def a_few_bytes(to: int, chunks: list[bytes], position: int) -> int:
        return real(to, [b"".join(chunks)[:3]], position)

    monkeypatch.setattr(disk_module.os, "pwritev", a_few_bytes)
    assert write_all(descriptor, 0, [b"ab", b"cdefg", b"", b"h"]) == 8
    os.close(descriptor)
    assert (tmp_path / "a").read_bytes() == b"abcdefgh"


def test_skipping_bytes_of_chunks() -> None:
    assert [bytes(chunk) for chunk in skip([b"ab", b"cd", b"ef"], 3)] == [b"d", b"ef"]
    assert skip([b"ab"], 2) == []


def test_without_durability_nothing_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_fsync(_: int) -> None:
        raise AssertionError("fsync was called")

    monkeypatch.setattr(disk_module.os, "fsync", no_fsync)
    monkeypatch.setattr(disk_module.os, "fdatasync", no_fsync)
    disk = BlockingDisk(0, str(tmp_path), durable=False)
    disk.write("a", 0, [b"a"])
    disk.fsync("a")
    assert disk.fsync_data(["a"], [""]) == ()
    disk.fsync_directory("")
    disk.replace("b", b"b")
    disk.close()


def test_replace_syncs_the_file_before_the_rename_and_the_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    real_replace = os.replace
    monkeypatch.setattr(disk_module.os, "fsync", lambda to: calls.append(os.readlink(f"/proc/self/fd/{to}")))
    monkeypatch.setattr(disk_module.os, "replace", lambda old, new: (calls.append("rename"), real_replace(old, new)))
    disk = BlockingDisk(0, str(tmp_path))
    disk.replace("meta.properties", b"x")
    assert calls == [f"{disk.path}/meta.properties.tmp", "rename", disk.path]
    disk.close()


def test_a_directory_is_locked_once_in_a_process(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    with pytest.raises(StorageError, match="used twice by this process"):
        DirectoryLock(f"{tmp_path}/../{tmp_path.name}")
    lock.release()
    lock.release()
    DirectoryLock(str(tmp_path)).release()


def test_a_directory_that_another_process_has_locked_is_refused(tmp_path: Path) -> None:
    script = "import sys; from penstock.server.directory_lock import DirectoryLock; DirectoryLock(sys.argv[1])"
    lock = DirectoryLock(str(tmp_path))
    refused = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    lock.release()
    assert "is in use by another process" in refused.stderr
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == 0


def test_a_failed_fsync_is_the_callers_to_hear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    disk = BlockingDisk(0, str(tmp_path))
    disk.write("a", 0, [b"a"])
    monkeypatch.setattr(disk_module.os, "fsync", fails)
    with pytest.raises(OSError, match="Input/output"):
        disk.fsync("a")
    disk.close()


def test_nothing_new_is_made_where_a_disk_was_mounted(tmp_path: Path) -> None:
    mount = Mount(tmp_path / "content", tmp_path / "disk")
    mount.mount()
    try:
        disk = BlockingDisk(0, str(mount.at))
        disk.make_directory("t-0")
        disk.write("t-0/a", 0, [b"there"])
        mount.unmount()
        for change in (
            lambda: disk.replace("checkpoint", b"offsets"),
            lambda: disk.make_directory("t-1"),
            lambda: disk.write("t-0/b", 0, [b"more"]),
            disk.free_bytes,
        ):
            with pytest.raises(OSError, match=r"was its disk unmounted|No such file"):
                change()
        disk.close()
        assert list(mount.at.iterdir()) == []
        assert [path.name for path in (mount.content / "t-0").iterdir()] == ["a"]
    finally:
        mount.unmount()


def test_the_time_of_a_file_is_what_was_said_and_follows_its_name(tmp_path: Path) -> None:
    disk = BlockingDisk(0, str(tmp_path))
    disk.write("a", 0, [b"x"])
    disk.set_modified("a", 1_700_000_000_123)
    disk.fsync("a")
    disk.rename("a", "b")
    assert [(info.name, info.modified_ms) for info in disk.list("")] == [("b", 1_700_000_000_123)]
    with pytest.raises(FileNotFoundError):
        disk.set_modified("a", 0)
    disk.close()
