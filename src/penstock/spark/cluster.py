"""A real standalone Spark cluster on one machine, from the pip package: a master, workers and, if asked, Spark Connect.

    with SparkCluster(directory, workers=2) as cluster:
        spark = session("a test", master=cluster.master)

The package has `bin/spark-class` but none of the start scripts, so each process is started here, with its log and its
pid in `directory`. All ports are free ones of the loopback interface: processes pick them and say so in their logs.
`down` ends only processes that this directory's file names and that were started at the time it names.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.errors import PenstockError
from penstock.spark.java import find_java

STATE = "cluster.json"
START_TIMEOUT_S = 90
STOP_TIMEOUT_S = 10
POLL_S = 0.05
WORKERS_MAX = 64
MASTER_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
MASTER_PAGE = re.compile(r"MasterWebUI to [\d.]+, and started at (http://\S+)|MasterWebUI at (http://\S+)")
DAEMON_MEMORY = "256m"
CONNECT_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ClusterError(PenstockError):
    """The cluster did not start, runs already, or does not run. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a cluster. `started` is when the system started it: a pid that is used anew is another process."""

    name: str
    pid: int
    started: float

    def alive(self) -> bool:
        """Whether the process runs."""
        import psutil

        try:
            process = psutil.Process(self.pid)
            same = abs(float(process.create_time()) - self.started) < 1
            return same and str(process.status()) != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The contents of a cluster's state file. `remote` is "" without Spark Connect."""

    master: str
    page: str
    remote: str
    cores: int
    memory_mb: int
    members: Sequence[Member]

    @classmethod
    def read(cls, directory: Path) -> ClusterState | None:
        """The cluster that `directory` is of; None if there is none."""
        try:
            told = json.loads((directory / STATE).read_text())
        except FileNotFoundError:
            return None
        return cls(**{**told, "members": [Member(**each) for each in told["members"]]})

    def write(self, directory: Path) -> None:
        """Replaces the file."""
        fresh = directory / f"{STATE}.new"
        fresh.write_text(json.dumps(asdict(self), indent=2))
        fresh.replace(directory / STATE)


class SparkCluster:
    """A standalone cluster; a context manager that starts and ends it.

    Args:
        directory: for logs, pids and the workers' files; one cluster at a time.
        workers: processes that run executors.
        cores, memory_mb: what each worker has for executors.
        connect: also start a Spark Connect server, whose session runs on this cluster.
        settings: Spark settings of the Connect server.

    Attributes:
        master: spark://HOST:PORT, when started.
        remote: sc://HOST:PORT with `connect`, else "".
    """

    def __init__(
        self,
        directory: Path,
        *,
        workers: int = 2,
        cores: int = 1,
        memory_mb: int = 1024,
        connect: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        if not 1 <= workers <= WORKERS_MAX:
            raise ClusterError(f"{workers} workers: it must be between 1 and {WORKERS_MAX}")
        self.directory = directory.absolute()
        self.workers, self.cores, self.memory_mb, self.connect = workers, cores, memory_mb, connect
        self.settings = dict(settings or {})
        self.master = self.page = self.remote = ""
        self.members: list[Member] = []
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        down(self.directory)
        for process in self._processes.values():
            process.wait()

    def up(self) -> ClusterState:
        """Starts everything and waits until all workers have registered. Raises ClusterError."""
        running = ClusterState.read(self.directory)
        if running is not None and any(member.alive() for member in running.members):
            raise ClusterError(f"a cluster runs already at {running.master}\n  `penstock spark cluster down` ends it")
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self._start_master()
            for number in range(self.workers):
                self._start_worker(number)
            self._wait("its workers to register", self._registered)
            if self.connect:
                self._start_connect()
        except BaseException:
            down(self.directory)
            raise
        return self._save()

    def add_worker(self) -> Member:
        """Starts one more worker of a cluster that is up; it registers by itself. Raises ClusterError."""
        number = sum(member.name.startswith("worker-") for member in self.members)
        if number >= WORKERS_MAX:
            raise ClusterError(f"{number} workers have been started, it must not be more than {WORKERS_MAX}")
        self._start_worker(number)
        return self.members[-1]

    def _start_master(self) -> None:
        words = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        self._start("master", [_spark("spark-class"), *words])
        said = self._wait("the master to listen", lambda: MASTER_STARTED.search(self._log("master")))
        self.master = said[1]
        said = self._wait("the master's page", lambda: MASTER_PAGE.search(self._log("master")))
        self.page = said[1] or said[2]

    def _start_worker(self, number: int) -> None:
        name = f"worker-{number + 1}"
        words = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"]
        words += ["--cores", str(self.cores), "--memory", f"{self.memory_mb}m"]
        words += ["--work-dir", str(self.directory / "work" / name), self.master]
        self._start(name, [_spark("spark-class"), *words])

    def _start_connect(self) -> None:
        from penstock.spark.session import settings_for

        port = _free_port()
        settings = settings_for(self.master, {"spark.executor.memory": f"{self.memory_mb}m", **self.settings})
        settings |= {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
        given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        words = ["--master", self.master, "--class", CONNECT_CLASS, "--name", "Spark Connect", *given, "spark-internal"]
        self._start("connect", [_spark("spark-submit"), *words], memory=settings["spark.driver.memory"])
        self._wait("Spark Connect to listen", lambda: _listens(port))
        self.remote = f"sc://127.0.0.1:{port}"

    def _start(self, name: str, command: Sequence[str], memory: str = DAEMON_MEMORY) -> None:
        import psutil

        with self._log_file(name).open("wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(memory),
                start_new_session=True,
            )
        self._processes[process.pid] = process
        self.members.append(Member(name, process.pid, psutil.Process(process.pid).create_time()))
        self._save()

    def _save(self) -> ClusterState:
        state = ClusterState(self.master, self.page, self.remote, self.cores, self.memory_mb, tuple(self.members))
        state.write(self.directory)
        return state

    def _registered(self) -> bool:
        return len(workers_of(self.page)) >= self.workers

    def _wait(self, what: str, ready: Callable[[], Any]) -> Any:
        """Polls until `ready` answers with something; a process that has ended meanwhile is an error."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (answer := ready()):
            for member in self.members:
                if self._processes[member.pid].poll() is not None:
                    raise ClusterError(f"the {member.name} ended while starting: {self._last_words(member.name)}")
            if time.monotonic() > deadline:
                raise ClusterError(f"waited {START_TIMEOUT_S} s for {what}; the logs are in {self.directory}")
            time.sleep(POLL_S)
        return answer

    def _log_file(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def _log(self, name: str) -> str:
        return self._log_file(name).read_text(errors="replace")

    def _last_words(self, name: str) -> str:
        lines = [line for line in self._log(name).splitlines() if line.strip() and not line.startswith("\tat")]
        return (lines or ["it said nothing"])[-1]


def down(directory: Path) -> list[str]:
    """Ends the cluster of a directory: asks, then kills. Returns the names of what it ended."""
    state = ClusterState.read(directory)
    if state is None:
        return []
    import psutil

    ended = []
    order = sorted((each for each in state.members if each.alive()), key=lambda each: each.name == "master")
    for member in order:
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(member.pid).children(recursive=True)
            os.kill(member.pid, signal.SIGTERM)
            _gone([psutil.Process(member.pid)])
            _gone(children)  # executors end when their worker is gone
        ended.append(member.name)
    (directory / STATE).unlink(missing_ok=True)
    return ended


def _gone(processes: Sequence[Any]) -> None:
    """Waits for processes to end, and kills what does not."""
    import psutil

    _, alive = psutil.wait_procs(processes, timeout=STOP_TIMEOUT_S)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=STOP_TIMEOUT_S)


def workers_of(page: str) -> list[dict[str, Any]]:
    """The workers that are alive, as the master's page tells; none if it does not answer."""
    try:
        with urllib.request.urlopen(f"{page}/json/", timeout=5) as answer:
            told = json.load(answer)
    except (OSError, ValueError):
        return []
    return [worker for worker in told["workers"] if worker["state"] == "ALIVE"]


def environment(memory: str = DAEMON_MEMORY) -> dict[str, str]:
    """The environment of Spark's processes: our Python, a working Java, loopback, and the heap size of each process."""
    return {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",  # one that is killed is replaced, however often
        "SPARK_DAEMON_MEMORY": memory,  # of the Connect server, too: it wins over spark.driver.memory
    }


def _spark(name: str) -> str:
    """A script of the pip package."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ClusterError("a Spark cluster needs pyspark: pip install 'penstock[spark]'")
    return str(Path(spec.origin).parent / "bin" / name)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
