"""A stream of upserts; as a script its driver is killed by what the environment says: `after` a commit, or `before`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.spark.frames.upsert import upserts
from penstock.spark.lake.delta import DeltaLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 70


def run(spark: SparkSession, source: Path, path: Path, checkpoint: Path) -> None:
    """Upserts what is new of numbered rows, counted by key: a file of the source is a batch."""
    rows = spark.readStream.schema("n bigint").option("maxFilesPerTrigger", "1").parquet(str(source))
    counts = rows.groupBy((rows["n"] % KEYS).alias("key")).count().withColumnRenamed("count", "rows")
    writer = (
        counts.writeStream.outputMode("update").foreachBatch(upserts(str(path), upsertBy="key")).queryName("counts")
    )
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def kill_at(point: str) -> None:
    """Ends the process group at the second commit that it would make."""
    replace, calls = DeltaLake.replace, []

    def killing(*parts: Any) -> bool:
        calls.append(1)
        if point == "before" and len(calls) == 2:
            os.killpg(0, signal.SIGKILL)
        done = replace(*parts)
        if point == "after" and len(calls) == 2:
            os.killpg(0, signal.SIGKILL)
        return done

    DeltaLake.replace = killing  # type: ignore[method-assign]


if __name__ == "__main__":
    from penstock.spark.session import session

    kill_at(sys.argv[1])
    run(session("a driver that is killed", master="local[2]"), *(Path(each) for each in sys.argv[2:]))
    sys.exit("it was not killed")
