"""The real disk: descriptors, residency, the lock."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from penstock.errors import NotResident, StorageError
from penstock.server import disk as disk_module
from penstock.server.directory_lock import DirectoryLock
from penstock.server.disk import BlockingDisk, skip, supports_nowait, write_all
from penstock.server.file_handles import RENAMES_REMEMBERED_MAX, FileHandles


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
        handles.removed("a")
    assert (tmp_path / "a").read_bytes() == b"still open"
    handles.close()
    assert open_descriptors() == before


def test_a_response_under_way_finds_a_file_that_was_renamed(tmp_path: Path) -> None:
    disk = BlockingDisk(0, str(tmp_path))
    disk.make_directory("t-0")
    disk.write("t-0/0.log", 0, [b"records"])
    disk.close()
    disk.rename("t-0/0.log", "t-0/0.log.deleted")
    assert disk.loop.read_slice("t-0/0.log", 0, 7) == b"records"
    disk.close()
    disk.rename("t-0", "t-0.x-delete")
    assert disk.read_slice("t-0/0.log.deleted", 0, 7) == b"records"
    disk.close()


def test_a_new_file_under_an_old_name_is_not_taken_for_the_renamed_one(tmp_path: Path) -> None:
    disk = BlockingDisk(0, str(tmp_path))
    disk.write("0.log", 0, [b"old"])
    disk.rename("0.log", "0.log.deleted")
    disk.write("0.log", 0, [b"new"])
    assert disk.read("0.log", 0, 9) == b"new"
    assert disk.read("0.log.deleted", 0, 9) == b"old"
    disk.close()


def test_only_so_many_renames_are_remembered(tmp_path: Path) -> None:
    handles = FileHandles(str(tmp_path), 1)
    for number in range(RENAMES_REMEMBERED_MAX + 10):
        handles.renamed(f"a{number}", f"b{number}")
    assert len(handles._renames) == RENAMES_REMEMBERED_MAX


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
        disk.read_slice("a", 0, 4)
    assert disk.loop.read_slice("a", 1, 4) == b"bc"
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
    assert len(disk.loop.read_slice("a", 0, 4)) == 0
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
    disk = BlockingDisk(0, str(tmp_path), durable=False)
    disk.write("a", 0, [b"a"])
    disk.fsync("a")
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
