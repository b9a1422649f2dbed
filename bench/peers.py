"""The two brokers that the benchmarks compare, each started the same way: as a process of its own on a fresh directory.

`Peer.cpu_seconds()` and `Peer.resident_bytes()` read the operating system's accounting of the broker's process and its
children, so a client's cost is never counted as the broker's.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.cli.doctor import built_with_pgo

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))
from interop import kafka_peer  # noqa: E402

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a node starts with bytecode, as an installed package does


def python_of_brokers() -> str:
    """PENSTOCK_PYTHON, or the interpreter that runs this if it was built with profile-guided optimisation, or else the
    system's of the same version, as distributions build it, if there is one.
    """
    named = os.environ.get("PENSTOCK_PYTHON")
    if named or built_with_pgo():
        return named or sys.executable
    return shutil.which(f"python3.{sys.version_info.minor}", path="/usr/local/bin:/usr/bin") or sys.executable


PYTHON = python_of_brokers()
if sys.executable != PYTHON:  # it is given the packages of this one
    own = [path for path in sys.path if path and not path.startswith(sys.base_prefix)]
    os.environ["PYTHONPATH"] = os.pathsep.join(own)

LACKING_FEATURES = (
    "share.version",
    "streams.version",
    "eligible.leader.replicas.version",
)


def python_build() -> str:
    """The Python, and whether it was built with profile-guided optimisation, worth a quarter of most figures."""
    question = "import platform, penstock.cli.doctor as d; print(platform.python_version(), d.built_with_pgo())"
    version, pgo = subprocess.run([PYTHON, "-c", question], check=True, capture_output=True, text=True).stdout.split()
    return f"Python {version} built {'with' if pgo == 'True' else 'without'} PGO"


def free_port() -> int:
    """A loopback port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def java(*arguments: str, heap: str = "1g") -> list[str]:
    """Command line of a class in Kafka's jars, which Maven brings at first use."""
    if not kafka_peer.MARKER.exists():
        kafka_peer.fetch_jars()
    return ["java", f"-Xmx{heap}", f"-Xms{heap}", "-cp", kafka_peer.classpath(), *arguments]


class Peer:
    """One running broker."""

    def __init__(self, name: str, command: Sequence[str], bootstrap: str, directory: Path) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.directory = directory
        self._command = command
        self.topics: set[str] = set()
        self.start()

    def start(self) -> None:
        """Starts the process, on the directory as it is."""
        with (self.directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)
        self.started_at = time.perf_counter()
        self._accounting = psutil.Process(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_seconds(self) -> float:
        """User and system CPU seconds of the broker so far, its children included."""
        total = 0.0
        for process in (self._accounting, *self._accounting.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def resident_bytes(self) -> int:
        """Resident memory of the broker, its children included."""
        total = 0
        for process in (self._accounting, *self._accounting.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Creates a topic, waiting up to a minute for the broker to be there."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        deadline = time.perf_counter() + 60
        while True:
            try:
                future = admin.create_topics([NewTopic(name, partitions, 1, config=configs)], operation_timeout=30)
                future[name].result()
                self.topics.add(name)
                return
            except Exception:
                if time.perf_counter() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.02)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic; its files go when the broker comes to it."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        admin.delete_topics([name])[name].result()

    def stop(self) -> None:
        """Ends the broker, gently if it listens."""
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _properties(directory: Path, port: int, controller_port: int, directories: int, listeners: str = "") -> str:
    data = [directory / "data"] if directories == 1 else [directory / f"data-{each + 1}" for each in range(directories)]
    return "\n".join(
        [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{controller_port}",
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}{listeners}",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}{listeners}",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
            f"log.dirs={','.join(map(str, data))}",
            "offsets.topic.replication.factor=1",
            "",
        ]
    )


@contextlib.contextmanager
def running(
    name: str,
    *,
    extra: str = "",
    penstock: Sequence[str] = (PYTHON, "-m", "penstock"),
    directories: int = 1,
    listeners: str = "",
) -> Iterator[Peer]:
    """Starts "kafka" or "penstock" on a fresh directory and ends it after the block. `extra`: more lines of its
    properties; `listeners`: more listeners, each with a comma before it.

    `penstock` is its command, in which {directory} stands for that directory. Its logs are in `data` there, or if there
    are to be several `directories`, in `data-1` and so on.
    """
    directory = Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
    port, controller_port = free_port(), free_port()
    properties = directory / "server.properties"
    properties.write_text(_properties(directory, port, controller_port, directories, listeners) + extra)
    penstock = [part.replace("{directory}", str(directory)) for part in penstock]
    cluster_id = "4L6g3nShT-eMCtK--X86sw"
    if name == "kafka":
        features = [part for feature in LACKING_FEATURES for part in ("--feature", f"{feature}=0")]
        tool = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties), *features]
        subprocess.run(java(*tool, heap="128m"), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        command = java("-XX:+UseG1GC", "kafka.Kafka", str(properties))
    else:
        format_it = [*penstock, "storage", "format", "-t", cluster_id, "-c", str(properties)]
        subprocess.run(format_it, check=True, stdout=subprocess.DEVNULL)
        command = [*penstock, "server", "start", str(properties)]
    peer = Peer(name, command, f"127.0.0.1:{port}", directory)
    try:
        yield peer
    except BaseException:
        sys.stderr.write((directory / "broker.log").read_text()[-2000:])
        raise
    finally:
        peer.stop()
        shutil.rmtree(directory, ignore_errors=True)


_SUMMARY = re.compile(
    r"(?P<records>\d+) records sent, (?P<rate>[\d.]+) records/sec.*?(?P<avg>[\d.]+) ms avg latency, "
    r"(?P<max>[\d.]+) ms max latency, (?P<p50>\d+) ms 50th, (?P<p95>\d+) ms 95th, (?P<p99>\d+) ms 99th, "
    r"(?P<p999>\d+) ms 99.9th"
)


def producer_performance(
    bootstrap: str, topic: str, *, records: int, record_bytes: int, throughput: int = -1, **configs: str
) -> dict[str, float]:
    """Runs Java's ProducerPerformance; returns its final summary: rate in records/s, latencies in ms."""
    properties = [f"bootstrap.servers={bootstrap}", *(f"{k.replace('_', '.')}={v}" for k, v in configs.items())]
    command = java(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(records), "--record-size", str(record_bytes)),
        *("--throughput", str(throughput), "--producer-props", *properties),
        heap="512m",
    )
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    summaries = list(_SUMMARY.finditer(done.stdout))
    if not summaries:
        raise RuntimeError(f"ProducerPerformance printed no summary:\n{done.stdout[-1000:]}\n{done.stderr[-1000:]}")
    return {key: float(value) for key, value in summaries[-1].groupdict().items()}


def print_table(figures: dict[str, dict[str, list[float]]]) -> None:
    """Prints {figure: {"kafka": of each round, "penstock": of each round}} as a table of medians and spreads."""
    print("| | Apache Kafka | Penstock | ratio |\n|---|---|---|---|")
    for key, values in figures.items():
        theirs, ours = values.get("kafka", []), values.get("penstock", [])
        ratios = [one / other for one, other in zip(ours, theirs, strict=False) if other]
        print(f"| {key} | {spread(theirs)} | {spread(ours)} | {spread(ratios)} |")


def spread(values: Sequence[float]) -> str:
    """The median, with the least and the most if there are several values; empty if there is none."""
    if not values:
        return ""
    median, least, most = (
        f"{each:,.0f}" if each >= 1000 else f"{each:.3g}"
        for each in (statistics.median(values), min(values), max(values))
    )
    return f"{median} ({least}-{most})" if len(values) > 1 else median
