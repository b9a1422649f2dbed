"""What topics hold: their records by bucket, each counted once, from where the counts' table says that it is.

Records are decoded by the kernels, and only what `read_committed` gives counts: neither markers nor what was aborted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from penstock.client.admin import Resource, ResourceType, describe_configs
from penstock.client.client import EARLIEST, LATEST, READ_COMMITTED, Client, Partition
from penstock.client.security import UNSECURED
from penstock.errors import ConfigError, ErrorCode, RequestError
from penstock.pipelines.audit.tally import Tally, add_times
from penstock.spark.read.fetching import Connect, decoded
from penstock.spark.read.plan import OffsetRange

Take = Callable[[OffsetRange, Any], None]
"""Takes the decoded records of a range."""


class Place(NamedTuple):
    """A partition of the topic with this id."""

    topic_id: UUID
    partition: int


@dataclass(slots=True)
class Counted:
    """What a look at a cluster gave.

    Attributes:
        tally: records that are new, by topic id; topics by the names that they are audited under.
        ends: up to where partitions are counted now.
        ids: the topics that there are.
        lag: offsets that wait for the next look.
        records: in the tally, or before it begins.
        lost: sentences about offsets that are gone, or broken, and were not counted.
    """

    tally: dict[UUID, Tally] = field(default_factory=dict)
    ends: dict[Place, int] = field(default_factory=dict)
    ids: set[UUID] = field(default_factory=set)
    lag: int = 0
    records: int = 0
    lost: list[str] = field(default_factory=list)


class Logs:
    """The topics of one cluster.

    Args:
        bootstrap: its brokers.
        topics: names there, each with the name that it is audited under.
        may_be_compacted: whether what they hold does not depend on when it is read.
        more: client id, timeout and security.
    """

    def __init__(
        self, bootstrap: str, topics: Mapping[str, str], *, may_be_compacted: bool = False, **more: Any
    ) -> None:
        self._connect = Connect(
            bootstrap=bootstrap,
            client_id=more.get("client_id", "penstock-audit"),
            timeout_ms=more.get("timeout_ms", 30_000),
            isolation=READ_COMMITTED,
            security=more.get("security", UNSECURED),
        )
        self._topics = topics
        self._checked = may_be_compacted

    def count(self, position: Callable[[Place], int | None], since_ms: int, limit: int) -> Counted:
        """Counts what is new.

        Args:
            position: up to where a partition is counted; None: it begins where the first record of `since_ms` is.
            since_ms: records of before are not counted.
            limit: offsets at most.

        Raises ConfigError for a compacted topic, RequestError, UnreachableError.
        """
        counted = Counted()

        def take(wanted: OffsetRange, rows: Any) -> None:
            counted.records += rows.num_rows
            tally = counted.tally.setdefault(wanted.topic_id, Tally())
            times_ms = rows.column("timestamp").to_numpy(zero_copy_only=False)
            add_times(tally, self._topics[wanted.topic], times_ms, since_ms)

        self.read(counted, position, since_ms, limit, take)
        return counted

    def read(
        self, counted: Counted, position: Callable[[Place], int | None], since_ms: int, limit: int, take: Take
    ) -> None:
        """Gives the decoded records of what is new, and notes how far that is; see `count`."""
        from penstock.spark.read.decoding import Corrupt

        ranges = asyncio.run(self._plan(counted, position, since_ms, limit))
        for wanted, got in decoded(self._connect, ranges, skip_corrupt=True, include_headers=False):
            if isinstance(got, Corrupt):
                counted.lost.append(f"{wanted.topic}-{wanted.partition}: {got.start} to {got.end} are broken")
            elif got.batch.num_rows:
                take(wanted, got.batch)

    async def _plan(
        self, counted: Counted, position: Callable[[Place], int | None], since_ms: int, limit: int
    ) -> Sequence[OffsetRange]:
        async with self._connect.client() as client:
            places = await self._places(client)
            if not self._checked:
                for name in self._topics:
                    await _check_policy(client, name)
                self._checked = True
            partitions = list(places)
            lasts = await client.offsets(partitions, LATEST, isolation=READ_COMMITTED)
            new = [key for key in partitions if position(places[key]) is None]
            begins = await client.offsets(new, since_ms, isolation=READ_COMMITTED) if new else {}
            firsts = await client.offsets(partitions, EARLIEST)
        counted.ids = {place.topic_id for place in places.values()}
        ranges = []
        for key, place in places.items():
            first, last = firsts[key].offset, lasts[key].offset
            start = position(place)
            if start is None:
                start = last if begins[key].offset < 0 else min(begins[key].offset, last)
            elif start < first:
                counted.lost.append(f"{key[0]}-{key[1]}: {start} to {first} were deleted before they were counted")
            elif start > last:
                counted.lost.append(f"{key[0]}-{key[1]}: it ends at {last}, and was counted up to {start}")
            start = max(start, first)
            end = max(start, min(last, start + max(0, limit)))
            limit -= end - start
            counted.lag += max(0, last - end)
            counted.ends[place] = end
            if start < end:
                ranges.append(OffsetRange(key[0], place.topic_id, key[1], start, end))
        return ranges

    async def _places(self, client: Client) -> dict[Partition, Place]:
        found: dict[Partition, Place] = {}
        for topic in (await client.refresh(list(self._topics))).topics:
            code = ErrorCode(topic.error_code)
            if code is not ErrorCode.NONE:
                raise RequestError(code, f"topic {topic.name}: {code.name}")
            found |= {(topic.name or "", n): Place(topic.topic_id, n) for n in range(len(topic.partitions))}
        return dict(sorted(found.items()))


async def _check_policy(client: Client, name: str) -> None:
    (policy,) = await describe_configs(client, Resource(ResourceType.TOPIC, name), ["cleanup.policy"])
    if "compact" in (policy.value or ""):
        raise ConfigError(
            f"topic {name} cannot be audited: its cleanup.policy is {policy.value}, so what it holds depends on when it"
            " is read"
        )
