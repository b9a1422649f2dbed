"""What one partition was told, and what it may therefore serve after a crash.

The timeline is every batch in the order of its offsets. A log that comes back from a crash must hold a prefix of it, up
to at least what was durable, byte for byte: then nothing durable is lost, nothing is served that was not written, and
no offset changes its value. A producer whose last batch is in that prefix must be remembered by it.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.records.batch import headers
from simulator.world.checks import check


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """One batch as the log took it."""

    base_offset: int
    last_offset: int
    content: bytes
    producer_id: int
    base_sequence: int
    last_sequence: int


class Timeline:
    """The model of one partition.

    Attributes:
        batches: by base offset, also those below `start`.
        start: the largest log start offset that was seen.
        end: the offset after the last batch that the log took.
        durable_end: everything below was fsynced.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.batches: dict[int, WrittenBatch] = {}
        self.start = 0
        self.end = 0
        self.durable_end = 0

    def took(self, batch: WrittenBatch) -> None:
        """The log gave a batch its offsets."""
        check(batch.base_offset == self.end, "offsets are given in order", f"{self.name}: {batch.base_offset}")
        self.batches[batch.base_offset] = batch
        self.end = batch.last_offset + 1

    def flushed(self, offset: int) -> None:
        """The log says that everything below an offset is durable."""
        check(offset <= self.end, "durable is what was written", f"{self.name}: {offset} of {self.end}")
        self.durable_end = max(self.durable_end, offset)

    def check_served(self, offset: int, content: bytes, upper_offset: int) -> int:
        """Holds served bytes, from the batch with `offset` on, against what was written; returns the offset after."""
        for position, header in headers(memoryview(content)):
            written = self.batches.get(header.base_offset)
            rule = "nothing is served that was not written"
            check(written is not None, rule, f"{self.name} has a batch at {header.base_offset}")
            assert written is not None
            check(offset <= written.last_offset, rule, f"{self.name}: {header.base_offset} after {offset}")
            served = content[position : position + header.size_bytes]
            check(served == written.content, "an offset keeps its value", f"{self.name} at {header.base_offset}")
            offset = written.last_offset + 1
        check(offset <= upper_offset, "nothing above the end is served", f"{self.name}: {offset} > {upper_offset}")
        return offset

    def check_recovered(self, start: int, end: int) -> None:
        """Holds the bounds of a log that was opened again against what must be there."""
        lost = f"{self.name} ends at {end}, {self.durable_end} was durable"
        check(end >= self.durable_end, "what was fsynced survives", lost)
        check(end <= self.end, "nothing is served that was not written", f"{self.name} ends at {end}, not {self.end}")
        check(start <= max(self.start, end), "the log start does not run ahead", f"{self.name} starts at {start}")

    def cut(self, start: int, end: int) -> None:
        """What the log has now is what there is; recovery and clean stops leave everything durable."""
        self.batches = {base: batch for base, batch in self.batches.items() if batch.last_offset < end}
        self.start = start
        self.end = self.durable_end = end

    def undone(self, end: int) -> None:
        """The disk was full: the log ends here, and that is durable."""
        check(end >= self.durable_end, "what was fsynced survives", f"{self.name} ends at {end}")
        self.batches = {base: batch for base, batch in self.batches.items() if batch.last_offset < end}
        self.end = end

    def producers(self) -> dict[int, WrittenBatch]:
        """The last batch of each producer."""
        last: dict[int, WrittenBatch] = {}
        for base_offset in sorted(self.batches):
            batch = self.batches[base_offset]
            last[batch.producer_id] = batch
        return last
