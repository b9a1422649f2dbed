"""The records of one batch as the cleaner sees them: where each begins and ends, and its key.

A record that stays is copied as the bytes it is: its offset and timestamp are stored as distances from the batch's base
offset and base timestamp, which both stay. (Kafka moves the base timestamp to the first record that is left; a reader
gets the same timestamps from either.) Only the delete horizon, which takes the place of the base timestamp, has the
timestamps written anew (`rebased`).
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import InvalidRecordError
from penstock.records.batch import BatchHeader, Buffer, TimestampType
from penstock.records.reader import read_bytes, read_headers, wrapped
from penstock.records.varint import read_varint, read_varlong, write_varint


class Walked(NamedTuple):
    """One record: its bytes are [`start`, `end`) of the batch's records, its length included."""

    start: int
    end: int
    offset: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool


def walk(data: bytes, header: BatchHeader) -> list[Walked]:
    """The records of a batch whose records, decompressed, are `data`.

    Raises InvalidRecordError where a length is wrong, offsets do not rise or leave the batch, or bytes are left over.
    """
    if header.record_count < 0:
        raise InvalidRecordError(f"invalid record count {header.record_count}")
    found = []
    at, last_delta = 0, -1
    for _ in range(header.record_count):
        start = at
        size, at = read_varint(data, at)
        end = at + size
        if size < 0 or end > len(data):
            raise InvalidRecordError(f"a record of {size} bytes where {len(data) - at} are left")
        timestamp_delta, at = read_varlong(data, at + 1)
        delta, at = read_varint(data, at)
        if not last_delta < delta <= header.last_offset_delta:
            raise InvalidRecordError(f"offset delta {delta} after {last_delta} of at most {header.last_offset_delta}")
        last_delta = delta
        key, at = read_bytes(data, at, end)
        value_length, at = read_varint(data, at)
        if value_length > end - at:
            raise InvalidRecordError(f"a value of {value_length} bytes where {end - at} are left in the record")
        at += max(value_length, 0)
        count, at = read_varint(data, at)
        if not 0 <= count <= max(end - at, 0):
            raise InvalidRecordError(f"{count} record headers where {end - at} bytes are left")
        if count:
            _, at = read_headers(data, at, end, count)
        if at != end:
            raise InvalidRecordError(f"a record of {size} bytes whose fields have {size + at - end}")
        found.append(Walked(start, end, header.base_offset + delta, timestamp_delta, key, value_length >= 0))
    if at != len(data):
        raise InvalidRecordError(f"{len(data) - at} bytes are left after the last of {header.record_count} records")
    return found


class Selection(NamedTuple):
    """The records of one batch that stay, and how many go for which reason.

    Attributes:
        payload: the bytes of those that stay.
        kept, kept_tombstones: how many stay, and how many of these have no value.
        largest_timestamp_delta: of those that stay.
        superseded: a later record has the same key.
        removed_tombstones: the delete horizon has passed.
        without_key: a compacted topic has no place for them.
    """

    payload: Buffer
    kept: int
    kept_tombstones: int
    largest_timestamp_delta: int
    superseded: int = 0
    removed_tombstones: int = 0
    without_key: int = 0


def all_of(data: bytes, header: BatchHeader) -> Selection:
    """The selection that keeps every record. Raises as `walk`."""
    found = walk(data, header)
    largest = max((record.timestamp_delta for record in found), default=0)
    return Selection(data, len(found), sum(not record.has_value for record in found), largest)


def max_timestamp_ms(header: BatchHeader, largest_timestamp_delta: int) -> int:
    """The max timestamp of a batch of which the records that stay have this largest delta."""
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return header.max_timestamp_ms
    return wrapped(header.base_timestamp_ms + largest_timestamp_delta)


def rebased(payload: Buffer, shift_ms: int) -> bytes:
    """Records that `walk` has found good, with `shift_ms` added to each timestamp delta."""
    out = bytearray()
    at = 0
    while at < len(payload):
        size, at = read_varint(payload, at)
        end = at + size
        delta, rest = read_varlong(payload, at + 1)
        body = bytearray(payload[at : at + 1])
        write_varint(body, wrapped(delta + shift_ms))
        body += payload[rest:end]
        write_varint(out, len(body))
        out += body
        at = end
    return bytes(out)
