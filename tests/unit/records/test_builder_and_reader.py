"""Records written one by one come back one by one."""

from __future__ import annotations

import pytest

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.records.batch import HEADER_BYTES, TimestampType, read_header
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec, Contexts, DecompressionLimitError
from penstock.records.reader import Record, bounded, records
from penstock.records.varint import read_varint, read_varlong, size_of_varint, write_varint

RECORDS = [
    Record(10, 1000, b"key", b"value", (("a", b"1"), ("ü", None), ("", b""))),
    Record(11, 900, None, b"", ()),
    Record(12, 2000, b"", None, ()),
    Record(15, 1000, bytes(70), bytes(9000), (("h", bytes(200)),)),
]


def built(codec: Codec, **options: object) -> bytearray:
    builder = BatchBuilder(base_offset=10, codec=codec, **options)  # type: ignore[arg-type]
    for record in RECORDS:
        size_bytes = builder.size_with(record.timestamp_ms, record.key, record.value, record.headers)
        given = builder.append(record.timestamp_ms, record.key, record.value, record.headers, offset=record.offset)
        assert given == record.offset
        if record.offset < 15:
            assert builder.size_bytes == size_bytes
    assert builder.record_count == 4
    return builder.build()


@pytest.mark.parametrize("codec", list(Codec))
def test_records_read_as_they_were_written(codec: Codec) -> None:
    data = b"xyz" + built(codec)
    header = read_header(data, 3)
    assert list(records(data, header, 3)) == RECORDS
    assert (header.base_timestamp_ms, header.max_timestamp_ms, header.last_offset_delta) == (1000, 2000, 5)


def test_the_bytes_are_kafkas() -> None:
    builder = BatchBuilder()
    builder.append(5, b"k", b"v", [("h", None)])
    assert builder.build()[HEADER_BYTES:].hex() == "16000000026b027602026801"


def test_all_records_of_a_batch_with_log_append_time_have_its_time() -> None:
    data = built(Codec.NONE, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=77)
    assert {record.timestamp_ms for record in records(data, read_header(data))} == {77}


def test_an_empty_batch_keeps_its_offsets() -> None:
    data = BatchBuilder(base_offset=5).build(last_offset=9)
    header = read_header(data)
    assert (header.record_count, header.last_offset, header.base_timestamp_ms) == (0, 9, -1)
    assert list(records(data, header)) == []


def test_offsets_must_rise() -> None:
    builder = BatchBuilder(base_offset=3)
    builder.append(0, None, None, offset=5)
    with pytest.raises(ValueError, match="offset 5 is not greater than the last one, 5"):
        builder.append(0, None, None, offset=5)


def test_a_wrong_record_count_is_an_invalid_record() -> None:
    data = built(Codec.NONE)
    header = read_header(data)
    for count in (-1, 3, 5):
        with pytest.raises(InvalidRecordError):
            list(records(data, header._replace(record_count=count)))


def test_a_batch_that_is_cut_off_is_corrupt_and_one_too_large_is_refused() -> None:
    data = built(Codec.ZSTD)
    with pytest.raises(CorruptRecordError, match="cut off"):
        list(records(data[:-1], read_header(data)))
    with pytest.raises(DecompressionLimitError):
        list(records(data, read_header(data), 0, bounded(Contexts(), limit_bytes=1000)))


@pytest.mark.parametrize("number", [0, -1, 1, 63, 64, -64, -65, 8191, 8192, 2**31 - 1, -(2**31)])
def test_numbers_of_variable_length(number: int) -> None:
    out = bytearray()
    write_varint(out, number)
    assert len(out) == size_of_varint(number)
    assert read_varint(out, 0) == read_varlong(out, 0) == (number, len(out))
    with pytest.raises(InvalidRecordError, match="beyond the end"):
        read_varint(out[:-1], 0)


def test_numbers_that_do_not_end_are_refused_and_surplus_bits_are_dropped() -> None:
    for read, size, bits in ((read_varint, 5, 32), (read_varlong, 10, 64)):
        with pytest.raises(InvalidRecordError, match=f"{bits} bits does not end"):
            read(b"\x80" * size + b"\x00", 0)
        assert read(b"\xff" * (size - 1) + b"\x7f", 0) == (-(2 ** (bits - 1)), size)
