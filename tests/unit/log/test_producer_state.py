"""Idempotent and transactional producers, and their snapshot file."""

from __future__ import annotations

import pytest
from support.logs import EXPIRATION_MS, NOW_MS, OneLog, batch, marker

from penstock.config.limits import BATCHES_PER_PRODUCER
from penstock.errors import ErrorCode, RequestError, StorageError
from penstock.log import producer_snapshot
from penstock.log.producer_state import Marker, Origin, Producer, ProducerState
from penstock.records.batch import BatchHeader, read_header

MAX = 2**31 - 1


def header(producer_id: int, epoch: int, sequence: int, count: int = 1, **more: bool) -> BatchHeader:
    return read_header(batch(*[b"x"] * count, producer=(producer_id, epoch, sequence), **more))


def state(*batches: BatchHeader) -> ProducerState:
    producers = ProducerState(EXPIRATION_MS)
    for offset, each in enumerate(batches):
        producers.reserve(each, 10 * offset, Origin.CLIENT)
    return producers


def refusal(
    producers: ProducerState, refused: BatchHeader, origin: Origin = Origin.CLIENT, mark: Marker | None = None
) -> ErrorCode:
    before = dict(producers.producers), dict(producers.ongoing)
    with pytest.raises(RequestError) as caught:
        producers.reserve(refused, 100, origin, mark)
    assert (producers.producers, producers.ongoing) == before
    return caught.value.code


def test_the_last_five_batches_are_recognised() -> None:
    producers = state(*[header(1, 0, 2 * number, 2) for number in range(7)])
    assert BATCHES_PER_PRODUCER == 5
    assert producers.duplicate_of(header(1, 0, 2, 2)) is None
    for number in range(2, 7):
        known = producers.duplicate_of(header(1, 0, 2 * number, 2))
        assert known is not None
        assert (known.first_offset, known.last_offset) == (10 * number, 10 * number + 1)
    assert producers.duplicate_of(header(1, 1, 12, 2)) is None
    assert producers.duplicate_of(header(1, 0, 12, 1)) is None


@pytest.mark.parametrize("sequence", [0, 1, 3, MAX])
def test_a_sequence_must_follow_the_last(sequence: int) -> None:
    producers = state(header(1, 0, 0, 2))
    assert refusal(producers, header(1, 0, sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.reserve(header(1, 0, 2), 100, Origin.CLIENT)


def test_sequences_wrap() -> None:
    producers = state(header(1, 0, MAX - 1, 2))
    producers.reserve(header(1, 0, 0), 100, Origin.CLIENT)
    producers = state(header(1, 0, MAX, 3))
    producers.reserve(header(1, 0, 2), 100, Origin.CLIENT)


def test_an_unknown_producer_may_begin_anywhere_and_a_new_epoch_only_with_0() -> None:
    producers = state(header(1, 0, 77))
    assert refusal(producers, header(1, 1, 78)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.reserve(header(1, 1, 0), 100, Origin.CLIENT)
    assert refusal(producers, header(1, 0, 78)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_replication_is_not_refused() -> None:
    producers = state(header(1, 5, 0))
    producers.reserve(header(1, 3, 40), 100, Origin.REPLICATION)
    assert producers.producers[1].epoch == 3


def test_undoing_restores_what_was() -> None:
    producers = state(header(1, 0, 0), header(2, 0, 0, transactional=True))
    before = dict(producers.producers), dict(producers.ongoing), dict(producers.unreplicated)
    end = read_header(marker(2, 0, commit=True))
    steps = [
        producers.reserve(header(1, 0, 1), 50, Origin.CLIENT),
        producers.reserve(header(3, 0, 0, transactional=True), 51, Origin.CLIENT),
        producers.reserve(end, 52, Origin.COORDINATOR, Marker(True, 0)),
        producers.reserve(header(2, 0, 1, transactional=True), 53, Origin.CLIENT),
    ]
    for step in reversed(steps):
        producers.undo(step)
    assert (producers.producers, producers.ongoing, producers.unreplicated) == before


def test_a_transaction_bounds_the_stable_offset_until_its_marker_is_replicated() -> None:
    one = OneLog()
    one.append(batch(b"a"))
    one.append(batch(b"b", producer=(1, 0, 0), transactional=True))
    one.append(batch(b"c", producer=(2, 0, 0), transactional=True))
    assert one.log.last_stable_offset_bound == 1
    one.append(marker(1, 0, commit=True))
    assert one.log.last_stable_offset_bound == 1
    one.log.producers.replicated_to(3)
    assert one.log.last_stable_offset_bound == 1
    one.log.producers.replicated_to(4)
    assert one.log.last_stable_offset_bound == 2
    one.append(marker(2, 0, commit=False))
    one.log.producers.replicated_to(5)
    assert one.log.last_stable_offset_bound is None
    assert one.log.aborted_transactions(0, 5) == [(2, 2, 4, 5)]


def test_a_marker_of_an_old_coordinator_and_a_write_outside_of_the_transaction_are_refused() -> None:
    producers = state(header(1, 0, 0, transactional=True))
    end = read_header(marker(1, 0, commit=True))
    assert refusal(producers, header(1, 0, 1)) is ErrorCode.INVALID_TXN_STATE
    producers.reserve(end, 20, Origin.COORDINATOR, Marker(True, 5))
    fenced = refusal(producers, end, Origin.COORDINATOR, Marker(True, 4))
    assert fenced is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_idle_producers_expire_unless_a_transaction_is_open() -> None:
    producers = state(header(1, 0, 0), header(2, 0, 0, transactional=True))
    assert producers.remove_expired(NOW_MS + EXPIRATION_MS - 1) == 0
    assert producers.remove_expired(NOW_MS + EXPIRATION_MS) == 1
    assert producers.producers.keys() == {2}


def test_a_snapshot_has_kafkas_bytes() -> None:
    data = producer_snapshot.encode(state(header(7, 2, 5, 3)).producers)
    assert data[:2] == b"\0\x01"
    assert data[6:].hex() == (
        "00000001" + "0000000000000007" + "0002" + "00000007" + "0000000000000002" + "00000002"
        + NOW_MS.to_bytes(8, "big").hex() + "ffffffff" + "ffffffffffffffff"
    )  # fmt: skip


def test_a_snapshot_gives_back_the_last_batch_and_the_open_transaction() -> None:
    before = state(header(7, 2, 5, 3), header(8, 0, 0, transactional=True), header(7, 2, 8))
    before.producers[9] = Producer(epoch=3, coordinator_epoch=4, last_timestamp_ms=NOW_MS)
    after = ProducerState(EXPIRATION_MS)
    after.load(producer_snapshot.decode(producer_snapshot.encode(before.producers), "x"), NOW_MS)
    assert after.ongoing == before.ongoing == {10: 8}
    assert after.producers == {
        key: producer._replace(batches=producer.batches[-1:]) for key, producer in before.producers.items()
    }
    after.load([], NOW_MS)
    late = ProducerState(EXPIRATION_MS)
    late.load(producer_snapshot.decode(producer_snapshot.encode(before.producers), "x"), NOW_MS + EXPIRATION_MS)
    assert late.producers.keys() == {8}


def test_a_damaged_snapshot_is_refused_whichever_byte_it_is() -> None:
    data = producer_snapshot.encode(state(header(7, 2, 5, 3)).producers)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x40
        with pytest.raises(StorageError, match="some/path"):
            producer_snapshot.decode(bytes(damaged), "some/path")
    for length in range(len(data)):
        with pytest.raises(StorageError):
            producer_snapshot.decode(data[:length], "some/path")


def test_a_damaged_snapshot_on_disk_falls_back_to_the_one_before() -> None:
    one = OneLog()
    for number in range(4):
        one.append(batch(b"x", producer=(1, 0, number)))
        one.log.roll(NOW_MS)
        one.run()
    one.close()
    one.disk.flip_bit(f"{one.name}/{4:020d}.snapshot", 20)
    one.open(recovery_point=4)
    assert one.log.producers.producers[1].last_sequence == 3
