"""Elections: who asks for votes, who gets one, and how an epoch begins and ends (KIP-595 "Vote", KIP-996).

A voter votes for one candidate in an epoch, and only if the candidate's log is at least as long as its own. The vote is
durable before it is answered (`raft/election.py`). A pre-vote changes nothing: it is granted to a replica that could be
elected, unless this one hears from a leader. So a replica that was cut off, or has just come back, does not raise the
epoch or depose the leader.
"""

from __future__ import annotations

from penstock.errors import ErrorCode
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from penstock.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from penstock.protocol.messages.vote_request import PartitionData, VoteRequest
from penstock.raft import messages
from penstock.raft.core import Core
from penstock.raft.effects import Target
from penstock.raft.states import Arrival, Ballot, Candidate, Follower, Leader, Prospective, Resigned, Unattached
from penstock.raft.voters import ReplicaKey

BACKOFF_DOUBLINGS_MAX = 20


class Elections:
    """The part of a replica that runs elections, as a candidate and as a voter."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._retries = 0

    # Requests

    def on_vote(self, request: VoteRequest, arrival: Arrival, now_ms: int, token: object) -> None:
        """Vote, versions 0-2; version 2 adds the pre-vote."""
        core = self._core
        partition: PartitionData | None = core.partition_of(request)
        if partition is None:
            core.answer(token, messages.refusal(request, ErrorCode.INVALID_REQUEST))
            return
        error, granted = self._vote(request, partition, now_ms)
        core.answer(token, messages.vote_answer(error, core.view_for(type(request), arrival), granted=granted))

    def _vote(self, request: VoteRequest, asked: PartitionData, now_ms: int) -> tuple[ErrorCode, bool]:
        core = self._core
        later = asked.last_offset_epoch > asked.replica_epoch
        if asked.last_offset < 0 or asked.last_offset_epoch < 0 or asked.replica_id < 0 or later:
            return ErrorCode.INVALID_REQUEST, False
        if not asked.pre_vote and asked.last_offset_epoch == asked.replica_epoch:
            return ErrorCode.INVALID_REQUEST, False
        if asked.replica_epoch < core.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH, False
        if asked.replica_epoch > core.epoch:
            core.become_unattached(asked.replica_epoch, now_ms)
        if not self._is_meant(request.voter_id, asked.voter_directory_id):
            return ErrorCode.INVALID_VOTER_KEY, False
        candidate = ReplicaKey(asked.replica_id, asked.replica_directory_id)
        log_is_long_enough = (asked.last_offset_epoch, asked.last_offset) >= (core.log.last_epoch, core.log.end_offset)
        if asked.pre_vote:
            return ErrorCode.NONE, log_is_long_enough and not self._hears_leader(now_ms)
        return ErrorCode.NONE, self._grant(candidate, log_is_long_enough=log_is_long_enough, now_ms=now_ms)

    def _hears_leader(self, now_ms: int) -> bool:
        """Whether this replica leads, or has had an answer from the leader that it follows (KIP-996).

        One that suspects its leader to be gone does not speak for it, unless the leader may still count on it. Nor does
        one that has gone on to a later epoch, or has just started: a leader from before may count on it as long.
        """
        role = self._core.role
        if now_ms < self._core.leased_until_ms:
            return True
        if isinstance(role, Follower):
            return role.has_fetched and (not role.suspected or now_ms < role.leased_until_ms)
        return isinstance(role, Leader)

    def _grant(self, candidate: ReplicaKey, *, log_is_long_enough: bool, now_ms: int) -> bool:
        """Whether the candidate has this replica's vote of the epoch, which may be given now."""
        core = self._core
        role = core.role
        if isinstance(role, Unattached | Prospective) and role.leader_id is None:
            if role.voted is not None:
                return role.voted.id == candidate.id and role.voted.directory_id in (ZERO_UUID, candidate.directory_id)
            if log_is_long_enough and core.identity.stands and now_ms >= core.leased_until_ms:
                if isinstance(role, Prospective):
                    core.become_unattached(role.epoch, now_ms)
                    role = core.role
                    assert isinstance(role, Unattached)
                role.voted = candidate
                role.deadline_ms = core.election_deadline_ms(now_ms)
                core.persist()
                return True
        return False

    def _is_meant(self, voter_id: int, directory_id: object) -> bool:
        """Whether a request that names its receiver names this replica; versions before 1 name none."""
        local = self._core.local
        known = directory_id not in (ZERO_UUID, local.directory_id)
        return voter_id in (messages.UNKNOWN, local.id) and not known

    def on_begin(self, request: BeginQuorumEpochRequest, arrival: Arrival, now_ms: int, token: object) -> None:
        """BeginQuorumEpoch, versions 0-1: the leader announces itself to those that do not fetch from it."""
        core = self._core
        asked = core.partition_of(request)
        if asked is None:
            core.answer(token, messages.refusal(request, ErrorCode.INVALID_REQUEST))
            return
        error = self._leader_error(asked.leader_id, asked.leader_epoch)
        if error == ErrorCode.NONE:
            target = self._leader_target(request, asked.leader_id)
            core.hear(asked.leader_id, asked.leader_epoch, target, now_ms, from_leader=True)
            if not self._is_meant(request.voter_id, asked.voter_directory_id):
                error = ErrorCode.INVALID_VOTER_KEY
        core.answer(token, messages.begin_answer(error, core.view_for(type(request), arrival)))

    def on_end(self, request: EndQuorumEpochRequest, arrival: Arrival, now_ms: int, token: object) -> None:
        """EndQuorumEpoch, versions 0-1: the leader resigns; the first of its successors need not wait."""
        core = self._core
        asked = core.partition_of(request)
        if asked is None:
            core.answer(token, messages.refusal(request, ErrorCode.INVALID_REQUEST))
            return
        error = self._leader_error(asked.leader_id, asked.leader_epoch)
        if error == ErrorCode.NONE:
            core.hear(asked.leader_id, asked.leader_epoch, self._leader_target(request, asked.leader_id), now_ms)
            if isinstance(core.role, Follower) and core.role.leader_id == asked.leader_id:
                candidates = [ReplicaKey(each.candidate_id, each.candidate_directory_id)
                              for each in asked.preferred_candidates]  # fmt: skip
                candidates = candidates or [ReplicaKey(each) for each in asked.preferred_successors]
                core.role.fetch_deadline_ms = now_ms + self._succession_ms(candidates)
                core.role.has_fetched = False
                core.role.leased_until_ms = -1
        core.answer(token, messages.end_answer(error, core.view_for(type(request), arrival)))

    def _succession_ms(self, candidates: list[ReplicaKey]) -> int:
        """How long to leave the election to the successors before this replica; the last waits longest."""
        local, longest_ms = self._core.local, self._core.config.election_backoff_max_ms
        for position, candidate in enumerate(candidates):
            if candidate.id == local.id and candidate.directory_id in (ZERO_UUID, local.directory_id):
                return 0 if position == 0 else min(longest_ms, (longest_ms >> (len(candidates) - 1)) << (position - 1))
        return longest_ms

    def _leader_error(self, leader_id: int, epoch: int) -> ErrorCode:
        """INVALID_REQUEST also where the epoch has another leader, or this replica is said to lead it and does not."""
        core = self._core
        if epoch < core.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        known = core.role.election().leader_id
        contradicts = leader_id == core.local.id or (epoch == core.epoch and known not in (None, leader_id))
        return ErrorCode.INVALID_REQUEST if leader_id < 0 or contradicts else ErrorCode.NONE

    def _leader_target(self, request: BeginQuorumEpochRequest | EndQuorumEpochRequest, leader_id: int) -> Target | None:
        listener = self._core.identity.listener
        found = next((each for each in request.leader_endpoints if each.name == listener), None)
        return None if found is None else Target(leader_id, found.host, found.port, listener)

    # Answers

    def vote_answered(self, voter_id: int, response: object, *, pre_vote: bool, current: bool, now_ms: int) -> None:
        """A voter has answered. `current`: this replica is still in the role in which it asked."""
        core = self._core
        partition = core.partition_of(response)
        if partition is None:
            core.back_off(voter_id, now_ms, core.config.election_timeout_ms)
            unsupported = getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.UNSUPPORTED_VERSION
            if pre_vote and current and unsupported:  # before Kafka 4.0: who knows no pre-votes refuses none
                self._record(voter_id, granted=True, now_ms=now_ms)
            return
        news = messages.news_of(response, partition, core.identity.listener)
        if core.hear_news(news, now_ms) or not current or news.error != ErrorCode.NONE:
            core.back_off(voter_id, now_ms, core.config.retry_backoff_ms)
            if current and news.error == ErrorCode.INVALID_VOTER_KEY:
                self._record(voter_id, granted=False, now_ms=now_ms)
            return
        assert isinstance(core.role, Prospective if pre_vote else Candidate)
        self._record(voter_id, granted=partition.vote_granted, now_ms=now_ms)

    def _record(self, voter_id: int, *, granted: bool, now_ms: int) -> None:
        core = self._core
        role = core.role
        if not isinstance(role, Prospective | Candidate):
            return
        (role.ballot.granted if granted else role.ballot.rejected).add(voter_id)
        self._count(role, now_ms)

    def vote_failed(self, voter_id: int, *, current: bool, now_ms: int) -> None:
        """A voter could not be asked. A candidate that can no longer get a majority soon starts again.

        Otherwise, when a leader has died, a split vote would cost a whole election timeout.
        """
        role = self._core.role
        if current and isinstance(role, Candidate):
            role.ballot.unreachable.add(voter_id)
            self._count(role, now_ms)

    def _count(self, role: Prospective | Candidate, now_ms: int) -> None:
        core = self._core
        if isinstance(role, Prospective):
            if core.voters.is_majority(role.ballot.granted):
                core.become_candidate(now_ms)
            elif role.ballot.lost(core.voters):
                self._give_up(role, now_ms)
        elif role.ballot.lost(core.voters) and not role.backing_off:
            self._back_off(role, now_ms)

    def own_vote_persisted(self) -> None:
        """The candidate's vote for itself is on disk, and counts."""
        role = self._core.role
        if isinstance(role, Candidate):
            role.ballot.granted.add(self._core.local.id)

    @property
    def elected(self) -> bool:
        """Whether this candidate has its own vote on disk and a majority of all."""
        role = self._core.role
        return (
            isinstance(role, Candidate)
            and self._core.local.id in role.ballot.granted
            and self._core.voters.is_majority(role.ballot.granted)
        )

    def led(self) -> None:
        """Resets the back-off once an election has succeeded."""
        self._retries = 0

    # Time

    def poll(self, now_ms: int) -> int | None:
        """Stands, asks for votes, or gives up, when it is time. Returns when to be called again."""
        core = self._core
        role = core.role
        if isinstance(role, Unattached):
            return self._poll_unattached(role, now_ms)
        if isinstance(role, Prospective | Candidate):
            if now_ms >= role.deadline_ms:
                self._election_over(role, now_ms)
                return now_ms
            if isinstance(role, Candidate) and (role.backing_off or core.local.id not in role.ballot.granted):
                return role.deadline_ms
            return min(role.deadline_ms, self._ask(role.ballot, pre_vote=isinstance(role, Prospective), now_ms=now_ms))
        if isinstance(role, Resigned):
            return self._poll_resigned(role, now_ms)
        return None

    def _poll_unattached(self, role: Unattached, now_ms: int) -> int | None:
        core = self._core
        if core.may_stand and not core.stopping and not core.held_up:
            if now_ms >= role.deadline_ms:
                core.become_prospective(now_ms)
                return now_ms
            again_ms = core.discover_leader(now_ms)
            return role.deadline_ms if again_ms is None else min(again_ms, role.deadline_ms)
        return None if core.stopping else core.discover_leader(now_ms)

    def _ask(self, ballot: Ballot, *, pre_vote: bool, now_ms: int) -> int:
        """Sends the vote requests that are due; returns when the next is."""
        core = self._core
        next_ms = now_ms + core.config.election_timeout_ms
        for voter_id in ballot.unrecorded(core.voters):
            target = core.target_of(voter_id)
            wait_ms = core.channels.wait_ms(voter_id, now_ms)
            if target is None or wait_ms is None or voter_id == core.local.id:
                continue
            if wait_ms:
                next_ms = min(next_ms, now_ms + wait_ms)
                continue
            core.call(
                target,
                messages.vote(
                    core.identity.cluster_id,
                    core.local,
                    core.voters.voters[voter_id].key,
                    core.epoch,
                    last_epoch=core.log.last_epoch,
                    end_offset=core.log.end_offset,
                    pre_vote=pre_vote,
                    topic=core.identity.topic,
                ),
            )
        return next_ms

    def _election_over(self, role: Prospective | Candidate, now_ms: int) -> None:
        core = self._core
        if isinstance(role, Prospective):
            self._give_up(role, now_ms)
        elif not role.backing_off:
            self._back_off(role, now_ms)
        elif core.may_stand and not core.stopping and not core.held_up:
            core.become_prospective(now_ms)
        else:
            core.become_unattached(role.epoch, now_ms)

    def _give_up(self, role: Prospective, now_ms: int) -> None:
        """Nobody would elect it: continues with the leader that it knew of, or without one."""
        core = self._core
        if role.leader_id is not None and role.target is not None:
            core.become_follower(role.epoch, role.leader_id, role.target, now_ms)
        else:
            core.become_unattached(role.epoch, now_ms)

    def _back_off(self, role: Candidate, now_ms: int) -> None:
        """The election is lost: pauses for a random time, which doubles each time, so that one of several wins."""
        config = self._core.config
        doublings = min(BACKOFF_DOUBLINGS_MAX, self._retries)
        self._retries += 1
        pause_ms = config.retry_backoff_ms * self._core.random.randrange(2 << doublings)
        role.backing_off = True
        role.deadline_ms = now_ms + min(pause_ms, config.election_backoff_max_ms)

    def _poll_resigned(self, role: Resigned, now_ms: int) -> int | None:
        core = self._core
        if now_ms >= role.deadline_ms:
            if core.stopping:
                role.unacknowledged.clear()  # who has not heard of it by now hears the connection break
                return None
            core.become_unattached(role.epoch, now_ms)
            return now_ms
        next_ms = role.deadline_ms
        for voter_id in sorted(role.unacknowledged):
            target, wait_ms = core.target_of(voter_id), core.channels.wait_ms(voter_id, now_ms)
            if target is None or wait_ms is None:
                continue
            if wait_ms:
                next_ms = min(next_ms, now_ms + wait_ms)
                continue
            endpoints = core.identity.endpoints
            request = messages.end_quorum_epoch(
                core.identity.cluster_id,
                core.local.id,
                role.epoch,
                role.successors,
                endpoints,
                topic=core.identity.topic,
            )
            core.call(target, request)
        return None if core.stopping and not role.unacknowledged else next_ms

    def end_answered(self, voter_id: int, response: object, *, current: bool, now_ms: int) -> None:
        """A voter has heard of the resignation."""
        core = self._core
        partition = core.partition_of(response)
        if partition is None:
            core.back_off(voter_id, now_ms, core.config.election_timeout_ms)
            return
        news = messages.news_of(response, partition, core.identity.listener)
        core.back_off(voter_id, now_ms, core.config.retry_backoff_ms)
        if not core.hear_news(news, now_ms) and current and isinstance(core.role, Resigned):
            core.role.unacknowledged.discard(voter_id)

    def end_failed(self, voter_id: int) -> None:
        """A voter cannot be told of the resignation. A replica that stops does not wait for it."""
        role = self._core.role
        if self._core.stopping and isinstance(role, Resigned):
            role.unacknowledged.discard(voter_id)
