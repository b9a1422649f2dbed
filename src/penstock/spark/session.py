"""The Spark session of pipelines: local by default, a cluster by its master, or Spark Connect by its address.

`DEFAULTS` are the settings that small frequent jobs need, each with its reason; `--explain` prints them. What the user
sets wins. A session of Spark Connect takes only what can be set while Spark runs; the rest is its server's.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError, PenstockError
from penstock.spark.java import find_java
from penstock.spark.limits import SPARK_ANSWER_TIMEOUT_S, SPARK_ARROW_BATCH_ROWS, SPARK_DYNAMIC_TASKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINT_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
CONDITION = re.compile(r"(?:[\w.$]+: )?\[(?!STREAM_FAILED|FOREACH|PYTHON_DATA_SOURCE_ERROR)[A-Z_.]+\] ")
"""Spark's error conditions; not those that only pass on what failed below them."""
CONNECT_PORT = "15002"
JAVA_STOP_TIMEOUT_S = 10
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
SHUFFLE_PARTITIONS_PER_CORE = 3
"""What Spark's own guide to tuning advises (2 to 3): tasks are never all of one length."""
REDACTED = (
    "(?i)secret|password|passwd|token|credential|access[._]?key|account[._]?key|sasl[._]username|jaas|basic[._]auth|"
    "ssl[._]key|keystore|://[^/ ]*:[^/ ]*@"
)
"""Names of settings and options whose values Spark hides, and values that it hides whatever they are called."""
SPARK_MINIMUM = (4, 0)


@dataclass(frozen=True, slots=True)
class Default:
    """A Spark setting that we choose.

    `only` is "" for every session, "local" or "cluster"; `live` settings can be set while Spark runs, so a session of
    Spark Connect has them too.
    """

    value: str
    why: str
    only: str = ""
    live: bool = False


DEFAULTS: Mapping[str, Default] = {
    "spark.driver.memory": Default("1g", "the data stays in Python and Arrow; the JVM only plans"),
    "spark.executor.memory": Default("1g", "the same; it has to fit into a worker", only="cluster"),
    "spark.scheduler.mode": Default("FAIR", "pipelines that share a session take turns; a long job holds up none"),
    "spark.ui.enabled": Default("false", "a local session opens no port unless asked for", only="local"),
    "spark.ui.showConsoleProgress": Default("false", "pipelines draw their own progress line"),
    "spark.sql.shuffle.partitions": Default(
        "4", "200 tasks for a shuffle of a small batch cost more than they share on one machine", only="local"
    ),
    UNIX_SOCKETS: Default("true", "halves the fixed cost of a small job (64-78 ms, not 152 ms); not on YARN"),
    "spark.sql.streaming.checkpointFileManagerClass": Default(
        CHECKPOINT_MANAGER, "the other half of that: checkpoints are renamed, without a checksum file each", live=True
    ),
    "spark.sql.execution.arrow.pyspark.enabled": Default("true", "rows reach Python as Arrow batches", live=True),
    "spark.sql.execution.arrow.maxRecordsPerBatch": Default(
        str(SPARK_ARROW_BATCH_ROWS), "large enough to be cheap a row, small enough for a worker's memory", live=True
    ),
    "spark.sql.session.timeZone": Default("UTC", "timestamps mean the same on every machine", live=True),
    "spark.redaction.regex": Default(
        REDACTED, "names and passwords of brokers, stores and registries stay out of Spark's page and event logs"
    ),
    "spark.driver.bindAddress": Default("127.0.0.1", "a local session is nobody else's business", only="local"),
    "spark.driver.host": Default("127.0.0.1", "a local session is nobody else's business", only="local"),
}


def session(
    app_name: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> SparkSession:
    """Starts or joins the process's Spark session.

    Args:
        app_name: what Spark's own tools call it.
        master: Spark master URL; None is local[*].
        remote: address of a Spark Connect server, sc://HOST:PORT; then no Java is needed here.
        settings: Spark settings that win over the defaults above.
        log: file that gets what the JVM and the Python workers write to stderr; None leaves it on ours.

    Raises:
        ConfigError: both `master` and `remote`, or one that is not an address.
        JavaMissingError: no Java 17 or newer on the machine and no `penstock[java]`.
        SparkError: nobody listens at the address, Spark did not start, or its workers' Python is not ours.
    """
    check_addresses(master, remote)
    check_spark()
    check_reachable(remote or master)
    if remote is not None:
        spark = _connected(app_name, remote, settings or {})
    else:
        spark = _started(app_name, master, settings or {}, log)
    if remote is not None or not is_local(master):
        try:
            check_workers(spark)
        except BaseException:
            end(spark)
            raise
    return spark


class SparkError(PenstockError):
    """Spark cannot do what is asked of it; the message is one line, with a remedy where there is one."""


def check_addresses(master: str | None, remote: str | None) -> None:
    """Raises ConfigError."""
    if master is not None and remote is not None:
        raise ConfigError("--master and --remote exclude each other: a Spark Connect server has its own master")
    if remote is not None and not remote.startswith("sc://"):
        raise ConfigError(f"--remote {remote}: it must be sc://HOST:PORT")
    if master is not None and not (is_local(master) or "://" in master or master == "yarn"):
        raise ConfigError(f"--master {master}: it must be local[N] or spark://HOST:PORT")


def check_reachable(address: str | None) -> None:
    """Raises SparkError if nothing listens at a master's or Connect server's address, where Spark would retry for
    minutes.

    Several masters (spark://A:7077,B:7077) stand in for each other. Other cluster managers are Spark's to find.
    """
    kind, _, rest = (address or "").partition("://")
    if kind not in ("spark", "sc"):
        return
    reasons = []
    for each in re.split(r"[/;]", rest)[0].split(","):
        host, colon, port = each.rpartition(":")
        if kind == "sc" and not (colon and port.isdecimal()):
            host, port = each, CONNECT_PORT
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=SPARK_ANSWER_TIMEOUT_S):
                return
        except ValueError:
            raise ConfigError(f"{address}: {each} is no address HOST:PORT") from None
        except OSError as error:
            reasons.append(str(error.strerror or error).lower())
    what = "Spark master" if kind == "spark" else "Spark Connect server"
    raise SparkError(
        f"no {what} at {address}: {', '.join(dict.fromkeys(reasons))}\n"
        "  `penstock spark cluster status` shows the cluster of this host; `up` starts one"
    )


def is_local(master: str | None) -> bool:
    """Whether a master runs inside this process."""
    return master is None or master.startswith("local")


def check_spark() -> None:
    """Raises SparkError where pyspark is missing or too old."""
    try:
        import pyspark
    except ImportError:
        raise SparkError("pipelines need pyspark: pip install 'penstock[spark]'") from None
    if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < SPARK_MINIMUM:
        raise SparkError(f"pyspark {pyspark.__version__} is too old: pip install 'pyspark>={SPARK_MINIMUM[0]}'")


def is_loopback(master: str | None) -> bool:
    """Whether a master, and so its executors, are on this machine."""
    return is_local(master) or (master is not None and ("//127.0.0.1" in master or "//localhost" in master))


def settings_for(master: str | None, settings: Mapping[str, str]) -> dict[str, str]:
    """The defaults for a master, and what the user set over them.

    A cluster whose cores are told by the settings has shuffles to match; of others it is not known before executors
    come, so they keep Spark's own number of parts.
    """
    kind = "local" if is_local(master) else "cluster"
    chosen = {name: each.value for name, each in DEFAULTS.items() if each.only in ("", kind)}
    if master == "yarn":  # a container's directory, where such a socket goes, is longer than its address may be
        del chosen[UNIX_SOCKETS]
    if is_loopback(master):
        alike = ("spark.driver.bindAddress", "spark.sql.shuffle.partitions")
        chosen |= {name: DEFAULTS[name].value for name in alike}
        chosen["spark.driver.host"] = "127.0.0.1"
    elif cores := cores_told(settings):
        chosen[SHUFFLE_PARTITIONS] = str(cores * SHUFFLE_PARTITIONS_PER_CORE)
    return {**chosen, **settings}


def cores_told(settings: Mapping[str, str]) -> int:
    """The cores that an application on a cluster has at most, as far as its settings say; 0: they do not.

    Raises ConfigError for a number that is none.
    """
    dynamic = settings.get("spark.dynamicAllocation.enabled", "false").lower() == "true"
    executors = "spark.dynamicAllocation.maxExecutors" if dynamic else "spark.executor.instances"
    each = _count(settings, "spark.executor.cores")
    told = [_count(settings, "spark.cores.max"), _count(settings, executors) * each]
    return min((count for count in told if count), default=0)


def _count(settings: Mapping[str, str], name: str) -> int:
    value = settings.get(name, "0")
    if not value.isdecimal():
        raise ConfigError(f"{name} = {value!r} must be a whole number")
    return int(value)


def _started(app_name: str, master: str | None, settings: Mapping[str, str], log: Path | None) -> SparkSession:
    """A session whose driver is this process."""
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_loopback(master):  # elsewhere executors must reach the driver by the host's own address
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession  # half a second: only when a session is wanted

    builder = SparkSession.builder.appName(app_name).master(master or "local[*]")
    for name, value in settings_for(master, settings).items():
        builder = builder.config(name, value)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        with stderr_to(log):
            spark = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        end_java()
        where = f"\n  its log is {log}" if log is not None else ""
        raise SparkError(f"Spark did not start: {one_line(error)}{where}") from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)  # Spark takes Ctrl-C for itself; whoever asked for a session keeps it
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _connected(app_name: str, remote: str, settings: Mapping[str, str]) -> SparkSession:
    if find_spec("grpc") is None:  # what the client needs and pyspark does not bring
        raise SparkError("Spark Connect needs grpcio: pip install 'penstock[connect]'")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name).remote(remote)
    chosen = {name: each.value for name, each in DEFAULTS.items() if each.live} | dict(settings)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    try:
        with warnings.catch_warnings(record=True) as refused:
            spark = builder.getOrCreate()
        spark.version  # noqa: B018 - the first thing that asks the server
    except PySparkException as error:
        raise SparkError(f"no Spark Connect at {remote}: {one_line(error)}") from error
    fixed = sorted(name for name in chosen if any(f"{name} " in str(each.message) for each in refused))
    if fixed:
        warnings.warn(f"left as the server at {remote} has them: {', '.join(fixed)}", stacklevel=3)
    return spark


def check_workers(spark: SparkSession) -> None:
    """Runs one small job: raises SparkError when the workers' Python differs from ours or lacks penstock."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    def probe(batches: Any) -> Any:
        import penstock.spark  # noqa: F401 - whether it is there is the question

        yield from batches

    try:
        spark.range(1).mapInArrow(probe, "id bigint").collect()
    except (PySparkException, Py4JError) as error:  # the latter if a worker did not even start
        raise SparkError(worker_trouble(str(error))) from error


def worker_trouble(text: str) -> str:
    """The error message for a failed probe of the workers."""
    ours = ".".join(map(str, sys.version_info[:2]))
    if "PYTHON_VERSION_MISMATCH" in text or "different minor version" in text:
        return f"the workers' Python is not ours ({ours}): set PYSPARK_PYTHON to a Python {ours} that they have"
    if "No module named 'penstock" in text:
        return "the workers' Python has no penstock: install it there (pip install 'penstock[spark]'), same version"
    return f"the workers cannot run Python: {one_line(text)}"


def one_line(error: object) -> str:
    """Spark's pages as the one line that says what went wrong."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    if named := next((line for line in lines if CONDITION.match(line)), None):
        return named
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        del lines[0]
    said = [line for line in lines if _says(line)]
    return (said or lines or [type(error).__name__])[-1 if said else 0]


def _says(line: str) -> bool:
    """Whether a line of a stack trace says what went wrong, and not who passed it on."""
    name, colon, rest = line.partition(": ")
    passed_on = name.startswith(("org.apache", "py4j", "java.lang.Thread", "Caused by"))
    return bool(colon and rest) and name.endswith(("Error", "Exception")) and " " not in name and not passed_on


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect, which has no SparkContext."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def enter_thread(spark: SparkSession, pool: str) -> None:
    """Makes the session that of the calling thread, with its jobs in a scheduler pool of their own.

    Without it Spark finds Python data sources in the thread that made the session only.
    """
    if is_remote(spark):
        return
    jvm: Any = spark._jvm
    jvm.SparkSession.setActiveSession(spark._jsparkSession)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at once: the cores of the session's executors, or this machine's where it does not tell.

    Executors that are allocated as tasks wait for them are counted as if they were there: else none would ever come.
    """
    if is_remote(spark):
        told = spark.conf.get("spark.default.parallelism", None)
        return int(told) if told else os.cpu_count() or 1
    now = int(spark.sparkContext.defaultParallelism)
    if str(spark.conf.get("spark.dynamicAllocation.enabled", "false")).lower() != "true":
        return now
    most = int(spark.conf.get("spark.dynamicAllocation.maxExecutors", None) or 0)
    cores = int(spark.conf.get("spark.executor.cores", None) or 1)
    return max(now, most * cores if most else SPARK_DYNAMIC_TASKS)


def end(spark: SparkSession) -> None:
    """Stops the session and its Java process, and returns when that has ended: `spark.stop` alone leaves it running."""
    remote = is_remote(spark)
    spark.stop()
    if not remote:
        end_java()


def end_java() -> None:
    """Ends this process's Java, whatever became of the session in it; another session starts another."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._active_spark_context = None
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
    """The defaults and their reasons, two lines each."""
    where = {"": "", "local": " (local sessions)", "cluster": " (on a cluster)"}
    return "\n".join(f"{name} = {each.value}{where[each.only]}\n    {each.why}" for name, each in DEFAULTS.items())
