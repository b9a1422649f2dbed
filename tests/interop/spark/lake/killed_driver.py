"""A driver whose whole process group is killed when a batch is in the table and Spark has not noted it as done."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.spark.frames.sink import StreamWriter
from penstock.spark.frames.source import LakeTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUP = os.getpgid(0)
KILLED_BATCH = 1


class KillingWriter(StreamWriter):
    """Ends the driver right after a batch's commit."""

    driver = GROUP

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        super().commit(messages, batchId)
        if batchId == KILLED_BATCH:
            os.killpg(self.driver, signal.SIGKILL)


class KillingTables(LakeTables):
    """The same under another name."""

    @classmethod
    def name(cls) -> str:
        return "penstock-lake-killed"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        return KillingWriter(schema, self.options, overwrite)


def run(
    spark: SparkSession,
    bootstrap: str,
    path: Path | str,
    checkpoint: Path | str,
    sink: str = "penstock-lake",
    **options: str,
) -> None:
    """Reads what is new of the topic in small batches, and adds the records with even offsets to the table."""
    clicks = spark.readStream.format("penstock").option("kafka.bootstrap.servers", bootstrap)
    clicks = clicks.option("subscribe", "clicks").option("startingOffsets", "earliest")
    kept = clicks.option("maxOffsetsPerTrigger", "1000").load().where("offset % 2 = 0")
    writer = kept.selectExpr("topic", "partition", "offset", "cast(value as string) as page").writeStream.format(sink)
    writer = writer.option("checkpointLocation", str(checkpoint)).options(**options).queryName("pages")
    writer.trigger(availableNow=True).start(str(path)).awaitTermination()


if __name__ == "__main__":
    from penstock.spark.session import session

    spark = session("a driver that is killed", master="local[2]")
    spark.dataSource.register(KillingTables)
    run(spark, sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sink=KillingTables.name())
    sys.exit("it was not killed")
