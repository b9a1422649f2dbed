"""Prove from a lake table alone that no offset is missing or duplicated.

Of a table that a streaming query wrote (`format("penstock-lake")`) it proves that each offset that the query has kept
is there exactly once, and that the others were left out by the query.

With --broker the table is also compared with what the brokers have: its first and last offsets, and the values of its
rows, decoded as the load decoded them. --values sets how many rows are compared: a sample, or all of them, which costs
about as much as loading them did.

Exit code 0: clean. 1: something is missing, duplicated or changed, or the table could not be read.

examples:
  penstock verify lake/clicks
  penstock verify lake/clicks --topic clicks --json
  penstock verify lake/clicks --broker 127.0.0.1:9092      also compare it with the broker
  penstock verify lake/clicks --broker 127.0.0.1:9092 --values all      compare every value of every row
  penstock verify lake/orders --broker 127.0.0.1:9092 --schema-registry http://registry:8081
  penstock verify s3://lake/clicks --storage-option AWS_REGION=eu-west-1
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.cli.common import add_command_config, add_flag, add_option, check_modules, security_of
from penstock.cli.lake_table import add_table, open_named
from penstock.cli.output import counted
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.spark.lake.broker import BrokerVerdict
    from penstock.spark.lake.ranges import Range
    from penstock.spark.lake.table import LakeTable
    from penstock.spark.lake.verify import PartitionVerdict

SUMMARY = "prove that a lake table has every offset exactly once"
SAMPLE_ROWS = 1000
VALUES = ("all", "sample", "none")
Brokers = dict[int, "BrokerVerdict"]
"""What the broker has, by position in the list of verdicts."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of `penstock verify` other than the table."""

    topic: str | None = None
    broker: str | None = None
    values: str = "sample"
    sample: int = SAMPLE_ROWS
    format: str = "auto"
    schema_registry: str | None = None
    quarantine: str | None = None
    security: ClientSecurity = UNSECURED


def register(parser: argparse.ArgumentParser) -> None:
    add_table(parser)
    parser.add_argument("--topic", help="only this topic")
    add_option(parser, "--broker", "HOST:PORT", "also compare the table with what this broker has")
    add_command_config(parser)
    parser.add_argument(
        "--values",
        choices=VALUES,
        help="with --broker: compare the values of all rows, of a sample, or of none (default: sample)",
    )
    add_option(parser, "--sample", "N", "rows of each partition in a sample", type=int, default=SAMPLE_ROWS)
    parser.add_argument(
        "--format",
        choices=("auto", "raw", "json", "avro"),
        default="auto",
        help="how the load decoded the values (default: detected from the table's columns)",
    )
    add_option(parser, "--schema-registry", "URL", "schema registry for Avro values")
    add_option(parser, "--quarantine", "TABLE", "table of rejected records (default: TABLE_quarantine, if it exists)")
    add_flag(parser, "--json", "print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Prints the verdict; returns the exit code."""
    if arguments.broker is not None:
        check_modules("reading records", ("numba",), "spark")
    lake = open_named(arguments, "verify", records=False)
    verdicts, brokers, left_out = judge(lake, asked_of(arguments))
    clean = bool(verdicts) and all(each.clean for each in verdicts) and all(each.clean for each in brokers.values())
    if arguments.json:
        partitions = [as_json(verdict, brokers.get(at)) for at, verdict in enumerate(verdicts)]
        told = {"clean": clean, "format": lake.format, "version": lake.version, "partitions": partitions}
        print(json.dumps(told | {"columns_not_compared": left_out}, indent=1))
    else:
        print(table(verdicts, brokers))
        print(conclusion(verdicts, brokers))
        for name, why in left_out.items():
            print(f"  not compared: the column {name} ({why})")
    return 0 if clean else 1


def asked_of(arguments: argparse.Namespace) -> Asked:
    """The comparison that the arguments ask for. Raises UsageError."""
    if arguments.broker is None and arguments.values not in (None, "none"):
        raise UsageError(f"--values {arguments.values}: name the --broker that the values are compared with")
    if arguments.sample < 0:
        raise UsageError(f"--sample {arguments.sample}: it must be 0 or more")
    return Asked(
        arguments.topic,
        arguments.broker,
        arguments.values or "sample",
        arguments.sample,
        arguments.format,
        arguments.schema_registry,
        arguments.quarantine,
        UNSECURED if arguments.broker is None else security_of(arguments),
    )


def judge(lake: LakeTable, asked: Asked) -> tuple[list[PartitionVerdict], Brokers, dict[str, str]]:
    """The verdicts on a table, what the brokers have, where they were asked, and which columns were not compared."""
    from penstock.spark.lake.broker import against_broker, choose, everything
    from penstock.spark.lake.kept import verify_kept
    from penstock.spark.lake.offsets import Watch
    from penstock.spark.lake.table import check_is_a_loads
    from penstock.spark.lake.verify import verify

    if not lake.pipelines() and (kept := verify_kept(lake, asked.topic)):
        if asked.broker is not None:
            raise UsageError("--broker: this is no load's table; what a query left out, no broker knows")
        return kept, {}, {}
    check_is_a_loads(lake.uri, lake.columns.names)
    if asked.broker is None:
        return verify(lake, asked.topic), {}, {}
    progress = {known: each for known, each in lake.progress().items() if asked.topic in (None, known.topic)}
    brokers = asyncio.run(against_broker(asked.broker, progress, asked.security))
    rows = 0 if asked.values == "none" else asked.sample
    watch = Watch(everything(progress, brokers) if asked.values == "all" else choose(progress, brokers, rows))
    verdicts = verify(lake, asked.topic, watch)
    left_out: dict[str, str] = {}
    if watch.ranges:
        from penstock.spark.load.expected import Expected
        from penstock.spark.load.values import Comparison, other_half

        expected = Expected(lake, asked.format, asked.schema_registry)
        other = other_half(lake, asked.quarantine)
        Comparison(lake, asked.broker, watch, expected, other, security=asked.security).run(brokers)
        left_out = expected.left_out
    by_name = {(p.topic, str(p.topic_id), p.partition): each for p, each in brokers.items()}
    places = {at: by_name.get((v.topic, v.topic_id, v.partition)) for at, v in enumerate(verdicts)}
    return verdicts, {at: each for at, each in places.items() if each is not None}, left_out


def as_json(verdict: PartitionVerdict, broker: BrokerVerdict | None) -> dict[str, Any]:
    told = verdict.to_json()
    if broker is not None:
        told |= {"behind_broker": broker.behind, "broker": broker.to_json()}
    return told


def table(verdicts: list[PartitionVerdict], brokers: Brokers) -> str:
    """A verdict a line, aligned."""
    head = ["topic", "partition", "from", "to", "rows", "missing", "double", "legal gaps", ""]
    if brokers:
        head[-1:-1] = ["broker from", "to", "behind", "compared"]
    lines = [head]
    for at, verdict in enumerate(verdicts):
        figures = [verdict.start, verdict.end, verdict.rows, verdict.missing, verdict.duplicates, verdict.legal_gaps]
        line = [verdict.topic, str(verdict.partition), *(f"{figure:,}" for figure in figures)]
        broker = brokers.get(at)
        if broker is not None:
            line += [f"{each:,}" for each in (broker.log_start, broker.log_end, broker.behind, broker.compared)]
        elif brokers:
            line += ["-"] * 4
        clean = verdict.clean and (broker is None or broker.clean)
        lines.append([*line, "clean" if clean else "NOT CLEAN"])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place in (0, len(line) - 1) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def conclusion(verdicts: list[PartitionVerdict], brokers: Brokers) -> str:
    """The verdict in words, with the first ranges of what is wrong."""
    if not verdicts:
        return "nothing to verify: the table has no rows and no commits of a load"
    wrong = []
    for at, verdict in enumerate(verdicts):
        name = f"{verdict.topic}-{verdict.partition}"
        wrong += [f"{name}: {what}" for what in complaints(verdict)]
        if at in brokers:
            wrong += [f"{name}: {what}" for what in differences(brokers[at])]
    if wrong:
        return "\n".join(wrong)
    rows = sum(verdict.rows for verdict in verdicts)
    reasons = Counter[str]()
    for verdict in verdicts:
        reasons.update(verdict.gaps)
    told = [f"clean: {counted(rows, 'row')} in {counted(len(verdicts), 'partition')}, no offset missing, none twice"]
    if reasons:
        gaps = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))
        told.append(f"offsets without a record: {gaps}")
    told += [
        f"{v.topic}-{v.partition}: not loaded yet {ranges(v.not_loaded_ranges)}"
        for v in verdicts
        if v.not_loaded_ranges
    ]
    told += [
        f"{v.topic}-{v.partition}: diverged {ranges(v.diverged_ranges)}: loaded before the brokers lost these records; "
        "what they have there now is not in the table"
        for v in verdicts
        if v.diverged_ranges
    ]
    if brokers:
        told += compared_with(verdicts, brokers)
    return "\n  ".join(told)


def compared_with(verdicts: list[PartitionVerdict], brokers: Brokers) -> list[str]:
    """The result of comparing a clean table with its brokers, in sentences."""
    counts = {
        name: sum(getattr(each, name) for each in brokers.values())
        for name in ("compared", "gone_rows", "aborted", "elsewhere")
    }
    if not counts["compared"]:
        told = ["no values were compared with the broker's"]
    else:
        told = [f"{counts['compared']:,} rows were compared with the broker's: no difference"]
    if counts["gone_rows"]:
        told.append(f"{counts['gone_rows']:,} rows have no record at the broker any more: it compacts the topic")
    if counts["aborted"]:
        told.append(f"{counts['aborted']:,} rows are of aborted transactions: a load of uncommitted records")
    if counts["elsewhere"]:
        told.append(f"{counts['elsewhere']:,} records are in the quarantine, or in the table if this is one")
    absent = [f"{v.topic}-{v.partition}" for at, v in enumerate(verdicts) if at not in brokers]
    if absent:
        told.append(f"not at the broker, deleted or made anew there: {', '.join(absent)}")
    return told


def complaints(verdict: PartitionVerdict) -> list[str]:
    """The faults of a partition that the table alone reveals."""
    wrong = []
    if verdict.missing_ranges:
        wrong.append(f"missing {ranges(verdict.missing_ranges)}")
    if verdict.duplicates:
        wrong.append(f"double {ranges(verdict.duplicate_ranges)}")
    if verdict.outside:
        wrong.append(f"{verdict.outside:,} offsets that no commit speaks of: {ranges(verdict.outside_ranges)}")
    if verdict.in_gaps:
        shown = ranges(verdict.in_gap_ranges)
        wrong.append(f"{counted(verdict.in_gaps, 'row')} at offsets that were loaded as having no record: {shown}")
    for start, end, found, recorded in verdict.unlike_sealed:
        wrong.append(
            f"of {start}-{end - 1}, {found:,} offsets have no row, and not the {recorded:,} that may have none"
        )
    return wrong


def differences(broker: BrokerVerdict) -> list[str]:
    """The faults of a partition that a comparison with the broker reveals."""
    wrong = []
    if broker.lost:
        wrong.append(f"the broker ends at {broker.log_end:,} and lacks the table's last {broker.lost:,}")
    if broker.absent_rows:
        shown = some(map(str, broker.absent), broker.absent_rows)
        wrong.append(f"the broker has {counted(broker.absent_rows, 'record')} that the table lacks: {shown}")
    if broker.changed_rows:
        columns = ", ".join(f"{name} in {rows:,}" for name, rows in sorted(broker.changed_columns.items()))
        shown = some(
            (f"{offset} ({column})" for offset, column in broker.changed), sum(broker.changed_columns.values())
        )
        wrong.append(f"{counted(broker.changed_rows, 'row')} not as the broker has them ({columns}): {shown}")
    if broker.gone_rows and not broker.compacted:
        shown = some(map(str, broker.gone), broker.gone_rows)
        wrong.append(f"the table has {counted(broker.gone_rows, 'row')} of which the broker has no record: {shown}")
    if broker.unreadable:
        wrong.append(f"{counted(broker.unreadable, 'row')} not compared: the broker's batches are broken there")
    return wrong


def some(shown: Iterable[str], count: int) -> str:
    """The first of `count` things."""
    listed = list(shown)
    return ", ".join(listed) + (" ..." if count > len(listed) else "")


def ranges(listed: list[Range]) -> str:
    """Ranges [start, end) as people write them, both ends included."""
    return ", ".join(str(start) if end - start == 1 else f"{start}-{end - 1}" for start, end in listed)
