"""The roles of a replica in the metadata quorum, a class each; `raft.raft` moves between them.

Unattached knows an epoch but no leader. A Candidate asks for votes in its epoch. A Leader appends, and knows how far
each voter has the log on disk. A Resigned replica led and stopped; it takes no further part. With one voter there is
nobody to follow and nobody to vote for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.raft.election import ElectionState
from penstock.raft.voters import ReplicaKey, VoterSet


@dataclass(slots=True)
class Unattached:
    """Knows of no leader in `epoch`."""

    epoch: int
    voted: ReplicaKey | None = None

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, voted=self.voted)


@dataclass(slots=True)
class Candidate:
    """Asks to lead `epoch`. It has voted for itself, which counts once that is on disk."""

    epoch: int
    local: ReplicaKey
    granted: set[int] = field(default_factory=set)

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, voted=self.local)


@dataclass(slots=True)
class Leader:
    """Leads `epoch`.

    `epoch_start_offset` is the offset of its LeaderChange record. `flushed` is the log end that each voter has on disk.
    `high_watermark` is None until a record of this epoch is committed: Raft's rule that a leader commits no older one
    by itself (section 5.4.2 of the paper).
    """

    epoch: int
    local: ReplicaKey
    granted: tuple[int, ...]
    epoch_start_offset: int
    flushed: dict[int, int] = field(default_factory=dict)
    high_watermark: int | None = None

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, leader_id=self.local.id)

    def advance(self, voters: VoterSet) -> bool:
        """Moves the high watermark to what a majority has on disk; whether it moved."""
        committed = voters.committed(self.flushed)
        if committed is None or committed <= self.epoch_start_offset:
            return False
        if self.high_watermark is not None:
            assert committed >= self.high_watermark, "the high watermark never goes back"
            if committed == self.high_watermark:
                return False
        self.high_watermark = committed
        return True


@dataclass(slots=True)
class Resigned:
    """Led `epoch` and stopped: it appends nothing any more."""

    epoch: int
    local: ReplicaKey

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, leader_id=self.local.id)


Role = Unattached | Candidate | Leader | Resigned
