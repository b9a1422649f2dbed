"""The records of a message of format 0 or 1 that is in a log of today, as Apache Kafka 4.3 reads them.

`wrappers` reads what brokers of that time left as well as it can, for an import. Here a broker serves the same bytes to
others, who will decode them, so it must come to the same offsets and times as they, or say that it cannot:

- In a wrapper of format 1 the offsets inside are relative: the last one has the wrapper's offset. If that is 0 they
  count as they are, which some versions of librdkafka relied on. In a wrapper of format 0 they are absolute.
- Where the broker had set the wrapper's time, it is that of all messages of format 1 inside.
- No compressed message is inside another one.

Source: `AbstractLegacyRecordBatch.DeepRecordsIterator` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.records.batch import LOG_OVERHEAD_BYTES, BatchHeader
from penstock.records.batch import Buffer as AnyBuffer
from penstock.records.compression import Codec
from penstock.records.legacy.compression import LEGACY_CODECS, with_right_checksum
from penstock.records.legacy.formats import Buffer, Entry, LegacyRecord
from penstock.records.legacy.kafka08 import KAFKA_08, LEAST_SIZES
from penstock.records.limits import LEGACY_INNER_MESSAGES_MAX

Decompress = Callable[[Codec, AnyBuffer], AnyBuffer]


def message_records(
    view: AnyBuffer, header: BatchHeader, position: int, decompress: Decompress
) -> Iterator[LegacyRecord]:
    """The records of the message at `position`, in order. The checksum is not looked at.

    Raises CorruptRecordError for a message that is cut off or cannot be decompressed, InvalidRecordError for one that
    is broken inside, has a compression type that its format does not know, or more messages than
    LEGACY_INNER_MESSAGES_MAX.
    """
    assert header.is_old
    message = memoryview(view)[position : position + header.size_bytes]
    if len(message) < header.size_bytes:
        raise CorruptRecordError(f"the message at offset {header.base_offset} is cut off")
    if header.size_bytes < LOG_OVERHEAD_BYTES + LEAST_SIZES[header.magic]:
        raise InvalidRecordError(f"a message of format {header.magic} in {header.size_bytes} bytes")
    entry = entry_of(message, 0, header.size_bytes)
    if not entry.codec:
        yield LegacyRecord(entry.offset, entry.timestamp_ms, entry.key, entry.value)
        return
    data = unpacked(entry, decompress)
    shift = shift_of(data, entry)
    for at, size_bytes in inner_messages(data):
        inner = entry_of(data, at, size_bytes)
        if inner.codec:
            raise InvalidRecordError("a compressed message inside another one")
        time_ms = entry.timestamp_ms if entry.has_append_time and inner.magic else inner.timestamp_ms
        yield LegacyRecord(inner.offset + shift, time_ms, inner.key, inner.value, entry.codec)


def entry_of(data: Buffer, position: int, size_bytes: int) -> Entry:
    """A message whose lengths must fit its size. Raises InvalidRecordError."""
    try:
        return KAFKA_08.entry(data, position, size_bytes)
    except CorruptRecordError as error:
        raise InvalidRecordError(f"a broken message of format 0 or 1: {error}") from None


def unpacked(wrapper: Entry, decompress: Decompress) -> Buffer:
    """The messages inside a compressed one."""
    if wrapper.value is None:
        raise InvalidRecordError("a compressed message without a value")
    if wrapper.codec >= len(LEGACY_CODECS):
        raise InvalidRecordError(f"compression type {wrapper.codec} in a message of format {wrapper.magic}")
    codec = LEGACY_CODECS[wrapper.codec]
    value = with_right_checksum(wrapper.value) if codec is Codec.LZ4 and not wrapper.magic else wrapper.value
    data = decompress(codec, value)
    return data if isinstance(data, bytes) else memoryview(data)


def shift_of(data: Buffer, wrapper: Entry) -> int:
    """What is added to the offsets inside."""
    count, last = 0, 0
    for at, _ in inner_messages(data):
        count += 1
        last = int.from_bytes(data[at : at + 8], "big")
        if count > LEGACY_INNER_MESSAGES_MAX:
            raise InvalidRecordError(f"a compressed message with more than {LEGACY_INNER_MESSAGES_MAX} inside")
    if not count:
        raise InvalidRecordError("a compressed message with nothing inside")
    if not wrapper.magic or not wrapper.offset:
        return 0
    if wrapper.offset < last:
        raise InvalidRecordError(f"a compressed message with offset {wrapper.offset}, and {last} inside")
    return wrapper.offset - last


def inner_messages(data: Buffer) -> Iterator[tuple[int, int]]:
    """Position and size of the messages inside a compressed one, which they fill."""
    position, end = 0, len(data)
    while position < end:
        size_bytes = KAFKA_08.size_at(data, position) if end - position >= KAFKA_08.HEADER_BYTES else 0
        if not 0 < size_bytes <= end - position:
            raise InvalidRecordError(f"no message begins at byte {position} of the {end} inside a compressed one")
        yield position, size_bytes
        position += size_bytes
