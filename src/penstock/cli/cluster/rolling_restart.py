"""`penstock cluster rolling-restart`: node after node, each only when every partition and every voter is in sync.

The command that restarts a node is the operator's. A node has restarted when a connection that was open before breaks,
since the old process closes it. Then the node itself is asked until it answers that it is up, that no partition is
under-replicated, and that the voters have what the active controller has.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.cli.cluster.quorum import lag_ms
from penstock.cli.cluster.words import ids_text, names_of, parse_ids
from penstock.cli.common import with_client
from penstock.cli.output import print_json
from penstock.client.view import View, look
from penstock.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.cluster import QuorumState

LOOK_EVERY_S = 0.25
ANSWER_TIMEOUT_MS = 5_000
ELECTED_TIMEOUT_S = 10.0
VOTER_LAG_MAX_MS = 3_000
"""A voter that had all that the leader had so long ago is in sync."""
VOTERS_SAFE = 3
"""With fewer voters there is no controller while one is away."""


class RestartError(PenstockError):
    """The rolling restart stops; the message names the node and the reason."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node to restart: a broker, a controller, or both."""

    id: int
    host: str
    port: int
    is_broker: bool

    @property
    def address(self) -> str:
        """The node's address as host:port."""
        return f"{self.host}:{self.port}"


def rolling_restart_action(arguments: argparse.Namespace) -> int:
    async def job(client: Client) -> int:
        from penstock.client.cluster import describe_quorum

        view, quorum = await look(client), await describe_quorum(client)
        nodes = ordered(view, quorum, arguments.nodes)
        if "{id}" not in arguments.shell_command and "{host}" not in arguments.shell_command and len(nodes) > 1:
            raise UsageError("--command must name the node: {id} or {host}, such as 'systemctl restart penstock@{id}'")
        objections = objections_to(view, quorum, nodes)
        if arguments.dry_run:
            tell_plan(arguments, nodes, objections)
            return 0
        if objections and not arguments.yes:
            raise RestartError("\n  ".join([f"{objections[0]}; --yes goes on all the same", *objections[1:]]))
        return await restart_all(client, arguments, view, nodes)

    return with_client(arguments, job)


def ordered(view: View, quorum: QuorumState, wanted: str | None) -> list[Node]:
    """The nodes in the order in which they are restarted. Raises UsageError for one that is not there."""
    nodes = {broker.id: Node(broker.id, broker.host, broker.port, True) for broker in view.brokers}
    for voter in quorum.voters:
        if voter.id not in nodes and voter.id in quorum.endpoints:
            host, _, port = quorum.endpoints[voter.id].rpartition(":")
            nodes[voter.id] = Node(voter.id, host, int(port), False)
    if wanted is None:
        return sorted(nodes.values(), key=lambda node: (node.id == quorum.leader_id, node.id))
    ids = parse_ids(wanted, "--nodes")
    for each in ids:
        if each not in nodes:
            raise UsageError(f"--nodes {wanted}: there is no node {each}, the cluster has {ids_text(sorted(nodes))}")
    return [nodes[each] for each in ids]


def objections_to(view: View, quorum: QuorumState, nodes: Sequence[Node]) -> list[str]:
    """The partitions that cannot be written or read while one of the nodes is away, in sentences."""
    ids = {node.id for node in nodes}
    there = [each for each in view.partitions if ids & set(each.replicas)]
    single = sorted({each.topic for each in there if len(each.replicas) == 1})
    strict = sorted(
        {each.topic for each in there if 1 < len(each.replicas) <= each.min_insync_replicas and not each.under_min_isr}
    )
    found = []
    if single:
        found.append(f"topics with a single replica are away with its node: {names_of(single, 5)}")
    if strict:
        found.append(
            f"topics whose min.insync.replicas is all replicas take no acks=all meanwhile: {names_of(strict, 5)}"
        )
    voters = {voter.id for voter in quorum.voters}
    if ids & voters and len(voters) < VOTERS_SAFE:
        found.append(f"the quorum has {len(voters)} voters: there is no controller while one is away")
    return found


def tell_plan(arguments: argparse.Namespace, nodes: Sequence[Node], objections: Sequence[str]) -> None:
    """Prints the order of the restarts and any obstacles."""
    if arguments.json:
        print_json({"nodes": [node.id for node in nodes], "objections": objections})
        return
    for node in nodes:
        print(f"node {node.id}: {command_for(arguments, node)}")
    for objection in objections:
        print(f"but {objection}")


def command_for(arguments: argparse.Namespace, node: Node) -> str:
    """The command of a node."""
    text: str = arguments.shell_command
    return text.replace("{id}", str(node.id)).replace("{host}", node.host).replace("{port}", str(node.port))


async def restart_all(like: Client, arguments: argparse.Namespace, view: View, nodes: Sequence[Node]) -> int:
    """Restarts the nodes, which are reached as `like` reaches them; returns the exit code."""
    brokers = [f"{broker.host}:{broker.port}" for broker in view.brokers if not broker.fenced]
    steps = []
    await wait_in_sync(like, brokers, None, arguments.timeout, "before the first restart")
    for place, node in enumerate(nodes, start=1):
        if not arguments.json:
            print(f"node {node.id} ({place} of {len(nodes)}): restarting", flush=True)
        began_s = time.monotonic()
        await restart(like, arguments, node)
        back_s = time.monotonic()
        asked = [node.address] if node.is_broker else brokers
        await wait_in_sync(like, asked, node, arguments.timeout, f"after the restart of node {node.id}")
        in_sync_s = time.monotonic()
        steps.append(
            {"node": node.id, "away_s": round(back_s - began_s, 2), "in_sync_s": round(in_sync_s - began_s, 2)}
        )
        if not arguments.json:
            print(f"node {node.id}: all in sync {in_sync_s - began_s:.1f} s after the command began", flush=True)
    moved = 0 if arguments.no_elect else await elect_preferred(like, brokers)
    if arguments.json:
        print_json({"state": "done", "nodes": steps, "elected": moved})
    elif moved:
        print(f"preferred leaders elected: {moved}")
    return 0


async def restart(like: Client, arguments: argparse.Namespace, node: Node) -> None:
    """Runs the command; returns when the node that was there is gone and another serves. Raises RestartError."""
    deadline_s = time.monotonic() + arguments.timeout
    async with like.another(node.address, timeout_ms=ANSWER_TIMEOUT_MS) as client:
        before = await client.connection(None)
        process = await asyncio.create_subprocess_shell(command_for(arguments, node))
        code = await process.wait()
        if code != 0:
            raise RestartError(f"node {node.id}: the command ended with {code}; nothing else was restarted")
        while not before.closed:
            if time.monotonic() > deadline_s:
                raise RestartError(f"node {node.id} has not restarted, though the command ended well")
            await asyncio.sleep(LOOK_EVERY_S)
    while True:
        try:
            async with like.another(node.address, timeout_ms=ANSWER_TIMEOUT_MS):
                return
        except PenstockError:
            if time.monotonic() > deadline_s:
                raise RestartError(f"node {node.id} does not come back: nobody listens on {node.address}") from None
        await asyncio.sleep(LOOK_EVERY_S)


async def wait_in_sync(like: Client, addresses: Sequence[str], node: Node | None, timeout_s: int, when: str) -> None:
    """Waits until all is in sync, as one of the brokers at `addresses` tells. Raises RestartError with what is not."""
    from penstock.client.cluster import describe_quorum

    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            async with like.another(addresses, timeout_ms=ANSWER_TIMEOUT_MS) as client:
                lacking = what_lacks(await look(client), await describe_quorum(client), node)
        except PenstockError as error:
            lacking = str(error)
        if lacking is None:
            return
        if time.monotonic() > deadline_s:
            raise RestartError(f"stopped {when}: {lacking} (waited {timeout_s} s; --timeout)")
        await asyncio.sleep(LOOK_EVERY_S)


def what_lacks(view: View, quorum: QuorumState, node: Node | None) -> str | None:
    """A sentence that names what is not in sync; None when everything is."""
    fenced = [broker.id for broker in view.brokers if broker.fenced]
    if fenced:
        return f"brokers are fenced: {ids_text(fenced)}"
    if node is not None and node.is_broker and node.id not in view.live:
        return f"broker {node.id} is not registered"
    lagging = view.with_problem("under_replicated") or view.with_problem("offline")
    if lagging:
        return f"{len(lagging)} partitions are not in sync, {lagging[0]} for one"
    for voter in quorum.voters:
        behind_ms = lag_ms(quorum, voter)
        if behind_ms is None or behind_ms > VOTER_LAG_MAX_MS:
            return f"voter {voter.id} has not caught up"
    return None


async def elect_preferred(like: Client, addresses: Sequence[str]) -> int:
    """Elects the preferred leaders where others lead, and waits until they lead; returns how many were elected.

    The controller is asked for all partitions: it knows which need it, and brokers may not know of all yet.
    """
    from penstock.client.cluster import ElectionType, elect_leaders

    deadline_s = time.monotonic() + ELECTED_TIMEOUT_S
    done: set[tuple[str, int]] = set()
    while True:
        try:
            async with like.another(addresses, timeout_ms=ANSWER_TIMEOUT_MS) as client:
                outcome = await elect_leaders(client, ElectionType.PREFERRED)
                done.update(key for key, error in outcome.items() if error is None)
                if all(each.replicas[:1] == (each.leader,) for each in (await look(client)).partitions):
                    return len(done)
        except PenstockError as error:
            if time.monotonic() > deadline_s:
                raise RestartError(f"all nodes are restarted, but no leaders were elected: {error}") from None
        if time.monotonic() > deadline_s:
            return len(done)
        await asyncio.sleep(LOOK_EVERY_S)
