"""What the brokers have of a lake table's partitions, and which of its offsets are to be held against them.

The comparison itself, value by value, is in `load.values`: what a row must say depends on the load's format.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.client.client import EARLIEST, LATEST, READ_COMMITTED, Client
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.errors import RequestError
from penstock.spark.lake.ranges import Range, clip, union, without
from penstock.spark.lake.records import Progress, TopicPartition
from penstock.spark.limits import LAKE_SAMPLE_RANGES

CLIENT_ID = "penstock-verify"
TIMEOUT_MS = 30_000


@dataclass(slots=True)
class BrokerVerdict:
    """One partition of a table beside what the brokers have of it. Counts are of rows or records, lists the first."""

    log_start: int
    log_end: int
    """The last stable offset: what a load could have by now."""
    behind: int
    """How many offsets the brokers have beyond the table's end."""
    before: int
    """How many the brokers have before the table's start: they were never loaded."""
    lost: int
    """How many the table has beyond the brokers' end: the brokers lost them, and the table does not record it."""
    compacted: bool = False
    """Whether the brokers may drop records within the log: the topic's clean-up policy says so, or does not tell."""
    compared: int = 0
    """Rows that were held against their record."""
    changed_rows: int = 0
    changed_columns: dict[str, int] = field(default_factory=dict)
    """How many rows differ, by column; "value" where the record has no such row as the table's at all."""
    changed: list[tuple[int, str]] = field(default_factory=list)
    absent_rows: int = 0
    """Records within the table's ranges of which neither the table nor its quarantine has a row."""
    absent: list[int] = field(default_factory=list)
    gone_rows: int = 0
    """Rows of which the brokers have no record. Compaction takes them; else somebody added them to the table."""
    gone: list[int] = field(default_factory=list)
    aborted: int = 0
    """Rows of transactions that were aborted, as a load of uncommitted records has them."""
    elsewhere: int = 0
    """Records that are not in this table but in its other half: the quarantine, or the table beside a quarantine."""
    unreadable: int = 0
    """Rows whose record is broken at the brokers: nothing can be said of them."""

    @property
    def clean(self) -> bool:
        """Whether nothing speaks against the table, as far as it was compared."""
        added = self.gone_rows and not self.compacted
        return not (self.lost or self.absent_rows or self.changed_rows or added or self.unreadable)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"clean": self.clean}


async def against_broker(
    address: str, progress: Mapping[TopicPartition, Progress], security: ClientSecurity = UNSECURED
) -> dict[TopicPartition, BrokerVerdict]:
    """Compares a table's partitions with the brokers; leaves out topics that were deleted or recreated."""
    found: dict[TopicPartition, BrokerVerdict] = {}
    async with Client(address, client_id=CLIENT_ID, timeout_ms=TIMEOUT_MS, security=security) as client:
        topics = {topic.name: topic for topic in (await client.refresh(None)).topics}
        there = {}
        for partition in progress:
            topic = topics.get(partition.topic)
            if topic is not None and topic.topic_id == partition.topic_id:
                there[partition.topic, partition.partition] = partition
        if not there:
            return {}
        starts = await client.offsets(list(there), EARLIEST)
        ends = await client.offsets(list(there), LATEST, isolation=READ_COMMITTED)
        ends_written = await client.offsets(list(there), LATEST)
        compacted = {name: await _compacted(client, name) for name in {name for name, _ in there}}
    for key, partition in there.items():
        start, end, known = starts[key].offset, ends[key].offset, progress[partition]
        beyond = without([(ends_written[key].offset, max(known.end, ends_written[key].offset))], _diverged(known))
        found[partition] = BrokerVerdict(
            start,
            end,
            behind=max(0, end - max(known.end, start)),
            before=max(0, min(known.start, end) - start),
            lost=sum(stop - begin for begin, stop in beyond),
            compacted=compacted[partition.topic],
        )
    return found


async def _compacted(client: Client, topic: str) -> bool:
    from penstock.client.admin import Resource, ResourceType, describe_configs

    try:
        (policy,) = await describe_configs(client, Resource(ResourceType.TOPIC, topic), ["cleanup.policy"])
    except (RequestError, ValueError):  # who may read a topic need not be allowed to see its configs
        return True
    return "compact" in (policy.value or "")


def log_starts(
    address: str, partitions: Iterable[TopicPartition], security: ClientSecurity = UNSECURED
) -> dict[TopicPartition, int]:
    """Where the brokers' logs begin now: retention goes on while a table is compared."""

    async def ask() -> dict[TopicPartition, int]:
        async with Client(address, client_id=CLIENT_ID, timeout_ms=TIMEOUT_MS, security=security) as client:
            starts = await client.offsets([(p.topic, p.partition) for p in wanted], EARLIEST)
        return {p: starts[p.topic, p.partition].offset for p in wanted}

    wanted = list(partitions)
    return asyncio.run(ask())


def everything(
    progress: Mapping[TopicPartition, Progress], brokers: Mapping[TopicPartition, BrokerVerdict]
) -> dict[TopicPartition, list[Range]]:
    """All that both sides have of each partition."""
    found = {}
    for partition, broker in brokers.items():
        claimed = union((claim.start, claim.end) for claim in progress[partition].claims)
        found[partition] = without(clip(claimed, [(broker.log_start, broker.log_end)]), _diverged(progress[partition]))
    return {partition: ranges for partition, ranges in found.items() if ranges}


def choose(
    progress: Mapping[TopicPartition, Progress],
    brokers: Mapping[TopicPartition, BrokerVerdict],
    rows: int,
    seed: int | None = None,
) -> dict[TopicPartition, list[Range]]:
    """Ranges of about `rows` offsets in all of each partition, spread over what both sides have, at random places."""
    chance = random.Random(seed)
    chosen: dict[TopicPartition, list[Range]] = {}
    for partition, broker in brokers.items():
        known = progress[partition]
        low, high = max(known.start, broker.log_start), min(known.end, broker.log_end)
        if low >= high or rows <= 0:
            continue
        if high - low <= rows:
            chosen[partition] = [(low, high)]
            continue
        parts = min(LAKE_SAMPLE_RANGES, rows)
        size, part = rows // parts, (high - low) // parts
        starts = [low + part * at + chance.randrange(max(1, part - size)) for at in range(parts)]
        starts[-1] = high - size  # the newest are always among them
        chosen[partition] = [(start, start + size) for start in starts]
    alike = {partition: without(ranges, _diverged(progress[partition])) for partition, ranges in chosen.items()}
    return {partition: ranges for partition, ranges in alike.items() if ranges}


def _diverged(progress: Progress) -> list[Range]:
    """Where the table has what the brokers lost: nothing there can be alike."""
    return union((lost.start, lost.end) for lost in progress.diverged)
