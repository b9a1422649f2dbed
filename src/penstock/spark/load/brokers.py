"""What a load asks the brokers: which partitions there are, what they have, and to be told when there is more."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence

from penstock.client.client import EARLIEST, LATEST, READ_COMMITTED, Client, Partition
from penstock.client.epochs import cut_at
from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.records.run import SeenEpoch
from penstock.spark.lake.records import TopicPartition
from penstock.spark.limits import LOAD_METADATA_AGE_MS, LOAD_POLL_MS
from penstock.spark.load.options import LoadOptions
from penstock.spark.load.plan import Extent

POLL_PARTITION_BYTES = 1
"""A poll wants to know that there is something, not what."""


class Brokers:
    """The load's side of a client. A reader of metadata that is at most LOAD_METADATA_AGE_MS old."""

    def __init__(self, client: Client, options: LoadOptions) -> None:
        self._client = client
        self._options = options
        self._partitions: list[TopicPartition] = []
        self._asked = -float("inf")

    async def partitions(self, *, fresh: bool = False) -> list[TopicPartition]:
        """The partitions to load, sorted. Raises RequestError for a topic that does not exist."""
        if fresh or (time.monotonic() - self._asked) * 1000 > LOAD_METADATA_AGE_MS:
            self._partitions = await self._ask()
            self._asked = time.monotonic()
        return self._partitions

    async def _ask(self) -> list[TopicPartition]:
        pattern = self._options.topic_pattern
        answer = await self._client.refresh(None if pattern is not None else self._options.topics)
        found = []
        for topic in answer.topics:
            if topic.name is None:
                continue
            if pattern is not None and (topic.is_internal or not re.fullmatch(pattern, topic.name)):
                continue
            if topic.error_code != ErrorCode.NONE:
                error = ErrorCode(topic.error_code)
                raise RequestError(error, f"topic {topic.name}: {error.name}")
            found += [TopicPartition(topic.name, topic.topic_id, p.partition_index) for p in topic.partitions]
        return sorted(found)

    async def offsets(self, partitions: Sequence[TopicPartition], at: int) -> dict[TopicPartition, int]:
        """Where partitions begin (EARLIEST), end (LATEST) or first reach a time; -1 where no record is as late."""
        names: list[Partition] = [(p.topic, p.partition) for p in partitions]
        if not names:
            return {}
        found = await self._client.offsets(names, at, isolation=self._options.isolation)
        return {p: found[name].offset for p, name in zip(partitions, names, strict=True)}

    async def extents(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Extent]:
        """The offsets that the brokers have of each partition."""
        first, last = await asyncio.gather(self.offsets(partitions, EARLIEST), self.offsets(partitions, LATEST))
        return {p: Extent(min(first[p], last[p]), last[p]) for p in partitions}

    async def cuts(
        self, seen: Mapping[TopicPartition, Sequence[SeenEpoch]], firsts: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """From which offset on the brokers' log is another one than that of which batches were seen; see `cut_at`.

        Partitions that are as they were are left out. `firsts` is where the brokers' logs begin.
        """
        found: dict[TopicPartition, int] = {}
        for each in range(max(map(len, seen.values()), default=0)):
            asked = {p: some[each] for p, some in seen.items() if each < len(some)}
            ends = await self._client.epoch_ends({(p.topic, p.partition): v.leader_epoch for p, v in asked.items()})
            for partition, one in asked.items():
                at = cut_at(one, ends[partition.topic, partition.partition], firsts[partition])
                if at is not None:
                    found[partition] = min(at, found.get(partition, at))
        return found

    async def wait_for_more(self, ends: Mapping[TopicPartition, int], timeout_ms: int = LOAD_POLL_MS) -> bool:
        """Returns when a partition has something at or beyond its end, or after the time; whether it has.

        One long poll, a fetch of a byte, at every leader. Trouble is left to the next job, which says what it is.
        """
        if not ends:
            await asyncio.sleep(timeout_ms / 1000)
            return False
        positions: dict[Partition, int] = {(p.topic, p.partition): end for p, end in ends.items()}
        by_leader: dict[int, dict[Partition, int]] = {}
        try:
            for (topic, index), end in positions.items():
                leader = (await self._client.topic(topic)).leaders[index]
                by_leader.setdefault(leader, {})[topic, index] = end
            polls = [asyncio.ensure_future(self._poll(some, timeout_ms)) for some in by_leader.values()]
            try:
                for poll in asyncio.as_completed(polls):
                    if await poll:
                        return True
            finally:
                for each in polls:
                    each.cancel()
                await asyncio.gather(*polls, return_exceptions=True)
        except (PenstockError, IndexError):
            await asyncio.sleep(timeout_ms / 1000)
            self._asked = -float("inf")
        return False

    async def _poll(self, positions: Mapping[Partition, int], timeout_ms: int) -> bool:
        found = await self._client.fetch(
            positions,
            max_wait_ms=timeout_ms,
            partition_max_bytes=POLL_PARTITION_BYTES,
            isolation=self._options.isolation,
        )
        committed = self._options.isolation == READ_COMMITTED
        return any(
            (got.last_stable_offset if committed and got.last_stable_offset >= 0 else got.high_watermark)
            > positions[partition]
            for partition, got in found.items()
        )
