"""The lease: when a leader may act by itself, without asking anybody first.

A leader that is cut off, or stood still for a while, does not know that another one has been elected. What it appends
is never committed, so nothing is lost; but an act on a cluster would be done by two. So it acts only while a majority
is known to have followed it within the lease, half an election timeout. `raft` tells since when that is known: a fetch
proves that its sender followed this leader at some time after its previous fetch was answered over the same connection,
however long it was on its way since (Ongaro's dissertation, section 6.4.1, counts from the start of a round of
heartbeats for this reason).

Nobody else is elected within that time: a voter that has an answer of its leader denies others its vote for a fetch
timeout, and for one and a half leases if its connection breaks (`raft_config` in `guardian.core.quorum`). It may do so
earlier only if the leader's process has ended. So two nodes never hold the lease at once, as long as their clocks run
equally fast. That clocks are set differently, or are set anew, has no part in it: the time is one that only counts on.
But it leaves out time in which the process did not run (`records.wall`). So when such time has passed, nothing that was
known before it counts any more.
"""

from __future__ import annotations

from penstock.records.wall import WallTime


class Lease:
    """See the module's head. `lease_ms`: how long it is; the moment at which it ends is no longer part of it."""

    def __init__(self, lease_ms: int, wall: WallTime) -> None:
        self.lease_ms = lease_ms
        self._wall = wall
        self._stopped_ms = wall.stopped_ms
        self._anew_ms: int | None = None

    def holds(self, contact_ms: int | None, now_ms: int) -> bool:
        """Whether this node may act now.

        Args:
            contact_ms: since when a majority is known to have followed it; -1: not yet; None: it does not lead. What
                is later than the present belongs to another clock, and counts for nothing.
            now_ms: the present, on the same clock.
        """
        if self._wall.stopped_ms != self._stopped_ms:
            self._stopped_ms, self._anew_ms = self._wall.stopped_ms, now_ms
        if contact_ms is None or contact_ms < 0 or not 0 <= now_ms - contact_ms < self.lease_ms:
            return False
        return self._anew_ms is None or contact_ms > self._anew_ms
