"""A follower as the leader sees it: how far it is, and since when it has been behind.

All of this comes from its fetches: the offset it asks for is the end of its log. Fetches of a session mention only what
has changed, so a follower at the leader's end is not heard of here; its session knows when it was last alive
(`Session.last_used_ms`), and that time is taken over when the leader's log advances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.replication.fetch_session import Session

UNKNOWN_OFFSET = -1
UNKNOWN_EPOCH = -1
"""Of a follower that does not tell its broker epoch."""


def epoch_error(claimed: int, leader_epoch: int) -> ErrorCode:
    """Compares the leader epoch that a client believes in with the one known here; -1 is a client that does not say
    (KIP-320)."""
    if claimed in (UNKNOWN_EPOCH, leader_epoch):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if claimed < leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


class RemoteReplica:
    """The state of one follower, since this leader epoch began.

    Attributes:
        log_end_offset, log_start_offset: as of its last fetch; -1 before the first.
        last_caught_up_ms: the last time at which it is known to have had all that the leader had.
        last_fetch_ms: when it fetched last. last_fetch_end_offset: the leader's end at that time.
        broker_epoch: the incarnation that fetches; None before the first fetch, -1 if it does not say (KIP-903).
        session: the fetch session of its last fetch.
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "last_fetch_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
        "session",
    )

    def __init__(self, broker_id: int, *, in_sync: bool, now_ms: int) -> None:
        """Starts to track a replica. If it is in the ISR, it has replica.lag.time.max.ms for its first fetch."""
        self.broker_id = broker_id
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.last_caught_up_ms = now_ms if in_sync else 0
        self.last_fetch_ms = 0
        self.last_fetch_end_offset = UNKNOWN_OFFSET
        self.broker_epoch: int | None = None
        self.session: Session | None = None

    def fetched(
        self,
        offset: int,
        log_start_offset: int,
        *,
        leader_end_offset: int,
        broker_epoch: int,
        session: Session | None,
        now_ms: int,
    ) -> None:
        """The replica fetches from `offset`. It is caught up now, or was at its last fetch if it has reached the end
        that the log had then.
        """
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif self.last_fetch_ms and offset >= self.last_fetch_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.last_fetch_end_offset = max(self.last_fetch_end_offset, leader_end_offset)
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch
        self.session = session

    def leader_advances(self, leader_end_offset: int) -> None:
        """The leader's log goes beyond `leader_end_offset`. A follower there was caught up at its session's last fetch,
        which did not need to mention this partition.
        """
        session = self.session
        if session is not None and self.log_end_offset >= leader_end_offset:
            self.last_fetch_ms = max(self.last_fetch_ms, session.last_used_ms)
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        """Whether the replica has everything, or had everything less than `lag_time_max_ms` ago."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_time_max_ms
