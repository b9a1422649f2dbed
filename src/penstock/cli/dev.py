"""Run a cluster on this machine, without configuration: one node, or several with --brokers.

The data is kept between runs. If the default port is taken, the next free one is used and shown.

examples:
  penstock dev
  penstock dev --brokers 3                           three nodes, topics with three replicas
  penstock dev --secure                              TLS, logins and ACLs; see what it prints
  penstock dev --brokers 3 --guardian                and a Guardian that looks after them
  penstock dev --fresh --port 9192 --override num.partitions=6
  penstock dev --json --port 0 --data /tmp/mine      one line of JSON when ready: for scripts
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.cli.common import DEFAULT_BOOTSTRAP, add_flag, add_option, add_pairs
from penstock.cli.dev_data import check_fit, empty, held, mark
from penstock.cli.dev_place import (
    DEFAULT_METRICS_PORT,
    DEFAULT_PORT,
    HOST,
    MISSING,
    choose_port,
    given_directory,
    given_overrides,
    seconds_since_start,
)
from penstock.cli.dev_secure import LISTENER, secure
from penstock.cli.server import add_logging
from penstock.errors import ConfigError, StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.cli.dev_guardian import DevGuardian
    from penstock.config.server import Settings
    from penstock.server.server import Server

SUMMARY = "run a cluster on this machine, without configuration"
DIRECTORIES_TRIED = 100
NODE_ID = 1


def register(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "--brokers", "N", "number of nodes, each a process of its own", type=int, default=1)
    parser.add_argument(
        "--port",
        type=int,
        help=f"port for clients; 0 takes any free one (default: {DEFAULT_PORT}, or the next free one)",
    )
    add_option(
        parser,
        "--metrics-port",
        "PORT",
        f"port of /metrics; 0 takes any free one (default: {DEFAULT_METRICS_PORT}, or the next free one)",
        type=int,
    )
    add_option(parser, "--data", "DIR", "directory for the data (default: ~/.local/share/penstock/dev)")
    add_flag(parser, "--fresh", "start empty: delete what earlier runs of penstock dev stored there")
    add_flag(parser, "--secure", "one node with TLS, logins and ACLs: makes certificates and an administrator")
    add_flag(parser, "--guardian", "run a Guardian beside the cluster, which is registered with it")
    add_option(parser, "--guardian-port", "PORT", "port of Guardian; 0 takes any free one (default: 9500, or the next "
               "free one)", type=int)  # fmt: skip
    add_pairs(parser, "--override", "broker setting")
    add_flag(parser, "--json", "print one line of JSON when ready")
    add_logging(parser, "WARNING")


@dataclass(slots=True)
class Place:
    """Where the cluster runs, and why it is not where one would look for it."""

    data: str
    port: int
    metrics_port: int
    notes: dict[str, str]
    existed: bool = False
    client_file: str = ""
    """Client properties of the administrator, with --secure."""


def run(arguments: argparse.Namespace) -> int:
    """Runs the cluster until Ctrl-C; returns the exit code."""
    from penstock.server.logs import configure

    configure(json_lines=arguments.log_format == "json", level=arguments.log_level)
    if arguments.guardian and arguments.secure:
        raise UsageError("--guardian is for a cluster without --secure: Guardian would have to log in to it")
    if arguments.brokers != 1:
        if arguments.secure:
            raise UsageError("--secure is for one node: leave --brokers out")
        from penstock.cli.dev_cluster import run as run_cluster

        return run_cluster(arguments)
    overrides = given_overrides(arguments.override)
    place = find_place(arguments)
    with held([place.data], for_a_node=True):
        check_fit(place.data)  # once more: others may have put something there before it was held
        if arguments.fresh:
            empty([place.data])
            place.existed = False
        mark(place.data)
        if arguments.secure:
            secured, place.client_file = secure(place.data)
            overrides = {**secured, "listeners": listeners(place, LISTENER), **overrides}
        settings = prepare(place, overrides)
    if not arguments.guardian:
        return run_one(arguments, place, settings, None)
    from penstock.cli.dev_guardian import guardian_beside

    with guardian_beside(
        place.data, arguments.guardian_port, fresh=arguments.fresh, log_level=arguments.log_level
    ) as guardian:
        return run_one(arguments, place, settings, guardian)


def run_one(arguments: argparse.Namespace, place: Place, settings: Settings, guardian: DevGuardian | None) -> int:
    """Runs the node until Ctrl-C; returns the exit code."""
    from penstock.server.process import run as run_node

    def ready(server: Server) -> None:
        address = next(address for name, address in server.addresses.items() if name != "CONTROLLER")
        metrics = f"http://{server.http_address}/metrics" if server.http_address else ""
        if guardian is not None:
            guardian.register([address])
        if arguments.json:
            import json

            told = {"bootstrap": address, "metrics": metrics, "data": place.data}
            told |= {"command_config": place.client_file} if place.client_file else {}
            told |= {"guardian": guardian.address} if guardian is not None else {}
            print(json.dumps(told), flush=True)
        else:
            more = guardian.told() if guardian is not None else []
            print(greeting(place, address, metrics, seconds_since_start(), more), flush=True)

    code = run_node(settings, on_ready=ready)
    if not arguments.json:
        print("\nstopped" if code == 0 else "\nthe broker failed; see above", flush=True)
    return code


def find_place(arguments: argparse.Namespace) -> Place:
    """The data directory and the ports: those asked for, else the usual ones, else the next that are free.

    Raises UsageError for what is no port, ConfigError or StorageError when what was asked for is taken.
    """
    notes: dict[str, str] = {}
    if arguments.data is not None:
        data = given_directory(arguments.data)
        check_not_a_clusters(data)
        check_fit(data)
        os.makedirs(data, exist_ok=True)
        check_unused(data)
    else:
        data = free_data_directory(notes)
    port = choose_port(arguments.port, DEFAULT_PORT, "--port", "bootstrap", notes)
    metrics_port = choose_port(arguments.metrics_port, DEFAULT_METRICS_PORT, "--metrics-port", "metrics", notes)
    return Place(data, port, metrics_port, notes, existed=os.path.exists(f"{data}/meta.properties"))


def check_not_a_clusters(data: str) -> None:
    """Raises ConfigError when the directory is that of several nodes."""
    from penstock.cli.dev_cluster import nodes_in

    if nodes := nodes_in(data):
        wanted = f"give --brokers {max(nodes)}, or " if max(nodes) > 1 else ""
        raise ConfigError(f"{data} is the data directory of a cluster: {wanted}choose another --data")


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
        check_fit(path)
        return path
    raise StorageError(f"{usual} and its successors are all in use: choose a directory with --data")


def check_unused(path: str) -> None:
    """Raises StorageError when another process uses the log directory."""
    with held([path]):
        pass


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
        "listeners": listeners(place, "PLAINTEXT"),
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


def listeners(place: Place, clients: str) -> str:
    """The listener for clients, and that of the controller."""
    return f"{clients}://{HOST}:{place.port},CONTROLLER://{HOST}:0"


def greeting(place: Place, address: str, metrics: str, seconds: float, more: Sequence[str] = ()) -> str:
    """The text shown when the cluster is ready."""
    from penstock import __version__
    from penstock.cli.output import BOLD, YELLOW, home_relative, paint

    bootstrap = "" if address == DEFAULT_BOOTSTRAP else f" --bootstrap {address}"
    if place.client_file:
        bootstrap += f" --command-config {home_relative(place.client_file)}"
    examples = [f"penstock {what} clicks{bootstrap}" for what in ("produce", "consume")]
    shown = "  |  ".join(examples) if not bootstrap else f"\n{' ' * 14}".join(examples)
    kept = "kept; --fresh starts empty" if place.existed else "new; it is kept"
    notes = {what: paint(f"   ({note})", YELLOW) for what, note in place.notes.items()}
    elsewhere = f"\n{' ' * 11}{notes['data']}" if "data" in notes else ""
    client = [f"  client      {home_relative(place.client_file)}   (of the administrator)"] if place.client_file else []
    return "\n".join(
        [
            paint(f"Penstock {__version__}", BOLD) + f", one node, ready in {seconds:.2f} s",
            f"  bootstrap   {address}{notes.get('bootstrap', '')}",
            f"              {shown}",
            f"  data        {home_relative(place.data)}   ({kept}){elsewhere}",
            *client,
            f"  metrics     {metrics}{notes.get('metrics', '')}",
            *more,
            f"  not yet     {MISSING}",
            "Ctrl-C stops it.",
        ]
    )
