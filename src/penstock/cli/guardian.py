"""Run Guardian, which looks after many clusters, and tell it of them.

A Guardian is one, three or five nodes that keep one log; any of them answers. Each node has a properties file of its
own. Format its directory once, with the same id on all nodes, then start it.

examples:
  penstock guardian format conf/guardian-1.properties --guardian-id 5L6g3nShT-eMCtK--X86sw
  penstock guardian start conf/guardian-1.properties
  penstock guardian clusters add clicks --bootstrap 10.0.0.7:9092 --kind kafka --idc north
  penstock guardian clusters set-mode clicks balance=advise
  penstock guardian clusters list --json
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any
from uuid import UUID

from penstock.cli.common import (
    add_action,
    add_actions,
    add_command_config,
    add_json,
    add_option,
    add_pairs,
    names_in,
    new_random,
    pairs,
    read_properties,
    run_action,
    security_of,
)
from penstock.cli.server import add_logging
from penstock.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from penstock.cli.parser import Parser
    from penstock.guardian.client import Answer
    from penstock.guardian.service import GuardianServer

SUMMARY = "run Guardian, which looks after many clusters, and tell it of them"
DEFAULT_ADDRESS = "127.0.0.1:9500"
CLUSTERS = "/v1/clusters"

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    formatting = add_action(actions, "format", format_action, "format the directory of a Guardian node").examples(
        "penstock guardian format conf/guardian-1.properties --guardian-id $(penstock storage random-uuid)"
    )
    formatting.add_argument("file", metavar="FILE", help="the node's properties")
    add_option(formatting, "--guardian-id", "ID", "id of this Guardian, the same for all of its nodes; one alone has a "
               "new one without it")  # fmt: skip
    add_json(formatting)
    starting = add_action(actions, "start", start, "run a Guardian node until Ctrl-C or SIGTERM").examples(
        "penstock guardian start conf/guardian-1.properties"
    )
    starting.add_argument("file", metavar="FILE", help="the node's properties")
    add_logging(starting)
    clusters = add_action(actions, "clusters", run_cluster_action, "show, register, change and remove clusters")
    register_clusters(clusters)


def register_clusters(parser: Parser) -> None:
    """The actions on clusters."""
    actions = parser.add_subparsers(dest="cluster_action", metavar="ACTION", title="actions", required=True)
    listing = add_cluster_action(actions, "list", list_action, "show the clusters that are registered")
    listing.examples("penstock guardian clusters list")
    adding = add_cluster_action(actions, "add", add_cluster, "register a cluster").examples(
        "penstock guardian clusters add clicks --bootstrap 10.0.0.7:9092 --kind kafka --label team=web"
    )
    adding.add_argument("name", metavar="NAME", help="name of the cluster, for people")
    adding.add_argument("--bootstrap", metavar="HOST:PORT", required=True, help="its brokers, separated by commas")
    adding.add_argument("--kind", choices=("penstock", "kafka"), default="kafka", help="what it runs (default: kafka)")
    add_option(adding, "--idc", "NAME", "data centre that it is in")
    add_option(adding, "--credentials", "NAME", "name under which the nodes find how to log in to it")
    add_pairs(adding, "--label", "anything else that is to be known of it")
    removing = add_cluster_action(actions, "remove", remove_cluster, "forget a cluster; nothing in it changes")
    removing.examples("penstock guardian clusters remove clicks")
    removing.add_argument("name", metavar="NAME", help="the cluster")
    setting = add_cluster_action(
        actions, "set-mode", set_mode, "say what Guardian may do by itself in a cluster: observe, advise or act"
    ).examples("penstock guardian clusters set-mode clicks balance=advise heal=act",
               "penstock guardian clusters set-mode clicks all=observe")  # fmt: skip
    setting.add_argument("name", metavar="NAME", help="the cluster")
    setting.add_argument("modes", nargs="+", metavar="ACTION=MODE", help="kind of action, or `all`, and its mode")


def add_cluster_action(actions: Any, name: str, function: Any, summary: str) -> Parser:
    """Adds one action on clusters, with the options that say where Guardian is."""
    parser = add_action(actions, name, run_cluster_action, summary)
    parser.set_defaults(function=run_cluster_action, cluster_function=function)
    parser.add_argument(
        "--guardian",
        metavar="HOST:PORT",
        default=os.environ.get("PENSTOCK_GUARDIAN", DEFAULT_ADDRESS),
        help=f"nodes of Guardian, separated by commas (default: $PENSTOCK_GUARDIAN or {DEFAULT_ADDRESS})",
    )
    add_option(parser, "--timeout", "SECONDS", "how long to ask one node after the other", default=15.0, type=float)
    add_command_config(parser)
    add_json(parser)
    return parser


def format_action(arguments: argparse.Namespace) -> int:
    """Formats, and prints what the directory is now."""
    from penstock.cli.output import print_json
    from penstock.config.guardian import GuardianSettings
    from penstock.guardian.service import format_node

    settings = GuardianSettings.from_properties(read_properties(arguments.file))
    identity = format_node(settings, arguments.guardian_id, new_random())
    path = settings.penstock_guardian_data_dir
    if arguments.json:
        print_json({"guardian_id": identity.guardian_id, "node_id": identity.node_id, "directory": path})
    else:
        print(f"Formatted {path} for node {identity.node_id} of Guardian {identity.guardian_id}.")
    return 0


def start(arguments: argparse.Namespace) -> int:
    """Runs the node; returns the exit code."""
    from penstock import __version__
    from penstock.config.guardian import GuardianSettings
    from penstock.events import events
    from penstock.guardian.service import GuardianServer
    from penstock.server.logs import configure
    from penstock.server.process import run_server

    configure(json_lines=arguments.log_format == "json", level=arguments.log_level)
    settings = GuardianSettings.from_properties(read_properties(arguments.file))
    logger = events("guardian")
    node_id = settings.penstock_guardian_node_id
    logger.info(f"Penstock {__version__} Guardian starts", node_id=node_id, settings=arguments.file, pid=os.getpid())

    def ready(server: GuardianServer) -> None:
        logger.info("ready", address=server.address, metrics=server.http_address or "none")

    return run_server(settings.node, lambda: GuardianServer(settings), ready)


def run_cluster_action(arguments: argparse.Namespace) -> int:
    """Runs the action on clusters that was chosen."""
    return int(arguments.cluster_function(arguments))


def call(arguments: argparse.Namespace, method: str, path: str, body: Any = None) -> Answer:
    """Makes a call. Raises UsageError for what was asked wrongly, PenstockError for what else is refused."""
    import asyncio

    from penstock.guardian.client import GuardianClient

    try:
        timeout_ms = round(arguments.timeout * 1000)
        client = GuardianClient(arguments.guardian, security=security_of(arguments), timeout_ms=timeout_ms)
    except ValueError as error:
        raise UsageError(f"--guardian: {error}") from None
    request_id = UUID(int=new_random().getrandbits(128), version=4)
    answer = asyncio.run(client.call(method, path, body, request_id=request_id))
    if answer.status >= 400:
        error_type = UsageError if answer.status == 400 else PenstockError
        raise error_type(str(answer.body.get("error", f"Guardian answers {answer.status}")))
    return answer


def list_action(arguments: argparse.Namespace) -> int:
    """Prints all clusters."""
    from penstock.cli.output import print_json, print_table

    answer = call(arguments, "GET", CLUSTERS)
    clusters = answer.body["clusters"]
    if arguments.json:
        print_json({
            "clusters": clusters, "node": answer.node_id, "leader": answer.leader_id, "age_ms": answer.age_ms
        })  # fmt: skip
        return 0
    if not clusters:
        print("No cluster is registered; `penstock guardian clusters add` registers one.")
        return 0
    rows = [
        (each["name"], each["kind"], each["idc"] or "-", ",".join(each["bootstrap"]), modes_text(each["modes"]))
        for each in clusters
    ]
    print_table(("NAME", "KIND", "IDC", "BOOTSTRAP", "MODES"), rows)
    return 0


def modes_text(modes: dict[str, str]) -> str:
    """The modes of a cluster: one word where all are the same."""
    different = sorted(set(modes.values()))
    return different[0] if len(different) == 1 else " ".join(f"{action}={mode}" for action, mode in modes.items())


def add_cluster(arguments: argparse.Namespace) -> int:
    """Registers a cluster."""
    body = {
        "name": arguments.name,
        "kind": arguments.kind,
        "bootstrap": list(names_in(arguments.bootstrap)),
        "idc": arguments.idc or "",
        "credentials": arguments.credentials,
        "labels": pairs(arguments.label, "--label"),
    }
    return done(arguments, call(arguments, "POST", CLUSTERS, body), f"Registered cluster {arguments.name}.")


def remove_cluster(arguments: argparse.Namespace) -> int:
    """Forgets a cluster."""
    answer = call(arguments, "DELETE", path_of(arguments.name))
    return done(arguments, answer, f"Removed cluster {arguments.name}.")


def set_mode(arguments: argparse.Namespace) -> int:
    """Sets modes of a cluster."""
    answer = call(arguments, "PATCH", path_of(arguments.name), {"modes": pairs(arguments.modes, "")})
    return done(arguments, answer, f"Cluster {arguments.name}: {modes_text(answer.body['modes'])}.")


def path_of(name: str) -> str:
    """The path of a cluster."""
    return f"{CLUSTERS}/{name}"


def done(arguments: argparse.Namespace, answer: Answer, sentence: str) -> int:
    """Prints what a change has come to."""
    from penstock.cli.output import print_json

    if arguments.json:
        print_json(answer.body)
    else:
        print(sentence)
    return 0
