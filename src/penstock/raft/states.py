"""The roles of a replica, one class each, with their state; `raft.core` moves between them.

```
Unattached --timeout--> Prospective --majority--> Candidate --majority--> Leader --resigns--> Resigned
     ^  a leader is heard of: Follower   (of any role, at the same or a later epoch)
     |  a later epoch without a leader: Unattached
```

A Prospective asks whether it would be elected before it disturbs others with a new epoch (KIP-996). A Resigned replica
led and stopped; it hands its epoch over and stands again after a while, unless it stops.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.raft.checkpoint import CheckpointId
from penstock.raft.effects import Target
from penstock.raft.election import ElectionState
from penstock.raft.voters import ReplicaKey, VoterSet


@dataclass(slots=True)
class Unattached:
    """Knows of no leader to follow in `epoch`; `leader_id` is one that is known but cannot be followed."""

    epoch: int
    deadline_ms: int
    voted: ReplicaKey | None = None
    leader_id: int | None = None

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, None if self.leader_id is not None else self.voted)


@dataclass(slots=True)
class Ballot:
    """The votes for a replica in one election. `unreachable`: voters that could not be asked last time."""

    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)
    unreachable: set[int] = field(default_factory=set)

    def unrecorded(self, voters: VoterSet) -> list[int]:
        """The voters that have not answered, in order."""
        return [voter for voter in voters.voters if voter not in self.granted and voter not in self.rejected]

    def lost(self, voters: VoterSet) -> bool:
        """Whether too few voters are left for a majority."""
        without = (self.rejected | self.unreachable) - self.granted
        return not voters.is_majority([voter for voter in voters.voters if voter not in without])


@dataclass(slots=True)
class Prospective:
    """Asks whether a majority would elect it; keeps what it knew of `epoch`."""

    epoch: int
    deadline_ms: int
    voted: ReplicaKey | None
    leader_id: int | None
    target: Target | None
    ballot: Ballot

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, None if self.leader_id is not None else self.voted)


@dataclass(slots=True)
class Candidate:
    """Asks to lead `epoch`. It has voted for itself, which counts once that is on disk.

    `backing_off`: the election is lost or took too long; at the deadline it begins anew.
    """

    epoch: int
    local: ReplicaKey
    deadline_ms: int
    ballot: Ballot = field(default_factory=Ballot)
    backing_off: bool = False

    @property
    def leader_id(self) -> int | None:
        return None

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, voted=self.local)


@dataclass(slots=True)
class Download:
    """A snapshot on its way from the leader: `position` bytes of it are written, or being written if `writing`."""

    snapshot: CheckpointId
    position: int = 0
    writing: bool = False
    size_bytes: int | None = None


@dataclass(slots=True)
class Follower:
    """Fetches from the leader of `epoch`.

    `leader_high_watermark` is the highest that the leader has told. `has_fetched`: the leader has answered a fetch.
    `has_updated`: it knows where this voter is, and which kraft.version it supports. `leased_until_ms`: until then this
    voter does not help anybody else to lead.
    """

    epoch: int
    leader_id: int
    target: Target
    fetch_deadline_ms: int
    leader_high_watermark: int = -1
    has_fetched: bool = False
    download: Download | None = None
    update_voter_due_ms: int = 0
    has_updated: bool = False
    suspected: bool = False
    leased_until_ms: int = -1

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, leader_id=self.leader_id)


@dataclass(slots=True)
class Progress:
    """How far one replica is, as its fetches tell. Offset -1 and time -1: not known.

    `answered_ms`: when its last fetch was answered, over `answered_link`. `contact_ms`: when the latest answer was
    given that it is known to have got, since it has fetched again over the same link: it followed this leader at some
    time since then, however long that fetch was on its way. A fetch over another link tells nothing of the answer
    before: that may be lost, and its replica may have given up this leader meanwhile.
    """

    key: ReplicaKey
    end_offset: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    fetched_leader_end: int = -1
    answered_ms: int = -1
    answered_link: object = None
    contact_ms: int = -1

    def answered(self, link: object, now_ms: int) -> None:
        """Notes that a fetch is answered that came over this link."""
        self.answered_ms, self.answered_link = now_ms, link

    def fetched(self, offset: int, leader_end_offset: int, link: object, now_ms: int) -> None:
        """Notes that the replica fetches from `offset`, and so has everything before it on disk.

        It was caught up at its last fetch if it now has all that the leader had then (as Kafka counts it). An offset
        may be lower than the last: a voter of kraft.version 0 that has lost its disk has what it says now, no more.
        """
        if offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif self.fetched_leader_end >= 0 and offset >= self.fetched_leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset = offset
        self.last_fetch_ms = now_ms
        if link == self.answered_link:
            self.contact_ms = self.answered_ms
        self.fetched_leader_end = leader_end_offset


class Arrival(NamedTuple):
    """How a request came: its version, by which listener of this node (None: the one by which others are called), and
    over which of its connections, whose next request is sent after the answer to the one before.
    """

    version: int
    listener: str | None = None
    link: object = None


@dataclass(slots=True)
class Parked:
    """A fetch that waits. `high_watermark` is what its replica knows of it."""

    token: object
    arrival: Arrival
    offset: int
    last_epoch: int
    key: ReplicaKey
    high_watermark: int
    deadline_ms: int


@dataclass(slots=True)
class Leader:
    """Leads `epoch`.

    `epoch_start_offset` is the offset of its LeaderChange record. `high_watermark` is None until a record of this
    epoch is committed: a leader commits no older one by itself (section 5.4.2 of the Raft paper).
    `voters` and `observers`: how far they are. `heard`: the voters that fetched since `quorum_deadline_ms` was set.
    `reported`: with kraft.version 0, the voters as they have told of themselves, for the upgrade; else None.
    """

    epoch: int
    local: ReplicaKey
    granted: tuple[int, ...]
    epoch_start_offset: int
    quorum_deadline_ms: int
    begin_due_ms: int
    voters: dict[int, Progress] = field(default_factory=dict)
    observers: dict[ReplicaKey, Progress] = field(default_factory=dict)
    heard: set[int] = field(default_factory=set)
    parked: list[Parked] = field(default_factory=list)
    high_watermark: int | None = None
    reported: VoterSet | None = None

    @property
    def leader_id(self) -> int | None:
        return self.local.id

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, leader_id=self.local.id)

    def set_voters(self, voters: VoterSet) -> None:
        """Follows a change of the voters; a node that turns from observer to voter or back keeps its progress."""
        known = {**self.observers, **{each.key: each for each in self.voters.values()}}
        before, self.voters = self.voters, {}
        for voter in voters.voters.values():
            same = before.get(voter.key.id)
            matching = same is not None and VoterSet([voter]).__contains__(same.key)
            progress = same if matching else known.get(voter.key)
            self.voters[voter.key.id] = progress or Progress(voter.key)
            self.observers.pop(voter.key, None)
        for progress in before.values():
            if progress.key not in voters and progress.key != self.local and progress.last_fetch_ms >= 0:
                self.observers[progress.key] = progress
        self.heard.intersection_update(self.voters)

    def majority_contact_ms(self, voters: VoterSet, now_ms: int) -> int:
        """The latest time since which a majority of the voters, this one among them if it votes, is known to have
        followed this leader; -1 before a majority has.
        """
        needed = voters.majority - (1 if self.local in voters else 0)
        if needed == 0:
            return now_ms
        contacts = sorted(
            (self.voters[each].contact_ms for each in voters.voters if each != self.local.id), reverse=True
        )
        return contacts[needed - 1] if len(contacts) >= needed else -1

    def advance(self, voters: VoterSet) -> bool:
        """Moves the high watermark to what a majority has on disk; whether it moved."""
        known = {voter_id: each.end_offset for voter_id, each in self.voters.items() if each.end_offset >= 0}
        committed = voters.committed(known)
        if committed is None or committed <= self.epoch_start_offset:
            return False
        if self.high_watermark is not None and committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True


@dataclass(slots=True)
class Resigned:
    """Led `epoch` and stopped: it appends nothing any more, and tells the voters so until they have heard."""

    epoch: int
    local: ReplicaKey
    deadline_ms: int
    successors: tuple[ReplicaKey, ...] = ()
    unacknowledged: set[int] = field(default_factory=set)

    @property
    def leader_id(self) -> int | None:
        return None

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, leader_id=self.local.id)


Role = Unattached | Prospective | Candidate | Follower | Leader | Resigned
