"""A broken batch in what was fetched: an error that says where, or a gap, and the good batches either way."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")

from penstock.client.client import READ_COMMITTED, READ_UNCOMMITTED
from penstock.records.batch import CRC, CRC_POSITION, HEADER_BYTES, computed_crc
from penstock.records.builder import BatchBuilder
from penstock.records.control import ControlType, EndTransactionMarker, end_transaction_marker
from penstock.spark.read.decoding import Corrupt, CorruptBatchError, runs
from penstock.spark.read.plan import OffsetRange


def batch(base_offset: int, records: int, *, producer_id: int = -1) -> bytearray:
    transactional = {"producer_id": producer_id, "producer_epoch": 0, "is_transactional": True}
    builder = BatchBuilder(base_offset=base_offset, **(transactional if producer_id >= 0 else {}))
    for i in range(records):
        builder.append(1_000, b"k", f"value {base_offset + i}".encode())
    return builder.build()


def broken(base_offset: int, records: int) -> bytearray:
    """A batch with a right CRC whose first record claims an impossible length."""
    data = batch(base_offset, records)
    data[HEADER_BYTES] = 0x7F
    CRC.pack_into(data, CRC_POSITION, computed_crc(data, 0, len(data)))
    return data


def wrong_crc(base_offset: int, records: int) -> bytearray:
    data = batch(base_offset, records)
    data[-1] ^= 1
    return data


def read(
    *batches: bytes | bytearray,
    position: int = 0,
    end: int = 1000,
    skip: bool = True,
    aborted: tuple[tuple[int, int], ...] = (),
) -> tuple[list[int], list[Corrupt], list[tuple[int, int]]]:
    """Offsets read, what was left out as broken, and the gaps."""
    fetched = SimpleNamespace(records=memoryview(b"".join(batches)), aborted=aborted)
    wanted = OffsetRange("clicks", UUID(int=1), 2, position, end)
    isolation = READ_COMMITTED if aborted else READ_UNCOMMITTED
    offsets, left_out, gaps = [], [], []
    for got in runs(wanted, position, fetched, isolation=isolation, skip_corrupt=skip):
        if isinstance(got, Corrupt):
            left_out.append(got)
        else:
            offsets += got.batch.column("offset").to_pylist()
            gaps += [(first, last) for first, last in got.gaps.tolist()]
    return offsets, left_out, gaps


@pytest.mark.parametrize("make", [broken, wrong_crc])
def test_a_broken_batch_stops_the_read_and_is_named(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CorruptBatchError, match=r"clicks-2: the batch at offsets 5 to 7 is broken") as raised:
        read(batch(0, 5), make(5, 3), batch(8, 2), skip=False)
    assert "--skip-corrupt" in str(raised.value)
    assert "penstock.produce.validation=deep" in str(raised.value)


@pytest.mark.parametrize("make", [broken, wrong_crc])
def test_a_broken_batch_can_be_left_out_and_the_others_are_read_once(make) -> None:  # type: ignore[no-untyped-def]
    offsets, left_out, gaps = read(batch(0, 5), make(5, 3), batch(8, 2))
    assert offsets == [0, 1, 2, 3, 4, 8, 9]
    assert left_out == [Corrupt(5, 8)]
    assert gaps == []


def test_only_the_wanted_part_of_a_broken_batch_is_left_out() -> None:
    assert read(broken(5, 10), position=7, end=12)[1] == [Corrupt(7, 12)]
    with pytest.raises(CorruptBatchError, match="offset 7 is broken"):
        read(broken(5, 10), position=7, end=8, skip=False)


def test_what_compaction_took_before_a_broken_batch_stays_its_own_gap() -> None:
    offsets, left_out, gaps = read(batch(0, 2), broken(6, 2), batch(9, 1))
    assert (offsets, left_out, gaps) == ([0, 1, 9], [Corrupt(6, 8)], [(2, 5), (8, 8)])


def test_a_broken_batch_beyond_the_range_or_before_it_disturbs_nobody() -> None:
    assert read(batch(0, 2), broken(2, 3), end=2, skip=False)[0] == [0, 1]
    assert read(broken(0, 2), batch(2, 3), position=2)[0] == [2, 3, 4]


def test_aborted_transactions_stay_hidden_beside_a_broken_batch() -> None:
    marker = EndTransactionMarker(ControlType.ABORT, 0)
    abort = end_transaction_marker(marker, producer_id=7, producer_epoch=0, wall_ms=1_000, base_offset=4)
    offsets, left_out, _ = read(
        batch(0, 2, producer_id=7), broken(2, 2), abort, batch(5, 2, producer_id=7), aborted=((7, 0),)
    )
    assert offsets == [5, 6]
    assert left_out == [Corrupt(2, 4)]


def test_bytes_that_are_no_batch_cannot_be_skipped() -> None:
    data = batch(3, 2)
    data[16] = 9  # the magic byte
    with pytest.raises(CorruptBatchError, match="cannot be skipped either"):
        read(batch(0, 3), data, batch(5, 1))


def test_a_batch_whose_offsets_go_back_cannot_be_skipped() -> None:
    with pytest.raises(CorruptBatchError, match="claims the offsets 3 to 4 after 4"):
        read(batch(0, 5), batch(3, 2))
