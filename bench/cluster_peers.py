"""Three nodes of Penstock or of Apache Kafka 4.3.1, each a process of its own on a fresh directory of this machine.

    with Cluster("penstock") as cluster:
        cluster.kill(2); cluster.start(2)

All nodes are brokers and controllers with static voters and Kafka's defaults, but for the internal topics' replicas.
Penstock's nodes also tell how long the turns of their event loops took.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

import psutil
from confluent_kafka.admin import AdminClient, NewTopic
from peers import LACKING_FEATURES, PYTHON, free_port, java

NODES = (1, 2, 3)
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
PATIENCE_S = 120
ASKING_S = 3
"""How long a node that may be dead is waited for before another is asked."""


class Cluster:
    """A context manager; entering it starts all nodes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.directory = Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
        self._ports = {node: (free_port(), free_port()) for node in NODES}
        self._metrics = {node: free_port() for node in NODES} if name == "penstock" else {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._spent = 0.0
        self.started_at = 0.0
        for node in NODES:
            self._format(node)

    @property
    def alive(self) -> list[int]:
        """The nodes that run."""
        return [node for node, process in self._processes.items() if process.poll() is None]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port, _ in self._ports.values())

    def start(self, node: int) -> None:
        """Starts a node; returns at once."""
        file = str(self.directory / f"{node}.properties")
        if self.name == "kafka":
            command = java("-XX:+UseG1GC", "kafka.Kafka", file, heap="512m")
        else:
            command = [PYTHON, "-m", "penstock", "server", "start", file]
        with (self.directory / f"{node}.log").open("ab") as log:
            self._processes[node] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def kill(self, node: int) -> None:
        """kill -9."""
        self._spent += cpu_of(self._processes[node].pid)
        self._processes[node].kill()
        self._processes[node].wait()

    def freeze(self, node: int) -> None:
        """SIGSTOP: the process keeps its connections, and says nothing."""
        self._processes[node].send_signal(signal.SIGSTOP)

    def thaw(self, node: int) -> None:
        """SIGCONT."""
        self._processes[node].send_signal(signal.SIGCONT)

    def stop(self, node: int) -> float:
        """A clean stop; how long it took, in seconds."""
        began = time.perf_counter()
        self._spent += cpu_of(self._processes[node].pid)
        self._processes[node].terminate()
        self._processes[node].wait(PATIENCE_S)
        return time.perf_counter() - began

    def cpu_seconds(self) -> float:
        """User and system seconds of all nodes together, also of those that have ended."""
        return self._spent + sum(cpu_of(each.pid) for each in self._processes.values() if each.poll() is None)

    def resident_mb(self) -> list[float]:
        """Resident memory of each node."""
        return [psutil.Process(each.pid).memory_info().rss / 1e6 for each in self._processes.values()]

    def loop_lag_ms(self) -> float:
        """The p99.9 of the time that turns of the event loop took since the start, of the slowest node; else 0."""
        found = [0.0]
        for node in self.alive if self._metrics else ():
            with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics[node]}/metrics", timeout=10) as answer:
                page = answer.read().decode()
            told = re.search(r'^penstock_loop_turn_quantile_seconds\{quantile="0.999"\} (\S+)$', page, re.MULTILINE)
            found.append(float(told[1]) * 1e3 if told else 0.0)
        return max(found)

    def admin(self, without: int | None = None) -> AdminClient:
        """An admin that knows all nodes, or all but one, at first."""
        known = [f"127.0.0.1:{port}" for node, (port, _) in self._ports.items() if node != without]
        return AdminClient({"bootstrap.servers": ",".join(known), "log_level": 0})

    def create(self, topic: str, partitions: int, **configs: str) -> None:
        """A topic of three replicas; waits until all brokers are there."""
        admin, deadline = self.admin(), time.perf_counter() + PATIENCE_S
        while True:
            try:
                if len(admin.list_topics(timeout=5).brokers) < min(3, len(self.alive)):
                    raise RuntimeError("not all brokers are there")
                wanted = NewTopic(topic, partitions, 3, config=configs)
                admin.create_topics([wanted], operation_timeout=ASKING_S, request_timeout=ASKING_S)[topic].result()
                return
            except Exception as error:
                if "TOPIC_ALREADY_EXISTS" in str(error):  # by an attempt before, which was not answered in time
                    return
                if time.perf_counter() > deadline:
                    raise
                time.sleep(0.02)

    def create_once(self, topic: str) -> None:
        """A topic of one partition, unless it is there."""
        if topic not in self.admin().list_topics(timeout=10).topics:
            self.create(topic, 1)

    def partitions(self, topic: str) -> dict[int, Any]:
        """The partitions of a topic as the brokers tell them."""
        return dict(self.admin().list_topics(topic, timeout=10).topics[topic].partitions)

    def leader(self, topic: str, partition: int = 0) -> int:
        return int(self.partitions(topic)[partition].leader)

    def wait_in_sync(self, *topics: str) -> float:
        """Returns when every replica of the topics is in sync; how long that took, in seconds."""
        began = time.perf_counter()
        while True:
            with contextlib.suppress(Exception):
                if all(len(each.isrs) == len(NODES) for topic in topics for each in self.partitions(topic).values()):
                    return time.perf_counter() - began
            if time.perf_counter() - began > PATIENCE_S:
                raise RuntimeError(f"{self.name}: {topics} did not get back in sync")
            time.sleep(0.1)

    def settle(self) -> None:
        """Waits until the work of a start or of a load is over."""
        before = self.cpu_seconds()
        for _ in range(40):
            time.sleep(0.5)
            now = self.cpu_seconds()
            if now - before < 0.1:
                return
            before = now

    def _format(self, node: int) -> None:
        voters = ",".join(f"{each}@127.0.0.1:{controller}" for each, (_, controller) in self._ports.items())
        port, controller = self._ports[node]
        lines = [
            "process.roles=broker,controller",
            f"node.id={node}",
            f"controller.quorum.voters={voters}",
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            f"log.dirs={self.directory / str(node)}",
            "offsets.topic.replication.factor=3",
        ]
        if self._metrics:
            lines.append(f"penstock.metrics.listener=127.0.0.1:{self._metrics[node]}")
        file = self.directory / f"{node}.properties"
        file.write_text("\n".join(lines) + "\n")
        if self.name == "kafka":
            features = [part for feature in LACKING_FEATURES for part in ("--feature", f"{feature}=0")]
            tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(file), *features]
            subprocess.run(java(*tool, heap="128m"), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        else:
            command = [PYTHON, "-m", "penstock", "storage", "format", "-t", CLUSTER_ID, "-c", str(file)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def __enter__(self) -> Self:
        self.started_at = time.perf_counter()
        for node in NODES:
            self.start(node)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for node in NODES:
                sys.stderr.write((self.directory / f"{node}.log").read_text()[-1500:])
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def cpu_of(pid: int) -> float:
    """User and system CPU seconds of a process and its children."""
    total = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            times = each.cpu_times()
            total += times.user + times.system
    return total
