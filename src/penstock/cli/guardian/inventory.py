"""`penstock guardian inventory`: what Guardian sees of the registered clusters."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from penstock.cli.common import Actions, add_option
from penstock.cli.guardian.asking import add_asking, asked, call, pages
from penstock.cli.guardian.clusters import CLUSTERS
from penstock.cli.times import duration_text

TOPICS_SHOWN = 20
BEHIND_SHOWN = 20


def register(actions: Actions[argparse.ArgumentParser]) -> None:
    """Adds the action."""
    showing = add_asking(
        actions, "inventory", show_inventory, "show what Guardian sees of the clusters, or of one"
    ).examples("penstock guardian inventory", "penstock guardian inventory clicks --json")
    showing.add_argument("name", metavar="CLUSTER", nargs="?", help="the cluster (default: a line for each)")
    add_option(showing, "--topics", "N", "topics to list, those in trouble first", type=int, default=TOPICS_SHOWN)


def show_inventory(arguments: argparse.Namespace) -> int:
    """Prints it."""
    from penstock.cli.output import print_json

    if arguments.name is None:
        found = [seen_of(arguments, each["name"]) for each in call(arguments, "GET", CLUSTERS).body["clusters"]]
        if arguments.json:
            print_json({"clusters": found})
        else:
            show_all(found)
        return 0
    name = arguments.name
    seen = seen_of(arguments, name)
    seen["disks"] = list(rows(arguments, "disks", name))
    seen["topics"] = list(rows(arguments, "topics", name))
    if arguments.json:
        print_json(seen)
    else:
        show_one(arguments, seen)
    return 0


def seen_of(arguments: argparse.Namespace, name: str) -> dict[str, Any]:
    """The brokers of a cluster, and its figures."""
    return dict(call(arguments, "GET", asked("/v1/brokers", cluster=name)).body)


def rows(arguments: argparse.Namespace, what: str, cluster: str) -> Iterator[dict[str, Any]]:
    """All rows of what has pages."""
    for page in pages(arguments, f"/v1/{what}", cluster=cluster):
        yield from page["rows" if "/" in what else what]


def show_all(clusters: list[dict[str, Any]]) -> None:
    """A line for each cluster."""
    from penstock.cli.output import print_table, size_text

    if not clusters:
        print("No cluster is registered; `penstock guardian clusters add` registers one.")
        return
    table = []
    for each in clusters:
        figures = each["summary"]
        table.append((
            each["cluster"], each["kind"], each["kafka_id"] or "-", figures["brokers"], figures["topics"],
            figures["partitions"], size_text(figures["bytes"]), figures["under_replicated"],
            age_text(each["age_ms"]["metadata"]), len(each["failures"]) or "-",
        ))  # fmt: skip
    head = ("CLUSTER", "KIND", "ID", "BROKERS", "TOPICS", "PARTITIONS", "SIZE", "UNDER-REPLICATED", "SEEN", "PROBLEMS")
    print_table(head, table, right=head[3:8])
    for each in clusters:
        show_problems(each)


def show_one(arguments: argparse.Namespace, seen: dict[str, Any]) -> None:
    """A cluster for a person: brokers, disks, topics, what is under-replicated, problems."""
    from penstock.cli.output import counted, print_table, size_text

    figures = seen["summary"]
    print(
        f"{seen['cluster']} ({seen['kind']}, {seen['kafka_id'] or 'id not known'}): "
        f"{counted(figures['brokers'], 'broker')}, {counted(figures['topics'], 'topic')}, "
        f"{counted(figures['partitions'], 'partition')}, {size_text(figures['bytes'])}; "
        f"seen {age_text(seen['age_ms']['metadata'])}"
    )
    brokers = [
        (
            each["id"], f"{each['host']}:{each['port']}" if each["alive"] else "gone", each["rack"] or "-",
            each["replicas"], each["leaders"], size_text(each["bytes"]), "controller" if each["controller"] else "",
        )
        for each in seen["brokers"]
    ]  # fmt: skip
    if brokers:
        print()
        print_table(("BROKER", "ADDRESS", "RACK", "REPLICAS", "LEADERS", "SIZE", ""), brokers,
                    right=("BROKER", "REPLICAS", "LEADERS", "SIZE"))  # fmt: skip
    if seen["disks"]:
        print()
        disks = [
            (
                each["broker"], each["path"], each["replicas"], size_text(each["bytes"]), known(each["capacity_bytes"]),
                known(each["usable_bytes"]), age_text(each["age_ms"]), each["error"] or "",
            )
            for each in seen["disks"]
        ]  # fmt: skip
        head = ("BROKER", "DIRECTORY", "REPLICAS", "SIZE", "CAPACITY", "FREE", "SEEN", "")
        print_table(head, disks, right=("BROKER", "REPLICAS", "SIZE", "CAPACITY", "FREE"))
    show_topics(arguments, seen)
    show_problems(seen)


def show_topics(arguments: argparse.Namespace, seen: dict[str, Any]) -> None:
    """Topics, those in trouble first, and which partitions are under-replicated."""
    from penstock.cli.output import counted, print_table, size_text

    topics = sorted(seen["topics"], key=lambda each: (-each["under_replicated"], each["internal"], each["name"]))
    shown = topics[: max(arguments.topics, 0)]
    if shown:
        print()
        table = [
            (
                each["name"], each["partitions"], each["replicas"], each["min_insync_replicas"] or "-",
                size_text(each["bytes"]), rate_text(each["bytes_in_per_second"]), each["under_replicated"],
                each["moving"],
            )
            for each in shown
        ]  # fmt: skip
        head = ("TOPIC", "PARTITIONS", "REPLICAS", "MIN IN SYNC", "SIZE", "WRITTEN", "UNDER-REPLICATED", "MOVING")
        print_table(head, table, right=head[1:])
    if len(topics) > len(shown):
        print(f"... and {counted(len(topics) - len(shown), 'more topic')}; --topics N lists more, --json all")
    behind = list(under_replicated(arguments, seen))
    if behind:
        print("\nunder-replicated:")
        for line in behind[:BEHIND_SHOWN]:
            print(f"  {line}")
        if (more := seen["summary"]["under_replicated"] - len(behind[:BEHIND_SHOWN])) > 0:
            print(f"  ... and {counted(more, 'more partition')}")


def under_replicated(arguments: argparse.Namespace, seen: dict[str, Any]) -> Iterator[str]:
    """Partitions that lack replicas in sync, of the first topics that have such."""
    found = 0
    for topic in seen["topics"]:
        if not topic["under_replicated"]:
            continue
        for each in rows(arguments, f"topics/{quote(topic['name'], safe='')}", seen["cluster"]):
            if len(each["in_sync"]) < len(each["replicas"]):
                lacking = [str(broker) for broker in each["replicas"] if broker not in each["in_sync"]]
                leader = f"led by {each['leader']}" if each["leader"] >= 0 else "without a leader"
                yield f"{topic['name']}-{each['partition']}, {leader}: {', '.join(lacking)} not in sync"
                found += 1
                if found > BEHIND_SHOWN:
                    return


def show_problems(seen: dict[str, Any]) -> None:
    """What could not be seen, or is not believed."""
    from penstock.cli.output import RED, paint

    for part, why in seen["failures"].items():
        print(paint(f"\n{seen['cluster']}: {part}: {why}", RED))


def known(size_bytes: int | None) -> str:
    from penstock.cli.output import size_text

    return "-" if size_bytes is None else size_text(size_bytes)


def rate_text(rate: int | None) -> str:
    """Bytes a second, for a person."""
    return "-" if rate is None else f"{known(rate)}/s"


def age_text(age_ms: int | None) -> str:
    """How long ago, for a person."""
    return "never" if age_ms is None else f"{duration_text(age_ms)} ago"
