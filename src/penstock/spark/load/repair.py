"""Gives a quarantine what it lacks after a load ended between the two commits of a job (see `tables`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.spark.lake.ranges import Range, union, without
from penstock.spark.lake.records import ERASED, DataFile, Gap, TopicPartition
from penstock.spark.load.files import Files
from penstock.spark.load.plan import Extent
from penstock.spark.load.tables import Target, complement
from penstock.spark.load.work import QUARANTINE_SCHEMA, QUARANTINED, format_of
from penstock.spark.read.fetching import Connect
from penstock.spark.read.plan import DataLossError, OffsetRange

FITS_NOW = "did not fit the table's columns when it was loaded"


def repair(
    target: Target,
    behind: Mapping[TopicPartition, tuple[int, int]],
    extents: Mapping[TopicPartition, Extent],
    lost: Mapping[TopicPartition, Sequence[Range]],
    *,
    connect: Connect,
    format_plan: Mapping[str, object],
    fail_on_data_loss: bool,
) -> int:
    """Commits the records of the ranges that the table has as quarantined; returns how many.

    Not those that the brokers have `lost`: what they have at such offsets now, nobody has loaded. And not those that
    were erased from the table meanwhile; where a sealed range no longer says which those are, only those that the
    format does not take, for an erased row was one that fitted.

    Raises DataLossError when the brokers no longer have them, unless that may be; LakeConflictError when another copy
    of the load did the same.
    """
    from penstock.spark.read.decoding import Corrupt
    from penstock.spark.read.fetching import decoded, record_batch

    assert target.quarantine is not None, "only a load with a quarantine can be behind"
    plan = target.plan()
    files = Files(target.quarantine.destination(), QUARANTINE_SCHEMA)
    values = format_of(format_plan, plan)
    absent: list[Gap] = []
    loaded = target.loaded().items()
    erased = {p: [(start, end) for start, end, reason in folded.gaps if reason == ERASED] for p, folded in loaded}
    unsure = {p: [(s.start, s.end) for s in folded.sealed if ERASED in s.reasons] for p, folded in loaded}
    try:
        for partition, (start, end) in sorted(behind.items()):
            have = extents[partition]
            if fail_on_data_loss and (start < have.first or have.last < end):
                raise DataLossError(
                    f"{partition.topic}-{partition.partition}: the quarantine lacks {start} to {end}, the brokers have "
                    f"{have.first} to {have.last}; with --allow-data-loss it records the gap"
                )
            first = min(max(start, have.first), end)
            last = max(min(end, have.last), first)
            there = without([(first, last)], union([*lost.get(partition, ()), *erased.get(partition, ())]))
            absent += [Gap(partition, *gone, "deleted") for gone in without([(start, end)], there)]
            present = target.offsets_between(partition, start, end)
            ranges = [OffsetRange(partition.topic, partition.topic_id, partition.partition, *span) for span in there]
            for wanted, got in decoded(connect, ranges, skip_corrupt=True) if ranges else ():
                if isinstance(got, Corrupt) or not got.batch.num_rows:
                    continue
                records = record_batch(wanted, got)
                offsets = records.column("offset").to_numpy()
                rows = np.flatnonzero(~np.isin(offsets, present))
                if not len(rows):
                    continue
                some = records.take(pa.array(rows))
                why = values.parse(partition.topic, some.column("value")).rejected
                within = unsure.get(partition, ())
                kept = [at for at, o in enumerate(offsets[rows].tolist()) if at in why or not _in(o, within)]
                if not kept:
                    continue
                some = some.take(pa.array(kept))
                reasons = pa.array([why.get(at, FITS_NOW) for at in kept], pa.string())
                files.write(pa.RecordBatch.from_arrays([*some.columns, reasons], schema=QUARANTINE_SCHEMA))
                absent += [Gap(partition, o, o + 1, QUARANTINED) for o in some.column("offset").to_pylist()]
        written = files.close()
    except BaseException:
        files.abort()
        raise
    _commit(target, behind, written, absent)
    return sum(file.rows for file in written)


def _in(offset: int, ranges: Sequence[Range]) -> bool:
    return any(start <= offset < end for start, end in ranges)


def _commit(
    target: Target, behind: Mapping[TopicPartition, tuple[int, int]], files: list[DataFile], absent: list[Gap]
) -> None:
    assert target.quarantine is not None
    starts = {partition: start for partition, (start, _) in behind.items()}
    ends = {partition: end for partition, (_, end) in behind.items()}
    gaps = [each for p in sorted(behind) for each in complement(p, starts[p], ends[p], absent)]
    gaps += [gap for gap in absent if gap.reason != QUARANTINED]
    target.quarantine.commit(files, starts, ends, gaps)
