"""Cleaned segments that take the place of others: delete markers that go, and the files after each step of a swap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.log.compaction.cleaning import run_pass
from penstock.log.compaction.filtering import written
from penstock.log.compaction.offset_map import OffsetMap
from penstock.log.compaction.passes import Pass
from penstock.log.compaction.records import rebased
from penstock.log.compaction.report import PassReport
from penstock.log.compaction.swap import Exchange, SwapSegments
from penstock.log.compaction.target import Target
from penstock.log.directory import LogDirectory
from penstock.log.names import CLEANED
from penstock.log.replica import Replica, State
from penstock.records.batch import DELETE_HORIZON_FLAG, HEADER_BYTES, read_header
from penstock.records.builder import BatchBuilder
from simulator.world.disk import SimulatedDisk
from support.compaction import HASH_KEY

HORIZON_MS = 1
"""A delete horizon that has passed."""


def keyed(offset: int, *pairs: tuple[bytes, bytes | None], now_ms: int, horizon_passed: bool = False) -> bytes:
    """A batch as a follower gets it; with its delete horizon, if the leader's cleaner has seen its delete markers."""
    builder = BatchBuilder(base_offset=offset, leader_epoch=0)
    for key, value in pairs:
        builder.append(now_ms, key, value)
    data = bytes(builder.build())
    if not horizon_passed:
        return data
    header = read_header(data)
    payload = rebased(data[HEADER_BYTES:], header.base_timestamp_ms - HORIZON_MS)
    changed = header._replace(
        size_bytes=HEADER_BYTES + len(payload),
        attributes=header.attributes | DELETE_HORIZON_FLAG,
        base_timestamp_ms=HORIZON_MS,
    )
    return bytes(written(changed, payload))


def cleaned_beside(disk: SimulatedDisk, work: Pass) -> PassReport:
    """Runs a pass: its new segments are beside the old ones."""
    report = run_pass(disk, work, OffsetMap(1 << 16, 0.9, HASH_KEY), Target(disk, work.name, CLEANED))
    assert [info.name for info in disk.list(work.name) if info.name.endswith(CLEANED)]
    return report


def swap_of(disk: SimulatedDisk, work: Pass, report: PassReport, owner: Any = None) -> SwapSegments:
    """The swap that follows a pass, not run."""
    topic, _, partition = work.name.rpartition("-")
    directory = LogDirectory(disk.directory, "/data/0", disk.loop, disk)
    replica = Replica(topic, int(partition), None, directory, State.SWAPPING)
    return SwapSegments(replica, owner, Exchange.of(work, report))


def files_of(disk: SimulatedDisk, name: str) -> dict[str, bytes]:
    """The files of a log by name."""
    return {info.name: disk.content(f"{name}/{info.name}") for info in disk.list(name)}


def with_files(files: dict[str, bytes], name: str) -> SimulatedDisk:
    """A disk on which a log has these files, durably."""
    disk = SimulatedDisk()
    disk.make_directory(name)
    disk.fsync_directory("")
    for file, content in files.items():
        disk.write(f"{name}/{file}", 0, [content])
        disk.fsync(f"{name}/{file}")
    disk.fsync_directory(name)
    return disk


def states_of(disk: SimulatedDisk, name: str, run: Callable[[SimulatedDisk], object]) -> Sequence[dict[str, bytes]]:
    """The files of a log before, after each rename, and at the end of what `run` does."""
    states = [files_of(disk, name)]
    rename = disk.rename

    def renamed(old: str, new: str) -> None:
        rename(old, new)
        states.append(files_of(disk, name))

    disk.rename = renamed  # type: ignore[method-assign]
    try:
        run(disk)
    finally:
        disk.rename = rename  # type: ignore[method-assign]
    return states
