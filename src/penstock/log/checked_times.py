"""The largest timestamp of a segment, held against its batches before retention or the cleaner goes by it.

`retention.ms` counts from the last entry of a segment's time index. After a clean stop nobody has read that index, and
nothing tells one of another segment, or one with a flipped bit, from a right one: by it, retention would delete records
too early, or keep a segment and all that come after it. So before a segment goes by its age, and also if its records
are said to be later than the last change of its file, the entry is checked, once, in the lane: the batch that it leads
to must have that timestamp, and none of those after the last entry of the offset index a later one. Otherwise the
headers of all batches are read, and retention goes by what they say. So does the cleaner, for `min.compaction.lag.ms`.
Apache Kafka believes the index.

What this does not see is a timestamp in the middle of a segment that is later than all at its end, if the index was cut
so that it does not have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.errors import CorruptRecordError, InvalidRecordError, NotResident, StorageError
from penstock.log.disk import Disk
from penstock.log.index import RELATIVE_OFFSET_MAX
from penstock.log.lookup import batch_headers, header_with, headers_from
from penstock.log.retention import Retention
from penstock.log.segment import Segment
from penstock.records.batch import NO_TIMESTAMP


class CheckedTime(NamedTuple):
    """The largest timestamp of a segment and the last offset of its batch; (-1, base offset) if it has none.

    `wrong`: what is wrong with the index, "" if nothing is.
    """

    timestamp_ms: int
    offset: int
    wrong: str


def must_be_checked(segment: Segment, time_ms: int, rule: Retention, wall_ms: int) -> bool:
    """Whether something hangs on the time that the index of a segment says, and nobody has checked it yet."""
    return not segment.largest_is_right and (rule.is_over(time_ms, wall_ms) or time_ms > segment.modified_ms)


def checked_time(disk: Disk, segment: Segment) -> CheckedTime:
    """Checks the largest timestamp of a segment that was loaded from its files, on a disk that blocks.

    Where the batches cannot be read to the end, the last change of the file may count instead.
    """
    try:
        return by_index_or_batches(disk, segment)
    except FileNotFoundError:  # it was removed meanwhile
        return CheckedTime(segment.modified_ms, segment.base_offset, "")


def by_index_or_batches(disk: Disk, segment: Segment) -> CheckedTime:
    """The same. Raises FileNotFoundError if there are no batches."""
    try:
        timestamp_ms, offset = segment.time_index.last_entry(disk)
        wrong = what_is_wrong(disk, segment, timestamp_ms, offset)
    except (StorageError, FileNotFoundError) as error:
        timestamp_ms, offset, wrong = NO_TIMESTAMP, segment.base_offset, str(error)
    if not wrong:
        return CheckedTime(timestamp_ms, offset, "")
    timestamp_ms, offset = NO_TIMESTAMP, segment.base_offset
    try:
        for _, header in batch_headers(disk, segment.log_path, 0, segment.size_bytes):
            if header.max_timestamp_ms > timestamp_ms:
                timestamp_ms, offset = header.max_timestamp_ms, header.last_offset
    except (CorruptRecordError, InvalidRecordError):
        timestamp_ms = max(timestamp_ms, segment.modified_ms)
    return CheckedTime(timestamp_ms, offset, wrong)


def what_is_wrong(disk: Disk, segment: Segment, timestamp_ms: int, offset: int) -> str:
    """What the batches that an index leads to say against its last entry; "" for nothing. Raises StorageError."""
    if timestamp_ms >= 0:
        holding = header_with(disk, segment, offset)
        if holding is None or holding.max_timestamp_ms != timestamp_ms:
            said = f"{segment.time_index.path} says that the latest time is {timestamp_ms}, at offset {offset}"
            return f"{said}, and no batch there has it"
    for _, header in headers_from(disk, segment, segment.base_offset + RELATIVE_OFFSET_MAX):
        if header.max_timestamp_ms > timestamp_ms:
            said = f"{segment.time_index.path} says that the latest time is {timestamp_ms}"
            return f"{said}, and the batch at offset {header.base_offset} has {header.max_timestamp_ms}"
    return ""


class TimesNotChecked(NotResident):
    """Segments whose largest timestamps the lane is to check, before retention goes by them."""

    def __init__(self, directory: int, segments: Iterable[Segment]) -> None:
        self.segments = [segment for segment in segments if not segment.largest_is_right]
        first = self.segments[0]
        super().__init__(directory, first.log_path, 0, first.size_bytes)

    def read(self, disk: Disk) -> list[CheckedTime]:
        return [checked_time(disk, segment) for segment in self.segments]

    def was_read(self, result: Sequence[CheckedTime]) -> None:
        """Has the segments know what was found. `retention.ms` goes by that from now on."""
        for segment, (timestamp_ms, offset, _) in zip(self.segments, result, strict=True):
            segment.largest_timestamp_ms, segment.largest_timestamp_offset = timestamp_ms, offset
            segment.largest_is_right = True

    def wrong(self, result: Sequence[CheckedTime], still: Sequence[Segment]) -> list[str]:
        """What is wrong with the indexes of the segments that the log `still` has. A truncation may have cut others
        meanwhile, and the log of that name may be another one.
        """
        found = zip(self.segments, result, strict=True)
        return [time.wrong for segment, time in found if time.wrong and segment in still]
