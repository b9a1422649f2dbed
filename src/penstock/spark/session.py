"""The Spark session of pipelines: local by default, with the settings that small frequent jobs need, in one place.

Each default says why it is there; `penstock load --explain` prints them. What the user sets wins.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS: Mapping[str, tuple[str, str]] = {
    "spark.driver.memory": ("1g", "the data stays in Python and Arrow; the JVM only plans"),
    "spark.ui.enabled": ("false", "no port is opened unless asked for"),
    "spark.ui.showConsoleProgress": ("false", "the load draws its own progress line"),
    "spark.sql.shuffle.partitions": ("4", "200 tasks for a shuffle of a laptop's data cost more than they share"),
    "spark.python.unix.domain.socket.enabled": ("true", "halves the fixed cost of a small job (64-78 ms, not 152 ms)"),
    "spark.sql.execution.arrow.pyspark.enabled": ("true", "rows reach Python as Arrow batches"),
    "spark.sql.session.timeZone": ("UTC", "timestamps mean the same on every machine"),
    "spark.driver.bindAddress": ("127.0.0.1", "a local session is nobody else's business"),
    "spark.driver.host": ("127.0.0.1", "a local session is nobody else's business"),
}
JAVA_STOP_TIMEOUT_S = 10
LOCAL_ONLY = frozenset({"spark.driver.bindAddress", "spark.driver.host"})


def session(
    app_name: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> SparkSession:
    """Starts or joins the process's Spark session.

    Args:
        app_name: what Spark's own tools call it.
        master: Spark master URL; None is local[*].
        settings: Spark settings that win over the defaults above.
        log: file that gets what the JVM and the Python workers write to stderr; None leaves it on ours.

    Raises:
        JavaMissingError: no Java 17 or newer on the machine and no `penstock[java]`.
    """
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession  # half a second: only when a session is wanted

    local = master is None or master.startswith("local")
    builder = SparkSession.builder.appName(app_name).master(master or "local[*]")
    for name, (value, _) in DEFAULTS.items():
        if local or name not in LOCAL_ONLY:
            builder = builder.config(name, value)
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    interrupt = signal.getsignal(signal.SIGINT)
    with stderr_to(log):
        spark = builder.getOrCreate()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)  # Spark takes Ctrl-C for itself; whoever asked for a session keeps it
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def end(spark: SparkSession) -> None:
    """Stops the session and its Java process, and returns when that has ended: `spark.stop` alone leaves it running."""
    from pyspark import SparkContext

    spark.stop()
    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # what tells it to end
        try:
            process.wait(JAVA_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def stderr_to(log: Path | None) -> Iterator[None]:
    """Lets processes that are started within the block write their stderr to a file, for as long as they live."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    ours = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def explain() -> str:
    """The defaults and their reasons, one a line."""
    width = max(map(len, DEFAULTS))
    return "\n".join(f"{name:{width}}  {value:8}  {why}" for name, (value, why) in DEFAULTS.items())
