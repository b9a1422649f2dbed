"""Proves from a lake table alone that no offset is missing and none is there twice.

The offsets are read from every row (`offsets`), and held against what the commits say: which ranges each pipeline has
loaded (its *claim*), and which offsets in them legally carry no record. An offset of a claim that has no row must lie
in a recorded gap. In a sealed range the gaps are not known one by one: there the offsets without a row must be as many
as were recorded and have their fingerprint. A row that lies outside of all claims, or in a gap that never has one, was
added by something else, and is told too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.spark.lake.folding import MASK, fingerprint
from penstock.spark.lake.offsets import Held, Runs, Watch, held_by
from penstock.spark.lake.ranges import GapRange, Range, clip, union, without
from penstock.spark.lake.records import ERASED, Progress, Sealed
from penstock.spark.lake.table import LakeTable
from penstock.spark.limits import LAKE_RANGES_SHOWN

WITHOUT_ROWS = ("control", "aborted", "compacted", "deleted", "corrupt", "quarantined", "loaded", ERASED)
"""Reasons for which a load has no row: one that is there was added by something else."""


@dataclass(slots=True)
class PartitionVerdict:
    """The verdict on one partition of a table. Ranges are [start, end)."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    rows: int
    missing: int = 0
    missing_ranges: list[Range] = field(default_factory=list)
    duplicates: int = 0
    duplicate_ranges: list[Range] = field(default_factory=list)
    outside: int = 0
    """Offsets with a row that no commit speaks of."""
    outside_ranges: list[Range] = field(default_factory=list)
    in_gaps: int = 0
    """Offsets with a row of which a commit says that they carry no record."""
    in_gap_ranges: list[Range] = field(default_factory=list)
    gaps: dict[str, int] = field(default_factory=dict)
    """Offsets that legally carry no record, by reason; "corrupt" are the broken ones that a load was told to skip."""
    gap_ranges: list[GapRange] = field(default_factory=list)
    """The newest of those gaps, with the reason."""
    unlike_sealed: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Sealed ranges whose offsets without a row are not those recorded: start, end, how many, how many recorded."""
    pipelines: dict[str, Range] = field(default_factory=dict)
    """Which range each pipeline has loaded."""
    diverged_ranges: list[Range] = field(default_factory=list)
    """Of which the table has records that the brokers lost after the load, and not those that they have there now."""
    not_loaded_ranges: list[Range] = field(default_factory=list)
    """Between the ranges of several pipelines: what a backfill has not come to yet."""

    @property
    def clean(self) -> bool:
        """Whether each offset that was loaded is there exactly once, or legally absent."""
        return not (self.missing or self.duplicates or self.outside or self.in_gaps or self.unlike_sealed)

    @property
    def legal_gaps(self) -> int:
        """Offsets that legally carry no record."""
        return sum(self.gaps.values())

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"legal_gaps": self.legal_gaps, "clean": self.clean}


def verify(lake: LakeTable, topic: str | None = None, watch: Watch | None = None) -> list[PartitionVerdict]:
    """A verdict on each partition of the table (of one topic if named), sorted by topic and partition.

    `watch` is told where the rows lie that it asks for.

    Raises PenstockError when what the table says of its own progress is damaged or contradicts itself.
    """
    expected = {known: progress for known, progress in lake.progress().items() if topic in (None, known.topic)}
    held = held_by(lake, topic, watch=watch)
    verdicts = []
    for partition in sorted(set(held) | set(expected)):
        found = held.get(partition, Held())
        progress = expected.get(partition)
        if progress is None:  # rows that no commit of a load brought
            progress = Progress(int(found.runs[0, 0]), int(found.runs[0, 0]), [])
        verdict = PartitionVerdict(
            partition.topic, str(partition.topic_id), partition.partition, progress.start, progress.end, found.rows
        )
        verdict.pipelines = {claim.pipeline: (claim.start, claim.end) for claim in progress.claims}
        verdict.diverged_ranges = union((lost.start, lost.end) for lost in progress.diverged)
        judge(verdict, found.runs, progress)
        verdicts.append(verdict)
    return verdicts


def judge(verdict: PartitionVerdict, runs: Runs, progress: Progress) -> None:
    """Fills in what is missing, double, or outside of what the commits say."""
    claimed = union((claim.start, claim.end) for claim in progress.claims) or union([(progress.start, progress.end)])
    verdict.not_loaded_ranges = [(before[1], after[0]) for before, after in pairwise(claimed)]
    covered = _covered(verdict, runs)
    _outside(verdict, covered, claimed)
    holes = without(claimed, covered)
    sealed = sorted(progress.sealed, key=lambda each: each.start)
    for each in sealed:
        _judge_sealed(verdict, each, clip(holes, [(each.start, each.end)]))
    open_holes = without(holes, union((each.start, each.end) for each in sealed))
    gaps = sorted((gap.start, gap.end, gap.reason) for gap in progress.gaps)
    verdict.gap_ranges = gaps[-LAKE_RANGES_SHOWN:]
    for start, end in clip(covered, union((start, end) for start, end, reason in gaps if reason in WITHOUT_ROWS)):
        verdict.in_gaps += end - start
        _keep(verdict.in_gap_ranges, (start, end))
    _judge_holes(verdict, open_holes, gaps)


def _covered(verdict: PartitionVerdict, runs: Runs) -> list[Range]:
    """The offsets that are there at all; notes those that are there again."""
    if not len(runs):
        return []
    runs = runs[np.lexsort((runs[:, 1], runs[:, 0]))]
    reached = np.maximum.accumulate(runs[:, 1])
    overlap = np.minimum(runs[1:, 1], reached[:-1]) - runs[1:, 0]
    again = np.flatnonzero(overlap > 0)
    verdict.duplicates = int(overlap[again].sum())
    shown = again[:LAKE_RANGES_SHOWN]
    starts = runs[1:, 0][shown]
    verdict.duplicate_ranges = list(zip(starts.tolist(), (starts + overlap[shown]).tolist(), strict=True))
    apart = np.flatnonzero(runs[1:, 0] > reached[:-1])
    first = runs[np.concatenate(([0], apart + 1)), 0]
    last = reached[np.concatenate((apart, [len(runs) - 1]))]
    return list(zip(first.tolist(), last.tolist(), strict=True))


def _outside(verdict: PartitionVerdict, covered: Sequence[Range], claimed: Sequence[Range]) -> None:
    for start, end in without(covered, claimed):
        verdict.outside += end - start
        _keep(verdict.outside_ranges, (start, end))


def _judge_sealed(verdict: PartitionVerdict, sealed: Sealed, holes: Sequence[Range]) -> None:
    count = sum(end - start for start, end in holes)
    recorded = sum(sealed.reasons.values())
    mark = sum(fingerprint(start, end) for start, end in holes) & MASK
    if (count, mark) == (recorded, sealed.fingerprint):
        for reason, offsets in sealed.reasons.items():
            verdict.gaps[reason] = verdict.gaps.get(reason, 0) + offsets
        return
    verdict.missing += max(0, count - recorded)
    if not recorded:
        for hole in holes:
            _keep(verdict.missing_ranges, hole)
    if len(verdict.unlike_sealed) < LAKE_RANGES_SHOWN:
        verdict.unlike_sealed.append((sealed.start, sealed.end, count, recorded))


def _judge_holes(verdict: PartitionVerdict, holes: Sequence[Range], gaps: Sequence[GapRange]) -> None:
    """Splits holes into legally absent and missing offsets. Both are sorted; gaps may overlap."""
    first = 0
    for start, end in holes:
        position = start
        while first < len(gaps) and gaps[first][1] <= start:
            first += 1
        for gap_start, gap_end, reason in _from(gaps, first, end):
            low, high = max(gap_start, position), min(gap_end, end)
            if low >= high:
                continue
            _missing(verdict, position, low)
            verdict.gaps[reason] = verdict.gaps.get(reason, 0) + high - low
            position = high
        _missing(verdict, position, end)


def _from(gaps: Sequence[GapRange], first: int, end: int) -> Iterable[GapRange]:
    while first < len(gaps) and gaps[first][0] < end:
        yield gaps[first]
        first += 1


def _missing(verdict: PartitionVerdict, start: int, end: int) -> None:
    if start < end:
        verdict.missing += end - start
        _keep(verdict.missing_ranges, (start, end))


def _keep(ranges: list[Range], new: Range) -> None:
    if len(ranges) < LAKE_RANGES_SHOWN:
        ranges.append(new)
