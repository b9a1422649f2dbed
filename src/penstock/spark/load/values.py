"""Holds the rows of a lake table against the brokers' records: every column that follows from a record, value by value.

Offsets tell nothing of what a row says. So the table's row groups are gone through, some of them at a time, in the
order in which they were written; the brokers are asked for the offsets that these cover; and what a load makes of the
records (`expected`) is compared with the rows, column by column, vectorised. What the brokers have beyond that is read
last: it must be in no row for a reason. Offsets are read once on both sides where row groups do not overlap, as a load
and its compaction leave them. Memory: the rows that LAKE_COMPARE_ROWS and LAKE_COMPARE_BYTES allow, and the fetches
under way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.client.client import READ_COMMITTED
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.spark.lake.broker import CLIENT_ID, TIMEOUT_MS, BrokerVerdict, log_starts
from penstock.spark.lake.likeness import Mask, unlike
from penstock.spark.lake.offsets import Held, Offsets, Part, Watch, held_by
from penstock.spark.lake.open import open_table
from penstock.spark.lake.ranges import Range, clip, union, without
from penstock.spark.lake.reading import as_rows
from penstock.spark.lake.records import ERASED, Progress, TopicPartition
from penstock.spark.lake.table import LakeTable
from penstock.spark.limits import LAKE_COMPARE_BYTES, LAKE_COMPARE_ROWS, LAKE_COMPARE_TRIES, LAKE_RANGES_SHOWN
from penstock.spark.load.expected import KEYS, REASON, Expected
from penstock.spark.load.options import QUARANTINE_SUFFIX
from penstock.spark.load.tables import LOADED
from penstock.spark.load.work import QUARANTINED

READ_ROWS = 1 << 14
VALUE = "value"
"""Stands for all columns of a value where a record does not fit the table's columns at all."""
ELSEWHERE = (QUARANTINED, LOADED)
"""Reasons of gaps whose records are in the other one of a table and its quarantine."""
Ranges = Mapping[TopicPartition, Sequence[Range]]


@dataclass(slots=True)
class Mine:
    """Rows of the table that are compared now, of one partition, sorted by offset."""

    offsets: Offsets
    rows: pa.Table
    met: Mask
    """Which of them the brokers have a record for."""


@dataclass(slots=True)
class Tally:
    """The result of comparing a part of a partition. The lists contain offsets."""

    compared: int = 0
    changed: dict[int, list[str]] = field(default_factory=dict)
    absent: list[int] = field(default_factory=list)
    elsewhere: int = 0
    aborted: list[Range] = field(default_factory=list)
    corrupt: list[Range] = field(default_factory=list)


class Comparison:
    """The comparison of one table with its brokers.

    Args:
        lake: the table; its version must be the one that `watch` went through `verify` with.
        address: the brokers.
        watch: which ranges are compared, and where in the table they lie.
        expected: what the rows must say.
        other: what the quarantine holds, or, of a quarantine, the table beside it; None if that is not known.
        security: TLS and login at the brokers.
    """

    def __init__(
        self,
        lake: LakeTable,
        address: str,
        watch: Watch,
        expected: Expected,
        other: Mapping[TopicPartition, Held] | None = None,
        *,
        security: ClientSecurity = UNSECURED,
    ) -> None:
        from penstock.spark.read.fetching import Connect

        self._lake, self._address, self._watch, self._expected = lake, address, watch, expected
        self._connect = Connect(address, CLIENT_ID, TIMEOUT_MS, READ_COMMITTED, read="broker", security=security)
        self._progress = lake.progress()
        self._erased = {p: _array(told_absent(each, (ERASED,))) for p, each in self._progress.items()}
        self._claimed = {p: _array(union((c.start, c.end) for c in each.claims)) for p, each in self._progress.items()}
        self._seen: dict[TopicPartition, list[Range]] = defaultdict(list)
        self._held = {p: covered(watch.held[p]) for p in watch.ranges if p in watch.held}
        self._other = None if other is None else {p: covered(held) for p, held in other.items()}
        present = {each.name for each in lake.columns}
        self._schema = pa.schema([lake.columns.field(n) for n in (*KEYS, *expected.names) if n in present])

    def run(self, brokers: Mapping[TopicPartition, BrokerVerdict]) -> None:
        """Notes in `brokers` what differs. Raises PenstockError for a file whose columns are not the table's."""
        for wave in waves(self._lake, self._watch.found.values()):
            spans: dict[TopicPartition, list[Range]] = defaultdict(list)
            for part in wave:
                for partition, span in part.spans.items():
                    spans[partition] += clip(self._watch.ranges[partition], [span])
            spans = defaultdict(list, {p: union(some) for p, some in spans.items()})
            self._compare(spans, self._rows(wave, spans), brokers)
            for partition, some in spans.items():
                self._seen[partition] = union([*self._seen[partition], *some])
        self._compare({p: without(some, self._seen[p]) for p, some in self._watch.ranges.items()}, {}, brokers)

    def _rows(self, wave: Sequence[Part], spans: Ranges) -> dict[TopicPartition, Mine]:
        """The table's rows of the wave that lie in its spans."""
        found: dict[TopicPartition, list[pa.RecordBatch]] = defaultdict(list)
        system = self._lake.file_systems()
        for part in wave:
            with system.open_input_file(part.file.path) as source:
                parquet = pq.ParquetFile(source)
                there = [name for name in self._schema.names if name in parquet.schema_arrow.names]
                for batch in parquet.iter_batches(READ_ROWS, row_groups=[part.row_group], columns=there):
                    try:
                        rows = as_rows(batch, self._schema, part.file)
                    except pa.ArrowInvalid as error:
                        raise PenstockError(f"{part.file.path} does not fit the table's columns: {error}") from error
                    for partition in part.spans:
                        if (some := _within(rows, partition, spans[partition])).num_rows:
                            found[partition].append(some)
        mine = {}
        for partition, batches in found.items():
            table = pa.Table.from_batches(batches, self._schema)
            offsets = table["offset"].to_numpy()
            if (np.diff(offsets) < 0).any():
                table = table.sort_by("offset")
                offsets = table["offset"].to_numpy()
            mine[partition] = Mine(offsets, table, np.zeros(len(offsets), bool))
        return mine

    def _compare(
        self, spans: Ranges, mine: Mapping[TopicPartition, Mine], brokers: Mapping[TopicPartition, BrokerVerdict]
    ) -> None:
        """Reads spans from the brokers and compares; begins anew where retention takes records meanwhile."""
        for tried in range(LAKE_COMPARE_TRIES):
            try:
                tallies = self._read(spans, mine)
                break
            except RequestError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE or tried == LAKE_COMPARE_TRIES - 1:
                    raise
                starts = log_starts(self._address, spans, self._connect.security)
                spans = {p: clip(some, [(starts[p], some[-1][1])]) for p, some in spans.items() if some}
                for each in mine.values():
                    each.met[:] = False
        for partition, tally in tallies.items():
            note(brokers[partition], tally, mine.get(partition), spans[partition])

    def _read(self, spans: Ranges, mine: Mapping[TopicPartition, Mine]) -> dict[TopicPartition, Tally]:
        from penstock.spark.read.decoding import Corrupt
        from penstock.spark.read.fetching import decoded, record_batch
        from penstock.spark.read.plan import OffsetRange

        wanted = [OffsetRange(p.topic, p.topic_id, p.partition, *span) for p, some in spans.items() for span in some]
        tallies = {p: Tally() for p, some in spans.items() if some}
        for span, got in decoded(self._connect, wanted, skip_corrupt=True) if wanted else ():
            partition = TopicPartition(span.topic, span.topic_id, span.partition)
            tally = tallies[partition]
            if isinstance(got, Corrupt):
                tally.corrupt.append((got.start, got.end))
                continue
            tally.aborted += [(s.first_offset, s.last_offset + 1) for s in got.skipped if not s.is_control]
            if got.batch.num_rows:
                records = record_batch(span, got)
                self._account(partition, records.column("offset").to_numpy(), tally)
                if partition in mine:
                    self._match(partition, records, mine[partition], tally)
        return tallies

    def _account(self, partition: TopicPartition, offsets: Offsets, tally: Tally) -> None:
        """Records that the table has no row of must be in its other half, or erased. Each is accounted for once."""
        held = self._held.get(partition)
        lacking = offsets if held is None else offsets[~_in(offsets, held)]
        lacking = lacking[_in(lacking, self._claimed[partition]) & ~_in(lacking, _array(self._seen[partition]))]
        lacking = lacking[~_in(lacking, self._erased[partition])]
        if not len(lacking):
            return
        if self._other is not None:
            runs = self._other.get(partition)
            there = np.zeros(len(lacking), bool) if runs is None else _in(lacking, runs)
        else:
            there = _in(lacking, _array(told_absent(self._progress[partition], ELSEWHERE)))
        tally.elsewhere += int(there.sum())
        tally.absent += lacking[~there].tolist()

    def _match(self, partition: TopicPartition, records: pa.RecordBatch, mine: Mine, tally: Tally) -> None:
        """Compares the rows that records have."""
        offsets = records.column("offset").to_numpy()
        low, high = np.searchsorted(mine.offsets, [offsets[0], offsets[-1] + 1]).tolist()
        own = mine.offsets[low:high]
        at = np.searchsorted(offsets, own)
        met = offsets[at] == own
        if not met.any():
            return
        mine.met[low:high] |= met
        rows = mine.rows.slice(low, high - low)
        if not met.all():
            rows, at = rows.filter(pa.array(met)), at[met]
        if len(at) != len(offsets) or (np.diff(at) != 1).any():
            records = records.take(pa.array(at))
        tally.compared += len(at)
        for row, columns in self._differences(partition.topic, rows, records).items():
            tally.changed[int(offsets[at[row]])] = columns

    def _differences(self, topic: str, rows: pa.Table, records: pa.RecordBatch) -> dict[int, list[str]]:
        """The columns that differ, by the position of a row, however the records may have been read."""
        found = self._unlike(topic, rows, records, 0)
        assert found is not None
        reader = 1
        while found:
            suspects = sorted(found)
            some = pa.array(suspects, pa.int64())
            again = self._unlike(topic, rows.take(some), records.take(some), reader)
            if again is None:
                break
            found = {suspects[at]: min(columns, found[suspects[at]], key=_severity) for at, columns in again.items()}
            reader += 1
        return found

    def _unlike(self, topic: str, rows: pa.Table, records: pa.RecordBatch, reader: int) -> dict[int, list[str]] | None:
        expected = self._expected.rows(topic, records, reader)
        if expected is None:
            return None
        found: dict[int, list[str]] = {}
        places = np.arange(rows.num_rows)
        if expected.parsed is not None:
            for at in expected.parsed.rejected:
                found[at] = [VALUE]
            if expected.parsed.kept is not None:
                rows, places = rows.take(expected.parsed.kept), expected.parsed.kept.to_numpy()
        for name, theirs in expected.columns.items():
            ours = _one(rows[name])
            differ = unlike(ours, _one(theirs).cast(ours.type))
            if name == "headers":
                differ &= ~(_empty(ours) & _empty(theirs))
            for at in places[differ].tolist():
                found.setdefault(at, []).append(name)
        return found


def other_half(lake: LakeTable, quarantine: str | None = None) -> dict[TopicPartition, Held] | None:
    """The offsets in a table's quarantine (beside it, or the one named), or in the table beside a quarantine.

    None where there is none. Raises PenstockError for one that is named and cannot be opened.
    """
    uri = quarantine or beside(lake)
    try:
        other = open_table(uri, lake.pipeline, format=lake.format, create=False, storage_options=lake.storage_options)
    except PenstockError:
        if quarantine is not None:
            raise
        return None
    return held_by(other)


def beside(lake: LakeTable) -> str:
    """Where a load puts the quarantine of a table, or the table of a quarantine."""
    base = lake.uri.rstrip("/")
    if REASON in lake.columns.names and base.endswith(QUARANTINE_SUFFIX):
        return base.removesuffix(QUARANTINE_SUFFIX)
    return base + QUARANTINE_SUFFIX


def waves(lake: LakeTable, parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Row groups in the order in which they were written, as many at a time as memory allows."""
    order = {file.path: number for number, file in enumerate(lake.files())}
    wave: list[Part] = []
    rows = size_bytes = 0
    for part in sorted(parts, key=lambda each: (order[each.file.path], each.row_group)):
        rows, size_bytes = rows + part.rows, size_bytes + part.size_bytes
        if wave and (rows > LAKE_COMPARE_ROWS or size_bytes > LAKE_COMPARE_BYTES):
            yield wave
            wave, rows, size_bytes = [], part.rows, part.size_bytes
        wave.append(part)
    if wave:
        yield wave


def note(verdict: BrokerVerdict, tally: Tally, mine: Mine | None, spans: Sequence[Range]) -> None:
    """Adds to a verdict what a part of the partition showed; `spans` are what was read of it in the end."""
    verdict.compared += tally.compared
    verdict.elsewhere += tally.elsewhere
    verdict.changed_rows += len(tally.changed)
    for offset, columns in sorted(tally.changed.items()):
        for column in columns:
            verdict.changed_columns[column] = verdict.changed_columns.get(column, 0) + 1
            _keep(verdict.changed, (offset, column))
    verdict.absent_rows += len(tally.absent)
    for offset in tally.absent:
        _keep(verdict.absent, offset)
    if mine is None:
        return
    left = mine.offsets[~mine.met]
    left = left[_in(left, _array(spans))]
    for ranges, kind in ((tally.aborted, "aborted"), (tally.corrupt, "unreadable")):
        within = _in(left, _array(union(ranges)))
        setattr(verdict, kind, getattr(verdict, kind) + int(within.sum()))
        left = left[~within]
    verdict.gone_rows += len(left)
    for offset in left.tolist():
        _keep(verdict.gone, offset)


def told_absent(progress: Progress, reasons: Sequence[str]) -> list[Range]:
    """Where a table says that it lacks records for one of some reasons; a sealed range does not say which."""
    gaps = [(gap.start, gap.end) for gap in progress.gaps if gap.reason in reasons]
    return union([*gaps, *((s.start, s.end) for s in progress.sealed if any(why in s.reasons for why in reasons))])


def covered(held: Held) -> Offsets:
    """The offsets that are there at all, as disjoint ranges of the shape (n, 2), sorted."""
    runs = held.runs
    if len(runs) < 2:
        return runs
    reached = np.maximum.accumulate(runs[:, 1])
    apart = np.flatnonzero(runs[1:, 0] > reached[:-1])
    starts = runs[np.concatenate(([0], apart + 1)), 0]
    return np.stack((starts, reached[np.concatenate((apart, [len(runs) - 1]))]), axis=1)


def _array(ranges: Sequence[Range]) -> Offsets:
    return np.array(ranges, np.int64).reshape(-1, 2)


def _in(offsets: Offsets, ranges: Offsets) -> Mask:
    """Which offsets lie in sorted disjoint ranges."""
    if not len(ranges):
        return np.zeros(len(offsets), bool)
    at = np.searchsorted(ranges[:, 0], offsets, side="right") - 1
    return np.asarray((at >= 0) & (offsets < ranges[at, 1]))


def _within(rows: pa.RecordBatch, partition: TopicPartition, ranges: Sequence[Range]) -> pa.RecordBatch:
    """The rows of a partition whose offset lies in one of the ranges."""
    offsets = rows.column("offset").to_numpy()
    mask = _in(offsets, _array(ranges))
    for name, value in (("topic", partition.topic), ("topicId", str(partition.topic_id))):
        mask &= pc.equal(rows.column(name), value).to_numpy(zero_copy_only=False)
    mask &= rows.column("partition").to_numpy() == partition.partition
    return rows if mask.all() else rows.filter(pa.array(mask))


def _severity(columns: Sequence[str]) -> tuple[bool, int]:
    """Orders what is said of one row: the least that explains it."""
    return VALUE in columns, len(columns)


def _empty(lists: Any) -> Mask:
    """Which lists are null or have nothing in them: a record without headers."""
    return np.asarray(pc.fill_null(pc.equal(pc.list_value_length(lists), 0), True).to_numpy(zero_copy_only=False), bool)


def _one(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _keep(some: list[Any], new: Any) -> None:
    if len(some) < LAKE_RANGES_SHOWN:
        some.append(new)
