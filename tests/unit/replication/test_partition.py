"""A partition as its leader keeps it, with replicas that lag: the rules that one replica alone never shows."""

from __future__ import annotations

from support.broker import Node
from support.requests import batch, produced

from penstock.errors import ErrorCode
from penstock.log.log import Log
from penstock.records.batch import read_header
from penstock.records.compression import Contexts
from penstock.replication.partition import Deferred, Partition, Prepared, Rejected


class Waiter:
    """Notes what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ErrorCode]] = []

    def appended(self, slot: object, code: ErrorCode, now_ms: int) -> None:
        self.told.append((slot, code))


class Leader:
    """Partition t-0 of a node, led with three replicas in sync."""

    def __init__(self, *, in_sync: tuple[int, ...] = (1, 2, 3), **configs: str) -> None:
        self.node = Node()
        topic_id = self.node.create_topic("t", **configs)
        produced(self.node.connect(), "t", batch())
        log = self.node.broker.logs.open_log("t", 0)
        assert isinstance(log, Log)
        self.partition = Partition(
            "t",
            0,
            topic_id,
            log,
            node_id=1,
            leader_epoch=log.leader_epochs.latest,
            replicas=(1, 2, 3),
            in_sync_replicas=in_sync,
            high_watermark=1,
        )
        self.waiter = Waiter()

    def append(self, data: bytearray, acks: int) -> Rejected | Deferred | Prepared:
        return self.partition.append_as_leader(data, read_header(data), acks, self.node.now_ms)

    def wait(self, outcome: Rejected | Deferred | Prepared, acks: int, slot: str) -> None:
        assert isinstance(outcome, Prepared)
        self.partition.wait(outcome, acks, self.waiter, slot, self.node.now_ms)

    def write(self) -> None:
        self.node.run()
        self.partition.log_advanced(self.node.now_ms)

    def followers_have(self, **offsets: int) -> None:
        for name, offset in offsets.items():
            self.partition.followers[int(name[1:])] = offset
        self.partition.advance_high_watermark(self.node.now_ms)


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


def test_the_high_watermark_never_goes_back() -> None:
    leader = Leader()
    leader.append(batch(b"a"), 1)
    leader.write()
    leader.followers_have(r2=2, r3=2)
    leader.followers_have(r2=1)
    assert leader.partition.high_watermark == 2


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


def test_an_isr_that_shrank_below_the_minimum_is_told_after_the_append() -> None:
    leader = Leader(min_insync_replicas="2")
    leader.wait(leader.append(batch(b"a"), -1), -1, "all")
    leader.write()
    leader.partition.become_leader(leader.partition.leader_epoch, (1, 2, 3), (1,))
    leader.partition.advance_high_watermark(leader.node.now_ms)
    assert leader.waiter.told == [("all", ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)]
    refused = leader.append(batch(b"b"), -1)
    assert isinstance(refused, Rejected)
    assert refused.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert isinstance(leader.append(batch(b"b"), 1), Prepared), "only acks=all asks for replicas"


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
    partition = Leader().partition
    epoch = partition.leader_epoch
    assert partition.check_epoch(-1) is ErrorCode.NONE
    assert partition.check_epoch(epoch) is ErrorCode.NONE
    assert partition.check_epoch(epoch + 1) is ErrorCode.UNKNOWN_LEADER_EPOCH
    partition.become_leader(epoch + 2, (1,), (1,))
    assert partition.check_epoch(epoch) is ErrorCode.FENCED_LEADER_EPOCH
    assert partition.log.leader_epochs.latest == epoch + 2


def test_what_was_rewritten_under_an_older_epoch_is_not_appended() -> None:
    leader = Leader(compression_type="gzip")
    outcome = leader.append(batch(b"x" * 100_000), 1)
    assert isinstance(outcome, Deferred)
    made = outcome.rewrite.rewritten(leader.node.now_ms, Contexts())
    leader.partition.become_leader(leader.partition.leader_epoch + 1, (1,), (1,))
    refused = leader.partition.append_rewritten(outcome.rewrite, made, leader.node.now_ms)
    assert isinstance(refused, Rejected)
    assert refused.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
