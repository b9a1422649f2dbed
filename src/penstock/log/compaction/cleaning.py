"""A pass of the log cleaner: of the records of each key only the last one stays.

Two readings of the log. The first fills a map with the last offset of each key, from the first dirty offset to the end
of what may be cleaned, or to where the map is full; the next pass goes on there. The second copies each group of
segments into a new one and leaves out the records that the map knows a later one of (`filtering`).

Messages of the formats 0 and 1 are read as the batches that they become (`scan`).

What cannot be read is kept and reported: a batch that is damaged, or takes too much memory (`unpacking`), as the bytes
it is, a segment in which the batches cannot be told apart as a whole. None of their keys comes into the map, and from
there on neither delete markers nor transaction markers go, because what they are about may be in those bytes.

A pass reads closed segments through a `Disk` and gives new ones to a `Target`, or to nobody when it is only to say what
it would do. It runs in a worker as well as in the simulator. Source: `Cleaner` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.log.compaction.filtering import BatchFilter
from penstock.log.compaction.offset_map import LatestOffsets
from penstock.log.compaction.passes import Pass, SealedSegment, groups_of
from penstock.log.compaction.report import GroupReport, PassReport
from penstock.log.compaction.scan import Found, Unframed, batches, framed
from penstock.log.compaction.target import POSITION_MAX, Target
from penstock.log.compaction.transactions import CleanedTransactions
from penstock.log.compaction.unpacking import Unpacking
from penstock.log.disk import Disk
from penstock.log.limits import CLEANING_PROBLEMS_REPORTED_MAX
from penstock.log.names import LOG, file_name
from penstock.records.batch import MAGIC
from penstock.records.compression import Contexts
from penstock.records.legacy.up_conversion import GROWTH_BYTES


def run_pass(disk: Disk, work: Pass, offsets: LatestOffsets, target: Target | None) -> PassReport:
    """Runs a pass with an empty map. Without a target nothing is written.

    Raises OSError as the disk does, StorageError where a file ends before it should.
    """
    return Cleaner(disk, work, offsets, target).run()


class Cleaner:
    """One run of `run_pass`."""

    def __init__(self, disk: Disk, work: Pass, offsets: LatestOffsets, target: Target | None) -> None:
        self.disk = disk
        self.work = work
        self.offsets = offsets
        self.target = target
        self.contexts = Contexts()
        self.unpacking = Unpacking(self.contexts, work.batch_memory_bytes)
        self.report = PassReport(
            work.name, work.first_dirty_offset, work.first_dirty_offset, work.first_uncleanable_offset
        )

    def run(self) -> PassReport:
        work, report = self.work, self.report
        readable = [seen for segment in work.segments if (seen := self._framed(segment)) is not None]
        latest_offset = self._fill_map(readable)
        report.end_offset = latest_offset + 1
        report.keys = self.offsets.size
        filtering = BatchFilter(work, self.offsets, latest_offset, self.unpacking, self.contexts)
        filtering.transactions.unread = bool(report.left_alone)
        for group in groups_of(work, [segment for segment in readable if segment.base_offset <= latest_offset]):
            report.groups.append(self._clean(group, filtering))
        if self.target is not None:
            self.target.disk.fsync_directory(self.target.name)
        return report

    def _framed(self, segment: SealedSegment) -> SealedSegment | None:
        """The segment, and how much it grows; None if it stays as it is."""
        growth_bytes = 0
        try:
            for header, _ in framed(self.disk, self._path(segment), segment, self.work):
                if header.magic < MAGIC:
                    growth_bytes += GROWTH_BYTES
            if growth_bytes and segment.size_bytes + growth_bytes > POSITION_MAX:
                raise Unframed(f"{self._path(segment)}: as batches its messages might take more than a segment holds")
        except Unframed as error:
            self.report.left_alone.append(segment.base_offset)
            self._note(str(error))
            return None
        return segment._replace(growth_bytes=growth_bytes) if growth_bytes else segment

    def _fill_map(self, segments: Sequence[SealedSegment]) -> int:
        """Notes the keys of the dirty segments; returns the offset up to which the map knows the last of each key."""
        start = self.work.first_dirty_offset
        transactions = CleanedTransactions(each for each in self.work.aborted if each.last_offset >= start)
        latest_offset = start - 1
        for segment in segments:
            if segment.end_offset <= start:
                continue
            for found in self._batches(segment):
                if found.header.last_offset < start:
                    continue
                if not found.damaged:
                    added = self._add(found, transactions, start)
                    if added is not None:
                        self.report.map_is_full = True
                        return max(latest_offset, added)
                    latest_offset = found.header.last_offset
        return max(latest_offset, self.work.first_uncleanable_offset - 1)

    def _add(self, found: Found, transactions: CleanedTransactions, start: int) -> int | None:
        """Notes the keys of a batch; returns the last offset that was noted if the map is now full."""
        header = found.header
        if header.is_control:
            return None
        if transactions.data_is_aborted(header) or not header.record_count:
            return None
        try:
            added = self.offsets.add(self.unpacking.records(found), header, start)
        except (CorruptRecordError, InvalidRecordError):
            return None  # the second reading reports it
        return added.last_offset if added.full else None

    def _clean(self, group: Sequence[SealedSegment], filtering: BatchFilter) -> GroupReport:
        """Copies what stays of a group of segments."""
        report = filtering.report = GroupReport([segment.base_offset for segment in group])
        output = self.target.begin(group[0].base_offset, self.work) if self.target is not None else None
        for segment in group:
            for found in self._batches(segment):
                kept = filtering.filter(found)
                if filtering.problem:
                    self._note(f"{self._path(segment)}: {filtering.problem}")
                if output is not None and kept is not None:
                    output.append(kept)
                if output is not None and filtering.still_aborted is not None:
                    output.append_aborted(filtering.still_aborted)
        if output is not None:
            output.finish()
        return report

    def _batches(self, segment: SealedSegment) -> Iterator[Found]:
        return batches(self.disk, self._path(segment), segment, self.work, self.contexts)

    def _path(self, segment: SealedSegment) -> str:
        return f"{self.work.name}/{file_name(segment.base_offset, LOG)}"

    def _note(self, problem: str) -> None:
        self.report.problem_count += 1
        if len(self.report.problems) < CLEANING_PROBLEMS_REPORTED_MAX:
            self.report.problems.append(problem)
