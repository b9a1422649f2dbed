"""`penstock pipeline audit`: what an audit's counts say now, without brokers and without Spark."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.common import Actions, add_action, add_flag, add_json, add_option
from penstock.cli.output import GREEN, RED, YELLOW, paint, print_json, print_table
from penstock.cli.pipeline_state import add_state, state_of
from penstock.cli.times import timestamp_ms
from penstock.errors import ConfigError, PenstockError

if TYPE_CHECKING:
    from penstock.pipelines.audit.compare import Line
    from penstock.pipelines.audit.settings import Settings

COLOURS = {"well": GREEN, "waits": YELLOW, "differs": RED}


def register_audit(actions: Actions[argparse.ArgumentParser]) -> None:
    """Adds the action."""
    audit = add_action(
        actions, "audit", report, "show where producers, cluster, mirrors and lake differ; 1 if they do"
    ).examples("penstock pipeline audit audit.toml", "penstock pipeline audit audit.toml --all --from 2h")
    audit.add_argument("file", type=Path, metavar="FILE", help="the file of a pipeline with the job audit")
    add_flag(audit, "--all", "all buckets, also those without a difference")
    add_option(audit, "--from", "TIME", "the first event time that is looked at", dest="start")
    add_json(audit)
    add_state(audit)


def report(arguments: argparse.Namespace) -> int:
    lines = lines_of(arguments)
    differ = any(state_of_line(each) == "differs" for each in lines)
    shown = lines if arguments.all else [each for each in lines if each.difference]
    if arguments.json:
        print_json([as_json(each) for each in shown])
    elif not shown:
        print(f"{len(lines):,} counts, no difference")
    else:
        head = ("bucket", "topic", "tier", "records", "against", "expected", "difference", "")
        print_table(head, [cells(each) for each in shown], ("records", "expected", "difference"))
    return 1 if differ else 0


def lines_of(arguments: argparse.Namespace) -> list[Line]:
    """The comparison, from the table alone. Raises ConfigError for a wrong file, PenstockError without counts."""
    settings = declared(arguments)
    from deltalake.exceptions import TableNotFoundError

    from penstock.pipelines.audit.compare import compared
    from penstock.pipelines.audit.table import SINCE, CountsTable

    try:
        table = CountsTable(settings.counts, create=False)
    except TableNotFoundError:
        raise PenstockError(f"there is no table of counts at {settings.counts}: run the pipeline first") from None
    now_ms = time.time_ns() // 1_000_000
    first_ms = settings.first_ms(table.position(SINCE) or 0, now_ms)
    if arguments.start is not None:
        first_ms = max(first_ms, timestamp_ms(arguments.start, "--from", now_ms))
    return compared(
        table.rows(first_ms),
        settings.tiers,
        settings.topics,
        since_ms=first_ms,
        now_ms=now_ms,
        grace_ms=settings.grace_ms,
    )


def declared(arguments: argparse.Namespace) -> Settings:
    """What the file says. Raises ConfigError for one that is wrong, or has another job."""
    from penstock.pipelines.audit.settings import Settings
    from penstock.pipelines.reading import read_pipeline

    pipeline, problems = read_pipeline(arguments.file, state_of(arguments))
    if pipeline is None:
        raise ConfigError("\n  ".join(map(str, problems)))
    if pipeline.job_name != "audit":
        raise ConfigError(f"{arguments.file} has the job {pipeline.job_name}, and not audit")
    return Settings.of(pipeline.options, pipeline.directory)


def state_of_line(line: Line) -> str:
    """Whether a count is as expected, may still become so, or differs."""
    if not line.difference:
        return "well"
    return "differs" if line.settled else "waits"


def cells(line: Line) -> tuple[str, ...]:
    state = state_of_line(line)
    at = line.bucket.strftime("%Y-%m-%dT%H:%MZ")
    return (at, line.topic, line.tier, f"{line.records:,}", line.against, f"{line.expected:,}",
            f"{line.difference:+,}", paint(state, COLOURS[state]))  # fmt: skip


def as_json(line: Line) -> dict[str, object]:
    return {
        "bucket": line.bucket.isoformat(),
        "topic": line.topic,
        "tier": line.tier,
        "records": line.records,
        "against": line.against,
        "expected": line.expected,
        "difference": line.difference,
        "state": state_of_line(line),
    }
