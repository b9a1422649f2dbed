"""Nodes of a cluster as processes of their own, started by `penstock server start` with Kafka's properties.

    with Cluster(tmp_path) as cluster:
        cluster.kill(1)
        cluster.start(1)
        cluster.wait_ready(1)

Ports are free ones of the loopback. What a node has to say is in its log file; a test that fails says it.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from types import TracebackType

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
TIMEOUT_S = 60.0
PENSTOCK = [sys.executable, "-m", "penstock"]


def ports_of_this_process() -> Iterator[int]:
    """Ports in any order, round and round, which no other process of the same run of pytest-xdist gives out."""
    first = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    ports = range(10_000 + first % processes, 32_000, processes)
    return cycle(random.sample(ports, len(ports)))


PORTS = ports_of_this_process()


def free_ports(count: int) -> list[int]:
    """Ports that are free now, each another, and not those of an earlier call, whose owner may not have bound them yet.
    They lie below those that the system gives to outgoing connections, so nobody takes them by chance.
    """
    found: list[int] = []
    while len(found) < count:
        port = next(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Looks again and again, until the condition holds."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.02)


class Cluster:
    """See the module's head.

    Args:
        combined: how many nodes are broker and controller in one; their ids begin with 1.
        controllers, brokers: how many are only that; their ids follow.
        dynamic: node 1 is the first voter of a dynamic quorum, other controllers are added to it.
        directories: log directories of each node, data-1 and so on, with the metadata log elsewhere; None: one, data.
        way: by which port others reach the controller of a node (its id and port); None: by its own.
        format_options: further options of `storage format`.
        settings: of all nodes, by Kafka's names with `_` for `.`.
    """

    def __init__(
        self,
        directory: Path,
        combined: int = 3,
        *,
        controllers: int = 0,
        brokers: int = 0,
        dynamic: bool = False,
        directories: int | None = None,
        way: Callable[[int, int], int] | None = None,
        format_options: Sequence[str] = (),
        **settings: object,
    ) -> None:
        roles = ["broker,controller"] * combined + ["controller"] * controllers + ["broker"] * brokers
        self.roles = dict(enumerate(roles, start=1))
        self.directory = directory
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._readied: dict[int, int] = {}
        ports = free_ports(2 * len(roles))
        self.ports = dict(enumerate(ports[: len(roles)], start=1))
        controller_ports = self.controller_ports = dict(enumerate(ports[len(roles) :], start=1))
        at = "" if dynamic else "{}@"
        seen = {id_: way(id_, port) if way else port for id_, port in controller_ports.items()}
        addresses = [at.format(id_) + f"127.0.0.1:{seen[id_]}" for id_ in self.nodes("controller")]
        for id_, role in self.roles.items():
            listeners = []
            if "broker" in role:
                listeners.append(f"PLAINTEXT://127.0.0.1:{self.ports[id_]}")
            if "controller" in role:
                listeners.append(f"CONTROLLER://127.0.0.1:{controller_ports[id_]}")
            properties = {
                "process.roles": role,
                "node.id": id_,
                "listeners": ",".join(listeners),
                "advertised.listeners": ",".join(listeners).replace(str(controller_ports[id_]), str(seen[id_])),
                "controller.listener.names": "CONTROLLER",
                f"controller.quorum.{'bootstrap.servers' if dynamic else 'voters'}": ",".join(addresses),
                **self._directories(id_, directories),
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
            self.path(id_).mkdir(parents=True)
            self.file(id_).write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
            command = [*PENSTOCK, "storage", "format", "-t", CLUSTER_ID, "-c", str(self.file(id_)), *format_options]
            if dynamic and "controller" in role:
                command.append("--standalone" if id_ == 1 else "--no-initial-controllers")
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)

    def _directories(self, id_: int, count: int | None) -> dict[str, object]:
        path = self.path(id_)
        if count is None:
            return {"log.dirs": path / "data"}
        log_dirs = ",".join(str(path / f"data-{number}") for number in range(1, count + 1))
        return {"log.dirs": log_dirs, "metadata.log.dir": path / "metadata"}

    def nodes(self, role: str) -> list[int]:
        """The ids of the nodes with a role."""
        return [id_ for id_, roles in self.roles.items() if role in roles]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.ports[id_]}" for id_ in self.nodes("broker"))

    @property
    def running(self) -> str:
        """The addresses of the brokers that were started and neither stopped nor killed."""
        return ",".join(f"127.0.0.1:{self.ports[id_]}" for id_ in self.nodes("broker") if id_ in self.processes)

    def path(self, id_: int) -> Path:
        return self.directory / str(id_)

    def file(self, id_: int) -> Path:
        return self.path(id_) / "server.properties"

    def log(self, id_: int) -> str:
        return (self.path(id_) / "log").read_text()

    # Life

    def __enter__(self) -> Cluster:
        try:
            for id_ in self.roles:
                self.start(id_)
            self.wait_ready(*self.roles)
        except BaseException:
            self._kill_all()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            try:
                self.stop(*self.processes)
            finally:
                self._kill_all()
        else:
            self._kill_all()
            for id_ in self.roles:
                error.add_note(f"node {id_}:\n{self.log(id_)[-4000:]}")

    def start(self, id_: int) -> None:
        """Starts a node; `wait_ready` waits for it."""
        self._readied[id_] = self._ready_lines(id_)
        with open(self.path(id_) / "log", "ab") as log:
            command = [*PENSTOCK, "server", "start", str(self.file(id_))]
            self.processes[id_] = subprocess.Popen(command, stdout=log, stderr=log)

    def _ready_lines(self, id_: int) -> int:
        log = self.path(id_) / "log"
        return log.read_text().count("server: ready") if log.exists() else 0

    def wait_ready(self, *ids: int) -> None:
        """Waits until the nodes serve."""
        for id_ in ids:

            def ready(id_: int = id_) -> bool:
                code = self.processes[id_].poll()
                assert code is None, f"node {id_} has ended ({code}):\n{self.log(id_)[-4000:]}"
                return self._ready_lines(id_) > self._readied[id_]

            wait_until(ready, f"node {id_} serves")

    def kill(self, id_: int) -> None:
        """kill -9."""
        process = self.processes.pop(id_)
        process.kill()
        process.wait(TIMEOUT_S)

    def signal(self, id_: int, number: signal.Signals) -> None:
        os.kill(self.processes[id_].pid, number)

    def stop(self, *ids: int) -> None:
        """Stops nodes cleanly, side by side."""
        processes = {id_: self.processes.pop(id_) for id_ in list(ids)}
        for process in processes.values():
            process.terminate()
        for id_, process in processes.items():
            assert process.wait(TIMEOUT_S) == 0, f"node {id_} did not stop cleanly:\n{self.log(id_)[-4000:]}"

    def _kill_all(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait(TIMEOUT_S)

    def pids(self, ids: Iterable[int]) -> list[int]:
        return [self.processes[id_].pid for id_ in ids]
