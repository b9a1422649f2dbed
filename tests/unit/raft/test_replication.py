"""Replication by fetch, by the sections of the Raft paper and the KIPs that say it."""

from __future__ import annotations

from typing import Any

import pytest
from unit.raft.replica_harness import CLUSTER, MemoryLog, One, Quorum, key_of, target_of

from penstock.errors import ErrorCode
from penstock.protocol.codec import encode
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.fetch_response import EpochEndOffset, PartitionData
from penstock.raft import messages
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.config import RaftConfig
from penstock.raft.effects import Answer, AppendFetched, Committed, Truncate
from penstock.raft.messages import LeaderView
from penstock.raft.states import Follower, Prospective
from penstock.records.builder import BatchBuilder

CONFIG = RaftConfig()


def fetch(
    replica: int, epoch: int, offset: int, last_epoch: int, *, wait_ms: int = 0, high_watermark: int | None = None
) -> FetchRequest:
    return messages.fetch(
        CLUSTER,
        key_of(replica),
        epoch,
        offset=offset,
        last_epoch=last_epoch,
        high_watermark=high_watermark,
        max_wait_ms=wait_ms,
        max_bytes=1_000_000,
    )


def partition(response: Any) -> PartitionData:
    found: PartitionData = response.responses[0].partitions[0]
    return found


def leader(epochs: list[int] | None = None, **named: Any) -> One:
    one = One(epochs=epochs or [], **named)
    one.elect()
    return one


def follower(epochs: list[int], *, epoch: int = 9, **named: Any) -> One:
    """Follows node 2, which leads the epoch."""
    one = One(epochs=epochs, **named)
    one.start()
    one.ask(messages.begin_quorum_epoch(CLUSTER, 2, epoch, key_of(1), ()))
    assert isinstance(one.replica.role, Follower)
    return one


def answer(one: One, found: PartitionData, *, epoch: int = 9, leader_id: int = 2) -> list[Any]:
    """The leader answers the follower's fetch."""
    view = LeaderView(leader_id, epoch, target_of(leader_id))
    return one.reply(one.calls(FetchRequest)[-1], messages.fetch_answer(view, found))


def batch(base_offset: int, epoch: int, value: bytes = b"value") -> bytes:
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=epoch)
    builder.append(0, None, value)
    return bytes(builder.build())


# Section 5.3, log replication


def test_section_5_3_a_record_is_committed_when_a_majority_has_it() -> None:
    one = leader()
    epoch, end = one.replica.epoch, one.log.end_offset
    assert one.replica.high_watermark is None
    one.ask(fetch(2, epoch, end, epoch))
    assert one.replica.high_watermark == end
    assert [each for each in one.effects if isinstance(each, Committed)] == [Committed(end, first=True)]
    one.append(4)
    one.ask(fetch(3, epoch, end + 4, epoch))
    assert one.replica.high_watermark == end + 4


def test_section_5_3_of_five_voters_two_are_too_few() -> None:
    one = leader(voters=[1, 2, 3, 4, 5])
    epoch, end = one.replica.epoch, one.log.end_offset
    one.ask(fetch(2, epoch, end, epoch))
    assert one.replica.high_watermark is None
    one.ask(fetch(5, epoch, end, epoch))
    assert one.replica.high_watermark == end


def test_section_5_3_an_observer_counts_for_nothing() -> None:
    one = leader()
    epoch, end = one.replica.epoch, one.log.end_offset
    one.ask(fetch(7, epoch, end, epoch))
    assert one.replica.high_watermark is None
    assert [each.key.id for each in one.replica.describe().observers] == [7]


def test_section_5_3_the_leader_counts_itself_only_as_far_as_its_disk_has_it() -> None:
    one = One(1, [1], durable=False)
    one.start()
    one.do(one.replica.election_persisted(one.persisting.pop(0), one.now_ms))
    assert one.replica.is_leader
    one.append(3)
    assert one.replica.high_watermark is None
    one.do(one.replica.flushed(2, one.now_ms))
    assert one.replica.high_watermark == 2
    one.do(one.replica.flushed(4, one.now_ms))
    assert one.replica.high_watermark == 4
    assert one.do(one.replica.flushed(4, one.now_ms)) == []


def test_section_5_3_a_flush_of_more_than_was_appended_is_a_bug() -> None:
    one = leader()
    with pytest.raises(AssertionError, match="what is flushed was appended"):
        one.replica.flushed(99, one.now_ms)


def test_section_5_3_a_follower_asks_for_no_more_before_its_disk_has_the_last() -> None:
    one = follower([1, 1])
    one.durable = False
    assert one.calls(FetchRequest)
    answer(one, PartitionData(records=batch(2, 9), high_watermark=3))
    assert one.log.end_offset == 3
    assert one.calls(FetchRequest) == []
    assert one.replica.high_watermark == 2  # what it has on disk of what is committed
    one.do(one.replica.flushed(3, one.now_ms))
    assert one.replica.high_watermark == 3
    assert one.calls(FetchRequest)[-1].request.topics[0].partitions[0].fetch_offset == 3


def test_section_5_3_the_log_with_the_same_last_epoch_and_offset_is_a_prefix() -> None:
    one = leader([1, 1, 2])
    epoch = one.replica.epoch
    found = partition(one.ask(fetch(2, epoch, 2, 1)))
    assert found.error_code == ErrorCode.NONE
    assert found.diverging_epoch.epoch == -1
    assert found.records == one.log.read(2, 1_000_000)


@pytest.mark.parametrize(
    ("offset", "last_epoch", "epoch", "end_offset"),
    [
        (4, 1, 1, 2),  # it went on in epoch 1 when the others did not
        (3, 2, 1, 2),  # an epoch of which nothing is here: the one before
        (9, 3, 3, 3),  # longer in the last epoch than it is
    ],
)
def test_section_5_3_where_logs_part_the_leader_says(offset: int, last_epoch: int, epoch: int, end_offset: int) -> None:
    one = leader([1, 1, 3])
    found = partition(one.ask(fetch(2, one.replica.epoch, offset, last_epoch)))
    assert found.diverging_epoch == EpochEndOffset(epoch=epoch, end_offset=end_offset)
    assert not len(found.records or b"")
    assert one.replica.high_watermark is None  # it acknowledges nothing by that


def test_section_5_3_a_follower_cuts_what_the_leader_does_not_have() -> None:
    one = follower([1, 1, 2, 2])
    effects = answer(one, PartitionData(diverging_epoch=EpochEndOffset(epoch=1, end_offset=2), high_watermark=1))
    assert Truncate(2) in effects
    assert one.log.epochs == [1, 1]
    assert one.calls(FetchRequest)[-1].request.topics[0].partitions[0].fetch_offset == 2


def test_section_5_3_a_follower_that_lacks_the_leaders_epoch_cuts_to_the_one_before() -> None:
    one = follower([1, 2, 4, 4])
    answer(one, PartitionData(diverging_epoch=EpochEndOffset(epoch=3, end_offset=7), high_watermark=0))
    assert one.log.epochs == [1, 2]


def test_nothing_committed_is_cut() -> None:
    one = follower([1, 1, 1])
    answer(one, PartitionData(high_watermark=3))
    assert one.replica.high_watermark == 3
    answer(one, PartitionData(diverging_epoch=EpochEndOffset(epoch=1, end_offset=2), high_watermark=3))
    assert one.log.end_offset == 3
    assert one.replica.fault == (
        "the leader of epoch 9 wants the log cut to offset 2, and everything below 3 is committed"
    )
    assert one.pass_ms(60_000) == []


def test_nothing_that_a_snapshot_holds_is_cut() -> None:
    one = follower([1, 1, 2, 2])
    one.log.snapshots[CheckpointId(3, 2)] = b"snapshot"
    assert one.replica.high_watermark is None
    answer(one, PartitionData(diverging_epoch=EpochEndOffset(epoch=1, end_offset=2), high_watermark=1))
    assert one.replica.fault is not None
    assert "everything below 3 is committed" in one.replica.fault


def test_a_voter_that_lost_its_disk_counts_with_what_it_has_now() -> None:
    one = leader(kraft_version=0)
    one.durable = False
    epoch = one.replica.epoch
    one.append()
    one.ask(fetch(2, epoch, one.log.end_offset, epoch))
    one.ask(fetch(2, epoch, 0, 0))
    one.do(one.replica.flushed(one.log.end_offset, one.now_ms))
    assert one.replica.high_watermark != one.log.end_offset


def test_nobody_stands_while_the_log_is_cut() -> None:
    one = follower([1, 1, 2])
    view = LeaderView(2, 9, target_of(2))
    diverging = PartitionData(diverging_epoch=EpochEndOffset(epoch=1, end_offset=2))
    effects = one.replica.answered(one.calls(FetchRequest)[-1].call, messages.fetch_answer(view, diverging), one.now_ms)
    assert Truncate(2) in effects  # and the disk takes its time
    one.pass_ms(30_000)
    assert isinstance(one.replica.role, Follower)
    one.log.truncate(2)
    one.do(one.replica.truncated(2, one.now_ms))
    assert isinstance(one.replica.role, Prospective)


@pytest.mark.parametrize(
    "records",
    [
        batch(3, 9),  # a gap
        batch(1, 9),  # what it has
        batch(2, 10),  # an epoch that has not begun
        batch(2, 0),  # an epoch that is past
        batch(2, 9)[:-1] + b"!",  # damaged
        batch(2, 9)[:30],  # cut off
        b"nonsense, and enough of it to be taken for the header of a batch of records, which it is not",
    ],
)
def test_records_that_do_not_belong_here_are_not_appended(records: bytes) -> None:
    one = follower([1, 1])
    effects = answer(one, PartitionData(records=records, high_watermark=5))
    assert not [each for each in effects if isinstance(each, AppendFetched)]
    assert one.log.end_offset == 2
    assert one.replica.next_deadline_ms() == one.now_ms + CONFIG.retry_backoff_ms


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    one = follower([1, 1])
    answer(one, PartitionData(records=batch(2, 9) + batch(3, 9)[:40], high_watermark=2))
    assert one.log.end_offset == 3


# Section 5.4.2, committing entries from previous terms


def test_section_5_4_2_a_record_of_an_earlier_epoch_is_not_committed_by_itself() -> None:
    one = leader([1, 1, 2])
    epoch = one.replica.epoch
    one.ask(fetch(2, epoch, 3, 2))
    one.ask(fetch(3, epoch, 3, 2))
    assert one.replica.high_watermark is None
    one.ask(fetch(2, epoch, 4, epoch))
    assert one.replica.high_watermark == 4


# KIP-595, "Fetch"


def test_kip_595_a_fetch_for_another_epoch_is_refused_and_told_who_leads() -> None:
    one = leader([1])
    epoch = one.replica.epoch
    early = one.ask(fetch(2, epoch - 1, 1, 1))
    assert partition(early).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert partition(early).current_leader.leader_id == 1
    assert [(each.node_id, each.host) for each in early.node_endpoints] == [(1, "host-1")]
    assert partition(one.ask(fetch(2, epoch + 1, 1, 1))).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert one.ask(fetch(2, epoch - 1, 1, 1), version=12).node_endpoints == []


def test_kip_595_a_follower_refuses_a_fetch() -> None:
    one = follower([1])
    refused = partition(one.ask(fetch(3, 9, 1, 1)))
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused.current_leader.leader_id == 2


@pytest.mark.parametrize("version", [4, 11])
def test_a_fetch_of_a_version_before_kip_595_is_refused_in_a_form_that_it_has(version: int) -> None:
    one = leader([1])
    for epoch in (one.replica.epoch, one.replica.epoch - 1):
        refused = one.ask(fetch(2, epoch, 1, 1), version=version)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert encode(refused, version)


@pytest.mark.parametrize(("offset", "last_epoch", "wait_ms"), [(-1, 0, 0), (0, -1, 0), (0, 0, -1), (0, 99, 0)])
def test_kip_595_a_fetch_that_makes_no_sense_is_refused(offset: int, last_epoch: int, wait_ms: int) -> None:
    one = leader([1])
    found = partition(one.ask(fetch(2, one.replica.epoch, offset, last_epoch, wait_ms=wait_ms)))
    assert found.error_code == ErrorCode.INVALID_REQUEST


def test_kip_595_a_fetch_waits_for_records() -> None:
    one = leader([1])
    epoch, end = one.replica.epoch, one.log.end_offset
    one.ask(fetch(2, epoch, end, epoch))
    assert one.ask(fetch(2, epoch, end, epoch, wait_ms=500, high_watermark=end), token="waits") is None
    effects = one.append()
    answers = [each for each in effects if isinstance(each, Answer)]
    assert [each.token for each in answers] == ["waits"]
    assert len(partition(answers[0].response).records or b"")


def test_kip_595_a_fetch_that_waited_long_enough_is_answered_with_nothing() -> None:
    one = leader([1])
    epoch, end = one.replica.epoch, one.log.end_offset
    one.ask(fetch(2, epoch, end, epoch))
    assert one.ask(fetch(2, epoch, end, epoch, wait_ms=100, high_watermark=end)) is None
    assert not [each for each in one.pass_ms(99) if isinstance(each, Answer)]
    assert len([each for each in one.pass_ms(1) if isinstance(each, Answer)]) == 1


def test_kip_595_a_leader_that_resigns_answers_the_fetches_that_wait() -> None:
    one = leader([1])
    epoch, end = one.replica.epoch, one.log.end_offset
    one.ask(fetch(2, epoch, end, epoch))
    assert one.ask(fetch(2, epoch, end, epoch, wait_ms=500, high_watermark=end)) is None
    answers = [each for each in one.do(one.replica.resign(one.now_ms)) if isinstance(each, Answer)]
    assert [partition(each.response).error_code for each in answers] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_kip_1166_a_fetch_waits_for_the_high_watermark_too() -> None:
    one = leader([1])
    epoch, end = one.replica.epoch, one.log.end_offset
    assert one.ask(fetch(7, epoch, end, epoch, wait_ms=500, high_watermark=-1), token="observer") is None
    effects = one.do(one.replica.handle(fetch(2, epoch, end, epoch), 18, one.now_ms, "voter"))
    answers = {each.token: partition(each.response) for each in effects if isinstance(each, Answer)}
    assert answers["observer"].high_watermark == end


def test_kip_595_a_follower_that_gets_no_answer_stands() -> None:
    one = follower([1])
    one.pass_ms(CONFIG.fetch_timeout_ms - 1)
    assert isinstance(one.replica.role, Follower)
    one.pass_ms(1)
    assert isinstance(one.replica.role, Prospective)


def test_an_answer_to_the_leader_of_an_earlier_epoch_is_not_heeded() -> None:
    one = follower([1, 1], epoch=9)
    stale = one.calls(FetchRequest)[-1]
    one.ask(messages.begin_quorum_epoch(CLUSTER, 3, 10, key_of(1), ()))
    view = LeaderView(2, 9, target_of(2))
    one.reply(stale, messages.fetch_answer(view, PartitionData(records=batch(2, 9), high_watermark=3)))
    assert one.log.end_offset == 2
    assert one.replica.high_watermark is None


# DescribeQuorum


def test_the_leader_knows_how_far_the_others_are_and_when_they_were_caught_up() -> None:
    one = leader([1])
    epoch, end = one.replica.epoch, one.log.end_offset
    one.ask(fetch(2, epoch, end, epoch))
    one.now_ms += 300
    one.append()
    one.ask(fetch(2, epoch, end, epoch))
    described = one.replica.describe()
    second = next(each for each in described.voters if each.key.id == 2)
    assert (second.end_offset, second.last_fetch_ms) == (end, one.now_ms)
    assert second.last_caught_up_ms == one.now_ms - 300 or second.last_caught_up_ms == one.now_ms
    assert (described.leader_id, described.epoch, described.high_watermark) == (1, epoch, end)


# All of them together


def test_three_voters_and_an_observer_end_with_the_same_log() -> None:
    quorum = Quorum([1, 2, 3], observers=[7])
    quorum.start()
    quorum.pass_ms(5_000)
    for count in range(1, 20):
        quorum.append(count)
        quorum.pass_ms(10)
    quorum.pass_ms(1_000)
    logs: list[MemoryLog] = [one.log for one in quorum.ones.values()]
    assert len({tuple(log.batches) for log in logs}) == 1
    assert {one.replica.high_watermark for one in quorum.ones.values()} == {logs[0].end_offset}


def test_what_a_leader_that_was_cut_off_wrote_is_cut_when_it_is_back() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(5_000)
    first = quorum.leader
    quorum.cut.add(first.key.id)
    first.append(7)
    first_end = first.log.end_offset
    quorum.pass_ms(10_000)
    quorum.append(2)
    assert quorum.leader.log.end_offset < first_end
    quorum.cut.clear()
    quorum.pass_ms(5_000)
    assert [each for each in first.effects if isinstance(each, Truncate)]
    assert first.log.batches == quorum.leader.log.batches
