"""Which log directory a new replica goes to.

By default the one with the most free bytes after what is promised to replicas that are being filled there; of equal
ones the least written to, then the one with the fewest replicas. A full one is taken only if all are. With
`penstock.log.dir.placement=count` it is the one with the fewest replicas, as in Apache Kafka.

A new replica is promised what others of its topic take here on average; of a topic without any, one segment. The
promise holds until the replica is that large, but not longer than `PROMISED_MS`: many topics are never used. A replica
that moves here from another directory is promised what it takes there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.log.directory import LogDirectory
from penstock.log.limits import PROMISED_MS, PROMISED_REPLICAS_MAX
from penstock.log.replica import Replica, State
from penstock.log.table import ReplicaTable


class Promise(NamedTuple):
    """What a new replica is expected to take, and until when that counts."""

    size_bytes: int
    until_ms: int


class Placement:
    """Chooses directories, and remembers what is promised."""

    def __init__(self, table: ReplicaTable) -> None:
        self._table = table
        self._promises: dict[Replica, Promise] = {}

    def begin(self, now_ms: int) -> PlacementRound:
        """Before the directories of several new replicas are chosen."""
        promised = dict.fromkeys(self._table.directories, 0)
        for replica, promise in list(self._promises.items()):
            left_bytes = promise.size_bytes - replica.known_bytes
            if left_bytes <= 0 or promise.until_ms <= now_ms or replica.state is State.GONE:
                del self._promises[replica]
            else:
                promised[replica.directory] += left_bytes
        for key, future in self._table.futures.items():
            main = self._table.find(*key)
            if main is not None:
                promised[future.directory] += max(0, main.known_bytes - future.known_bytes)
        return PlacementRound(self, self._table, promised, now_ms)

    def promise(self, replica: Replica, promise: Promise) -> None:
        """Counts a replica that was created; the oldest one is forgotten if there are too many."""
        self._promises[replica] = promise
        if len(self._promises) > PROMISED_REPLICAS_MAX:
            del self._promises[next(iter(self._promises))]


class PlacementRound:
    """The choice for several new replicas, each of which counts for those after it."""

    def __init__(
        self, placement: Placement, table: ReplicaTable, promised: Mapping[LogDirectory, int], now_ms: int
    ) -> None:
        self._placement = placement
        self._table = table
        self._promised = dict(promised)
        self._now_ms = now_ms
        self._expected: dict[str, int] = {}

    def best(self, candidates: Sequence[LogDirectory]) -> LogDirectory | None:
        """The directory for one more replica; None if there is no candidate."""
        if self._table.settings.penstock_log_dir_placement == "count":
            return min(candidates, key=lambda directory: directory.replicas, default=None)

        def rank(directory: LogDirectory) -> tuple[bool, int, float, int]:
            space = directory.space
            left_bytes = space.free_bytes - self._promised[directory]
            return space.full, -left_bytes, space.write_rate, directory.replicas

        return min(candidates, key=rank, default=None)

    def took(self, replica: Replica) -> None:
        """A new replica is in its directory."""
        expected_bytes = self._expected.get(replica.topic)
        if expected_bytes is None:
            expected_bytes = self._expected[replica.topic] = self._expect(replica.topic)
        self._promised[replica.directory] += expected_bytes
        self._placement.promise(replica, Promise(expected_bytes, self._now_ms + PROMISED_MS))

    def _expect(self, topic: str) -> int:
        sizes = [size_bytes for each in self._table.of_topic(topic) if (size_bytes := each.known_bytes)]
        return round(sum(sizes) / len(sizes)) if sizes else self._table.topic_config(topic).max_segment_bytes
