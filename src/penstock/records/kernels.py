"""Compiled loops that turn the records of many batches into the buffers of Arrow arrays.

No Python object a record: `decode` walks the records once, checks every variable-length integer and every length
against the end of its record and of its batch (the bytes are hostile, and compiled code checks no bounds), and copies
keys and values into place on the way. Headers are rare, so `decode` checks and counts them only; `decode_headers` then
fills buffers of the exact size. `find_records` only says where records and their keys are, for `key_kernels`.

The rules are those of `records.reader`; `records.arrow_plain` is the same in plain Python, and the tests hold the two
against each other. Importing this module imports numba (0.4 s, 100 MB): only workers and pipelines do. The machine
code is cached on disk: beside this file, or in numba's directory in the user's cache where that is not writable.
NUMBA_CACHE_DIR overrides both.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numba
import numpy as np

FAILED = -1
"""The position that stands for a broken integer or a length that does not fit."""

int64: Any = numba.int64
uint64: Any = numba.uint64
uint8: Any = numba.uint8

# Columns of the table of batches that `decode` is given.
RECORDS_START, RECORDS_END, RECORD_COUNT, BASE_OFFSET, LAST_OFFSET_DELTA, BASE_TIMESTAMP, APPEND_TIME = range(7)
BATCH_COLUMNS = 7
NOT_APPEND_TIME = np.iinfo(np.int64).min

# Entries of the result of `decode`.
(
    ROWS, KEY_BYTES, VALUE_BYTES, NULL_KEYS, NULL_VALUES, HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES, BROKEN_BATCH,
) = range(9)  # fmt: skip
RESULT_SIZE = 9

# Columns of the table of records that `find_records` fills. The length of a null key is -1.
RECORD_START, KEY_START, KEY_LENGTH, OFFSET_DELTA, TIMESTAMP_DELTA, HAS_VALUE = range(6)
RECORD_COLUMNS = 6

Array = np.ndarray[Any, np.dtype[Any]]
Function = TypeVar("Function")


def compiled(function: Function) -> Function:
    """Machine code at first use, from the cache if it is there. Runs without the GIL and checks no bounds."""
    machine_code: Any = numba.njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
    code: Function = machine_code(function)
    return code


@compiled
def varint(data: Array, position: int, end: int) -> tuple[int, int]:
    """The zig-zag number of 32 bits at `position` and the position after it, or FAILED."""
    raw = uint64(0)
    shift = 0
    while position < end and shift < 35:
        byte = uint64(data[uint64(position)])
        position += 1
        raw |= (byte & uint64(0x7F)) << uint64(shift)
        if byte < 0x80:
            raw &= uint64(0xFFFFFFFF)
            return int64(raw >> uint64(1)) ^ -int64(raw & uint64(1)), position
        shift += 7
    return int64(0), int64(FAILED)


@compiled
def varlong(data: Array, position: int, end: int) -> tuple[int, int]:
    """The zig-zag number of 64 bits at `position` and the position after it, or FAILED."""
    raw = uint64(0)
    shift = 0
    while position < end and shift < 70:
        byte = uint64(data[uint64(position)])
        position += 1
        raw |= (byte & uint64(0x7F)) << uint64(shift)
        if byte < 0x80:
            return int64(raw >> uint64(1)) ^ -int64(raw & uint64(1)), position
        shift += 7
    return int64(0), int64(FAILED)


@compiled
def field(data: Array, position: int, end: int) -> tuple[int, int]:
    """Length (negative: null) of the field at `position` and where its bytes begin, or FAILED if they do not fit."""
    length, position = varint(data, position, end)
    if position == FAILED or length > end - position:
        return int64(0), int64(FAILED)
    return length, position


@compiled
def skip_headers(data: Array, position: int, end: int, count: int) -> tuple[int, int, int]:
    """Walks `count` headers: the position after them or FAILED, and the bytes of their keys and of their values."""
    key_bytes = int64(0)
    value_bytes = int64(0)
    for _ in range(count):
        length, position = field(data, position, end)
        if position == FAILED or length < 0:
            return int64(FAILED), key_bytes, value_bytes
        position += length
        key_bytes += length
        length, position = field(data, position, end)
        if position == FAILED:
            return int64(FAILED), key_bytes, value_bytes
        if length > 0:
            position += length
            value_bytes += length
    return position, key_bytes, value_bytes


@compiled
def copy(data: Array, position: int, out: Array, out_position: int, length: int) -> int:
    """Copies `length` bytes and returns the position after them in `out`."""
    source = uint64(position)
    target = uint64(out_position)
    for i in range(uint64(length)):
        out[target + i] = data[source + i]
    return out_position + length


@compiled
def record_start(data: Array, position: int, end: int) -> tuple[int, int, int, int]:
    """Timestamp delta, offset delta, end of the record and position of its key, which is FAILED if it is broken."""
    size, position = varint(data, position, end)
    if position == FAILED or size < 0 or size > end - position:
        return int64(0), int64(0), int64(0), int64(FAILED)
    record_end = position + size
    timestamp_delta, position = varlong(data, position + 1, record_end)
    if position == FAILED:
        return int64(0), int64(0), int64(0), int64(FAILED)
    offset_delta, position = varint(data, position, record_end)
    return timestamp_delta, offset_delta, record_end, position


@compiled
def decode(  # noqa: C901, PLR0912, PLR0915, PLR0917 one loop, for the compiler's sake
    data: Array, batches: Array, start_offset: int, end_offset: int,
    offsets: Array, timestamps: Array, timestamp_types: Array,
    key_ends: Array, keys: Array, key_valid: Array, value_ends: Array, values: Array, value_valid: Array,
    header_ends: Array, header_starts: Array, result: Array,
) -> None:  # fmt: skip
    """Decodes the records of all `batches` whose offsets are in [`start_offset`, `end_offset`).

    Args:
        data: uint8, holds the records of every batch, decompressed.
        batches: int64 [batch, BATCH_COLUMNS]; APPEND_TIME is the timestamp of all records, or NOT_APPEND_TIME.
        offsets, timestamps: int64 [rows].
        timestamp_types: int32 [rows], 0 create time, 1 log-append time.
        key_ends, value_ends, header_ends: int32 [rows + 1], Arrow's offsets; the first entry is 0.
        keys, values: uint8, the bytes themselves.
        key_valid, value_valid: uint8 [rows / 8], zeros, Arrow's validity bits.
        header_starts: int64 [rows], where the headers of the row are in `data`; read where it has any.
        result: int64 [RESULT_SIZE]; BROKEN_BATCH is the first batch with a broken record, or -1. Then the rest is void.
    """
    row = 0
    key_bytes = int64(0)
    value_bytes = int64(0)
    null_keys = 0
    null_values = 0
    header_count = int64(0)
    header_key_bytes = int64(0)
    header_value_bytes = int64(0)
    result[BROKEN_BATCH] = -1
    for batch in range(batches.shape[0]):
        position = batches[batch, RECORDS_START]
        end = batches[batch, RECORDS_END]
        base_offset = batches[batch, BASE_OFFSET]
        base_timestamp = batches[batch, BASE_TIMESTAMP]
        append_time = batches[batch, APPEND_TIME]
        last_delta = batches[batch, LAST_OFFSET_DELTA]
        previous_delta = int64(-1)
        for _ in range(batches[batch, RECORD_COUNT]):
            timestamp_delta, offset_delta, record_end, position = record_start(data, position, end)
            if position == FAILED or offset_delta <= previous_delta or offset_delta > last_delta:
                result[BROKEN_BATCH] = batch
                return
            previous_delta = offset_delta
            key_length, key_position = field(data, position, record_end)
            if key_position == FAILED:
                result[BROKEN_BATCH] = batch
                return
            value_length, value_position = field(data, key_position + max(key_length, 0), record_end)
            if value_position == FAILED:
                result[BROKEN_BATCH] = batch
                return
            headers, position = varint(data, value_position + max(value_length, 0), record_end)
            if position == FAILED or headers < 0 or headers > record_end - position:
                result[BROKEN_BATCH] = batch
                return
            header_position = position
            key_sum = int64(0)
            value_sum = int64(0)
            if headers > 0:
                position, key_sum, value_sum = skip_headers(data, position, record_end, headers)
            if position != record_end:
                result[BROKEN_BATCH] = batch
                return
            offset = base_offset + offset_delta
            if offset < start_offset or offset >= end_offset:
                continue
            offsets[row] = offset
            if append_time == NOT_APPEND_TIME:
                timestamps[row] = base_timestamp + timestamp_delta
                timestamp_types[row] = 0
            else:
                timestamps[row] = append_time
                timestamp_types[row] = 1
            if key_length >= 0:
                key_valid[row >> 3] |= uint8(1 << (row & 7))
                key_bytes = copy(data, key_position, keys, key_bytes, key_length)
            else:
                null_keys += 1
            if value_length >= 0:
                value_valid[row >> 3] |= uint8(1 << (row & 7))
                value_bytes = copy(data, value_position, values, value_bytes, value_length)
            else:
                null_values += 1
            header_starts[row] = header_position
            header_count += headers
            header_key_bytes += key_sum
            header_value_bytes += value_sum
            row += 1
            key_ends[row] = key_bytes
            value_ends[row] = value_bytes
            header_ends[row] = header_count
        if position != end:
            result[BROKEN_BATCH] = batch
            return
    result[ROWS] = row
    result[KEY_BYTES] = key_bytes
    result[VALUE_BYTES] = value_bytes
    result[NULL_KEYS] = null_keys
    result[NULL_VALUES] = null_values
    result[HEADERS] = header_count
    result[HEADER_KEY_BYTES] = header_key_bytes
    result[HEADER_VALUE_BYTES] = header_value_bytes


@compiled
def decode_headers(  # noqa: PLR0917
    data: Array, header_starts: Array, header_ends: Array, rows: int,
    key_ends: Array, keys: Array, value_ends: Array, values: Array, value_valid: Array,
) -> int:  # fmt: skip
    """Fills the flat arrays of all headers of `rows` rows, whose bytes `decode` has checked. Returns the null values.

    `header_starts` and `header_ends` are as `decode` left them; the other arrays are as its `key_ends`, `keys`, ...
    """
    header = 0
    key_bytes = int64(0)
    value_bytes = int64(0)
    null_values = 0
    end = int64(len(data))
    for row in range(rows):
        position = header_starts[row]
        for _ in range(header_ends[row + 1] - header_ends[row]):
            length, position = field(data, position, end)
            key_bytes = copy(data, position, keys, key_bytes, length)
            position += length
            length, position = field(data, position, end)
            if length >= 0:
                value_valid[header >> 3] |= uint8(1 << (header & 7))
                value_bytes = copy(data, position, values, value_bytes, length)
                position += length
            else:
                null_values += 1
            header += 1
            key_ends[header] = key_bytes
            value_ends[header] = value_bytes
    return null_values


@compiled
def find_records(data: Array, count: int, last_delta: int, found: Array) -> bool:
    """Whether `data` is `count` good records, offsets and all, as `decode` demands. Says where each is, and its key.

    Args:
        data: uint8, the records of one batch, decompressed.
        last_delta: the batch's last offset delta.
        found: int64 [at least `count` + 1, RECORD_COLUMNS]; the last row is where the last record ends.
    """
    position = int64(0)
    end = int64(len(data))
    previous_delta = int64(-1)
    for row in range(count):
        found[row, RECORD_START] = position
        timestamp_delta, offset_delta, record_end, position = record_start(data, position, end)
        if position == FAILED or offset_delta <= previous_delta or offset_delta > last_delta:
            return False
        previous_delta = offset_delta
        key_length, key_position = field(data, position, record_end)
        if key_position == FAILED:
            return False
        value_length, value_position = field(data, key_position + max(key_length, 0), record_end)
        if value_position == FAILED:
            return False
        headers, position = varint(data, value_position + max(value_length, 0), record_end)
        if position == FAILED or headers < 0 or headers > record_end - position:
            return False
        if headers > 0:
            position, _, _ = skip_headers(data, position, record_end, headers)
        if position != record_end:
            return False
        found[row, KEY_START] = key_position
        found[row, KEY_LENGTH] = max(key_length, -1)
        found[row, OFFSET_DELTA] = offset_delta
        found[row, TIMESTAMP_DELTA] = timestamp_delta
        found[row, HAS_VALUE] = value_length >= 0
    found[count, RECORD_START] = position
    return bool(position == end)


@compiled
def murmur2(data: Array, position: int, end: int) -> int:
    """`partitioner.murmur2` of the bytes from `position` to `end`, in 64 bits of which 32 count."""
    mask = uint64(0xFFFFFFFF)
    multiplier = uint64(0x5BD1E995)
    value = uint64(0x9747B28C) ^ uint64(end - position)
    at = uint64(position)
    for _ in range((end - position) >> 2):
        word = uint64(data[at]) | uint64(data[at + uint64(1)]) << uint64(8)
        word |= uint64(data[at + uint64(2)]) << uint64(16) | uint64(data[at + uint64(3)]) << uint64(24)
        word = word * multiplier & mask
        word = (word ^ word >> uint64(24)) * multiplier & mask
        value = (value * multiplier & mask) ^ word
        at += uint64(4)
    rest = (end - position) & 3
    if rest > 0:
        for i in range(rest):
            value ^= uint64(data[at + uint64(i)]) << uint64(8 * i)
        value = value * multiplier & mask
    value = (value ^ value >> uint64(13)) * multiplier & mask
    hashed: int = value ^ value >> uint64(15)
    return hashed


@compiled
def partitions(data: Array, ends: Array, count: int, out: Array) -> None:
    """Fills `out` (int32) with the partition, of `count`, of each key of an Arrow binary column.

    `ends` are the column's offsets (int32, one more than rows), `data` its bytes. What a null key gets has no meaning.
    """
    for row in range(out.shape[0]):
        out[row] = int64(murmur2(data, int64(ends[row]), int64(ends[row + 1])) & uint64(0x7FFFFFFF)) % count
