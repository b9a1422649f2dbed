"""What a reader was given stays what it is: whatever becomes of the segment, its slice never has other bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest
from support.logs import NAME, NOW_MS, OneLog, batch, topic_config

from penstock.log.disk import Buffer, Disk, FileSlice, read_slice
from penstock.log.name_history import NameHistory
from penstock.server import disk as disk_module
from penstock.server.disk import BlockingDisk

What = Callable[[OneLog], None]
OLD, NEW = b"o" * 50, b"n" * 50


def deleted(one: OneLog) -> None:
    """Retention takes the segment; its file waits as `.deleted`."""
    assert one.log.advance_log_start(2, one.log.log_end_offset)
    assert one.log.delete_old_segments(NOW_MS, one.log.log_end_offset) == 1
    one.run()


def deleted_and_unlinked(one: OneLog) -> None:
    deleted(one)
    for path in one.files_deleted:
        one.disk.unlink(path)


def begun_anew(one: OneLog) -> None:
    """A follower drops all and begins at the same offset, so that another file has the name."""
    one.log.truncate_fully_and_start_at(0, NOW_MS)
    one.run()
    append(one, NEW)


def begun_anew_and_unlinked(one: OneLog) -> None:
    begun_anew(one)
    for path in one.files_deleted:
        one.disk.unlink(path)


def cut(one: OneLog) -> None:
    """A follower drops what is not its leader's, in the middle of the file, and has other records there."""
    one.log.truncate_to(1, NOW_MS)
    one.run()
    append(one, NEW)


def swapped(one: OneLog) -> None:
    """A cleaner's segment takes the place of the one that it was made from."""
    path = one.log.segments.all[0].log_path
    one.disk.write(f"{path}.swap", 0, [b"n" * one.log.segments.all[0].size_bytes])
    one.disk.rename(f"{path}.swap", path)


def topic_made_anew(one: OneLog) -> None:
    """The topic is deleted, and another one of its name has the directory."""
    one.disk.rename(NAME, f"{NAME}.0123-delete")
    one.disk.make_directory(NAME)
    one.open()
    append(one, NEW)


def topic_made_anew_and_removed(one: OneLog) -> None:
    topic_made_anew(one)
    one.disk.remove_directory(f"{NAME}.0123-delete")


def append(one: OneLog, value: bytes) -> None:
    for _ in range(4):
        one.append(batch(value))


SURVIVES: dict[What, bool] = {
    deleted: True,
    deleted_and_unlinked: False,
    begun_anew: True,
    begun_anew_and_unlinked: False,
    cut: False,
    swapped: False,
    topic_made_anew: True,
    topic_made_anew_and_removed: False,
}


def read_after(what: What, directory: Path, *, files_open: bool) -> list[bytes | None]:
    """What a slice of the first segment has then, to the loop and to a lane; None where it is refused."""
    disk = BlockingDisk(0, str(directory))
    one = OneLog(topic_config(segment_bytes=260), disk)
    append(one, OLD)
    assert one.log.segments.bases == [0, 2]
    (piece,) = one.log.read(0, 1 << 20).slices
    assert bytes(disk.read_slice(piece)).count(OLD) == 2
    what(one)
    if not files_open:
        disk.close()
    found: list[bytes | None] = []
    for reader in (disk.loop, disk):
        try:
            found.append(bytes(reader.read_slice(piece)))
        except FileNotFoundError:
            found.append(None)
    disk.close()
    return found


@pytest.mark.parametrize("files_open", [True, False])
@pytest.mark.parametrize("what", SURVIVES)
def test_a_slice_has_the_bytes_that_were_read_or_none(what: What, files_open: bool, tmp_path: Path) -> None:
    found = read_after(what, tmp_path, files_open=files_open)
    if SURVIVES[what]:
        assert [data is not None and data.count(OLD) == 2 for data in found] == [True, True]
    else:
        assert found == [None, None]


@pytest.mark.parametrize("what", [begun_anew, cut, swapped, topic_made_anew])
def test_a_slice_that_goes_by_the_name_alone_is_found(
    what: What, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NameHistory, "find", lambda history, piece: piece.path)
    found = read_after(what, tmp_path, files_open=False)
    assert all(data is not None and b"n" * 50 in data for data in found)


@pytest.mark.parametrize("on_loop", [True, False])
def test_a_file_that_is_cut_while_it_is_read_is_refused(
    on_loop: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = BlockingDisk(0, str(tmp_path))
    disk.write("a", 0, [b"0123456789"])
    piece = FileSlice(0, "a", 2, 4, disk.names_version)
    before = piece.part(0, 2)
    real = os.preadv

    def cut_and_written_meanwhile(descriptor: int, buffers: Sequence[Buffer], *more: int) -> int:
        monkeypatch.setattr(disk_module.os, "preadv", real)
        disk.truncate("a", 4)
        disk.write("a", 4, [b"others"])
        return real(descriptor, buffers, *more)

    reader = disk.loop if on_loop else disk
    monkeypatch.setattr(disk_module.os, "preadv", cut_and_written_meanwhile)
    with pytest.raises(FileNotFoundError):
        reader.read_slice(piece)
    monkeypatch.setattr(disk_module.os, "preadv", cut_and_written_meanwhile)
    assert bytes(reader.read_slice(before)) == b"23"
    disk.close()


def test_a_file_that_is_made_anew_while_it_is_read_by_its_name_is_refused(tmp_path: Path) -> None:
    disk = BlockingDisk(0, str(tmp_path))
    disk.make_directory("t-0")
    disk.write("t-0/a", 0, [b"old"])
    piece = FileSlice(0, "t-0/a", 0, 3, disk.names_version)
    assert read_slice(disk, piece) == b"old"

    class RenamedMeanwhile:
        """The disk, with another thread that is faster than a read."""

        find = disk.find

        def read(self, path: str, position: int, length: int) -> bytes:
            disk.rename("t-0", "t-0.0123-delete")
            disk.make_directory("t-0")
            disk.write("t-0/a", 0, [b"new"])
            return disk.read(path, position, length)

    with pytest.raises(FileNotFoundError, match="another name"):
        read_slice(cast(Disk, RenamedMeanwhile()), piece)
    assert read_slice(disk, piece) == b"old", "it is found under its new name then"
    disk.close()
