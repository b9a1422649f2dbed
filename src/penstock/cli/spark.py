"""Run a Spark cluster on this machine, and show the settings that pipelines use with Spark.

examples:
  penstock spark cluster up --workers 2 --memory 2g      a master and workers, until `down`
  penstock spark cluster up --workers 2 --connect        and a Spark Connect server
  penstock spark cluster status
  penstock spark cluster down
  penstock spark settings                                the defaults and their reasons
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.common import Arguments, add_action, add_actions, add_flag, add_json, add_option, run_action
from penstock.cli.output import print_json, print_table
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.spark.cluster import ClusterState

SUMMARY = "run a Spark cluster on this machine"
UNITS_MB = {"m": 1, "g": 1024}
SPARK_LOG = Path(tempfile.gettempdir()) / "penstock-spark.log"


def add_spark_session(arguments: Arguments) -> None:
    """Adds --spark-log and --explain."""
    add_option(
        arguments,
        "--spark-log",
        "FILE",
        f"Spark's log (default: {SPARK_LOG.name} in the temporary directory)",
        type=Path,
        default=SPARK_LOG,
    )
    text = "print the Spark settings and their reasons, then exit"
    add_flag(arguments, "--explain", text)


run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    cluster = add_action(actions, "cluster", run_cluster, "start, stop or show a standalone cluster").examples(
        "penstock spark cluster up --workers 2 --cores 2 --memory 2g --connect", "penstock spark cluster down"
    )
    cluster.add_argument("do", choices=("up", "down", "status"), help="up, down or status")
    add_option(cluster, "--workers", "N", "workers to start", type=int, default=2)
    add_option(cluster, "--cores", "N", "cores per worker", type=int, default=1)
    add_option(cluster, "--memory", "SIZE", "memory per worker, such as 512m", type=memory_mb, default="1g")
    add_flag(cluster, "--connect", "also start a Spark Connect server on it")
    text = "directory for logs and pids (default: $PENSTOCK_SPARK_CLUSTER or ~/.local/state/penstock/spark-cluster)"
    add_option(cluster, "--directory", "DIR", text, type=Path)
    add_json(cluster)
    add_action(actions, "settings", show_settings, "print the settings that pipelines give Spark, and why")


def memory_mb(text: str) -> int:
    """A size such as 512m or 2g, in MiB."""
    match = re.fullmatch(r"(\d+)([mg])b?", text.lower())
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text} is no size such as 512m or 2g")
    return int(match[1]) * UNITS_MB[match[2]]


def directory_of(arguments: argparse.Namespace) -> Path:
    """Where the cluster's files are."""
    given = arguments.directory or os.environ.get("PENSTOCK_SPARK_CLUSTER")
    home = os.environ.get("XDG_STATE_HOME")
    state = Path(home) if home else Path.home() / ".local" / "state"
    return Path(given or state / "penstock" / "spark-cluster").absolute()


def run_cluster(arguments: argparse.Namespace) -> int:
    directory = directory_of(arguments)
    return {"up": up, "down": end, "status": status}[arguments.do](directory, arguments)


def up(directory: Path, arguments: argparse.Namespace) -> int:
    """Starts a cluster and leaves it running."""
    from penstock.spark.cluster import SparkCluster

    if arguments.cores < 1:
        raise PenstockError(f"--cores {arguments.cores}: a worker needs at least 1")
    cluster = SparkCluster(
        directory,
        workers=arguments.workers,
        cores=arguments.cores,
        memory_mb=arguments.memory,
        connect=arguments.connect,
    )
    state = cluster.up()
    if arguments.json:
        print_json(told(state))
        return 0
    print(f"master    {state.master}")
    print(f"workers   {arguments.workers}, each {arguments.cores} cores and {arguments.memory} MiB")
    if state.remote:
        print(f"connect   {state.remote}")
    print(f"page      {state.page}")
    print(f"logs      {directory}")
    where = f"--remote {state.remote}" if state.remote else f"--master {state.master}"
    print(f"use it    penstock pipeline run FILE {where}")
    print("end it    penstock spark cluster down")
    return 0


def end(directory: Path, arguments: argparse.Namespace) -> int:
    from penstock.spark.cluster import down

    ended = down(directory)
    if arguments.json:
        print_json({"ended": ended})
    else:
        print(f"ended {', '.join(ended)}" if ended else "no cluster runs")
    return 0


def status(directory: Path, arguments: argparse.Namespace) -> int:
    """Shows a cluster; 1 when none runs, or not all of it."""
    from penstock.spark.cluster import ClusterState, workers_of

    state = ClusterState.read(directory)
    if state is None:
        print_json({}) if arguments.json else print("no cluster runs")
        return 1
    alive = {member.name: member.alive() for member in state.members}
    workers = workers_of(state.page)
    if arguments.json:
        print_json({**told(state), "alive": alive, "registered": len(workers)})
    else:
        print_table(
            ("process", "pid", "state"),
            [(each.name, each.pid, "running" if alive[each.name] else "gone") for each in state.members],
            ("pid",),
        )
        used, cores = (sum(worker[name] for worker in workers) for name in ("coresused", "cores"))
        print(f"\n{state.master}: {len(workers)} workers registered, {used} of {cores} cores in use")
        if state.remote:
            print(f"Spark Connect at {state.remote}")
    return 0 if all(alive.values()) else 1


def told(state: ClusterState) -> dict[str, object]:
    """A cluster as JSON."""
    members = {each.name: each.pid for each in state.members}
    return {"master": state.master, "remote": state.remote or None, "page": state.page, "processes": members}


def show_settings(_arguments: argparse.Namespace) -> int:
    from penstock.spark.session import explain

    print(explain())
    return 0
