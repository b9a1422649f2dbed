"""What is refused before it is appended, and with which error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.errors import CorruptRecordError, ErrorCode, InvalidRecordError, PenstockError
from penstock.records.batch import (
    CRC,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    TimestampType,
    computed_crc,
    read_header,
)
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from penstock.records.limits import RECORD_ERRORS_MAX
from penstock.records.validation import BatchRejectedError, Rules, only_batch, validate_deep, validate_header

NOW_MS = 1_700_000_000_000
RULES = Rules(timestamp_before_max_ms=10_000, timestamp_after_max_ms=1_000)


def batch(timestamps: tuple[int, ...] = (NOW_MS, NOW_MS + 1), key: bytes | None = b"k", **options: Any) -> bytearray:
    builder = BatchBuilder(**options)
    for timestamp_ms in timestamps:
        builder.append(timestamp_ms, key, b"value")
    return builder.build()


def changed(data: bytearray, **fields: int) -> bytearray:
    """The batch with other header fields, named as in BatchHeader, and the CRC made right."""
    header = read_header(data)._replace(**fields)
    values = list(header)
    values[1] = header.size_bytes - 12
    out = bytearray(HEADER.pack(*values)) + data[HEADER_BYTES:]
    CRC.pack_into(out, CRC_POSITION, computed_crc(out, 0, len(out)))
    return out


def header_error(data: bytearray, rules: Rules = RULES, **options: Any) -> tuple[ErrorCode, str]:
    with pytest.raises(PenstockError) as caught:
        validate_header(data, 0, read_header(data), rules, NOW_MS, **options)
    return caught.value.code, str(caught.value)


def test_a_good_batch_passes_both_depths() -> None:
    for codec in Codec:
        data = batch(codec=codec, producer_id=4, producer_epoch=0, base_sequence=0, is_transactional=True)
        validate_header(data, 0, read_header(data), RULES, NOW_MS)
        assert validate_deep(data, 0, read_header(data), RULES, NOW_MS) == NOW_MS + 1


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"base_offset": 5}, ErrorCode.INVALID_RECORD, "base offset of a produced batch is 5"),
        ({"attributes": 5}, ErrorCode.INVALID_RECORD, "unknown compression type 5"),
        ({"attributes": 0x20}, ErrorCode.INVALID_RECORD, "control records"),
        ({"attributes": 0x10}, ErrorCode.INVALID_RECORD, "transactional batch needs a producer id"),
        ({"attributes": 0x08}, ErrorCode.INVALID_TIMESTAMP, "LogAppendTime"),
        ({"last_offset_delta": -1}, ErrorCode.INVALID_RECORD, "offset range [0, -1]"),
        ({"last_offset_delta": 4}, ErrorCode.INVALID_RECORD, "does not match the record count 2"),
        ({"record_count": 0}, ErrorCode.INVALID_RECORD, "record count 0"),
        ({"record_count": -1}, ErrorCode.INVALID_RECORD, "record count -1"),
        ({"producer_id": 3, "producer_epoch": 0}, ErrorCode.INVALID_RECORD, "sequence -1 of producer id 3"),
        ({"producer_id": 3, "base_sequence": 0}, ErrorCode.INVALID_RECORD, "epoch -1 of producer id 3"),
        ({"max_timestamp_ms": NOW_MS + 1_001}, ErrorCode.INVALID_TIMESTAMP, "out of range"),
        ({"max_timestamp_ms": NOW_MS - 1}, ErrorCode.INVALID_TIMESTAMP, "before the base"),
        (
            {"base_timestamp_ms": 0, "max_timestamp_ms": NOW_MS - 10_001},
            ErrorCode.INVALID_TIMESTAMP,
            "out of range",
        ),
    ],
)
def test_a_header_that_breaks_a_rule_is_refused(fields: dict[str, int], code: ErrorCode, message: str) -> None:
    found_code, found = header_error(changed(batch(), **fields))
    assert found_code is code
    assert message in found


def test_bounds_of_timestamps_are_inclusive() -> None:
    for timestamp_ms in (NOW_MS - 10_000, NOW_MS + 1_000):
        data = batch((timestamp_ms,))
        validate_header(data, 0, read_header(data), RULES, NOW_MS)


def test_records_without_a_time_pass() -> None:
    data = batch((-1, -1))
    assert validate_deep(data, 0, read_header(data), RULES, NOW_MS) == -1


def test_a_topic_with_log_append_time_ignores_what_time_the_producer_says() -> None:
    data = batch((5,))
    rules = replace(RULES, timestamp_type=TimestampType.LOG_APPEND_TIME)
    validate_deep(data, 0, read_header(data), rules, NOW_MS)


def test_a_wrong_crc_or_a_missing_byte_is_a_corrupt_message() -> None:
    data = batch()
    assert header_error(data[:-1])[0] is ErrorCode.CORRUPT_MESSAGE
    data[-1] ^= 1
    assert header_error(data)[0] is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_longer_than_the_topic_allows_is_too_large() -> None:
    data = batch()
    validate_header(data, 0, read_header(data), replace(RULES, max_message_bytes=len(data)), NOW_MS)
    assert header_error(data, replace(RULES, max_message_bytes=len(data) - 1))[0] is ErrorCode.MESSAGE_TOO_LARGE


def test_coordinators_may_write_control_batches_and_offsets() -> None:
    data = batch(is_control=True, base_offset=9)
    validate_header(data, 0, read_header(data), RULES, NOW_MS, from_client=False)


def test_a_produce_request_carries_exactly_one_whole_batch() -> None:
    data = batch()
    assert only_batch(data, 12) == read_header(data)
    assert only_batch(data + data[:-1], 12) == read_header(data)
    for records in (b"", data[:-1], data[:20], data + data):
        with pytest.raises(InvalidRecordError) as caught:
            only_batch(records, 12)
        assert caught.value.code is ErrorCode.INVALID_RECORD


def test_old_message_formats_are_refused_by_name() -> None:
    for magic in (0, 1):
        old = bytearray(34)
        old[11], old[16] = 22, magic
        with pytest.raises(InvalidRecordError, match=f"format v{magic} is not supported"):
            only_batch(old, 12)


def test_zstd_needs_a_produce_request_of_version_7() -> None:
    data = batch(codec=Codec.ZSTD)
    assert only_batch(data, 7).compression is Codec.ZSTD
    with pytest.raises(BatchRejectedError, match="version 7") as caught:
        only_batch(data, 6)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", list(Codec))
def test_deep_validation_names_every_record_without_a_key_of_a_compacted_topic(codec: Codec) -> None:
    builder = BatchBuilder(codec=codec)
    for key in (b"a", None, b"b", None):
        builder.append(NOW_MS, key, b"v")
    data = builder.build()
    with pytest.raises(BatchRejectedError) as caught:
        validate_deep(data, 0, read_header(data), replace(RULES, compacted=True), NOW_MS)
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert [error.index for error in caught.value.record_errors] == [1, 3]
    validate_deep(data, 0, read_header(data), RULES, NOW_MS)


def test_deep_validation_names_so_many_records_and_no_more() -> None:
    builder = BatchBuilder(codec=Codec.ZSTD)
    for _ in range(RECORD_ERRORS_MAX + 5):
        builder.append(NOW_MS, None, b"v")
    data = builder.build()
    with pytest.raises(BatchRejectedError, match=f"{RECORD_ERRORS_MAX + 5} records") as caught:
        validate_deep(data, 0, read_header(data), replace(RULES, compacted=True), NOW_MS)
    assert [error.index for error in caught.value.record_errors] == list(range(RECORD_ERRORS_MAX))


def test_deep_validation_finds_the_early_record_that_the_header_hides() -> None:
    data = batch((NOW_MS, NOW_MS - 10_001, NOW_MS))
    validate_header(data, 0, read_header(data), RULES, NOW_MS)
    with pytest.raises(BatchRejectedError, match="invalid timestamp") as caught:
        validate_deep(data, 0, read_header(data), RULES, NOW_MS)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.index for error in caught.value.record_errors] == [1]


def test_deep_validation_refuses_offsets_that_are_not_consecutive() -> None:
    builder = BatchBuilder()
    builder.append(NOW_MS, b"a", b"v")
    builder.append(NOW_MS, b"b", b"v", offset=2)
    data = changed(builder.build(), last_offset_delta=1)
    with pytest.raises(BatchRejectedError, match="offset delta 2, it should be 1"):
        validate_deep(data, 0, read_header(data), RULES, NOW_MS)


def test_deep_validation_refuses_bytes_that_are_no_records() -> None:
    data = batch()
    for broken in (
        changed(data, record_count=1, last_offset_delta=0),
        changed(data, record_count=3, last_offset_delta=2),
    ):
        validate_header(broken, 0, read_header(broken), RULES, NOW_MS)
        with pytest.raises(InvalidRecordError):
            validate_deep(broken, 0, read_header(broken), RULES, NOW_MS)
    lying = changed(data, attributes=Codec.LZ4)
    with pytest.raises(CorruptRecordError, match="broken lz4 data"):
        validate_deep(lying, 0, read_header(lying), RULES, NOW_MS)
