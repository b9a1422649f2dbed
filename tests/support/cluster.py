"""A cluster of Penstock for tests: several nodes, each a real process, broker and controller in one, on the loopback.

    with ProcessCluster(racks=("a", "b", "c")) as cluster:
        tool(cluster.bootstrap)
        cluster.kill(2)
        cluster.start(2)

The nodes are known by the files of their process ids, so that a command (`restart_command`) can restart one too, as an
operator's would. What a node wrote to its log is in `log_text`, and in the error when it does not come up.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

import psutil

from penstock.config.server import Settings
from penstock.server.directories import format_storage
from penstock.testing.broker import memory_directory

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
LOOK_EVERY_S = 0.02
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
READY = "server: ready"
"""What the log of a node has once in each run, when it serves."""


class ProcessCluster:
    """See the module's head.

    Args:
        nodes: how many; their ids are 1, 2, ...
        racks: `broker.rack` by node, or empty.
        settings: more settings of every node, by Kafka's names.

    Attributes:
        node_ids: the ids; ports: the port for clients by id; directory: where all of them keep their files.
    """

    def __init__(self, nodes: int = 3, *, racks: Sequence[str] = (), settings: Mapping[str, str] | None = None) -> None:
        self.node_ids = tuple(range(1, nodes + 1))
        self.directory = Path(tempfile.mkdtemp(prefix="penstock-cluster-", dir=memory_directory()))
        ports = free_ports(2 * nodes)
        self.ports = dict(zip(self.node_ids, ports, strict=False))
        self._controller_ports = dict(zip(self.node_ids, ports[nodes:], strict=True))
        self._racks = dict(zip(self.node_ids, racks, strict=False))
        self._settings = dict(settings or {})

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, separated by commas."""
        return ",".join(self.address(node_id) for node_id in self.node_ids)

    def address(self, node_id: int) -> str:
        """A node's address for clients."""
        return f"127.0.0.1:{self.ports[node_id]}"

    def pid(self, node_id: int) -> int:
        """The process id of a node, of its last run."""
        return pid_of(self.directory, node_id)

    def log_text(self, node_id: int) -> str:
        """What a node wrote to its log so far, all its runs."""
        return log_file(self.directory, node_id).read_text()

    def __enter__(self) -> Self:
        try:
            for node_id in self.node_ids:
                self._format(node_id)
            runs = {node_id: spawn(self.directory, node_id) for node_id in self.node_ids}
            for node_id, position in runs.items():
                wait_until_ready(self.directory, node_id, position)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def start(self, node_id: int) -> None:
        """Starts a node that was stopped or killed; returns when it serves."""
        wait_until_ready(self.directory, node_id, spawn(self.directory, node_id))

    def stop(self, node_id: int) -> None:
        """Stops a node cleanly."""
        end(self.directory, node_id, signal.SIGTERM)

    def kill(self, node_id: int) -> None:
        """Kills a node."""
        end(self.directory, node_id, signal.SIGKILL)

    def close(self) -> None:
        """Kills all nodes and removes their directories. Twice is no error."""
        for node_id in self.node_ids:
            if pid_file(self.directory, node_id).exists():
                self.kill(node_id)
        shutil.rmtree(self.directory, ignore_errors=True)

    def restart_command(self) -> str:
        """A command that restarts the node {id}."""
        return f"{sys.executable} {__file__} {self.directory} {{id}}"

    def _format(self, node_id: int) -> None:
        properties = self._properties(node_id)
        config_file(self.directory, node_id).write_text("".join(f"{key}={properties[key]}\n" for key in properties))
        settings = Settings.from_properties(properties, strict=True)
        now_ms = time.time_ns() // 1_000_000
        format_storage(settings, CLUSTER_ID, Random(now_ms + node_id), now_ms, standalone=False, durable=False)

    def _properties(self, node_id: int) -> dict[str, str]:
        voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in self._controller_ports.items())
        data = self.directory / str(node_id)
        data.mkdir()
        rack = {"broker.rack": self._racks[node_id]} if node_id in self._racks else {}
        return {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{self.address(node_id)},CONTROLLER://127.0.0.1:{self._controller_ports[node_id]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": str(data),
            "offsets.topic.replication.factor": str(len(self.node_ids)),
            "transaction.state.log.replication.factor": str(len(self.node_ids)),
            **rack,
            **self._settings,
        }


def config_file(directory: Path, node_id: int) -> Path:
    return directory / f"{node_id}.properties"


def log_file(directory: Path, node_id: int) -> Path:
    return directory / f"{node_id}.log"


def pid_file(directory: Path, node_id: int) -> Path:
    return directory / f"{node_id}.pid"


def pid_of(directory: Path, node_id: int) -> int:
    return int(pid_file(directory, node_id).read_text())


def spawn(directory: Path, node_id: int) -> int:
    """Starts a node, which outlives this process; gives where in its log this run begins."""
    with log_file(directory, node_id).open("ab") as log:
        position = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock", "server", "start", str(config_file(directory, node_id))],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    pid_file(directory, node_id).write_text(str(process.pid))
    process.returncode = 0  # `end` waits for it by its id: it may be ended by another process
    return position


def wait_until_ready(directory: Path, node_id: int, position: int) -> None:
    """Waits until the run that begins there in the log says that it serves."""

    def ready() -> bool:
        text = log_file(directory, node_id).read_bytes()[position:].decode()
        assert is_running(pid_of(directory, node_id)), f"node {node_id} ended:\n{text}"
        return READY in text

    wait_for(ready, START_TIMEOUT_S, f"node {node_id} does not serve")


def end(directory: Path, node_id: int, number: int) -> None:
    """Ends a node with a signal; returns when it is gone."""
    pid = pid_of(directory, node_id)
    pid_file(directory, node_id).unlink()
    try:
        process = psutil.Process(pid)
        process.send_signal(number)
        process.resume()
    except psutil.NoSuchProcess:
        return
    wait_for(lambda: not is_running(pid), STOP_TIMEOUT_S, f"node {node_id} does not end")


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody asked about yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(condition: Callable[[], bool], timeout_s: float, otherwise: str) -> None:
    """Waits until something holds. Raises AssertionError with `otherwise` when it takes too long."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, otherwise
        time.sleep(LOOK_EVERY_S)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that are free now, each another."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


if __name__ == "__main__":  # what `restart_command` runs
    place, number = Path(sys.argv[1]), int(sys.argv[2])
    end(place, number, signal.SIGTERM)
    spawn(place, number)
