"""The tables that a load writes: a table of records that fit, and beside it a quarantine of those that do not.

An offset is in exactly one of the two, though they are committed one after the other. The table's commit comes first
and is the truth: its gaps of the reason "quarantined" name the offsets that the quarantine gets, whose commit follows
and moves the quarantine's own end to the same offset (with what is in the table as gaps of the reason "loaded"). After
a crash between the two the quarantine ends before the table. The load notices at its next start, and before it loads
anything else: it reads those offsets again and gives the quarantine exactly the records that the table does not have,
whatever the schema says by then. A copy of the load that does so at the same time makes the other's commit fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError, PenstockError
from penstock.spark.lake.destination import table_uri
from penstock.spark.lake.folding import Folded
from penstock.spark.lake.open import open_table
from penstock.spark.lake.reading import batches_of
from penstock.spark.lake.records import RECORD_SCHEMA, DataFile, Gap, TopicPartition
from penstock.spark.lake.table import LakeTable, one_line, reading
from penstock.spark.load.formats.ddl import parse_ddl
from penstock.spark.load.formats.format import OWN_COLUMNS, column_of
from penstock.spark.load.layout import Layout
from penstock.spark.load.options import QUARANTINE_SUFFIX, LoadOptions
from penstock.spark.load.work import QUARANTINE_SCHEMA, QUARANTINED, TargetPlan

LOADED = "loaded"
"""Reason of a gap in a quarantine: the record is in the table."""


@dataclass(slots=True)
class Target:
    """A table, as one pipeline feeds it, and its quarantine if the format has one."""

    lake: LakeTable
    quarantine: LakeTable | None

    def plan(self) -> TargetPlan:
        quarantine = None if self.quarantine is None else self.quarantine.destination()
        return TargetPlan(self.lake.destination(), self.lake.columns, quarantine)

    def refresh(self) -> None:
        """Sees what others committed. Raises PenstockError if a table is gone."""
        for table in (self.lake, self.quarantine):
            if table is not None:
                with reading(table):
                    table.refresh()

    def loaded(self) -> Mapping[TopicPartition, Folded]:
        """The offsets that the pipeline has loaded of each partition. Raises PenstockError if the table is gone."""
        with reading(self.lake):
            return self.lake.loaded().partitions

    def commit_quarantine(
        self,
        files: Sequence[DataFile],
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        gaps: Sequence[Gap],
    ) -> None:
        """After the table's commit: moves the quarantine to the same ends, if there is anything to put into it."""
        if self.quarantine is None or not files:
            return
        self.quarantine.refresh()
        quarantined = [gap for gap in gaps if gap.reason == QUARANTINED]
        touched = {gap.partition for gap in quarantined}
        begins = {}
        for partition in touched:
            end = self.quarantine.end(partition)
            begins[partition] = starts[partition] if end is None else end
        loaded = [
            each
            for partition in sorted(touched)
            for each in complement(partition, begins[partition], ends[partition], quarantined)
        ]
        self.quarantine.commit(files, begins, {p: ends[p] for p in touched}, loaded)

    def behind(self) -> dict[TopicPartition, tuple[int, int]]:
        """Ranges whose quarantined records the quarantine lacks, because a load ended between two commits."""
        if self.quarantine is None:
            return {}
        with reading(self.lake):
            progress, ends = self.lake.progress(), self.lake.ends()
        found = {}
        for partition, end in ends.items():
            known = progress[partition]
            claim = next(each for each in known.claims if each.pipeline == self.lake.pipeline)
            with reading(self.quarantine):
                at = self.quarantine.end(partition)
            start = claim.start if at is None else max(at, claim.start)
            recent = any(g.reason == QUARANTINED and g.start < end and g.end > start for g in known.gaps)
            folded = any(QUARANTINED in s.reasons and s.end > start and s.start < end for s in known.sealed)
            if start < end and (recent or folded):
                found[partition] = (start, end)
        return found

    def offsets_between(
        self, partition: TopicPartition, start: int, end: int
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The offsets in [start, end) of a partition that the table has, sorted."""
        found = [np.zeros(0, np.int64)]
        columns = ["topicId", "partition", "offset"]
        for batch in batches_of(self.lake, columns, partition.topic):
            table = pa.Table.from_batches([batch]).select(columns)
            offsets = table["offset"].to_numpy()
            here = (offsets >= start) & (offsets < end) & (table["partition"].to_numpy() == partition.partition)
            if here.any():
                ids = np.asarray(table["topicId"].to_pylist(), object) == str(partition.topic_id)
                found.append(offsets[here & ids])
        return np.sort(np.concatenate(found))


def complement(partition: TopicPartition, start: int, end: int, gaps: Sequence[Gap]) -> list[Gap]:
    """The parts of [start, end) in none of a partition's gaps, as gaps with the reason LOADED."""
    found = []
    position = start
    for gap in sorted((g for g in gaps if g.partition == partition), key=lambda g: g.start):
        if gap.start > position:
            found.append(Gap(partition, position, gap.start, LOADED))
        position = max(position, gap.end)
    if position < end:
        found.append(Gap(partition, position, end, LOADED))
    return found


def table_of(options: LoadOptions, topic: str) -> str:
    """Where a topic's table is."""
    return f"{options.table.rstrip('/')}/{topic}" if options.table_per_topic else options.table


def open_target(options: LoadOptions, uri: str, pipeline: str, fields: Sequence[pa.Field] = ()) -> Target:
    """Opens or makes a table and its quarantine; `fields` are what a registry says of the values, if it was asked.

    Raises ConfigError when the table that is there is of another kind than the options say.
    """
    layout = Layout.of(options)
    lake = _open_or_make(options, uri, pipeline, layout, fields)
    _check_kind(options, lake)
    layout.check(lake)
    if options.schema is not None:
        lake.add_columns(list(_declared(options, tuple(lake.derived))))
    if options.format == "raw":
        return Target(lake, None)
    place = table_uri(options.quarantine) if options.quarantine else lake.uri.rstrip("/") + QUARANTINE_SUFFIX
    quarantine = open_table(
        place, pipeline, format=options.table_format, columns=QUARANTINE_SCHEMA, storage_options=options.storage_options
    )
    return Target(lake, quarantine)


def _open_or_make(
    options: LoadOptions, uri: str, pipeline: str, layout: Layout, fields: Sequence[pa.Field]
) -> LakeTable:
    how: dict[str, Any] = {"format": options.table_format, "storage_options": options.storage_options}
    if layout.needs:  # a table that is there has them, whether or not they are declared this time
        with suppress(PenstockError):
            return open_table(uri, pipeline, create=False, **how)
    how |= {"partition_by": layout.partition_by, "settings": layout.settings}
    return open_table(uri, pipeline, columns=layout.columns(first_columns(options, layout, fields)), **how)


def first_columns(options: LoadOptions, layout: Layout, fields: Sequence[pa.Field] = ()) -> pa.Schema:
    """The columns of a new table, but those that are made."""
    if options.format == "raw":
        return RECORD_SCHEMA
    own = [RECORD_SCHEMA.field(name) for name in OWN_COLUMNS]
    return pa.schema([*own, *_declared(options, layout.own), *fields])


def _declared(options: LoadOptions, made: Sequence[str]) -> list[pa.Field]:
    own = (*OWN_COLUMNS, *made)
    schema = parse_ddl(options.schema) if options.schema is not None else pa.schema([])
    fields = [pa.field(column_of(each.name, own), each.type) for each in schema]
    names = [each.name for each in fields]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"schema: two fields would be the column {name}")
    return fields


def _check_kind(options: LoadOptions, lake: LakeTable) -> None:
    names = lake.columns.names
    is_raw = (
        "value" in names and lake.columns.field("value").type == pa.binary() and set(RECORD_SCHEMA.names) <= set(names)
    )
    if options.format == "raw" and not is_raw:
        raise ConfigError(f"the table at {lake.uri} has no column value of bytes: it is not of format raw")
    if options.format == "json" and is_raw:
        raise ConfigError(f"the table at {lake.uri} has raw values: load it with format raw, or use another table")


def failed_commit(table: LakeTable, error: Exception) -> Exception:
    """What a commit raised, as an error of ours: of a full disk, a table that is gone, a store that does not answer."""
    if isinstance(error, PenstockError):
        return error
    return PenstockError(
        f"the commit to {table.uri} failed: {one_line(error)}\n"
        "  the table has all of the job or nothing of it; start the load again and it goes on from there"
    )
