"""A pass of the log cleaner: of the records of each key only the last one stays.

Two readings of the log. The first fills a map with the last offset of each key, from the first dirty offset to the end
of what may be cleaned, or to where the map is full; the next pass goes on there. The second copies each group of
segments into a new one and leaves out the records that the map knows a later one of (`filtering`).

Messages of the formats 0 and 1 are read as the batches that they become (`scan`). Their segment may grow by that.

What cannot be read is kept and reported: a batch that is damaged, or takes too much memory (`unpacking`), as the bytes
it is, a segment in which the batches cannot be told apart as a whole. None of their keys comes into the map, and from
there on neither delete markers nor transaction markers go, because what they are about may be in those bytes. That a
segment is such a one, or may grow, shows in the middle of it. Then what was made of it is given up, and from there on
each segment is read through before it is used.

If there is less room than the new segments may take, they are those of a part of the pass, and the report says where
the next part goes on (`parts`).

A pass reads closed segments through a `Disk` and gives new ones to a `Target`, or to nobody when it is only to say what
it would do. It runs in a worker as well as in the simulator. Source: `Cleaner` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.log.compaction.filtering import BatchFilter, transactions_of
from penstock.log.compaction.markers import first_markers
from penstock.log.compaction.offset_map import LatestOffsets
from penstock.log.compaction.parts import Room
from penstock.log.compaction.passes import Pass, Rest, SealedSegment, groups_of
from penstock.log.compaction.report import GroupReport, PassReport
from penstock.log.compaction.scan import Found, Unframed, batches, framed
from penstock.log.compaction.target import POSITION_MAX, NewSegment, Target
from penstock.log.compaction.transactions import CleanedTransactions
from penstock.log.compaction.unpacking import Unpacking
from penstock.log.disk import Disk
from penstock.log.limits import CLEANING_PROBLEMS_REPORTED_MAX
from penstock.log.names import LOG, file_name
from penstock.records.batch import MAGIC
from penstock.records.compression import Contexts
from penstock.records.legacy.up_conversion import GROWTH_BYTES


def run_pass(
    disk: Disk, work: Pass, offsets: LatestOffsets, target: Target | None, room: Room | None = None
) -> PassReport:
    """Runs a pass, or the part of it for which there is room, with an empty map. Without a target nothing is written.

    Raises OSError as the disk does, StorageError where a file ends before it should, NoRoom where nothing has a place,
    DamagedIndexError where an index of aborted transactions says something else than the markers (`transactions`).
    """
    return Cleaner(disk, work, offsets, target, room).run()


class Cleaner:
    """One run of `run_pass`.

    Attributes: `wary`, whether a segment was met that is to be left alone, or grows, so that each is read through
    before it is used; `known`, those that were, by their base offsets, None for one that is left alone; `read_to`, the
    end of what was cleaned; `modified_ms`, when the files of the log were modified last, by name, if anything is
    written.
    """

    def __init__(
        self, disk: Disk, work: Pass, offsets: LatestOffsets, target: Target | None, room: Room | None
    ) -> None:
        self.disk = disk
        self.work = work
        self.offsets = offsets
        self.target = target
        self.room = room
        self.wary = False
        self.known: dict[int, SealedSegment | None] = {}
        self.read_to = work.from_offset
        self.modified_ms: dict[str, int] = {}
        self.contexts = Contexts()
        self.unpacking = Unpacking(self.contexts, work.batch_memory_bytes)
        self.report = PassReport(
            work.name, work.first_dirty_offset, work.first_dirty_offset, work.first_uncleanable_offset
        )

    def run(self) -> PassReport:
        work, report, room = self.work, self.report, self.room
        if room is not None:
            self._check_room(room)
        if self.target is not None:
            self.modified_ms = {info.name: info.modified_ms for info in self.disk.list(work.name)}
        latest_offset = self._fill_map()
        report.end_offset = latest_offset + 1
        report.keys = self.offsets.size
        filtering = BatchFilter(work, self.offsets, latest_offset, self.unpacking, self.contexts)
        segments = self._readable(segment for segment in work.to_clean if segment.base_offset <= latest_offset)
        for group in groups_of(work, segments, self._group_bytes_max()):
            if not self._clean_readable(group, filtering):
                break
        self._ask_markers_behind(filtering.transactions)
        if self.target is not None:
            self.target.disk.fsync_directory(self.target.name)
        return report

    def _ask_markers_behind(self, transactions: CleanedTransactions) -> None:
        """Asks the markers of transactions that began in what was cleaned, and end behind it."""
        if transactions.unread or self.report.left_alone or not self.report.groups:
            return
        for header, kind in first_markers(self.disk, self.work, self.read_to, transactions.unfinished):
            transactions.end(header, kind)

    def _check_room(self, room: Room) -> None:
        """Raises NoRoom if not even the first new segment has a place, before much is read in vain."""
        for segment in self.work.to_clean:
            if segment.size_bytes <= room.group_bytes(self.disk):
                return
            if self._read_through(segment) is not None:
                room.check(self.disk, segment.size_bytes)

    def _rest(self, from_offset: int, filtering: BatchFilter) -> Rest:
        """The next part does not see the segments that this one has left alone."""
        state = filtering.transactions.state
        state = state._replace(unread=state.unread or bool(self.report.left_alone))
        return Rest(from_offset, self.report.end_offset, self.work.first_uncleanable_offset, state)

    def _readable(self, segments: Iterable[SealedSegment]) -> Iterator[SealedSegment]:
        """The segments but those that are left alone, as far as that is known already."""
        for segment in segments:
            readable = self._read_through(segment) if self.wary else self.known.get(segment.base_offset, segment)
            if readable is not None:
                yield readable

    def _read_through(self, segment: SealedSegment) -> SealedSegment | None:
        """Reads a segment through, once, and notes what is wrong. Returns it with what it may grow by, or None."""
        base_offset = segment.base_offset
        if base_offset not in self.known:
            try:
                self.known[base_offset] = self._grown(segment)
            except Unframed as error:
                self.known[base_offset] = None
                self.report.left_alone.append(base_offset)
                self._note(str(error))
        return self.known[base_offset]

    def _grown(self, segment: SealedSegment) -> SealedSegment:
        """The segment with what it may grow by. Raises Unframed."""
        path = self._path(segment)
        old = sum(header.magic < MAGIC for header, _ in framed(self.disk, path, segment, self.work))
        if old and segment.size_bytes + old * GROWTH_BYTES > POSITION_MAX:
            raise Unframed(f"{path}: as batches its messages might take more than a segment holds")
        return segment._replace(growth_bytes=old * GROWTH_BYTES)

    def _fill_map(self) -> int:
        """Fills the map; returns the offset up to which it knows the last of each key."""
        try:
            return self._note_keys()
        except Unframed:
            self.wary = True
        self.offsets.clear()
        return self._note_keys()

    def _note_keys(self) -> int:
        """Notes the keys of the dirty segments; returns the offset up to which the map knows the last of each key."""
        start, end = self.work.map_start_offset, self.work.end_offset
        transactions = CleanedTransactions(each for each in self.work.aborted if each.last_offset >= start)
        latest_offset = start - 1
        for segment in self._readable(self.work.dirty):
            for found in self._batches(segment):
                if found.header.last_offset < start:
                    continue
                if found.header.base_offset >= end:
                    break
                if not found.damaged:
                    added = self._add(found, transactions, start)
                    if added is not None:
                        self.report.map_is_full = True
                        return min(max(latest_offset, added), end - 1)
                    latest_offset = found.header.last_offset
        return end - 1

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

    def _clean_readable(self, group: Sequence[SealedSegment], filtering: BatchFilter) -> bool:
        """Copies what stays of a group of segments, if there is room; whether there was.

        One that turns out to be left alone, or to grow, parts the group, and there must be room for each of these.
        """
        report, state = self.report, filtering.transactions.state
        problems, problem_count = len(report.problems), report.problem_count
        if not self.wary:
            try:
                return self._clean_in_room(group, filtering)
            except Unframed:
                self.wary = True
            filtering.transactions = transactions_of(self.work, state)
            del report.problems[problems:]
            report.problem_count = problem_count
        groups = groups_of(self.work, self._readable(group), self._group_bytes_max())
        return all(self._clean_in_room(each, filtering) for each in groups)

    def _group_bytes_max(self) -> int | None:
        return self.room.group_bytes(self.disk) if self.room is not None else None

    def _clean_in_room(self, group: Sequence[SealedSegment], filtering: BatchFilter) -> bool:
        """Copies what stays of a group of segments; if there is no room, it is where the next part goes on."""
        report, room = self.report, self.room
        if room is not None:
            size_bytes = sum(segment.size_bytes + segment.growth_bytes for segment in group)
            written_bytes = sum(each.after.bytes for each in report.groups)
            if not room.has_place(self.disk, written_bytes, size_bytes):
                if report.groups:
                    report.rest = self._rest(group[0].base_offset, filtering)
                    return False
                room.check(self.disk, size_bytes)
        report.groups.append(self._clean(group, filtering))
        return True

    def _clean(self, group: Sequence[SealedSegment], filtering: BatchFilter) -> GroupReport:
        """Copies what stays of a group of segments."""
        report = filtering.report = GroupReport([segment.base_offset for segment in group])
        filtering.transactions.unread |= bool(self.report.left_alone)
        output = self.target.begin(group[0].base_offset, self.work) if self.target is not None else None
        try:
            for segment in group:
                self._copy(segment, filtering, output)
        except Unframed:
            if output is not None:
                output.discard()
            raise
        if output is not None:
            output.finish(self.modified_ms[file_name(group[-1].base_offset, LOG)])
        self.read_to = group[-1].end_offset
        return report

    def _copy(self, segment: SealedSegment, filtering: BatchFilter, output: NewSegment | None) -> None:
        for found in self._batches(segment):
            if found.old_bytes and segment.base_offset not in self.known:
                raise Unframed(f"{self._path(segment)} grows, and nobody knows by how much")
            kept = filtering.filter(found)
            if filtering.problem:
                self._note(f"{self._path(segment)}: {filtering.problem}")
            if output is not None and kept is not None:
                output.append(kept)
            if output is not None and filtering.still_aborted is not None:
                output.append_aborted(filtering.still_aborted)

    def _batches(self, segment: SealedSegment) -> Iterator[Found]:
        return batches(self.disk, self._path(segment), segment, self.work, self.contexts)

    def _path(self, segment: SealedSegment) -> str:
        return f"{self.work.name}/{file_name(segment.base_offset, LOG)}"

    def _note(self, problem: str) -> None:
        self.report.problem_count += 1
        if len(self.report.problems) < CLEANING_PROBLEMS_REPORTED_MAX:
            self.report.problems.append(problem)
