"""`spark.readStream.format("penstock")`: each microbatch is planned as a batch read is, from where the last one ended.

Spark keeps one Python process on the driver for a query and calls the reader in it: `latestOffset` for each trigger,
then `partitions` if there is something new. The reader keeps its connections, and `partitions` uses what `latestOffset`
has just learnt. After a restart Spark may call `partitions` alone, to repeat a microbatch that was planned and not
committed: its offsets say all that is needed.

    outcome of                     failOnDataLoss = true      false
    retention overtook the query   DataLossError              goes on with what is left
    topic deleted                  DataLossError              waits for it to come back
    topic deleted, created anew    DataLossError              reads the new one from its start
    log cut (unclean election)     DataLossError              goes on at its end
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from penstock.client.client import Partition
from penstock.spark.read.brokers import Brokers
from penstock.spark.read.options import ReadOptions
from penstock.spark.read.plan import Losses, Position, Positions, Snapshot, goes_on_at, ranges_between
from penstock.spark.read.rows import Task, rows, tasks
from penstock.spark.read.stream_admission import MinOffsets, share_out
from penstock.spark.read.stream_offsets import from_json, to_json
from penstock.spark.read.values import ValuePlan


@dataclass(slots=True)
class _Planned:
    """The last microbatch that `latestOffset` gave, and what the brokers had then."""

    end: dict[str, Any]
    snapshot: Snapshot


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the module's head. Pickled into tasks, where only `read` is called."""

    def __init__(self, options: ReadOptions, names: Sequence[str], values: ValuePlan | None = None) -> None:
        self.options = options
        self.names = tuple(names)
        self.values = values
        self._begin()

    def __getstate__(self) -> tuple[ReadOptions, tuple[str, ...], ValuePlan | None]:
        return self.options, self.names, self.values

    def __setstate__(self, state: tuple[ReadOptions, tuple[str, ...], ValuePlan | None]) -> None:
        self.options, self.names, self.values = state
        self._begin()

    def _begin(self) -> None:
        options = self.options
        self._brokers: Brokers | None = None
        self._losses = Losses(options.fail_on_data_loss)
        self._trigger = MinOffsets(options.min_offsets, options.max_delay_ms) if options.min_offsets else None
        self._target: Snapshot | None = None
        self._planned: _Planned | None = None

    @property
    def brokers(self) -> Brokers:
        """The connections of the driver's side, made at first use."""
        if self._brokers is None:
            self._brokers = Brokers(self.options)
        return self._brokers

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the options begin. Every partition says so by itself: Spark does not log this."""
        snapshot = self.brokers.existing()
        starts = self.brokers.starting(snapshot)
        return to_json({p: replace(at, begin=at.offset) for p, at in starts.items()})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Tells Spark that there are limits; Spark has none of several kinds, so `latestOffset` knows them itself."""
        options = self.options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        return ReadAllAvailable() if options.min_offsets is None else ReadMinRows(options.min_offsets)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fixes what there is now as the end of the query."""
        self._target = self.brokers.snapshot()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the next microbatch ends; `start` itself when there is nothing new.

        Raises DataLossError when offsets after `start` are gone, and that is an error.
        """
        snapshot = self._within_target(self.brokers.snapshot())
        positions = self._still_chosen(from_json(start), snapshot)
        begins = self._begins(positions, snapshot)
        waiting = {p: (at, snapshot.bounds[p].latest) for p, at in begins.items() if at < snapshot.bounds[p].latest}
        ends = self._admitted(waiting, limit)
        end = {p: at if at.begin == at.offset else replace(at, begin=None) for p, at in positions.items()}
        for partition, begin in begins.items():
            end[partition] = self._position(partition, positions, begin, ends.get(partition, begin), snapshot)
        offsets = start if _same(from_json(start), end) else to_json(end)
        self._planned = _Planned(offsets, snapshot)
        return offsets

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """The brokers' latest offsets when the last microbatch was planned, for the query's progress."""
        if self._planned is None:
            return None
        bounds = self._planned.snapshot.bounds
        return to_json({p: Position(each.topic_id, each.latest) for p, each in bounds.items()})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of one microbatch. Raises DataLossError when something of it is gone, and that is an error."""
        if start == end:
            return []
        planned = self._planned
        snapshot = planned.snapshot if planned is not None and planned.end == end else self.brokers.snapshot()
        ranges = ranges_between(from_json(start), from_json(end), snapshot, self._losses)
        return tasks(self.options, ranges)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task, as Arrow batches."""
        assert isinstance(partition, Task)
        return rows(self.options, self.names, partition.ranges, self.values)

    def stop(self) -> None:
        """Closes the connections."""
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None

    def _within_target(self, snapshot: Snapshot) -> Snapshot:
        """Limits the snapshot to the target: under Trigger.AvailableNow, to what was there when the query began."""
        if self._target is None:
            return snapshot
        bounds = {}
        for partition, now in snapshot.bounds.items():
            then = self._target.bounds.get(partition)
            if then is not None and then.topic_id == now.topic_id:
                bounds[partition] = replace(now, latest=min(now.latest, then.latest))
            elif then is not None:
                bounds[partition] = replace(now, latest=now.earliest)
        return Snapshot(bounds, snapshot.missing)

    def _still_chosen(self, positions: Positions, snapshot: Snapshot) -> dict[Partition, Position]:
        """Positions without those of topics that the options no longer choose."""
        chosen = self.options.chooses
        return {p: at for p, at in positions.items() if p in snapshot.bounds or chosen(*p)}

    def _begins(self, positions: Positions, snapshot: Snapshot) -> dict[Partition, int]:
        """Where reading goes on in each partition that there is. Raises DataLossError, RequestError."""
        begins = {p: bounds.earliest for p, bounds in snapshot.bounds.items() if p not in positions}
        for partition, position in positions.items():
            bounds = snapshot.bounds.get(partition)
            at = goes_on_at(partition, position, bounds, self._losses)
            if bounds is not None:
                begins[partition] = at
        return begins

    def _admitted(self, waiting: dict[Partition, tuple[int, int]], limit: ReadLimit) -> dict[Partition, int]:
        """Where the microbatch ends in the partitions that it reads."""
        options = self.options
        if isinstance(limit, ReadAllAvailable):
            return {p: end for p, (_, end) in waiting.items()}
        held = self._trigger is not None and self._target is None
        if held and self._trigger is not None and self._trigger.holds_back(waiting, time.monotonic_ns() // 1_000_000):
            return {}
        sizes = self.brokers.bytes_an_offset(waiting) if options.max_bytes is not None and waiting else None
        return share_out(waiting, max_offsets=options.max_offsets, max_bytes=options.max_bytes, bytes_an_offset=sizes)

    def _position(
        self, partition: Partition, positions: Positions, begin: int, end: int, snapshot: Snapshot
    ) -> Position:
        """The position after a microbatch that reads [begin, end) of a partition."""
        topic_id = snapshot.bounds[partition].topic_id
        before = positions.get(partition)
        told = before is not None and before.topic_id in (None, topic_id) and before.begin != before.offset
        if told and before is not None and before.offset <= begin:
            return Position(topic_id, end)
        return Position(topic_id, end, begin)


def _same(start: Positions, end: Positions) -> bool:
    """Whether a microbatch from one to the other would read nothing and learn nothing."""
    return start.keys() == end.keys() and all(
        start[p].offset == at.offset and start[p].topic_id == at.topic_id for p, at in end.items()
    )
