"""Searches through the records of a batch: what is looked for, and the result."""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import PenstockError
from penstock.records.reader import Record


class FoundOffset(NamedTuple):
    """A record found by its time. `leader_epoch` is -1 when unknown; `timestamp_ms` is the record's."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class Wanted(NamedTuple):
    """A record that is looked for: the first from an offset on, of this time or, if not `exactly`, later."""

    timestamp_ms: int
    exactly: bool
    from_offset: int

    def is_met_by(self, record: Record) -> bool:
        """Whether it is such a record."""
        if record.offset < self.from_offset:
            return False
        return record.timestamp_ms == self.timestamp_ms or (
            not self.exactly and record.timestamp_ms > self.timestamp_ms
        )


Walked = FoundOffset | None | PenstockError
"""What came of walking the records of a batch."""
