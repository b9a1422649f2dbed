"""A stream of upserts; as a script its driver is killed by what the environment says: `after` a commit, or `before`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.spark.frames.upsert import upserts
from penstock.spark.lake.delta import BATCH_KEY, DeltaLake
from penstock.spark.lake.table import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 70


def run(spark: SparkSession, table_format: str, source: Path, path: Path, checkpoint: Path) -> None:
    """Upserts what is new of numbered rows, counted by key: a file of the source is a batch."""
    rows = spark.readStream.schema("n bigint").option("maxFilesPerTrigger", "1").parquet(str(source))
    counts = rows.groupBy((rows["n"] % KEYS).alias("key")).count().withColumnRenamed("count", "rows")
    write = upserts(str(path), upsertBy="key", tableFormat=table_format)
    writer = counts.writeStream.outputMode("update").foreachBatch(write).queryName("counts")
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def commits(lake: LakeTable) -> int:
    """How many commits of a table were a batch's."""
    if isinstance(lake, DeltaLake):
        return len([each for each in lake.table.history() if BATCH_KEY in each])
    summaries = [each.summary for each in lake.table.snapshots() if each.summary is not None]  # type: ignore[attr-defined]
    return len([each for each in summaries if BATCH_KEY in each.additional_properties])


def kill_at(point: str, kind: Any) -> None:
    """Ends the process group at the second commit that it would make."""
    replace, calls = kind.replace, []

    def killing(*parts: Any) -> bool:
        calls.append(1)
        if point == "before" and len(calls) == 2:
            os.killpg(0, signal.SIGKILL)
        done = replace(*parts)
        if point == "after" and len(calls) == 2:
            os.killpg(0, signal.SIGKILL)
        return done

    kind.replace = killing


if __name__ == "__main__":
    from penstock.spark.session import session

    if sys.argv[2] == "iceberg":
        from penstock.spark.lake.iceberg import IcebergLake

        kill_at(sys.argv[1], IcebergLake)
    else:
        kill_at(sys.argv[1], DeltaLake)
    where = (Path(each) for each in sys.argv[3:])
    run(session("a driver that is killed", master="local[2]"), sys.argv[2], *where)
    sys.exit("it was not killed")
