"""The header of a batch, the walk over a run, and the fields that a leader writes in place."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.records.batch import (
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_BYTES,
    MAX_SEQUENCE,
    TRANSACTIONAL_FLAG,
    TimestampType,
    assign_offset,
    check_crc,
    decrement_sequence,
    headers,
    increment_sequence,
    read_header,
    set_log_append_time,
    set_max_timestamp,
)
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec


def batch(count: int = 3, **options: object) -> bytearray:
    builder = BatchBuilder(**options)  # type: ignore[arg-type]
    for number in range(count):
        builder.append(1000 + number, b"key", b"value")
    return builder.build()


def test_a_header_reads_as_it_was_built() -> None:
    data = batch(
        base_offset=40,
        leader_epoch=3,
        codec=Codec.GZIP,
        producer_id=7,
        producer_epoch=2,
        base_sequence=MAX_SEQUENCE - 1,
        is_transactional=True,
        is_control=True,
    )
    header = read_header(data)
    assert (header.base_offset, header.last_offset, header.next_offset) == (40, 42, 43)
    assert (header.size_bytes, header.leader_epoch, header.record_count) == (len(data), 3, 3)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (1000, 1002)
    assert (header.producer_id, header.producer_epoch, header.has_producer_id) == (7, 2, True)
    assert (header.base_sequence, header.last_sequence) == (MAX_SEQUENCE - 1, 0)
    assert (header.compression, header.timestamp_type) == (Codec.GZIP, TimestampType.CREATE_TIME)
    assert header.attributes == Codec.GZIP | TRANSACTIONAL_FLAG | CONTROL_FLAG
    assert header.is_transactional
    assert header.is_control
    assert header.delete_horizon_ms is None
    assert header._replace(attributes=DELETE_HORIZON_FLAG).delete_horizon_ms == 1000


def test_a_batch_without_a_producer_id_has_no_sequences() -> None:
    header = read_header(batch())
    assert (header.producer_id, header.last_sequence, header.has_producer_id) == (-1, -1, False)


@pytest.mark.parametrize(
    ("position", "value", "error", "message"),
    [
        (16, 0, InvalidRecordError, "format v0 is not supported"),
        (16, 1, InvalidRecordError, "format v1 is not supported"),
        (16, 3, CorruptRecordError, "invalid magic 3"),
        (16, 255, CorruptRecordError, "invalid magic -1"),
        (8, 0x80, CorruptRecordError, "batch length -"),
        (11, 48, CorruptRecordError, "batch length 48 .* less than a header's 49"),
    ],
)
def test_what_cannot_be_a_header_says_why(position: int, value: int, error: type[Exception], message: str) -> None:
    data = batch(0)
    data[position] = value
    with pytest.raises(error, match=message):
        read_header(data)


def test_a_header_that_is_not_all_there_is_corrupt() -> None:
    data = batch()
    for size in range(HEADER_BYTES):
        with pytest.raises(CorruptRecordError, match="too few"):
            read_header(data[:size])
    assert read_header(data[:HEADER_BYTES]).size_bytes == len(data)


def test_an_unknown_compression_type_is_an_invalid_record() -> None:
    for number in (5, 6, 7):
        with pytest.raises(InvalidRecordError, match=f"unknown compression type {number}"):
            _ = read_header(batch())._replace(attributes=number).compression


def test_a_run_is_walked_to_the_last_whole_batch() -> None:
    first, second = batch(2), batch(5, base_offset=2)
    run = memoryview(first + second)
    both = [(0, read_header(first)), (len(first), read_header(second))]
    assert list(headers(run)) == both
    assert list(headers(run, len(first))) == both[1:]
    for cut in (1, len(second) - 5, len(second) - 1):
        assert list(headers(run[:-cut])) == both[:1]
    assert list(headers(b"")) == []


def test_the_crc_covers_all_from_the_attributes_on() -> None:
    data = batch()
    header = read_header(data)
    check_crc(data, 0, header)
    for position in range(21, len(data)):
        data[position] ^= 1
        with pytest.raises(CorruptRecordError, match="stored CRC"):
            check_crc(data, 0, header)
        data[position] ^= 1
    with pytest.raises(CorruptRecordError, match="1 bytes are missing"):
        check_crc(data[:-1], 0, header)


def test_offset_and_epoch_are_assigned_in_place_and_the_crc_stays() -> None:
    data = bytearray(b"before") + batch()
    assign_offset(memoryview(data), 6, 2**40, 9)
    header = read_header(data, 6)
    assert (header.base_offset, header.leader_epoch, header.next_offset) == (2**40, 9, 2**40 + 3)
    check_crc(data, 6, header)
    assert data[:6] == b"before"


def test_log_append_time_is_stamped_with_a_new_crc() -> None:
    data = batch()
    set_log_append_time(data, 0, 5_000)
    header = read_header(data)
    assert (header.timestamp_type, header.max_timestamp_ms) == (TimestampType.LOG_APPEND_TIME, 5_000)
    check_crc(data, 0, header)
    set_max_timestamp(data, 0, TimestampType.CREATE_TIME, 1002)
    assert data == batch()


def test_sequences_wrap_after_the_greatest_32_bit_number() -> None:
    assert increment_sequence(MAX_SEQUENCE, 1) == 0
    assert increment_sequence(MAX_SEQUENCE - 1, 5) == 3
    assert decrement_sequence(0, 1) == MAX_SEQUENCE
    assert decrement_sequence(increment_sequence(MAX_SEQUENCE, 9), 9) == MAX_SEQUENCE


def test_what_a_broker_imports_brings_no_numpy_numba_or_codec_library() -> None:
    program = (
        "import sys, penstock.records.batch, penstock.records.validation, penstock.records.control, "
        "penstock.records.builder, penstock.records.isolation\n"
        "print(sorted({'numpy', 'numba', 'pyarrow', 'zstandard', 'lz4', 'cramjam'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
