"""Records written one by one come back one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.records.batch import HEADER_BYTES, BatchHeader, TimestampType, read_header
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec, Contexts, DecompressionLimitError
from penstock.records.reader import Record, bounded, keys_and_values, records
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
        offset = builder.append(record.timestamp_ms, record.key, record.value, record.headers, offset=record.offset)
        assert offset == record.offset
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


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**40),
            st.none() | st.binary(max_size=200),
            st.none() | st.binary(max_size=200),
            st.booleans(),
        ),
        min_size=1,
        max_size=200,
    )
)
def test_keys_and_values_are_those_of_the_records(told: list[tuple[int, bytes | None, bytes | None, bool]]) -> None:
    builder = BatchBuilder()
    for timestamp_ms, key, value, has_headers in told:
        builder.append(timestamp_ms, key, value, (("name", b"value"),) if has_headers else ())
    batch = builder.build()
    header = read_header(batch)
    expected = [(each.offset, each.key, each.value) for each in records(batch, header)]
    assert list(keys_and_values(batch, header)) == expected


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 90), st.sampled_from([0, 0, 0, 1, 70])), min_size=1, max_size=9
    ),
    st.none() | st.tuples(st.integers(0, 2**20), st.integers(0, 255)),
)
def test_runs_of_records_of_one_layout_are_read_as_one_by_one(
    runs: list[tuple[int, int, int]], damage: tuple[int, int] | None
) -> None:
    builder, offset = BatchBuilder(), 0
    for gap, count, more in runs:
        for _ in range(count):
            builder.append(5 + more, b"key" + bytes(more), b"value" + bytes(2 * more), offset=offset)
            offset += gap
    batch = builder.build()
    if damage is not None and len(batch) > HEADER_BYTES:
        place, byte = damage
        batch[HEADER_BYTES + place % (len(batch) - HEADER_BYTES)] = byte
    header = read_header(batch)
    assert read_or_not(batch, header, keys_and_values) == read_or_not(batch, header, records)


@pytest.mark.parametrize("first", [0, 63, 70])
def test_any_byte_of_records_of_one_layout_may_be_wrong(first: int) -> None:
    builder = BatchBuilder()
    for offset in range(first, first + 3):
        builder.append(5, b"k", b"v", offset=offset)
    batch = builder.build()
    header = read_header(batch)
    for place in range(HEADER_BYTES, len(batch)):
        for byte in range(256):
            damaged = batch[:place] + bytes([byte]) + batch[place + 1 :]
            assert read_or_not(damaged, header, keys_and_values) == read_or_not(damaged, header, records)


def read_or_not(batch: bytearray, header: BatchHeader, read: Callable[..., Iterator[Any]]) -> list[Any] | None:
    """Offsets, keys and values as one of the readers gives them; None where it says that they are broken."""
    try:
        return [each if len(each) == 3 else (each.offset, each.key, each.value) for each in read(batch, header)]
    except InvalidRecordError:
        return None


@given(st.binary(max_size=20), st.integers(0, 100), st.integers(0, 255))
def test_a_broken_record_is_broken_for_keys_and_values_too(value: bytes, place: int, byte: int) -> None:
    builder = BatchBuilder()
    for number in range(3):
        builder.append(number, b"key", value)
    batch = builder.build()
    batch[61 + place % (len(batch) - 61)] = byte
    header = read_header(batch)
    try:
        expected = [(each.offset, each.key, each.value) for each in records(batch, header)]
    except InvalidRecordError:
        with pytest.raises(InvalidRecordError):
            list(keys_and_values(batch, header))
    else:
        assert list(keys_and_values(batch, header)) == expected


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**40),
            st.lists(st.tuples(st.binary(max_size=200), st.none() | st.binary(max_size=200)), max_size=100),
        ),
        max_size=5,
    )
)
def test_records_added_together_are_those_added_one_by_one(
    runs: list[tuple[int, list[tuple[bytes, bytes | None]]]],
) -> None:
    together, apart = BatchBuilder(base_offset=7), BatchBuilder(base_offset=7)
    for timestamp_ms, pairs in runs:
        together.append_all(timestamp_ms, pairs)
        for key, value in pairs:
            apart.append(timestamp_ms, key, value)
        assert together.size_bytes == apart.size_bytes
    assert together.build() == apart.build()
