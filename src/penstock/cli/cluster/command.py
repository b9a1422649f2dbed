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
from penstock.cli.common import Actions, add_action, add_actions, add_bootstrap, add_json, run_action

SUMMARY = "inspect and change a cluster: brokers, quorum, leaders, replicas, restarts"
RESTART_TIMEOUT_S = 300

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's actions."""
    actions = add_actions(parser)
    added = [
        add_action(
            actions,
            "describe",
            later("describe", "describe"),
            "show the controller, the brokers and the partitions that need attention",
            "  penstock cluster describe\n  penstock cluster describe --json",
        ),
        register_brokers(actions),
        add_action(
            actions,
            "quorum",
            later("quorum", "quorum"),
            "show leader, voters and observers of the metadata log, and their lag",
            "  penstock cluster quorum",
        ),
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
        actions,
        "brokers",
        later("describe", "brokers"),
        "list brokers with racks, leaderships and replicas",
        "  penstock cluster brokers --sizes",
    )
    brokers.add_argument("--sizes", action="store_true", help="include bytes on disk")
    return brokers


def register_reassign(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    reassign = add_action(
        actions,
        "reassign",
        later("reassign", "reassign"),
        "move replicas to other brokers, and wait until they have moved",
        "  penstock cluster reassign --to 1,2,3,4 --dry-run\n"
        "  penstock cluster reassign --to 1,2,3,4 --topic clicks --save before.json\n"
        "  penstock cluster reassign --replication-factor 3 --topic clicks\n"
        "  penstock cluster reassign --plan before.json\n"
        "  penstock cluster reassign --cancel",
    )
    what = reassign.add_mutually_exclusive_group()
    what.add_argument("--to", metavar="ID,ID", help="spread the partitions evenly over exactly these brokers")
    what.add_argument(
        "--plan", metavar="FILE", help="plan as JSON, in the format of kafka-reassign-partitions; - reads stdin"
    )
    what.add_argument("--cancel", action="store_true", help="cancel running moves; replicas stay where they were")
    what.add_argument("--watch", action="store_true", help="watch moves that are already running until they end")
    reassign.add_argument(
        "--topic", action="append", metavar="TOPIC", help="only this topic; repeatable (default: all topics)"
    )
    reassign.add_argument(
        "--replication-factor", type=int, metavar="N", help="replicas of each partition (default: unchanged)"
    )
    reassign.add_argument(
        "--throttle",
        type=rate,
        metavar="RATE",
        help="bytes per second that each broker may copy, such as 10M (default: no limit)",
    )
    add_change(reassign)
    return reassign


def add_change(parser: argparse.ArgumentParser) -> None:
    """Adds what all actions that move replicas have."""
    parser.add_argument("--dry-run", action="store_true", help="show what would change; change nothing")
    parser.add_argument("--save", metavar="FILE", help="save the current state, to undo this with `reassign --plan`")
    parser.add_argument("--no-wait", action="store_true", help="return as soon as the cluster has accepted the moves")


def register_elect(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    elect = add_action(
        actions,
        "elect",
        later("elect", "elect"),
        "elect preferred leaders, or any live leader where no replica in sync is left",
        "  penstock cluster elect preferred\n"
        "  penstock cluster elect preferred clicks orders:3\n"
        "  penstock cluster elect unclean clicks:0",
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
    elect.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    return elect


def register_drain(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    drain = add_action(
        actions,
        "drain",
        later("drain", "drain"),
        "move a broker's leaderships to others; with --replicas, its data too",
        "  penstock cluster drain 2\n  penstock cluster drain 2 --replicas --save before.json",
    )
    drain.add_argument("broker", type=int, metavar="BROKER", help="broker id")
    drain.add_argument("--replicas", action="store_true", help="also move its replicas away")
    add_change(drain)
    return drain


def register_undrain(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    undrain = add_action(
        actions,
        "undrain",
        later("drain", "undrain"),
        "give a broker its share of leaderships; with --replicas, of the data too",
        "  penstock cluster undrain 2\n  penstock cluster undrain 2 --replicas",
    )
    undrain.add_argument("broker", type=int, metavar="BROKER", help="broker id")
    undrain.add_argument("--replicas", action="store_true", help="also move its share of the replicas there")
    add_change(undrain)
    return undrain


def register_unregister(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    unregister = add_action(
        actions,
        "unregister",
        later("unregister", "unregister"),
        "remove a broker that was stopped for good",
        "  penstock cluster drain 4 --replicas\n  penstock cluster unregister 4",
    )
    unregister.add_argument("broker", type=int, metavar="BROKER", help="broker id")
    unregister.add_argument("--yes", action="store_true", help="unregister the broker even if it has replicas")
    return unregister


def register_rolling_restart(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    restart = add_action(
        actions,
        "rolling-restart",
        later("rolling_restart", "rolling_restart"),
        "restart nodes one by one, each only when all partitions are in sync",
        "  penstock cluster rolling-restart --command 'ssh {host} systemctl restart penstock@{id}'\n"
        "  penstock cluster rolling-restart --nodes 1,2 --command './restart.sh {id}' --dry-run",
    )
    restart.add_argument(
        "--command",
        dest="shell_command",
        required=True,
        metavar="COMMAND",
        help="shell command that restarts a node; {id}, {host} and {port} are replaced",
    )
    restart.add_argument(
        "--nodes", metavar="ID,ID", help="nodes to restart, in this order (default: all, the active controller last)"
    )
    restart.add_argument(
        "--timeout",
        type=int,
        default=RESTART_TIMEOUT_S,
        metavar="S",
        help=f"seconds to wait for all replicas to be in sync after a restart (default: {RESTART_TIMEOUT_S})",
    )
    restart.add_argument(
        "--yes", action="store_true", help="continue although some partitions will be unavailable during a restart"
    )
    restart.add_argument("--no-elect", action="store_true", help="do not restore preferred leaders at the end")
    restart.add_argument("--dry-run", action="store_true", help="show the order and any obstacles; restart nothing")
    return restart


def register_features(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    features = add_action(
        actions,
        "features",
        later("features", "features"),
        "show or set the cluster's feature levels",
        "  penstock cluster features\n"
        "  penstock cluster features metadata.version=4.3 --dry-run\n"
        "  penstock cluster features eligible.leader.replicas.version=1",
    )
    features.add_argument(
        "levels", nargs="*", default=[], metavar="NAME=LEVEL", help="level to set; 0 disables the feature"
    )
    features.add_argument("--unsafe", action="store_true", help="downgrade even if metadata is lost")
    features.add_argument(
        "--dry-run", action="store_true", help="ask the controller whether it would accept this; change nothing"
    )
    return features
