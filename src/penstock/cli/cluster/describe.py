"""`penstock cluster describe` and `brokers`: who is there, who has what, and what is not as it should be.

A user without DESCRIBE on the cluster is shown what is left, and told what that is not.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.cli.cluster.words import ids_text, partition_json
from penstock.cli.common import with_client
from penstock.cli.output import BOLD, GREEN, RED, YELLOW, paint, print_json, print_table, size_text
from penstock.client.view import PROBLEMS, Share, View, look

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.cluster import BrokerState, QuorumState

LISTED_MAX = 10
"""Partitions with a problem that are listed; `--json` has all of them."""
PROBE_TIMEOUT_MS = 2_000
PROBES_AT_ONCE = 100
WORDS = {
    "under_replicated": "under-replicated",
    "at_min_isr": "at min ISR",
    "under_min_isr": "under min ISR",
    "offline": "offline",
}
COLOURS = {"under_replicated": YELLOW, "at_min_isr": YELLOW, "under_min_isr": RED, "offline": RED}


def describe_action(arguments: argparse.Namespace) -> int:
    async def job(client: Client) -> int:
        seen = await known(client)
        if arguments.json:
            print_json(described(seen))
            return 0
        print_summary(seen)
        print()
        print_brokers(seen, None)
        print_problems(seen.view)
        for sentence in seen.not_seen:
            print(f"\n{paint('not shown', YELLOW)}  {sentence}")
        return 0

    return with_client(arguments, job)


def brokers_action(arguments: argparse.Namespace) -> int:
    async def job(client: Client) -> int:
        seen = await known(client)
        sizes = await sizes_of(client, seen.view) if arguments.sizes else None
        if arguments.json:
            print_json(brokers_json(seen, sizes))
        else:
            print_brokers(seen, sizes)
        return 0

    return with_client(arguments, job)


@dataclass(frozen=True, slots=True)
class Seen:
    """The cluster as this user may see it.

    Attributes:
        quorum: None while it has no leader, or if the user may not see it.
        silent: brokers that do not answer, where no controller tells which ones are up.
        is_refused: the user may not see the quorum, nor what is being moved.
    """

    view: View
    quorum: QuorumState | None
    silent: frozenset[int] = frozenset()
    is_refused: bool = False

    @property
    def not_seen(self) -> list[str]:
        """What this user may not see, in sentences."""
        found = []
        if self.is_refused:
            found.append(
                "controller, voters and what is being moved, which need DESCRIBE on the cluster; and topics that this "
                "user may not describe"
            )
        if without := len(self.view.without_minimum):
            found.append(
                f"min.insync.replicas of {without} topics, which needs DESCRIBE_CONFIGS on them; it is counted as 1"
            )
        return found


async def known(client: Client) -> Seen:
    """What there is to know of the cluster."""
    from penstock.client.cluster import NoControllerError
    from penstock.errors import ErrorCode, RequestError

    try:
        quorum = await quorum_of(client)
    except RequestError as error:
        if error.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return Seen(await look(client, moves=False, partly=True), None, is_refused=True)
    if quorum is not None:
        try:
            return Seen(await look(client, partly=True), quorum)
        except NoControllerError:
            pass
    view = await look(client, moves=False, partly=True)
    return Seen(view, None, await silent_of(client, view))


async def quorum_of(client: Client) -> QuorumState | None:
    """The state of the quorum, or None while it has no leader."""
    from penstock.client.cluster import describe_quorum
    from penstock.errors import RequestError, UnreachableError

    try:
        return await describe_quorum(client)
    except UnreachableError:
        return None
    except RequestError as error:
        if error.code.retriable:
            return None
        raise


async def silent_of(client: Client, view: View) -> frozenset[int]:
    """The brokers that do not answer us; without a controller, nothing else tells which ones are up."""
    from penstock.errors import PenstockError

    async def asked(broker: BrokerState) -> int | None:
        try:
            async with client.another([f"{broker.host}:{broker.port}"], timeout_ms=PROBE_TIMEOUT_MS):
                return None
        except PenstockError:
            return broker.id

    found: set[int | None] = set()
    for first in range(0, len(view.brokers), PROBES_AT_ONCE):
        found.update(await asyncio.gather(*map(asked, view.brokers[first : first + PROBES_AT_ONCE])))
    return frozenset(each for each in found if each is not None)


async def sizes_of(client: Client, view: View) -> dict[int, int]:
    """Bytes on disk by broker, of those that are not fenced."""
    from penstock.client.cluster import replica_sizes

    sizes = dict.fromkeys(view.live, 0)
    for (_, _, broker_id), size_bytes in (await replica_sizes(client, view.live)).items():
        sizes[broker_id] += size_bytes
    return sizes


def described(seen: Seen) -> dict[str, Any]:
    """All of it in one JSON object."""
    view, quorum = seen.view, seen.quorum
    found = {name: [partition_json(each) for each in view.with_problem(name)] for name in PROBLEMS}
    return {
        "cluster_id": view.cluster.cluster_id,
        "controller": None if quorum is None else quorum.leader_id,
        "controller_epoch": None if quorum is None else quorum.epoch,
        "voters": [] if quorum is None else [voter.id for voter in quorum.voters],
        "topics": view.topics,
        "partitions": len(view.partitions),
        "reassignments": None if quorum is None else len(view.moving),
        "counts": {name: len(partitions) for name, partitions in found.items()},
        "brokers": brokers_json(seen, None),
        **found,
        "not_seen": seen.not_seen,
    }


def brokers_json(seen: Seen, sizes: Mapping[int, int] | None) -> list[dict[str, Any]]:
    view, quorum = seen.view, seen.quorum
    shares = view.shares()
    found = []
    for broker in view.brokers:
        share = shares[broker.id]
        value = {
            "id": broker.id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "fenced": broker.fenced,
            "silent": broker.id in seen.silent,
            "controller": quorum is not None and quorum.leader_id == broker.id,
            "leaders": share.leaders,
            "preferred_leaders": share.preferred,
            "replicas": share.replicas,
            "out_of_sync": share.out_of_sync,
        }
        found.append(value if sizes is None else {**value, "size_bytes": sizes.get(broker.id)})
    return found


def print_summary(seen: Seen) -> None:
    """The cluster in five lines, none longer than 80 columns as a rule."""
    view, quorum = seen.view, seen.quorum
    fenced = len(view.brokers) - len(view.live)
    away = paint(f" ({fenced} fenced)", RED) if fenced else ""
    print(f"{paint('cluster', BOLD)}     {view.cluster.cluster_id}")
    moving = len(view.moving) if quorum is not None else "unknown"
    if quorum is not None:
        voters = ids_text(voter.id for voter in quorum.voters)
        print(f"{paint('controller', BOLD)}  {quorum.leader_id}, epoch {quorum.epoch}, voters {voters}")
    elif seen.is_refused:
        print(f"{paint('controller', BOLD)}  unknown: this user may not see it")
    else:
        lacking = "none: more than half of the controllers must be up and reach each other"
        print(f"{paint('controller', BOLD)}  {paint(lacking, RED)}")
        print("            showing the last known state; no changes until a controller is elected")
    replicas = sum(len(partition.replicas) for partition in view.partitions)
    print(
        f"{paint('has', BOLD)}         brokers {len(view.brokers)}{away}, topics {view.topics},"
        f" partitions {len(view.partitions)}, replicas {replicas}"
    )
    counts = [count_text(name, len(view.with_problem(name))) for name in PROBLEMS]
    print(f"{paint('partitions', BOLD)}  {', '.join(counts)}")
    print(f"            being moved {moving}")


def count_text(name: str, count: int) -> str:
    """How many partitions have a problem, in its colour if any has."""
    return paint(f"{WORDS[name]} {count}", COLOURS[name] if count else GREEN)


def print_brokers(seen: Seen, sizes: Mapping[int, int] | None) -> None:
    view = seen.view
    shares = view.shares()
    head = ["broker", "address", "rack", "state", "leads", "preferred", "replicas", "out of sync"]
    rows = [broker_row(broker, shares[broker.id], seen) for broker in view.brokers]
    if sizes is not None:
        head.append("size")
        for broker, row in zip(view.brokers, rows, strict=True):
            row.append(size_text(sizes[broker.id]) if broker.id in sizes else "-")
    print_table(head, rows, right=("broker", "leads", "preferred", "replicas", "out of sync", "size"))
    gone = sorted(set(shares) - {broker.id for broker in view.brokers})
    for broker_id in gone:
        share = shares[broker_id]
        print(f"broker {broker_id} is not registered, and has {share.replicas} replicas")


def broker_row(broker: BrokerState, share: Share, seen: Seen) -> list[object]:
    state = "no answer" if broker.id in seen.silent else "fenced" if broker.fenced else "up"
    if seen.quorum is not None and seen.quorum.leader_id == broker.id:
        state += ", controller"
    return [
        broker.id,
        f"{broker.host}:{broker.port}",
        broker.rack or "-",
        state,
        share.leaders,
        share.preferred,
        share.replicas,
        share.out_of_sync,
    ]


def print_problems(view: View) -> None:
    """The partitions that are worst off."""
    names = ("offline", "under_min_isr", "under_replicated")
    worst = {each.key: (name, each) for name in reversed(names) for each in view.with_problem(name)}
    found = sorted(worst.values(), key=lambda item: (names.index(item[0]), item[1].key))
    if not found:
        return
    print()
    rows = [
        (
            each,
            WORDS[name],
            each.leader if each.leader >= 0 else "none",
            ids_text(each.replicas),
            ids_text(each.in_sync),
        )
        for name, each in found[:LISTED_MAX]
    ]
    print_table(("partition", "problem", "leader", "replicas", "in sync"), rows, right=("leader",))
    if len(found) > LISTED_MAX:
        print(f"and {len(found) - LISTED_MAX} more; --json has all of them")
