"""What one job takes on: pure functions of what the tables say, what the brokers have, and what was asked for.

A *live* load owns a partition of a topic in its table from its first offset on, for ever. A *reload* fills stretches
that no pipeline has claimed: before the live load's first offset, and between what earlier reloads loaded. So claims of
a partition never overlap, and nothing can be there twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.errors import PenstockError
from penstock.spark.lake.folding import Folded
from penstock.spark.lake.records import DIVERGED, Claim, Gap, TopicPartition
from penstock.spark.load.options import RELOAD
from penstock.spark.read.plan import DataLossError, OffsetRange


class ClaimError(PenstockError):
    """Another pipeline loads the same partition of a topic into the same table."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets [first, last) that the brokers have of a partition."""

    first: int
    last: int


@dataclass(slots=True)
class Plan:
    """One bounded job: where each partition begins in the table, and ends after the commit; what to read between."""

    starts: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    ranges: list[OffsetRange] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    lag: int = 0
    """Offsets that the brokers have beyond the plan's end."""
    exclusive: bool = False
    """Whether the plan stands on the claims of other pipelines, which must be the same when it is committed."""

    @property
    def size(self) -> int:
        return sum(each.size for each in self.ranges)

    def diverges(self, partition: TopicPartition) -> bool:
        """Whether it was noted that the table has what the brokers lost."""
        return any(gap.partition == partition and gap.reason == DIVERGED for gap in self.gaps)

    def note_divergence(self, partition: TopicPartition, at: int, end: int) -> None:
        """Has the commit record that the brokers lost the offsets [at, end) of the table, also if nothing is new."""
        self.gaps.append(Gap(partition, at, end, DIVERGED))
        self.starts.setdefault(partition, end)
        self.ends.setdefault(partition, end)


@dataclass(frozen=True, slots=True)
class Span:
    """The waiting offsets of a partition: the table ends (or begins) at `start`, the brokers have [first, last)."""

    start: int
    first: int
    last: int


def live_span(
    partition: TopicPartition, extent: Extent, start: int, *, known: bool, fail_on_data_loss: bool
) -> Span | None:
    """The work of a live load in a partition that continues (`known`) or begins at `start`; None: nothing.

    Raises DataLossError when offsets are gone that the table has not had.
    """
    if start > extent.last or (start < extent.first and fail_on_data_loss):
        says = "the table ends" if known else "the load begins"
        raise DataLossError(
            f"{partition.topic}-{partition.partition}: {says} at {start}, the brokers have {extent.first} to "
            f"{extent.last}; with --allow-data-loss the load goes on and the table records the gap"
        )
    return None if start == extent.last else Span(start, max(start, extent.first), extent.last)


def diverged_from(folded: Folded, extent: Extent, cut: int | None) -> int | None:
    """From which offset on the table has records that the brokers lost, as far as it does not say so yet; None: none.

    Args:
        folded: what the table has.
        extent: what the brokers have.
        cut: what `cut_at` says, if the table knows an epoch.
    """
    if cut is None and folded.last_epoch is None and extent.last < folded.end:
        cut = extent.last  # nobody knows of which epoch the table's last record was, but it is gone
    if cut is None or any(start <= cut and folded.end <= end for start, end in folded.diverged):
        return None
    return max(cut, folded.start)


def divergence(partition: TopicPartition, at: int, end: int) -> DataLossError:
    """The error message for a divergence that stops the load."""
    return DataLossError(
        f"{partition.topic}-{partition.partition}: the brokers lost what they had from {at} on (an unclean election), "
        f"and the table has it up to {end}; with --allow-data-loss the table keeps that and records it, and the load "
        f"goes on at {end}"
    )


def live_start(partition: TopicPartition, begin: int, claims: Sequence[Claim]) -> int:
    """Where a live load begins a new partition: after everything that reloads have loaded.

    Raises ClaimError when another live load has it.
    """
    for claim in claims:
        if RELOAD not in claim.pipeline:
            raise ClaimError(
                f"{partition.topic}-{partition.partition} is loaded into this table by pipeline {claim.pipeline!r} "
                f"already: go on with --pipeline {claim.pipeline}, or fill in what is missing with --from and --until"
            )
    return max([begin, *(claim.end for claim in claims)])


def share_out(spans: Mapping[TopicPartition, Span], limit: int) -> Plan:
    """Gives each partition its part of a job of `limit` offsets: all that waits, or the same fraction of it."""
    plan = Plan()
    total = sum(span.last - span.first for span in spans.values())
    fraction = min(1.0, limit / total) if total else 1.0
    for partition, span in spans.items():
        end = span.last if fraction == 1.0 else span.first + max(1, int((span.last - span.first) * fraction))
        plan.starts[partition] = span.start
        plan.ends[partition] = end = min(end, span.last)
        plan.lag += span.last - end
        if span.start < span.first:
            plan.gaps.append(Gap(partition, span.start, span.first, "deleted"))
        if span.first < end:
            plan.ranges.append(OffsetRange(partition.topic, partition.topic_id, partition.partition, span.first, end))
    return plan


def holes(wanted: tuple[int, int], claims: Sequence[Claim]) -> list[tuple[int, int]]:
    """The parts of [start, end) that a reload may load: claimed by no pipeline, and before what is a live load's."""
    position, end = wanted
    live = [claim.start for claim in claims if RELOAD not in claim.pipeline]
    end = min([end, *live])
    found = []
    for claim in sorted(claims, key=lambda claim: (claim.start, claim.end)):
        if position < min(claim.start, end):
            found.append((position, min(claim.start, end)))
        position = max(position, claim.end)
    if position < end:
        found.append((position, end))
    return found


def reload_name(pipeline: str, hole_start: int, claims: Sequence[Claim]) -> str:
    """The pipeline that fills a hole: the one whose claim ends there, else one that has no claim on the partition.

    So a reload that was interrupted goes on where it ended, and each claim stays one stretch.
    """
    prefix = pipeline + RELOAD
    for claim in claims:
        if claim.pipeline.startswith(prefix) and claim.end == hole_start:
            return claim.pipeline
    taken = {claim.pipeline for claim in claims}
    number = 1
    while f"{prefix}{number}" in taken:
        number += 1
    return f"{prefix}{number}"
