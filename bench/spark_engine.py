"""A Spark session under orders, for bench/spark.py: orders come as JSON, one a line; each gets one line of JSON back.

Three kinds: "connector", Spark's own Kafka connector on the Spark that it was released with, which needs nothing of
Penstock; "delta", Delta's own jar; and "penstock", the data source and the load into Delta. All have two cores and the
same Spark settings.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import signal
import statistics
import sys
import threading
import time
from typing import Any

TABLE_OPTIONS = {"compression": "zstd"}
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.parquet.compression.codec": "zstd",
}
PROGRESS_KEPT = "100000"


class Engine:
    """One session; `source` is the data source's name in it."""

    def __init__(self, spark: Any, source: str) -> None:
        self.spark = spark
        self.source = source

    def reader(self, reader: Any, order: dict[str, Any]) -> Any:
        given = {"kafka.bootstrap.servers": order["bootstrap"], "subscribe": order["topic"]}
        return reader.format(self.source).options(**given, startingOffsets="earliest", **order["options"]).load()

    def batch(self, order: dict[str, Any]) -> dict[str, Any]:
        """Reads a topic whole, into nothing or into Parquet."""
        frame = self.reader(self.spark.read, order)
        if order.get("column"):
            frame = frame.select(order["column"])
        if order["to"] == "noop":
            frame.write.format("noop").mode("overwrite").save()
        else:
            frame.write.options(**TABLE_OPTIONS).parquet(order["directory"])
        return {}

    def typed(self, order: dict[str, Any]) -> dict[str, Any]:
        """Reads JSON or Avro values as columns, into nothing."""
        options = order["options"]
        if self.source == "kafka":
            frame = self.reader(self.spark.read, {**order, "options": {}})
            frame = frame.withColumn(
                "value", decoded(options["penstock.value.format"], options["penstock.value.schema"])
            )
        else:
            frame = self.reader(self.spark.read, order)
        frame.select("value.*", "partition", "offset").write.format("noop").mode("overwrite").save()
        return {}

    def sink(self, order: dict[str, Any]) -> dict[str, Any]:
        """Writes rows that Spark makes to a topic."""
        rows = self.spark.range(0, order["records"], numPartitions=2)
        rows = rows.selectExpr(
            "cast(id as string) as key", f"rpad(sha2(cast(id as string), 256), {order['bytes']}, 'x') as value"
        )
        options = {name: value.replace("DIRECTORY", order["directory"]) for name, value in order["options"].items()}
        writer = rows.write.format(self.source).option("kafka.bootstrap.servers", order["bootstrap"]).mode("append")
        writer.options(**options).option("topic", order["topic"]).save()
        return {}

    def changes(self, order: dict[str, Any], first: int) -> Any:
        """Rows with a key, `id`; those from `first` on, `records` of them."""
        rows = self.spark.range(first, first + order["records"], numPartitions=2)
        text = f"rpad(sha2(cast(id as string), 256), {order['bytes']}, 'x') as text"
        return rows.selectExpr("id", f"{first} as version", text)

    def before_rewrite(self, order: dict[str, Any]) -> dict[str, Any]:
        """Makes the table that rows are upserted into."""
        self.changes(order, 0).write.options(**TABLE_OPTIONS).parquet(order["directory"] + "/old")
        return {}

    def rewrite(self, order: dict[str, Any]) -> dict[str, Any]:
        """Upserts a batch of which half is new as MERGE does where rows are rewritten: by a join."""
        from pyspark.sql import functions as f

        old = self.spark.read.parquet(order["directory"] + "/old").withColumnsRenamed({"version": "v", "text": "t"})
        new = self.changes(order, order["records"] // 2)
        is_new = f.col("version").isNotNull()
        both = old.join(new, "id", "full_outer").select(
            "id",
            f.when(is_new, f.col("version")).otherwise(f.col("v")).alias("version"),
            f.when(is_new, f.col("text")).otherwise(f.col("t")).alias("text"),
        )
        both.write.options(**TABLE_OPTIONS).parquet(order["directory"] + "/new")
        return {}

    def available_now(self, order: dict[str, Any]) -> dict[str, Any]:
        """The same as a stream that ends when it has caught up, with a checkpoint."""
        query = self.stream(order).trigger(availableNow=True).start()
        query.awaitTermination()
        return {"rows": sum(each["numInputRows"] for each in query.recentProgress)}

    def stream(self, order: dict[str, Any]) -> Any:
        frame = self.reader(self.spark.readStream, order)
        writer = frame.writeStream.option("checkpointLocation", order["directory"] + "-checkpoint")
        if order["to"] == "noop":
            return writer.format("noop")
        if order["to"] == "lake":
            return writer.format("penstock-lake").option("path", order["directory"])
        return writer.format("parquet").options(**TABLE_OPTIONS).option("path", order["directory"])

    def start(self, order: dict[str, Any]) -> dict[str, Any]:
        """Starts a stream that runs batch after batch."""
        self.query = self.stream(order).trigger(processingTime="0 seconds").start()
        return {}

    def stop(self, order: dict[str, Any]) -> dict[str, Any]:
        """Ends it; the median time of its batches, those of its first seconds left out."""
        self.query.stop()
        if (error := self.query.exception()) is not None:
            raise error
        progress = [each for each in self.query.recentProgress if each["numInputRows"]]
        batches = [each["durationMs"]["triggerExecution"] for each in progress]
        return {"batch_ms": statistics.median(batches[len(batches) // 5 :]), "batches": len(batches)}


class DeltaEngine(Engine):
    """Delta's own jar, and its MERGE."""

    def before_merge(self, order: dict[str, Any]) -> dict[str, Any]:
        """Makes the table that rows are upserted into."""
        self.changes(order, 0).write.format("delta").options(**TABLE_OPTIONS).save(order["directory"])
        return {}

    def merge(self, order: dict[str, Any]) -> dict[str, Any]:
        """Upserts a batch of which half is new."""
        self.changes(order, order["records"] // 2).createOrReplaceTempView("changes")
        self.spark.sql(
            f"merge into delta.`{order['directory']}` t using changes c on t.id = c.id "
            "when matched then update set * when not matched then insert *"
        ).collect()
        return {}


class PenstockEngine(Engine):
    """Also loads into Delta, without Spark's streaming."""

    def ceiling(self, order: dict[str, Any]) -> dict[str, Any]:
        """Reads a source that hands over one and the same batch, again and again: the ceiling of all in Python."""
        import null_source
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(null_source)  # Spark's own processes do not have this directory
        self.spark.dataSource.register(null_source.NullSource)
        given = {"records": str(order["records"]), "bytes": str(order["bytes"]), "column": order.get("column", "")}
        self.spark.read.format("null").options(**given).load().write.format("noop").mode("overwrite").save()
        return {}

    def before_upsert(self, order: dict[str, Any]) -> dict[str, Any]:
        """Makes the table that rows are upserted into."""
        from penstock.spark.frames.upsert import upsert

        upsert(self.changes(order, 0), order["directory"], upsertBy="id")
        return {}

    def upsert(self, order: dict[str, Any]) -> dict[str, Any]:
        """Upserts a batch of which half is new."""
        from penstock.spark.frames.upsert import upsert

        upsert(self.changes(order, order["records"] // 2), order["directory"], upsertBy="id")
        return {}

    def load(self, order: dict[str, Any]) -> dict[str, Any]:
        """Loads a topic whole."""
        rows: list[int] = []
        with self.opened(order) as load:
            load.run(threading.Event(), 0, lambda outcome: rows.append(outcome.rows), once=True)
        return {"rows": sum(rows)}

    def opened(self, order: dict[str, Any]) -> Any:
        from penstock.spark.load.load import Load, LoadOptions

        return Load(self.spark, LoadOptions(order["bootstrap"], [order["topic"]], order["directory"], "bench"))

    def start_load(self, order: dict[str, Any]) -> dict[str, Any]:
        """Starts a load that runs job after job."""
        self.jobs: list[float] = []
        self.failed: list[BaseException] = []
        self.ending = threading.Event()

        def keep_loading() -> None:
            try:
                with self.opened(order) as load:
                    load.run(self.ending, 0, lambda outcome: self.jobs.append(outcome.seconds * 1000), once=False)
            except BaseException as error:
                self.failed.append(error)

        self.loading = threading.Thread(target=keep_loading)
        self.loading.start()
        return {}

    def stop_load(self, order: dict[str, Any]) -> dict[str, Any]:
        self.ending.set()
        self.loading.join()
        for error in self.failed:
            raise error
        return {"batch_ms": statistics.median(self.jobs[len(self.jobs) // 5 :]), "batches": len(self.jobs)}


def decoded(kind: str, schema: str) -> Any:
    """A record's value as Spark's own functions make columns of it."""
    from pyspark.sql import functions as f

    if kind == "json":
        return f.from_json(f.col("value").cast("string"), schema)
    from pyspark.sql.avro.functions import from_avro

    return from_avro(f.col("value"), schema)


def connector_session(settings: dict[str, str], jars: list[str]) -> Any:
    """A session of plain PySpark with the connector's jars."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("bench connector").config("spark.jars", ",".join(jars))
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def engine_of(kind: str, settings: dict[str, str], jars: list[str]) -> Engine:
    settings = {**settings, "spark.sql.streaming.numRecentProgressUpdates": PROGRESS_KEPT}
    if kind == "delta":
        return DeltaEngine(connector_session(settings | DELTA_SETTINGS, jars), "kafka")
    if kind == "connector":
        return Engine(connector_session(settings, jars), "kafka")
    from penstock.spark.session import session

    return PenstockEngine(session("bench penstock", master="local[2]", settings=settings), "penstock")


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    faulthandler.register(signal.SIGUSR1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Spark prints is not an answer
    engine = engine_of(**json.loads(sys.stdin.readline()))
    engine.spark.sparkContext.setLogLevel("ERROR")
    print(json.dumps({"spark": engine.spark.version}), file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        began = time.perf_counter()
        try:
            answer = getattr(engine, order["do"])(order)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error)[:2000]}"}
        answer["seconds"] = time.perf_counter() - began
        print(json.dumps(answer), file=answers, flush=True)
    with contextlib.suppress(Exception):
        engine.spark.stop()


if __name__ == "__main__":
    main()
