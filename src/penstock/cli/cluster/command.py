"""See and change a cluster as a whole: brokers, quorum, leaders, where replicas lie, restarts without a gap.

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

SUMMARY = "see and change a cluster: brokers, quorum, leaders, replicas, restarts"
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
            "show controller, brokers and how many partitions are not as they should be",
            "  penstock cluster describe\n  penstock cluster describe --json",
        ),
        register_brokers(actions),
        add_action(
            actions,
            "quorum",
            later("quorum", "quorum"),
            "show leader, voters and observers of the metadata log, and how far each is",
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
    brokers.add_argument("--sizes", action="store_true", help="also bytes on disk")
    return brokers


def register_reassign(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    reassign = add_action(
        actions,
        "reassign",
        later("reassign", "reassign"),
        "move replicas to other brokers, and watch until it is done",
        "  penstock cluster reassign --to 1,2,3,4 --dry-run\n"
        "  penstock cluster reassign --to 1,2,3,4 --topic clicks --save before.json\n"
        "  penstock cluster reassign --replication-factor 3 --topic clicks\n"
        "  penstock cluster reassign --plan before.json\n"
        "  penstock cluster reassign --cancel",
    )
    what = reassign.add_mutually_exclusive_group()
    what.add_argument("--to", metavar="ID,ID", help="spread the partitions evenly over these brokers and no others")
    what.add_argument("--plan", metavar="FILE", help="JSON as kafka-reassign-partitions has it; - for stdin")
    what.add_argument("--cancel", action="store_true", help="stop what is being moved; replicas stay where they were")
    what.add_argument("--watch", action="store_true", help="show what is being moved already, until it is done")
    reassign.add_argument("--topic", action="append", metavar="TOPIC", help="only this one; repeatable (all topics)")
    reassign.add_argument(
        "--replication-factor", type=int, metavar="N", help="replicas of each partition (as many as it has)"
    )
    reassign.add_argument(
        "--throttle", type=rate, metavar="RATE", help="bytes a second that each broker may copy, such as 10M (no limit)"
    )
    reassign.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    add_change(reassign)
    return reassign


def add_change(parser: argparse.ArgumentParser) -> None:
    """Adds what all actions that move replicas have."""
    parser.add_argument("--save", metavar="FILE", help="write how it was before, for `reassign --plan`")
    parser.add_argument("--no-wait", action="store_true", help="end when the cluster has begun")


def register_elect(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    elect = add_action(
        actions,
        "elect",
        later("elect", "elect"),
        "give partitions their preferred leader, or any live one where nobody can lead",
        "  penstock cluster elect preferred\n"
        "  penstock cluster elect preferred clicks orders:3\n"
        "  penstock cluster elect unclean clicks:0",
    )
    elect.add_argument(
        "kind",
        choices=("preferred", "unclean"),
        help="preferred: the first replica; unclean: a replica that was not in sync, which loses what it lacks",
    )
    elect.add_argument(
        "partitions", nargs="*", default=[], metavar="TOPIC[:PARTITION]", help="which ones (all that need it)"
    )
    elect.add_argument("--yes", action="store_true", help="do not ask before an unclean election")
    return elect


def register_drain(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    drain = add_action(
        actions,
        "drain",
        later("drain", "drain"),
        "move the leaderships of a broker to others, with --replicas all its data too",
        "  penstock cluster drain 2\n  penstock cluster drain 2 --replicas --save before.json",
    )
    drain.add_argument("broker", type=int, metavar="BROKER", help="its id")
    drain.add_argument("--replicas", action="store_true", help="move its replicas away as well")
    drain.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    add_change(drain)
    return drain


def register_undrain(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    undrain = add_action(
        actions,
        "undrain",
        later("drain", "undrain"),
        "give a broker its share of the leaderships, with --replicas of the data too",
        "  penstock cluster undrain 2\n  penstock cluster undrain 2 --replicas",
    )
    undrain.add_argument("broker", type=int, metavar="BROKER", help="its id")
    undrain.add_argument("--replicas", action="store_true", help="move its share of replicas there as well")
    undrain.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    add_change(undrain)
    return undrain


def register_unregister(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    unregister = add_action(
        actions,
        "unregister",
        later("unregister", "unregister"),
        "forget a broker that was stopped and will not come back",
        "  penstock cluster drain 4 --replicas\n  penstock cluster unregister 4",
    )
    unregister.add_argument("broker", type=int, metavar="BROKER", help="its id")
    unregister.add_argument("--yes", action="store_true", help="even if it has replicas")
    return unregister


def register_rolling_restart(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    restart = add_action(
        actions,
        "rolling-restart",
        later("rolling_restart", "rolling_restart"),
        "restart node after node, each only when every partition is in sync",
        "  penstock cluster rolling-restart --command 'ssh {host} systemctl restart penstock@{id}'\n"
        "  penstock cluster rolling-restart --nodes 1,2 --command './restart.sh {id}' --dry-run",
    )
    restart.add_argument(
        "--command",
        dest="shell_command",
        required=True,
        metavar="COMMAND",
        help="restarts a node, in a shell; {id}, {host} and {port} are the node's",
    )
    restart.add_argument("--nodes", metavar="ID,ID", help="which ones, in this order (all, the active controller last)")
    restart.add_argument(
        "--timeout",
        type=int,
        default=RESTART_TIMEOUT_S,
        metavar="S",
        help=f"how long all may take to be in sync after a restart ({RESTART_TIMEOUT_S})",
    )
    restart.add_argument(
        "--yes", action="store_true", help="go on though partitions cannot be written or read while a node is away"
    )
    restart.add_argument("--no-elect", action="store_true", help="leave the leaderships as the restarts left them")
    restart.add_argument("--dry-run", action="store_true", help="show the order and what stands against it")
    return restart


def register_features(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    features = add_action(
        actions,
        "features",
        later("features", "features"),
        "show the feature levels that the cluster works at, or set some",
        "  penstock cluster features\n"
        "  penstock cluster features metadata.version=4.3 --dry-run\n"
        "  penstock cluster features eligible.leader.replicas.version=1",
    )
    features.add_argument(
        "levels", nargs="*", default=[], metavar="NAME=LEVEL", help="set it; 0 switches a feature off"
    )
    features.add_argument("--unsafe", action="store_true", help="go down even if metadata is lost by it")
    features.add_argument("--dry-run", action="store_true", help="only ask the controller whether it would")
    return features
