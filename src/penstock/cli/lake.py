"""Keep lake tables small and quick, and see what they hold.

examples:
  penstock lake maintain lake/clicks                   compact, expire, vacuum: all that is due
  penstock lake maintain lake/clicks --dry-run
  penstock lake maintain lake/clicks --only compact --target-mb 256
  penstock lake erase lake/clicks --where "user_id = '4711'" --execute
  penstock lake show lake/clicks
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from penstock.cli import lake_erase
from penstock.cli.common import (
    add_action,
    add_actions,
    add_flag,
    add_json,
    add_option,
    check_modules,
    names_in,
    run_action,
)
from penstock.cli.lake_table import LAKE_MODULES, add_table, open_named
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.spark.lake.ranges import Range
    from penstock.spark.lake.records import Claim, Progress

SUMMARY = "compact, vacuum and inspect lake tables, and erase rows of them"
STEPS = ("compact", "expire", "vacuum")
run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    maintain = add_action(
        actions, "maintain", maintain_action, "merge small files, drop old versions and delete unreferenced files"
    ).examples(
        "penstock lake maintain lake/clicks", "penstock lake maintain lake/clicks --only vacuum --keep-hours 168"
    )
    add_table(maintain)
    maintain.add_argument("--only", choices=STEPS, action="append", help="only this step; repeatable")
    add_option(maintain, "--target-mb", "N", "size of compacted files in MB", type=int, default=128)
    add_option(
        maintain,
        "--keep-hours",
        "N",
        "how long to keep old versions and unreferenced files (default: 168, a week)",
        type=float,
        default=168.0,
    )
    add_option(
        maintain,
        "--cluster-by",
        "COLUMNS",
        "sort the rows of merged files by these, with commas between (default: as the table's load was told)",
    )
    add_flag(maintain, "--z-order", "sort by all columns of --cluster-by alike")
    add_flag(maintain, "--force", "allow --keep-hours below 24, when no load is running")
    add_flag(maintain, "--dry-run", "show what would be done; do nothing")
    add_json(maintain)
    lake_erase.register(actions)
    show = add_action(actions, "show", show_action, "show a table and how far its pipelines are")
    add_table(show)
    add_json(show)


def maintain_action(arguments: argparse.Namespace) -> int:
    """Maintains a table and prints what was done."""
    check_modules("a lake table", LAKE_MODULES, "spark")
    from penstock.spark.lake.clustering import Cluster
    from penstock.spark.lake.maintenance import KEEP_HOURS_MIN, Maintenance

    if arguments.keep_hours < KEEP_HOURS_MIN and not arguments.force:
        raise UsageError(
            f"--keep-hours {arguments.keep_hours:g} could delete files of a running job: at least {KEEP_HOURS_MIN}, "
            "or --force when nothing writes to the table"
        )
    columns = names_in(arguments.cluster_by)
    if arguments.z_order and len(columns) < 2:
        raise UsageError("--z-order needs two or more columns in --cluster-by")
    maintenance = Maintenance(
        open_named(arguments, "maintain", records=False),
        target_bytes=arguments.target_mb << 20,
        keep_hours=arguments.keep_hours,
        dry_run=arguments.dry_run,
        cluster=Cluster(columns, arguments.z_order) if columns else None,
    )
    done = maintenance.run(tuple(arguments.only or STEPS))
    if arguments.json:
        print(json.dumps(done, indent=1))
    else:
        for step, figures in done.items():
            print(f"{step:<8} {described(figures)}")
    return 0


def described(figures: dict[str, Any]) -> str:
    """Figures of a step in a line."""
    return ", ".join(
        f"{name.replace('_', ' ')} {value:,}" if isinstance(value, int) else f"{name.replace('_', ' ')}: {value}"
        for name, value in figures.items()
    )


def diverged_of(known: Progress, claim: Claim) -> list[Range]:
    """The offsets that a pipeline loaded and the brokers lost afterwards."""
    from penstock.spark.lake.ranges import clip, union

    return clip(union((lost.start, lost.end) for lost in known.diverged), [(claim.start, claim.end)])


def show_action(arguments: argparse.Namespace) -> int:
    """Prints what a table contains and how far its pipelines have come."""
    lake = open_named(arguments, "show")
    files = lake.files()
    progress = lake.progress()
    claims: list[dict[str, Any]] = [
        {"topic": at.topic, "topic_id": str(at.topic_id), "partition": at.partition, "pipeline": claim.pipeline}
        | {"from": claim.start, "to": claim.end, "diverged": diverged_of(known, claim)}
        for at, known in sorted(progress.items())
        for claim in known.claims
    ]
    told: dict[str, Any] = {
        "table": lake.uri,
        "format": lake.format,
        "version": lake.version,
        "files": len(files),
        "bytes": sum(file.size_bytes for file in files),
        "partitioned_by": list(lake.partition_by),
        "columns": {field.name: str(field.type) for field in lake.columns},
        "loaded": claims,
    }
    if arguments.json:
        print(json.dumps(told, indent=1))
        return 0
    size = f"{told['files']:,} files, {told['bytes'] / 2**20:,.1f} MiB"
    by = f", by {', '.join(lake.partition_by)}" if lake.partition_by else ""
    print(f"{lake.uri}: {lake.format}, version {lake.version}, {size}{by}")
    for each in claims:
        where = f"{each['topic']}-{each['partition']}"
        print(f"  {where}  {each['from']:,} to {each['to']:,}  by {each['pipeline']}")
        for start, end in each["diverged"]:
            print(f"    diverged: {start:,} to {end:,} were loaded before the brokers lost them")
    return 0
