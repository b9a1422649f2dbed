"""What a pipeline has loaded, folded into a bounded summary that each commit carries on.

A table that is fed every second for years has a hundred million commits, and a transactional producer leaves a marker
without a record in each of them. The summary of one pipeline holds, a partition: where it began, where it ends, the
newest gaps one by one, and older ones folded into *sealed* ranges. A sealed range keeps how many offsets carry no
record, by reason, and a 64-bit fingerprint of exactly which: enough to prove that the offsets absent from the table are
those that are legally absent, though not to say which one is missing if they are not. Sealed ranges of one partition
are merged pairwise when they become many, so the size has a bound (spark/limits.py: LAKE_GAPS_PER_PIPELINE,
LAKE_SEALED_PER_PIPELINE).

Beside its end a partition has the leader epoch of the last batch before it, so that the next plan can ask the brokers
whether their log still has it there; and the ranges of which that was once not so (reason "diverged").

Rows that are erased later become gaps, too: in a sealed range their fingerprints are added to its own.

The fingerprint of offsets [start, end) is F(end) - F(start) modulo 2^64, F being a mixing function. So it adds up over
ranges that touch, however they are cut, and two different sets of offsets have the same one by chance only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np

from penstock.errors import PenstockError
from penstock.records.run import SeenEpoch
from penstock.spark.lake.ranges import GapRange, Range, clip, union, without
from penstock.spark.lake.records import DIVERGED, ERASED, Claim, Gap, Progress, Sealed, TopicPartition
from penstock.spark.limits import LAKE_DIVERGED_PER_PARTITION, LAKE_GAPS_PER_PIPELINE, LAKE_SEALED_PER_PIPELINE

MASK = (1 << 64) - 1
INCREMENT, FACTORS = 0x9E3779B97F4A7C15, (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""Of splitmix64."""
Runs = np.ndarray[Any, np.dtype[np.int64]]
LAYOUT = 2
"""Layout of the JSON; a higher one is refused. 1 has no leader epochs and nothing diverged."""
NO_EPOCHS: Mapping[TopicPartition, SeenEpoch] = MappingProxyType({})


def fingerprint(start: int, end: int) -> int:
    """Of the offsets [start, end); add them up modulo 2^64 for several ranges."""
    return (_mix(end) - _mix(start)) & MASK


def _mix(value: int) -> int:
    """splitmix64's finalizer (Steele, Lea, Flood 2014): every bit of the input reaches every bit of the output."""
    value = (value + INCREMENT) & MASK
    value = ((value ^ (value >> 30)) * FACTORS[0]) & MASK
    value = ((value ^ (value >> 27)) * FACTORS[1]) & MASK
    return value ^ (value >> 31)


def fingerprint_of_runs(runs: Runs) -> int:
    """The sum of the fingerprints of many ranges, an array of the shape (n, 2)."""
    with np.errstate(over="ignore"):
        total = np.sum(_mix_all(runs[:, 1]) - _mix_all(runs[:, 0]), dtype=np.uint64)
    return int(total) & MASK


def _mix_all(values: Runs) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """`_mix` of each value."""
    mixed = values.astype(np.uint64) + np.uint64(INCREMENT)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(FACTORS[0])
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(FACTORS[1])
    return mixed ^ (mixed >> np.uint64(31))


@dataclass(slots=True)
class Folded:
    """One partition: loaded from `start` to `end`; `sealed` ranges first, then `gaps`, both sorted, none overlaps."""

    start: int
    end: int
    gaps: list[GapRange] = field(default_factory=list)
    sealed: list[Sealed] = field(default_factory=list)
    last_epoch: SeenEpoch | None = None
    """The newest leader epoch seen; None if none was, or none since the brokers' log was cut."""
    diverged: list[Range] = field(default_factory=list)
    """Offsets before `end` that the brokers lost after they were loaded."""

    def advance(self, end: int, gaps: Iterable[GapRange]) -> None:
        """Moves the end on, with the gaps seen on the way, and notes what diverged before it."""
        assert end >= self.end, (self.end, end)
        told = sorted(gaps)
        lost = [(start, min(stop, self.end)) for start, stop, reason in told if reason == DIVERGED]
        if lost:
            self.diverged = union([*self.diverged, *lost])
            self.last_epoch = None
        while len(self.diverged) > LAKE_DIVERGED_PER_PARTITION:  # rather too much than too little
            self.diverged[:2] = [(self.diverged[0][0], self.diverged[1][1])]
        for gap in (each for each in told if each[2] != DIVERGED):
            start, stop = max(gap[0], self.end), min(gap[1], end)
            if self.gaps and self.gaps[-1][1] > start:
                start = self.gaps[-1][1]  # gaps that overlap are counted once
            if start >= stop:
                continue
            if self.gaps and self.gaps[-1][1] == start and self.gaps[-1][2] == gap[2]:
                start = self.gaps.pop()[0]
            self.gaps.append((start, stop, gap[2]))
        self.end = end

    def erase(self, ranges: Sequence[Range]) -> None:
        """Notes that offsets of sorted disjoint ranges have no row any more; of those that it has loaded."""
        sealed_end = self.sealed[-1].end if self.sealed else self.start
        self.sealed = [_without_rows(each, clip(ranges, [(each.start, each.end)])) for each in self.sealed]
        known = union((start, end) for start, end, _ in self.gaps)
        fresh = without(clip(ranges, [(sealed_end, self.end)]), known)
        gaps: list[GapRange] = []
        for gap in sorted([*self.gaps, *((start, end, ERASED) for start, end in fresh)]):
            touches = bool(gaps) and gaps[-1][1:] == (gap[0], gap[2])
            gaps.append((gaps.pop()[0], *gap[1:]) if touches else gap)
        self.gaps = gaps

    def shrink(self, gaps_max: int, sealed_max: int) -> None:
        """Seals the older half of gaps that are too many, and merges sealed ranges that are too many."""
        if len(self.gaps) > gaps_max:
            keep = gaps_max // 2
            old, self.gaps = self.gaps[: len(self.gaps) - keep], self.gaps[len(self.gaps) - keep :]
            begin = self.sealed[-1].end if self.sealed else self.start
            self.sealed.append(_seal(begin, old))
        while len(self.sealed) > sealed_max:
            newest = self.sealed[len(self.sealed) // 2 * 2 :]
            pairs = zip(self.sealed[::2], self.sealed[1::2], strict=False)
            self.sealed = [_merge(older, newer) for older, newer in pairs] + newest


def _seal(begin: int, gaps: Sequence[GapRange]) -> Sealed:
    reasons: dict[str, int] = {}
    mark = 0
    for start, end, reason in gaps:
        reasons[reason] = reasons.get(reason, 0) + end - start
        mark = (mark + fingerprint(start, end)) & MASK
    return Sealed(begin, gaps[-1][1], mark, reasons)


def _without_rows(sealed: Sealed, erased: Sequence[Range]) -> Sealed:
    """A sealed range after offsets that had a row in it were erased."""
    count = sum(end - start for start, end in erased)
    if not count:
        return sealed
    mark = sealed.fingerprint + sum(fingerprint(start, end) for start, end in erased)
    reasons = {**sealed.reasons, ERASED: sealed.reasons.get(ERASED, 0) + count}
    return Sealed(sealed.start, sealed.end, mark & MASK, reasons)


def _merge(older: Sealed, newer: Sealed) -> Sealed:
    assert older.end == newer.start, (older, newer)
    reasons = dict(older.reasons)
    for reason, count in newer.reasons.items():
        reasons[reason] = reasons.get(reason, 0) + count
    return Sealed(older.start, newer.end, (older.fingerprint + newer.fingerprint) & MASK, reasons)


@dataclass(slots=True)
class Summary:
    """All that one pipeline has loaded into one table."""

    pipeline: str
    sequence: int = 0
    """How many commits are folded in; orders the summaries of a pipeline."""
    partitions: dict[TopicPartition, Folded] = field(default_factory=dict)

    def after(
        self,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        gaps: Sequence[Gap],
        epochs: Mapping[TopicPartition, SeenEpoch] = NO_EPOCHS,
    ) -> Summary:
        """The summary after one more commit; this one stays as it is."""
        by_partition: dict[TopicPartition, list[GapRange]] = {}
        for gap in gaps:
            by_partition.setdefault(gap.partition, []).append((gap.start, gap.end, gap.reason))
        partitions = dict(self.partitions)
        for partition, end in ends.items():
            known = partitions.get(partition)
            start = starts[partition]
            folded = Folded(start, start) if known is None else _copy(known)
            if folded.end != start:
                raise PenstockError(
                    f"what the table says of {partition.topic}-{partition.partition} contradicts itself: "
                    f"it ends at {start}, but the summary of pipeline {self.pipeline!r} at {folded.end}"
                )
            folded.advance(end, by_partition.get(partition, ()))
            folded.last_epoch = epochs.get(partition, folded.last_epoch)
            partitions[partition] = folded
        return self._bounded(partitions)

    def erased(self, rows: Mapping[TopicPartition, Sequence[Range]]) -> Summary | None:
        """The summary after rows were erased, by sorted disjoint ranges of their offsets; None if it loaded none."""
        partitions = dict(self.partitions)
        for partition, ranges in rows.items():
            known = partitions.get(partition)
            if known is not None and clip(ranges, [(known.start, known.end)]):
                partitions[partition] = _copy(known)
                partitions[partition].erase(ranges)
        if all(partitions[partition] is known for partition, known in self.partitions.items()):
            return None
        return self._bounded(partitions)

    def _bounded(self, partitions: dict[TopicPartition, Folded]) -> Summary:
        """The next summary, of these partitions, with no more gaps and sealed ranges than there may be."""
        gaps_max = max(2, LAKE_GAPS_PER_PIPELINE // max(1, len(partitions)))
        sealed_max = max(2, LAKE_SEALED_PER_PIPELINE // max(1, len(partitions)))
        for partition, folded in list(partitions.items()):
            if len(folded.gaps) > gaps_max or len(folded.sealed) > sealed_max:
                partitions[partition] = _copy(folded)
                partitions[partition].shrink(gaps_max, sealed_max)
        return Summary(self.pipeline, self.sequence + 1, partitions)

    def ends(self) -> dict[TopicPartition, int]:
        return {partition: folded.end for partition, folded in self.partitions.items()}

    def to_json(self, **more: Any) -> str:
        """The summary as one line of JSON, with further entries from the caller."""
        topics = []
        ordered = sorted(self.partitions.items())
        for (topic, topic_id), some in groupby(ordered, key=lambda item: (item[0].topic, item[0].topic_id)):
            rows = [
                [at.partition, f.start, f.end, f.gaps, [_flat(s) for s in f.sealed], f.last_epoch, f.diverged]
                for at, f in some
            ]
            topics.append({"topic": topic, "topic_id": str(topic_id), "partitions": rows})
        told = {"layout": LAYOUT, "pipeline": self.pipeline, "sequence": self.sequence, "topics": topics, **more}
        return json.dumps(told, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Summary:
        """Raises PenstockError if it is not a summary, or of a later layout."""
        try:
            told = json.loads(text)
            if told["layout"] > LAYOUT:
                raise PenstockError(f"the table's progress has layout {told['layout']}: a later Penstock wrote it")
            summary = cls(told["pipeline"], told["sequence"])
            for topic in told["topics"]:
                for index, start, end, gaps, sealed, *later in topic["partitions"]:
                    partition = TopicPartition(topic["topic"], UUID(topic["topic_id"]), index)
                    folded = Folded(start, end, [(a, b, why) for a, b, why in gaps], [Sealed(*each) for each in sealed])
                    if later:  # layout 2
                        last_epoch, diverged = later
                        folded.last_epoch = None if last_epoch is None else SeenEpoch(*last_epoch)
                        folded.diverged = [(a, b) for a, b in diverged]
                    summary.partitions[partition] = folded
        except (KeyError, TypeError, ValueError) as error:
            raise PenstockError(f"the table's progress cannot be read: {error!r}") from error
        return summary


def _copy(folded: Folded) -> Folded:
    gaps, sealed, diverged = list(folded.gaps), list(folded.sealed), list(folded.diverged)
    return Folded(folded.start, folded.end, gaps, sealed, folded.last_epoch, diverged)


def _flat(sealed: Sealed) -> list[Any]:
    return [sealed.start, sealed.end, sealed.fingerprint, dict(sealed.reasons)]


def combined(summaries: Iterable[Summary]) -> dict[TopicPartition, Progress]:
    """The combined progress of all pipelines of a table, per partition."""
    progress: dict[TopicPartition, Progress] = {}
    for summary in summaries:
        for partition, folded in summary.partitions.items():
            known = progress.setdefault(partition, Progress(folded.start, folded.end, []))
            known.start = min(known.start, folded.start)
            known.end = max(known.end, folded.end)
            known.gaps += [Gap(partition, *gap) for gap in folded.gaps]
            known.sealed += folded.sealed
            known.diverged += [Gap(partition, *lost, DIVERGED) for lost in folded.diverged]
            known.claims.append(Claim(summary.pipeline, folded.start, folded.end))
    return progress
