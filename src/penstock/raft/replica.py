"""One replica of the metadata quorum (KRaft) as a pure state machine: events in, effects out.

KRaft is Raft with the direction of the exchange reversed: followers pull. A leader is elected by Vote, after a pre-vote
that disturbs nobody; followers Fetch, and the offset that they ask for tells how far they are; the leader commits what
a majority of the voters has on disk, itself included only as far as its own disk has it. Brokers, and controllers that
do not vote, observe: they fetch and vote for nobody.

Each event returns effects, in order, which the node carries out before the next event (`raft.effects` lists them, and
the events that answer them). Between events nothing happens: `next_deadline_ms` says when `tick` must be called.

The parts: `core` holds the role and the rules that all share; `elections`, `leading`, `following` and `membership` do
what their names say; `states` has the roles, `history` the voters, `messages` the protocol.

Sources: KIP-595 (the protocol), KIP-630 (snapshots), KIP-853 (changes of the voters), KIP-996 (pre-vote), KIP-1166
(waiting for the high watermark); Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import ErrorCode
from penstock.log.results import Randomness
from penstock.protocol.message import Message
from penstock.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from penstock.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from penstock.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from penstock.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from penstock.protocol.messages.vote_request import VoteRequest
from penstock.raft import messages
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.config import RaftConfig
from penstock.raft.core import Core, Identity, Outstanding
from penstock.raft.effects import Effect, Target
from penstock.raft.election import ElectionState
from penstock.raft.elections import Elections
from penstock.raft.following import Following
from penstock.raft.history import QuorumHistory
from penstock.raft.leading import Leading
from penstock.raft.membership import Membership
from penstock.raft.replica_log import RaftLog
from penstock.raft.states import Arrival, Candidate, Follower, Leader, Progress, Resigned, Role, Unattached
from penstock.raft.voters import VoterSet

MOVES_PER_EVENT_MAX = 16
"""An event that moves the replica through more roles than this has run into a loop."""


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The state of the quorum as its leader knows it, for DescribeQuorum. -1 where something is not known."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: Sequence[Progress]
    observers: Sequence[Progress]


class RaftReplica:
    """See the module's head."""

    def __init__(
        self,
        identity: Identity,
        history: QuorumHistory,
        election: ElectionState,
        log: RaftLog,
        *,
        config: RaftConfig,
        random: Randomness,
    ) -> None:
        """A replica before its start: `election` is from `quorum-state`, `history` and `log` are what the disk has.

        All of the log is durable: recovery has made sure of that.
        """
        self._core = Core(identity, history, election, log, config=config, random=random)
        self._elections = Elections(self._core)
        self._leading = Leading(self._core)
        self._following = Following(self._core)
        self._membership = Membership(self._core, self._leading)
        self._deadline_ms: int | None = None

    # What is known

    @property
    def epoch(self) -> int:
        return self._core.epoch

    @property
    def role(self) -> Role:
        return self._core.role

    @property
    def leader_id(self) -> int | None:
        """The leader of the epoch, as far as this replica knows it."""
        return self._core.known_leader_id

    @property
    def leader_target(self) -> Target | None:
        return self._core.leader_view().target

    @property
    def is_leader(self) -> bool:
        return isinstance(self._core.role, Leader)

    @property
    def is_voter(self) -> bool:
        return self._core.is_voter

    @property
    def voters(self) -> VoterSet:
        """The voters according to the newest record of the log."""
        return self._core.voters

    @property
    def history(self) -> QuorumHistory:
        """The voters and kraft.version by offset, as a checkpoint needs them."""
        return self._core.history

    @property
    def kraft_version(self) -> int:
        return self._core.history.kraft_version

    @property
    def high_watermark(self) -> int | None:
        """The offset below which everything is committed, as far as this replica knows.

        A leader knows it once a record of its own epoch is committed.
        """
        role = self._core.role
        return role.high_watermark if isinstance(role, Leader) else self._core.high_watermark

    @property
    def fault(self) -> str | None:
        """Why this replica cannot go on: the node must stop and report it. None as long as it can."""
        return self._core.fault

    @property
    def stopped(self) -> bool:
        """After `stop`: whether nothing is left to hand over."""
        core = self._core
        handing_over = isinstance(core.role, Leader) or (isinstance(core.role, Resigned) and core.role.unacknowledged)
        return core.stopping and not handing_over

    def describe(self) -> QuorumDescription:
        """The quorum as this replica knows it. Voters are named as the voter set has them: static ones by id alone."""
        core = self._core
        role = core.role
        if isinstance(role, Leader):
            known = core.voters.voters
            voters = [replace(each, key=known[id_].key) if id_ in known else each for id_, each in role.voters.items()]
            observers = list(role.observers.values())
        else:
            voters, observers = [Progress(each.key) for each in core.voters.voters.values()], []
        leader_id = core.known_leader_id
        return QuorumDescription(
            leader_id=messages.UNKNOWN if leader_id is None else leader_id,
            epoch=core.epoch,
            high_watermark=messages.UNKNOWN if self.high_watermark is None else self.high_watermark,
            voters=voters,
            observers=observers,
        )

    def last_fetch_ms(self, node_id: int) -> int:
        """When a node last fetched from this replica, if that leads; -1: never, as far as it knows."""
        role = self._core.role
        if not isinstance(role, Leader):
            return -1
        observed = [each for key, each in role.observers.items() if key.id == node_id]
        voting = role.voters.get(node_id)
        return max((each.last_fetch_ms for each in (*observed, *([voting] if voting else ()))), default=-1)

    def majority_contact_ms(self, now_ms: int) -> int | None:
        """While this replica leads: the latest time since which a majority is known to have followed it, -1 before
        that; None if it does not lead. What a leader may do by itself hangs on it: a lease.
        """
        core = self._core
        return core.role.majority_contact_ms(core.voters, now_ms) if isinstance(core.role, Leader) else None

    # Time

    def start(self, now_ms: int) -> list[Effect]:
        """Begins to take part. The only voter stands at once; others ask for pre-votes soon.

        The leader that `quorum-state` knows is given the grace of one whose connection broke.
        """
        core = self._core
        role = core.role
        assert isinstance(role, Unattached), "a replica starts once"
        core.leased_until_ms = now_ms + core.config.lease_ms
        target = None if role.leader_id is None else core.target_of(role.leader_id)
        if role.leader_id is not None and role.leader_id != core.local.id and target is not None:
            core.become_follower(role.epoch, role.leader_id, target, now_ms)
            self._following.suspect(now_ms)
        else:
            start_ms = core.config.start_election_ms
            wait_ms = start_ms + core.random.randrange(start_ms) if start_ms and not core.is_only_voter else 0
            role.deadline_ms = now_ms + wait_ms
            core.tell_leader()
        return self._poll(now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        """Called at `next_deadline_ms` or later."""
        return self._poll(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` must be called; it may change with every event."""
        return None if self._core.fault else self._deadline_ms

    def _poll(self, now_ms: int) -> list[Effect]:
        """Lets every part do what is due until nothing is left, and returns all effects of the event."""
        core = self._core
        if core.fault:
            core.take_effects()
            return []
        for _ in range(MOVES_PER_EVENT_MAX):
            turn = core.turn
            if self._elections.elected and not self._core.no_room:
                self._elections.led()
                self._leading.begin(now_ms)
            deadlines = [self._poll_role(now_ms), self._membership.poll(now_ms)]
            if turn == core.turn:
                break
        else:
            raise AssertionError("the roles of a replica come to rest")
        self._deadline_ms = min((each for each in deadlines if each is not None), default=None)
        return core.take_effects()

    def _poll_role(self, now_ms: int) -> int | None:
        role = self._core.role
        if isinstance(role, Leader):
            return self._leading.poll(now_ms)
        if isinstance(role, Follower):
            self._elections.led()
            return self._following.poll(role, now_ms)
        return self._elections.poll(now_ms)

    # The disk

    def election_persisted(self, state: ElectionState, now_ms: int) -> list[Effect]:
        """`quorum-state` holds `state` durably. Messages that waited for that leave; a candidate's own vote counts."""
        core = self._core
        if core.persisted(state) and isinstance(core.role, Candidate) and state == core.role.election():
            self._elections.own_vote_persisted()
        return self._poll(now_ms)

    def appended(self, log_end_offset: int, now_ms: int) -> list[Effect]:
        """The leader's log has grown to this offset; nothing of it is durable yet.

        A leader that resigned in the very event which had it append still does, in its epoch.
        """
        assert isinstance(self._core.role, Leader | Resigned), "only the leader appends"
        assert log_end_offset == self._core.log.end_offset, "the log and its reader agree"
        return []

    def written(self, offset: int, now_ms: int) -> list[Effect]:
        """Everything below `offset` can be read."""
        if isinstance(self._core.role, Leader):
            self._leading.written(now_ms)
        return self._poll(now_ms)

    def flushed(self, offset: int, now_ms: int) -> list[Effect]:
        """Everything below `offset` is on this replica's disk."""
        core = self._core
        assert offset <= core.log.end_offset, "what is flushed was appended"
        core.flushed_offset = max(core.flushed_offset, offset)
        if isinstance(core.role, Leader):
            if self._leading.flushed(now_ms):
                self._membership.committed(now_ms)
        elif isinstance(core.role, Follower):
            self._following.advance(core.role)
        return self._poll(now_ms)

    def truncated(self, log_end_offset: int, now_ms: int) -> list[Effect]:
        """A `Truncate` is done; the log ends here now."""
        self._following.truncated(log_end_offset)
        return self._poll(now_ms)

    def snapshot_written(self, snapshot: CheckpointId, size_bytes: int, now_ms: int) -> list[Effect]:
        """Handles a completed `WriteSnapshot`: this much of the snapshot is written."""
        self._following.snapshot_written(snapshot, size_bytes)
        return self._poll(now_ms)

    def snapshot_installed(
        self, snapshot: CheckpointId, voters: VoterSet | None, kraft_version: int, now_ms: int
    ) -> list[Effect]:
        """An `InstallSnapshot` is done; `voters` and `kraft_version` are what the snapshot's head says."""
        self._following.snapshot_installed(snapshot, voters, kraft_version)
        return self._poll(now_ms)

    def snapshot_refused(self, snapshot: CheckpointId, now_ms: int) -> list[Effect]:
        """The snapshot that was to be installed is damaged."""
        self._following.snapshot_refused(now_ms)
        return self._poll(now_ms)

    def ran_out(self, now_ms: int) -> list[Effect]:
        """The disk is full: this replica cannot lead others, and does not stand before it `has_room`."""
        core = self._core
        core.no_room = True
        if isinstance(core.role, Leader) and not core.is_only_voter:
            core.become_resigned(now_ms)
        return self._poll(now_ms)

    def has_room(self, now_ms: int) -> list[Effect]:
        """Everything that waited for room is done; a follower gives its leader the usual time to answer."""
        core = self._core
        core.no_room = False
        if isinstance(core.role, Follower):
            core.role.fetch_deadline_ms = now_ms + core.config.fetch_timeout_ms
        return self._poll(now_ms)

    # The network

    def handle(
        self,
        request: Message,
        version: int,
        now_ms: int,
        token: object,
        listener: str | None = None,
        *,
        link: object = None,
    ) -> list[Effect]:
        """A request of another replica, or of an administrator, in this version of its API, which came by a listener of
        this node (None: the one by which it is called), over a link (see `Arrival`).

        Its response is an `Answer` with the token, in these effects or in those of a later event; unless this replica
        has failed. Raises TypeError for a request that is none of the quorum's.
        """
        cluster_id = getattr(request, "cluster_id", None)
        own_id = self._core.identity.cluster_id
        changes_voters = isinstance(request, AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest)
        if cluster_id is not None and own_id not in (None, cluster_id) and not changes_voters:
            self._core.answer(token, messages.refusal(request, ErrorCode.INCONSISTENT_CLUSTER_ID))
        else:
            self._handle(request, Arrival(version, listener, link), now_ms, token)
        return self._poll(now_ms)

    def _handle(self, request: Message, arrival: Arrival, now_ms: int, token: object) -> None:
        if isinstance(request, FetchRequest):
            if self._leading.on_fetch(request, arrival, now_ms, token):
                self._membership.committed(now_ms)
        elif isinstance(request, VoteRequest):
            self._elections.on_vote(request, arrival, now_ms, token)
        elif isinstance(request, BeginQuorumEpochRequest):
            self._elections.on_begin(request, arrival, now_ms, token)
        elif isinstance(request, EndQuorumEpochRequest):
            self._elections.on_end(request, arrival, now_ms, token)
        elif isinstance(request, FetchSnapshotRequest):
            self._leading.on_fetch_snapshot(request, arrival, now_ms, token)
        elif isinstance(request, AddRaftVoterRequest):
            self._membership.on_add(request, now_ms, token)
        elif isinstance(request, RemoveRaftVoterRequest):
            self._membership.on_remove(request, now_ms, token)
        elif isinstance(request, UpdateRaftVoterRequest):
            self._membership.on_update(request, arrival, now_ms, token)
        else:
            raise TypeError(f"{request.NAME} is no request of the quorum")

    def answered(self, call: int, response: Message | None, now_ms: int) -> list[Effect]:
        """A `Call` has ended: with its response, or None when it failed or took too long."""
        outstanding = self._core.ended(call, now_ms, failed=response is None)
        if outstanding is not None:
            current = outstanding.turn == self._core.turn
            if isinstance(outstanding.request, ApiVersionsRequest):
                node_id = outstanding.target.node_id
                self._membership.versions_answered(node_id, response, current=current, now_ms=now_ms)
            elif response is not None:
                self._answered(outstanding, response, current, now_ms)
            elif isinstance(outstanding.request, VoteRequest):
                self._elections.vote_failed(outstanding.target.node_id, current=current, now_ms=now_ms)
            elif isinstance(outstanding.request, EndQuorumEpochRequest):
                self._elections.end_failed(outstanding.target.node_id)
            elif isinstance(outstanding.request, FetchRequest | FetchSnapshotRequest):
                self._following.fetch_failed(outstanding.target.node_id, current=current, now_ms=now_ms)
        return self._poll(now_ms)

    def _answered(self, outstanding: Outstanding, response: Any, current: bool, now_ms: int) -> None:
        node_id, request = outstanding.target.node_id, outstanding.request
        if isinstance(request, VoteRequest):
            pre_vote = request.topics[0].partitions[0].pre_vote
            self._elections.vote_answered(node_id, response, pre_vote=pre_vote, current=current, now_ms=now_ms)
            return
        answered: dict[type[Message], Callable[..., None]] = {
            FetchRequest: self._following.fetch_answered,
            FetchSnapshotRequest: self._following.snapshot_answered,
            BeginQuorumEpochRequest: self._leading.begin_answered,
            EndQuorumEpochRequest: self._elections.end_answered,
            UpdateRaftVoterRequest: self._following.update_answered,
        }
        if type(request) in answered:
            answered[type(request)](node_id, response, current=current, now_ms=now_ms)

    def leader_link_lost(self, now_ms: int) -> list[Effect]:
        """The connection over which this replica fetches from the leader broke: the leader may have died."""
        self._following.suspect(now_ms)
        return self._poll(now_ms)

    def leader_gone(self, now_ms: int) -> list[Effect]:
        """The leader's address refuses connections: its process has ended."""
        self._following.leader_gone(now_ms)
        return self._poll(now_ms)

    # The node

    def upgrade_kraft_version(self, version: int, now_ms: int, *, validate_only: bool = False) -> list[Effect]:
        """As the leader, finalizes a kraft.version; what is appended next is committed after it.

        Raises RequestError INVALID_UPDATE_VERSION for one that the voters do not support, or not all are known to.
        """
        self._membership.upgrade(version, validate_only=validate_only)
        return self._poll(now_ms)

    def resign(self, now_ms: int) -> list[Effect]:
        """Stops leading and tells the others; stands again after a while. Nothing more is appended in this epoch."""
        if isinstance(self._core.role, Leader):
            self._core.become_resigned(now_ms)
        return self._poll(now_ms)

    def stop(self, now_ms: int) -> list[Effect]:
        """Like `resign`, but for good; `stopped` says when the node may exit."""
        self._core.stopping = True
        return self.resign(now_ms)
