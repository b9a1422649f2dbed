"""Whether the records of a sound batch are what its header says: unpacked, counted, in order, every length checked.

So are those of a message of format 0 or 1, of which the header says less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.errors import CorruptRecordError, InvalidRecordError, ProtocolError
from penstock.log.compaction.records import max_timestamp_ms, walk
from penstock.records.batch import NO_TIMESTAMP, BatchHeader, Buffer
from penstock.records.compression import Contexts
from penstock.records.control import EndTransactionMarker, control_records
from penstock.records.reader import bounded, counted, old_records, record_bytes

WalkRecords = Callable[[Buffer, BatchHeader], int]
"""Walks the records of a batch, all of them checked; returns the largest timestamp delta, of at least one record.
Raises InvalidRecordError."""


class CheckedRecords(NamedTuple):
    """What came of a batch: a problem, or "", a note, or "", and the end of a transaction if it is one."""

    problem: str
    note: str = ""
    marker: EndTransactionMarker | None = None


GOOD = CheckedRecords("")


class CheckedMessage(NamedTuple):
    """What came of a message of format 0 or 1: its header, completed by its records if they can be read (`counted`), a
    problem, or "", and a note, or "".
    """

    header: BatchHeader
    problem: str = ""
    note: str = ""


class RecordCheck:
    """Checks batch after batch, with contexts and `walk_records` of its own."""

    def __init__(self, walk_records: WalkRecords) -> None:
        self._walk = walk_records
        self._decompress = bounded(Contexts())

    def check(self, data: memoryview, header: BatchHeader) -> CheckedRecords:
        """Checks a batch whose checksum is right. Raises nothing for bytes of any kind."""
        try:
            if header.record_count == 0:
                return GOOD
            unpacked = record_bytes(data, 0, header, self._decompress)
            largest = self._walk(unpacked, header)
            marker = self._marker(data, header) if header.is_control else None
        except (CorruptRecordError, InvalidRecordError, ProtocolError) as error:
            return CheckedRecords(f"its checksum is right, and yet: {error}")
        except MemoryError:
            return CheckedRecords("it unpacks to more than there is memory")
        found_ms = max_timestamp_ms(header, largest)
        if header.max_timestamp_ms not in {found_ms, NO_TIMESTAMP}:
            wrong = f"its header says that its largest timestamp is {header.max_timestamp_ms}; it is {found_ms}"
            return CheckedRecords("", f"{wrong}. Its producer sent that; a look-up by time may miss it", marker)
        return GOOD if marker is None else CheckedRecords("", "", marker)

    def check_message(self, data: memoryview, header: BatchHeader) -> CheckedMessage:
        """Checks a message of format 0 or 1 whose checksum is right. Raises nothing for bytes of any kind."""
        try:
            complete = counted(data, header, 0, self._decompress)
            found_ms = max(record.timestamp_ms for record in old_records(data, header, 0, self._decompress))
        except (CorruptRecordError, InvalidRecordError) as error:
            return CheckedMessage(header, f"its checksum is right, and yet: {error}")
        except MemoryError:
            return CheckedMessage(header, "it unpacks to more than there is memory")
        if header.max_timestamp_ms != found_ms:
            says = f"it says that its largest timestamp is {header.max_timestamp_ms}; it is {found_ms}"
            return CheckedMessage(complete, "", f"{says}. A look-up by time may miss it")
        return CheckedMessage(complete)

    def _marker(self, data: memoryview, header: BatchHeader) -> EndTransactionMarker | None:
        for record in control_records(data, header, 0, self._decompress):
            if isinstance(record.message, EndTransactionMarker):
                return record.message
        return None


def plain_walk(data: Buffer, header: BatchHeader) -> int:
    """In Python. Raises InvalidRecordError."""
    return max(record.timestamp_delta for record in walk(bytes(data), header))
