"""A data source whose tasks hand over one cached batch of Kafka's columns, again and again; see bench/spark_uses.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

ROWS, TASKS = 10_000, 2
SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


class NullSource(DataSource):
    """Options: `records`, how many; `bytes`, of a value; `column`, the only one, all if it is empty."""

    @classmethod
    def name(cls) -> str:
        return "null"

    def schema(self) -> str:
        column = self.options["column"]
        return next(each for each in SCHEMA.split(", ") if each.startswith(f"{column} ")) if column else SCHEMA

    def reader(self, schema: Any) -> NullReader:
        return NullReader(int(self.options["records"]), int(self.options["bytes"]), self.options["column"])


class NullReader(DataSourceReader):
    def __init__(self, records: int, value_bytes: int, column: str) -> None:
        self.records, self.value_bytes, self.column = records, value_bytes, column

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = whole_batch(self.value_bytes)
        if self.column:
            batch = batch.select([self.column])
        left = self.records // TASKS
        while left > 0:
            yield batch.slice(0, left)
            left -= ROWS


def whole_batch(value_bytes: int) -> pa.RecordBatch:
    numbers = range(ROWS)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([b"%08d" % number for number in numbers], pa.binary()),
            pa.array([b"x" * value_bytes] * ROWS, pa.binary()),
            pa.array(["topic"] * ROWS),
            pa.array([0] * ROWS, pa.int32()),
            pa.array(numbers, pa.int64()),
            pa.array(numbers, pa.timestamp("us", "UTC")),
            pa.array([0] * ROWS, pa.int32()),
        ],
        names=[each.split()[0] for each in SCHEMA.split(", ")],
    )
