"""The records of a batch, one by one, each length checked.

For the few places that need single records (the controller's log, coordinators, consoles, tests). What reads millions
of them uses `records.arrow`. Of the messages of formats 0 and 1 that a log may have the records are given as well.
Source: `DefaultRecord` of Apache Kafka 4.3; as there, any negative key or value length is null and a record's size must
be exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.records.batch import HEADER_BYTES, BatchHeader, Buffer, TimestampType
from penstock.records.compression import Codec, Contexts
from penstock.records.compression import decompress as decompress_payload
from penstock.records.limits import DECOMPRESSED_BATCH_MAX_BYTES
from penstock.records.varint import read_varint, read_varlong

Decompress = Callable[[Codec, Buffer], Buffer]
Headers = tuple[tuple[str, bytes | None], ...]

OFFSET_SPAN_MAX = 2**31 - 1
MIN_RECORD_BYTES = 7
"""Length, attributes, timestamp and offset delta, key length, value length and header count of one byte each."""
Places = tuple[int, int, int, int, int, int]
"""Where fields of a record begin, from its start: offset delta, length of the key, key, length of the value, value; and
where it ends."""
LAYOUTS_MAX = 4096
"""Such places whose layouts are remembered."""


class Record(NamedTuple):
    """One record. `key` and `value` are copies; header keys that are not UTF-8 have U+FFFD where they are broken."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def bounded(contexts: Contexts, limit_bytes: int = DECOMPRESSED_BATCH_MAX_BYTES) -> Decompress:
    """The `decompress` argument of `records`: with these contexts, and at most `limit_bytes` a batch."""

    def decompress(codec: Codec, data: Buffer) -> Buffer:
        return decompress_payload(codec, data, limit_bytes, contexts)

    return decompress


def record_bytes(view: Buffer, position: int, header: BatchHeader, decompress: Decompress | None = None) -> Buffer:
    """The records of the batch at `position` as bytes, decompressed.

    Without `decompress`, contexts are made for this call. Raises CorruptRecordError when the batch is cut off or cannot
    be decompressed, InvalidRecordError for a compression type that does not exist or too much output.
    """
    if position + header.size_bytes > len(view):
        raise CorruptRecordError(f"the batch at offset {header.base_offset} is cut off")
    payload = memoryview(view)[position + HEADER_BYTES : position + header.size_bytes]
    codec = header.compression
    if codec is Codec.NONE:
        return payload
    return (decompress or bounded(Contexts()))(codec, payload)


def records(
    view: Buffer, header: BatchHeader, position: int = 0, decompress: Decompress | None = None
) -> Iterator[Record]:
    """The records of the batch at `position`. The CRC is not checked here.

    Raises as `record_bytes`, and InvalidRecordError where a record's structure or the record count is wrong.
    """
    if header.record_count < 0:
        if header.is_old:
            yield from old_records(view, header, position, decompress)
            return
        raise InvalidRecordError(f"invalid record count {header.record_count}")
    if header.record_count == 0:
        return
    data = bytes(record_bytes(view, position, header, decompress))
    log_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    at = 0
    for _ in range(header.record_count):
        record, at = read_record(data, at, header, log_append_time)
        yield record
    if at != len(data):
        raise InvalidRecordError(f"{len(data) - at} bytes are left after the last of {header.record_count} records")


def old_records(
    view: Buffer, header: BatchHeader, position: int = 0, decompress: Decompress | None = None
) -> Iterator[Record]:
    """The records of the message of format 0 or 1 at `position`. Raises as `records`."""
    from penstock.records.legacy.message_records import message_records  # few logs have such messages

    for found in message_records(view, header, position, decompress or bounded(Contexts())):
        yield Record(found.offset, found.timestamp_ms, found.key, found.value)


def counted(view: Buffer, header: BatchHeader, position: int = 0, decompress: Decompress | None = None) -> BatchHeader:
    """The header of a message of format 0 or 1 with what only its records tell: the first offset, and how many.

    Raises as `records`, and InvalidRecordError where their offsets do not rise to the message's own.
    """
    first = last = -1
    count = 0
    for record in old_records(view, header, position, decompress):
        if record.offset <= last:
            raise InvalidRecordError(f"offset {record.offset} after {last} in a compressed message")
        first, last, count = record.offset if not count else first, record.offset, count + 1
    if last > header.base_offset or header.base_offset - first > OFFSET_SPAN_MAX:
        raise InvalidRecordError(f"offsets {first} to {last} in the message at offset {header.base_offset}")
    return header._replace(base_offset=first, last_offset_delta=header.base_offset - first, record_count=count)


def keys_and_values(
    view: Buffer, header: BatchHeader, position: int = 0, decompress: Decompress | None = None
) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of each record of the batch at `position`: `records` for who reads many.

    Lengths of one or two bytes, as almost all are, are read here; any other record by `read_record`. Records whose
    fields are as long as those of the one before are cut in the same places. Raises as `records`.
    """
    if header.record_count < 0:
        if header.is_old:
            for old in old_records(view, header, position, decompress):
                yield old.offset, old.key, old.value
            return
        raise InvalidRecordError(f"invalid record count {header.record_count}")
    if header.record_count == 0:
        return
    data = bytes(record_bytes(view, position, header, decompress))
    base_offset, at, left = header.base_offset, 0, header.record_count
    while left:
        places = usual_places(data, at)
        if places is None:
            record, at = read_record(data, at, header, False)
            left -= 1
            yield record.offset, record.key, record.value
            continue
        cut, mask, flag = layout_of(places)
        start, _, key_length, _, value_length, _, _ = cut.unpack_from(data, at)
        most = min(left, (len(data) - at) // cut.size)
        alike = memoryview(data)[at : at + most * cut.size]
        for a_start, delta, a_key_length, key, a_value_length, value, headers in cut.iter_unpack(alike):
            if (
                a_start != start
                or a_key_length != key_length
                or a_value_length != value_length
                or headers
                or delta & mask != flag
            ):
                break
            at += cut.size
            left -= 1
            yield base_offset + ((delta & 0x7E) >> 1 | delta >> 8 << 6), key, value
    if at != len(data):
        raise InvalidRecordError(f"{len(data) - at} bytes are left after the last of {header.record_count} records")


def usual_places(data: bytes, at: int) -> Places | None:
    """Where the fields of a record are; None when it is not of the usual kind, or broken.

    Usual: key and value are there, no headers, every number has one or two bytes and is not negative (zig-zag: even).
    """
    start = at
    try:
        size = data[at]
        if size > 0x7F:
            at += 1
            size = size & 0x7F | data[at] << 7
        end = at + 1 + (size >> 1)
        at += 2  # its last byte, and the attributes
        timestamp_delta = data[at]
        if timestamp_delta > 0x7F:
            at += 1
            timestamp_delta = data[at] << 7
        delta_at = at = at + 1
        offset_delta = data[at]
        if offset_delta > 0x7F:
            at += 1
            offset_delta = offset_delta & 0x7F | data[at] << 7
        key_size_at = at = at + 1
        key_size = data[at]
        if key_size > 0x7F:
            at += 1
            key_size = key_size & 0x7F | data[at] << 7
        key_at = at + 1
        key_end = key_at + (key_size >> 1)
        value_size = data[key_end]
        value_at = key_end + 1
        if value_size > 0x7F:
            value_size = value_size & 0x7F | data[value_at] << 7
            value_at += 1
        if value_at + (value_size >> 1) + 1 != end or data[end - 1]:
            return None  # headers, or broken
    except IndexError:
        return None
    odd = size | offset_delta | key_size | value_size
    if odd & 1 or odd > 0x3FFF or timestamp_delta > 0x3FFF:
        return None
    return delta_at - start, key_size_at - start, key_at - start, key_end - start, value_at - start, end - start


@lru_cache(LAYOUTS_MAX)
def layout_of(places: Places) -> tuple[Struct, int, int]:
    """How to cut a record with fields in these places. With the offset delta as a little-endian number: a mask of it,
    and what the bits under the mask are if the number is even and has as many bytes as here.
    """
    delta, key_length, key, value_length, value, end = places
    number, mask, flag = ("B", 0x81, 0) if key_length - delta == 1 else ("H", 0x8081, 0x80)
    lengths = f"{key - key_length}s{value_length - key}s{value - value_length}s{end - 1 - value}s"
    return Struct(f"<{delta}s{number}{lengths}B"), mask, flag


def read_record(data: bytes, at: int, header: BatchHeader, log_append_time: bool) -> tuple[Record, int]:
    """The record at position `at` of the decompressed bytes, and the position after it."""
    size, at = read_varint(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise InvalidRecordError(f"a record of {size} bytes where {len(data) - at} are left")
    timestamp_delta, at = read_varlong(data, at + 1)
    offset_delta, at = read_varint(data, at)
    key, at = read_bytes(data, at, end)
    value, at = read_bytes(data, at, end)
    count, at = read_varint(data, at)
    if not 0 <= count <= max(end - at, 0):
        raise InvalidRecordError(f"{count} record headers where {end - at} bytes are left")
    headers: Headers = ()
    if count:
        headers, at = read_headers(data, at, end, count)
    if at != end:
        raise InvalidRecordError(f"a record of {size} bytes whose fields have {size + at - end}")
    timestamp_ms = header.max_timestamp_ms if log_append_time else wrapped(header.base_timestamp_ms + timestamp_delta)
    return Record(header.base_offset + offset_delta, timestamp_ms, key, value, headers), at


def read_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at)
    if length < 0:
        return None, at
    if length > end - at:
        raise InvalidRecordError(f"a field of {length} bytes where {end - at} are left in the record")
    return data[at : at + length], at + length


def read_headers(data: bytes, at: int, end: int, count: int) -> tuple[Headers, int]:
    headers = []
    for _ in range(count):
        key, at = read_bytes(data, at, end)
        if key is None:
            raise InvalidRecordError("a record header without a key")
        value, at = read_bytes(data, at, end)
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), at


def wrapped(number: int) -> int:
    """The number as 64 signed bits hold it."""
    return (number + 2**63) % 2**64 - 2**63
