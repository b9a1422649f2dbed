"""Streaming queries that start at the same moment, without harm to the source that they share.

For each Python data source that Spark finds by itself it keeps one map of environment variables, for the life of its
Java process. A streaming query that starts puts a few names into it, without a lock (`PythonStreamingSourceRunner.init`
of Spark 4.0 to 4.3). When two queries put the same new name at once, the map may count it twice and hold it once. From
then on no plan that reads from the source can be sent to a task ("Task not serializable: Illegal size 5 of collection,
expected 6"), and no restart of a query mends that: the map is as old as the process.

Putting a name that is there changes its value only. So `share` puts all of them, under a lock, before any query starts;
a map that queries started without it have harmed is made anew, for those that start next. The map of a Spark Connect
server is out of reach: there `started` starts one query after the other.
"""

from __future__ import annotations

import threading
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from penstock.spark.limits import SPARK_QUERY_LOOK_S, SPARK_QUERY_START_TIMEOUT_S
from penstock.spark.session import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

TOPICS = "penstock"
LAKE_TABLES = "penstock-lake"
PUT_BY_QUERIES = {
    "SPARK_LOCAL_DIRS": "",
    "SPARK_AUTH_SOCKET_TIMEOUT": "",
    "SPARK_BUFFER_SIZE": "",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}
"""The names, with values that do for whoever starts a Python worker: it sets those that are empty here."""
_PUTTING = threading.Lock()
_STARTING = threading.Lock()


def share(spark: SparkSession, source: str) -> None:
    """Lets streaming queries that read from a source start at once. Call it before the first of them starts.

    Args:
        spark: a session; one call does for all that its Java process has.
        source: TOPICS or LAKE_TABLES.

    Raises PySparkException when Spark does not find the source.
    """
    if is_remote(spark):
        return
    with _PUTTING:
        variables = variables_of(spark, source)
        _mend(variables)
        for name, value in PUT_BY_QUERIES.items():
            if name not in variables:
                variables[name] = value


def _mend(variables: Any) -> None:
    """Makes a map that counts other than it holds hold what it can still tell."""
    from py4j.java_gateway import get_method  # type: ignore[import-untyped]  # py4j has no types

    held = dict(variables)
    if len(held) != len(variables):
        get_method(variables, "clear")()  # Java's: Python's would leave the count as it is
        variables.update(held)


def variables_of(spark: SparkSession, source: str) -> Any:
    """The map of environment variables that all queries of a source share, as it is in Java."""
    java: Any = spark._jsparkSession
    return java.sessionState().dataSourceManager().lookupDataSource(source).dataSourceCls().envVars()


def started(spark: SparkSession, writer: DataStreamWriter) -> StreamingQuery:
    """Starts a query; one of Spark Connect has put its names when this returns, and no other puts any until then."""
    if not is_remote(spark):
        return writer.start()
    with _STARTING:
        query = writer.start()
        until = monotonic() + SPARK_QUERY_START_TIMEOUT_S
        while query.isActive and query.status["message"].startswith("Initializing") and monotonic() < until:
            sleep(SPARK_QUERY_LOOK_S)
        return query
