"""What the rows of a table must say, made again from the brokers' records: decoded as a load of that format decodes.

A table's columns only ever grow, so a record that fitted when it was loaded fits now and gives the same row. With Avro
that row depends on one thing more: the schema that was the subject's latest at the time, to which values are resolved.
So there is a reader for each of the subject's versions, the newest first, and one without; a row is right if one of
them gives it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.spark.lake.derived import Derived
from penstock.spark.lake.records import RECORD_SCHEMA, TIMESTAMP
from penstock.spark.lake.table import LakeTable
from penstock.spark.load.formats.format import Format, Parsed
from penstock.spark.load.registry import Registry
from penstock.spark.load.work import TargetPlan, format_of

KEYS = ("topic", "topicId", "partition", "offset")
"""By these a row's record is found."""
REASON = "reason"
"""The column of a quarantine that says why a record is there."""


@dataclass(slots=True)
class Rows:
    """Records as the table must have them: a column each for some of its columns, a row for each that fits."""

    columns: Mapping[str, Any]
    parsed: Parsed | None
    """What became of the values; None in a table of raw ones."""


class Expected:
    """The rows that records must have become in one table.

    Args:
        lake: the table.
        format: "raw", "json" or "avro"; "auto": avro with a registry, else what the table's columns look like.
        registry: URL of the schema registry.

    Attributes:
        names: the columns that can be compared.
        left_out: those that cannot, with the reason.
    """

    def __init__(self, lake: LakeTable, format: str = "auto", registry: str | None = None) -> None:  # noqa: A002 - as options name it
        self._target = TargetPlan(lake.destination(), lake.columns)
        where = self._target.destination
        self._derived = {name: Derived.parse(text) for name, text in where.derived.items()}
        text = {each.name for each in lake.columns if pa.types.is_string(each.type)}
        self._without_empty = set() if where.keeps_partition_columns else text & set(where.partition_by)
        self._guessed = format == "auto"
        self.format = guess(lake.columns, registry) if self._guessed else format
        if (self.format == "avro") != (registry is not None):
            raise ConfigError("values of format avro, and they alone, need the schema registry: --schema-registry URL")
        self._registry = Registry(registry) if registry is not None else None
        self._readers: dict[str, list[Format]] = {}
        self.left_out: dict[str, str] = {}
        self.names = [each.name for each in lake.columns if each.name not in KEYS and self._can(each)]

    def _can(self, column: pa.Field) -> bool:
        """Whether a column can be compared; notes why not."""
        decoded = self.format != "raw"
        if column.name in self._derived:
            return True
        if column.name not in RECORD_SCHEMA.names or (column.name == "value" and decoded):
            if not decoded:
                told = "told when it was quarantined" if column.name == REASON else "of no record"
                self.left_out[column.name] = told
            return decoded
        if column.type != RECORD_SCHEMA.field(column.name).type:
            self.left_out[column.name] = (
                f"{column.type} in the table, {RECORD_SCHEMA.field(column.name).type} by a load"
            )
            return False
        return True

    def rows(self, topic: str, records: pa.RecordBatch, reader: int = 0) -> Rows | None:
        """The rows that records of one topic must have become; None if there is no such reader.

        Raises ConfigError for values that are plainly of another format, RegistryError.
        """
        own = {name: records.column(name) for name in self.names if name in records.schema.names}
        if self.format == "raw":
            return Rows(own | self._made(records), None) if reader == 0 else None
        own.pop("value", None)
        values = records.column("value")
        parsed = self._parse(topic, values, reader)
        if parsed is None:
            return None
        if self._guessed and self.format == "json" and any(values[at].as_py()[:1] == b"\0" for at in parsed.rejected):
            raise ConfigError("the values begin as Avro's do, with a zero byte: name their --schema-registry URL")
        if parsed.kept is not None:
            own = {name: _taken(column, parsed) for name, column in own.items()}
        theirs = dict(zip(parsed.columns.schema.names, parsed.columns.columns, strict=True))
        whole = {TIMESTAMP: _taken(records.column(TIMESTAMP), parsed)} | theirs
        own |= self._made(pa.RecordBatch.from_pydict(whole))
        for name in self._without_empty & theirs.keys():
            theirs[name] = pc.if_else(pc.equal(theirs[name], ""), None, theirs[name])
        return Rows(own | theirs, parsed)

    def _made(self, rows: pa.RecordBatch) -> dict[str, Any]:
        """The columns that a load makes of others."""
        return {name: each.of(rows) for name, each in self._derived.items() if name in self.names}

    def _parse(self, topic: str, values: pa.Array, reader: int) -> Parsed | None:
        readers = self._readers.get(topic) or self._open(topic)
        if reader >= len(readers):
            return None
        parsed = readers[reader].parse(topic, values)
        if parsed.unknown_schemas:
            assert self._registry is not None
            self._registry.learn({topic: parsed.unknown_schemas})
            self._readers.clear()
            parsed = self._open(topic)[reader].parse(topic, values)
        return parsed

    def _open(self, topic: str) -> Sequence[Format]:
        """Makes the readers of a topic."""
        if self._registry is None:
            plans: list[dict[str, Any]] = [{"name": self.format, "add_fields": False}]
        else:
            plan = {"name": "avro", **self._registry.plan()}
            versions = self._registry.versions(topic)
            plans = [{**plan, "readers": {topic: bundle}} for bundle in [*versions, None]]
        self._readers[topic] = [format_of(plan, self._target) for plan in plans]
        return self._readers[topic]


def _taken(column: pa.Array, parsed: Parsed) -> pa.Array:
    return column if parsed.kept is None else column.take(parsed.kept)


def guess(columns: pa.Schema, registry: str | None) -> str:
    """The format of a table's values by what is known of it."""
    if registry is not None:
        return "avro"
    names = columns.names
    raw = "value" in names and pa.types.is_binary(columns.field("value").type)
    return "raw" if raw and set(RECORD_SCHEMA.names) <= set(names) else "json"
