"""Runs of batches as Arrow columns, and the account of their offsets."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.records import arrow, arrow_plain
from penstock.records.arrow_schema import Decoded, timestamps_us
from penstock.records.batch import (
    CRC,
    CRC_POSITION,
    TimestampType,
    assign_offset,
    computed_crc,
    read_header,
    set_log_append_time,
)
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from penstock.records.control import ControlType, EndTransactionMarker, end_transaction_marker
from penstock.records.isolation import AbortedTransactions
from penstock.records.run import Skipped

Decoder = Callable[..., Decoded]
pytestmark = pytest.mark.parametrize("to_arrow", [arrow.to_arrow, arrow_plain.to_arrow], ids=["compiled", "plain"])


def batch(offsets: range, codec: Codec = Codec.NONE, **options: object) -> bytearray:
    builder = BatchBuilder(base_offset=offsets[0], codec=codec, **options)  # type: ignore[arg-type]
    for offset in offsets:
        builder.append(1000 + offset, b"k%d" % offset, b"v%d" % offset, offset=offset)
    return builder.build()


def with_crc(data: bytearray) -> bytearray:
    CRC.pack_into(data, CRC_POSITION, computed_crc(data, 0, len(data)))
    return data


def offsets(decoded: Decoded) -> list[int]:
    found: list[int] = decoded.batch.column("offset").to_pylist()
    return found


def test_records_become_rows(to_arrow: Decoder) -> None:
    builder = BatchBuilder(base_offset=3)
    builder.append(1000, b"key", b"value", [("h", b"1"), ("n", None)])
    builder.append(1001, None, b"")
    builder.append(999, b"", None)
    decoded = to_arrow(builder.build(), include_headers=True)
    assert decoded.batch.to_pydict() == {
        "offset": [3, 4, 5],
        "timestamp": [1000, 1001, 999],
        "timestamp_type": [0, 0, 0],
        "key": [b"key", None, b""],
        "value": [b"value", b"", None],
        "headers": [[{"key": "h", "value": b"1"}, {"key": "n", "value": None}], [], []],
    }
    assert "headers" not in to_arrow(builder.build()).batch.schema.names


def test_an_empty_run_gives_no_rows(to_arrow: Decoder) -> None:
    decoded = to_arrow(b"", start_offset=7, include_headers=True)
    assert (decoded.batch.num_rows, decoded.next_offset, decoded.consumed_bytes) == (0, 7, 0)
    assert decoded.gaps.tolist() == []


def test_a_fetch_starts_and_ends_within_a_batch(to_arrow: Decoder) -> None:
    run = batch(range(5)) + batch(range(5, 10), Codec.LZ4) + batch(range(10, 15))
    decoded = to_arrow(run, start_offset=3, end_offset=12)
    assert offsets(decoded) == list(range(3, 12))
    assert (decoded.next_offset, decoded.gaps.tolist()) == (12, [])
    assert decoded.consumed_bytes == len(run) - read_header(batch(range(10, 15))).size_bytes


def test_a_batch_that_is_cut_off_is_left_for_the_next_run(to_arrow: Decoder) -> None:
    first = batch(range(5))
    decoded = to_arrow(first + batch(range(5, 10))[:-1])
    assert (offsets(decoded), decoded.next_offset, decoded.consumed_bytes) == (list(range(5)), 5, len(first))
    assert to_arrow(first[:-1], start_offset=2).next_offset == 2


def test_a_run_stops_before_the_batch_that_exceeds_its_limit(to_arrow: Decoder) -> None:
    run = batch(range(5), Codec.ZSTD) + batch(range(5, 10))
    assert offsets(to_arrow(run, limit_bytes=1)) == list(range(5))
    rest = to_arrow(run, start_offset=5, limit_bytes=1)
    assert (offsets(rest), rest.consumed_bytes) == (list(range(5, 10)), len(run))


def test_the_brokers_time_replaces_that_of_the_records(to_arrow: Decoder) -> None:
    stamped = batch(range(5, 7))
    set_log_append_time(stamped, 0, 77)
    decoded = to_arrow(batch(range(5)) + stamped)
    assert decoded.batch.column("timestamp").to_pylist() == [1000, 1001, 1002, 1003, 1004, 77, 77]
    assert decoded.batch.column("timestamp_type").to_pylist() == [0] * 5 + [TimestampType.LOG_APPEND_TIME] * 2


def test_every_offset_is_a_row_skipped_or_in_a_gap(to_arrow: Decoder) -> None:
    aborted = batch(range(3, 5), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    abort = end_transaction_marker(
        EndTransactionMarker(ControlType.ABORT, 0), producer_id=1, producer_epoch=0, wall_ms=0, base_offset=5
    )
    compacted = batch(range(8, 15, 3))
    run = batch(range(1, 3)) + aborted + abort + compacted
    decoded = to_arrow(run, isolation=AbortedTransactions([(1, 3)]))
    assert offsets(decoded) == [1, 2, 8, 11, 14]
    assert decoded.skipped == (Skipped(3, 4, False), Skipped(5, 5, True))
    assert decoded.gaps.tolist() == [[0, 0], [6, 7], [9, 10], [12, 13]]
    assert offsets(to_arrow(run)) == [1, 2, 3, 4, 8, 11, 14]


def test_a_batch_that_compaction_emptied_is_a_gap(to_arrow: Decoder) -> None:
    decoded = to_arrow(batch(range(2)) + BatchBuilder(base_offset=2).build(last_offset=5))
    assert (offsets(decoded), decoded.next_offset, decoded.gaps.tolist()) == ([0, 1], 6, [[2, 5]])


def test_header_keys_that_are_not_utf8_show_it(to_arrow: Decoder) -> None:
    builder = BatchBuilder()
    builder.append(0, None, None, [("ab", b"1"), ("cd", b"2")])
    data = builder.build()
    data[data.index(b"ab")] = 0xFF
    (found,) = to_arrow(with_crc(data), include_headers=True).batch.column("headers").to_pylist()
    assert [header["key"] for header in found] == ["\ufffdb", "cd"]


@pytest.mark.parametrize("codec", list(Codec))
def test_broken_records_refuse_the_run_and_name_the_record(to_arrow: Decoder, codec: Codec) -> None:
    good = batch(range(3), codec)
    bad = batch(range(3, 6))
    bad[bad.index(b"v4") - 1] = 0x7F  # a value longer than its record
    with pytest.raises(InvalidRecordError, match="record 1 of the batch at offset 3"):
        to_arrow(good + with_crc(bad))


def test_offsets_must_rise_within_and_between_batches(to_arrow: Decoder) -> None:
    with pytest.raises(CorruptRecordError, match="offset 2 of a batch, where the last ended at 5"):
        to_arrow(batch(range(5)) + batch(range(2, 8)))
    data = batch(range(3))
    data[data.index(b"k1") - 2] = 0  # the offset delta of the second record
    with pytest.raises(InvalidRecordError, match=r"record 1 .* has offset 0, it should be after 0"):
        to_arrow(with_crc(data))


def test_a_wrong_crc_is_corrupt(to_arrow: Decoder) -> None:
    data = batch(range(3))
    data[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="stored CRC"):
        to_arrow(data)


def test_a_record_count_that_cannot_fit_allocates_nothing(to_arrow: Decoder) -> None:
    data = batch(range(3))
    data[23:27] = data[57:61] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(InvalidRecordError, match="2147483647 records in"):
        to_arrow(with_crc(data))


def test_milliseconds_become_sparks_timestamps(to_arrow: Decoder) -> None:
    decoded = to_arrow(batch(range(1)))
    (first,) = timestamps_us(decoded.batch.column("timestamp")).to_pylist()
    assert first == datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)
    extremes = timestamps_us(pa.array([2**63 - 1, -(2**63)], pa.int64())).cast(pa.int64()).to_pylist()
    assert extremes == [9223372036854775000, -9223372036854775000]


def test_the_leader_epochs_of_a_run_are_told_with_where_they_end(to_arrow: Decoder) -> None:
    data = b"".join(
        bytes(with_epoch(batch(offsets), epoch))
        for offsets, epoch in ((range(5), 3), (range(5, 8), 3), (range(8, 10), -1), (range(10, 20), 6))
    )
    assert to_arrow(data, start_offset=2).epochs == ((3, 8), (6, 20))
    assert to_arrow(data, start_offset=2, end_offset=12).epochs == ((3, 8), (6, 12))
    assert to_arrow(data, start_offset=2, end_offset=7).epochs == ((3, 7),)
    assert to_arrow(b"", start_offset=7).epochs == ()


def with_epoch(data: bytearray, leader_epoch: int) -> bytearray:
    assign_offset(data, 0, read_header(data).base_offset, leader_epoch)
    return data
