"""The Spark side of a load: tasks that fetch, decode and write Parquet themselves, and hand Spark one row a file.

So the data never crosses into the JVM. A private data source, because that is Spark's cheapest way to run Python that
brings its own input; its plan comes ready-made from the driver as an option.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.errors import PenstockError
from penstock.spark.read.plan import OffsetRange

ROW = "path string, size_bytes bigint, rows bigint, low string, high string, gaps string, error string"
PARQUET_COMPRESSION = "zstd"


@dataclass(frozen=True, slots=True)
class WriteTask(InputPartition):
    """What one task loads."""

    ranges: Sequence[OffsetRange]


class LoadSource(DataSource):
    """`format("penstock-load")` with the option `plan` of `plan_option`; its rows are the files that tasks wrote."""

    @classmethod
    def name(cls) -> str:
        return "penstock-load"

    def schema(self) -> str:
        return ROW

    def reader(self, schema: StructType) -> LoadReader:
        return LoadReader(json.loads(self.options["plan"]))


class LoadReader(DataSourceReader):
    """Runs a plan."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self.connect: dict[str, Any] = plan["connect"]
        self.directory: str = plan["directory"]
        self.skip_corrupt: bool = plan["skip_corrupt"]
        self.tasks = [[OffsetRange(t, uuid.UUID(i), p, a, b) for t, i, p, a, b in task] for task in plan["tasks"]]

    def partitions(self) -> Sequence[InputPartition]:
        return [WriteTask(ranges) for ranges in self.tasks]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, WriteTask)
        try:
            yield from write(self.connect, partition.ranges, self.directory, skip_corrupt=self.skip_corrupt)
        except PenstockError as error:  # told to the driver as it is: Spark would wrap it in pages of its own
            yield (None, 0, 0, "{}", "{}", "[]", str(error))


def plan_option(
    connect: Any, tasks: Sequence[Sequence[OffsetRange]], directory: str, *, skip_corrupt: bool = False
) -> str:
    """A plan as text: Spark's options are strings."""
    flat = [[(r.topic, str(r.topic_id), r.partition, r.start, r.end) for r in task] for task in tasks]
    fields = {name: getattr(connect, name) for name in connect.__slots__}
    return json.dumps({"connect": fields, "directory": directory, "tasks": flat, "skip_corrupt": skip_corrupt})


def write(
    connect: Mapping[str, Any], ranges: Sequence[OffsetRange], directory: str, *, skip_corrupt: bool = False
) -> Iterator[tuple[Any, ...]]:
    """Loads ranges into one new Parquet file and yields its row: none if the ranges hold no record and no gap.

    A task that Spark runs twice leaves a second file that no commit names; vacuum removes it. A task that fails removes
    its own.

    Raises CorruptBatchError for a broken batch unless `skip_corrupt` has it recorded as a gap; RequestError and
    UnreachableError as the brokers make them.
    """
    import pyarrow.parquet as pq  # workers only, as the kernels

    from penstock.spark.lake.records import RECORD_SCHEMA, Statistics
    from penstock.spark.read.decoding import Corrupt
    from penstock.spark.read.fetching import Connect, decoded, gaps_of, record_batch

    path = f"part-{uuid.uuid4()}.parquet"
    target = os.path.join(directory, path)
    rows, gaps, statistics = 0, [], Statistics()
    writer = None
    try:
        for wanted, got in decoded(Connect(**connect), ranges, skip_corrupt=skip_corrupt):
            gaps += [
                (wanted.topic, str(wanted.topic_id), g.partition.partition, g.start, g.end, g.reason)
                for g in gaps_of(wanted, got)
            ]
            if isinstance(got, Corrupt) or not got.batch.num_rows:
                continue
            if writer is None:
                writer = pq.ParquetWriter(target, RECORD_SCHEMA, compression=PARQUET_COMPRESSION)
            batch = record_batch(wanted, got)
            writer.write_batch(batch)
            statistics.add(batch)
            rows += batch.num_rows
    except BaseException:
        if writer is not None:
            writer.close()
            os.unlink(target)
        raise
    if writer is not None:
        writer.close()
    size_bytes = os.path.getsize(target) if writer is not None else 0
    if writer is not None or gaps:
        told = [json.dumps(each) for each in (statistics.low, statistics.high, gaps)]
        yield (path if writer is not None else None, size_bytes, rows, *told, None)
