"""Faults to plant into replication, each of which breaks one of its rules: the models must notice every one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import ErrorCode
from penstock.replication.follower import Follower, State
from penstock.replication.in_sync_replicas import NOBODY_DEPARTED, InSyncReplicas, Proposal
from penstock.replication.partition import Partition

Plant = Callable[[pytest.MonkeyPatch], None]


def acknowledged_before_the_isr(patch: pytest.MonkeyPatch) -> None:
    """The high watermark is the leader's own end."""
    patch.setattr(InSyncReplicas, "high_watermark_to", lambda self, high_watermark, end_offset, now_ms: end_offset)


def the_committed_isr(patch: pytest.MonkeyPatch) -> None:
    """The high watermark waits for the ISR that the controller has confirmed, not for whom it may be adding."""
    patch.setattr(InSyncReplicas, "maximal", property(lambda self: self.committed))


def dropped_before_confirmed(patch: pytest.MonkeyPatch) -> None:
    """The high watermark does not wait for whom the leader has proposed to drop."""

    def isr(self: InSyncReplicas) -> tuple[int, ...]:
        return self.committed if self.proposal is None else tuple(each for each, _ in self.proposal.isr)

    patch.setattr(InSyncReplicas, "maximal", property(isr))


def skipped_truncation(patch: pytest.MonkeyPatch) -> None:
    """A follower whose log parts from the leader's goes on at its own end, and says that it has the leader's epoch."""

    def truncate(self: Follower, offset: int, now_ms: int) -> None:
        assert self.log is not None
        self.log.start_epoch(self.leader_epoch)
        self._take_position(now_ms)

    patch.setattr(Follower, "_truncate", truncate)


def truncation_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """As Kafka did before KIP-101: a follower's high watermark lags, and what is above it may be committed."""
    whole = Follower.follow

    def follow(self: Follower, leader_id: int, leader_epoch: int, now_ms: int) -> None:
        whole(self, leader_id, leader_epoch, now_ms)
        if self.log is not None and not self.log.truncating and self.log.log_end_offset > self.high_watermark:
            self._truncate(self.high_watermark, now_ms)

    patch.setattr(Follower, "follow", follow)


def joined_below_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """A follower joins the ISR at the leader's high watermark, which may be far behind what is committed."""
    whole = InSyncReplicas.expand

    def expand(self: InSyncReplicas, high_watermark: int) -> Proposal | None:
        start, self.epoch_start_offset = self.epoch_start_offset, 0
        proposal = whole(self, high_watermark)
        self.epoch_start_offset = start
        return proposal

    patch.setattr(InSyncReplicas, "expand", expand)


def claimed_before_written(patch: pytest.MonkeyPatch) -> None:
    """A follower asks for the next records while its write is under way: the leader counts what a crash may lose."""
    whole: Any = Follower._take_position

    def take_position(self: Follower, now_ms: int) -> None:
        log = self.log
        if log is None or log.truncating or log.log_end_offset == log.reserved_end_offset:
            whole(self, now_ms)
        else:
            self.fetch_offset = log.reserved_end_offset
            self._enter(State.FETCHING, now_ms)

    def enter(self: Follower, state: Any, now_ms: int) -> None:
        log = self.log
        if state is State.WRITING and log is not None:
            self.fetch_offset, state = log.reserved_end_offset, State.FETCHING
        self.state = state
        self._owner.follower_moved(self, now_ms)

    patch.setattr(Follower, "_take_position", take_position)
    patch.setattr(Follower, "_enter", enter)


def departures_count_at_once(patch: pytest.MonkeyPatch) -> None:
    """The high watermark goes on without who was dropped before the metadata has told by which minimum."""
    whole = Partition.alter_answered

    def answered(self: Partition, proposal: Any, answer: Any, now_ms: int) -> bool:
        again = whole(self, proposal, answer, now_ms)
        self.isr.departed_at_epoch = NOBODY_DEPARTED
        self.advance_high_watermark(now_ms)
        return again

    patch.setattr(Partition, "alter_answered", answered)


def an_old_minimum(patch: pytest.MonkeyPatch) -> None:
    """A leader goes on with the minimum that it knew first."""
    whole = InSyncReplicas.require

    def require(self: InSyncReplicas, min_insync_replicas: int) -> None:
        if self not in required:
            required.add(self)
            whole(self, min_insync_replicas)

    required: set[InSyncReplicas] = set()
    patch.setattr(InSyncReplicas, "require", require)


def stale_leader_epoch(patch: pytest.MonkeyPatch) -> None:
    """A leader answers fetches of another leader epoch."""
    patch.setattr(Partition, "check_epoch", lambda self, leader_epoch: ErrorCode.NONE)


MUTATIONS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        acknowledged_before_the_isr,
        the_committed_isr,
        dropped_before_confirmed,
        skipped_truncation,
        truncation_to_the_high_watermark,
        joined_below_the_epoch,
        claimed_before_written,
        stale_leader_epoch,
    )
}
OF_ELIGIBLE: dict[str, Plant] = {
    plant.__name__: plant for plant in (departures_count_at_once, an_old_minimum, acknowledged_before_the_isr)
}
"""Those that break what eligible leader replicas stand on."""
