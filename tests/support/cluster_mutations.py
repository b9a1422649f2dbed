"""Faults to plant into a cluster, one for each promise, with the scenario that is to find them.

`found_by` is a seed that did. Any change of the code may make another run of a seed, so a few of those after it are
tried too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from simulation import raft_plants

from penstock.errors import ErrorCode
from penstock.log.log import Log
from penstock.log.open_logs import OpenLogs
from penstock.log.operations import Write
from penstock.metadata import alter_partition, heartbeats
from penstock.metadata.partition_change import _Change
from penstock.node.committed import CommittedMetadata
from penstock.node.frozen import FrozenBrokers
from penstock.raft.operations import PersistElection
from penstock.replication.appends import Prepared
from penstock.replication.follower import Follower, State
from penstock.replication.in_sync_replicas import InSyncReplicas
from penstock.replication.partition import Partition
from simulator.cluster.checkers import ELECTED, MAXIMAL, MINIMUM, WATERMARK
from simulator.cluster.decisions import FROZEN
from simulator.cluster.readers import FENCED
from simulator.cluster.replica_rules import COMPLETE, EQUAL, MATCHING
from simulator.cluster.world import STEADY
from simulator.world.disk import SimulatedDisk
from support import replication_mutations as replication

METADATA_LOG = "__cluster_metadata-0"


def committed_isr_alone(patch: pytest.MonkeyPatch) -> None:
    """The high watermark waits for the ISR that is committed, and for nobody who is about to join."""

    def high_watermark_to(isr: InSyncReplicas, high_watermark: int, end_offset: int, now_ms: int) -> int:
        if len(isr.committed) < isr.minimum:
            return high_watermark
        ends = [each.log_end_offset for key, each in isr.followers.items() if key in isr.committed]
        return min([end_offset, *ends])

    patch.setattr(InSyncReplicas, "high_watermark_to", high_watermark_to)


def records_are_not_fsynced(patch: pytest.MonkeyPatch) -> None:
    """What `flush.messages` asks to be on disk before it counts is not."""
    real = Write.work

    def unsynced(write: Write, disk: SimulatedDisk) -> object:
        paths, write.sync_paths = write.sync_paths, []
        try:
            return real(write, disk)
        finally:
            write.sync_paths = paths

    patch.setattr(Write, "work", unsynced)


def counted_before_the_fsync(patch: pytest.MonkeyPatch) -> None:
    """With `penstock.log.fsync=group` what is written counts while its round of fsyncs is still to come."""
    real = OpenLogs.log_wrote

    def log_wrote(logs: OpenLogs, log: Log, now_ms: int) -> None:
        real(logs, log, now_ms)
        log.count_held(log.reserved_end_offset, now_ms)

    patch.setattr(OpenLogs, "log_wrote", log_wrote)


def unsynced_is_reported(patch: pytest.MonkeyPatch) -> None:
    """A follower tells its leader that it has what is not on its disk yet."""
    real = Follower._take_position

    def take_position(follower: Follower, now_ms: int) -> None:
        log = follower.log
        if log is None or log.truncating or log.log_end_offset == log.reserved_end_offset:
            real(follower, now_ms)
        else:
            follower.fetch_offset = log.reserved_end_offset
            follower._enter(State.FETCHING, now_ms)

    patch.setattr(Follower, "_take_position", take_position)


def metadata_is_not_fsynced(patch: pytest.MonkeyPatch) -> None:
    """Segments of the metadata log are never fsynced."""
    real = SimulatedDisk.fsync

    def forgetful(disk: SimulatedDisk, path: str) -> None:
        if not (path.startswith(METADATA_LOG) and ".log" in path):
            real(disk, path)

    patch.setattr(SimulatedDisk, "fsync", forgetful)


def vote_is_not_written(patch: pytest.MonkeyPatch) -> None:
    """`quorum-state` is said to be written and is not: a voter that restarts may vote again in the same epoch."""
    patch.setattr(PersistElection, "run", lambda operation, disk: None)


def stale_proposal_accepted(patch: pytest.MonkeyPatch) -> None:
    """The controller changes the ISR for a leader that knows an earlier state of the partition, or leads no more."""
    patch.setattr(alter_partition, "problem_of", lambda *_: ErrorCode.NONE)


def stale_epoch_served(patch: pytest.MonkeyPatch) -> None:
    """A leader does not look at the leader epoch that a fetch comes with."""
    patch.setattr(Partition, "check_epoch", lambda partition, leader_epoch: ErrorCode.NONE)


def anybody_is_elected(patch: pytest.MonkeyPatch) -> None:
    """Any replica that lives may lead, in sync or not."""
    patch.setattr(_Change, "_may_lead", lambda change, broker_id: change._acceptable(broker_id))


def duplicate_before_its_original(patch: pytest.MonkeyPatch) -> None:
    """A repeated batch is acknowledged at once, though its original may not be replicated."""
    real: Any = Partition._append

    def append(partition: Partition, *arguments: Any) -> Prepared:
        before = partition.log.reserved_end_offset
        prepared: Prepared = real(partition, *arguments)
        return prepared._replace(next_offset=0) if partition.log.reserved_end_offset == before else prepared

    patch.setattr(Partition, "_append", append)


def uncommitted_metadata_kept(patch: pytest.MonkeyPatch) -> None:
    """A controller that is deposed keeps what it had decided and the quorum never committed."""
    real = CommittedMetadata.renounce

    def renounce(committed: CommittedMetadata, now_ms: int) -> None:
        loader = committed._loader
        real(committed, now_ms)
        committed._loader = loader

    patch.setattr(CommittedMetadata, "renounce", renounce)


def lost_connection_is_death(patch: pytest.MonkeyPatch) -> None:
    """The controller fences a broker as soon as the connection of its heartbeats breaks."""
    patch.setattr(heartbeats, "LOST_CONNECTION_GRACE_MS", -1)


def minimum_ignored(patch: pytest.MonkeyPatch) -> None:
    """The high watermark moves however few are in sync."""
    real = InSyncReplicas.high_watermark_to

    def high_watermark_to(isr: InSyncReplicas, high_watermark: int, end_offset: int, now_ms: int) -> int:
        minimum, isr.minimum = isr.minimum, 1
        try:
            return real(isr, high_watermark, end_offset, now_ms)
        finally:
            isr.minimum = minimum

    patch.setattr(InSyncReplicas, "high_watermark_to", high_watermark_to)


def always_eligible(patch: pytest.MonkeyPatch) -> None:
    """Whoever leaves the ISR stays eligible, though enough are in sync and the high watermark goes on."""
    patch.setattr(_Change, "_enough_in_sync", lambda change: False)


KEEPS = "an offset keeps its value"
SURVIVES = "what was acknowledged survives"
SEEN = "what a reader saw stays"
LOST = (SURVIVES, SEEN, KEEPS, WATERMARK, MAXIMAL, EQUAL, ELECTED)
"""The ways to see that something committed is gone: when another leads, when a reader passes, at the end."""
TOO_EARLY = (*LOST, "later writes come later")
"""What was acknowledged before it was committed gives way to others, which are acknowledged at its offset or before."""
METADATA = ("committed metadata never changes", "nodes have the same metadata", "metadata survives", COMPLETE, MATCHING)
UNFLUSHED = (*METADATA, "a node starts after a crash")
"""A node that misses what it had noted as flushed does not start (adr/0009)."""


def cut_off_is_frozen(patch: pytest.MonkeyPatch) -> None:
    """The controller takes a broker that it cannot connect to for one that stands still."""
    patch.setattr(FrozenBrokers, "_all_made", lambda frozen, suspicion: True)


def answers_are_not_heard(patch: pytest.MonkeyPatch) -> None:
    """What a suspected broker answers does not count, only its heartbeats and fetches."""
    patch.setattr(FrozenBrokers, "_answered", lambda *_: None)


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


MUTATIONS = {
    "acknowledged before the ISR": Mutation(replication.acknowledged_before_the_isr, "network", 1, (MAXIMAL,)),
    "high watermark over the committed ISR": Mutation(committed_isr_alone, "moves", 1, (WATERMARK, MAXIMAL)),
    "truncation skipped": Mutation(replication.skipped_truncation, "network", 1, (EQUAL, KEEPS, SURVIVES)),
    "truncation to the high watermark": Mutation(replication.truncation_to_the_high_watermark, "network", 22, LOST),
    "records not fsynced": Mutation(records_are_not_fsynced, "power", 2, LOST),
    "counted before the fsync": Mutation(counted_before_the_fsync, "group-fsync", 1, LOST),
    "unsynced offsets reported": Mutation(unsynced_is_reported, "group-fsync", 19, LOST),
    "metadata not fsynced": Mutation(metadata_is_not_fsynced, "power", 1, UNFLUSHED),
    "vote not durable": Mutation(vote_is_not_written, "raft", 44, ("votes are durable",)),
    "stale epoch accepted by the controller": Mutation(stale_proposal_accepted, "splits", 3, LOST),
    "stale epoch accepted by a leader": Mutation(stale_epoch_served, "moves", 1, (FENCED,)),
    "unclean election": Mutation(anybody_is_elected, "splits", 2, (ELECTED,)),
    "high watermark moves below the minimum": Mutation(minimum_ignored, "chaos", 1, (MINIMUM,)),
    "eligible whatever the minimum": Mutation(always_eligible, "eligible", 1, (WATERMARK,)),
    "shorter metadata log elected": Mutation(raft_plants.a_shorter_log_is_elected, "controllers", 25, (COMPLETE,)),
    "duplicate acknowledged before its original": Mutation(duplicate_before_its_original, "splits", 37, TOO_EARLY),
    "revert forgotten on controller failover": Mutation(uncommitted_metadata_kept, "splits", 2, METADATA),
    "cut off taken for frozen": Mutation(cut_off_is_frozen, "network", 1, (FROZEN,)),
    "answers of the suspected ignored": Mutation(answers_are_not_heard, "silence", 2, (FROZEN,)),
    "a lost connection taken for death": Mutation(lost_connection_is_death, "connections", 1, (STEADY,)),
}
