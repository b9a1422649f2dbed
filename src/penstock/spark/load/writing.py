"""The Spark side of a load: tasks that do their work themselves, and hand Spark one row a thing to tell.

A private data source, because that is Spark's cheapest way to run Python that brings its own input; its plan comes
ready-made from the driver as an option.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.spark.load.work import JobPlan, work
from penstock.spark.read.plan import OffsetRange


@dataclass(frozen=True, slots=True)
class WriteTask(InputPartition):
    """The part of a job that one task loads."""

    ranges: Sequence[OffsetRange]


class LoadSource(DataSource):
    """`format("penstock-load")` with a `JobPlan` as the option `plan`; its rows are what tasks tell."""

    @classmethod
    def name(cls) -> str:
        return "penstock-load"

    def schema(self) -> str:
        return "told string"

    def reader(self, schema: StructType) -> LoadReader:
        return LoadReader(self.options["plan"])


class LoadReader(DataSourceReader):
    """Runs a plan."""

    def __init__(self, plan: str) -> None:
        self._plan = plan

    def partitions(self) -> Sequence[InputPartition]:
        return [WriteTask(ranges) for ranges in JobPlan.from_json(self._plan).tasks]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        assert isinstance(partition, WriteTask)
        for line in work(JobPlan.from_json(self._plan), partition.ranges):
            yield (line,)
