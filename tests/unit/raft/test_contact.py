"""Since when a leader knows of a majority, and what a voter that has an answer of it promises meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.raft.replica_harness import CLUSTER, Quorum, error, granted, key_of, vote

from penstock.errors import ErrorCode
from penstock.protocol.message import ZERO_UUID
from penstock.raft import messages
from penstock.raft.config import RaftConfig
from penstock.raft.states import Progress
from penstock.raft.voters import ReplicaKey

LEASE_MS = 400
CONFIG = RaftConfig(lease_ms=LEASE_MS, leader_grace_ms=600, fetch_wait_max_ms=100, start_election_ms=LEASE_MS)


def contact_age_ms(quorum: Quorum, node_id: int) -> int | None:
    one = quorum.ones[node_id]
    contact_ms = one.replica.majority_contact_ms(one.now_ms)
    return contact_ms if contact_ms is None or contact_ms < 0 else one.now_ms - contact_ms


def led(config: RaftConfig = CONFIG) -> tuple[Quorum, int, list[int]]:
    """A quorum that has a leader, its id, and those of the others."""
    quorum = Quorum(config=config)
    quorum.start()
    quorum.pass_ms(4_000)
    leader_id = quorum.leader.key.id
    return quorum, leader_id, [each for each in quorum.ones if each != leader_id]


def test_a_leader_that_is_followed_has_heard_of_a_majority_lately() -> None:
    quorum, leader_id, others = led()
    for _ in range(50):
        quorum.pass_ms(20)
        age_ms = contact_age_ms(quorum, leader_id)
        assert age_ms is not None
        assert 0 <= age_ms <= 2 * CONFIG.fetch_wait_max_ms + 20
    assert [contact_age_ms(quorum, each) for each in others] == [None, None]


def test_one_follower_of_two_is_a_majority_and_none_is_not() -> None:
    quorum, leader_id, (first, second) = led()
    quorum.cut.add(first)
    quorum.pass_ms(1_000)
    assert (contact_age_ms(quorum, leader_id) or 0) < LEASE_MS
    quorum.cut.add(second)
    quorum.pass_ms(500)
    assert (contact_age_ms(quorum, leader_id) or 0) >= 500 - 2 * CONFIG.fetch_wait_max_ms


def test_a_new_leader_knows_of_nobody_before_a_second_fetch() -> None:
    """The first may have been on its way for long, and was sent to say that its sender has heard of no leader yet."""
    quorum, leader_id, _ = led()
    one = quorum.ones[leader_id]
    role = one.replica.role
    for each in role.voters.values():  # type: ignore[union-attr]
        each.answered_ms = each.contact_ms = -1
    assert contact_age_ms(quorum, leader_id) == -1
    for each in list(role.voters.values()):  # type: ignore[union-attr]
        if each.key.id != leader_id:
            each.fetched(one.log.end_offset, one.log.end_offset, None, one.now_ms)
    assert contact_age_ms(quorum, leader_id) == -1


def test_an_answer_that_may_be_lost_is_no_contact() -> None:
    """Its replica may have connected anew without it, fetched, and given up this leader while that fetch waited."""
    progress = Progress(ReplicaKey(2, ZERO_UUID))
    progress.fetched(5, 5, "first link", 100)
    progress.answered("first link", 200)
    progress.fetched(5, 5, "first link", 210)
    assert progress.contact_ms == 200
    progress.answered("first link", 900)
    progress.fetched(5, 5, "second link", 901)
    assert progress.contact_ms == 200, "nobody knows whether the answer of 900 has arrived"
    progress.answered("second link", 950)
    progress.fetched(5, 5, "second link", 960)
    assert progress.contact_ms == 950


def test_the_only_voter_needs_nobody() -> None:
    quorum = Quorum(ids=(1,))
    quorum.start()
    quorum.pass_ms(100)
    assert contact_age_ms(quorum, 1) == 0


def asks_for_votes(quorum: Quorum, node_id: int, candidate: int) -> bool:
    """Whether a voter would grant a pre-vote of the epoch that it knows."""
    one = quorum.ones[node_id]
    last = (one.log.last_epoch, one.log.end_offset)
    return granted(one.ask(vote(candidate, one.replica.epoch, last=last, pre=True, voter=node_id), token=object()))


@pytest.mark.parametrize("lease_ms", [0, LEASE_MS])
def test_who_suspects_its_leader_grants_nothing_within_the_lease(lease_ms: int) -> None:
    config = RaftConfig(lease_ms=lease_ms, leader_grace_ms=600, fetch_wait_max_ms=100)
    quorum, leader_id, (first, second) = led(config)
    quorum.cut.add(leader_id)
    one = quorum.ones[first]
    quorum.act(first, one.do(one.replica.leader_link_lost(one.now_ms)))
    assert asks_for_votes(quorum, first, second) == (lease_ms == 0)
    quorum.cut.update((first, second))
    one.now_ms += LEASE_MS
    assert asks_for_votes(quorum, first, second)


@pytest.mark.parametrize("lease_ms", [0, LEASE_MS])
@pytest.mark.parametrize("pre", [False, True])
def test_a_later_epoch_does_not_end_what_a_leader_may_count_on(lease_ms: int, pre: bool) -> None:
    """A candidate may have had the pre-votes before its voters heard of the leader again, or an epoch in vain."""
    quorum, _, (first, second) = led(replace(CONFIG, lease_ms=lease_ms))
    quorum.cut.update(quorum.ones)
    one = quorum.ones[first]
    epoch, last = one.replica.epoch + 1, (one.log.last_epoch, one.log.end_offset)

    def grants(epoch: int) -> bool:
        return granted(one.ask(vote(second, epoch, last=last, pre=pre, voter=first), token=object()))

    assert grants(epoch) == (lease_ms == 0)
    one.now_ms += LEASE_MS
    assert grants(epoch + 1)


def test_a_leader_that_resigns_ends_its_lease() -> None:
    quorum, leader_id, (first, second) = led()
    quorum.cut.update(quorum.ones)
    one = quorum.ones[first]
    epoch, last = one.replica.epoch, (one.log.last_epoch, one.log.end_offset)
    end = messages.end_quorum_epoch(CLUSTER, leader_id, epoch, (key_of(second), key_of(first)), ())
    assert error(one.ask(end, token=object())) == ErrorCode.NONE
    assert asks_for_votes(quorum, first, second)
    assert granted(one.ask(vote(second, epoch + 1, last=last, voter=first), token=object()))


def test_a_leader_whose_process_has_ended_has_no_lease() -> None:
    quorum, leader_id, (first, second) = led()
    quorum.cut.add(leader_id)
    one = quorum.ones[first]
    quorum.act(first, one.do(one.replica.leader_gone(one.now_ms)))
    assert asks_for_votes(quorum, first, second)


@pytest.mark.parametrize("lease_ms", [0, LEASE_MS])
def test_who_has_just_started_grants_nothing_before_a_lease_is_over(lease_ms: int) -> None:
    quorum = Quorum(config=RaftConfig(lease_ms=lease_ms))
    quorum.cut.update(quorum.ones)
    quorum.start()
    assert asks_for_votes(quorum, 1, 2) == (lease_ms == 0)
    quorum.ones[1].now_ms += LEASE_MS
    assert asks_for_votes(quorum, 1, 2)
