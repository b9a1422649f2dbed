"""The indexes of a log made anew from its segments, by the rules of a recovery, while no broker has the log.

Of each segment the offset index, the time index and the aborted transactions; of the log the leader epochs, and the
producers' snapshots where one is missing or damaged. A good snapshot stays: it may know producers whose batches are
gone. So do entries of aborted transactions whose data a cleaner has removed, as long as their markers are there.

Nothing is cut: a segment that is damaged is an error, and a recovery's work. The files are yielded one by one, segment
by segment, so that no more than one segment's indexes are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct

from penstock.errors import StorageError
from penstock.log import leader_epochs, producer_snapshot
from penstock.log.checkpoints import LOG_START
from penstock.log.disk import Disk, FileInfo
from penstock.log.index import RELATIVE_OFFSET_MAX, AbortedIndex, Index, OffsetIndex, TimeIndex
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.loading import listing, load_snapshot, marker_of
from penstock.log.names import (
    ABORTED_INDEX,
    LEADER_EPOCHS,
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    file_name,
    offset_of,
)
from penstock.log.producer_state import ProducerState
from penstock.log.recovery import recover_producers
from penstock.log.segment import Segment
from penstock.log.segment_scan import ProducerBatch, in_order, scan

ENTRY_OF: dict[str, Struct] = {
    OFFSET_INDEX: OffsetIndex.ENTRY,
    TIME_INDEX: TimeIndex.ENTRY,
    ABORTED_INDEX: AbortedIndex.ENTRY,
}


@dataclass(frozen=True, slots=True)
class RebuiltFile:
    """A file as it should be, and as it is; `before` is None where it is missing."""

    name: str
    content: bytes
    before: bytes | None

    @property
    def has_changed(self) -> bool:
        return self.content != self.before

    @property
    def entry_bytes(self) -> int:
        """Of one entry; 0 in a file that is no index."""
        return next((entry.size for suffix, entry in ENTRY_OF.items() if self.name.endswith(suffix)), 0)


class Rebuilding:
    """One run over a log. `told` is called with the bytes of each segment that is done."""

    def __init__(
        self,
        disk: Disk,
        name: str,
        *,
        log_start_offset: int,
        index_interval_bytes: int,
        told: Callable[[int], None],
    ) -> None:
        self.disk = disk
        self.name = name
        self.log_start_offset = log_start_offset
        self.index_interval_bytes = index_interval_bytes
        self.told = told
        self.aborts: set[tuple[int, int]] = set()
        """Producer and offset of the markers in the segment at hand that abort a transaction."""

    def run(self) -> Iterator[RebuiltFile]:
        """Every file that a log of these segments has, changed or not.

        Raises StorageError for a log that a broker must look at first: damaged, in the middle of a compaction, or
        ending before its start.
        """
        files = listing(self.disk, self.name)
        check_at_rest(self.name, files)
        bases = [base for file in files if (base := offset_of(file, LOG)) is not None]
        epochs = self._epochs(files)
        first = bases[0] if bases else 0
        producers = ProducerState(first)  # as for a recovery, a transaction may have begun below the log start
        load_snapshot(self.disk, self.name, files, producers, first)
        for base, following in zip(bases, [*bases[1:], None], strict=False):
            segment = self._scanned(base, following, producers, epochs)
            for index in (segment.offset_index, segment.time_index, segment.aborted_index):
                yield from self._rebuilt_index(index, files)
            if following in {None, producers.end_offset}:
                yield from self._rebuilt_snapshot(producers, files)
            self.told(segment.reserved_bytes)
        epochs.truncate_from_end(producers.end_offset)
        epochs.truncate_from_start(self.log_start_offset)
        if epochs.dirty:
            yield self._file(LEADER_EPOCHS, epochs.encode(), files)

    def _scanned(self, base: int, following: int | None, producers: ProducerState, epochs: LeaderEpochs) -> Segment:
        """A segment with the indexes that its batches give."""
        segment = Segment(self.name, base, 0)
        size_bytes = self.disk.size(segment.log_path)
        next_offset = base
        self.aborts.clear()
        for _, header, data in in_order(scan(self.disk, segment.log_path, size_bytes), base, following):
            if header.last_offset - base > RELATIVE_OFFSET_MAX:
                break
            next_offset = header.next_offset
            segment.reserve(header.size_bytes, header.last_offset, header.max_timestamp_ms, self.index_interval_bytes)
            if header.leader_epoch > epochs.latest:
                epochs.assign(header.leader_epoch, header.base_offset)
            marker = marker_of(data, header) if header.is_control and header.has_producer_id else None
            recover_producers([ProducerBatch(header, marker)], producers, segment)
            if marker is not None and not marker.commit:
                self.aborts.add((header.producer_id, header.base_offset))
        if segment.reserved_bytes != size_bytes:
            raise StorageError(
                f"{segment.log_path} is damaged from byte {segment.reserved_bytes} on, so no index of it can be right\n"
                "  a broker that starts after an unclean stop recovers it; `penstock log verify` says what is wrong"
            )
        if following is None and next_offset < self.log_start_offset:
            raise StorageError(
                f"{self.name} ends at {next_offset}, and by {LOG_START} it begins at {self.log_start_offset}\n"
                "  either that file is not of this log, or the log has lost its end; no index can be made by both"
            )
        producers.end_offset = max(producers.end_offset, next_offset)
        segment.seal()
        return segment

    def _rebuilt_index(self, index: Index, files: Mapping[str, FileInfo]) -> Iterator[RebuiltFile]:
        tail = index.take_tail()
        content = tail[2] if tail else b""
        file = index.path.rpartition("/")[2]
        if content or file in files or not isinstance(index, AbortedIndex):
            made = self._file(file, content, files)
            if isinstance(index, AbortedIndex) and self._holds(made):
                made = RebuiltFile(file, made.before or b"", made.before)
            yield made

    def _holds(self, made: RebuiltFile) -> bool:
        """Whether the aborted transactions in the file that is there are right, and all of those found are among them.

        A cleaner keeps the entry of a transaction, and its marker, when it removes the data.
        """
        if not made.before or len(made.before) % AbortedIndex.ENTRY.size:
            return False
        before = entries_of(made.before)
        markers = [(producer_id, marker) for _, producer_id, _, marker, _ in before]
        in_order = all(earlier[1] < later[1] for earlier, later in pairwise(markers))
        return in_order and self.aborts.issuperset(markers) and set(before).issuperset(entries_of(made.content))

    def _rebuilt_snapshot(self, producers: ProducerState, files: Mapping[str, FileInfo]) -> Iterator[RebuiltFile]:
        file = file_name(producers.end_offset, SNAPSHOT)
        made = self._file(file, producer_snapshot.encode(producers.producers), files)
        try:
            if made.before is not None:
                producer_snapshot.entries(made.before, file)
                return
        except StorageError:
            pass
        yield made

    def _epochs(self, files: Mapping[str, FileInfo]) -> LeaderEpochs:
        path = f"{self.name}/{LEADER_EPOCHS}"
        file = files.get(LEADER_EPOCHS)
        return leader_epochs.decode_if_sound(None if file is None else self.disk.read(path, 0, file.size_bytes), path)

    def _file(self, file: str, content: bytes, files: Mapping[str, FileInfo]) -> RebuiltFile:
        before = self.disk.read(f"{self.name}/{file}", 0, files[file].size_bytes) if file in files else None
        return RebuiltFile(file, content, before)


def entries_of(content: bytes) -> list[tuple[int, ...]]:
    return list(AbortedIndex.ENTRY.iter_unpack(content))


def check_at_rest(name: str, files: Mapping[str, FileInfo]) -> None:
    """Raises StorageError in the middle of a swap: which segments count then is for a broker's start to say."""
    for file in files:
        if file.endswith(SWAP):
            raise StorageError(
                f"{name} has {file}, of a compaction that has not ended\n  start the broker once, which ends it"
            )
