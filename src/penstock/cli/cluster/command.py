"""Inspect and change a cluster as a whole: brokers, quorum, leaders, replica placement, rolling restarts.

examples:
  penstock cluster describe
  penstock cluster quorum --json
  penstock cluster reassign --to 1,2,3,4 --dry-run
  penstock cluster elect preferred
  penstock cluster drain 2 --replicas
  penstock cluster unregister 2
  penstock cluster rolling-restart --command 'ssh {host} systemctl restart penstock@{id}'
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module

from penstock.cli.cluster.throttle import rate
from penstock.cli.common import (
    Actions,
    add_action,
    add_actions,
    add_bootstrap,
    add_flag,
    add_json,
    add_option,
    run_action,
)

SUMMARY = "inspect and change a cluster: brokers, quorum, leaders, replicas, restarts"
RESTART_TIMEOUT_S = 300

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    added = [
        add_action(
            actions,
            "describe",
            later("describe", "describe"),
            "show the controller, the brokers and the partitions that need attention",
        ).examples("penstock cluster describe", "penstock cluster describe --json"),
        register_brokers(actions),
        add_action(
            actions,
            "quorum",
            later("quorum", "quorum"),
            "show leader, voters and observers of the metadata log, and their lag",
        ).examples("penstock cluster quorum"),
        register_reassign(actions),
        register_elect(actions),
        register_drain(actions),
        register_undrain(actions),
        register_unregister(actions),
        register_rolling_restart(actions),
        register_features(actions),
    ]
    for action in added:
        add_json(action)
        add_bootstrap(action)


def later(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """An action whose module is imported when it runs."""

    def run_it(arguments: argparse.Namespace) -> int:
        found: Callable[[argparse.Namespace], int] = getattr(
            import_module(f"penstock.cli.cluster.{module}"), f"{function}_action"
        )
        return found(arguments)

    return run_it


def register_brokers(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    brokers = add_action(
        actions, "brokers", later("describe", "brokers"), "list brokers with racks, leaderships and replicas"
    ).examples("penstock cluster brokers --sizes")
    add_flag(brokers, "--sizes", "include bytes on disk")
    return brokers


def register_reassign(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    reassign = add_action(
        actions,
        "reassign",
        later("reassign", "reassign"),
        "move replicas to other brokers or directories, and wait until they have moved",
    ).examples(
        "penstock cluster reassign --to 1,2,3,4 --dry-run",
        "penstock cluster reassign --to 1,2,3,4 --topic clicks --save before.json",
        "penstock cluster reassign --replication-factor 3 --topic clicks",
        "penstock cluster reassign --plan before.json",
        "penstock cluster reassign --cancel",
    )
    what = reassign.add_mutually_exclusive_group()
    add_option(what, "--to", "ID,ID", "spread the partitions evenly over exactly these brokers")
    add_option(
        what, "--plan", "FILE", "plan as JSON, in the format of kafka-reassign-partitions, log_dirs too; - reads stdin"
    )
    add_flag(what, "--cancel", "cancel running moves; replicas stay where they were")
    add_flag(what, "--watch", "watch moves that are already running until they end")
    add_option(reassign, "--topic", "TOPIC", "only this topic; repeatable (default: all topics)", action="append")
    add_option(reassign, "--replication-factor", "N", "replicas of each partition (default: unchanged)", type=int)
    add_option(
        reassign,
        "--throttle",
        "RATE",
        "bytes per second that each broker may copy from others, such as 10M (default: no limit)",
        type=rate,
    )
    add_change(reassign)
    return reassign


def add_change(parser: argparse.ArgumentParser) -> None:
    """Adds what all actions that move replicas have."""
    add_flag(parser, "--dry-run", "show what would change; change nothing")
    add_option(parser, "--save", "FILE", "save the current state, to undo this with `reassign --plan`")
    add_flag(parser, "--no-wait", "return as soon as the cluster has accepted the moves")


def register_elect(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    elect = add_action(
        actions,
        "elect",
        later("elect", "elect"),
        "elect preferred leaders, or any live leader where no replica in sync is left",
    ).examples(
        "penstock cluster elect preferred",
        "penstock cluster elect preferred clicks orders:3",
        "penstock cluster elect unclean clicks:0",
    )
    elect.add_argument(
        "kind",
        choices=("preferred", "unclean"),
        help="preferred: the first replica; unclean: a replica that was not in sync, losing the records it lacks",
    )
    elect.add_argument(
        "partitions",
        nargs="*",
        default=[],
        metavar="TOPIC[:PARTITION]",
        help="partitions (default: all that need an election)",
    )
    add_flag(elect, "--yes", "do not ask for confirmation")
    return elect


def register_drain(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    drain = add_action(
        actions,
        "drain",
        later("drain", "drain"),
        "move a broker's leaderships to others; with --replicas, its data too",
    ).examples("penstock cluster drain 2", "penstock cluster drain 2 --replicas --save before.json")
    drain.add_argument("broker", type=int, metavar="BROKER", help="broker id")
    add_flag(drain, "--replicas", "also move its replicas away")
    add_change(drain)
    return drain


def register_undrain(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    undrain = add_action(
        actions,
        "undrain",
        later("drain", "undrain"),
        "give a broker its share of leaderships; with --replicas, of the data too",
    ).examples("penstock cluster undrain 2", "penstock cluster undrain 2 --replicas")
    undrain.add_argument("broker", type=int, metavar="BROKER", help="broker id")
    add_flag(undrain, "--replicas", "also move its share of the replicas there")
    add_change(undrain)
    return undrain


def register_unregister(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    unregister = add_action(
        actions, "unregister", later("unregister", "unregister"), "remove a broker that was stopped for good"
    ).examples("penstock cluster drain 4 --replicas", "penstock cluster unregister 4")
    unregister.add_argument("broker", type=int, metavar="BROKER", help="broker id")
    add_flag(unregister, "--yes", "unregister the broker even if it has replicas")
    return unregister


def register_rolling_restart(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    restart = add_action(
        actions,
        "rolling-restart",
        later("rolling_restart", "rolling_restart"),
        "restart nodes one by one, each only when all partitions are in sync",
    ).examples(
        "penstock cluster rolling-restart --command 'ssh {host} systemctl restart penstock@{id}'",
        "penstock cluster rolling-restart --nodes 1,2 --command './restart.sh {id}' --dry-run",
    )
    add_option(
        restart,
        "--command",
        "COMMAND",
        "shell command that restarts a node; {id}, {host} and {port} are replaced",
        dest="shell_command",
        required=True,
    )
    add_option(
        restart, "--nodes", "ID,ID", "nodes to restart, in this order (default: all, the active controller last)"
    )
    add_option(
        restart,
        "--timeout",
        "S",
        "seconds to wait for all replicas to be in sync after a restart",
        type=int,
        default=RESTART_TIMEOUT_S,
    )
    add_flag(restart, "--yes", "continue although some partitions will be unavailable during a restart")
    add_flag(restart, "--no-elect", "do not restore preferred leaders at the end")
    add_flag(restart, "--dry-run", "show the order and any obstacles; restart nothing")
    return restart


def register_features(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    features = add_action(
        actions, "features", later("features", "features"), "show or set the cluster's feature levels"
    ).examples(
        "penstock cluster features",
        "penstock cluster features metadata.version=4.3 --dry-run",
        "penstock cluster features eligible.leader.replicas.version=1",
    )
    features.add_argument(
        "levels", nargs="*", default=[], metavar="NAME=LEVEL", help="level to set; 0 disables the feature"
    )
    add_flag(features, "--unsafe", "downgrade even if metadata is lost")
    add_flag(features, "--dry-run", "ask the controller whether it would accept this; change nothing")
    return features
