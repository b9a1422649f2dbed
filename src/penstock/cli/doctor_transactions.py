"""`penstock doctor --bootstrap`: what holds back the last stable offsets of a cluster's partitions.

Each transaction does, from its first record in a partition to its marker there. It is worth a look when that takes
longer than a minute, and to be ended when no coordinator will do it.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from penstock.cli.common import with_client
from penstock.cli.finding import Finding, State
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.transactions import OwnedTransaction

SUBJECT = "transactions"
USUAL_MS = 60_000
"""How long a transaction may take before it is named: the timeout that Kafka's producers give it."""


def check_transactions(arguments: argparse.Namespace) -> list[Finding]:
    """A finding for each partition whose last stable offset has been held back for long, or one that none is."""
    findings: list[Finding] = []

    async def job(client: Client) -> int:
        from penstock.client.admin import describe_topics
        from penstock.client.transactions import holding_back

        partitions = [
            (topic.name or "", each.partition_index)
            for topic in await describe_topics(client)
            for each in topic.partitions
            if each.leader_id >= 0
        ]
        findings.extend(findings_of(await holding_back(client, partitions), time.time_ns() // 1_000_000))
        return 0

    try:
        with_client(arguments, job)
    except PenstockError as error:
        findings.append(Finding(State.WRONG, SUBJECT, str(error).replace("\n", " "), "--bootstrap says where to look"))
    return findings


def findings_of(holding: list[OwnedTransaction], now_ms: int) -> list[Finding]:
    """What to say of transactions, one a partition, that hold back last stable offsets."""
    from penstock.cli.output import counted

    found = [finding(each, now_ms) for each in holding if now_ms - since_ms(each) > USUAL_MS]
    if found:
        return found
    if holding:
        return [Finding(State.FINE, SUBJECT, f"under way in {counted(len(holding), 'partition')}, none for long")]
    return [Finding(State.FINE, SUBJECT, "none holds back a last stable offset")]


def since_ms(holding: OwnedTransaction) -> int:
    """When the transaction began; of a hanging one, only its producer's last record is known."""
    if holding.owner is None or holding.hanging:
        return holding.open.last_timestamp_ms
    return holding.owner.started_ms


def finding(holding: OwnedTransaction, now_ms: int) -> Finding:
    """One transaction that has held back a last stable offset for long."""
    from penstock.cli.times import duration_text, timestamp_text
    from penstock.cli.transactions import abort_command, partition_name

    place, since = partition_name(holding.open.partition), since_ms(holding)
    whose = f"producer {holding.open.producer_id}"
    if holding.owner is not None:
        whose = f"transactional id {holding.owner.transactional_id} ({whose})"
    took = f"for {duration_text(now_ms - since)}, since {timestamp_text(since)}"
    at = f"{place} is held back at {holding.open.start_offset} by {whose}"
    if holding.hanging:
        return Finding(State.WRONG, SUBJECT, f"{at}, hanging: silent {took}", abort_command(holding))
    assert holding.owner is not None
    remedy = (
        f"its coordinator aborts it after {duration_text(holding.owner.timeout_ms)}; at once: penstock transactions "
        f"abort --transactional-id {holding.owner.transactional_id}"
    )
    return Finding(State.ODD, SUBJECT, f"{at}, {holding.owner.state} {took}", remedy)
