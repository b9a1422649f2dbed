"""What the real and the simulated disk promise alike: each test runs on both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.server.disk import IOV_MAX, BlockingDisk
from simulator.world.disk import SimulatedDisk

EitherDisk = BlockingDisk | SimulatedDisk


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EitherDisk]:
    if request.param == "simulated":
        yield SimulatedDisk(3)
        return
    real = BlockingDisk(3, str(tmp_path), descriptors_max=8)
    yield real
    real.close()


def test_what_was_written_is_read_up_to_the_end_of_the_file(disk: EitherDisk) -> None:
    disk.write("a.log", 0, [b"hello ", bytearray(b"wor"), memoryview(b"ld")])
    assert disk.read("a.log", 0, 100) == b"hello world"
    assert disk.read("a.log", 6, 3) == b"wor"
    assert disk.read("a.log", 11, 5) == b""
    assert disk.size("a.log") == 11


def test_many_files_and_directories_are_fsynced_at_once_and_those_that_are_not_there_are_said(
    disk: EitherDisk,
) -> None:
    paths = [f"a-{number}/x.log" for number in range(20)]
    for path in paths:
        disk.make_directory(path[:-6])
        disk.write(path, 0, [path.encode()])
    assert list(disk.fsync_data(paths, ["a-0", "a-1"])) == []
    disk.unlink("a-3/x.log")
    assert list(disk.fsync_data([*paths, "gone"], ["a-1", "nowhere"])) == ["a-3/x.log", "gone", "nowhere"]
    assert list(disk.fsync_data([])) == []


def test_a_write_beyond_the_end_leaves_zeros_between(disk: EitherDisk) -> None:
    disk.write("a", 4, [b"x"])
    assert disk.read("a", 0, 10) == b"\0\0\0\0x"


def test_more_chunks_than_one_system_call_takes_arrive_in_order(disk: EitherDisk) -> None:
    chunks = [number.to_bytes(4, "big") for number in range(2 * IOV_MAX + 5)]
    disk.write("many", 0, chunks)
    assert disk.read("many", 0, 1 << 20) == b"".join(chunks)


def test_truncation_shortens_and_lengthens(disk: EitherDisk) -> None:
    disk.write("a", 0, [b"0123456789"])
    disk.truncate("a", 4)
    assert disk.read("a", 0, 100) == b"0123"
    disk.truncate("a", 6)
    assert disk.read("a", 0, 100) == b"0123\0\0"


def test_a_missing_file_is_the_operating_systems_error(disk: EitherDisk) -> None:
    for use in (
        lambda: disk.read("none", 0, 1),
        lambda: disk.size("none"),
        lambda: disk.fsync("none"),
        lambda: disk.list("none"),
        lambda: disk.rename("none", "other"),
        lambda: disk.write("none/a", 0, [b"x"]),
    ):
        with pytest.raises(FileNotFoundError):
            use()


def test_listings_are_sorted_and_say_what_is_a_directory(disk: EitherDisk) -> None:
    disk.make_directory("b")
    disk.make_directory("b")
    disk.write("c", 0, [b"123"])
    disk.write("b/x", 0, [b""])
    assert [(entry.name, entry.is_directory) for entry in disk.list("")] == [("b", True), ("c", False)]
    assert disk.list("")[1].size_bytes == 3
    assert [entry.name for entry in disk.list("b")] == ["x"]


def test_replace_leaves_the_new_content_and_no_temporary_file(disk: EitherDisk) -> None:
    disk.replace("f", b"first, longer")
    disk.replace("f", b"second")
    assert disk.read("f", 0, 100) == b"second"
    assert [entry.name for entry in disk.list("")] == ["f"]


def test_a_rename_takes_the_files_of_a_directory_along(disk: EitherDisk) -> None:
    disk.make_directory("t-0")
    disk.write("t-0/a", 0, [b"abc"])
    assert disk.read("t-0/a", 0, 3) == b"abc"
    disk.rename("t-0", "t-0.x-delete")
    assert disk.read("t-0.x-delete/a", 0, 3) == b"abc"
    assert not disk.exists("t-0")
    disk.make_directory("t-0")
    disk.write("t-0/a", 0, [b"new"])
    assert disk.read("t-0/a", 0, 3) == b"new"
    assert disk.read("t-0.x-delete/a", 0, 3) == b"abc"


def test_a_rename_replaces_a_file_that_is_in_the_way(disk: EitherDisk) -> None:
    disk.write("a", 0, [b"a"])
    disk.write("b", 0, [b"b"])
    disk.read("b", 0, 1)
    disk.rename("a", "b")
    assert disk.read("b", 0, 1) == b"a"
    assert not disk.exists("a")


def test_removing_what_is_not_there_is_no_error_for_files(disk: EitherDisk) -> None:
    disk.unlink("none")
    disk.unlink("no directory/none")
    disk.write("a", 0, [b"a"])
    disk.unlink("a")
    assert not disk.exists("a")
    disk.write("a", 0, [b"new"])
    assert disk.read("a", 0, 9) == b"new"


def test_a_directory_goes_with_all_that_is_in_it(disk: EitherDisk) -> None:
    disk.make_directory("d")
    disk.make_directory("d/e")
    disk.write("d/e/f", 0, [b"f"])
    disk.remove_directory("d")
    assert not disk.exists("d")
    assert disk.list("") == []


def test_many_files_work_whatever_the_limit_of_descriptors(disk: EitherDisk) -> None:
    for number in range(40):
        disk.write(f"f{number}", 0, [str(number).encode()])
        disk.fsync(f"f{number}")
    disk.fsync_directory("")
    assert [disk.read(f"f{number}", 0, 9) for number in range(40)] == [str(number).encode() for number in range(40)]


def test_the_loops_view_reads_what_is_in_memory(disk: EitherDisk) -> None:
    disk.write("a", 0, [b"fresh"])
    assert disk.loop.read("a", 0, 100) == b"fresh"
    assert disk.loop.directory == disk.directory == 3
    assert disk.free_bytes() > 0
