"""A partition as its leader keeps it, with replicas that lag: the rules that one replica alone never shows."""

from __future__ import annotations

from support.leader import Leader
from support.requests import batch

from penstock.errors import ErrorCode
from penstock.records.compression import Contexts
from penstock.replication.partition import Deferred, Prepared, Rejected


def test_the_high_watermark_is_what_every_in_sync_replica_has() -> None:
    leader = Leader()
    leader.wait(leader.append(batch(b"a", b"b"), 1), 1, "one")
    leader.wait(leader.append(batch(b"c"), -1), -1, "all")
    leader.write()
    assert leader.waiter.told == [("one", ErrorCode.NONE)]
    assert (leader.partition.log_end_offset, leader.partition.high_watermark) == (4, 1)
    leader.followers_have(r2=4, r3=2)
    assert leader.partition.high_watermark == 2
    leader.followers_have(r3=4)
    assert leader.partition.high_watermark == 4
    assert leader.waiter.told[1:] == [("all", ErrorCode.NONE)]
    assert leader.brokers.kept == [2, 4]


def test_the_high_watermark_never_goes_back() -> None:
    leader = Leader()
    leader.appended()
    leader.followers_have(r2=2, r3=2)
    leader.followers_have(r2=1)
    assert leader.partition.high_watermark == 2


def test_nothing_is_replicated_before_every_in_sync_replica_has_fetched() -> None:
    leader = Leader()
    leader.appended()
    leader.followers_have(r2=2)
    assert leader.partition.high_watermark == 1


def test_a_duplicate_is_acknowledged_when_the_original_is_replicated() -> None:
    leader = Leader()
    data = batch(b"a", producer_id=4, producer_epoch=0, base_sequence=0)
    leader.wait(leader.append(bytearray(data), -1), -1, "first")
    leader.write()
    again = leader.append(bytearray(data), -1)
    assert isinstance(again, Prepared)
    assert again.base_offset == 1
    leader.wait(again, -1, "again")
    leader.append(batch(b"more"), 1)
    leader.write()
    assert leader.waiter.told == []
    leader.followers_have(r2=2, r3=2)
    assert leader.waiter.told == [("first", ErrorCode.NONE), ("again", ErrorCode.NONE)]


def test_the_high_watermark_stands_still_while_there_are_too_few_in_sync() -> None:
    leader = Leader(min_insync_replicas="2")
    leader.wait(leader.append(batch(b"a"), -1), -1, "all")
    leader.write()
    leader.metadata(isr=(1,))
    assert leader.partition.high_watermark == 1
    assert leader.waiter.told == []
    refused = leader.append(batch(b"b"), -1)
    assert isinstance(refused, Rejected)
    assert refused.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert isinstance(leader.append(batch(b"b"), 1), Prepared), "only acks=all asks for replicas"
    leader.write()
    assert leader.partition.high_watermark == 1
    leader.followers_have(r2=3)
    assert leader.partition.high_watermark == 1, "it joins, but the controller has not said so"
    leader.accept(leader.brokers.proposals[-1])
    assert leader.partition.high_watermark == 3
    assert leader.waiter.told == [("all", ErrorCode.NONE)]


def test_losing_the_leadership_answers_whoever_waits() -> None:
    leader = Leader()
    leader.wait(leader.append(batch(b"a"), -1), -1, "all")
    leader.wait(leader.append(batch(b"b"), 1), 1, "one")
    leader.partition.stop(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader.node.now_ms)
    assert sorted(leader.waiter.told) == [  # type: ignore[type-var]
        ("all", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("one", ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ]


def test_epochs_of_clients_are_compared() -> None:
    leader = Leader()
    partition = leader.partition
    epoch = partition.leader_epoch
    assert partition.check_epoch(-1) is ErrorCode.NONE
    assert partition.check_epoch(epoch) is ErrorCode.NONE
    assert partition.check_epoch(epoch + 1) is ErrorCode.UNKNOWN_LEADER_EPOCH
    leader.metadata(isr=(1,), replicas=(1,), new_epochs=2)
    assert partition.check_epoch(epoch) is ErrorCode.FENCED_LEADER_EPOCH
    assert partition.log.leader_epochs.latest == epoch + 2


def test_what_was_rewritten_under_an_older_epoch_is_not_appended() -> None:
    leader = Leader(compression_type="gzip")
    outcome = leader.append(batch(b"x" * 100_000), 1)
    assert isinstance(outcome, Deferred)
    made = outcome.rewrite.rewritten(leader.node.now_ms, Contexts())
    leader.metadata(isr=(1,), replicas=(1,), new_epochs=1)
    refused = leader.partition.append_rewritten(outcome.rewrite, made, leader.node.now_ms)
    assert isinstance(refused, Rejected)
    assert refused.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
