"""What all parts of a replica share: its role and the changes of role, its calls, and the order of its effects.

Two rules are implemented only here:

- *Durable first.* While a `PersistElection` is on its way to the disk, every `Call` and `Answer` is held back, and
  leaves when the last one is done. So no vote, acknowledgement or new epoch is ever sent before it is durable.
- *Only the present counts.* A call belongs to the role that made it. Its answer may still bring news of a later epoch,
  but everything else in it counts only while the replica has stayed in that role.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import ErrorCode
from penstock.log.results import Randomness
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.fetch_response import PartitionData
from penstock.raft import messages
from penstock.raft.config import RaftConfig
from penstock.raft.effects import Answer, Call, Effect, LeaderChanged, PersistElection, Target
from penstock.raft.election import ElectionState
from penstock.raft.history import QuorumHistory
from penstock.raft.limits import RAFT_HELD_BACK_MAX
from penstock.raft.messages import LeaderView, News
from penstock.raft.replica_log import RaftLog
from penstock.raft.states import Arrival, Ballot, Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from penstock.raft.topic import METADATA, QuorumTopic
from penstock.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet

DISCOVERY_INTERVAL_RETRIES = 10
"""Who looks for the leader and was not told asks the next node after so many retry back-offs."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity and place of this replica, and the nodes that it can ask.

    Attributes:
        key: node id and directory id.
        cluster_id: sent with requests and checked in them; None omits the check.
        listener: the controller listener by which others are called.
        endpoints: where this replica's own controller listeners are.
        bootstrap: where to ask for the leader while no voter is known (`controller.quorum.bootstrap.servers`).
        stands: whether it may ever vote or lead: False for a broker, which only observes.
        topic: of the quorum's log.
    """

    key: ReplicaKey
    cluster_id: str | None = None
    listener: str = "CONTROLLER"
    endpoints: tuple[VoterEndpoint, ...] = ()
    bootstrap: Sequence[Target] = ()
    stands: bool = True
    topic: QuorumTopic = METADATA


@dataclass(slots=True)
class Outstanding:
    """A call without an answer, and the number of the role that made it."""

    target: Target
    request: Message
    turn: int


@dataclass(slots=True)
class Channels:
    """One request at a time to a node, and a pause after one that failed. Both end with the role.

    `ask_next_ms`: before that, no other node is asked for the leader.
    """

    busy: dict[int, int] = field(default_factory=dict)
    ready_ms: dict[int, int] = field(default_factory=dict)
    ask_next_ms: int = 0

    def wait_ms(self, node_id: int, now_ms: int) -> int | None:
        """0 if the node may be asked now, otherwise how long to wait; None while an answer is awaited."""
        return None if node_id in self.busy else max(0, self.ready_ms.get(node_id, now_ms) - now_ms)


class Core:
    """See the module's head.

    Attributes:
        high_watermark: the offset below which everything is known to be committed; None before anything is.
        flushed_offset: how far the log is on disk.
        appending_to: the log's end after the append that was returned last, which the log does not know yet.
        cutting: the log is being truncated or replaced by a snapshot; nothing else is done to it meanwhile.
        no_room: the disk is full; nothing becomes durable meanwhile.
        leased_until_ms: until then this replica helps nobody to lead: it has had an answer of a leader that it follows
            no more, or has just started, and may have had one before.
        stopping: never stands again.
        fault: why the replica cannot go on; None as long as it can. It then does nothing any more.
    """

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
        if election.epoch < log.last_epoch:  # `quorum-state` was lost: at least the log says which epochs there were
            election = ElectionState(log.last_epoch)
        self.identity = identity
        self.local = identity.key
        self.history = history
        self.log = log
        self.config = config
        self.random = random
        self.role: Role = Unattached(election.epoch, 0, election.voted, election.leader_id)
        self.high_watermark: int | None = None
        self.flushed_offset = log.end_offset
        self.appending_to = 0
        self.cutting = False
        self.no_room = False
        self.leased_until_ms = -1
        self.stopping = False
        self.fault: str | None = None
        self.effects: list[Effect] = []
        self.turn = 0
        self.channels = Channels()
        self.calls: dict[int, Outstanding] = {}
        self._next_call = 0
        self._next_asked = 0
        self._election = election
        self._persisting: list[ElectionState] = []
        self._held: list[Effect] = []
        self._told: tuple[int | None, int] = (None, -1)

    # What is known

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def voters(self) -> VoterSet:
        return self.history.voters

    @property
    def is_voter(self) -> bool:
        """Whether this replica votes, by the newest record of its log."""
        return self.identity.stands and self.local in self.voters

    @property
    def may_stand(self) -> bool:
        """Whether this replica may lead: a voter, or one whose own removal is not known to be committed.

        The replica with the record of its removal may be the only one that can be elected, and commit it (section 4.2.2
        of Ongaro's dissertation). It does not count its own vote then.
        """
        offset = self.history.voters_offset
        if self.is_voter or offset is None or not self.identity.stands:
            return self.is_voter
        uncommitted = self.high_watermark is None or offset >= self.high_watermark
        return uncommitted and self.local in self.history.voters_at(offset)

    @property
    def held_up(self) -> bool:
        """Whether this replica has to wait for its disk before it fetches or stands."""
        return self.cutting or self.no_room

    @property
    def is_only_voter(self) -> bool:
        return self.is_voter and len(self.voters.voters) == 1

    @property
    def known_leader_id(self) -> int | None:
        """The leader of the epoch; not this replica unless it leads now."""
        leader_id = self.role.leader_id
        return None if leader_id == self.local.id and not isinstance(self.role, Leader) else leader_id

    def leader_view(self) -> LeaderView:
        """The leader as responses report it."""
        leader_id = self.known_leader_id
        if leader_id is None:
            return LeaderView(messages.UNKNOWN, self.epoch, None, self.identity.topic)
        if isinstance(self.role, Leader):
            target = self._own_target(self.identity.listener)
        else:
            target = self.role.target if isinstance(self.role, Follower | Prospective) else self.target_of(leader_id)
        return LeaderView(leader_id, self.epoch, target, self.identity.topic)

    def view_for(self, request: type[Message], arrival: Arrival) -> LeaderView:
        """The same for who has asked: the leader's address is that of the listener by which the request came, and left
        out where the response to the request's version has no room for it.
        """
        view = self.leader_view()
        if arrival.version < messages.ENDPOINTS_FROM.get(request, 0):
            return view._replace(target=None)
        if arrival.listener in (None, self.identity.listener):
            return view
        return view._replace(target=self._own_target(arrival.listener) if isinstance(self.role, Leader) else None)

    def _own_target(self, listener: str | None) -> Target | None:
        """Where a controller listener of this replica is."""
        own = next((each for each in self.identity.endpoints if each.name == listener), None)
        return None if own is None else Target(self.local.id, own.host, own.port, own.name)

    def partition_of(self, message: Any) -> Any | None:
        """The one partition of a request or response; None if it is about anything else than this quorum's log."""
        return messages.partition_of(message, self.identity.topic)

    def target_of(self, voter_id: int) -> Target | None:
        """Where a voter is reached, by the newest set."""
        voter = self.voters.voters.get(voter_id)
        endpoint = None if voter is None else voter.endpoint(self.identity.listener)
        return None if endpoint is None else Target(voter_id, endpoint.host, endpoint.port, endpoint.name)

    @property
    def committed_offset(self) -> int:
        """The offset below which everything is known to be committed, from the high watermark or a snapshot."""
        snapshot = self.log.newest_snapshot
        return max(self.high_watermark or 0, 0 if snapshot is None else snapshot.end_offset)

    # Effects

    def emit(self, effect: Effect) -> None:
        """Returns an effect with this event, or holds it back until the election's state is on disk."""
        if self._persisting and isinstance(effect, Call | Answer):
            self._held.append(effect)
            if len(self._held) > RAFT_HELD_BACK_MAX:
                self._drop_oldest_answer()
        else:
            self.effects.append(effect)

    def _drop_oldest_answer(self) -> None:
        """Nobody waits for it any more. Of calls there is only one to each node."""
        oldest = next((number for number, each in enumerate(self._held) if isinstance(each, Answer)), None)
        if oldest is not None:
            del self._held[oldest]

    def take_effects(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects

    def answer(self, token: object, response: Message) -> None:
        self.emit(Answer(token, response))

    def refuse_fetch(self, error: ErrorCode, arrival: Arrival, token: object) -> None:
        partition = PartitionData(error_code=error, high_watermark=messages.UNKNOWN)
        self.answer(token, messages.fetch_answer(self.view_for(FetchRequest, arrival), partition))

    def persist(self) -> None:
        """Has the role's election state made durable, if it is not what `quorum-state` says.

        An event that comes to several, such as a new epoch and then a vote in it, has only the last one written.
        """
        state = self.role.election()
        if state != self._election:
            self._election = state
            earlier = [each for each in self.effects if isinstance(each, PersistElection)]
            for each in earlier:
                self.effects.remove(each)
                self._persisting.remove(each.state)
            if self.no_room:  # of those that wait for room only the last is written
                del self._persisting[1:]
            self._persisting.append(state)
            self.effects.append(PersistElection(state))

    def persisted(self, state: ElectionState) -> bool:
        """Whether this state was awaited. When nothing more is on its way to the disk, everything held back leaves."""
        if state not in self._persisting:
            return False
        del self._persisting[: self._persisting.index(state) + 1]
        if not self._persisting:
            held, self._held = self._held, []
            self.effects += held
        return True

    def tell_leader(self) -> None:
        """Tells the node about a change of the leader."""
        now = (self.known_leader_id, self.epoch)
        if now != self._told:
            self._told = now
            self.effects.append(LeaderChanged(*now))

    def fail(self, reason: str) -> None:
        """The replica cannot go on without breaking a promise: an operator must look."""
        self.fault = self.fault or reason

    # Calls

    def call(self, target: Target, request: Message) -> None:
        """Sends a request, the only one to this node in this role."""
        assert target.node_id not in self.channels.busy, "one request at a time"
        self._next_call += 1
        self.channels.busy[target.node_id] = self._next_call
        self.calls[self._next_call] = Outstanding(target, request, self.turn)
        self.emit(Call(self._next_call, target, request, self.config.request_timeout_ms))

    def ended(self, call: int, now_ms: int, *, failed: bool) -> Outstanding | None:
        """Returns a call that has ended; None if it is unknown. After a failure the node is not asked for a while."""
        outstanding = self.calls.pop(call, None)
        if outstanding is None:
            return None
        node_id = outstanding.target.node_id
        if self.channels.busy.get(node_id) == call:
            del self.channels.busy[node_id]
            self.channels.ask_next_ms = min(self.channels.ask_next_ms, now_ms + self.config.retry_backoff_ms)
            if failed:
                self.back_off(node_id, now_ms, self.config.retry_backoff_ms)
        return outstanding

    def back_off(self, node_id: int, now_ms: int, pause_ms: int) -> None:
        ready_ms = self.channels.ready_ms
        ready_ms[node_id] = max(ready_ms.get(node_id, 0), now_ms + pause_ms)

    def discover_leader(self, now_ms: int, *, besides: int | None = None) -> int | None:
        """Asks one node after the other for the leader, with a fetch; returns when to be called again, None if no node
        can be asked.

        The next is asked soon after one that did not know it, and after a while if one is silent; no node is asked
        again before DISCOVERY_INTERVAL_RETRIES back-offs. `besides` is a node that is asked already.
        """
        targets = [each for each in self._who_may_know() if each.node_id not in (self.local.id, besides)]
        channels = self.channels
        if not targets or now_ms < channels.ask_next_ms:
            return channels.ask_next_ms if targets else None
        waits = [channels.wait_ms(target.node_id, now_ms) for target in targets]
        if 0 not in waits:
            return min((now_ms + wait_ms for wait_ms in waits if wait_ms is not None), default=None)
        first = self._next_asked % len(targets)
        order = [*range(first, len(targets)), *range(first)]
        chosen = next(number for number in order if waits[number] == 0)
        self._next_asked = chosen + 1
        target = targets[chosen]
        interval_ms = DISCOVERY_INTERVAL_RETRIES * self.config.retry_backoff_ms
        channels.ask_next_ms = now_ms + interval_ms
        self.back_off(target.node_id, now_ms, interval_ms)
        self.call(target, self.fetch_request(max_wait_ms=0))
        return channels.ask_next_ms

    def _who_may_know(self) -> list[Target]:
        """The voters, and the bootstrap servers: all voters may have moved since the log was written."""
        targets = [target for voter_id in self.voters.voters if (target := self.target_of(voter_id)) is not None]
        known = {(target.host, target.port) for target in targets}
        known |= {(own.host, own.port) for own in self.identity.endpoints}
        return targets + [each for each in self.identity.bootstrap if (each.host, each.port) not in known]

    def fetch_request(self, max_wait_ms: int) -> Message:
        """A fetch from where this replica's log ends."""
        return messages.fetch(
            self.identity.cluster_id,
            self.local,
            self.epoch,
            offset=self.log.end_offset,
            last_epoch=self.log.last_epoch,
            high_watermark=self.high_watermark,
            max_wait_ms=max_wait_ms,
            max_bytes=self.config.fetch_max_bytes,
            topic=self.identity.topic,
        )

    # Roles

    def election_deadline_ms(self, now_ms: int) -> int:
        """A random time one to two election timeouts from now, so that voters do not all become candidates at once."""
        timeout_ms = self.config.election_timeout_ms
        return now_ms + timeout_ms + (self.random.randrange(timeout_ms) if timeout_ms else 0)

    def _become(self, role: Role, now_ms: int) -> None:
        assert role.epoch >= self.role.epoch, "epochs only rise"
        previous, self.role = self.role, role
        if isinstance(previous, Follower):  # a later epoch does not end what its leader may still count on
            self.leased_until_ms = max(self.leased_until_ms, previous.leased_until_ms)
        self.turn += 1
        self.channels = Channels()
        self.persist()
        if isinstance(previous, Leader):
            for parked in previous.parked:
                self.refuse_fetch(ErrorCode.NOT_LEADER_OR_FOLLOWER, parked.arrival, parked.token)
        self.tell_leader()

    def become_unattached(self, epoch: int, now_ms: int, *, leader_id: int | None = None) -> None:
        """Becomes unattached in `epoch`. The vote in the epoch stays; a running deadline keeps running."""
        role = self.role
        voted = role.election().voted if epoch == role.epoch else None
        if epoch == role.epoch and leader_id is None:
            leader_id = role.election().leader_id
        deadline_ms = role.deadline_ms if isinstance(role, Unattached) else self.election_deadline_ms(now_ms)
        self._become(Unattached(epoch, deadline_ms, voted, leader_id), now_ms)

    def become_prospective(self, now_ms: int) -> None:
        """Begins to ask whether it would be elected; the only voter becomes a candidate at once."""
        if self.is_only_voter:
            self.become_candidate(now_ms)
            return
        role = self.role
        target = role.target if isinstance(role, Follower) else None
        known = role.election()
        ballot = Ballot({self.local.id})
        self._become(
            Prospective(role.epoch, self.election_deadline_ms(now_ms), known.voted, known.leader_id, target, ballot),
            now_ms,
        )

    def become_candidate(self, now_ms: int) -> None:
        """Stands in a new epoch."""
        assert self.may_stand, "only voters stand"
        assert not self.stopping, "who stops does not stand"
        self._become(Candidate(self.epoch + 1, self.local, self.election_deadline_ms(now_ms)), now_ms)

    def become_follower(self, epoch: int, leader_id: int, target: Target, now_ms: int) -> None:
        assert leader_id != self.local.id, "nobody follows himself"
        role = Follower(epoch, leader_id, target, now_ms + self.config.fetch_timeout_ms)
        role.update_voter_due_ms = now_ms + self.config.fetch_timeout_ms
        self._become(role, now_ms)

    def become_leader(self, now_ms: int) -> Leader:
        role = self.role
        assert isinstance(role, Candidate), "only a candidate is elected"
        leader = Leader(
            role.epoch,
            self.local,
            tuple(sorted(role.ballot.granted)),
            self.log.end_offset,
            now_ms + self.config.check_quorum_timeout_ms,
            now_ms,
        )
        leader.set_voters(self.voters)
        if self.history.kraft_version == 0 and self.is_voter:
            endpoints = self.identity.endpoints or self.voters.voters[self.local.id].endpoints
            leader.reported = self.voters.with_voter(Voter(self.local, endpoints))
        self._become(leader, now_ms)
        return leader

    def become_resigned(self, now_ms: int) -> None:
        """Stops leading and tells the others, in the order in which they should stand: the longest log first."""
        role = self.role
        assert isinstance(role, Leader), "only a leader resigns"
        others = [each for voter_id, each in role.voters.items() if voter_id != self.local.id]
        others.sort(key=lambda each: -each.end_offset)
        successors = tuple(each.key for each in others)
        deadline_ms = self.election_deadline_ms(now_ms)
        ids = {each.id for each in successors}
        self._become(Resigned(role.epoch, self.local, deadline_ms, successors, ids), now_ms)

    # News of other epochs

    def hear(
        self, leader_id: int, epoch: int, target: Target | None, now_ms: int, *, from_leader: bool = False
    ) -> bool:
        """Handles the news of an epoch's leader. True if it changed this replica's role.

        A leader without a known address, or that is said to be this replica although it does not lead, counts as none.
        A Prospective knows its leader and could not reach it: only the leader itself (`from_leader`) has news for it.
        """
        if epoch < self.epoch:
            return False
        known = leader_id >= 0 and leader_id != self.local.id
        if known and epoch == self.epoch and self.role.election().leader_id not in (None, leader_id):
            return False  # an epoch has one leader, and this replica knows it
        moved = known and self._has_moved(leader_id, epoch, target, from_leader=from_leader)
        if known and target is None:
            target = self.target_of(leader_id)
        if known and target is not None:
            if epoch > self.epoch or moved or self._wants_leader(from_leader=from_leader):
                self.become_follower(epoch, leader_id, target, now_ms)
                return True
        elif epoch > self.epoch:
            self.become_unattached(epoch, now_ms, leader_id=leader_id if known else None)
            return True
        return False

    def _wants_leader(self, *, from_leader: bool) -> bool:
        """Whether this replica has no leader to follow in its epoch."""
        role = self.role
        if isinstance(role, Prospective):
            return from_leader or role.leader_id is None
        return isinstance(role, Unattached | Candidate)

    def _has_moved(self, leader_id: int, epoch: int, target: Target | None, *, from_leader: bool) -> bool:
        """Whether the leader that this replica follows, without getting answers, is at another address.

        The log may contain an old address; the leader and those that fetch from it know better.
        """
        role = self.role
        if not isinstance(role, Follower) or (role.epoch, role.leader_id) != (epoch, leader_id) or target is None:
            return False
        return target != role.target and (role.suspected or (from_leader and not role.has_fetched))

    def hear_news(self, news: News, now_ms: int) -> bool:
        """Like `hear`, for a response. True if the response has no further meaning for this replica's role."""
        if news.epoch < self.epoch or news.error == ErrorCode.UNKNOWN_LEADER_EPOCH:
            return True
        changed = self.hear(news.leader_id, news.epoch, news.target, now_ms)
        return changed or news.error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
