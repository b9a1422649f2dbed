"""One pass over an old log for `penstock import`: its records, their checksum, and the map of offsets.

A pass always goes over the whole log, also when it goes on after an interruption, so what it finds, its checksum and
its map are of the whole log.

The map has a line for each run of records whose offsets follow each other in both logs: topic, partition, old offset,
new offset, records. Who had committed an old offset goes on at the new one of the last line that is not above it, plus
the difference, which counts for no more than `records`. In Kafka 0.7 each message has its line, and each damaged place
has one with 0 records; so has the end of a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from struct import Struct

from penstock.log.disk import Disk
from penstock.log.legacy import LegacyLog, LegacyRecords, LegacyReport
from penstock.records.legacy.formats import LegacyRecord

CHECKSUM_BYTES = 16
FIELDS = Struct(">qii")
"""Timestamp, length of the key, length of the value; -1 for null."""


class Checksum:
    """BLAKE2b of 16 bytes over records, in order: for each a time and two lengths in 16 bytes, the key, the value."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=CHECKSUM_BYTES)
        self.data_bytes = 0

    def add(self, timestamp_ms: int, key: bytes | None, value: bytes | None) -> None:
        key_bytes = -1 if key is None else len(key)
        value_bytes = -1 if value is None else len(value)
        self._digest.update(FIELDS.pack(timestamp_ms, key_bytes, value_bytes) + (key or b"") + (value or b""))
        self.data_bytes += max(key_bytes, 0) + max(value_bytes, 0)

    def text(self) -> str:
        return self._digest.hexdigest()


class OffsetMap:
    """The lines of the map of one log.

    Args:
        prefix: topic and partition, as the lines begin.
        write: takes a line.
        by_position: offsets are positions of messages, each of which may be of several records (Kafka 0.7).
    """

    def __init__(self, prefix: str, write: Callable[[str], object], *, by_position: bool = False) -> None:
        self._prefix = prefix
        self._by_position = by_position
        self._write = write
        self._old, self._new, self._records = 0, 0, 0
        self._last_line = ""

    def add(self, old: int, new: int) -> None:
        """A record."""
        if self._records and old == self._old + (0 if self._by_position else self._records):
            self._records += 1
            return
        self._flush()
        self._old, self._new, self._records = old, new, 1

    def mark(self, old: int, new: int) -> None:
        """A place without records, or the end: who had committed it goes on at `new`."""
        self._flush()
        self._records = 0
        self._line(old, new, 0)

    def _flush(self) -> None:
        if self._records:
            self._line(self._old, self._new, self._records)

    def _line(self, old: int, new: int, count: int) -> None:
        line = f"{self._prefix},{old},{new},{count}\n"
        if line != self._last_line:
            self._write(line)
        self._last_line = line


class Pass:
    """See the module's head. An iterator over the records; the attributes grow with it.

    Attributes: `report`, `checksum`, and whether the pass `ended`.
    """

    def __init__(self, disk: Disk, log: LegacyLog, offsets: OffsetMap | None) -> None:
        self._records = LegacyRecords(disk, log)
        self._offsets = offsets
        self.report: LegacyReport = self._records.report
        self.checksum = Checksum()
        self.ended = False

    def __iter__(self) -> Iterator[LegacyRecord]:
        add = self.checksum.add
        offsets = self._offsets
        for number, record in enumerate(self._records):
            add(record.timestamp_ms, record.key, record.value)
            if offsets is not None:
                self._mark_gaps(offsets, number)
                offsets.add(record.offset, number)
            yield record
        if offsets is not None:
            self._mark_gaps(offsets, self.report.records)
            offsets.mark(self.report.end_offset, self.report.records)
        self.ended = True

    def _mark_gaps(self, offsets: OffsetMap, number: int) -> None:
        for gap in self._records.take_gaps():
            offsets.mark(gap, number)
