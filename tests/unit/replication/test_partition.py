"""A partition as its leader keeps it, with replicas that lag: the rules that one replica alone never shows."""

from __future__ import annotations

import pytest
from support import logs
from support.broker import START_MS
from support.leader import Leader
from support.requests import batch

from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.log.producer_state import VerificationGuard
from penstock.records.batch import read_header
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec, Contexts
from penstock.replication import rewrite as rewrite_module
from penstock.replication.appends import Deferred, Prepared, Rejected
from penstock.replication.limits import DEEP_VALIDATION_INLINE_MAX_BYTES, DEEP_VALIDATION_INLINE_MAX_RECORDS
from penstock.replication.partition import Partition


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


def test_a_duplicate_does_not_wait_for_what_was_appended_after_its_original() -> None:
    leader = Leader()
    data = batch(b"a", producer_id=4, producer_epoch=0, base_sequence=0)
    leader.append(bytearray(data), -1)
    leader.wait(leader.append(batch(b"later"), -1), -1, "later")
    leader.write()
    leader.wait(leader.append(bytearray(data), -1), -1, "again")
    leader.followers_have(r2=2, r3=2)
    assert leader.waiter.told == [("again", ErrorCode.NONE)]
    leader.followers_have(r2=3, r3=3)
    assert leader.waiter.told[1:] == [("later", ErrorCode.NONE)]


def coordinated(leader: Leader, data: bytearray, guard: VerificationGuard | None = None, version: int = 0) -> int:
    """Appends a coordinator's batch and gives the offset after it."""
    prepared = leader.partition.append_as_coordinator(
        data, read_header(data), leader.node.now_ms, guard=guard, transaction_version=version
    )
    leader.write()
    return prepared.next_offset


def offsets_of(producer_id: int, epoch: int, *, transactional: bool = True) -> bytearray:
    """What a group coordinator writes for a producer: it has no sequence."""
    return logs.batch(b"a", producer=(producer_id, epoch, -1), transactional=transactional)


def transaction(leader: Leader) -> None:
    """A record of a transaction, and the marker that ends it."""
    coordinated(leader, offsets_of(7, 0), leader.partition.log.producers.guard(7, 0))
    coordinated(leader, logs.marker(7, 0, commit=True))


def test_a_coordinators_batch_has_the_epoch_of_its_producer_checked_and_no_sequence() -> None:
    leader = Leader()
    for end in (2, 3):
        assert coordinated(leader, offsets_of(7, 3, transactional=False)) == end, "the same again is another batch"
    with pytest.raises(RequestError) as refused:
        coordinated(leader, offsets_of(7, 2, transactional=False))
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert leader.partition.appended_bytes == 2 * len(offsets_of(7, 3))


def test_a_coordinator_begins_a_transaction_with_a_guard_that_holds() -> None:
    leader = Leader()
    producers = leader.partition.log.producers
    stale = producers.guard(7, 0)
    coordinated(leader, logs.marker(7, 0, commit=False))
    for guard in (None, stale):
        with pytest.raises(RequestError) as refused:
            coordinated(leader, offsets_of(7, 0), guard)
        assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    assert leader.partition.log_end_offset == 2
    assert coordinated(leader, offsets_of(7, 0), producers.guard(7, 0)) == 3
    assert coordinated(leader, offsets_of(7, 0)) == 4, "the transaction goes on"


def test_a_guard_goes_stale_when_the_log_is_cut() -> None:
    leader = Leader()
    leader.appended()
    log = leader.partition.log
    stale = log.producers.guard(7, 0)
    log.truncate_to(1, leader.node.now_ms)
    leader.write()
    with pytest.raises(RequestError) as refused:
        coordinated(leader, offsets_of(7, 0), stale)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE


def test_a_coordinators_marker_ends_a_transaction_and_keeps_older_coordinators_out() -> None:
    leader = Leader()
    coordinated(leader, offsets_of(7, 0), leader.partition.log.producers.guard(7, 0))
    with pytest.raises(RequestError) as refused:
        coordinated(leader, logs.marker(7, 0, commit=True), version=2)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    coordinated(leader, logs.marker(7, 1, commit=True, coordinator_epoch=5), version=2)
    assert not leader.partition.log.producers.ongoing
    with pytest.raises(RequestError) as refused:
        coordinated(leader, logs.marker(7, 1, commit=True, coordinator_epoch=4), version=2)
    assert refused.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_coordinators_batch_needs_enough_in_sync() -> None:
    leader = Leader(in_sync=(1,), min_insync_replicas="2")
    with pytest.raises(RequestError) as refused:
        coordinated(leader, offsets_of(7, 0, transactional=False))
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_the_last_stable_offset_passes_a_transaction_once_its_marker_is_replicated() -> None:
    leader = Leader()
    partition = leader.partition
    transaction(leader)
    leader.followers_have(r2=2, r3=2)
    assert (partition.high_watermark, partition.last_stable_offset) == (2, 1)
    leader.followers_have(r2=3, r3=3)
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 3)
    assert not partition.log.producers.unreplicated, "also where nobody reads"


def test_a_leader_that_takes_over_beyond_a_marker_has_its_transaction_behind_it() -> None:
    leader = Leader()
    transaction(leader)
    led = Partition(
        "t",
        0,
        leader.partition.topic_id,
        leader.partition.log,
        owner=leader.brokers,
        isr_driver=leader.brokers,
        node_id=1,
        leader_epoch=1,
        replicas=(1, 2, 3),
        in_sync_replicas=(1, 2, 3),
        high_watermark=3,
        now_ms=leader.node.now_ms,
    )
    assert led.last_stable_offset == 3


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


def of_records(count: int, codec: Codec, value: bytes = b"v") -> bytearray:
    builder = BatchBuilder(codec=codec)
    for _ in range(count):
        builder.append(START_MS, b"k", value)
    return builder.build()


@pytest.mark.parametrize("codec", list(Codec))
def test_what_is_walked_on_the_loop_is_bounded_by_records_and_by_what_is_unpacked(codec: Codec) -> None:
    """A few hundred compressed bytes can be a second of work."""
    leader = Leader(cleanup_policy="compact")
    few = of_records(DEEP_VALIDATION_INLINE_MAX_RECORDS, codec)
    assert isinstance(leader.append(few, 1), Prepared)
    many = of_records(DEEP_VALIDATION_INLINE_MAX_RECORDS + 1, codec)
    assert isinstance(leader.append(many, 1), Deferred)
    large = of_records(1, codec, bytes(DEEP_VALIDATION_INLINE_MAX_BYTES))
    assert isinstance(leader.append(large, 1), Deferred)


def test_what_is_recompressed_on_the_loop_is_bounded_by_what_is_unpacked() -> None:
    leader = Leader(compression_type="gzip")
    assert isinstance(leader.append(of_records(10, Codec.ZSTD), 1), Prepared)
    assert isinstance(leader.append(of_records(1, Codec.ZSTD, bytes(DEEP_VALIDATION_INLINE_MAX_BYTES)), 1), Deferred)


def test_a_batch_of_more_records_than_can_be_walked_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite_module, "DEEP_VALIDATION_MAX_RECORDS", 500)
    leader = Leader(cleanup_policy="compact")
    outcome = leader.append(of_records(501, Codec.ZSTD), 1)
    assert isinstance(outcome, Deferred)
    refused = outcome.reason.rewritten(leader.node.now_ms, Contexts())
    assert isinstance(refused, PenstockError)
    assert refused.code is ErrorCode.INVALID_RECORD


def test_what_was_rewritten_under_an_older_epoch_is_not_appended() -> None:
    leader = Leader(compression_type="gzip")
    outcome = leader.append(batch(b"x" * 100_000), 1)
    assert isinstance(outcome, Deferred)
    made = outcome.reason.rewritten(leader.node.now_ms, Contexts())
    leader.metadata(isr=(1,), replicas=(1,), new_epochs=1)
    refused = leader.partition.resume(outcome, made, leader.node.now_ms)
    assert isinstance(refused, Rejected)
    assert refused.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_whatever_came_before_an_append_ends_alike() -> None:
    leader = Leader()
    data = batch(b"a")
    deferred = Deferred(object(), read_header(data), leader.partition.leader_epoch)  # type: ignore[arg-type]
    refused = leader.partition.resume(deferred, RequestError(ErrorCode.INVALID_TXN_STATE, "none"), leader.node.now_ms)
    assert isinstance(refused, Rejected)
    assert (refused.code, refused.message) == (ErrorCode.INVALID_TXN_STATE, "none")
    assert isinstance(leader.partition.resume(deferred, data, leader.node.now_ms), Prepared)
