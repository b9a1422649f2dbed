"""`penstock cluster quorum`: the nodes of the metadata log, and how far behind its leader each is."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from penstock.cli.common import with_client
from penstock.cli.output import BOLD, paint, print_json, print_table

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.cluster import QuorumReplica, QuorumState


def quorum_action(arguments: argparse.Namespace) -> int:
    async def job(client: Client) -> int:
        from penstock.client.cluster import describe_quorum

        quorum = await describe_quorum(client)
        if arguments.json:
            print_json(quorum_json(quorum))
        else:
            print_quorum(quorum)
        return 0

    return with_client(arguments, job)


def leader_of(quorum: QuorumState) -> QuorumReplica:
    """The leader's own progress."""
    return next(voter for voter in quorum.voters if voter.id == quorum.leader_id)


def lag_ms(quorum: QuorumState, replica: QuorumReplica) -> int | None:
    """How long ago a node had all that the leader had; None when it never had since this leader leads."""
    if replica.id == quorum.leader_id:
        return 0
    if replica.last_caught_up_ms < 0:
        return None
    return max(0, leader_of(quorum).last_caught_up_ms - replica.last_caught_up_ms)


def quorum_json(quorum: QuorumState) -> dict[str, Any]:
    def node(replica: QuorumReplica) -> dict[str, Any]:
        return {
            "id": replica.id,
            "address": quorum.endpoints.get(replica.id),
            "log_end_offset": replica.log_end_offset,
            "lag": leader_of(quorum).log_end_offset - replica.log_end_offset,
            "lag_ms": lag_ms(quorum, replica),
        }

    return {
        "leader": quorum.leader_id,
        "epoch": quorum.epoch,
        "high_watermark": quorum.high_watermark,
        "voters": [node(replica) for replica in quorum.voters],
        "observers": [node(replica) for replica in quorum.observers],
    }


def print_quorum(quorum: QuorumState) -> None:
    print(f"{paint('leader', BOLD)} {quorum.leader_id}, epoch {quorum.epoch}, high watermark {quorum.high_watermark}")
    rows = [row(quorum, voter, "voter") for voter in quorum.voters]
    rows += [row(quorum, observer, "observer") for observer in quorum.observers]
    print_table(
        ("node", "role", "address", "log end", "lag", "behind"), rows, right=("node", "log end", "lag", "behind")
    )


def row(quorum: QuorumState, replica: QuorumReplica, role: str) -> tuple[object, ...]:
    behind_ms = lag_ms(quorum, replica)
    return (
        replica.id,
        "leader" if replica.id == quorum.leader_id else role,
        quorum.endpoints.get(replica.id, "-"),
        replica.log_end_offset,
        leader_of(quorum).log_end_offset - replica.log_end_offset,
        "unknown" if behind_ms is None else f"{behind_ms} ms",
    )
