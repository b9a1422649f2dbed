"""Prove from a lake table alone that no offset is missing and none is there twice.

Exit code 0: clean. 1: something is missing or double, or the table could not be read.

examples:
  penstock verify lake/clicks
  penstock verify lake/clicks --topic clicks --json
  penstock verify lake/clicks --broker 127.0.0.1:9092      and that the table has all that the broker has
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.client.client import EARLIEST, LATEST, Client

if TYPE_CHECKING:
    from penstock.spark.lake.verify import PartitionVerdict, Range

SUMMARY = "prove that a lake table has every offset exactly once"


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("table", metavar="TABLE", help="directory of the Delta table")
    parser.add_argument("--topic", help="only this topic")
    parser.add_argument("--broker", metavar="ADDRESS", help="also hold the table against what this broker has")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Prints the verdict; returns the exit code."""
    from penstock.spark.lake.delta import LakeTable
    from penstock.spark.lake.verify import verify

    lake = LakeTable.open(str(Path(arguments.table).absolute()), "verify", create=False)
    verdicts = verify(lake, arguments.topic)
    behind = asyncio.run(against_broker(verdicts, arguments.broker)) if arguments.broker else {}
    clean = bool(verdicts) and all(verdict.clean for verdict in verdicts)
    if arguments.json:
        partitions = [
            verdict.to_json() | ({"behind_broker": behind[at]} if at in behind else {})
            for at, verdict in enumerate(verdicts)
        ]
        print(json.dumps({"clean": clean, "version": lake.table.version(), "partitions": partitions}, indent=1))
    else:
        print(table(verdicts, behind))
        print(conclusion(verdicts))
    return 0 if clean else 1


async def against_broker(verdicts: list[PartitionVerdict], address: str) -> dict[int, int]:
    """By position in `verdicts`: offsets that the broker has and the table has not come to yet.

    Partitions of a topic that the broker no longer has, or has under another id, are left out.
    """
    behind = {}
    async with Client(address, client_id="penstock-verify") as client:
        known = {topic.name: topic for topic in (await client.refresh(None)).topics}
        for at, verdict in enumerate(verdicts):
            topic = known.get(verdict.topic)
            if topic is None or str(topic.topic_id) != verdict.topic_id:
                continue
            key = (verdict.topic, verdict.partition)
            first = (await client.offsets([key], EARLIEST))[key].offset
            last = (await client.offsets([key], LATEST))[key].offset
            behind[at] = max(0, last - max(verdict.end, first))
    return behind


def table(verdicts: list[PartitionVerdict], behind: dict[int, int]) -> str:
    """A verdict a line, aligned."""
    head = ["topic", "partition", "from", "to", "rows", "missing", "double", "legal gaps", ""]
    if behind:
        head.insert(-1, "behind")
    lines = [head]
    for at, verdict in enumerate(verdicts):
        figures = [verdict.start, verdict.end, verdict.rows, verdict.missing, verdict.duplicates, verdict.legal_gaps]
        line = [verdict.topic, str(verdict.partition), *(f"{figure:,}" for figure in figures)]
        if behind:
            line.append(f"{behind[at]:,}" if at in behind else "-")
        lines.append([*line, "clean" if verdict.clean else "NOT CLEAN"])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place in (0, len(line) - 1) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def conclusion(verdicts: list[PartitionVerdict]) -> str:
    """The verdict in words, with the first ranges of what is wrong."""
    if not verdicts:
        return "nothing to verify: the table has no rows and no commits of a load"
    wrong = []
    for verdict in verdicts:
        name = f"{verdict.topic}-{verdict.partition}"
        if verdict.missing:
            wrong.append(f"{name}: missing {ranges(verdict.missing_ranges)}")
        if verdict.duplicates:
            wrong.append(f"{name}: double {ranges(verdict.duplicate_ranges)}")
        if verdict.outside:
            wrong.append(f"{name}: {verdict.outside:,} offsets that no commit speaks of")
    rows = sum(verdict.rows for verdict in verdicts)
    if wrong:
        return "\n".join(wrong)
    reasons = Counter[str]()
    for verdict in verdicts:
        reasons.update(verdict.gaps)
    gaps = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))
    legal = f"\n  offsets without a record: {gaps}" if gaps else ""
    return f"clean: {rows:,} rows in {len(verdicts)} partitions, no offset missing, none twice{legal}"


def ranges(some: list[Range]) -> str:
    """Ranges [start, end) as people write them, both ends included."""
    return ", ".join(str(start) if end - start == 1 else f"{start}-{end - 1}" for start, end in some)
