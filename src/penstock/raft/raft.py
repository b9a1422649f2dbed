"""The consensus of the metadata quorum (KRaft, KIP-595) as a pure state machine: events in, effects out.

Each event returns effects, in order. What must be on disk before the next step is an effect of its own, and the step
comes with the event that reports it: a `PersistElection` is answered by `election_persisted`, an append by `appended`
(it has its offset) and later by `flushed` (it survives a power failure). So the rules can be read off the events:

- a candidate's own vote counts when it is on disk, and it leads only with a majority of votes;
- a leader's own log counts towards the high watermark only as far as it is flushed;
- the high watermark begins with the first record of the leader's own epoch, its LeaderChange.

The quorum has one voter for now, this node: it never waits for a timeout, a vote or another replica. Sets, majorities
and roles are those of any number of voters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.raft.election import ElectionState
from penstock.raft.roles import Candidate, Leader, Resigned, Role, Unattached
from penstock.raft.voters import ReplicaKey, VoterSet


@dataclass(frozen=True, slots=True)
class PersistElection:
    """Write `quorum-state` and make it durable, then report `election_persisted`."""

    state: ElectionState


@dataclass(frozen=True, slots=True)
class AppendLeaderChange:
    """Append the control batch that begins this leader's epoch, at the log's end, and have it flushed."""

    epoch: int
    leader_id: int
    voters: tuple[int, ...]
    granted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """Everything below `high_watermark` is committed. `first` when this leader has just committed its LeaderChange."""

    high_watermark: int
    first: bool


Effect = PersistElection | AppendLeaderChange | Committed


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """How far one replica is, for DescribeQuorum. -1 where it is not known."""

    key: ReplicaKey
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The state of the quorum, for DescribeQuorum."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: Sequence[ReplicaDescription]


class Raft:
    """One replica of the quorum.

    Attributes:
        local: this replica.
        voters: who votes.
        role: what it is at present, with the state that goes with it.
        log_end_offset: the offset after the last appended record, flushed or not.
    """

    def __init__(self, local: ReplicaKey, voters: VoterSet, election: ElectionState, log_end_offset: int) -> None:
        """`election` is what `quorum-state` said, `log_end_offset` where the recovered log ends.

        Raises ConfigError unless this node is the quorum's only voter.
        """
        if local not in voters:
            raise ConfigError(
                f"node {local.id} with directory {local.directory_id} is not a voter of the metadata quorum {voters}"
            )
        if len(voters.voters) > 1:
            raise ConfigError(
                f"the metadata quorum has {len(voters.voters)} voters: only one, this node, is supported so far"
            )
        self.local = local
        self.voters = voters
        self.log_end_offset = log_end_offset
        self.role: Role = Unattached(election.epoch, election.voted)

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def high_watermark(self) -> int | None:
        """The offset below which everything is committed, as far as this replica knows."""
        return self.role.high_watermark if isinstance(self.role, Leader) else None

    def start(self) -> list[Effect]:
        """The only voter needs no election timeout: it stands at once, in a new epoch."""
        assert isinstance(self.role, Unattached), "a replica starts once"
        self.role = Candidate(self.role.epoch + 1, self.local)
        return [PersistElection(self.role.election())]

    def election_persisted(self, state: ElectionState) -> list[Effect]:
        """`quorum-state` holds `state` durably. A candidate's own vote counts from now on."""
        role = self.role
        if not isinstance(role, Candidate) or state != role.election():
            return []
        role.granted.add(self.local.id)
        if not self.voters.is_majority(role.granted):
            return []
        granted = tuple(sorted(role.granted))
        self.role = Leader(role.epoch, self.local, granted, self.log_end_offset)
        change = AppendLeaderChange(role.epoch, self.local.id, tuple(self.voters.voters), granted)
        return [PersistElection(self.role.election()), change]

    def appended(self, log_end_offset: int) -> None:
        """The leader's log has grown to this offset; nothing of it is durable yet."""
        assert isinstance(self.role, Leader), "only the leader appends"
        assert log_end_offset > self.log_end_offset, "an append makes the log longer"
        self.log_end_offset = log_end_offset

    def flushed(self, offset: int) -> list[Effect]:
        """This replica's log is on disk up to this offset."""
        role = self.role
        if not isinstance(role, Leader):
            return []
        assert offset <= self.log_end_offset, "what is flushed was appended"
        role.flushed[self.local.id] = max(offset, role.flushed.get(self.local.id, 0))
        first = role.high_watermark is None
        if not role.advance(self.voters):
            return []
        assert role.high_watermark is not None
        return [Committed(role.high_watermark, first)]

    def resign(self) -> None:
        """Stops leading: a clean stop, or a log that failed. Nothing more is appended or committed."""
        self.role = Resigned(self.role.epoch, self.local)

    def describe(self) -> QuorumDescription:
        """The quorum as this replica knows it."""
        role = self.role
        flushed = role.flushed if isinstance(role, Leader) else {}
        return QuorumDescription(
            leader_id=self.local.id if isinstance(role, Leader) else -1,
            epoch=role.epoch,
            high_watermark=-1 if self.high_watermark is None else self.high_watermark,
            voters=[
                ReplicaDescription(voter.key, flushed.get(voter.key.id, -1)) for voter in self.voters.voters.values()
            ],
        )
