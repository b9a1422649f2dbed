"""What one task of a load does: fetch, decode, and write data files itself; it tells of them in lines of JSON.

So the data never crosses into the JVM. The same function runs in a Spark task and, for small jobs, in the driver.
A line is one of: `file` (of a table or its quarantine), `gaps`, `unknown` (columns that a table lacks; nothing counts
then), `schemas` (ids of Avro schemas that the plan lacks; likewise) and `error`.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.client.security import client_security
from penstock.errors import PenstockError
from penstock.spark.lake.destination import Destination
from penstock.spark.lake.records import RECORD_SCHEMA, Gap, TopicPartition
from penstock.spark.load.files import Files
from penstock.spark.load.formats.avro import AvroFormat
from penstock.spark.load.formats.bounded import Bounded
from penstock.spark.load.formats.format import OWN_COLUMNS, Format, Parsed
from penstock.spark.load.formats.json import JsonFormat
from penstock.spark.load.formats.raw import RawFormat
from penstock.spark.read.plan import OffsetRange

QUARANTINED = "quarantined"
"""Reason of a gap in a table: the record is in the quarantine table."""
QUARANTINE_SCHEMA = RECORD_SCHEMA.append(pa.field("reason", pa.string()))
Range = tuple[str, str, int, int, int]


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """A table that a job writes, as its tasks need it. `columns` are all of the table's."""

    destination: Destination
    columns: pa.Schema
    quarantine: Destination | None = None

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The columns that are the record's, or made, and not the value's."""
        return (*OWN_COLUMNS, *self.destination.derived)

    @property
    def value_columns(self) -> pa.Schema:
        return pa.schema([each for each in self.columns if each.name not in self.own_columns])

    def to_json(self) -> list[Any]:
        columns = base64.b64encode(self.columns.serialize().to_pybytes()).decode()
        return [self.destination.to_json(), columns, self.quarantine.to_json() if self.quarantine else None]

    @classmethod
    def from_json(cls, told: Sequence[Any]) -> TargetPlan:
        columns = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(told[1])))
        quarantine = None if told[2] is None else Destination.from_json(told[2])
        return cls(Destination.from_json(told[0]), columns, quarantine)


@dataclass(frozen=True, slots=True)
class JobPlan:
    """All that the tasks of a job need; travels as text, because Spark's options are strings.

    `format` is the format's name with what it needs; `topics` names the target of each topic; `tasks` are the ranges.
    """

    connect: Mapping[str, Any]
    skip_corrupt: bool
    format: Mapping[str, Any]
    targets: Sequence[TargetPlan]
    topics: Mapping[str, int]
    tasks: Sequence[Sequence[OffsetRange]] = field(default_factory=list)

    def to_json(self) -> str:
        told = {
            "connect": dict(self.connect),
            "skip_corrupt": self.skip_corrupt,
            "format": dict(self.format),
            "targets": [each.to_json() for each in self.targets],
            "topics": dict(self.topics),
            "tasks": [[(r.topic, str(r.topic_id), r.partition, r.start, r.end) for r in task] for task in self.tasks],
        }
        return json.dumps(told)

    @classmethod
    def from_json(cls, text: str) -> JobPlan:
        told = json.loads(text)
        targets = [TargetPlan.from_json(each) for each in told["targets"]]
        tasks = [[OffsetRange(t, uuid.UUID(i), p, a, b) for t, i, p, a, b in task] for task in told["tasks"]]
        return cls(told["connect"], told["skip_corrupt"], told["format"], targets, told["topics"], tasks)


def format_of(plan: Mapping[str, Any], target: TargetPlan) -> Format:
    """The format that a plan names, for one table."""
    made = _format_of(plan, target)
    text = [each.name for each in target.value_columns if pa.types.is_string(each.type)]
    by = [name for name in target.destination.partition_by if name in text]
    return Bounded(made, by) if by else made


def _format_of(plan: Mapping[str, Any], target: TargetPlan) -> Format:
    if plan["name"] == "json":
        return JsonFormat(target.value_columns, target.own_columns, add_fields=plan["add_fields"])
    if plan["name"] == "avro":
        schemas = dict(plan["schemas"])
        return AvroFormat(target.value_columns, plan["readers"], schemas, plan["known"], target.own_columns)
    assert plan["name"] == "raw", plan["name"]
    return RawFormat()


def work(plan: JobPlan, ranges: Sequence[OffsetRange]) -> Iterator[str]:
    """Loads ranges and yields messages about it. Errors that a person can act on are reported, not raised."""
    task = _Task(plan)
    try:
        task.load(ranges)
        yield from task.told()
    except (PenstockError, OSError) as error:
        task.abort()
        wrote = "" if isinstance(error, PenstockError) else "the files could not be written: "
        yield json.dumps({"error": f"{wrote}{error}"})
    except BaseException:
        task.abort()
        raise


class _Task:
    def __init__(self, plan: JobPlan) -> None:
        self._plan = plan
        self._formats: dict[int, Format] = {}
        self._files: dict[tuple[int, bool], Files] = {}
        self._gaps: list[Gap] = []
        self._epochs: dict[TopicPartition, dict[int, int]] = {}
        self._unknown: dict[int, dict[str, pa.DataType]] = {}
        self._schemas: dict[str, set[int]] = {}

    def load(self, ranges: Sequence[OffsetRange]) -> None:
        from penstock.spark.read.decoding import Corrupt  # the kernels: only where records are read
        from penstock.spark.read.fetching import Connect, decoded, gaps_of, record_batch

        told = self._plan.connect
        security = client_security(told["security"])
        connect = Connect(**{**told, "log_dirs": tuple(told["log_dirs"]), "security": security})
        for wanted, got in decoded(connect, ranges, skip_corrupt=self._plan.skip_corrupt):
            self._gaps += gaps_of(wanted, got)
            if not isinstance(got, Corrupt):
                partition = TopicPartition(wanted.topic, wanted.topic_id, wanted.partition)
                self._epochs.setdefault(partition, {}).update(got.epochs)
            if not isinstance(got, Corrupt) and got.batch.num_rows:
                self._take(wanted, record_batch(wanted, got))

    def _take(self, wanted: OffsetRange, records: pa.RecordBatch) -> None:
        """Records of one topic into its table, or into the quarantine."""
        from penstock.spark.load.formats.format import wider

        at = self._plan.topics[wanted.topic]
        if at not in self._formats:
            self._formats[at] = format_of(self._plan.format, self._plan.targets[at])
        parsed = self._formats[at].parse(wanted.topic, records.column("value"))
        for name, kind in parsed.unknown.items():
            unknown = self._unknown.setdefault(at, {})
            unknown[name] = wider(unknown.get(name), kind)
        if parsed.unknown_schemas:
            self._schemas.setdefault(wanted.topic, set()).update(parsed.unknown_schemas)
        if self._unknown or self._schemas:
            return  # the job runs again: only what else is new counts
        if parsed.columns.num_rows:
            self._to(at, quarantine=False).write(_joined(records, parsed))
        if parsed.rejected:
            self._reject(at, wanted, records, parsed.rejected)

    def _reject(self, at: int, wanted: OffsetRange, records: pa.RecordBatch, rejected: Mapping[int, str]) -> None:
        rows = sorted(rejected)
        some = records.take(pa.array(rows, pa.int64()))
        reasons = pa.array([rejected[row] for row in rows], pa.string())
        self._to(at, quarantine=True).write(
            pa.RecordBatch.from_arrays([*some.columns, reasons], schema=QUARANTINE_SCHEMA)
        )
        partition = TopicPartition(wanted.topic, wanted.topic_id, wanted.partition)
        for offset in some.column("offset").to_pylist():
            last = self._gaps[-1] if self._gaps else None
            if last is not None and (last.partition, last.end, last.reason) == (partition, offset, QUARANTINED):
                self._gaps[-1] = Gap(partition, last.start, offset + 1, QUARANTINED)
            else:
                self._gaps.append(Gap(partition, offset, offset + 1, QUARANTINED))

    def _to(self, at: int, *, quarantine: bool) -> Files:
        key = (at, quarantine)
        if key not in self._files:
            target = self._plan.targets[at]
            destination = target.quarantine if quarantine else target.destination
            assert destination is not None, "only formats that reject have a quarantine"
            self._files[key] = Files(destination, QUARANTINE_SCHEMA if quarantine else target.columns)
        return self._files[key]

    def told(self) -> Iterator[str]:
        if self._unknown or self._schemas:
            self.abort()
            for at, columns in self._unknown.items():
                schema = base64.b64encode(pa.schema(sorted(columns.items())).serialize().to_pybytes()).decode()
                yield json.dumps({"unknown": schema, "target": at})
            if self._schemas:
                yield json.dumps({"schemas": {topic: sorted(ids) for topic, ids in self._schemas.items()}})
            return
        for (at, quarantine), files in self._files.items():
            for file in files.close():
                names = (name for name in file.__slots__)
                yield json.dumps(
                    {"file": {name: getattr(file, name) for name in names}, "target": at, "quarantine": quarantine}
                )
        if self._gaps:
            flat = [
                (g.partition.topic, str(g.partition.topic_id), g.partition.partition, g.start, g.end, g.reason)
                for g in self._gaps
            ]
            yield json.dumps({"gaps": flat})
        seen = [(p.topic, str(p.topic_id), p.partition, list(some.items())) for p, some in self._epochs.items()]
        yield json.dumps({"epochs": seen})

    def abort(self) -> None:
        for files in self._files.values():
            files.abort()


def _joined(records: pa.RecordBatch, parsed: Parsed) -> pa.RecordBatch:
    """The record's own columns beside those of its value."""
    kept = records if parsed.kept is None else records.take(parsed.kept)
    columns = {name: kept.column(name) for name in OWN_COLUMNS}
    columns |= dict(zip(parsed.columns.schema.names, parsed.columns.columns, strict=True))
    return pa.RecordBatch.from_pydict(columns)
