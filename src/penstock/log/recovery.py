"""Recovery of one log after an unclean stop: scan from the recovery point, check every CRC, rebuild what is derived.

Kafka's LogLoader, in the order of its passes: leftovers of deletions and cleanings go; interrupted swaps are finished;
every segment from the recovery point on, and every one that lacks an index, is scanned batch by batch, its indexes, the
producer state and the leader epochs rebuilt. The first bad batch from the recovery point on ends the log; one in an
older segment ends that segment alone. A torn tail (a batch that the file does not hold all of, zeros, bytes with no
valid batch among them) is cut. Where valid batches follow, all that is cut is first moved aside
(`<segment>.log.corrupt`), later segments whole, and the report names the offsets lost. Messages of the formats 0 and 1
count as batches in all of this.

Offsets that are missing between segments end nothing: a cleaner leaves such gaps. A segment whose tail never reached
the disk leaves one too, but there a note says that none was there when the next segment was begun (`log.rolls`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.log import leader_epochs, producer_snapshot
from penstock.log.disk import Disk, FileInfo
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.limits import RECOVERY_CHUNK_BYTES
from penstock.log.loading import (
    OpenArguments,
    RecoveryNeeded,
    is_deleted,
    listing,
    load_active,
    load_segment,
    load_snapshot,
    readable,
    replay,
    replay_batch,
)
from penstock.log.lookup import batch_headers
from penstock.log.names import (
    CLEANED,
    CORRUPT,
    INDEX_SUFFIXES,
    LEADER_EPOCHS,
    LOG,
    SNAPSHOT,
    SWAP,
    UNFLUSHED_ROLLS,
    file_name,
    offset_of,
)
from penstock.log.producer_state import NO_OFFSET, ProducerState
from penstock.log.rolls import read_rolls
from penstock.log.segment import Segment
from penstock.log.segment_scan import ProducerBatch, Scan, SegmentScan, SegmentToScan, scan, scan_segment
from penstock.records.batch import (
    HEADER_BYTES,
    MAGIC,
    MAGIC_POSITION,
    OLD_HEADER_BYTES,
    BatchHeader,
    check_crc,
    read_entry,
    read_old_header,
)
from penstock.records.limits import LEGACY_SEARCHED_BYTES_MAX

BASE_OFFSET_PREFIX_BYTES = 4
"""The leading bytes of a base offset, which batches near each other share: what a search for lost batches looks for."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets [first, end)."""

    first: int
    end: int


@dataclass(slots=True)
class RecoveryReport:
    """The findings of a recovery, and what it did.

    `lost` are offsets that were in the files in valid batches, or must have been before a later segment was begun, and
    are no longer served; `kept_aside` the files that hold the bytes there are (paths within the log directory).
    `cut_bytes` counts all that was cut, torn tails too.
    """

    name: str
    log_start_offset: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    scanned_segments: int = 0
    scanned_bytes: int = 0
    cut_bytes: int = 0
    lost: list[OffsetRange] = field(default_factory=list)
    kept_aside: list[str] = field(default_factory=list)


def recover_log(
    disk: Disk,
    arguments: OpenArguments,
    *,
    flushed_offset: int = 0,
    gapless: bool = False,
    rewrite_from: int | None = None,
    scan: Scan = scan_segment,
) -> RecoveryReport:
    """Makes the files of a log good after an unclean stop, on a blocking disk; `open_log` opens it afterwards.

    What is below `flushed_offset` is known to have been on disk: bad bytes there are no torn tail, and are kept. In a
    log that is `gapless` no cleaner ever takes records away, so that it ends before the first offset that is missing.
    What is read at or above `rewrite_from` is written again before it is fsynced: after an fsync that failed, the page
    cache gives back what is not on disk, and no later fsync writes it. `scan` is what looks at the segments.

    Runs in a lane or a worker process; touches only files within the log's own directory, so it can be repeated
    whenever it was interrupted. Everything it leaves is fsynced. Raises OSError as the disk does.
    """
    recovery = Recovery(disk, arguments, flushed_offset, gapless=gapless, rewrite_from=rewrite_from, scan=scan)
    return recovery.run(arguments.recovery_point)


class Recovery:
    """One run of `recover_log`. `touched` are the paths to fsync at its end."""

    def __init__(
        self,
        disk: Disk,
        arguments: OpenArguments,
        flushed_offset: int,
        *,
        gapless: bool,
        rewrite_from: int | None,
        scan: Scan,
    ) -> None:
        self.disk = disk
        self.name = arguments.name
        self.config = arguments.config
        self.flushed_offset = flushed_offset
        self.gapless = gapless
        self.rewrite_from = rewrite_from
        self.scan = scan
        self.log_start_offset = arguments.log_start_offset
        self.wall_ms = arguments.wall_ms
        self.report = RecoveryReport(self.name)
        self.touched: list[str] = []
        self.rolls: frozenset[int] = frozenset()

    def run(self, recovery_point: int) -> RecoveryReport:
        report = self.report
        self.rolls = read_rolls(self.disk, self.name)
        self._remove_leftovers()
        bases = self._bases()
        if bases:
            self._recover_segments(bases, recovery_point)
        report.log_end_offset = self._end_offset()
        if report.log_end_offset < self.log_start_offset:
            self._start_over()
        report.log_start_offset = max(self.log_start_offset, min(self._bases(), default=0))
        report.recovery_point = report.log_end_offset
        for path in dict.fromkeys(self.touched):
            if self.disk.exists(path):
                self.disk.fsync(path)
        self.disk.unlink(self._path(UNFLUSHED_ROLLS))
        self.disk.fsync_directory(self.name)
        return report

    # Leftovers

    def _remove_leftovers(self) -> None:
        """Removes what unfinished deletions, cleanings and swaps have left, and indexes and snapshots without a
        segment.
        """
        names = list(listing(self.disk, self.name))
        unfinished = min((base_of(name) for name in names if name.endswith(CLEANED)), default=None)
        swapped = [name for name in names if name.endswith(SWAP)]
        undone = [name for name in swapped if unfinished is not None and base_of(name) >= unfinished]
        for name in undone:
            self.disk.unlink(self._path(name))
        if undone:  # without a `.cleaned` file beside them, the next recovery would take them for good
            self.disk.fsync_directory(self.name)
        for name in names:
            if is_deleted(name) or name.endswith((CLEANED, ".tmp")):
                self.disk.unlink(self._path(name))
        finished = [name for name in swapped if name not in undone]
        if finished:
            self._finish_swap(names, finished)
        names = list(listing(self.disk, self.name))
        for name in names:
            for suffix in INDEX_SUFFIXES:
                base = offset_of(name, suffix)
                if base is not None and file_name(base, LOG) not in names:
                    self.disk.unlink(self._path(name))

    def _finish_swap(self, names: Sequence[str], swapped: Sequence[str]) -> None:
        """New segments whose files are complete take the place of those they were made from.

        What comes after their last batch stays: a segment that the cleaner could not read, or one of which nothing was
        left, in front of others that are old as well (see `compaction.swap`).
        """
        for new in [name for name in swapped if name.endswith(LOG + SWAP)]:
            first = base_of(new)
            end = covered_end(self.disk, self._path(new), first)
            for name in names:
                if is_replaced(name, first, end):
                    self.disk.unlink(self._path(name))
        for name in sorted(swapped, key=lambda name: not name.endswith(LOG + SWAP)):  # indexes belong to what is there
            self.disk.rename(self._path(name), self._path(name.removesuffix(SWAP)))

    # Segments

    def _recover_segments(self, bases: list[int], recovery_point: int) -> None:
        """Scans the segments that may be damaged; the first one that has to be cut becomes the last one.

        So is one that ends before the next begins where no cleaner did that: its tail never reached the disk, though
        the next segment's file did.
        """
        files = listing(self.disk, self.name)
        epochs = self._leader_epochs(files)
        first = first_doubtful(bases, recovery_point)
        producers: ProducerState | None = None
        for number, base in enumerate(bases):
            if number < first and not lacks_index(self.name, base, files):
                continue
            if producers is None or producers.end_offset < base:
                producers = self._producers_at(base, bases[:number])
            following = bases[number + 1] if number + 1 < len(bases) else None
            cut = self._recover_segment(base, following, producers, epochs)
            self._write_snapshot(producers)
            if number < first:
                continue
            if following is not None and producers.end_offset < following and self._was_gapless(following):
                self.report.lost.append(OffsetRange(producers.end_offset, following))
                cut = True
            if cut:
                self._set_aside_segments(bases[number + 1 :])
                break
        end = self._end_offset()
        epochs.truncate_from_end(end)
        epochs.truncate_from_start(self.log_start_offset)
        if epochs.dirty:
            self.disk.replace(self._path(LEADER_EPOCHS), epochs.encode())
        for name in listing(self.disk, self.name):
            offset = offset_of(name, SNAPSHOT)
            if offset is not None and offset > end:
                self.disk.unlink(self._path(name))

    def _was_gapless(self, base: int) -> bool:
        """Whether it is known that no offset was missing before this segment. The cleaner removes the notes first."""
        return self.gapless or base in self.rolls

    def _recover_segment(
        self, base: int, following: int | None, producers: ProducerState, epochs: LeaderEpochs
    ) -> bool:
        """Rebuilds one segment's indexes from its batches; whether something had to be cut from it.

        `following` is the base offset of the next segment, if there is one.
        """
        segment = Segment(self.name, base, self.wall_ms)
        size_bytes = self.disk.size(segment.log_path)
        interval_bytes = self.config.index_interval_bytes
        wanted = SegmentToScan(
            self.name, base, size_bytes, following, interval_bytes, producers.end_offset, self.rewrite_from
        )
        found = self.scan(self.disk, wanted, partial(recover_producers, producers=producers, segment=segment))
        for epoch, offset in found.epochs:
            if epoch > epochs.latest:
                epochs.assign(epoch, offset)
        valid_bytes, next_offset = found.valid_bytes, found.next_offset
        producers.end_offset = max(producers.end_offset, next_offset)
        aborted = segment.aborted_index
        if aborted.entries or self.disk.exists(aborted.path):
            write_whole(self.disk, aborted.path, bytes(aborted.tail))
        write_indexes(self.disk, segment, found)
        if found.doubtful is not None:
            self._write_again(segment.log_path, found.doubtful, valid_bytes)
        self.report.scanned_segments += 1
        self.report.scanned_bytes += size_bytes
        self.touched += segment.paths
        if valid_bytes == size_bytes:
            return False
        self._cut(segment, following, valid_bytes, size_bytes, next_offset)
        return True

    def _write_again(self, path: str, start: int, end: int) -> None:
        """Has the bytes of a file count as new to the page cache."""
        for position in range(start, end, RECOVERY_CHUNK_BYTES):
            data = self.disk.read(path, position, min(RECOVERY_CHUNK_BYTES, end - position))
            self.disk.write(path, position, [data])

    # What is cut

    def _cut(
        self, segment: Segment, following: int | None, valid_bytes: int, size_bytes: int, next_offset: int
    ) -> None:
        """Cuts a segment after its valid bytes; intact batches behind them are copied aside first."""
        path = segment.log_path
        lost = self._lost(path, valid_bytes, size_bytes, next_offset)
        if lost is not None:
            if following is not None and next_offset < following < lost.end:
                lost = OffsetRange(next_offset, following)  # the last of them has a base offset that was raised
            aside = f"{path}{CORRUPT}"
            for position in range(valid_bytes, size_bytes, RECOVERY_CHUNK_BYTES):
                data = self.disk.read(path, position, min(RECOVERY_CHUNK_BYTES, size_bytes - position))
                self.disk.write(aside, position - valid_bytes, [data])
            self._kept(aside, lost)
        self.disk.truncate(path, valid_bytes)
        self.report.cut_bytes += size_bytes - valid_bytes

    def _set_aside_segments(self, bases: Sequence[int]) -> None:
        """Takes segments after a cut out of the log. Whole ones are kept under another name; empty ones go."""
        for base in bases:
            path = self._path(file_name(base, LOG))
            size_bytes = self.disk.size(path)
            lost = self._lost(path, 0, size_bytes, base)
            self.report.cut_bytes += size_bytes
            if lost is None:
                self.disk.unlink(path)
            else:
                self.disk.rename(path, path + CORRUPT)
                self._kept(path + CORRUPT, lost)
            for suffix in INDEX_SUFFIXES:
                self.disk.unlink(self._path(file_name(base, suffix)))

    def _lost(self, path: str, start: int, end: int, next_offset: int) -> OffsetRange | None:
        """The offsets lost with these bytes of a segment; None if no intact batch is among them."""
        found = lost_batches(self.disk, path, start, end, next_offset)
        if found is None and next_offset < self.flushed_offset and start < end:
            found = OffsetRange(next_offset, self.flushed_offset)
        return found

    def _kept(self, path: str, lost: OffsetRange) -> None:
        self.report.kept_aside.append(path)
        self.report.lost.append(lost)
        self.touched.append(path)

    # The state before a segment, and the end

    def _producers_at(self, offset: int, bases: Sequence[int]) -> ProducerState:
        """The producers as of an offset: from a snapshot and the batches between."""
        files = listing(self.disk, self.name)
        producers = ProducerState(self.log_start_offset)
        load_snapshot(self.disk, self.name, files, producers, offset)
        segments = [load_segment(self.name, files[file_name(base, LOG)], files, self.wall_ms) for base in bases]
        with readable(self.name):
            replay(self.disk, segments, producers, offset)
        return producers

    def _write_snapshot(self, producers: ProducerState) -> None:
        path = self._path(file_name(producers.end_offset, SNAPSHOT))
        content = producer_snapshot.encode(producers.producers)
        self.disk.write(path, 0, [content])
        self.disk.truncate(path, len(content))
        self.touched.append(path)

    def _leader_epochs(self, files: dict[str, FileInfo]) -> LeaderEpochs:
        path = self._path(LEADER_EPOCHS)
        file = files.get(LEADER_EPOCHS)
        return leader_epochs.decode_if_sound(None if file is None else self.disk.read(path, 0, file.size_bytes), path)

    def _end_offset(self) -> int:
        """The offset after the last batch, by the files as they are now."""
        files = listing(self.disk, self.name)
        bases = self._bases()
        if not bases:
            return self.log_start_offset
        return load_active(self.disk, load_segment(self.name, files[file_name(bases[-1], LOG)], files, self.wall_ms))

    def _start_over(self) -> None:
        """The log ends before the offset at which it should begin: all of it goes."""
        self._set_aside_segments(self._bases())
        for name in listing(self.disk, self.name):
            if offset_of(name, SNAPSHOT) is not None:
                self.disk.unlink(self._path(name))
        self.disk.replace(self._path(LEADER_EPOCHS), LeaderEpochs().encode())
        self.report.log_end_offset = self.log_start_offset

    def _bases(self) -> list[int]:
        return [base for name in listing(self.disk, self.name) if (base := offset_of(name, LOG)) is not None]

    def _path(self, file: str) -> str:
        return f"{self.name}/{file}"


def base_of(file: str) -> int:
    """The offset that a file's name begins with; -1 for other files."""
    digits = file.partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else NO_OFFSET


def is_replaced(file: str, first: int, end: int) -> bool:
    """Whether a file is one of the segments that begin at these offsets, in the place of which a new one comes.

    The producers' snapshot at its beginning stays good, and so do bytes that were set aside.
    """
    offsets = [offset_of(file, suffix) for suffix in (LOG, *INDEX_SUFFIXES)]
    snapshot = offset_of(file, SNAPSHOT)
    return any(offset is not None and first <= offset < end for offset in offsets) or (
        snapshot is not None and first < snapshot < end
    )


def covered_end(disk: Disk, path: str, base_offset: int) -> int:
    """Up to where a cleaned segment takes the place of others: after the offset at which its last batch begins.

    The cleaner keeps a batch that is damaged. It and what follows count if the batches go on to the very end of the
    file, with rising offsets.
    """
    size_bytes = disk.size(path)
    end, position = base_offset, 0
    for at, header, _ in scan(disk, path, size_bytes):
        end, position = header.next_offset, at + header.size_bytes
    last = end
    try:
        for at, header in batch_headers(disk, path, position, size_bytes):
            if header.base_offset < last:
                break
            last, position = header.base_offset + 1, at + header.size_bytes
    except (CorruptRecordError, InvalidRecordError):
        pass
    return max(last if position == size_bytes else end, base_offset + 1)


def first_doubtful(bases: Sequence[int], recovery_point: int) -> int:
    """The number of the first segment that is scanned whatever its indexes look like."""
    return max((number for number, base in enumerate(bases) if base <= recovery_point), default=0)


def lacks_index(name: str, base: int, files: Mapping[str, FileInfo]) -> bool:
    """Whether an index of an older segment is missing or cannot be whole."""
    try:
        load_segment(name, files[file_name(base, LOG)], files, 0)
    except RecoveryNeeded:
        return True
    return False


def write_indexes(disk: Disk, segment: Segment, found: SegmentScan) -> None:
    """Writes the indexes of a scanned segment, as far as the scan has made them."""
    for path, content in ((segment.offset_index.path, found.offset_index), (segment.time_index.path, found.time_index)):
        if content is not None:
            write_whole(disk, path, content)


def write_whole(disk: Disk, path: str, content: bytes) -> None:
    """Gives a file this content. A crash leaves any part of it."""
    disk.write(path, 0, [content] if content else [])
    disk.truncate(path, len(content))


def recover_producers(batches: Iterable[ProducerBatch], producers: ProducerState, segment: Segment) -> None:
    """Accounts for batches of a scanned segment: producers, and aborted transactions for its index."""
    for header, marker in batches:
        if header.last_offset < producers.end_offset:
            continue
        step = replay_batch(header, producers, marker)
        if step is not None and step.completed is not None and step.completed.aborted:
            producer_id, first, last, _, last_stable_offset = step.completed
            segment.aborted_index.append(producer_id, first, last, last_stable_offset)


def lost_batches(disk: Disk, path: str, start: int, end: int, next_offset: int) -> OffsetRange | None:
    """The offsets of the valid batches between two positions of a file, None if there are none.

    They are found by the leading bytes that their base offsets share with the offset expected. Messages of the formats
    0 and 1 are looked for only where the file begins with one: little tells them from other bytes but their checksum.
    """
    prefix = next_offset.to_bytes(8, "big")[:BASE_OFFSET_PREFIX_BYTES]
    old_bytes_left = LEGACY_SEARCHED_BYTES_MAX if begins_with_old_message(disk, path) else 0
    first = last = None
    position = start
    while position + OLD_HEADER_BYTES <= end:
        chunk = disk.read(path, position, min(RECOVERY_CHUNK_BYTES, end - position))
        at = chunk.find(prefix)
        if at < 0:
            position += max(len(chunk) - BASE_OFFSET_PREFIX_BYTES, 1)
            continue
        if not any(chunk[at : at + HEADER_BYTES]):
            at = skip_zeros(chunk, at)
            position += at
            continue
        found = possible_batch(disk, path, position + at, end, next_offset, old_max_bytes=old_bytes_left)
        if found is None or not is_valid(disk, path, position + at, found):
            old_bytes_left -= found.size_bytes if found is not None and found.is_old else 0
            position += at + 1
            continue
        if first is None or last is None or found.base_offset <= last:
            first = found.base_offset  # also where it goes back: what was found before has an offset that is wrong
        last = found.last_offset
        position += at + found.size_bytes
    return None if first is None or last is None else OffsetRange(first, last + 1)


def begins_with_old_message(disk: Disk, path: str) -> bool:
    return read_old_header(disk.read(path, 0, OLD_HEADER_BYTES)) is not None


def skip_zeros(chunk: bytes, at: int) -> int:
    """Where to go on in a chunk that has zeros from `at` on: so that a base offset's own zeros are not skipped."""
    after = len(chunk) - len(chunk[at:].lstrip(b"\0"))
    return max(at + 1, after - MAGIC_POSITION)


def possible_batch(
    disk: Disk, path: str, position: int, end: int, next_offset: int, *, old_max_bytes: int
) -> BatchHeader | None:
    """The header of what may be a whole batch from `next_offset` on, at `position`."""
    head = disk.read(path, position, HEADER_BYTES)
    if len(head) <= MAGIC_POSITION or (head[MAGIC_POSITION] != MAGIC and not old_max_bytes):
        return None
    try:
        header = read_entry(head)
    except (CorruptRecordError, InvalidRecordError):
        return None
    if header.base_offset < next_offset or position + header.size_bytes > end or header.last_offset_delta < 0:
        return None
    return None if header.is_old and header.size_bytes > old_max_bytes else header


def is_valid(disk: Disk, path: str, position: int, header: BatchHeader) -> bool:
    try:
        check_crc(disk.read(path, position, header.size_bytes), 0, header)
    except CorruptRecordError:
        return False
    return True
