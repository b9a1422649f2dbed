"""Which offsets of a topic a streaming query has kept in its table, so that `penstock verify` can prove it.

A query that filters leaves offsets out, and nobody but the query knows which. So a commit records, beside the number of
the batch, from where to where the query has read each partition (its checkpoint says so) and which offsets it has kept:
how many, and their fingerprint (see `folding`). Those that have no row must then be as many as the query left out, and
have the fingerprint that is left of the range; that none is there twice, the rows show by themselves.

A record is a file `_penstock/kept/QUERY/NUMBER.json`, written before the commit that names its number in the table. The
number is the batch's and 32 bits of the file's SHA-256, so a record that was changed is found out.

Only queries of `format("penstock")` have records, whose rows keep `topic`, `partition` and `offset`, from their first
batch on. A batch of which that cannot be said ends a query's record for good (GIVEN_UP): what comes after it would be
judged by less than the query has kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import quote, unquote
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PenstockError
from penstock.spark.lake.batches import QueryBatch, record_key
from penstock.spark.lake.destination import Destination
from penstock.spark.lake.folding import MASK, fingerprint, fingerprint_of_runs
from penstock.spark.lake.offsets import Offsets, joined, partitions_of, runs_of
from penstock.spark.lake.ranges import union
from penstock.spark.lake.reading import batches_of
from penstock.spark.lake.records import Claim, Progress, Sealed, TopicPartition
from penstock.spark.lake.table import LakeTable
from penstock.spark.lake.verify import PartitionVerdict, judge

DIRECTORY = "_penstock/kept"
COLUMNS = ("topic", "partition", "offset")
FILTERED = "filtered"
"""Why an offset has no row: the query has left it out, or there was no record."""
GIVEN_UP = 0
"""In the place of a record's number: the query has written a batch of which nobody knows what was read for it."""
NO_ID = UUID(int=0)
"""Stands for the id of a topic in rows, which do not tell it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a query has kept of a partition: of the offsets [begin, end) that it has read, how many, and which."""

    topic: str
    topic_id: str
    partition: int
    begin: int
    end: int
    rows: int = 0
    fingerprint: int = 0


Counts = Mapping[tuple[str, int], tuple[int, int]]
"""By topic and partition how many rows were written, and the fingerprint of their offsets."""


def tells_offsets(columns: pa.Schema) -> bool:
    """Whether a table's columns say of which offset a row is."""
    if not set(COLUMNS) <= set(columns.names):
        return False
    topic, partition, offset = (columns.field(name).type for name in COLUMNS)
    return bool(pa.types.is_string(topic) and pa.types.is_integer(partition) and pa.types.is_integer(offset))


def counts_of(rows: pa.RecordBatch) -> dict[tuple[str, int], tuple[int, int]]:
    """Of some rows how many there are of each partition, and the fingerprint of their offsets."""
    return {(each.topic, each.partition): (len(offsets), fingerprint_of(offsets)) for each, offsets in offsets_of(rows)}


def added(counts: Iterable[Counts]) -> dict[tuple[str, int], tuple[int, int]]:
    """Counts of several parts as one."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for each in counts:
        for partition, (rows, digest) in each.items():
            known = found.get(partition, (0, 0))
            found[partition] = known[0] + rows, (known[1] + digest) & MASK
    return found


def offsets_of(rows: pa.RecordBatch) -> list[tuple[TopicPartition, Offsets]]:
    """The offsets of some rows, apart by partition; rows without one are left out."""
    topic, partition, offset = (rows.column(name) for name in COLUMNS)
    known = pc.and_(pc.and_(pc.is_valid(topic), pc.is_valid(partition)), pc.is_valid(offset))
    ids = pa.repeat(str(NO_ID), rows.num_rows)
    columns = [topic, ids, partition.cast(pa.int32()), offset.cast(pa.int64())]
    told = pa.RecordBatch.from_arrays(columns, ["topic", "topicId", "partition", "offset"]).filter(known)
    return partitions_of(told) if told.num_rows else []


def fingerprint_of(offsets: Offsets) -> int:
    """The fingerprint of offsets one by one; of a run it is that of `folding`."""
    if not len(offsets):
        return 0
    runs = runs_of(offsets)
    if len(runs) == 1:
        return fingerprint(int(runs[0, 0]), int(runs[0, 1]))
    return fingerprint_of_runs(runs)


def after(before: Sequence[Kept], read: Sequence[Kept], counts: Counts) -> list[Kept]:
    """A query's record once a batch is in the table.

    Args:
        before: its record.
        read: from where to where it has read each partition, with that batch.
        counts: of the batch's rows.
    """
    known = {(each.topic, each.topic_id, each.partition): each for each in before}
    for each in read:
        key = (each.topic, each.topic_id, each.partition)
        old = known.get(key, each)
        rows, digest = counts.get((each.topic, each.partition), (0, 0))
        digest = (digest + old.fingerprint) & MASK
        known[key] = replace(each, begin=old.begin, rows=rows + old.rows, fingerprint=digest)
    return sorted(known.values(), key=lambda each: (each.topic, each.partition, each.topic_id))


class Records:
    """The records of one table."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination

    def queries(self) -> list[str]:
        """The queries that ever wrote one, sorted."""
        listed = self._destination.list(DIRECTORY)
        return sorted({unquote(each.path[len(DIRECTORY) + 1 :].split("/", 1)[0]) for each in listed})

    def read(self, query: str, number: int) -> list[Kept]:
        """A record by its number. Raises PenstockError if it is gone or was changed."""
        path = _path(query, number)
        content = self._destination.read(path)
        if content is None or _digest(content) != number & 0xFFFFFFFF:
            raise PenstockError(f"{path} is {'gone' if content is None else 'damaged'}: a commit of the table names it")
        return [Kept(**each) for each in json.loads(content)["partitions"]]

    def write(self, query: str, batch: int, kept: Sequence[Kept]) -> int:
        """Writes a record; returns its number. It is nothing before a commit names that."""
        content = json.dumps({"query": query, "batch": batch, "partitions": [asdict(each) for each in kept]}).encode()
        number = batch << 32 | _digest(content)
        path = _path(query, number)
        if self._destination.read(path) != content:  # the same batch, told again, has the same record
            self._destination.delete(path)
            with self._destination.open(path) as file:
                file.write(content)
        return number

    def drop_others(self, query: str, number: int) -> None:
        """After a commit: deletes all records of the query but this one and the newest before it, for readers."""
        directory = f"{DIRECTORY}/{quote(query, safe='')}"
        older = [each.path for each in self._destination.list(directory) if each.path < _path(query, number)]
        for path in older[:-1]:
            self._destination.delete(path)


def known_partitions(lake: LakeTable, query: str) -> set[tuple[str, int]]:
    """The partitions of which a query's record says where reading began."""
    number = lake.number(record_key(query))
    if number is None or number == GIVEN_UP:
        return set()
    return {(each.topic, each.partition) for each in Records(lake.destination()).read(query, number)}


def recorded(lake: LakeTable, batch: QueryBatch, read: Sequence[Kept], counts: Counts) -> QueryBatch:
    """Writes what a query will have kept with a batch; returns the batch with the number of that record.

    A query that wrote to the table before there were records gets none, nor one whose rows have other topics than it
    reads: they do not say of which offset they are.
    """
    assert batch.query is not None
    records, number = Records(lake.destination()), lake.number(record_key(batch.query))
    if number == GIVEN_UP or (number is None and lake.number(batch.key) is not None):
        return batch
    before = [] if number is None else records.read(batch.query, number)
    if counts.keys() - {(each.topic, each.partition) for each in (*before, *read)}:
        return unrecorded(lake, batch)
    return replace(batch, record=records.write(batch.query, batch.number, after(before, read, counts)))


def unrecorded(lake: LakeTable, batch: QueryBatch) -> QueryBatch:
    """A batch of which it is not known what was read for it: ends the query's record, if it has one."""
    if batch.query is None or lake.number(record_key(batch.query)) is None:
        return batch
    return replace(batch, record=GIVEN_UP)


def _path(query: str, number: int) -> str:
    return f"{DIRECTORY}/{quote(query, safe='')}/{number:020d}.json"


def _digest(content: bytes) -> int:
    return int.from_bytes(hashlib.sha256(content).digest()[:4], "big")


def verify_kept(lake: LakeTable, topic: str | None = None) -> list[PartitionVerdict]:
    """A verdict on each partition of which queries have kept rows in a table; none if no query has a record.

    Raises PenstockError for a record that is damaged or ended, or a topic that was made anew while a query read it.
    """
    progress = _progress(lake, topic)
    if not progress or not tells_offsets(lake.columns):
        return []
    runs: dict[tuple[str, int], list[Any]] = {}
    counts: dict[tuple[str, int], int] = {}
    for batch in batches_of(lake, COLUMNS):
        for partition, offsets in offsets_of(batch):
            if topic in (None, partition.topic):
                key = (partition.topic, partition.partition)
                runs.setdefault(key, []).append(runs_of(offsets))
                counts[key] = counts.get(key, 0) + len(offsets)
    verdicts = []
    for key in sorted(set(runs) | set(progress)):
        held = joined(np.concatenate(runs[key])) if key in runs else np.empty((0, 2), np.int64)
        topic_id, known = progress.get(key) or ("", Progress(int(held[0, 0]), int(held[0, 0]), []))
        verdict = PartitionVerdict(key[0], topic_id, key[1], known.start, known.end, counts.get(key, 0))
        verdict.pipelines = {claim.pipeline: (claim.start, claim.end) for claim in known.claims}
        judge(verdict, held, known)
        verdicts.append(verdict)
    return verdicts


def _progress(lake: LakeTable, topic: str | None) -> dict[tuple[str, int], tuple[str, Progress]]:
    """What the records of all queries say of each partition: the id of its topic, and which offsets have no row."""
    records = Records(lake.destination())
    found: dict[tuple[str, int], list[tuple[str, Kept]]] = {}
    for query in records.queries():
        number = lake.number(record_key(query))
        if number == GIVEN_UP:
            raise PenstockError(
                f"query {query} has written rows of which its checkpoint did not say what was read for them: what it "
                "has kept cannot be proven any more"
            )
        for each in records.read(query, number) if number is not None else ():
            if topic in (None, each.topic):
                found.setdefault((each.topic, each.partition), []).append((query, each))
    return {key: _combined(kept) for key, kept in found.items()}


def _combined(kept: Sequence[tuple[str, Kept]]) -> tuple[str, Progress]:
    """What several queries have kept of a partition. Those whose ranges overlap are judged together."""
    ids = {each.topic_id for _, each in kept}
    if len(ids) > 1:
        raise PenstockError(
            f"topic {kept[0][1].topic} was made anew while a query read it: rows of both have the same offsets, and "
            "cannot be told apart"
        )
    claims = [Claim(query, each.begin, each.end) for query, each in kept]
    sealed = []
    for start, end in union((claim.start, claim.end) for claim in claims):
        some = [each for _, each in kept if start <= each.begin < each.end <= end]
        digest = (fingerprint(start, end) - sum(each.fingerprint for each in some)) & MASK
        left_out = max(0, end - start - sum(each.rows for each in some))
        sealed.append(Sealed(start, end, digest, {FILTERED: left_out} if left_out else {}))
    ends = [claim.end for claim in claims]
    return ids.pop(), Progress(min(claim.start for claim in claims), max(ends), [], sealed, claims)
