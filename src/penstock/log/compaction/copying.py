"""A cleaned copy of a whole log: the new segments of a pass, and as they are all files that it did not touch."""

from __future__ import annotations

from penstock.log.compaction.report import PassReport
from penstock.log.compaction.target import Target
from penstock.log.disk import Disk
from penstock.log.limits import RECOVERY_CHUNK_BYTES
from penstock.log.loading import listing
from penstock.log.names import (
    INDEX_SUFFIXES,
    LEADER_EPOCHS,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    offset_of,
)


def copy_the_rest(disk: Disk, report: PassReport, target: Target) -> None:
    """Copies what a pass left alone, so that the target becomes a log that can be opened; all of it is durable then.

    Producer snapshots below what could be cleaned stay behind: they belong to the ends of segments that may be gone.
    """
    cleaned = {base for group in report.groups for base in group.base_offsets}
    for name, info in listing(disk, report.name).items():
        segment = next((offset_of(name, suffix) for suffix in (LOG, *INDEX_SUFFIXES) if name.endswith(suffix)), None)
        snapshot = offset_of(name, SNAPSHOT)
        is_due = (
            (segment is not None and segment not in cleaned)
            or (snapshot is not None and snapshot >= report.first_uncleanable_offset)
            or name in (LEADER_EPOCHS, PARTITION_METADATA)
        )
        if is_due:
            copy_file(disk, f"{report.name}/{name}", info.size_bytes, target, f"{target.name}/{name}")
    target.disk.fsync_directory(target.name)


def copy_file(disk: Disk, source: str, size_bytes: int, target: Target, path: str) -> None:
    for position in range(0, max(size_bytes, 1), RECOVERY_CHUNK_BYTES):
        chunk = disk.read(source, position, min(RECOVERY_CHUNK_BYTES, size_bytes - position))
        target.disk.write(path, position, [chunk])
    target.disk.fsync(path)
