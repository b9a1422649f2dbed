"""What telemetry needs of the shell: the process, the machine, block devices and lanes; and the query of `/telemetry`.

Devices are found by the number of the device that a log directory's file system is on, or, where the file system has a
number of its own (btrfs), by the device that is mounted there. A directory without one, on tmpfs or in the layers of a
container, has no figures of a device; its lane's tell what the node saw.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl
from uuid import UUID

from penstock.node.login_steps import LOGIN_LANE
from penstock.node.telemetry.machine import UNKNOWN, LaneFigures, Machine
from penstock.protocol.telemetry import FULL
from penstock.server.cores import cores
from penstock.server.metrics import memory_bytes
from penstock.server.waiting import pages

if TYPE_CHECKING:
    from penstock.log.directory import LogDirectory
    from penstock.server.lane import Lane
    from penstock.server.shell import Shell

SECTOR_BYTES = 512
DEVICE_FIELDS = 14
"""Of a line of /proc/diskstats, those that every kernel has."""
NOTHING_KNOWN = UUID(int=0)


class MachineLook:
    """Looks at the machine when it is called: in a fraction of a millisecond, since the files are the kernel's own."""

    def __init__(self, shell: Shell, directories: Sequence[LogDirectory], proc: str = "/proc") -> None:
        self._shell = shell
        self._proc = proc
        self._names = {each.index: each.path for each in directories} | {LOGIN_LANE: "logins"}
        self._cores = cores()
        self._devices = {each.index: device_of(each.path, proc) for each in directories}

    def __call__(self) -> Machine:
        used = resource.getrusage(resource.RUSAGE_SELF)
        sizes = memory_bytes()
        return Machine(
            cpu_us=round(1e6 * (used.ru_utime + used.ru_stime)),
            resident_bytes=UNKNOWN if sizes is None else sizes[1],
            cores=self._cores,
            dirty_bytes=self._dirty_bytes(),
            devices=self._device_figures(),
            lanes=[lane_figures(self._names[index], lane) for index, lane in self._shell.lanes.items()],
            disk_reads=self._shell.disk_reads.take(),
        )

    def _dirty_bytes(self) -> int:
        try:
            with open(f"{self._proc}/vmstat", "rb") as file:
                return pages(file.read(), b"nr_dirty ") * resource.getpagesize()
        except OSError:
            return UNKNOWN

    def _device_figures(self) -> Mapping[int, Sequence[int]]:
        known = {device for device in self._devices.values() if device is not None}
        if not known:
            return {}
        found = {}
        with suppress(OSError), open(f"{self._proc}/diskstats", "rb") as file:
            for line in file:
                words = line.split()
                if len(words) >= DEVICE_FIELDS and (device := (int(words[0]), int(words[1]))) in known:
                    found[device] = device_figures([int(word) for word in words[3:DEVICE_FIELDS]])
        return {
            index: found[device] for index, device in self._devices.items() if device is not None and device in found
        }


def device_figures(numbers: Sequence[int]) -> tuple[int, ...]:
    """The columns of a device, from a line of /proc/diskstats (Documentation/admin-guide/iostats.rst of Linux)."""
    reads, _, sectors_read, read_ms, writes, _, sectors_written, write_ms, queue, busy_ms, queue_ms = numbers
    read_bytes, written_bytes = SECTOR_BYTES * sectors_read, SECTOR_BYTES * sectors_written
    return reads, read_bytes, read_ms, writes, written_bytes, write_ms, queue, busy_ms, queue_ms


def device_of(path: str, proc: str = "/proc") -> tuple[int, int] | None:
    """The block device that a directory is on; None if there is none."""
    try:
        number = os.stat(path).st_dev
        device = os.major(number), os.minor(number)
        if device[0]:
            return device
        with open(f"{proc}/self/mountinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                words = line.split()
                if words[2] == f"{device[0]}:{device[1]}":
                    source = os.stat(words[words.index("-") + 2]).st_rdev
                    return (os.major(source), os.minor(source)) if source else None
    except (OSError, ValueError, IndexError):
        return None
    return None


def lane_figures(name: str, lane: Lane) -> LaneFigures:
    """The columns of a lane."""
    values = (
        int(lane.healthy),
        lane.queued_operations,
        lane.inline_operations,
        lane.lane_operations,
        lane.appends,
        round(1e6 * lane.append_s),
        lane.reads,
        lane.read_bytes,
        round(1e6 * lane.read_s),
    )
    return LaneFigures(name, values)


def asked_in(query: str) -> tuple[UUID, int]:
    """Incarnation and sequence in a query, `incarnation=UUID&sequence=NUMBER`. Raises ValueError, in a sentence."""
    words = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=10))
    if unknown := words.keys() - {"incarnation", "sequence"}:
        raise ValueError(f"there is no parameter {min(unknown)}: there are incarnation and sequence")
    try:
        incarnation = UUID(words["incarnation"]) if "incarnation" in words else NOTHING_KNOWN
    except ValueError:
        raise ValueError("incarnation must be a UUID") from None
    sequence = words.get("sequence", str(FULL))
    if len(sequence) > 20 or not sequence.removeprefix("-").isdecimal():
        raise ValueError("sequence must be a number")
    return incarnation, int(sequence)
