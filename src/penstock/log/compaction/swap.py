"""The end of a pass: its new segments take the place of those that they were made from.

The log is closed meanwhile, and opens anew from its files; what was told to readers before means the old files, which
keep other names for a while (`log.name_history`). Each step is durable before the next:

1. `.cleaned` becomes `.swap`. From here on a recovery, ours or Apache Kafka's, goes on with the swap.
2. The old segments' files become `.deleted`.
3. `.swap` goes.

In the first step the last segment comes first: a recovery drops every `.swap` file from the first `.cleaned` one on, so
that what a crash leaves is a cleaned beginning of the log and an old rest. Source: `LogSegments` and `LogLoader` of
Apache Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.log.compaction.passes import Pass, SealedSegment
from penstock.log.compaction.report import PassReport
from penstock.log.compaction.task import remove_cleaned
from penstock.log.disk import Disk, Operation, OperationOwner
from penstock.log.loading import listing
from penstock.log.names import CLEANED, INDEX_SUFFIXES, LOG, SNAPSHOT, SWAP, UNFLUSHED_ROLLS, file_name
from penstock.log.operations import rename_deleted
from penstock.log.replica import Replica


class Swapped(NamedTuple):
    """The old files under their new names, to be unlinked later, and the bytes of all segments that there are now."""

    deleted_paths: list[str]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Exchange:
    """Which segments go, by the base offset of the one that comes for them."""

    name: str
    groups: tuple[tuple[SealedSegment, ...], ...]

    @classmethod
    def of(cls, work: Pass, report: PassReport) -> Exchange:
        by_base = {segment.base_offset: segment for segment in work.segments}
        return cls(work.name, tuple(tuple(map(by_base.__getitem__, group.base_offsets)) for group in report.groups))


class SwapSegments(Operation):
    """See the module's head. The result is None, and nothing has changed, if the old files are not as they were."""

    __slots__ = ("exchange", "replica")

    def __init__(self, replica: Replica, owner: OperationOwner, exchange: Exchange) -> None:
        super().__init__(replica.directory.index, replica.name, owner)
        self.replica = replica
        self.exchange = exchange

    def run(self, disk: Disk) -> Swapped | None:
        exchange, name = self.exchange, self.exchange.name
        files = listing(disk, name)
        for group in exchange.groups:
            cleaned = file_name(group[0].base_offset, LOG) + CLEANED
            sizes = [getattr(files.get(file_name(each.base_offset, LOG)), "size_bytes", None) for each in group]
            if cleaned not in files or sizes != [each.size_bytes for each in group]:
                remove_cleaned(disk, name)
                return None
        disk.unlink(f"{name}/{UNFLUSHED_ROLLS}")  # before there are gaps that are no holes
        disk.fsync_directory(name)
        new = sorted((each.removesuffix(CLEANED) for each in files if each.endswith(CLEANED)), reverse=True)
        for file in new:
            disk.rename(f"{name}/{file}{CLEANED}", f"{name}/{file}{SWAP}")
        disk.fsync_directory(name)
        deleted = rename_deleted(disk, [f"{name}/{file}" for file in old_files(exchange) if file in files])
        disk.fsync_directory(name)
        for file in new:
            disk.rename(f"{name}/{file}{SWAP}", f"{name}/{file}")
        disk.fsync_directory(name)
        left = listing(disk, name)
        return Swapped(deleted, sum(info.size_bytes for file, info in left.items() if file.endswith(LOG)))


def old_files(exchange: Exchange) -> list[str]:
    """The files of the segments that go, and the producers' snapshots where no segment begins any more."""
    gone = []
    for group in exchange.groups:
        gone += [file_name(each.base_offset, suffix) for each in group for suffix in (LOG, *INDEX_SUFFIXES)]
        gone += [file_name(each.base_offset, SNAPSHOT) for each in group[1:]]
    return gone


class RemoveCleaned(Operation):
    """Removes the files of a pass whose result is of no use, in the order of the passes over this log."""

    __slots__ = ("name",)

    def __init__(self, replica: Replica, owner: OperationOwner, order: str) -> None:
        super().__init__(replica.directory.index, order, owner)
        self.name = replica.name

    def run(self, disk: Disk) -> None:
        if disk.exists(self.name):
            remove_cleaned(disk, self.name)
