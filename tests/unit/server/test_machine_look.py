"""What the shell knows of the machine for telemetry: devices, lanes, and bytes that had to be read to be sent."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from penstock.node.effects import Run, Send
from penstock.protocol.telemetry import DISKS, FULL, LANES
from penstock.server.telemetry import NOTHING_KNOWN, MachineLook, asked_in, device_of

DISKSTATS = """\
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0
 {major:3} {minor:7} sda1 100 5 2048 300 50 6 4096 700 3 900 1000 1 2 3 4
"""


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc of a machine on whose only disk everything is."""
    found = tmp_path / "proc"
    found.mkdir()
    device = os.stat(tmp_path).st_dev
    major, minor = (os.major(device), os.minor(device)) if os.major(device) else (8, 1)
    (found / "diskstats").write_text(DISKSTATS.format(major=major, minor=minor))
    (found / "vmstat").write_text("nr_free_pages 5\nnr_dirty 7\n")
    return found


def looked(world: Any, path: Path, proc: Path, device: tuple[int, int] | None) -> Any:
    look = MachineLook(world.shell, [SimpleNamespace(index=0, path=str(path))], str(proc))  # type: ignore[list-item]
    look._devices = {0: device}
    return look()


def test_a_devices_figures_have_the_columns_of_disks(world: Any, tmp_path: Path, proc: Path) -> None:
    major, minor = map(int, (proc / "diskstats").read_text().splitlines()[1].split()[:2])
    machine = looked(world, tmp_path, proc, (major, minor))
    first = DISKS.columns.index("device_reads")
    assert dict(zip(DISKS.columns[first:], machine.devices[0], strict=True)) == {
        "device_reads": 100,
        "device_read_bytes": 2048 * 512,
        "device_read_ms": 300,
        "device_writes": 50,
        "device_written_bytes": 4096 * 512,
        "device_write_ms": 700,
        "device_queue": 3,
        "device_busy_ms": 900,
        "device_queue_ms": 1000,
    }
    assert machine.dirty_bytes == 7 * os.sysconf("SC_PAGE_SIZE")
    assert machine.cpu_us > 0
    assert machine.cores >= 1


@pytest.mark.parametrize("device", [None, (250, 99)])
def test_a_directory_without_a_device_has_none_of_its_figures(
    world: Any, tmp_path: Path, proc: Path, device: tuple[int, int] | None
) -> None:
    assert looked(world, tmp_path, proc, device).devices == {}


def test_a_system_without_these_files_says_that_it_does_not_know(world: Any, tmp_path: Path) -> None:
    machine = looked(world, tmp_path, tmp_path / "nothing", (8, 1))
    assert (machine.devices, machine.dirty_bytes) == ({}, -1)


def test_the_device_of_a_directory_is_that_of_its_file_system(tmp_path: Path) -> None:
    device = os.stat(tmp_path).st_dev
    if os.major(device):
        assert device_of(str(tmp_path)) == (os.major(device), os.minor(device))
    assert device_of(str(tmp_path / "missing")) is None


def test_a_file_system_with_a_number_of_its_own_is_on_the_device_that_is_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "self").mkdir()
    mounted = "30 20 0:41 / /data rw shared:1 - btrfs /dev/null rw\n31 20 0:42 / /run rw - tmpfs tmpfs rw\n"
    (tmp_path / "self" / "mountinfo").write_text(mounted)
    real = os.stat

    def stat(path: str) -> Any:
        numbers = {"/data": 41, "/run": 42, "/other": 43}
        return SimpleNamespace(st_dev=os.makedev(0, numbers[path])) if path in numbers else real(path)

    monkeypatch.setattr("penstock.server.telemetry.os.stat", stat)
    device = real("/dev/null").st_rdev
    assert device_of("/data", str(tmp_path)) == (os.major(device), os.minor(device))
    assert device_of("/run", str(tmp_path)) is None
    assert device_of("/other", str(tmp_path)) is None


def test_lanes_count_appends_wherever_they_run(world: Any, note: Any, tmp_path: Path, proc: Path) -> None:
    notes: list[str] = []
    world.node.effects += [
        Run(note("a", notes, inline=True)),
        Run(note("b", notes)),
        Run(note("c", notes, inline=True)),
    ]
    world.shell.kick()
    world.run_until(lambda: len(world.node.completed) == 3)
    lane = looked(world, tmp_path, proc, None).lanes[0]
    assert lane.directory == str(tmp_path)
    found = dict(zip(LANES.columns, lane.values, strict=True))
    assert (found["appends"], found["reads"]) == (2, 0)
    assert found["inline_operations"] + found["lane_operations"] == 3


def test_what_is_not_in_memory_when_it_is_sent_counts_for_its_log(
    make_world: Callable[..., Any], tmp_path: Path, proc: Path
) -> None:
    world = make_world(resident=0)
    (tmp_path / "clicks-3").mkdir()
    piece = world.file("clicks-3/00000000000000000000.log", b"x" * 5_000)
    client = world.connect()
    world.settle()
    world.node.effects += [Send(1, (piece,))]
    world.shell.kick()
    world.read(client, 5_000)
    machine = looked(world, tmp_path, proc, None)
    assert machine.disk_reads == ({("clicks", 3): 5_000}, 0)
    assert machine.lanes[0].values[LANES.columns.index("read_bytes")] == 5_000
    assert looked(world, tmp_path, proc, None).disk_reads == ({}, 0), "once"


def test_a_query_names_incarnation_and_sequence() -> None:
    assert asked_in("") == (NOTHING_KNOWN, FULL)
    assert asked_in(f"incarnation={UUID(int=9)}&sequence=12") == (UUID(int=9), 12)
    assert asked_in("sequence=-1") == (NOTHING_KNOWN, -1)
