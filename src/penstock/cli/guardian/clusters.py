"""Show, register, change and remove the clusters that Guardian knows."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli.common import Actions, add_flag, add_option, add_pairs, names_in, pairs
from penstock.cli.guardian.asking import add_asking, add_group, call, done

CLUSTERS = "/v1/clusters"


def register(actions: Actions[argparse.ArgumentParser]) -> None:
    """Adds the actions on clusters."""
    below = add_group(actions, "clusters", "show, register, change and remove clusters")
    listing = add_asking(below, "list", list_action, "show the clusters that are registered")
    listing.examples("penstock guardian clusters list")
    adding = add_asking(below, "add", add_cluster, "register a cluster").examples(
        "penstock guardian clusters add clicks --bootstrap 10.0.0.7:9092 --kind kafka --label team=web"
    )
    adding.add_argument("name", metavar="NAME", help="name of the cluster, for people")
    adding.add_argument("--bootstrap", metavar="HOST:PORT", required=True, help="its brokers, separated by commas")
    adding.add_argument("--kind", choices=("penstock", "kafka"), default="kafka", help="what it runs (default: kafka)")
    add_option(adding, "--idc", "NAME", "data centre that it is in")
    add_option(adding, "--credentials", "NAME", "name under which the nodes find how to log in to it")
    add_pairs(adding, "--label", "anything else that is to be known of it")
    removing = add_asking(below, "remove", remove_cluster, "forget a cluster; nothing in it changes")
    removing.examples("penstock guardian clusters remove clicks")
    add_flag(removing, "--force", "also while plans or throttles are there: they are left behind, and told")
    removing.add_argument("name", metavar="NAME", help="the cluster")
    setting = add_asking(
        below, "set-mode", set_mode, "say what Guardian may do by itself in a cluster: observe, advise or act"
    ).examples("penstock guardian clusters set-mode clicks balance=advise heal=act",
               "penstock guardian clusters set-mode clicks all=observe")  # fmt: skip
    setting.add_argument("name", metavar="NAME", help="the cluster")
    setting.add_argument("modes", nargs="+", metavar="ACTION=MODE", help="kind of action, or `all`, and its mode")


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
