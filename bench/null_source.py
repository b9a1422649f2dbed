"""A data source whose tasks hand over one cached batch of Kafka's columns, again and again; see bench/spark_uses.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

ROWS, TASKS = 10_000, 2
SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


class NullSource(DataSource):
    """Options: `records`, how many; `bytes`, of a value."""

    @classmethod
    def name(cls) -> str:
        return "null"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: Any) -> NullReader:
        return NullReader(int(self.options["records"]), int(self.options["bytes"]))


class NullReader(DataSourceReader):
    def __init__(self, records: int, value_bytes: int) -> None:
        self.records = records
        self.value_bytes = value_bytes

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        numbers = range(ROWS)
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array([b"%08d" % number for number in numbers], pa.binary()),
                pa.array([b"x" * self.value_bytes] * ROWS, pa.binary()),
                pa.array(["topic"] * ROWS),
                pa.array([0] * ROWS, pa.int32()),
                pa.array(numbers, pa.int64()),
                pa.array(numbers, pa.timestamp("us", "UTC")),
                pa.array([0] * ROWS, pa.int32()),
            ],
            names=[each.split()[0] for each in SCHEMA.split(", ")],
        )
        for _ in range(self.records // TASKS // ROWS):
            yield batch
