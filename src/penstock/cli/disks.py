"""Show the log directories of all brokers: use, health, write rate, largest replicas, and what to move.

The exit code is 1 if a directory is offline or full, or a broker does not answer. Whether a directory is full or slow,
its reserve, its write rate and its uncleanable logs are known from the /metrics of Penstock brokers (--metrics);
without it, only a directory without a usable byte counts as full. All else works with Apache Kafka, too.

--plan writes moves that even out the free space: from the fullest directory to the emptiest, the replica after whose
move the two are the most alike. Nothing goes to a full, slow, offline or cordoned directory, to a broker that has the
partition already, or into fewer racks; replicas under 1 MiB stay. `penstock cluster reassign --plan` carries it out.
What has moved away takes space until file.delete.delay.ms (a minute) is over: make the next plan after that.

examples:
  penstock disks
  penstock disks --metrics 'http://{host}:9644/metrics' --top 10
  penstock disks --metrics 1=http://n1:9644/metrics --metrics 2=http://n2:9645/metrics
  penstock disks --plan moves.json --moves 4
  penstock disks --plan - | penstock cluster reassign --plan - --dry-run
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.common import add_bootstrap, add_json, add_option, security_in, with_client
from penstock.errors import UnreachableError, UsageError

if TYPE_CHECKING:
    from ssl import SSLContext

    from penstock.cli.disk_metrics import DirectoryMetrics
    from penstock.cli.disk_plan import DiskPlan
    from penstock.cli.disk_report import Disk
    from penstock.client.client import Client
    from penstock.client.cluster import BrokerState

SUMMARY = "show the disks of all brokers: use, health, largest replicas, what to move"
TOP, MOVES = 3, 10
TOP_MAX, MOVES_MAX = 10_000, 1_000
STDOUT = "-"


def register(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser,
        "--metrics",
        "URL",
        "address of /metrics, with {host} and {id} for each broker, or ID=URL for one; repeatable; the environment's "
        "PENSTOCK_METRICS_TOKEN goes with it",
        action="append",
        default=[],
    )
    add_option(parser, "--top", "N", "largest replicas to show of each directory", type=int, default=TOP)
    add_option(parser, "--plan", "FILE", "write the moves to this new file, for `cluster reassign`; - is stdout")
    add_option(parser, "--moves", "N", "replicas that --plan may move", type=int, default=MOVES)
    add_json(parser)
    add_bootstrap(parser)


def run(arguments: argparse.Namespace) -> int:
    """Describes the directories and plans; returns the exit code."""
    check(arguments)

    async def job(client: Client) -> int:
        from penstock.cli.disk_report import disks_json, disks_of, is_well, move_json, print_disks, silent_of
        from penstock.cli.output import print_json
        from penstock.client.cluster import describe_cluster
        from penstock.client.log_directories import describe_log_directories

        brokers = (await describe_cluster(client)).brokers
        security = security_in(arguments.command_config, quiet=True)
        metrics = await ask_metrics(arguments.metrics, brokers, security.context())
        described = await describe_log_directories(client, [broker.id for broker in brokers])
        disks, silent = disks_of(described, metrics), silent_of(described)
        plan = None if arguments.plan is None else await make_plan(client, disks, arguments.moves)
        if arguments.json:
            moves = {} if plan is None else {"moves": [move_json(move) for move in plan.moves]}
            print_json({**disks_json(disks, silent, arguments.top), **moves})
        elif arguments.plan != STDOUT:
            print_disks(disks, arguments.top)
        for broker_id, reason in silent.items():
            say(f"broker {broker_id} does not tell of its directories: {reason}")
        if not arguments.json and (missing := without_metrics(disks)):
            from penstock.cli.disk_metrics import hint

            say(hint(missing))
        if plan is not None:
            write(arguments, plan)
        return 0 if is_well(disks, silent) else 1

    return with_client(arguments, job)


def check(arguments: argparse.Namespace) -> None:
    """Raises UsageError for what cannot be."""
    if not 0 <= arguments.top <= TOP_MAX:
        raise UsageError(f"--top {arguments.top}: it must be from 0 to {TOP_MAX}")
    if not 1 <= arguments.moves <= MOVES_MAX:
        raise UsageError(f"--moves {arguments.moves}: it must be from 1 to {MOVES_MAX}")
    if arguments.json and arguments.plan == STDOUT:
        raise UsageError("--json and --plan - would both write to the standard output: give --plan a file")


async def ask_metrics(
    options: Sequence[str], brokers: Sequence[BrokerState], context: SSLContext | None
) -> dict[int, dict[str, DirectoryMetrics]]:
    """What the brokers say on /metrics, by broker and path. One that does not answer is told, and left out."""
    if not options:
        return {}
    from penstock.cli.disk_metrics import addresses, read_metrics

    wanted = addresses(options, brokers)
    answers = await asyncio.gather(
        *(asyncio.to_thread(read_metrics, url, context) for url in wanted.values()), return_exceptions=True
    )
    found = {}
    for broker_id, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, UnreachableError):
            say(f"broker {broker_id}: {answer}")
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found[broker_id] = answer
    return found


def without_metrics(disks: Sequence[Disk]) -> list[int]:
    """The brokers of directories of which /metrics says nothing."""
    return sorted({disk.state.broker for disk in disks if disk.metrics is None})


async def make_plan(client: Client, disks: Sequence[Disk], moves_max: int) -> DiskPlan:
    """What to move, as the cluster is now."""
    from penstock.cli.disk_plan import plan_moves
    from penstock.client.view import look

    return plan_moves(disks, await look(client), moves_max)


def write(arguments: argparse.Namespace, plan: DiskPlan) -> None:
    """Writes the plan and tells what is in it. An existing file is not overwritten: it may be a saved plan."""
    from penstock.cli.disk_report import move_text
    from penstock.cli.output import counted, size_text

    if plan.by_size:
        say("not all brokers tell how much is free: the plan evens out the bytes of replicas instead")
    if not plan.moves:
        say("nothing to move: no replica that may move would make the free space more even; no plan is written")
        return
    if not arguments.json:
        stream = sys.stderr if arguments.plan == STDOUT else sys.stdout
        lines = [move_text(move) for move in plan.moves]
        total = f"{counted(len(lines), 'replica')} to move ({size_text(sum(m.size_bytes for m in plan.moves))})"
        print("", *lines, total, sep="\n", file=stream)
    if arguments.plan == STDOUT:
        print(json.dumps(plan.plan))
        return
    with open(arguments.plan, "x", encoding="utf-8") as file:
        json.dump(plan.plan, file)
        file.write("\n")
    if not arguments.json:
        print(f"written to {arguments.plan}; `penstock cluster reassign --plan {arguments.plan}` carries it out")


def say(text: str) -> None:
    """A line on stderr: what is missing is no data."""
    print(text, file=sys.stderr)
