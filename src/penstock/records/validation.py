"""What a produced batch must fulfil before it is appended: Kafka's LogValidator in two depths.

`validate_header` costs a CRC and a few comparisons, and looks at no record. `validate_deep` walks every record as
Kafka does and reports the ones at fault by index. What `header` lets pass and Kafka would not: records whose bytes do
not fit their declared lengths, a record without a key where the topic is compacted (so compacted topics are always
validated deeply), and single records whose timestamps are out of bounds while the batch's maximum is in bounds.
Stricter than Kafka at both depths: a batch that claims log-append time is refused, whatever the topic's own type.

Source: `LogValidator`, `UnifiedLog.analyzeAndValidateRecords` and `ProduceRequest.validateRecords` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import ErrorCode, InvalidRecordError
from penstock.records.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    MAGIC_POSITION,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    TimestampType,
    check_crc,
    headers,
    not_a_header,
    read_header,
)
from penstock.records.compression import Codec
from penstock.records.limits import RECORD_ERRORS_MAX
from penstock.records.reader import Decompress, Record, read_record, record_bytes

MAX_TIMESTAMP_MS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Rules:
    """A topic's rules for its batches, made once from its configuration.

    `max_message_bytes` bounds a whole batch. A create-time timestamp must lie within
    [now - `timestamp_before_max_ms`, now + `timestamp_after_max_ms`]. `compacted` topics need a key in every record.
    """

    max_message_bytes: int = 1024 * 1024 + 12
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = MAX_TIMESTAMP_MS
    timestamp_after_max_ms: int = MAX_TIMESTAMP_MS
    compacted: bool = False


@dataclass(frozen=True, slots=True)
class RecordError:
    """One record that was refused: `index` within the batch, from 0, and why."""

    index: int
    message: str


class BatchRejectedError(InvalidRecordError):
    """A batch that breaks a rule. `code` is the answer to the client, `record_errors` names single records at fault."""

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[RecordError] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.record_errors = tuple(record_errors)


def only_batch(records: Buffer, produce_version: int) -> BatchHeader:
    """The header of the one batch that a produce request carries for a partition.

    Raises BatchRejectedError or InvalidRecordError (INVALID_RECORD) when there is no whole batch, more than one, or one
    of an old format, and UNSUPPORTED_COMPRESSION_TYPE for zstd before version 7. A cut-off batch after the first is
    ignored, as Kafka does: append only the first `size_bytes`.
    """
    size_bytes = len(records)
    if size_bytes < HEADER_BYTES:
        if size_bytes > MAGIC_POSITION and records[MAGIC_POSITION] != MAGIC:
            raise not_a_header(records, 0)
        raise no_whole_batch()
    header = read_header(records)
    if header.size_bytes != size_bytes:
        if header.size_bytes > size_bytes:
            raise no_whole_batch()
        if next(headers(records, header.size_bytes), None) is not None:
            raise BatchRejectedError(ErrorCode.INVALID_RECORD, "more than one record batch for the partition")
    if produce_version < 7 and header.compression is Codec.ZSTD:
        message = f"zstd needs Produce version 7, the request has version {produce_version}"
        raise BatchRejectedError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message)
    return header


def no_whole_batch() -> BatchRejectedError:
    return BatchRejectedError(ErrorCode.INVALID_RECORD, "no whole record batch for the partition")


def validate_header(
    view: Buffer, position: int, header: BatchHeader, rules: Rules, wall_ms: int, *, from_client: bool = True
) -> None:
    """Checks all that the header of the batch at `position` tells, and its CRC.

    `from_client` is false for batches that the broker's own coordinators write: those may be control batches.
    Raises CorruptRecordError (CORRUPT_MESSAGE) for a wrong CRC or a cut-off batch, BatchRejectedError with
    MESSAGE_TOO_LARGE, INVALID_RECORD or INVALID_TIMESTAMP for a broken rule.
    """
    if from_client and header.base_offset != 0:
        raise invalid(f"the base offset of a produced batch is {header.base_offset}, it should be 0")
    if header.size_bytes > rules.max_message_bytes:
        message = f"the batch has {header.size_bytes} bytes, the topic allows {rules.max_message_bytes}"
        raise BatchRejectedError(ErrorCode.MESSAGE_TOO_LARGE, message)
    check_crc(view, position, header)
    if header.attributes:
        _ = header.compression  # raises for an unknown type
    if from_client:
        check_client_rules(header)
    check_header_timestamps(header, rules, wall_ms)


def check_client_rules(header: BatchHeader) -> None:
    """Counts, control flag, producer id and sequence of a batch that a client sent."""
    count, count_from_offsets = header.record_count, header.last_offset_delta + 1
    if count_from_offsets <= 0:
        raise invalid(f"invalid offset range [{header.base_offset}, {header.last_offset}]")
    if count <= 0:
        raise invalid(f"invalid record count {count}")
    if count_from_offsets != count:
        offsets = f"[{header.base_offset}, {header.last_offset}]"
        raise invalid(f"offset range {offsets} does not match the record count {count}")
    producer_id = header.producer_id
    if header.attributes:
        if header.is_control:
            raise invalid("clients are not allowed to write control records")
        if header.is_transactional and producer_id <= NO_PRODUCER_ID:
            raise invalid("a transactional batch needs a producer id")
    if producer_id > NO_PRODUCER_ID:
        if header.base_sequence < 0:
            raise invalid(f"invalid sequence {header.base_sequence} of producer id {producer_id}")
        if header.producer_epoch < 0:
            raise invalid(f"invalid epoch {header.producer_epoch} of producer id {producer_id}")


def check_header_timestamps(header: BatchHeader, rules: Rules, wall_ms: int) -> None:
    """The timestamp type, and for create time the bounds of the header's max timestamp."""
    if header.attributes & LOG_APPEND_TIME_FLAG:
        raise invalid_timestamp("a producer should not set the timestamp type to LogAppendTime")
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return
    max_timestamp_ms = header.max_timestamp_ms
    if max_timestamp_ms < header.base_timestamp_ms:
        raise invalid_timestamp(f"max timestamp {max_timestamp_ms} is before the base {header.base_timestamp_ms}")
    if max_timestamp_ms != NO_TIMESTAMP and not in_bounds(max_timestamp_ms, rules, wall_ms):
        raise invalid_timestamp(out_of_bounds(max_timestamp_ms, header.last_offset, rules, wall_ms))


def validate_deep(
    view: Buffer,
    position: int,
    header: BatchHeader,
    rules: Rules,
    wall_ms: int,
    *,
    from_client: bool = True,
    decompress: Decompress | None = None,
) -> int:
    """Like `validate_header`, but also checks every record. Returns the greatest timestamp of the records.

    That timestamp belongs into the header, see `batch.set_max_timestamp`: Kafka does not trust the producer's either.
    Without `decompress`, compression contexts are made for this call.

    Raises as `validate_header`, CorruptRecordError when the records cannot be decompressed, InvalidRecordError when
    their bytes are broken, and BatchRejectedError with `record_errors` for the first RECORD_ERRORS_MAX well-formed
    records that break a rule.
    """
    validate_header(view, position, header, rules, wall_ms, from_client=from_client)
    data = bytes(record_bytes(view, position, header, decompress))
    errors: list[RecordError] = []
    at_fault = 0
    late_or_early = False
    max_timestamp_ms = NO_TIMESTAMP
    at = 0
    for index in range(header.record_count):
        record, at = read_record(data, at, header, log_append_time=False)
        max_timestamp_ms = max(max_timestamp_ms, record.timestamp_ms)
        code, message = record_fault(record, index, header, rules, wall_ms)
        if code is not ErrorCode.NONE:
            at_fault += 1
            if at_fault <= RECORD_ERRORS_MAX:
                errors.append(RecordError(index, message))
            late_or_early |= code is ErrorCode.INVALID_TIMESTAMP
    if at != len(data):
        raise invalid(f"{len(data) - at} bytes are left after the last of {header.record_count} records")
    if late_or_early:
        message = "one or more records have been rejected due to invalid timestamp"
        raise BatchRejectedError(ErrorCode.INVALID_TIMESTAMP, message, errors)
    if errors:
        shown = "; ".join(f"record {error.index}: {error.message}" for error in errors[:3])
        message = f"{at_fault} records have been rejected, the first of them: {shown}"
        raise BatchRejectedError(ErrorCode.INVALID_RECORD, message, errors)
    return max_timestamp_ms


def record_fault(record: Record, index: int, header: BatchHeader, rules: Rules, wall_ms: int) -> tuple[ErrorCode, str]:
    """The fault of a well-formed record, or NONE."""
    if record.offset != header.base_offset + index:
        return ErrorCode.INVALID_RECORD, f"offset delta {record.offset - header.base_offset}, it should be {index}"
    if rules.compacted and record.key is None:
        return ErrorCode.INVALID_RECORD, "a compacted topic cannot accept a record without a key"
    checks_time = rules.timestamp_type is TimestampType.CREATE_TIME and record.timestamp_ms != NO_TIMESTAMP
    if checks_time and not in_bounds(record.timestamp_ms, rules, wall_ms):
        return ErrorCode.INVALID_TIMESTAMP, out_of_bounds(record.timestamp_ms, record.offset, rules, wall_ms)
    return ErrorCode.NONE, ""


def in_bounds(timestamp_ms: int, rules: Rules, wall_ms: int) -> bool:
    return -rules.timestamp_after_max_ms <= wall_ms - timestamp_ms <= rules.timestamp_before_max_ms


def out_of_bounds(timestamp_ms: int, offset: int, rules: Rules, wall_ms: int) -> str:
    bounds = f"[{wall_ms - rules.timestamp_before_max_ms}, {wall_ms + rules.timestamp_after_max_ms}]"
    return f"timestamp {timestamp_ms} of the record with offset {offset} is out of range: it should be within {bounds}"


def invalid(message: str) -> BatchRejectedError:
    return BatchRejectedError(ErrorCode.INVALID_RECORD, message)


def invalid_timestamp(message: str) -> BatchRejectedError:
    return BatchRejectedError(ErrorCode.INVALID_TIMESTAMP, message)
