"""Here loads and streams commit their offsets, as a consumer group: for people and tools, which read its lag.

A pipeline never continues from these offsets: its table or Spark's checkpoint has its own. So they are committed
afterwards, and a failed commit is only a warning, which the next commit makes up for.

The group has no members: it is committed to as Kafka's tools do when they reset one (no member id, generation -1).
`__consumer_offsets` keeps every commit for a while, so there is one at most every GROUP_COMMIT_INTERVAL_MS, as often as
Kafka's consumers commit by themselves, with only the offsets that moved. Brokers delete the offsets of a group without
members after `offsets.retention.minutes`, so now and then all are committed again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.client.client import Client, Partition
from penstock.client.groups import alter_offsets
from penstock.errors import ErrorCode, PenstockError, UnsupportedVersionError
from penstock.metadata.names import is_internal
from penstock.spark.limits import (
    GROUP_COMMIT_INTERVAL_MS,
    GROUP_COMMIT_PARTITIONS,
    GROUP_COMMIT_REPEAT_MS,
    GROUP_COMMIT_RETRY_MAX_MS,
    GROUP_COMMIT_RETRY_MS,
    GROUP_COMMIT_TIMEOUT_MS,
)

logger = logging.getLogger(__name__)
Send = Callable[[Mapping[Partition, int]], Mapping[Partition, ErrorCode]]


def now_ms() -> int:
    """The monotonic clock."""
    return time.monotonic_ns() // 1_000_000


@dataclass(slots=True)
class GroupOffsets:
    """The offsets that a group has committed, and those that it should have.

    Args:
        group_id: the group; nothing else commits to it.
        send: commits offsets, and returns the result for each partition; raises PenstockError or TimeoutError.
        clock: a clock in milliseconds that never goes back.
    """

    group_id: str
    send: Send
    clock: Callable[[], int] = now_ms
    _reached: dict[Partition, int] = field(default_factory=dict, init=False)
    _committed: dict[Partition, int] = field(default_factory=dict, init=False)
    _next_ms: float = field(default=-float("inf"), init=False)
    _repeat_ms: float = field(default=float("inf"), init=False)
    _trouble: str = field(default="", init=False)
    _failures: int = field(default=0, init=False)

    def reached(self, ends: Mapping[Partition, int]) -> None:
        """Sets the next offset of every partition that the pipeline reads.

        Kafka's own topics are left out: a pipeline that reads `__consumer_offsets` would write to its own input.
        """
        self._reached = {partition: end for partition, end in ends.items() if not is_internal(partition[0])}

    def commit(self, *, last: bool = False) -> None:
        """Commits the offsets that have moved, if it is time or this is the `last` call. Never raises; failures are
        warnings.

        After a recent failure the `last` call does nothing: the next start commits.
        """
        now = self.clock()
        if now < self._next_ms and (self._failures or not last):
            return
        repeat = now >= self._repeat_ms
        moved = {p: end for p, end in self._reached.items() if repeat or self._committed.get(p) != end}
        if not moved:
            return
        try:
            codes = self.send(moved)
        except UnsupportedVersionError as error:
            self._failures, self._next_ms = 1, float("inf")
            self._warn(f"the brokers serve no groups ({error})")
            return
        except (PenstockError, TimeoutError, OSError) as error:
            self._next_ms = now + self._patience_ms()
            self._warn(why(error))
            return
        self._took(moved, codes, now)

    def _took(self, moved: Mapping[Partition, int], codes: Mapping[Partition, ErrorCode], now: int) -> None:
        """Records the coordinator's result for each partition."""
        wrong = {partition: code for partition, code in sorted(codes.items()) if code is not ErrorCode.NONE}
        kept = {p: end for p, end in self._committed.items() if p in self._reached}
        self._committed = kept | {p: end for p, end in moved.items() if p not in wrong}
        if moved.keys() == self._reached.keys():
            self._repeat_ms = now + GROUP_COMMIT_REPEAT_MS
        if wrong:
            (topic, index), code = next(iter(wrong.items()))
            self._next_ms = now + self._patience_ms()
            self._warn(f"{topic}-{index}: {code.name}")
        else:
            self._next_ms = now + GROUP_COMMIT_INTERVAL_MS
            self._trouble, self._failures = "", 0

    def _patience_ms(self) -> int:
        """How long to wait after failures, each of which may have delayed the pipeline."""
        self._failures += 1
        return min(GROUP_COMMIT_RETRY_MAX_MS, GROUP_COMMIT_RETRY_MS << min(self._failures - 1, 10))

    def _warn(self, text: str) -> None:
        """Warns once while the reason stays the same."""
        if text != self._trouble:
            logger.warning("group %s: offsets are not committed, so its lag is not right: %s", self.group_id, text)
        self._trouble = text


def why(error: Exception) -> str:
    """The reason of a failed commit."""
    if isinstance(error, TimeoutError):
        wait_s = GROUP_COMMIT_TIMEOUT_MS / 1000
        return f"no coordinator took them in {wait_s:g} s; are there offsets.topic.replication.factor brokers?"
    if getattr(error, "code", None) is ErrorCode.UNKNOWN_MEMBER_ID:
        return "consumers are members of it; a pipeline needs a group of its own"
    return str(error)


async def commit_as_nobody(client: Client, group_id: str, ends: Mapping[Partition, int]) -> dict[Partition, ErrorCode]:
    """Commits offsets for a group without members, in requests of a bounded size; returns the result of each partition.

    Raises RequestError for the group as a whole, UnreachableError, UnsupportedVersionError, TimeoutError.
    """
    codes: dict[Partition, ErrorCode] = {}
    places = sorted(ends)
    async with asyncio.timeout(GROUP_COMMIT_TIMEOUT_MS / 1000):
        for first in range(0, len(places), GROUP_COMMIT_PARTITIONS):
            some = {place: ends[place] for place in places[first : first + GROUP_COMMIT_PARTITIONS]}
            codes |= await alter_offsets(client, group_id, some)
    return codes
