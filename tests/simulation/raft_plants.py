"""Bugs to plant in the quorum, each a change of one rule of the protocol. The simulator must find every one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import ErrorCode
from penstock.log.operations import Flush
from penstock.log.recovery import Recovery
from penstock.protocol.messages.vote_request import PartitionData
from penstock.raft import operations
from penstock.raft.core import Core
from penstock.raft.effects import Effect
from penstock.raft.elections import Elections
from penstock.raft.following import Following
from penstock.raft.history import QuorumHistory
from penstock.raft.leading import Leading
from penstock.raft.membership import Membership
from penstock.raft.states import Candidate, Follower, Leader, Parked, Prospective, Unattached
from penstock.raft.voters import ReplicaKey, VoterSet

Plant = Callable[[pytest.MonkeyPatch], None]
PLANTS: dict[str, Plant] = {}
CAUGHT_BY = {
    "a_follower_fetches_beyond_its_disk": 1,
    "a_leader_counts_itself_before_its_disk": 7,
    "a_shorter_log_is_elected": 1,
    "a_stale_epoch_is_accepted": 1,
    "a_truncation_forgets_the_voters": 15,
    "a_truncation_is_skipped": 3,
    "a_vote_is_not_durable": 6,
    "a_vote_leaves_before_it_is_durable": 248,
    "a_wiped_voter_still_votes": 117,
    "an_answer_to_an_earlier_role_is_heeded": 15,
    "an_fsync_is_forgotten": 1,
    "an_older_record_is_committed_by_itself": 1,
    "half_is_a_majority": 1,
    "two_votes_an_epoch": 29,
    "voters_change_while_a_change_is_open": 9,
    "what_an_fsync_failed_to_write_is_trusted": 73,
}
"""The first seed that finds each; after a change of the world or the code, `test_planted_is_found_by_search` finds
others."""


def plant(function: Plant) -> Plant:
    PLANTS[function.__name__] = function
    return function


@plant
def a_vote_is_not_durable(patch: pytest.MonkeyPatch) -> None:
    """`quorum-state` is said to be written and is not."""
    patch.setattr(operations.PersistElection, "run", lambda operation, disk: None)


@plant
def what_an_fsync_failed_to_write_is_trusted(patch: pytest.MonkeyPatch) -> None:
    """The next process reads it from the page cache, has it fsynced again, and believes that."""
    patch.setattr(Recovery, "_write_again", lambda *_: None)


@plant
def a_vote_leaves_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    """Nothing is held back while `quorum-state` is on its way to the disk."""

    def emit(core: Core, effect: Effect) -> None:
        core.effects.append(effect)

    patch.setattr(Core, "emit", emit)


@plant
def two_votes_an_epoch(patch: pytest.MonkeyPatch) -> None:
    """A vote that was given is forgotten when the next candidate asks."""

    def grant(elections: Elections, candidate: ReplicaKey, *, log_is_long_enough: bool, now_ms: int) -> bool:
        core = elections._core
        if isinstance(core.role, Unattached) and core.role.leader_id is None and log_is_long_enough:
            core.role.voted = candidate
            core.persist()
            return True
        return False

    patch.setattr(Elections, "_grant", grant)


@plant
def a_shorter_log_is_elected(patch: pytest.MonkeyPatch) -> None:
    """Section 5.4.1: votes and pre-votes are given without a look at the logs."""
    real = Elections._vote

    def vote(elections: Elections, request: Any, asked: PartitionData, now_ms: int) -> tuple[ErrorCode, bool]:
        asked.last_offset, epoch = 2**60, asked.last_offset_epoch
        asked.last_offset_epoch = max(epoch, asked.replica_epoch - (0 if asked.pre_vote else 1))
        return real(elections, request, asked, now_ms)

    patch.setattr(Elections, "_vote", vote)


@plant
def a_stale_epoch_is_accepted(patch: pytest.MonkeyPatch) -> None:
    """A leader serves who fetches for an earlier epoch, and takes it for an acknowledgement; so does a follower."""

    def leader_error(leading: Leading, epoch: int) -> ErrorCode:
        return ErrorCode.NONE if isinstance(leading._core.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER

    real = Leading._position
    patch.setattr(Leading, "leader_error", leader_error)
    patch.setattr(Leading, "_position", lambda leading, offset, last_epoch: (
        real(leading, offset, last_epoch) if offset > leading._core.log.end_offset else None))  # fmt: skip


@plant
def an_older_record_is_committed_by_itself(patch: pytest.MonkeyPatch) -> None:
    """Section 5.4.2: a leader commits what a majority has, also of earlier epochs."""
    real = Leader.advance

    def advance(leader: Leader, voters: VoterSet) -> bool:
        start, leader.epoch_start_offset = leader.epoch_start_offset, -1
        try:
            return real(leader, voters)
        finally:
            leader.epoch_start_offset = start

    patch.setattr(Leader, "advance", advance)


@plant
def a_truncation_is_skipped(patch: pytest.MonkeyPatch) -> None:
    """Where the logs part is not looked at: a follower's log is taken for a prefix if it is not longer."""
    real = Leading._position

    def position(leading: Leading, offset: int, last_epoch: int) -> Any:
        log = leading._core.log
        if log.start_offset <= offset <= log.end_offset and (offset or log.newest_snapshot is None):
            return None
        return real(leading, offset, last_epoch)

    patch.setattr(Leading, "_position", position)
    patch.setattr(Following, "_truncate", lambda following, epoch, end_offset: True)


@plant
def an_fsync_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The log is said to be flushed and is not."""
    patch.setattr(Flush, "work", lambda flush, disk: None)


@plant
def a_follower_fetches_beyond_its_disk(patch: pytest.MonkeyPatch) -> None:
    """A follower asks for more before it has flushed what it got."""
    real = Following.poll

    def poll(following: Following, role: Follower, now_ms: int) -> int | None:
        following._core.flushed_offset = following._core.log.end_offset
        return real(following, role, now_ms)

    patch.setattr(Following, "poll", poll)


@plant
def a_leader_counts_itself_before_its_disk(patch: pytest.MonkeyPatch) -> None:
    """The leader's own log counts as soon as it is appended."""
    real = Leading._fetched

    def fetched(leading: Leading, fetch: Parked, now_ms: int) -> bool:
        core, leader = leading._core, leading._leader
        own = leader.voters.get(core.local.id)
        if own is not None:
            own.end_offset = core.log.end_offset
        return real(leading, fetch, now_ms)

    patch.setattr(Leading, "_fetched", fetched)


@plant
def half_is_a_majority(patch: pytest.MonkeyPatch) -> None:
    """An even number of voters decides by half of them."""
    patch.setattr(VoterSet, "majority", property(lambda voters: max(1, (len(voters.voters) + 1) // 2)))


@plant
def voters_change_while_a_change_is_open(patch: pytest.MonkeyPatch) -> None:
    """KIP-853: a change does not wait until the one before it is committed."""

    def refusal(membership: Membership, cluster_id: str | None) -> tuple[ErrorCode, str]:
        core = membership._core
        if not isinstance(core.role, Leader) or core.history.kraft_version == 0:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, ""
        membership._change = None
        return ErrorCode.NONE, ""

    patch.setattr(Membership, "_refusal", refusal)
    patch.setattr(Membership, "_is_caught_up", lambda membership, key, now_ms: True)


@plant
def a_truncation_forgets_the_voters(patch: pytest.MonkeyPatch) -> None:
    """The voters of a record that was cut off go on to count."""
    patch.setattr(QuorumHistory, "truncate", lambda history, end_offset: None)
    patch.setattr(
        QuorumHistory, "note_voters", lambda history, offset, voters: history._voters.append((offset, voters))
    )


@plant
def a_wiped_voter_still_votes(patch: pytest.MonkeyPatch) -> None:
    """Directory ids are not looked at: a voter that has lost its disk is taken for the one that voted."""
    patch.setattr(VoterSet, "__contains__", lambda voters, replica: replica.id in voters.voters)
    patch.setattr(Elections, "_is_meant", lambda elections, voter_id, directory_id: True)


@plant
def an_answer_to_an_earlier_role_is_heeded(patch: pytest.MonkeyPatch) -> None:
    """Grants that were given in an earlier election count in this one."""
    real = Elections.vote_answered

    def vote_answered(elections: Elections, voter_id: int, response: Any, **named: Any) -> None:
        role = elections._core.role
        if isinstance(role, Prospective | Candidate) and response.topics[0].partitions[0].vote_granted:
            elections._record(voter_id, granted=True, now_ms=named["now_ms"])
        else:
            real(elections, voter_id, response, **named)

    patch.setattr(Elections, "vote_answered", vote_answered)
