"""Who is in sync: when followers join and leave, and what holds while the controller decides."""

from __future__ import annotations

import pytest
from support.leader import LAG_MS, Leader
from support.requests import batch

from penstock.errors import ErrorCode
from penstock.protocol.messages.alter_partition_response import PartitionData as Altered
from penstock.protocol.messages.metadata.config_record import ConfigRecord
from penstock.replication.appends import Rejected
from penstock.replication.fetch_session import Session


def lone(**configs: str) -> Leader:
    """A leader that alone is in sync, at offset 3."""
    leader = Leader(in_sync=(1,), **configs)
    leader.appended(2)
    assert leader.partition.high_watermark == 3
    return leader


def test_a_follower_at_the_high_watermark_is_proposed_to_join() -> None:
    leader = lone()
    leader.followers_have(r2=2)
    assert leader.brokers.proposals == []
    leader.followers_have(r2=3)
    (proposal,) = leader.brokers.proposals
    assert proposal.isr == ((1, 101), (2, 102))
    assert proposal.added == (2,)
    leader.accept(proposal)
    assert leader.partition.isr.committed == (1, 2)
    assert leader.partition.isr.partition_epoch == 1


def test_a_follower_must_have_reached_the_start_of_the_leader_epoch() -> None:
    leader = Leader(in_sync=(1, 2, 3))
    leader.appended(2)
    leader.metadata(isr=(1, 2), new_epochs=1)
    assert (leader.partition.high_watermark, leader.partition.isr.epoch_start_offset) == (1, 3)
    leader.followers_have(r3=2)
    assert leader.brokers.proposals == [], "what the last leader committed may lie between"
    leader.followers_have(r3=3)
    assert len(leader.brokers.proposals) == 1


def test_the_high_watermark_waits_for_a_follower_that_is_being_added() -> None:
    leader = lone()
    leader.followers_have(r2=3)
    leader.node.advance(2 * LAG_MS)
    leader.appended()
    assert leader.partition.high_watermark == 3, "the controller may have it in the ISR already"
    assert leader.partition.isr.maximal == (1, 2)
    leader.followers_have(r2=4)
    assert leader.partition.high_watermark == 4


def test_the_high_watermark_waits_for_a_follower_that_is_being_dropped() -> None:
    leader = Leader(in_sync=(1, 2))
    leader.followers_have(r2=1)
    leader.appended()
    leader.node.advance(LAG_MS + 1)
    assert leader.partition.look_after_followers(leader.node.now_ms)
    (proposal,) = leader.brokers.proposals
    assert (proposal.removed, proposal.isr) == ((2,), ((1, 101),))
    assert leader.partition.high_watermark == 1
    leader.accept(proposal)
    leader.metadata(isr=(1,), changes=0)
    assert leader.partition.high_watermark == 2


def dropped(**configs: str) -> Leader:
    """A leader whose follower has stayed behind at offset 1, while it has 2 itself; the controller has dropped it."""
    leader = Leader(in_sync=(1, 2), **configs)
    leader.followers_have(r2=1)
    leader.appended()
    leader.node.advance(LAG_MS + 1)
    leader.partition.look_after_followers(leader.node.now_ms)
    leader.accept(leader.brokers.proposals[0])
    assert leader.partition.isr.committed == (1,)
    return leader


def test_the_high_watermark_waits_for_the_metadata_of_who_was_dropped() -> None:
    leader = dropped()
    assert leader.partition.high_watermark == 1, "the minimum may be higher by now, and the dropped one eligible"
    leader.partition.look_after_followers(leader.node.now_ms)
    leader.metadata(isr=(1, 2), changes=-1)
    assert leader.partition.high_watermark == 1, "this is from before"
    leader.metadata(isr=(1,), changes=0)
    assert leader.partition.high_watermark == 2


def test_the_high_watermark_stays_when_the_metadata_of_who_was_dropped_tells_of_a_higher_minimum() -> None:
    leader = dropped()
    minimum = ConfigRecord(resource_type=2, resource_name="t", name="min.insync.replicas", value="2")
    leader.node.change([minimum])
    leader.metadata(isr=(1,), changes=0)
    leader.appended()
    assert leader.partition.high_watermark == 1, "the controller holds the dropped one eligible at that"


def test_nobody_joins_before_the_metadata_of_who_was_dropped() -> None:
    leader = dropped()
    assert len(leader.brokers.proposals) == 1, "the one that was dropped still has all below the high watermark"
    leader.followers_have(r3=2)
    assert len(leader.brokers.proposals) == 1
    leader.metadata(isr=(1,), changes=0)
    assert leader.brokers.proposals[1].added == (3,)


def test_the_high_watermark_waits_for_a_follower_about_to_join() -> None:
    leader = lone()
    leader.followers_have(r2=2)
    leader.appended()
    leader.node.advance(LAG_MS + 1)
    leader.followers_have(r2=3)
    assert leader.partition.high_watermark == 4, "it has caught up at no time yet"
    leader.appended()
    leader.followers_have(r2=4)
    assert leader.partition.isr.proposal is None
    assert leader.partition.high_watermark == 5


def test_one_proposal_at_a_time_is_under_way() -> None:
    leader = lone()
    leader.followers_have(r2=3, r3=3)
    (first,) = leader.brokers.proposals
    assert first.added == (2,)
    leader.accept(first)
    assert [proposal.added for proposal in leader.brokers.proposals] == [(2,), (3,)], "the next one at once"


def test_a_proposal_that_the_controller_did_not_make_is_rolled_back() -> None:
    leader = lone()
    leader.followers_have(r2=3)
    leader.appended()
    for code in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED):
        proposal = leader.brokers.proposals[-1]
        assert not leader.refuse(proposal, code)
        assert leader.partition.isr.proposal is None
        assert leader.partition.isr.committed == (1,)
        leader.followers_have(r2=4)
    assert len(leader.brokers.proposals) == 3


def test_after_a_refusal_the_high_watermark_waits_for_a_follower_that_keeps_up_and_may_join() -> None:
    leader = lone()
    leader.followers_have(r2=3)
    assert not leader.refuse(leader.brokers.proposals[-1], ErrorCode.INELIGIBLE_REPLICA)
    leader.appended()
    assert leader.partition.high_watermark == 3, "a late copy of the proposal may have it in the ISR at any time"
    leader.metadata(isr=(1, 2))
    leader.followers_have(r2=4)
    assert leader.partition.high_watermark == 4


def test_a_late_copy_of_a_refused_proposal_counts_from_when_the_metadata_tells() -> None:
    leader = lone()
    leader.followers_have(r2=3)
    leader.brokers.unfit.add(2)
    assert not leader.refuse(leader.brokers.proposals[-1], ErrorCode.INELIGIBLE_REPLICA)
    leader.appended()
    leader.partition.look_after_followers(leader.node.now_ms)
    assert leader.partition.high_watermark == 4, "who is fenced is not waited for"
    leader.brokers.unfit.clear()
    leader.metadata(isr=(1, 2))
    leader.appended()
    assert leader.partition.high_watermark == 4, "it neither goes back nor on"
    leader.followers_have(r2=5)
    assert leader.partition.high_watermark == 5


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
    ],
)
def test_a_proposal_of_an_unknown_fate_stays_until_the_metadata_tells(code: ErrorCode) -> None:
    leader = lone()
    leader.followers_have(r2=3)
    assert not leader.refuse(leader.brokers.proposals[-1], code)
    assert leader.partition.isr.maximal == (1, 2)
    leader.metadata(isr=(1, 3))
    assert leader.partition.isr.committed == (1, 3)
    assert leader.partition.isr.maximal == (1, 3, 2), "it has everything still, and is proposed anew"
    assert len(leader.brokers.proposals) == 2


def test_a_broker_that_is_alive_again_joins_where_it_has_everything() -> None:
    leader = lone()
    leader.brokers.unfit.add(2)
    leader.followers_have(r2=3)
    assert leader.partition.isr.proposal is None
    leader.brokers.unfit.discard(2)
    leader.partition.expand_isr(leader.node.now_ms)
    assert leader.partition.isr.maximal == (1, 2)


def test_other_errors_have_the_proposal_sent_again() -> None:
    leader = lone()
    leader.followers_have(r2=3)
    assert leader.refuse(leader.brokers.proposals[-1], ErrorCode.UNKNOWN_SERVER_ERROR)
    assert leader.partition.isr.proposal is leader.brokers.proposals[-1]


def test_an_answer_that_the_metadata_has_overtaken_is_ignored() -> None:
    leader = lone()
    leader.followers_have(r2=3)
    leader.metadata(isr=(1, 3), changes=2)
    leader.accept(leader.brokers.proposals[0])
    assert leader.partition.isr.committed == (1, 3)
    assert leader.partition.isr.partition_epoch == 2


def test_an_answer_of_another_leader_epoch_is_ignored() -> None:
    leader = lone()
    leader.followers_have(r2=3)
    proposal = leader.brokers.proposals[0]
    late = Altered(leader_id=1, leader_epoch=proposal.leader_epoch + 1, isr=[1, 2], partition_epoch=9)
    assert not leader.partition.alter_answered(proposal, late, leader.node.now_ms)
    assert leader.partition.isr.committed == (1,)
    assert leader.partition.isr.maximal == (1, 2)


def test_metadata_that_an_answer_has_told_already_does_not_undo_the_next_proposal() -> None:
    leader = lone()
    leader.followers_have(r2=3, r3=3)
    leader.accept(leader.brokers.proposals[0])
    assert leader.partition.isr.maximal == (1, 2, 3)
    leader.metadata(isr=(1, 2), changes=0)
    assert leader.partition.isr.maximal == (1, 2, 3), "the controller may accept the second any time"


def test_a_follower_that_is_unfit_does_not_join() -> None:
    leader = lone()
    leader.brokers.unfit.add(2)
    leader.followers_have(r2=3)
    assert leader.brokers.proposals == []
    leader.brokers.unfit.clear()
    leader.followers_have(r2=3)
    assert len(leader.brokers.proposals) == 1


def test_a_fetch_of_a_past_incarnation_counts_for_nothing() -> None:
    leader = Leader()
    leader.appended()
    assert leader.fetched(2, 2, broker_epoch=77) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader.partition.isr.followers[2].log_end_offset == -1
    assert leader.fetched(2, 2, broker_epoch=-1) is ErrorCode.NONE, "one that does not say is believed, as by Kafka"


def test_a_follower_stays_while_it_was_caught_up_lately() -> None:
    leader = Leader()
    leader.followers_have(r2=1, r3=1)
    leader.appended()
    leader.node.advance(LAG_MS)
    leader.followers_have(r2=2)
    assert leader.partition.look_after_followers(leader.node.now_ms)
    assert leader.brokers.proposals == []
    leader.node.advance(1)
    leader.partition.look_after_followers(leader.node.now_ms)
    assert leader.brokers.proposals[0].removed == (3,)


def test_a_follower_that_always_has_what_was_there_at_its_last_fetch_keeps_up() -> None:
    leader = Leader(in_sync=(1, 2))
    leader.followers_have(r2=1)
    for end in range(2, 8):
        leader.appended()
        leader.node.advance(LAG_MS // 2)
        leader.appended()
        leader.followers_have(r2=2 * end - 2)
        leader.partition.look_after_followers(leader.node.now_ms)
    assert leader.brokers.proposals == []


def test_a_follower_that_stood_at_the_end_of_an_idle_partition_does_not_leave_for_that() -> None:
    leader = Leader(in_sync=(1, 2))
    session = Session(uses_topic_ids=True, privileged=True, now_ms=leader.node.now_ms)
    leader.fetched(2, 1, session=session)
    leader.node.advance(10 * LAG_MS)
    session.last_used_ms = leader.node.now_ms - 500
    leader.appended()
    leader.partition.look_after_followers(leader.node.now_ms)
    assert leader.brokers.proposals == [], "its session was alive"
    leader.node.advance(LAG_MS)
    leader.partition.look_after_followers(leader.node.now_ms)
    assert leader.brokers.proposals[0].removed == (2,)


def test_a_follower_that_never_fetches_leaves() -> None:
    leader = Leader()
    leader.followers_have(r2=1)
    leader.node.advance(LAG_MS + 1)
    leader.partition.look_after_followers(leader.node.now_ms)
    assert leader.brokers.proposals[0].removed == (3,)
    assert leader.brokers.proposals[0].isr == ((1, 101), (2, 102))


def test_nobody_has_to_be_looked_after_when_all_are_at_the_end() -> None:
    leader = Leader()
    assert leader.partition.look_after_followers(leader.node.now_ms)
    leader.followers_have(r2=1, r3=1)
    assert not leader.partition.look_after_followers(leader.node.now_ms)


def test_a_new_epoch_forgets_how_far_followers_were() -> None:
    leader = Leader()
    leader.appended()
    leader.followers_have(r2=2)
    leader.metadata(isr=(1, 2, 3), new_epochs=1)
    leader.followers_have(r3=2)
    assert leader.partition.high_watermark == 1, "replica 2 may have followed another leader in between"
    leader.followers_have(r2=2)
    assert leader.partition.high_watermark == 2


def test_replicas_that_come_and_go_keep_what_is_known_of_the_others() -> None:
    leader = Leader()
    leader.appended()
    leader.followers_have(r2=2, r3=1)
    leader.metadata(isr=(1, 2), replicas=(1, 2, 4))
    assert sorted(leader.partition.isr.followers) == [2, 4]
    assert leader.partition.high_watermark == 2
    assert leader.partition.check_replica(3, leader.partition.leader_epoch) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_the_low_watermark_is_the_least_log_start_of_those_alive() -> None:
    leader = Leader()
    leader.followers_have(r2=1, r3=1)
    partition = leader.partition
    partition.isr.followers[2].log_start_offset = partition.isr.followers[3].log_start_offset = 0
    partition.delete_records(-1, leader.node.now_ms)
    assert partition.log_start_offset == 1
    assert partition.low_watermark == 0
    partition.isr.followers[2].log_start_offset = 1
    del leader.brokers.epochs[3]
    assert partition.low_watermark == 1


def test_acks_all_is_told_when_the_isr_became_too_small_after_the_append() -> None:
    leader = Leader(in_sync=(1, 2), min_insync_replicas="2")
    leader.wait(leader.append(batch(b"a"), -1), -1, "all")
    leader.write()
    leader.followers_have(r2=2)
    assert leader.waiter.told == [("all", ErrorCode.NONE)]
    leader.metadata(isr=(1,))
    refused = leader.append(batch(b"b"), -1)
    assert isinstance(refused, Rejected)
    assert refused.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_follower_that_was_refused_is_proposed_again_when_somebody_looks() -> None:
    leader = lone()
    leader.followers_have(r2=3)
    leader.refuse(leader.brokers.proposals[-1], ErrorCode.INELIGIBLE_REPLICA)
    assert leader.partition.look_after_followers(leader.node.now_ms), "its next fetch need not mention this partition"
    assert [each.added for each in leader.brokers.proposals] == [(2,), (2,)]


def test_nobody_waits_for_a_follower_that_cannot_join_any_more() -> None:
    leader = lone()
    leader.followers_have(r2=2)
    leader.followers_have(r2=3)
    leader.refuse(leader.brokers.proposals[-1], ErrorCode.INELIGIBLE_REPLICA)
    leader.appended()
    assert leader.partition.high_watermark == 3
    leader.brokers.unfit.add(2)
    leader.partition.look_after_followers(leader.node.now_ms)
    assert leader.partition.high_watermark == 4
