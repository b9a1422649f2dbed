"""One segment of a log: a run of batches in a file, with its indexes and what decides when it is rolled or deleted.

The last segment is the active one; appends reserve their place in it (`reserved_bytes`) when they are prepared, readers
go by what is written (`size_bytes`). Index entries are made when a place is reserved: none is found by a look-up before
its batch is readable, for look-ups are for offsets below the log end.
"""

from __future__ import annotations

from typing import Protocol

from penstock.log.disk import Disk
from penstock.log.index import RELATIVE_OFFSET_MAX, AbortedIndex, OffsetIndex, TimeIndex
from penstock.log.names import ABORTED_INDEX, LOG, OFFSET_INDEX, SNAPSHOT, TIME_INDEX, file_name
from penstock.log.walks import Walked, Wanted
from penstock.records.batch import NO_TIMESTAMP

IndexWrite = tuple[str, int, bytes]
"""Path, position, entries: a piece of an index that an operation writes."""


class RollLimits(Protocol):
    """The limits of a segment from a topic's configuration."""

    @property
    def max_segment_bytes(self) -> int: ...
    @property
    def max_segment_ms(self) -> int: ...
    @property
    def segment_index_bytes(self) -> int: ...


class Segment:
    """See the module's head.

    Attributes:
        name: of the log, which is its directory.
        base_offset: no record in it has a smaller offset; the file's name.
        size_bytes, reserved_bytes: what is written, and with the appends under way.
        largest_timestamp_ms, largest_timestamp_offset: of all batches so far; None until `largest` has read them.
        largest_written: the same of those that are written, so that readers may have them; None where all are.
        rolling_timestamp_ms: largest timestamp of the first batch; -1 while empty or without timestamps.
        created_ms: when it was begun (or opened); segments without timestamps roll by it.
        modified_ms: last change of the file, for retention of records without timestamps.
        roll_jitter_ms: taken off segment.ms.
        bytes_since_index: since the last index entry.
        indexes_grew: an index may have got an entry since somebody asked whether their tails are long.
        flushed: a closed segment whose files were fsynced.
        largest_is_right: this process has made what its time index says of the largest timestamp, or has checked it.
        log_path: of the file of its records.
        walks: what came of searches of its batches (`penstock.log.lookup`), for those who come back for it.
    """

    __slots__ = (
        "_indexes_fit",
        "aborted_index",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "flushed",
        "indexes_grew",
        "largest_is_right",
        "largest_timestamp_ms",
        "largest_timestamp_offset",
        "largest_written",
        "log_path",
        "modified_ms",
        "name",
        "offset_index",
        "reserved_bytes",
        "roll_jitter_ms",
        "rolling_timestamp_ms",
        "size_bytes",
        "time_index",
        "walks",
    )

    def __init__(self, name: str, base_offset: int, wall_ms: int, *, size_bytes: int = 0) -> None:
        self.name = name
        self.base_offset = base_offset
        self.log_path = self.path(LOG)
        self.size_bytes = size_bytes
        self.reserved_bytes = size_bytes
        self.largest_timestamp_ms: int | None = NO_TIMESTAMP
        self.largest_timestamp_offset = base_offset
        self.largest_is_right = True
        self.walks: dict[tuple[int, int, Wanted], Walked] | None = None
        self.largest_written: tuple[int, int] | None = None
        self.rolling_timestamp_ms = NO_TIMESTAMP
        self.created_ms = wall_ms
        self.modified_ms = wall_ms
        self.roll_jitter_ms = 0
        self.bytes_since_index = 0
        self.indexes_grew = True
        self._indexes_fit: int | None = None
        self.flushed = False
        self.offset_index = OffsetIndex(self.path(OFFSET_INDEX), base_offset)
        self.time_index = TimeIndex(self.path(TIME_INDEX), base_offset)
        self.aborted_index = AbortedIndex(self.path(ABORTED_INDEX), base_offset)

    def path(self, suffix: str) -> str:
        """Path of one of its files within the log directory."""
        return f"{self.name}/{file_name(self.base_offset, suffix)}"

    @property
    def paths(self) -> list[str]:
        """The files that the segment certainly has."""
        paths = [self.log_path, self.offset_index.path, self.time_index.path]
        return [*paths, self.aborted_index.path] if self.aborted_index.entries else paths

    @property
    def possible_paths(self) -> list[str]:
        """The files that it or its producer snapshot may have."""
        return [self.path(suffix) for suffix in (LOG, OFFSET_INDEX, TIME_INDEX, ABORTED_INDEX, SNAPSHOT)]

    def should_roll(
        self, limits: RollLimits, size_bytes: int, largest_timestamp_ms: int, last_offset: int, wall_ms: int
    ) -> bool:
        """Whether a batch with these properties belongs into a new segment (Kafka's LogSegment.shouldRoll)."""
        reserved = self.reserved_bytes
        if reserved + size_bytes > limits.max_segment_bytes or last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if reserved > 0:  # how long it has been open goes by its records' timestamps if they have any
            first_ms = self.rolling_timestamp_ms
            waited_ms = largest_timestamp_ms - first_ms if first_ms >= 0 else wall_ms - self.created_ms
            if waited_ms > limits.max_segment_ms - self.roll_jitter_ms:
                return True
        index_bytes = limits.segment_index_bytes
        return index_bytes != self._indexes_fit and self._indexes_full(index_bytes)

    def _indexes_full(self, index_bytes: int) -> bool:
        """Whether an index is full. If none is, that is known until one gets its next entry, or another limit."""
        if self.offset_index.is_full(index_bytes) or self.time_index.is_full(index_bytes):
            return True
        self._indexes_fit = index_bytes
        return False

    def reserve(self, size_bytes: int, last_offset: int, largest_timestamp_ms: int, index_interval_bytes: int) -> int:
        """A place for a batch; returns its position. Adds to the indexes when it is time."""
        position = self.reserved_bytes
        if position == 0:
            self.rolling_timestamp_ms = largest_timestamp_ms
        largest = self.largest_timestamp_ms
        assert largest is not None, "the active segment knows its largest timestamp"
        if self.largest_written is None:
            self.largest_written = largest, self.largest_timestamp_offset
        if largest_timestamp_ms > largest:
            self.largest_timestamp_ms = largest = largest_timestamp_ms
            self.largest_timestamp_offset = last_offset
        if self.bytes_since_index > index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.append(largest, self.largest_timestamp_offset)
            self.bytes_since_index = 0
            self.indexes_grew = True
            self._indexes_fit = None
        self.bytes_since_index += size_bytes
        self.reserved_bytes = position + size_bytes
        return position

    def seal(self) -> None:
        """Adds the last time entry, as when a segment is rolled or closed: retention goes by it."""
        if self.largest_timestamp_ms is not None and self.largest_timestamp_ms >= 0:
            self.time_index.append(self.largest_timestamp_ms, self.largest_timestamp_offset)
            self.indexes_grew = True

    @property
    def index_tails_are_long(self) -> bool:
        """Whether enough index entries are only in memory that the next append should write them."""
        return self.offset_index.tail_is_long or self.time_index.tail_is_long or self.aborted_index.tail_is_long

    def take_index_tails(self) -> list[IndexWrite]:
        """All index entries that no write has taken yet."""
        tails = (self.offset_index.take_tail(), self.time_index.take_tail(), self.aborted_index.take_tail())
        return [tail for tail in tails if tail is not None]

    def drop_written_index(self, written: IndexWrite) -> None:
        """Notes that one of the pieces is in its file."""
        path, position, entries = written
        for index in (self.offset_index, self.time_index, self.aborted_index):
            if index.path == path:
                index.drop_written(position + len(entries))

    def largest(self, disk: Disk) -> tuple[int, int]:
        """(largest timestamp, last offset of its batch), (-1, base offset) if none. May raise NotResident."""
        if self.largest_timestamp_ms is None:
            self.largest_timestamp_ms, self.largest_timestamp_offset = self.time_index.last_entry(disk)
        return self.largest_timestamp_ms, self.largest_timestamp_offset

    def largest_readable(self, disk: Disk) -> tuple[int, int]:
        """Like `largest`, for written batches only. May raise NotResident."""
        return self.largest_written or self.largest(disk)

    def retention_time_ms(self, disk: Disk) -> int:
        """The time that retention.ms counts from. May raise NotResident."""
        largest_timestamp_ms, _ = self.largest(disk)
        return largest_timestamp_ms if largest_timestamp_ms >= 0 else self.modified_ms
