"""How much of what waits a microbatch takes on: at most so many offsets or bytes, and when it is too little. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from penstock.client.client import Partition

Waiting = Mapping[Partition, tuple[int, int]]
"""Offsets [begin, end) that wait in each partition; none is empty."""


def share_out(
    waiting: Waiting,
    *,
    max_offsets: int | None = None,
    max_bytes: int | None = None,
    bytes_an_offset: Mapping[Partition, float] | None = None,
) -> dict[Partition, int]:
    """Where the microbatch ends in each partition: the same fraction of all that waits, at least one offset of each.

    Args:
        waiting: what there is to share out.
        max_offsets: offsets in all, None for no such limit.
        max_bytes: bytes in all, likewise.
        bytes_an_offset: the size of an offset in each partition; needed with `max_bytes`.
    """
    fraction = Fraction(1)
    if max_offsets is not None and (total := sum(end - begin for begin, end in waiting.values())):
        fraction = min(fraction, Fraction(max_offsets, total))
    if max_bytes is not None and waiting:
        assert bytes_an_offset is not None
        total_bytes = sum((end - begin) * bytes_an_offset[p] for p, (begin, end) in waiting.items())
        fraction = min(fraction, Fraction(max_bytes) / Fraction(max(1.0, total_bytes)))
    return {p: begin + max(1, int((end - begin) * fraction)) for p, (begin, end) in waiting.items()}


@dataclass(slots=True)
class MinOffsets:
    """Holds microbatches back until enough waits (`minOffsetsPerTrigger`), for a limited time (`maxTriggerDelay`).

    The time counts from the last microbatch that was let go; the first after a start is not held back.
    """

    min_offsets: int
    max_delay_ms: int
    last_ms: int | None = None

    def holds_back(self, waiting: Waiting, now_ms: int) -> bool:
        """Whether a microbatch of what waits should not run yet."""
        total = sum(end - begin for begin, end in waiting.values())
        overdue = self.last_ms is None or now_ms - self.last_ms >= self.max_delay_ms
        if total < self.min_offsets and not overdue:
            return True
        if total:
            self.last_ms = now_ms
        return False
