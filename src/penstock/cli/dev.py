"""Run a cluster on this machine, without configuration: one node, or several with --brokers.

The data is kept from run to run. If the usual port is taken, the next free one is used, and said.

examples:
  penstock dev
  penstock dev --brokers 3                           three nodes, topics with three replicas
  penstock dev --fresh --port 9192 --override num.partitions=6
  penstock dev --json --port 0 --data /tmp/mine      one line of JSON when ready: for scripts
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.cli.common import DEFAULT_BOOTSTRAP, pair
from penstock.cli.server import add_logging
from penstock.errors import ConfigError, StorageError

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.server.server import Server

SUMMARY = "run a cluster on this machine, without configuration"
HOST = "127.0.0.1"
DEFAULT_PORT = 9092
DEFAULT_METRICS_PORT = 9644
PORTS_TRIED = 100
DIRECTORIES_TRIED = 100
NODE_ID = 1
MISSING = "transactions, share groups, TLS/SASL and ACLs, log compaction"
"""What of Kafka does not work yet, in one line."""


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--brokers", type=int, default=1, metavar="N", help="nodes, each a process of its own (1)")
    parser.add_argument("--port", type=int, help=f"0 for any free one ({DEFAULT_PORT}, or the next free one)")
    parser.add_argument(
        "--metrics-port", type=int, help=f"of /metrics; 0 for any ({DEFAULT_METRICS_PORT}, or the next)"
    )
    parser.add_argument("--data", metavar="DIR", help="where the data is kept (~/.local/share/penstock/dev)")
    parser.add_argument("--fresh", action="store_true", help="remove what the data directory has, and start empty")
    parser.add_argument(
        "--override", action="append", default=[], metavar="NAME=VALUE", help="a setting of the broker; repeatable"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON when ready")
    add_logging(parser, "WARNING")


@dataclass(slots=True)
class Place:
    """Where the cluster runs, and why it is not where one would look for it."""

    data: str
    port: int
    metrics_port: int
    notes: dict[str, str]
    existed: bool = False


def run(arguments: argparse.Namespace) -> int:
    """Runs the cluster until Ctrl-C; returns the exit code."""
    from penstock.server.logs import configure
    from penstock.server.process import run as run_node

    configure(json_lines=arguments.log_format == "json", level=arguments.log_level)
    if arguments.brokers != 1:
        from penstock.cli.dev_cluster import run as run_cluster

        return run_cluster(arguments)
    place = find_place(arguments)
    if arguments.fresh:
        empty(place.data)
        place.existed = False
    settings = prepare(place, dict(pair(text, "--override") for text in arguments.override))

    def ready(server: Server) -> None:
        address = next(address for name, address in server.addresses.items() if name != "CONTROLLER")
        metrics = f"http://{server.http_address}/metrics" if server.http_address else ""
        if arguments.json:
            import json

            print(json.dumps({"bootstrap": address, "metrics": metrics, "data": place.data}), flush=True)
        else:
            print(greeting(place, address, metrics, seconds_since_start()), flush=True)

    code = run_node(settings, on_ready=ready)
    if not arguments.json:
        print("\nstopped" if code == 0 else "\nthe broker failed; see above", flush=True)
    return code


def find_place(arguments: argparse.Namespace) -> Place:
    """The data directory and the ports: those asked for, else the usual ones, else the next that are free.

    Raises ConfigError or StorageError when what was asked for is taken.
    """
    notes: dict[str, str] = {}
    if arguments.data is not None:
        data = os.path.abspath(os.path.expanduser(arguments.data))
        os.makedirs(data, exist_ok=True)
        check_unused(data)
    else:
        data = free_data_directory(notes)
    port = choose_port(arguments.port, DEFAULT_PORT, "--port", "bootstrap", notes)
    metrics_port = choose_port(arguments.metrics_port, DEFAULT_METRICS_PORT, "--metrics-port", "metrics", notes)
    return Place(data, port, metrics_port, notes, existed=os.path.exists(f"{data}/meta.properties"))


def choose_port(asked: int | None, usual: int, option: str, what: str, notes: dict[str, str]) -> int:
    """The port asked for, else the usual one or the next that is free."""
    if asked is not None:
        if not 0 <= asked <= 65535:
            raise ConfigError(f"{option} {asked} is not a port: it must be from 0 (any free one) to 65535")
        if asked and not is_free(asked):
            raise ConfigError(f"port {asked} is taken: choose another {option}, or 0 for any free one")
        return asked
    for port in range(usual, usual + PORTS_TRIED):
        if is_free(port):
            if port != usual:
                notes[what] = f"port {usual} is taken"
            return port
    raise ConfigError(f"ports {usual} to {usual + PORTS_TRIED - 1} are all taken: {option} 0 takes any free one")


def is_free(port: int) -> bool:
    """Whether a server can listen on the port of the loopback."""
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_data_directory(notes: dict[str, str]) -> str:
    """The usual data directory, or the first of its successors that no other process uses."""
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    usual = os.path.join(home, "penstock", "dev")
    for number in range(1, DIRECTORIES_TRIED + 1):
        path = usual if number == 1 else f"{usual}-{number}"
        os.makedirs(path, exist_ok=True)
        try:
            check_unused(path)
        except StorageError:
            notes["data"] = "another penstock dev has the usual one"
            continue
        return path
    raise StorageError(f"{usual} and its successors are all in use: choose a directory with --data")


def check_unused(path: str) -> None:
    """Raises StorageError when another process uses the log directory."""
    from penstock.server.directory_lock import DirectoryLock

    DirectoryLock(path).release()


def empty(path: str) -> None:
    """Removes what a log directory has. Raises ConfigError if it does not look like one: nothing is removed then."""
    import shutil

    from penstock.server.directory_lock import LOCK_FILE

    names = set(os.listdir(path)) - {LOCK_FILE}
    if names and "meta.properties" not in names:
        raise ConfigError(
            f"{path} is not a log directory (it has no meta.properties): --fresh removes nothing there\n"
            "  choose another --data, or empty it yourself"
        )
    for name in sorted(names, key=lambda name: (name == "meta.properties", name)):  # the mark of a log directory last
        full = os.path.join(path, name)
        if os.path.isdir(full) and not os.path.islink(full):
            shutil.rmtree(full)
        else:
            os.unlink(full)


def prepare(place: Place, overrides: dict[str, str]) -> Settings:
    """Settings of the node, its directory formatted if it is not yet. Raises ConfigError."""
    from penstock.cli.common import new_random
    from penstock.config.server import Settings
    from penstock.log.meta_properties import MetaProperties, new_directory_id, parse_meta_properties, uuid_text
    from penstock.server.directories import format_storage

    random = new_random()
    meta_path = f"{place.data}/meta.properties"
    if os.path.exists(meta_path):
        with open(meta_path, "rb") as file:
            meta = parse_meta_properties(file.read(), meta_path)
    else:
        meta = MetaProperties(uuid_text(new_directory_id(random)), NODE_ID, None)
    settings = Settings.from_properties({**properties(place, meta.node_id), **overrides}, strict=True)
    format_storage(settings, meta.cluster_id, random, time.time_ns() // 1_000_000)
    return settings


def properties(place: Place, node_id: int) -> dict[str, str]:
    """The settings of a cluster of one node."""
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://{HOST}:{place.port},CONTROLLER://{HOST}:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"{HOST}:0",
        "log.dirs": place.data,
        "penstock.metrics.listener": f"{HOST}:{place.metrics_port}",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }


def greeting(place: Place, address: str, metrics: str, seconds: float) -> str:
    """What a person sees when the cluster is ready."""
    from penstock import __version__
    from penstock.cli.output import BOLD, YELLOW, home_relative, paint

    bootstrap = "" if address == DEFAULT_BOOTSTRAP else f" --bootstrap {address}"
    kept = "kept; --fresh starts empty" if place.existed else "new; it is kept"
    notes = {what: paint(f"   ({note})", YELLOW) for what, note in place.notes.items()}
    return "\n".join(
        [
            paint(f"Penstock {__version__}", BOLD) + f", one node, ready in {seconds:.2f} s",
            f"  bootstrap   {address}{notes.get('bootstrap', '')}",
            f"              penstock produce clicks{bootstrap}  |  penstock consume clicks{bootstrap}",
            f"  data        {home_relative(place.data)}   ({kept}){notes.get('data', '')}",
            f"  metrics     {metrics}{notes.get('metrics', '')}",
            f"  not yet     {MISSING}",
            "Ctrl-C stops it.",
        ]
    )


def seconds_since_start() -> float:
    """How long this process has lived, the start of the interpreter included where the system tells it (Linux)."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError):
        return time.process_time()
