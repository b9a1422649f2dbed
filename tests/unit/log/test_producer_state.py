"""Idempotent and transactional producers, and their snapshot file."""

from __future__ import annotations

import pytest
from support.logs import EXPIRATION_MS, NOW_MS, OneLog, batch, marker

from penstock.errors import ErrorCode, RequestError, StorageError
from penstock.log import producer_snapshot, producer_state
from penstock.log.limits import BATCHES_PER_PRODUCER
from penstock.log.producer_state import Marker, Origin, Producer, ProducerState, VerificationGuard
from penstock.records.batch import BatchHeader, read_header

MAX = 2**31 - 1


def header(producer_id: int, epoch: int, sequence: int, count: int = 1, **more: bool) -> BatchHeader:
    return read_header(batch(*[b"x"] * count, producer=(producer_id, epoch, sequence), **more))


def state(*batches: BatchHeader) -> ProducerState:
    producers = ProducerState()
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
    producers.undo(steps)
    assert (producers.producers, producers.ongoing, producers.unreplicated) == before


def test_a_transaction_bounds_the_stable_offset_until_its_marker_is_replicated() -> None:
    one = OneLog()
    one.append(batch(b"a"))
    one.append(batch(b"b", producer=(1, 0, 0), transactional=True))
    one.append(batch(b"c", producer=(2, 0, 0), transactional=True))
    assert one.log.producers.last_stable_offset(3) == 1
    one.append(marker(1, 0, commit=True))
    assert one.log.producers.last_stable_offset(3) == 1
    assert one.log.producers.last_stable_offset(4) == 2
    one.append(marker(2, 0, commit=False))
    assert one.log.producers.last_stable_offset(4) == 2
    assert one.log.producers.last_stable_offset(5) == 5
    assert one.log.segments.aborted_transactions(0, 5) == [(2, 2, 4, 5)]


def test_a_marker_of_an_old_coordinator_and_a_write_outside_of_the_transaction_are_refused() -> None:
    producers = state(header(1, 0, 0, transactional=True))
    end = read_header(marker(1, 0, commit=True))
    assert refusal(producers, header(1, 0, 1)) is ErrorCode.INVALID_TXN_STATE
    producers.reserve(end, 20, Origin.COORDINATOR, Marker(True, 5))
    fenced = refusal(producers, end, Origin.COORDINATOR, Marker(True, 4))
    assert fenced is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def coordinated(
    producers: ProducerState, batch: BatchHeader, guard: VerificationGuard | None = None, version: int = 0
) -> ErrorCode:
    try:
        producers.check_coordinated(batch, guard, version)
    except RequestError as error:
        return error.code
    return ErrorCode.NONE


def test_a_coordinators_batch_that_begins_a_transaction_needs_a_guard() -> None:
    producers = ProducerState()
    first, later = header(1, 3, -1, transactional=True), header(1, 3, -1, transactional=True)
    assert coordinated(producers, header(1, 3, -1)) is ErrorCode.NONE, "it is in no transaction"
    assert coordinated(producers, first) is ErrorCode.INVALID_TXN_STATE
    guard = producers.guard(1, 3)
    assert guard is not None
    assert guard is producers.guard(1, 3)
    assert coordinated(producers, first, VerificationGuard(3)) is ErrorCode.INVALID_TXN_STATE, "it is another's"
    assert coordinated(producers, header(2, 3, -1, transactional=True), guard) is ErrorCode.INVALID_TXN_STATE
    assert coordinated(producers, first, guard) is ErrorCode.NONE
    producers.reserve(first, 10, Origin.COORDINATOR)
    assert producers.guard(1, 3) is None
    assert coordinated(producers, later) is ErrorCode.NONE, "the transaction is open"


def test_a_guard_goes_stale_with_a_marker_a_batch_and_a_newer_epoch() -> None:
    producers = ProducerState()
    batch, newer = header(1, 3, -1, transactional=True), header(1, 4, -1, transactional=True)
    stale = producers.guard(1, 3)
    producers.reserve(read_header(marker(1, 3, commit=False)), 10, Origin.COORDINATOR, Marker(False, 0))
    assert coordinated(producers, batch, stale) is ErrorCode.INVALID_TXN_STATE
    stale = producers.guard(1, 3)
    producers.reserve(header(1, 3, 0, transactional=True), 11, Origin.REPLICATION)
    producers.reserve(read_header(marker(1, 3, commit=False)), 12, Origin.REPLICATION, Marker(False, 0))
    assert coordinated(producers, batch, stale) is ErrorCode.INVALID_TXN_STATE
    stale, guard = producers.guard(1, 3), producers.guard(1, 4)
    assert coordinated(producers, batch, stale) is ErrorCode.INVALID_TXN_STATE
    assert producers.guard(1, 3) is guard, "who is behind does not take it from who is not"
    assert coordinated(producers, batch, guard) is ErrorCode.INVALID_TXN_STATE
    assert coordinated(producers, newer, guard) is ErrorCode.NONE


def test_no_more_guards_are_kept_than_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "PRODUCER_IDS_PER_PARTITION_MAX", 2)
    producers = ProducerState()
    guards = [producers.guard(producer_id, 0) for producer_id in range(3)]
    codes = [coordinated(producers, header(each, 0, -1, transactional=True), guards[each]) for each in range(3)]
    assert codes == [ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE, ErrorCode.NONE]


def test_markers_of_strangers_make_no_more_producers_known_than_batches_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "PRODUCER_IDS_PER_PARTITION_MAX", 2)
    producers = state(header(1, 0, 0, transactional=True))
    for producer_id in range(2, 6):
        end = read_header(marker(producer_id, 0, commit=False))
        producers.reserve(end, 10 + producer_id, Origin.COORDINATOR, Marker(False, 0))
    assert list(producers.producers) == [1, 5], "the one with an open transaction stays"


@pytest.mark.parametrize(
    ("epoch", "version", "code"),
    [
        (3, 1, ErrorCode.NONE),
        (3, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, 2, ErrorCode.NONE),
        (32767, 2, ErrorCode.NONE),
    ],
)
def test_by_newer_rules_a_marker_has_a_newer_epoch_than_its_transaction(
    epoch: int, version: int, code: ErrorCode
) -> None:
    """The last epoch of all has nothing newer. Kafka's checkProducerEpoch (KIP-1228)."""
    producers = state(header(1, 32767 if epoch == 32767 else 3, 0, transactional=True))
    end = read_header(marker(1, epoch, commit=True))
    assert coordinated(producers, end, version=version) is code
    if not code:
        producers.reserve(end, 20, Origin.COORDINATOR, Marker(True, 0))
        assert coordinated(producers, end, version=version) is ErrorCode.NONE, "it comes again"


def test_idle_producers_expire_unless_a_transaction_is_open() -> None:
    producers = state(header(1, 0, 0), header(2, 0, 0, transactional=True))
    producers.remove_idle(0, EXPIRATION_MS)
    producers.remove_idle(EXPIRATION_MS - 1, EXPIRATION_MS)
    assert producers.producers.keys() == {1, 2}
    producers.remove_idle(EXPIRATION_MS, EXPIRATION_MS)
    assert producers.producers.keys() == {2}


def test_a_producer_that_goes_on_is_not_idle_whatever_the_time_of_its_records() -> None:
    producers = state(header(1, 0, 0))
    producers.remove_idle(0, EXPIRATION_MS)
    producers.reserve(header(1, 0, 1), 10, Origin.CLIENT)
    producers.remove_idle(EXPIRATION_MS, EXPIRATION_MS)
    assert producers.producers.keys() == {1}
    producers.remove_idle(2 * EXPIRATION_MS, EXPIRATION_MS)
    assert not producers.producers


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
    after = ProducerState()
    after.load(producer_snapshot.decode(producer_snapshot.encode(before.producers), "x"))
    assert after.ongoing == before.ongoing == {10: 8}
    assert after.producers == {
        key: producer._replace(batches=producer.batches[-1:]) for key, producer in before.producers.items()
    }


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
