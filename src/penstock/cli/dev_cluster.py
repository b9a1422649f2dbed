"""The nodes of `penstock dev --brokers N`: each a process of its own, broker and controller in one.

This process writes a configuration file for each node into the data directory, starts them side by side, waits until
all serve, and stops them when it is stopped. A node that dies is said, and the others go on: that is what a cluster is
for. Each node watches a pipe from here, so that none is left behind when this process is killed.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.cli.dev_data import META, check_cluster_fit, check_fit, empty, held, mark
from penstock.cli.dev_place import (
    DEFAULT_METRICS_PORT,
    DEFAULT_PORT,
    HOST,
    MISSING,
    choose_port,
    free_ports,
    given_directory,
    given_overrides,
    seconds_since_start,
)
from penstock.errors import ConfigError, StorageError, UsageError

if TYPE_CHECKING:
    from penstock.cli.dev_guardian import DevGuardian
    from penstock.config.server import Settings
    from penstock.server.server import Server

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
LOOK_EVERY_S = 0.2
REPLICATION_FACTOR_MAX = 3
NODES_MAX = 9
ELECTION_TIMEOUT_MS = 200
"""On one machine a voter need not wait long for another."""
FILE = "server.properties"
LIST_WIDTH = 66
"""Of a list in the greeting, so that its lines fit into 80 columns."""


def run(arguments: argparse.Namespace) -> int:
    """Runs the cluster until Ctrl-C; returns the exit code."""
    if not 1 < arguments.brokers <= NODES_MAX:
        raise UsageError(f"--brokers {arguments.brokers} is out of range: it must be from 1 to {NODES_MAX}")
    overrides = given_overrides(arguments.override)
    data = data_directory(arguments.data)
    with held([data]):  # as long as this process lives, so that a second command never gets in between
        make_room(data, arguments.brokers, fresh=arguments.fresh)
        if not arguments.guardian:
            return run_in(data, overrides, arguments, None)
        from penstock.cli.dev_guardian import guardian_beside

        with guardian_beside(
            data, arguments.guardian_port, fresh=arguments.fresh, log_level=arguments.log_level
        ) as guardian:
            return run_in(data, overrides, arguments, guardian)


def make_room(data: str, count: int, *, fresh: bool) -> None:
    """Makes the nodes' directories ready for use, emptied if `fresh`. Nothing is changed when this raises.

    Raises:
        ConfigError: the directory is not for a cluster of that many nodes, or has what is not ours to remove.
        StorageError: a node of it runs: its starter may have died before it.
    """
    logs = [log_directory(data, node_id) for node_id in nodes_in(data)]
    with held(logs):
        for node_id in range(1, count + 1):
            check_fit(log_directory(data, node_id))
        if fresh:
            empty(logs)
        check_count(data, count)
        for node_id in range(1, count + 1):
            mark(log_directory(data, node_id))


def run_in(data: str, overrides: dict[str, str], arguments: argparse.Namespace, guardian: DevGuardian | None) -> int:
    """Runs the cluster in its directory until Ctrl-C; returns the exit code."""
    count = arguments.brokers
    ports = choose_ports(arguments.port, DEFAULT_PORT, count, "--port", "bootstrap")
    metrics_ports = choose_ports(arguments.metrics_port, DEFAULT_METRICS_PORT, count, "--metrics-port", "metrics")
    prepared = prepare(data, ports, free_ports(count), metrics_ports, overrides)
    nodes: list[Node] = []
    signal.signal(signal.SIGTERM, interrupt)
    try:
        for settings in prepared:
            nodes.append(start(settings, nodes))
        failed = wait_until_ready(nodes)
        if failed is not None:
            raise StorageError(f"node {failed.id} did not come up; see above")
        bootstrap = ",".join(f"{HOST}:{port}" for port in ports)
        metrics = [f"http://{HOST}:{port}/metrics" for port in metrics_ports]
        if guardian is not None:
            guardian.register(bootstrap.split(","))
        if arguments.json:
            told = {"bootstrap": bootstrap, "metrics": metrics, "data": data, "pids": [node.pid for node in nodes]}
            print(json.dumps(told | ({"guardian": guardian.address} if guardian is not None else {})), flush=True)
        else:
            more = guardian.told() if guardian is not None else []
            print(greeting(bootstrap, metrics, data, count=count, more=more), flush=True)
        wait_for_signal_or_end(nodes)
    except KeyboardInterrupt:
        pass
    finally:
        code = stop(nodes)
    if not arguments.json:
        print("\nstopped", flush=True)
    return code


def interrupt(number: int, frame: object) -> None:
    """Treats SIGTERM like Ctrl-C."""
    raise KeyboardInterrupt


def greeting(bootstrap: str, metrics: Sequence[str], data: str, *, count: int, more: Sequence[str]) -> str:
    """The text shown when the cluster is ready."""
    from penstock import __version__
    from penstock.cli.output import BOLD, home_relative, paint

    return "\n".join(
        [
            paint(f"Penstock {__version__}", BOLD) + f", {count} nodes, ready in {seconds_since_start():.2f} s",
            f"  bootstrap   {bootstrap}",
            "  metrics     " + f"\n{' ' * 14}".join(textwrap.wrap(" ".join(metrics), LIST_WIDTH)),
            f"  data        {home_relative(data)}   (kept; --fresh starts empty)",
            *more,
            f"  not yet     {MISSING}",
            "Ctrl-C stops it.",
        ]
    )


def data_directory(asked: str | None) -> str:
    """Where the cluster's nodes have their directories."""
    if asked is not None:
        data = given_directory(asked)
    else:
        home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
        data = os.path.join(home, "penstock", "dev-cluster")
    check_cluster_fit(data)
    mark(data)
    return data


def nodes_in(data: str) -> list[int]:
    return [node_id for node_id in range(1, NODES_MAX + 1) if os.path.exists(meta_path(data, node_id))]


def meta_path(data: str, node_id: int) -> str:
    return os.path.join(log_directory(data, node_id), META)


def check_count(data: str, count: int) -> None:
    """Raises ConfigError when the directory has a cluster of another size: its quorum has other voters."""
    found = nodes_in(data)
    if not found or found == list(range(1, count + 1)):
        return
    if len(found) > 1 and found == list(range(1, len(found) + 1)):
        raise ConfigError(
            f"{data} has a cluster of {len(found)} nodes: give --brokers {len(found)}, another --data, or --fresh"
        )
    raise ConfigError(
        f"{data} has only a part of a cluster: node {', '.join(map(str, found))}\n"
        "  an earlier start may have been cut short: give --fresh to begin again, or another --data"
    )


def choose_ports(asked: int | None, usual: int, count: int, option: str, what: str) -> list[int]:
    """Ports from the one asked for on, any free ones with 0, else the usual one and the next that are free."""
    if asked == 0:
        return free_ports(count)
    ports: list[int] = []
    for number in range(count):
        expected = ports[-1] + 1 if ports else usual
        ports.append(choose_port(None if asked is None else asked + number, expected, option, what, {}))
    return ports


@dataclass(slots=True)
class Node:
    """A process. `ready`: the end of its pipe by which it reports that it serves; `alive`: the one that it watches."""

    id: int
    pid: int
    ready: int
    alive: int


def node_directory(data: str, node_id: int) -> str:
    """Where one node of the cluster keeps its data and its configuration."""
    return os.path.join(data, f"node-{node_id}")


def log_directory(data: str, node_id: int) -> str:
    """Where one node of the cluster keeps its data."""
    return os.path.join(node_directory(data, node_id), "data")


def properties(data: str, ports: Sequence[int], controller_ports: Sequence[int], node_id: int) -> dict[str, str]:
    """The settings of one node: Kafka's own, as they would stand in a cluster's files."""
    count = len(ports)
    factor = min(count, REPLICATION_FACTOR_MAX)
    voters = ",".join(f"{each}@{HOST}:{port}" for each, port in enumerate(controller_ports, start=1))
    clients, controllers = ports[node_id - 1], controller_ports[node_id - 1]
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://{HOST}:{clients},CONTROLLER://{HOST}:{controllers}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": voters,
        "controller.quorum.election.timeout.ms": str(ELECTION_TIMEOUT_MS),
        "log.dirs": log_directory(data, node_id),
        "default.replication.factor": str(factor),
        "min.insync.replicas": str(max(1, factor - 1)),
        "offsets.topic.replication.factor": str(factor),
        "transaction.state.log.replication.factor": str(factor),
        "transaction.state.log.min.isr": str(max(1, factor - 1)),
        "share.coordinator.state.topic.replication.factor": str(factor),
        "share.coordinator.state.topic.min.isr": str(max(1, factor - 1)),
        "group.initial.rebalance.delay.ms": "0",
    }


def prepare(
    data: str,
    ports: Sequence[int],
    controller_ports: Sequence[int],
    metrics_ports: Sequence[int],
    overrides: dict[str, str],
) -> list[Settings]:
    """Writes the configuration files and formats the directories that are not yet. Raises ConfigError."""
    from penstock.cli.common import new_random
    from penstock.config.server import Settings
    from penstock.log.meta_properties import new_directory_id, uuid_text
    from penstock.server.directories import cluster_id_of, format_storage

    random = new_random()
    nodes = []
    for node_id in range(1, len(ports) + 1):
        own = properties(data, ports, controller_ports, node_id)
        given = {**own, "penstock.metrics.listener": f"{HOST}:{metrics_ports[node_id - 1]}", **overrides}
        nodes.append(Settings.from_properties(given, strict=True))
        directory = node_directory(data, node_id)
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, FILE), "w") as file:
            file.writelines(f"{name}={value}\n" for name, value in given.items())
    known = [found for settings in nodes if (found := cluster_id_of(settings)) is not None]
    cluster_id = known[0] if known else uuid_text(new_directory_id(random))
    for settings in nodes:
        format_storage(settings, cluster_id, random, time.time_ns() // 1_000_000, standalone=False)
    return nodes


def start(settings: Settings, others: Sequence[Node]) -> Node:
    """Starts one node as a child process. This process has no threads and no loop yet, so that it may be forked."""
    ready, say_ready = os.pipe()
    watched, alive = os.pipe()
    pid = os.fork()
    if pid:
        os.close(say_ready)
        os.close(watched)
        return Node(settings.node_id, pid, ready, alive)
    code = 1
    try:
        for end in (ready, alive, *(end for other in others for end in (other.ready, other.alive))):
            os.close(end)
        os.setpgid(0, 0)  # Ctrl-C is for the parent, which stops all in order
        code = run_child(settings, say_ready, watched)
    except BaseException as error:
        print(f"node {settings.node_id}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def run_child(settings: Settings, say_ready: int, watched: int) -> int:
    """Runs a node until it is told to stop, or its parent is gone."""
    from penstock.server.process import run

    def ready(server: Server) -> None:
        server.shell.loop.add_reader(watched, lambda: os.kill(os.getpid(), signal.SIGTERM))
        os.write(say_ready, b"ready\n")
        os.close(say_ready)

    return run(settings, on_ready=ready)


def wait_until_ready(nodes: Sequence[Node]) -> Node | None:
    """Waits until all nodes serve; returns one that did not start, None if all did."""
    waiting = {node.ready: node for node in nodes}
    while waiting:
        found = select.select(list(waiting), [], [], READY_TIMEOUT_S)[0]
        if not found:
            return next(iter(waiting.values()))
        for end in found:
            node = waiting.pop(end)
            if not os.read(end, 16):
                return node
    return None


def stop(nodes: Sequence[Node]) -> int:
    """Stops the live nodes cleanly; returns the worst exit code."""
    for node in nodes:
        signal_to(node, signal.SIGTERM)
    return max((wait_for(node) for node in nodes), default=0)


def wait_for(node: Node) -> int:
    """Waits for the end of a node; one that takes too long is killed. Returns its exit code."""
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    while True:
        try:
            pid, status = os.waitpid(node.pid, os.WNOHANG)
        except ChildProcessError:
            return 1
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline_s:
            signal_to(node, signal.SIGKILL)
        time.sleep(0.01)


def signal_to(node: Node, number: int) -> None:
    """Sends a signal to a node that may have ended already."""
    try:
        os.kill(node.pid, number)
    except ProcessLookupError:
        return


def wait_for_signal_or_end(nodes: list[Node]) -> None:
    """Returns when this process is told to stop, or when no node is left. Prints which nodes have died."""
    stopping = False

    def handle(number: int, frame: object) -> None:
        nonlocal stopping
        stopping = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    while nodes and not stopping:
        for node in list(nodes):
            pid, status = os.waitpid(node.pid, os.WNOHANG)
            if pid:
                nodes.remove(node)
                code = os.waitstatus_to_exitcode(status)
                print(f"node {node.id} has died (exit code {code})", file=sys.stderr, flush=True)
        time.sleep(LOOK_EVERY_S)
