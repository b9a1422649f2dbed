"""Faults to plant into the coordinator of groups, one for each promise, with the scenario that is to find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.coordinator.group.classic import rebalance, replay, sync
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.consumer import members, target_run, timers
from penstock.coordinator.group.consumer.current import Reconciliation
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.run import Part
from penstock.coordinator.group.context import Context
from penstock.coordinator.group.machine import GroupMachine
from penstock.coordinator.group.offsets import commit
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime import loading
from penstock.coordinator.runtime.loading import Loader
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.runtime.runtime import Runtime
from penstock.coordinator.runtime.shard import Batch, PendingWrite, Shard
from penstock.errors import ErrorCode, RequestError, raise_it
from penstock.log.compaction.offset_map import OffsetMap
from penstock.node.handlers import heartbeat as handler
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse
from penstock.protocol.messages.offset_commit_request import OffsetCommitRequest
from penstock.records.batch import BatchHeader
from simulator.groups.coordinators import SILENT
from simulator.groups.history import DELIVERED, EPOCHS, FENCED, ONE_OWNER, STALE, STAYS, SURVIVES
from simulator.groups.member import ANSWERED
from simulator.groups.offsets_log import TWO_OWNERS
from simulator.groups.world import KNOWS, SETTLES


def stale_generation_accepted(patch: pytest.MonkeyPatch) -> None:
    """A classic group takes commits from anybody, of any generation."""
    real = commit.group_of

    def group_of(state: GroupState, context: Context, request: OffsetCommitRequest) -> Any:
        if state.groups.find_of(ClassicGroup, request.group_id) is not None:
            return None, None
        return real(state, context, request)

    patch.setattr(commit, "group_of", group_of)


def stale_epoch_accepted(patch: pytest.MonkeyPatch) -> None:
    """A consumer group takes commits from anybody, of any epoch."""
    patch.setattr(ConsumerGroup, "check_commit", lambda group, *_, **__: None)


def answered_before_replicated(patch: pytest.MonkeyPatch) -> None:
    """An operation is answered when its records are written, not when they are committed."""
    real: Any = Shard.write

    def write(shard: Shard[Any], result: Any, done: Any, now_ms: int, *more: Any) -> PendingWrite:
        operation: PendingWrite = real(shard, result, done, now_ms, *more)
        operation.complete(ErrorCode.NONE, "", now_ms, raise_it)
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
            operation.complete(error.code, error.message, now_ms, raise_it)

    patch.setattr(Shard, "_refused", refused)


def nobody_expires(patch: pytest.MonkeyPatch) -> None:
    """Nothing happens when a timer comes: no session ends, no rebalance waits in vain."""
    patch.setattr(GroupMachine, "expired", lambda machine, key, now_ms: Result())


def sessions_never_end(patch: pytest.MonkeyPatch) -> None:
    """Who is not heard of any more stays a member, of both protocols."""
    real = GroupMachine.expired

    def expired(machine: GroupMachine, key: Any, now_ms: int) -> Result[Any]:
        return Result() if key[0] in (rebalance.SESSION, timers.SESSION) else real(machine, key, now_ms)

    patch.setattr(GroupMachine, "expired", expired)


def last_batch_not_loaded(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator stops before the last batch of its log."""
    real = Loader._replay_batch

    def replay(loader: Loader, data: bytes, position: int, header: BatchHeader) -> Iterator[None]:
        if header.next_offset < loader.shard.log.end_offset:
            yield from real(loader, data, position, header)

    patch.setattr(Loader, "_replay_batch", replay)


def tombstones_not_loaded(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator passes over tombstones: who has left is a member again, and has what it had."""
    real = Loader._replay_record

    def replay(loader: Loader, key: Any, value: Any, offset: int, producer: tuple[int, int]) -> None:
        if value is not None:
            real(loader, key, value, offset, producer)

    patch.setattr(Loader, "_replay_record", replay)


def log_read_once(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that could not read its log does not read it again. The first read of a load gives nothing."""
    real = Runtime._read

    def read(runtime: Runtime[Any], shard: Shard[Any], loader: Loader, now_ms: int) -> None:
        if loader.finished or loader.loaded_bytes or loader.failed_reads:
            real(runtime, shard, loader, now_ms)
        else:
            runtime._read_later(shard, loader, now_ms)

    patch.setattr(Runtime, "_read", read)
    patch.setattr(loading, "COORDINATOR_LOAD_ATTEMPTS", 1)


def commit_is_ahead(patch: pytest.MonkeyPatch) -> None:
    """A committed offset is taken for that of the last record read, and counted on."""
    real = commit.TopicOffsets

    def ahead(topic: str, topic_id: Any, partitions: Any) -> Any:
        for each in partitions:
            each.committed_offset += 1
        return real(topic, topic_id, partitions)

    patch.setattr(commit, "TopicOffsets", ahead)


def generation_not_raised(patch: pytest.MonkeyPatch) -> None:
    """The members that a rebalance has brought together are in the generation from before it."""
    real = ClassicGroup.next_generation

    def next_generation(group: ClassicGroup, now_ms: int) -> None:
        real(group, now_ms)
        group.generation_id = max(1, group.generation_id - 1)

    patch.setattr(ClassicGroup, "next_generation", next_generation)


def generation_not_loaded(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator begins to count generations anew."""
    real = replay.group_of

    def group_of(group_id: str, value: Any) -> ClassicGroup:
        group = real(group_id, value)
        group.generation_id = 1
        return group

    patch.setattr(replay, "group_of", group_of)


def group_epoch_not_loaded(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator begins to count the epochs of consumer groups anew."""
    real = GroupMachine.loaded

    def loaded(machine: GroupMachine, now_ms: int) -> None:
        for group in machine.state.groups.all():
            if isinstance(group, ConsumerGroup):
                group.apply_epoch(group.epoch()._replace(group=1, assignment=0))
        real(machine, now_ms)

    patch.setattr(GroupMachine, "loaded", loaded)


def old_generation_heard(patch: pytest.MonkeyPatch) -> None:
    """A classic group takes who was replaced or removed for a member, in a heartbeat of whatever generation."""
    real = handler.heartbeat

    def heartbeat(state: GroupState, request: Any, now_ms: int) -> Any:
        try:
            return real(state, request, now_ms)
        except RequestError as error:
            if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID):
                return Result(HeartbeatResponse())
            raise

    patch.setattr(handler, "heartbeat", heartbeat)


def instance_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """The process whose instance id another has taken is a static member still."""
    patch.setattr(members, "check_not_fenced", lambda member, member_id, instance_id: None)


def given_before_released(patch: pytest.MonkeyPatch) -> None:
    """A member gets what it should have at once, whoever has it still."""
    patch.setattr(Reconciliation, "is_free", lambda step, topic, number: True)


def all_are_told_what_the_leader_has(patch: pytest.MonkeyPatch) -> None:
    """Each sync is answered with the assignment of the member that leads."""
    real = rebalance.sync_response

    def sync_response(group: ClassicGroup, member: Any, code: ErrorCode = ErrorCode.NONE) -> Any:
        return real(group, group.members.get(group.leader_id or "", member), code)

    patch.setattr(rebalance, "sync_response", sync_response)


def unstored_assignment_is_told(patch: pytest.MonkeyPatch) -> None:
    """Members hear of an assignment, and the group goes on with it, whether it could be stored or not."""
    real = sync.write

    def write(*records: Any, appended: Any) -> Result[Any]:
        return real(*records, appended=lambda code, now_ms: appended(ErrorCode.NONE, now_ms))

    patch.setattr(sync, "write", write)


def assignment_ends_early(patch: pytest.MonkeyPatch) -> None:
    """The assignment of a large group counts when the first part of it is written."""
    real = target_run.in_steps

    def in_steps(*run: Any) -> Iterator[Part | None]:
        for part in real(*run):
            yield part
            if part:
                break
        yield None

    patch.setattr(target_run, "in_steps", in_steps)


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


def map_is_off_by_one(patch: pytest.MonkeyPatch) -> None:
    """The log cleaner takes each record for one that has a later one with its key."""
    get = OffsetMap.get
    patch.setattr(OffsetMap, "get", lambda offsets, key: get(offsets, key) + 1)


LOST = (SURVIVES, KNOWS)
"""ANSWERED, where it is below: a group that would give a partition to two members has its own record refused."""

MUTATIONS = {
    "stale generation accepted": Mutation(stale_generation_accepted, "groups-calm", 2, (STALE,)),
    "stale epoch accepted": Mutation(stale_epoch_accepted, "groups-calm", 19, (STALE,)),
    "answered before replicated": Mutation(
        answered_before_replicated, "groups-storm", 4, (*LOST, ONE_OWNER, TWO_OWNERS, FENCED)
    ),
    "records above the high watermark not loaded": Mutation(loaded_to_the_high_watermark, "groups-storm", 23, LOST),
    "revocation not awaited": Mutation(
        revocation_not_awaited, "groups-zombies", 20, (FENCED, ONE_OWNER, TWO_OWNERS, ANSWERED)
    ),
    "revert forgotten": Mutation(revert_forgotten, "groups-storm", 34, (*LOST, EPOCHS, SETTLES, TWO_OWNERS)),
    "nobody expires": Mutation(nobody_expires, "groups-calm", 1, (SETTLES, SILENT)),
    "sessions never end": Mutation(sessions_never_end, "groups-calm", 1, (SETTLES, SILENT)),
    "the last batch is not loaded": Mutation(last_batch_not_loaded, "groups", 3, LOST),
    "tombstones are not loaded": Mutation(tombstones_not_loaded, "groups-migration", 3, (SETTLES, TWO_OWNERS)),
    "a log is read once": Mutation(log_read_once, "groups", 1, (SETTLES,)),
    "a commit is ahead": Mutation(commit_is_ahead, "groups-calm", 1, (DELIVERED,)),
    "the generation is not raised": Mutation(generation_not_raised, "groups-calm", 1, (ONE_OWNER,)),
    "the generation is not loaded": Mutation(generation_not_loaded, "groups", 1, (EPOCHS,)),
    "the group epoch is not loaded": Mutation(group_epoch_not_loaded, "groups", 1, (EPOCHS,)),
    "an old generation is heard": Mutation(old_generation_heard, "groups-calm", 4, (FENCED,)),
    "an instance is not fenced": Mutation(instance_not_fenced, "groups-migration", 10, (FENCED,)),
    "given before it is released": Mutation(
        given_before_released, "groups-calm", 1, (FENCED, TWO_OWNERS, ONE_OWNER, ANSWERED)
    ),
    "all are told what the leader has": Mutation(all_are_told_what_the_leader_has, "groups-calm", 1, (ONE_OWNER,)),
    "an assignment that is not stored is told": Mutation(
        unstored_assignment_is_told, "groups-zombies", 24, (ONE_OWNER, EPOCHS, ANSWERED)
    ),
    "the map of the cleaner is off by one": Mutation(map_is_off_by_one, "groups-cleaned", 1, (*LOST, STAYS, SETTLES)),
    "an assignment ends after its first part": Mutation(assignment_ends_early, "groups-large", 1, (SETTLES,)),
}
