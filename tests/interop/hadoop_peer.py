"""Apache Hadoop 3.5.0 as a peer: an HDFS of one namenode and one datanode, and YARN with one node, on loopback.

The jars come by Maven into `.cache/hadoop-3.5.0` at first use, as Kafka's do, and with the same rules where Java or
Maven is missing.

    with HadoopPeer(directory) as hadoop:
        DeltaTable.create(f"{hadoop.uri}/lake/clicks", schema)
        hadoop.kill("datanode")
        hadoop.start("datanode")

Servers run in one Java machine, which starts in half the time that two take, or with `apart` in one each, so that one
of them can be killed.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from xml.sax.saxutils import escape

import pytest
from interop import kafka_peer
from support.processes import free_ports

VERSION = "3.5.0"
FILES = Path(__file__).with_name("hadoop")
JARS = kafka_peer.ROOT / ".cache" / f"hadoop-{VERSION}"
COMPLETE = JARS / ".complete"
START_TIMEOUT_S = 120
OPTIONS = ("-Xmx384m", *kafka_peer.SHORT_LIVED, "-Djava.net.preferIPv4Stack=true")
HDFS = ("namenode", "datanode")
YARN = ("resourcemanager", "nodemanager")
NODE_MEMORY_MB = 6144


def require_hadoop() -> None:
    """Skips the test when Hadoop cannot be run here; fails it when CI=true. Fetches the jars when they are missing."""
    reason = kafka_peer.missing()
    if reason is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true and {reason}", pytrace=False)
        pytest.skip(reason)
    if not COMPLETE.exists():
        JARS.mkdir(parents=True, exist_ok=True)
        words = ["mvn", "-q", "-B", "-f", str(FILES / "pom.xml"), "dependency:copy-dependencies"]
        with (JARS.parent / f"{JARS.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not COMPLETE.exists():
                words += ["-DincludeScope=runtime", f"-DoutputDirectory={JARS}"]
                kafka_peer.run(words, timeout_s=kafka_peer.FETCH_TIMEOUT_S, cwd=JARS)
                COMPLETE.touch()


class HadoopPeer:
    """Hadoop's servers; a context manager that starts and ends them.

    Args:
        directory: of their data, configuration and logs.
        yarn: also run YARN.
        apart: a Java machine for each server.

    Attributes: `uri`, the file system's; `conf`, the directory for HADOOP_CONF_DIR.
    """

    def __init__(self, directory: Path, *, yarn: bool = False, apart: bool = False) -> None:
        require_hadoop()
        self.directory = directory
        self.conf = directory / "conf"
        roles = (*HDFS, *(YARN if yarn else ()))
        self._groups: list[Sequence[str]] = [(role,) for role in roles] if apart else [roles]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._formatted = False
        self._ports = free_ports(13)
        self.uri = f"hdfs://127.0.0.1:{self._ports[0]}"

    def __enter__(self) -> Self:
        self._configure()
        try:
            for group in self._groups:
                self.start(*group)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def start(self, *roles: str) -> None:
        """Starts servers in one Java machine, and waits until they serve."""
        classes, name = kafka_peer.compile_java((FILES / "HadoopNode.java").read_text(), f"{JARS}/*")
        path = os.pathsep.join([str(self.conf), str(classes), f"{JARS}/*"])
        words = [*(["format"] if "namenode" in roles and not self._formatted else []), *roles]
        with (self.directory / f"{roles[0]}.log").open("ab") as log:
            process = subprocess.Popen(
                ["java", *OPTIONS, "-cp", path, name, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,  # a node of YARN starts containers
            )
        self._processes[roles[0]] = process
        impatient = threading.Timer(START_TIMEOUT_S, process.kill)
        impatient.start()
        try:
            assert process.stdout is not None
            ready = any(line.strip() == b"READY" for line in process.stdout)
        finally:
            impatient.cancel()
        if not ready:
            raise kafka_peer.ToolError(f"Hadoop did not start:\n{self.log(roles[0])[-8000:]}")
        self._formatted = True

    def kill(self, role: str) -> None:
        """Kills the Java machine that was started with a server, at once."""
        process = self._processes.pop(role)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def log(self, role: str) -> str:
        """What a Java machine has logged, named by its first server."""
        return (self.directory / f"{role}.log").read_text(errors="replace")

    def _end(self) -> None:
        for role in list(self._processes):
            self.kill(role)

    def _configure(self) -> None:
        _, http, *others = self._ports
        files: dict[str, Mapping[str, object]] = {
            "core-site.xml": {
                "fs.defaultFS": self.uri,
                "hadoop.tmp.dir": self.directory / "data",
                "hadoop.http.filter.initializers": "",
                "ipc.server.listen.queue.size": 128,
            },
            "hdfs-site.xml": {
                "dfs.replication": 1,
                "dfs.permissions.enabled": "false",
                "dfs.namenode.http-address": f"127.0.0.1:{http}",
                "dfs.namenode.safemode.extension": 0,
                # a file is closed although its last block is not reported yet: else its writer asks again half a
                # second later
                "dfs.namenode.file.close.num-committed-allowed": 1,
                "dfs.datanode.address": f"127.0.0.1:{others[0]}",
                "dfs.datanode.http.address": f"127.0.0.1:{others[1]}",
                "dfs.datanode.ipc.address": f"127.0.0.1:{others[2]}",
                "dfs.datanode.hostname": "127.0.0.1",
                "dfs.heartbeat.interval": 1,
            },
            "yarn-site.xml": {
                "yarn.resourcemanager.hostname": "127.0.0.1",
                "yarn.resourcemanager.address": f"127.0.0.1:{others[3]}",
                "yarn.resourcemanager.scheduler.address": f"127.0.0.1:{others[4]}",
                "yarn.resourcemanager.resource-tracker.address": f"127.0.0.1:{others[5]}",
                "yarn.resourcemanager.admin.address": f"127.0.0.1:{others[6]}",
                "yarn.resourcemanager.webapp.address": f"127.0.0.1:{others[7]}",
                "yarn.resourcemanager.scheduler.class": (
                    "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
                ),
                "yarn.nodemanager.address": f"127.0.0.1:{others[8]}",
                "yarn.nodemanager.localizer.address": f"127.0.0.1:{others[9]}",
                "yarn.nodemanager.webapp.address": f"127.0.0.1:{others[10]}",
                "yarn.nodemanager.resource.memory-mb": NODE_MEMORY_MB,
                "yarn.nodemanager.resource.cpu-vcores": 8,
                "yarn.nodemanager.local-dirs": self.directory / "yarn" / "local",
                "yarn.nodemanager.log-dirs": self.directory / "yarn" / "logs",
                "yarn.nodemanager.vmem-check-enabled": "false",
                "yarn.nodemanager.disk-health-checker.enable": "false",
                "yarn.scheduler.minimum-allocation-mb": 128,
            },
            "log4j.properties": {},
        }
        for name, values in files.items():
            self._write(name, values)
        for server in ("hdfs", "datanode"):
            page = self.conf / "webapps" / server / "WEB-INF" / "web.xml"
            page.parent.mkdir(parents=True)
            page.write_text("<web-app/>")

    def _write(self, name: str, values: Mapping[str, object]) -> None:
        self.conf.mkdir(parents=True, exist_ok=True)
        if name.endswith(".properties"):
            text = (
                "log4j.rootLogger=WARN,stderr\nlog4j.appender.stderr=org.apache.log4j.ConsoleAppender\n"
                "log4j.appender.stderr.target=System.err\n"
                "log4j.appender.stderr.layout=org.apache.log4j.PatternLayout\n"
                "log4j.appender.stderr.layout.ConversionPattern=%d %p %c: %m%n\n"
            )
        else:
            entries = "".join(
                f"<property><name>{key}</name><value>{escape(str(value))}</value></property>\n"
                for key, value in values.items()
            )
            text = f"<configuration>\n{entries}</configuration>\n"
        (self.conf / name).write_text(text)
