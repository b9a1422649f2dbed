"""Apache Kafka 4.3.1 as a peer: its jars, its tools, small Java programs against its classes, and a running node of it.

The jars come by Maven into `.cache/kafka-4.3.1` at first use. Without Java or Maven the tests that need them are
skipped with the reason; with CI=true in the environment they fail instead, so that nothing is left out unseen.

    run_tool("org.apache.kafka.tools.DumpLogSegments", "--files", path, "--deep-iteration").stdout
    run_java_source("public class Hello { public static void main(String[] a) { System.out.println(a[0]); } }", "hi")
    with KafkaPeer() as kafka:
        kafka.run_tool("org.apache.kafka.tools.TopicCommand", "--create", "--topic", "clicks")
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from interop import class_archive
from support.processes import free_ports

VERSION = "4.3.1"
ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / ".cache" / f"kafka-{VERSION}"
CLASSES = ROOT / ".cache" / "java-classes"
ARCHIVES = ROOT / ".cache" / "java-archives"
POM = Path(__file__).with_name("kafka") / "pom.xml"
MARKER = JARS / "slf4j-simple-1.7.36.jar"
"""Maven copies in the order of the pom; this is the last one."""
FETCH_TIMEOUT_S = 600
TOOL_TIMEOUT_S = 120
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
LOG_LEVEL = "-Dorg.slf4j.simpleLogger.defaultLogLevel="
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A machine that lives for seconds: compiling well what runs so briefly costs more than it gives."""
TOOL_OPTIONS = ("-Xmx256m", *SHORT_LIVED, LOG_LEVEL + "error")
NODE_OPTIONS = ("-Xmx512m", "-Xms128m", *SHORT_LIVED, LOG_LEVEL + "info")
API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""Length, key, version 0, correlation id, no client id."""
LACKING_FEATURES = (
    "eligible.leader.replicas.version",
    "share.version",
    "streams.version",
)
"""Feature levels that a format by Kafka 4.3 would set and Penstock does not serve yet."""


class ToolError(AssertionError):
    """A tool of Kafka's, or a Java program of ours, that failed; the message has its command and output."""


def missing() -> str | None:
    """Why Kafka cannot be run on this machine, or None when it can."""
    if shutil.which("java") is None or shutil.which("javac") is None:
        return "no Java development kit on the PATH (apt-get install openjdk-17-jdk-headless)"
    if not MARKER.exists() and shutil.which("mvn") is None:
        return "Kafka's jars are not there and there is no Maven to fetch them (apt-get install maven)"
    return None


def require_kafka() -> None:
    """Skips the test when Kafka cannot be run here; fails it when CI=true. Fetches the jars when they are not there."""
    reason = missing()
    if reason is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true and {reason}", pytrace=False)
        pytest.skip(reason)
    if not MARKER.exists():
        fetch_jars()


def fetch_jars() -> None:
    """Copies Kafka and everything it depends on into the cache; who comes second waits for who came first."""
    JARS.mkdir(parents=True, exist_ok=True)
    command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={JARS}"]
    with (JARS.parent / f"{JARS.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not MARKER.exists():
            run(command, timeout_s=FETCH_TIMEOUT_S, cwd=JARS)
    assert MARKER.exists(), f"Maven ran, and there is no {MARKER}"


def classpath(*more: Path) -> str:
    """The class path of Kafka's jars, and then the given directories."""
    return os.pathsep.join([f"{JARS}/*", *map(str, more)])


def java(*words: object, options: Sequence[str] = TOOL_OPTIONS, classes: Path | None = None) -> list[str]:
    """The command that runs a class of Kafka's, or of the directory `classes`: its name, and its arguments."""
    require_kafka()
    path = classpath() if classes is None else classpath(classes)
    return ["java", *archived_classes(), *options, "-cp", path, *map(str, words)]


@cache
def archived_classes() -> tuple[str, ...]:
    """Java options which make Kafka's classes come out of an archive, made at first use."""

    def run_a_node(option: str) -> None:
        with tempfile.TemporaryDirectory(prefix="kafka-archive-") as directory, suppress(ToolError):
            peer = KafkaPeer(directory)
            peer.write_configuration()
            format_command = ["java", *TOOL_OPTIONS, "-cp", classpath(), *peer.format_words()]
            run(format_command)
            peer.start(["java", *NODE_OPTIONS, option, class_archive.QUIET, "-cp", classpath(), *peer.node_words()])
            peer.stop()

    return class_archive.options(JARS, ARCHIVES, run_a_node)


def run(
    command: Sequence[str],
    *,
    stdin: str | None = None,
    timeout_s: float = TOOL_TIMEOUT_S,
    check: bool = True,
    cwd: str | Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end. Raises ToolError when it takes too long, or fails and `check` is set."""
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=cwd
        )
    except subprocess.TimeoutExpired as late:
        raise ToolError(f"{' '.join(command)}\ntook longer than {timeout_s} s\n{late.stdout}\n{late.stderr}") from None
    if check and done.returncode != 0:
        raise ToolError(f"{' '.join(command)}\nended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def run_tool(
    class_name: str,
    *arguments: object,
    stdin: str | None = None,
    timeout_s: float = TOOL_TIMEOUT_S,
    check: bool = True,
    options: Sequence[str] = TOOL_OPTIONS,
) -> subprocess.CompletedProcess[str]:
    """Runs one of Kafka's command-line tools by the name of its class; `options` go to the Java machine."""
    return run(java(class_name, *arguments, options=options), stdin=stdin, timeout_s=timeout_s, check=check)


def compile_java(source: str, path: str | None = None) -> tuple[Path, str]:
    """Compiles one Java source, once for each text; returns the directory of its classes and its name.

    `path` is the class path, by default that of Kafka's jars.
    """
    if path is None:
        require_kafka()
    found = re.search(r"public\s+(?:final\s+)?class\s+(\w+)", source)
    assert found is not None, "the source has no public class"
    name = found[1]
    target = CLASSES / hashlib.sha256(source.encode()).hexdigest()[:20]
    if not target.exists():
        CLASSES.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CLASSES) as scratch:
            file = Path(scratch, f"{name}.java")
            file.write_text(source)
            out = Path(scratch, "out")
            run(["javac", "-proc:none", "-nowarn", "-cp", path or classpath(), "-d", str(out), str(file)])
            with suppress(OSError):  # somebody else was faster
                out.rename(target)
    return target, name


def run_java_source(
    source: str,
    *arguments: object,
    stdin: str | None = None,
    timeout_s: float = TOOL_TIMEOUT_S,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Compiles and runs a Java program, given as the text of one public class with `main`, against Kafka's classes."""
    return run(java_source(source, *arguments), stdin=stdin, timeout_s=timeout_s, check=check)


def java_source(source: str, *arguments: object, options: Sequence[str] = TOOL_OPTIONS) -> list[str]:
    """Compiles a Java program, the text of one public class with `main`; returns the command that runs it."""
    directory, name = compile_java(source)
    return java(name, *arguments, options=options, classes=directory)


def random_uuid() -> str:
    """A random id as Kafka writes it: 22 characters of URL-safe base64."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):  # a tool would take it for an option
            return text


class KafkaPeer:
    """One node of Apache Kafka, broker and controller, on loopback; a context manager that starts and stops it.

    Parameters: `directory`, where its log directories and its configuration go (a temporary one otherwise, removed
    at the end); `properties`, more lines of server.properties (None leaves one out); `log_directories`, how many;
    `features`, feature levels to format with, by default without those that Penstock lacks; `format`, False to start
    on what the directory holds; `cluster_id`; `node_id`; `java_options`, more for the Java machine.

    Attributes: `bootstrap`, `port`, `log_dirs`, `config_file`, `log_file`, `process`; `tls`, how `port` is reached
    where it speaks TLS.
    """

    def __init__(
        self,
        directory: Path | str | None = None,
        *,
        properties: Mapping[str, object | None] | None = None,
        log_directories: int = 1,
        features: Mapping[str, int] | None = None,
        format: bool = True,  # noqa: A002 - as the tool calls it
        cluster_id: str | None = None,
        node_id: int = 1,
        java_options: Sequence[str] = (),
    ) -> None:
        require_kafka()
        self._own_directory = directory is None
        self.directory = Path(tempfile.mkdtemp(prefix="kafka-peer-") if directory is None else directory)
        self.cluster_id = cluster_id or random_uuid()
        self.node_id = node_id
        self.features = dict.fromkeys(LACKING_FEATURES, 0) if features is None else dict(features)
        self.log_dirs = [self.directory / f"data-{index}" for index in range(log_directories)]
        self.config_file = self.directory / "server.properties"
        self.log_file = self.directory / "server.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._properties = dict(properties or {})
        self._format = format
        self._java_options = java_options
        self.port = 0
        self.tls: ssl.SSLContext | None = None

    @property
    def bootstrap(self) -> str:
        """The address for clients, host:port."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> KafkaPeer:
        try:
            self.write_configuration()
            if self._format:
                self.format()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def write_configuration(self) -> None:
        """Chooses free ports and writes server.properties."""
        self.port, controller_port = free_ports(2)
        entries: dict[str, object | None] = {
            "process.roles": "broker,controller",
            "node.id": self.node_id,
            "controller.quorum.voters": f"{self.node_id}@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": ",".join(map(str, self.log_dirs)),
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "num.network.threads": 2,
            "num.io.threads": 2,
        }
        entries.update(self._properties)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config_file.write_text(
            "".join(f"{name}={value}\n" for name, value in entries.items() if value is not None)
        )

    def format(self, *options: str) -> None:
        """Formats the log directories as `kafka-storage.sh format` does, with more options such as --standalone."""
        class_name, *arguments = self.format_words()
        run_tool(class_name, *arguments, *options)

    def format_words(self) -> list[str]:
        """The class that formats the log directories, and its arguments."""
        levels = [part for name, level in self.features.items() for part in ("--feature", f"{name}={level}")]
        return ["kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", str(self.config_file), *levels]

    def node_words(self) -> list[str]:
        """The class that is a node, and its argument."""
        return ["kafka.Kafka", str(self.config_file)]

    def start(self, command: Sequence[str] | None = None) -> None:
        """Starts the node, by the usual command or the one given, and waits until it answers requests."""
        if command is None:
            command = java(*self.node_words(), options=[*NODE_OPTIONS, *self._java_options])
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=self.directory)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop(signal.SIGKILL)
                raise ToolError(f"Kafka did not start:\n{self.log()[-8000:]}")
            with suppress(subprocess.TimeoutExpired):  # a pause which ends early when the process does
                self.process.wait(0.05)

    def answers(self) -> bool:
        """Whether the broker answers ApiVersions; it holds requests back until it is registered and unfenced."""
        try:
            plain = socket.create_connection(("127.0.0.1", self.port), timeout=1)
            with plain if self.tls is None else self.tls.wrap_socket(plain) as connection:
                connection.sendall(API_VERSIONS_REQUEST)
                return len(connection.recv(4)) == 4
        except OSError:
            return False

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stops the node: cleanly by default, at once with SIGKILL."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def log(self) -> str:
        """Everything that the node has logged."""
        return self.log_file.read_text(errors="replace")

    def run_tool(self, class_name: str, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        """Runs one of Kafka's tools with `--bootstrap-server` of this node."""
        return run_tool(class_name, "--bootstrap-server", self.bootstrap, *arguments, **options)  # type: ignore[arg-type]

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """Creates a topic; `configs` have `_` for `.` in their names."""
        more = [part for key, value in configs.items() for part in ("--config", f"{key.replace('_', '.')}={value}")]
        self.run_tool(
            "org.apache.kafka.tools.TopicCommand", "--create", "--topic", name, "--partitions", partitions, *more
        )
