"""Models of registered clusters, from what Guardian's leader sees: `model export`, and `plan --cluster`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from penstock.cli.common import add_option
from penstock.cli.guardian.asking import pages
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.cli.parser import Parser

CAPACITIES = {
    "cpu_cores": ("--cpu-cores", "N", "cores of each broker"),
    "network_rate": ("--network-rate", "BYTES", "bytes a second that each broker can receive, and send"),
    "disk_rate": ("--disk-rate", "BYTES", "bytes a second that each disk can read and write"),
    "disk_bytes": ("--disk-bytes", "BYTES", "size of each disk (default: as brokers tell)"),
}


def add_capacities(parser: Parser) -> None:
    """Adds the options that say what brokers can do."""
    for option, value, summary in CAPACITIES.values():
        add_option(parser, option, value, f"{summary}, of a registered cluster", type=float)


def tables_of_cluster(arguments: argparse.Namespace) -> dict[str, Any]:
    """The tables of a cluster's model. Raises UsageError for capacities that cannot be, PenstockError otherwise."""
    from penstock.guardian.model.sighted import Capacities, Sighted

    given = {name: getattr(arguments, name) for name in CAPACITIES}
    for name, value in given.items():
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(f"{CAPACITIES[name][0]} {value:g}: it must be above 0")
    return Sighted(pages(arguments, "/v1/model", cluster=arguments.cluster)).tables(Capacities(**given))


def export_model(arguments: argparse.Namespace) -> int:
    """Writes the model of a registered cluster."""
    from penstock.cli.output import counted, print_json
    from penstock.guardian.model.reading import model_of
    from penstock.guardian.model.writing import write_tables

    tables = tables_of_cluster(arguments)
    model = model_of(tables).model
    write_tables(tables, arguments.directory)
    counts = {"brokers": len(model.brokers.ids), "disks": len(model.disks.broker), "replicas": model.replicas}
    if arguments.json:
        print_json({**counts, "directory": str(arguments.directory), "estimates": list(model.estimates)})
        return 0
    said = ", ".join(counted(count, what[:-1]) for what, count in counts.items())
    print(f"Wrote the model of {arguments.cluster} to {arguments.directory}: {said}.")
    for each in model.estimates:
        print(f"estimated: {each}")
    return 0
