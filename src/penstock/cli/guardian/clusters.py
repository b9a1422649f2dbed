"""Show, register, change and remove the clusters that Guardian knows."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any
from uuid import UUID

from penstock.cli.common import (
    Actions,
    add_action,
    add_command_config,
    add_flag,
    add_json,
    add_option,
    add_pairs,
    names_in,
    new_random,
    pairs,
    security_of,
)
from penstock.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from penstock.cli.parser import Parser
    from penstock.guardian.client import Answer

DEFAULT_ADDRESS = "127.0.0.1:9500"
CLUSTERS = "/v1/clusters"


def register(actions: Actions[argparse.ArgumentParser]) -> None:
    """Adds the actions on clusters."""
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
    add_flag(removing, "--force", "also while plans or throttles are there: they are left behind, and told")
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
    add_guardian(parser)
    add_json(parser)
    return parser


def add_guardian(parser: Parser) -> None:
    """Adds the options that say where Guardian is."""
    parser.add_argument(
        "--guardian",
        metavar="HOST:PORT",
        default=os.environ.get("PENSTOCK_GUARDIAN", DEFAULT_ADDRESS),
        help=f"nodes of Guardian, separated by commas (default: $PENSTOCK_GUARDIAN or {DEFAULT_ADDRESS})",
    )
    add_option(parser, "--timeout", "SECONDS", "how long to ask one node after the other", default=15.0, type=float)
    add_command_config(parser)


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
    query = "?force=true" if arguments.force else ""
    answer = call(arguments, "DELETE", path_of(arguments.name) + query)
    return done(arguments, answer, "\n".join((f"Removed cluster {arguments.name}.", *left_lines(answer.body))))


def left_lines(body: dict[str, Any]) -> list[str]:
    """What a cluster that was removed by force keeps of Guardian's, in lines."""
    left = body.get("left")
    if not left or not (left["plans"] or left["throttles_left"]):
        return []
    lines = [
        f"Left behind in it: {left['moves_under_way']} moves under way, {left['throttles_left']} throttles; "
        "`penstock guardian decisions` keeps this."
    ]
    for each in left["moves"]:
        wanted = ",".join(map(str, each["replicas"]))
        lines.append(f"  move {each['id']}: {each['topic']}-{each['partition']} to brokers {wanted}, {each['state']}")
    for each in left["throttles"]:
        where = f"broker {each['broker']}" if "broker" in each else f"topic {each['topic']}"
        before = "nothing" if each["before"] is None else each["before"]
        lines.append(f"  {where}: {each['config']}={each['value']}, before: {before}")
    return lines


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
