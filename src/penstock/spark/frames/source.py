"""`format("penstock-lake")`: the data source that Spark sees, and finds through the package `pyspark_penstock_lake`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from penstock.spark.frames.reader import BatchReader
    from penstock.spark.frames.sink import BatchWriter, StreamWriter
    from penstock.spark.frames.stream_reader import StreamReader


class LakeTables(DataSource):
    """DataFrames from Delta and Iceberg tables, and into them."""

    @classmethod
    def name(cls) -> str:
        return "penstock-lake"

    def schema(self) -> StructType:
        from penstock.spark.frames.read_options import parse
        from penstock.spark.frames.reader import history_of, schema_of

        options = parse(self.options)
        return schema_of(options, history_of(options))

    def reader(self, schema: StructType) -> BatchReader:
        from penstock.spark.frames.read_options import parse
        from penstock.spark.frames.reader import BatchReader  # who only writes needs none of it

        return BatchReader(parse(self.options, stream=False), schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        from penstock.spark.frames.read_options import parse
        from penstock.spark.frames.stream_reader import StreamReader

        return StreamReader(parse(self.options, stream=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from penstock.spark.frames.sink import BatchWriter  # pyarrow's import is for who writes

        return BatchWriter(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        from penstock.spark.frames.sink import StreamWriter

        return StreamWriter(schema, self.options, overwrite)
