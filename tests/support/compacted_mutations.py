"""Faults to plant into the life of a log: the cleaner, its swap, moves of whole segments, the reserve of a disk."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.topic import TopicConfig
from penstock.log import space
from penstock.log.compaction import log_cleaner
from penstock.log.compaction.filtering import BatchFilter
from penstock.log.compaction.offset_map import OffsetMap
from penstock.log.compaction.passes import LogState, Pass, plan_pass
from penstock.log.compaction.records import Selection
from penstock.log.disk import Disk, FileSlice
from penstock.log.name_history import NameHistory
from penstock.log.names import CLEANED, LOG
from penstock.log.segment_copies import COPY
from penstock.records.batch import BatchHeader, Buffer
from simulator.cluster.faults import RESERVED
from simulator.cluster.history import ONCE, SURVIVES, WRITTEN
from simulator.cluster.replica_rules import EQUAL
from simulator.compacted.history import DELETED, LAST, MARKERS, YOUNG
from simulator.compacted.rules import REMEMBERED
from simulator.world.disk import SimulatedDisk
from support.cluster_mutations import Mutation
from support.group_mutations import map_is_off_by_one


def horizon_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """Delete markers go in the first pass that meets them."""
    select = OffsetMap.select

    def without_markers(
        offsets: OffsetMap, data: Buffer, header: BatchHeader, latest_offset: int, *, drop_tombstones: bool
    ) -> Selection:
        return select(offsets, data, header, latest_offset, drop_tombstones=True)

    patch.setattr(OffsetMap, "select", without_markers)


def last_batch_is_dropped(patch: pytest.MonkeyPatch) -> None:
    """The last batch of a producer goes like any other, when all of its records do."""

    def must_stay(batches: BatchFilter, header: BatchHeader) -> bool:
        return header.next_offset == batches.work.first_uncleanable_offset

    patch.setattr(BatchFilter, "_must_stay", must_stay)


def is_not_fsynced(patch: pytest.MonkeyPatch, suffix: str) -> None:
    """Files whose names end so are not made durable."""
    fsync = SimulatedDisk.fsync

    def forgetful(disk: SimulatedDisk, path: str) -> None:
        if not path.endswith(suffix):
            fsync(disk, path)

    patch.setattr(SimulatedDisk, "fsync", forgetful)


def cleaned_segments_are_not_fsynced(patch: pytest.MonkeyPatch) -> None:
    """The new segments of a pass take the place of the old ones before they are on disk."""
    is_not_fsynced(patch, LOG + CLEANED)


def copied_segments_are_not_fsynced(patch: pytest.MonkeyPatch) -> None:
    """A segment that was copied into another directory gets its name before it is on disk."""
    is_not_fsynced(patch, LOG + COPY)


def slices_are_paths(patch: pytest.MonkeyPatch) -> None:
    """A slice means whatever file has its path when it is read."""

    def find(names: NameHistory, piece: FileSlice) -> str:
        return piece.path

    patch.setattr(NameHistory, "find", find)


def lag_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """A pass takes whatever is closed, also what is younger than `min.compaction.lag.ms`."""

    def plan(disk: Disk, name: str, loaded: LogState, config: TopicConfig, **named: Any) -> Pass:
        return plan_pass(disk, name, loaded, TopicConfig({**vars(config), "min_compaction_lag_ms": 0}), **named)

    patch.setattr(log_cleaner, "plan_pass", plan)


def reserve_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    """Clients may fill a log directory to the last byte."""
    patch.setattr(space, "reserve_of", lambda wanted_bytes, total_bytes: 0)


GONE = (LAST, MARKERS, SURVIVES, WRITTEN, EQUAL)

MUTATIONS = {
    "the horizon of delete markers is ignored": Mutation(horizon_is_ignored, "compacted", 1, (MARKERS, DELETED)),
    "the map is off by one": Mutation(map_is_off_by_one, "compacted", 1, (*GONE, YOUNG)),
    "min.compaction.lag.ms is ignored": Mutation(lag_is_ignored, "compacted", 1, (YOUNG,)),
    "the last batch of a producer is dropped": Mutation(last_batch_is_dropped, "compacted", 17, (ONCE, REMEMBERED)),
    "cleaned segments are not fsynced": Mutation(cleaned_segments_are_not_fsynced, "compacted", 1, GONE),
    "copied segments are not fsynced": Mutation(copied_segments_are_not_fsynced, "compacted-moves", 4, GONE),
    "the reserve is not kept": Mutation(reserve_is_not_kept, "disks", 9, (RESERVED,)),
}
