"""The indexes of one segment against its batches, which they are shown one by one, in order.

Of every entry of an offset index: it points to where a batch begins, and says the last offset of that batch. Apache
Kafka before 4.0 let an entry of a follower stand for all batches of one append; it says the last offset of those. For a
compressed message of format 0 or 1, a broker of its time may have noted the first offset inside.
Of every entry of a time index: the batch that holds its offset has its timestamp, and none before has a later one. The
last entry of a closed segment has the latest timestamp of all, for retention goes by it.
Of every entry of an aborted-transactions index: a marker is there that aborted a transaction of its producer; and every
such transaction of which data are in the log has an entry.
"""

from __future__ import annotations

from itertools import pairwise
from struct import Struct

from penstock.log.index import ABORTED_VERSION, AbortedIndex, OffsetIndex, TimeIndex
from penstock.log.verification.findings import Findings
from penstock.records.batch import NO_TIMESTAMP, BatchHeader


def read_entries(file: str, data: bytes, entry: Struct, findings: Findings) -> list[tuple[int, ...]]:
    """The entries in an index file's content, without the zeros that Apache Kafka reserves for those to come."""
    over = len(data) % entry.size
    if over:
        findings.problem(file, f"its size is no multiple of {entry.size}: {over} bytes come after the last entry")
        data = data[: len(data) - over]
    used = len(data.rstrip(b"\0"))
    count = -(-used // entry.size)
    if not count and len(data) == entry.size:
        count = 1  # of the time 0
    return list(entry.iter_unpack(data[: count * entry.size]))


class OffsetIndexCheck:
    """See the module's head."""

    def __init__(self, file: str, base_offset: int, entries: list[tuple[int, ...]], findings: Findings) -> None:
        self.file = file
        self.findings = findings
        self.entries = [(base_offset + relative, position) for relative, position in entries]
        self.next = 0
        self.wide: int | None = None
        last = (base_offset - 1, -1)
        for number, entry in enumerate(self.entries):
            if entry[0] <= last[0] or entry[1] <= last[1]:
                self._problem(number, f"offset {entry[0]} at {entry[1]} comes after {last[0]} at {last[1]}")
            last = entry

    def batch(self, position: int, last_offset: int, first_inside: int | None = None) -> None:
        """The next batch of the segment; of a message of format 0 or 1 also the first offset inside."""
        while self.next < len(self.entries) and self.entries[self.next][1] < position:
            self._points_nowhere()
        if self.next < len(self.entries) and self.entries[self.next][1] == position:
            self._end_wide()
            offset = self.entries[self.next][0]
            if not position:
                self._problem(self.next, f"it says {offset} at 0: no broker makes an entry for where a segment begins")
            elif offset >= last_offset:
                self.wide = self.next
            elif first_inside is not None and offset >= first_inside:
                pass
            else:
                self._problem(self.next, f"it says {offset} and the batch there ends with {last_offset}")
            self.next += 1
        if self.wide is not None and self.entries[self.wide][0] == last_offset:
            if self.entries[self.wide][1] != position:
                self.findings.note(self.file, "it stands for several batches of one append", f"entry {self.wide}")
            self.wide = None

    def end(self, judged_to: int | None, size_bytes: int) -> None:
        """No more batches were seen in `size_bytes`. Nothing is known of what comes from the byte `judged_to` on."""
        if judged_to is None:
            self._end_wide()
            self._check_density(size_bytes)
        while self.next < len(self.entries) and (judged_to is None or self.entries[self.next][1] < judged_to):
            self._points_nowhere()

    def _check_density(self, size_bytes: int) -> None:
        """An index that ends early is right and slow: what comes after its last entry is read from there on."""
        positions = [0, *(position for _, position in self.entries)]
        usual = max((after - before for before, after in pairwise(positions)), default=0)
        left = size_bytes - positions[-1]
        if left >= max(SPARSE_FROM_BYTES, SPARSE_TIMES * usual):
            message = f"it has no entry for the last {left} bytes of the segment: look-ups there are slow"
            self.findings.note(self.file, f"{message}; `penstock log index` makes them")

    def _points_nowhere(self) -> None:
        self._problem(self.next, f"it points to byte {self.entries[self.next][1]}, where no batch begins")
        self.next += 1

    def _end_wide(self) -> None:
        if self.wide is not None:
            offset, position = self.entries[self.wide]
            self._problem(self.wide, f"it says {offset}, and no batch from byte {position} on ends with that")
            self.wide = None

    def _problem(self, number: int, message: str) -> None:
        self.findings.problem(self.file, message, f"entry {number}")


class TimeIndexCheck:
    """See the module's head."""

    def __init__(self, file: str, base_offset: int, entries: list[tuple[int, ...]], findings: Findings) -> None:
        self.file = file
        self.findings = findings
        self.entries = [(base_offset + relative, timestamp_ms) for timestamp_ms, relative in entries]
        self.next = 0
        self.largest_ms = NO_TIMESTAMP
        last = (base_offset, NO_TIMESTAMP)
        for number, entry in enumerate(self.entries):
            if entry[0] < last[0] or entry[1] <= last[1]:
                self._problem(number, f"{entry[1]} at offset {entry[0]} comes after {last[1]} at {last[0]}")
            last = entry

    def batch(self, header: BatchHeader) -> None:
        """The next batch of the segment."""
        while self.next < len(self.entries) and self.entries[self.next][0] <= header.last_offset:
            offset, timestamp_ms = self.entries[self.next]
            found_ms = header.max_timestamp_ms
            if offset < header.base_offset:
                self._problem(self.next, f"no batch holds its offset {offset}")
            elif timestamp_ms != found_ms:
                self._problem(self.next, f"it says {timestamp_ms} and the batch that holds its offset has {found_ms}")
            elif timestamp_ms < self.largest_ms:
                self._problem(self.next, f"it says {timestamp_ms} and an earlier batch has {self.largest_ms}")
            self.next += 1
        self.largest_ms = max(self.largest_ms, header.max_timestamp_ms)

    def end(self, *, is_closed: bool) -> None:
        """No more batches are in the segment; `is_closed`: another one follows. Not called where more may come."""
        for number in range(self.next, len(self.entries)):
            self._problem(number, f"no batch holds its offset {self.entries[number][0]}")
        last_ms = self.entries[-1][1] if self.entries else NO_TIMESTAMP
        if is_closed and last_ms != self.largest_ms:
            message = f"its last entry says {last_ms} and the latest timestamp of the segment is {self.largest_ms}"
            self.findings.problem(self.file, message)

    def _problem(self, number: int, message: str) -> None:
        self.findings.problem(self.file, message, f"entry {number}")


class AbortedIndexCheck:
    """See the module's head. `may_lack`: new entries may be in a broker's memory only."""

    def __init__(self, file: str, entries: list[tuple[int, ...]], findings: Findings, *, may_lack: bool) -> None:
        self.file = file
        self.findings = findings
        self.may_lack = may_lack
        self.expected: dict[tuple[int, int], tuple[int, int]] = {}
        """Of (producer id, offset of the marker): number of the entry, first offset."""
        last_marker = -1
        for number, (version, producer_id, first, marker, stable) in enumerate(entries):
            if version != ABORTED_VERSION:
                self._problem(number, f"its version is {version}, it should be {ABORTED_VERSION}")
            if not 0 <= first <= marker or producer_id < 0 or marker <= last_marker or not 0 <= stable <= marker + 1:
                self._problem(
                    number,
                    f"producer {producer_id}, offsets {first} to {marker}, last stable offset {stable} cannot be, "
                    f"after a marker at {last_marker}",
                )
            last_marker = max(last_marker, marker)
            self.expected[producer_id, marker] = (number, first)

    def aborted(self, producer_id: int, marker_offset: int, data_from: int | None) -> None:
        """A marker that aborts a transaction; `data_from`: the first of its data that is in the log."""
        number, first = self.expected.pop((producer_id, marker_offset), (-1, -1))
        if number < 0 and data_from is not None and not self.may_lack:
            message = f"the transaction of producer {producer_id} that the marker at {marker_offset} aborts is missing"
            self.findings.problem(self.file, message)
        elif number >= 0 and data_from is not None and first > data_from:
            self._problem(number, f"it says that the transaction began at {first}; data of it are at {data_from}")

    def end(self) -> None:
        """No more batches are in the segment. Not called where more may come."""
        for (producer_id, marker), (number, _) in self.expected.items():
            self._problem(number, f"no marker at offset {marker} aborts a transaction of producer {producer_id}")

    def _problem(self, number: int, message: str) -> None:
        self.findings.problem(self.file, message, f"entry {number}")


SPARSE_FROM_BYTES, SPARSE_TIMES = 1 << 20, 8
"""A stretch without an entry is told of if it is this long, and so many times as long as the longest between two."""
OFFSET_ENTRY, TIME_ENTRY, ABORTED_ENTRY = OffsetIndex.ENTRY, TimeIndex.ENTRY, AbortedIndex.ENTRY
