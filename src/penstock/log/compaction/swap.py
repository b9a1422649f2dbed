"""The end of a pass: its new segments take the place of those that they were made from.

The log is closed meanwhile, and opens anew from its files; what was told to readers before means the old files, which
keep other names for a while (`log.name_history`). Groups of segments take turns, from the start of the log on:

1. Their `.cleaned` files become `.swap`, those of the last group first.
2. The old segments' files become `.deleted`, those of the first segment first.
3. The new files lose `.swap`, the first group's first, of each group the records before their indexes.

After each step the directory is fsynced, after step 3 together with step 1 of the next groups. What a crash leaves is
dealt with by a recovery (`log.recovery`), or by Kafka's `LogLoader`, in nearly the same way:

- A crash before the end of step 1: some file still ends with `.cleaned`. Such files go, and so does every `.swap` file
  from the lowest offset of a `.cleaned` one on. These groups and all later ones are old.
- In step 2: the swap is finished. Of the old segments those go that begin where a new one has batches. The last ones of
  a group may have become empty, and nobody knows any more that they belong to it; those that were not renamed yet stay
  in the log. (A `LogLoader` keeps them in the last group only.)
- In step 3: the swap is finished, and no old file is left. As long as the records end with `.swap`, no index has lost
  it, so that every index without it is an old one.
- In step 3 together with step 1 of the next groups: as each of them alone. The journal of a file system keeps the order
  of renames. If one did not, a `LogLoader` could find records of either as `.swap`; it deletes every segment between
  the first and the last offset of all such files. Old segments of the groups may go, but not one between them that the
  pass has left alone: there, the directory is fsynced between the two steps as well.

So old segments at the end of a group may be in the log beside new ones behind them. Within the group that does no harm:
the first are renamed first, and whatever deletes a record in one that is left is in it or in one behind it. But if a
delete marker or a transaction's marker has gone from a later group, a record that it was about would be back. A group
that has lost one waits until those before it are done; others take their steps together, because every fsync counts as
long as the log is closed. Kafka exchanges each group by itself.

Source: `LocalLog.replaceSegments` and `LogLoader` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.log.compaction.passes import Pass, SealedSegment
from penstock.log.compaction.report import GroupReport, PassReport
from penstock.log.compaction.task import remove_cleaned
from penstock.log.disk import Disk, FileInfo, Operation, OperationOwner
from penstock.log.loading import listing
from penstock.log.names import CLEANED, INDEX_SUFFIXES, LOG, SNAPSHOT, SWAP, UNFLUSHED_ROLLS, file_name
from penstock.log.operations import rename_deleted
from penstock.log.replica import Replica
from penstock.log.space import is_full

Group = Sequence[SealedSegment]
"""Segments that one takes the place of, which has the base offset of the first."""


class Swapped(NamedTuple):
    """The old files under their new names, to be unlinked later, and the bytes of all segments that there are now.

    `no_room` says why some groups have kept their old segments; "" if all have new ones.
    """

    deleted_paths: list[str]
    size_bytes: int
    no_room: str = ""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Which segments go, in groups by rising offsets. The groups of a round take their steps together."""

    name: str
    rounds: tuple[tuple[Group, ...], ...]

    @classmethod
    def of(cls, work: Pass, report: PassReport) -> Exchange:
        by_base = {segment.base_offset: segment for segment in work.segments}
        rounds: list[list[Group]] = []
        for each in report.groups:
            group = [by_base[base_offset] for base_offset in each.base_offsets]
            if rounds and not has_lost_markers(each) and follows(group, rounds[-1][-1]):
                rounds[-1].append(group)
            else:
                rounds.append([group])
        return cls(work.name, tuple(map(tuple, rounds)))

    @property
    def groups(self) -> list[Group]:
        return [group for groups in self.rounds for group in groups]


def has_lost_markers(report: GroupReport) -> bool:
    """Whether something has gone from a group that says of records before it that they do not count."""
    return report.removed_tombstones > 0 or report.markers > 0


def follows(group: Group, before: Group) -> bool:
    """Whether no segment that was left alone lies between two groups."""
    return before[-1].end_offset == group[0].base_offset


class SwapSegments(Operation):
    """See the module's head. The result is None, and nothing has changed, if the old files are not as they were.

    Where a directory has no room for the names of step 1, these groups and all later ones stay as they are. No room in
    step 3 is an error: a recovery finishes the swap.
    """

    __slots__ = ("exchange", "replica")

    def __init__(self, replica: Replica, owner: OperationOwner, exchange: Exchange) -> None:
        super().__init__(replica.directory.index, replica.name, owner)
        self.replica = replica
        self.exchange = exchange

    def run(self, disk: Disk) -> Swapped | None:
        name = self.exchange.name
        files = listing(disk, name)
        if not all(is_as_cleaned(files, group) for group in self.exchange.groups):
            remove_cleaned(disk, name)
            return None
        disk.unlink(f"{name}/{UNFLUSHED_ROLLS}")  # before there are gaps that are no holes
        disk.fsync_directory(name)
        deleted: list[str] = []
        no_room = ""
        before: Sequence[Group] = ()
        for groups in self.exchange.rounds:
            if before:
                rename(disk, name, new_files(files, before), SWAP, "")
                if not follows(groups[0], before[-1]):
                    disk.fsync_directory(name)
                before = ()
            try:
                rename(disk, name, new_files(files, groups[::-1]), CLEANED, SWAP)
            except OSError as error:
                if not is_full(error):
                    raise
                no_room = str(error)
                give_up(disk, name)
                break
            disk.fsync_directory(name)
            deleted += rename_deleted(disk, [f"{name}/{file}" for file in old_files(groups) if file in files])
            disk.fsync_directory(name)
            before = groups
        rename(disk, name, new_files(files, before), SWAP, "")
        disk.fsync_directory(name)
        left = listing(disk, name)
        size_bytes = sum(info.size_bytes for file, info in left.items() if file.endswith(LOG))
        return Swapped(deleted, size_bytes, no_room)


def give_up(disk: Disk, name: str) -> None:
    """Removes the new files that are not in use yet. Those that are `.swap` already go first: beside a `.cleaned` one
    before them, no recovery takes them into use.
    """
    for info in disk.list(name):
        if info.name.endswith(SWAP):
            disk.unlink(f"{name}/{info.name}")
    disk.fsync_directory(name)
    remove_cleaned(disk, name)


def is_as_cleaned(files: Mapping[str, FileInfo], group: Group) -> bool:
    """Whether a group's new segment is there, and its old ones have the sizes that they had."""
    old = [(files.get(file_name(each.base_offset, LOG)), each.size_bytes) for each in group]
    return file_name(group[0].base_offset, LOG) + CLEANED in files and all(
        file is not None and file.size_bytes == size_bytes for file, size_bytes in old
    )


def new_files(files: Mapping[str, FileInfo], groups: Sequence[Group]) -> list[str]:
    """The files of groups' new segments, the records first, by the names that they will have."""
    names = [file_name(group[0].base_offset, suffix) for group in groups for suffix in (LOG, *INDEX_SUFFIXES)]
    return [name for name in names if name + CLEANED in files]


def old_files(groups: Sequence[Group]) -> list[str]:
    """The files of the segments that go, and the producers' snapshots where no segment begins any more."""
    segments = [segment for group in groups for segment in group]
    gone = [file_name(each.base_offset, suffix) for each in segments for suffix in (LOG, *INDEX_SUFFIXES)]
    return gone + [file_name(each.base_offset, SNAPSHOT) for group in groups for each in group[1:]]


def rename(disk: Disk, name: str, files: Iterable[str], suffix: str, becomes: str) -> None:
    """Has files of a log end otherwise."""
    for file in files:
        disk.rename(f"{name}/{file}{suffix}", f"{name}/{file}{becomes}")


class RemoveCleaned(Operation):
    """Removes the files of a pass whose result is of no use, in the order of the passes over this log."""

    __slots__ = ("name",)

    def __init__(self, replica: Replica, owner: OperationOwner, order: str) -> None:
        super().__init__(replica.directory.index, order, owner)
        self.name = replica.name

    def run(self, disk: Disk) -> None:
        if disk.exists(self.name):
            remove_cleaned(disk, self.name)
