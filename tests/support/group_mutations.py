"""Faults to plant into the coordinator of groups, one for each promise, with the scenario that is to find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.consumer.current import Reconciliation
from penstock.coordinator.group.consumer.state import ConsumerGroupState
from penstock.coordinator.group.context import Context
from penstock.coordinator.group.machine import GroupMachine
from penstock.coordinator.group.offsets import commit
from penstock.coordinator.runtime.loading import Loader
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.runtime.shard import Batch, Operation, Shard
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.offset_commit_request import OffsetCommitRequest
from penstock.records.batch import BatchHeader
from penstock.testing.simulator.groups.history import EPOCHS, FENCED, ONE_OWNER, STALE, SURVIVES
from penstock.testing.simulator.groups.offsets_log import TWO_OWNERS
from penstock.testing.simulator.groups.world import KNOWS, SETTLES


def stale_generation_accepted(patch: pytest.MonkeyPatch) -> None:
    """A classic group takes commits from anybody, of any generation."""
    real = commit.group_of

    def group_of(machine: GroupMachine, context: Context, request: OffsetCommitRequest) -> Any:
        if isinstance(machine.groups.find(request.group_id), ClassicGroup):
            return None, None
        return real(machine, context, request)

    patch.setattr(commit, "group_of", group_of)


def stale_epoch_accepted(patch: pytest.MonkeyPatch) -> None:
    """A consumer group takes commits from anybody, of any epoch."""
    patch.setattr(ConsumerGroupState, "check_commit", lambda group, *_, **__: None)


def answered_before_replicated(patch: pytest.MonkeyPatch) -> None:
    """An operation is answered when its records are written, not when they are committed."""
    real: Any = Shard.write

    def write(shard: Shard[Any], result: Any, done: Any, now_ms: int) -> Operation:
        operation: Operation = real(shard, result, done, now_ms)
        operation.complete(ErrorCode.NONE, "", now_ms)
        return operation

    patch.setattr(Shard, "write", write)


def loaded_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator passes over the records above its high watermark, though they will be committed."""
    real = Loader._replay_batch

    def replay(loader: Loader, data: bytes, position: int, header: BatchHeader) -> Iterator[None]:
        if header.base_offset < loader.shard.log.high_watermark:
            yield from real(loader, data, position, header)

    patch.setattr(Loader, "_replay_batch", replay)


def revocation_not_awaited(patch: pytest.MonkeyPatch) -> None:
    """A partition is given to the next member before the one that has it has given it up."""
    patch.setattr(Reconciliation, "still_has", lambda step, partitions: False)


def revert_forgotten(patch: pytest.MonkeyPatch) -> None:
    """What could not be appended stays in the state."""

    def refused(shard: Shard[Any], batch: Batch, error: RequestError, now_ms: int) -> None:
        shard.written_offset = batch.base_offset
        for operation in batch.operations:
            operation.complete(error.code, error.message, now_ms)

    patch.setattr(Shard, "_refused", refused)


def nobody_expires(patch: pytest.MonkeyPatch) -> None:
    """Nothing happens when a timer comes: no session ends, no rebalance waits in vain."""
    patch.setattr(GroupMachine, "expired", lambda machine, key, now_ms: Result())


@dataclass(frozen=True)
class Mutation:
    """A fault to plant, the scenario that finds it, a seed of that which does, and the rules one of which it breaks."""

    plant: Callable[[pytest.MonkeyPatch], None]
    scenario: str
    found_by: int
    rules: tuple[str, ...]

    def breaks(self, violation: BaseException) -> bool:
        """Whether a seed failed by a rule that names this fault, and not by something that came of it later."""
        return str(violation).startswith(self.rules)


LOST = (SURVIVES, KNOWS)

MUTATIONS = {
    "stale generation accepted": Mutation(stale_generation_accepted, "groups-calm", 2, (STALE,)),
    "stale epoch accepted": Mutation(stale_epoch_accepted, "groups-calm", 9, (STALE,)),
    "answered before replicated": Mutation(
        answered_before_replicated, "groups-storm", 1, (*LOST, ONE_OWNER, TWO_OWNERS, FENCED)
    ),
    "records above the high watermark not loaded": Mutation(loaded_to_the_high_watermark, "groups-storm", 5, LOST),
    "revocation not awaited": Mutation(revocation_not_awaited, "groups-zombies", 14, (FENCED, ONE_OWNER, TWO_OWNERS)),
    "revert forgotten": Mutation(revert_forgotten, "groups-storm", 1, (*LOST, EPOCHS, SETTLES, TWO_OWNERS)),
    "nobody expires": Mutation(nobody_expires, "groups-calm", 1, (SETTLES,)),
}
