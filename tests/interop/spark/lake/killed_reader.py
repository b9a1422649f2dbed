"""A stream from table to table whose driver's process group is killed when a batch is in the second table."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from interop.spark.lake.killed_driver import KillingTables, KillingWriter
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Killing(KillingWriter):
    """Of this script, so that Spark's workers get it by value, with the group of the driver."""

    driver = os.getpgid(0)


class Tables(KillingTables):
    """The same."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> KillingWriter:  # noqa: N802 - Spark's name
        return Killing(schema, self.options, overwrite)


def follow(spark: SparkSession, source: Path, path: Path, checkpoint: Path, sink: str = "penstock-lake") -> None:
    """Adds what is new in one table to another, one file a batch."""
    rows = spark.readStream.format("penstock-lake").option("maxFilesPerTrigger", "1").load(str(source))
    writer = rows.writeStream.format(sink).option("checkpointLocation", str(checkpoint)).queryName("follow")
    writer.trigger(availableNow=True).start(str(path)).awaitTermination()


if __name__ == "__main__":
    from penstock.spark.session import session

    spark = session("a driver that is killed", master="local[2]")
    spark.dataSource.register(Tables)
    follow(spark, Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sink=Tables.name())
    sys.exit("it was not killed")
