"""Prove from a lake table alone that no offset is missing and none is there twice.

Exit code 0: clean. 1: something is missing, double or changed, or the table could not be read.

examples:
  penstock verify lake/clicks
  penstock verify lake/clicks --topic clicks --json
  penstock verify lake/clicks --broker 127.0.0.1:9092      and hold it against what the broker has
  penstock verify s3://lake/clicks --storage-option AWS_REGION=eu-west-1
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from penstock.cli.lake import add_table, open_named

if TYPE_CHECKING:
    from penstock.spark.lake.broker import BrokerVerdict
    from penstock.spark.lake.table import LakeTable
    from penstock.spark.lake.verify import PartitionVerdict, Range

SUMMARY = "prove that a lake table has every offset exactly once"
SAMPLE_ROWS = 1000
Brokers = dict[int, "BrokerVerdict"]
"""What the broker has, by position in the list of verdicts."""


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_table(parser)
    parser.add_argument("--topic", help="only this topic")
    parser.add_argument("--broker", metavar="HOST:PORT", help="also hold the table against what this broker has")
    parser.add_argument(
        "--sample",
        type=int,
        default=SAMPLE_ROWS,
        metavar="N",
        help=f"with --broker: rows of each partition whose values are compared ({SAMPLE_ROWS}; 0: none)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Prints the verdict; returns the exit code."""
    lake = open_named(arguments, "verify")
    verdicts, brokers = judge(lake, arguments.topic, arguments.broker, arguments.sample)
    clean = bool(verdicts) and all(each.clean for each in verdicts) and all(each.clean for each in brokers.values())
    if arguments.json:
        partitions = [as_json(verdict, brokers.get(at)) for at, verdict in enumerate(verdicts)]
        told = {"clean": clean, "format": lake.format, "version": lake.version, "partitions": partitions}
        print(json.dumps(told, indent=1))
    else:
        print(table(verdicts, brokers))
        print(conclusion(verdicts, brokers))
    return 0 if clean else 1


def judge(
    lake: LakeTable, topic: str | None, broker: str | None, sample: int
) -> tuple[list[PartitionVerdict], Brokers]:
    """The verdicts on a table, and what the broker has, where it was asked."""
    from penstock.spark.lake.broker import against_broker, choose, compare
    from penstock.spark.lake.offsets import Watch
    from penstock.spark.lake.verify import verify

    if broker is None:
        return verify(lake, topic), {}
    progress = {known: each for known, each in lake.progress().items() if topic in (None, known.topic)}
    brokers = asyncio.run(against_broker(broker, progress))
    watch = Watch(choose(progress, brokers, sample))
    verdicts = verify(lake, topic, watch)
    if watch.ranges:
        compare(lake, broker, watch, brokers)
    by_name = {(p.topic, str(p.topic_id), p.partition): each for p, each in brokers.items()}
    places = {at: by_name.get((v.topic, v.topic_id, v.partition)) for at, v in enumerate(verdicts)}
    return verdicts, {at: each for at, each in places.items() if each is not None}


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
            line += [f"{each:,}" for each in (broker.log_start, broker.log_end, broker.behind, broker.sampled)]
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
    told = [f"clean: {rows:,} rows in {len(verdicts)} partitions, no offset missing, none twice"]
    if reasons:
        gaps = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))
        told.append(f"offsets without a record: {gaps}")
    told += [
        f"{v.topic}-{v.partition}: not loaded yet {ranges(v.not_loaded_ranges)}"
        for v in verdicts
        if v.not_loaded_ranges
    ]
    if brokers:
        sampled, gone = (sum(getattr(each, what) for each in brokers.values()) for what in ("sampled", "gone"))
        more = f", {gone:,} more are gone from the broker" if gone else ""
        told.append(f"{sampled:,} rows were compared with the broker's: no difference{more}")
    return "\n  ".join(told)


def complaints(verdict: PartitionVerdict) -> list[str]:
    """What is wrong with a partition by the table alone."""
    wrong = []
    if verdict.missing_ranges:
        wrong.append(f"missing {ranges(verdict.missing_ranges)}")
    if verdict.duplicates:
        wrong.append(f"double {ranges(verdict.duplicate_ranges)}")
    if verdict.outside:
        wrong.append(f"{verdict.outside:,} offsets that no commit speaks of: {ranges(verdict.outside_ranges)}")
    for start, end, found, recorded in verdict.unlike_sealed:
        wrong.append(
            f"of {start}-{end - 1}, {found:,} offsets have no row, and not the {recorded:,} that may have none"
        )
    return wrong


def differences(broker: BrokerVerdict) -> list[str]:
    """What is wrong with a partition by the broker."""
    wrong = []
    if broker.lost:
        wrong.append(f"the broker ends at {broker.log_end:,} and lacks the table's last {broker.lost:,}")
    if broker.absent:
        wrong.append(f"the broker has what the table lacks: {', '.join(map(str, broker.absent))}")
    if broker.changed:
        told = ", ".join(f"{offset} ({column})" for offset, column in broker.changed)
        wrong.append(f"not as the broker has it: {told}")
    return wrong


def ranges(some: list[Range]) -> str:
    """Ranges [start, end) as people write them, both ends included."""
    return ", ".join(str(start) if end - start == 1 else f"{start}-{end - 1}" for start, end in some)
