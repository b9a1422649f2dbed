"""Record batches, format v2: a header view over bytes, the walk over a run of batches, and the fields a leader writes.

A batch is 61 bytes of header and then its records, compressed as one block or not:

    base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4 | attributes 2 | last offset delta 4 | base timestamp 8
    | max timestamp 8 | producer id 8 | producer epoch 2 | base sequence 4 | record count 4 | records ...

`length` counts what follows it; `BatchHeader.size_bytes` counts the whole batch. The CRC-32C covers everything from the
attributes on, so a leader assigns the offset and the leader epoch in place without touching it; log-append time changes
attributes and max timestamp, and so the CRC.

A log that a broker of before Kafka 0.11 began has messages of the formats 0 and 1 as well, each of them alone or, if it
is compressed, the wrapper of others:

    offset 8 | length 4 | crc 4 | magic 1 | attributes 1 | timestamp 8 (format 1 only) | key, value ...

Its CRC-32 covers everything from the magic on, and a wrapper has the offset of the last message inside. As an *entry*
of a log it is seen as a batch is (`read_entry`, `entries`): where it begins and ends, its last offset, its largest
timestamp. Where only batches may be, `read_header` and `headers` refuse it.

Nothing here looks inside the records: that is `records.reader`. What a batch must fulfil to be appended is
`records.validation`. Source: KIP-98, KIP-31, KIP-32, and `DefaultRecordBatch` and `AbstractLegacyRecordBatch` of Apache
Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from crc32c import crc32c

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.records.compression import CODECS, Codec

Buffer = bytes | bytearray | memoryview
WritableBuffer = bytearray | memoryview

HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12
"""Base offset and length, which come before what `length` counts."""
OLD_MESSAGE_MIN_BYTES = 14
"""Of what `length` counts in a message of the formats 0 and 1."""
UNKNOWN_COUNT = -1
"""The record count of such a message: it may be compressed and hold others, and nothing outside says how many."""

MAGIC = 2
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1
MAX_SEQUENCE = 2**31 - 1

CODEC_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

HEADER = Struct(">qiibIhiqqqhii")
BASE_OFFSET = Struct(">q")
LENGTH = Struct(">i")
LENGTH_AND_ON = Struct(">iib")
OLD_HEADER = Struct(">qiIbbq")
"""Of a message of format 1: offset, length, CRC-32, magic, attributes, timestamp. One of format 0, which is as long at
least, has other fields where the timestamp would be."""
LEADER_EPOCH = Struct(">i")
CRC = Struct(">I")
ATTRIBUTES = Struct(">h")
MAX_TIMESTAMP = Struct(">q")
PRODUCER = Struct(">qhi")
"""Id, epoch and base sequence of the producer."""

LENGTH_POSITION = 8
LEADER_EPOCH_POSITION = 12
MAGIC_POSITION = 16
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
MAX_TIMESTAMP_POSITION = 35
PRODUCER_POSITION = 43
RECORD_COUNT_POSITION = 57

assert HEADER.size == HEADER_BYTES
OLD_HEADER_BYTES = OLD_HEADER.size
assert OLD_HEADER_BYTES == LOG_OVERHEAD_BYTES + OLD_MESSAGE_MIN_BYTES


class TimestampType(IntEnum):
    """Who set a batch's timestamps: the producer, or the broker when it appended."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The header of one batch, as it is in the bytes.

    `size_bytes` is the whole batch. `crc` is what the header claims. `producer_id`, `producer_epoch` and
    `base_sequence` are -1 where the producer is not idempotent. `base_timestamp_ms` is the delete horizon where
    `delete_horizon_ms` is not None, and then the record timestamps still count from it.

    Of a message of format 0 or 1 the header has the offset as the base offset and the last one, though others may be
    inside that have lower ones, no leader epoch and no producer, and -1 as the record count.
    """

    base_offset: int
    size_bytes: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def is_old(self) -> bool:
        """Whether it is a message of format 0 or 1."""
        return self.magic < MAGIC

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, or -1. Sequences wrap from 2^31-1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> Codec:
        """How the records are compressed. Raises InvalidRecordError for a type that does not exist (5, 6, 7)."""
        codec = self.attributes & CODEC_MASK
        if codec >= len(CODECS):
            raise InvalidRecordError(f"unknown compression type {codec} in the batch at offset {self.base_offset}")
        return CODECS[codec]

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_FLAG else TimestampType.CREATE_TIME

    @property
    def is_compressed(self) -> bool:
        return self.attributes & CODEC_MASK != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch carries a control record (a transaction marker, a leader change) and no user data."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time when the cleaner may drop this batch's tombstones and markers; None if not yet decided."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_FLAG else None


new_tuple = tuple.__new__
"""Makes a header at a third of the cost of its own constructor, which is written in Python."""


def read_header(view: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch at `position`. Only the 61 header bytes need to be there; no CRC is checked.

    Raises CorruptRecordError when they are not there or cannot be a header, InvalidRecordError for the message
    formats 0 and 1, which Apache Kafka 4 does not accept either.
    """
    if len(view) - position < HEADER_BYTES:
        raise not_a_header(view, position)
    base_offset, length, *rest = HEADER.unpack_from(view, position)
    if rest[1] != MAGIC or length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
        raise not_a_header(view, position)
    return new_tuple(BatchHeader, (base_offset, length + LOG_OVERHEAD_BYTES, *rest))


def not_a_header(view: Buffer, position: int) -> CorruptRecordError | InvalidRecordError:
    """The error that says why there is no batch header at `position`."""
    available = len(view) - position
    if available > MAGIC_POSITION:
        length, _, magic = LENGTH_AND_ON.unpack_from(view, position + LENGTH_POSITION)
        if magic in (0, 1) and length >= OLD_MESSAGE_MIN_BYTES:
            return InvalidRecordError(f"message format v{magic} is not supported: only record batches of format v2 are")
        if magic != MAGIC:
            return CorruptRecordError(f"invalid magic {magic} at byte {position}: a record batch has {MAGIC}")
        if length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
            least = HEADER_BYTES - LOG_OVERHEAD_BYTES
            return CorruptRecordError(f"batch length {length} at byte {position} is less than a header's {least}")
    return CorruptRecordError(f"{max(available, 0)} bytes at byte {position} are too few for a batch header")


def read_old_header(view: Buffer, position: int = 0) -> BatchHeader | None:
    """The message of format 0 or 1 at `position`, of which the first 26 bytes need to be there; None if none can be."""
    if len(view) - position < OLD_HEADER_BYTES:
        return None
    offset, length, crc, magic, attributes, timestamp_ms = OLD_HEADER.unpack_from(view, position)
    if magic not in (0, 1) or length < OLD_MESSAGE_MIN_BYTES:
        return None
    if not magic:
        timestamp_ms = NO_TIMESTAMP
    attributes &= CODEC_MASK | LOG_APPEND_TIME_FLAG if magic else CODEC_MASK
    size_bytes = length + LOG_OVERHEAD_BYTES
    return BatchHeader(
        offset, size_bytes, NO_LEADER_EPOCH, magic, crc, attributes, 0, timestamp_ms, timestamp_ms,
        NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, UNKNOWN_COUNT,
    )  # fmt: skip


def is_old_message(view: Buffer, position: int = 0) -> bool:
    """Whether a whole message of format 0 or 1 is at `position`, with the CRC-32 that it claims."""
    header = read_old_header(view, position)
    if header is None or position + header.size_bytes > len(view):
        return False
    return crc32(memoryview(view)[position + MAGIC_POSITION : position + header.size_bytes]) == header.crc


def read_entry(view: Buffer, position: int = 0) -> BatchHeader:
    """As `read_header`, and of a message of format 0 or 1 too, which may be shorter than the header of a batch."""
    if len(view) - position >= HEADER_BYTES:
        base_offset, length, *rest = HEADER.unpack_from(view, position)
        if rest[1] == MAGIC and length >= HEADER_BYTES - LOG_OVERHEAD_BYTES:
            return new_tuple(BatchHeader, (base_offset, length + LOG_OVERHEAD_BYTES, *rest))
    old = read_old_header(view, position)
    if old is None:
        raise not_a_header(view, position)
    return old


def headers(view: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch from `position` on.

    Ends without an error at the first batch that is cut off by the end of the view, as a fetch response may end; the
    caller sees it by comparing `position + header.size_bytes` of the last batch with the length of the view.
    Raises as `read_header` for bytes that are no batch.
    """
    end = len(view)
    while end - position >= HEADER_BYTES:
        header = read_header(view, position)
        if header.size_bytes > end - position:
            return
        yield position, header
        position += header.size_bytes


def entries(view: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """As `headers`, with the messages of the formats 0 and 1."""
    end = len(view)
    while end - position >= HEADER_BYTES:
        header = read_entry(view, position)
        if header.size_bytes > end - position:
            return
        yield position, header
        position += header.size_bytes
    while (old := read_old_header(view, position)) is not None and old.size_bytes <= end - position:
        yield position, old
        position += old.size_bytes


def computed_crc(view: Buffer, position: int, size_bytes: int) -> int:
    """The CRC-32C of the batch of `size_bytes` at `position`, from its attributes to its end."""
    return crc32c(memoryview(view)[position + ATTRIBUTES_POSITION : position + size_bytes])


def check_crc(view: Buffer, position: int, header: BatchHeader) -> None:
    """Raises CorruptRecordError unless the whole batch is there and has the CRC that its header claims.

    That of a message of format 0 or 1 is another one, which is asked for where that of a batch does not fit: so a batch
    costs nothing more.
    """
    if position + header.size_bytes > len(view):
        missing = position + header.size_bytes - len(view)
        raise CorruptRecordError(f"the batch at offset {header.base_offset} is cut off: {missing} bytes are missing")
    computed = computed_crc(view, position, header.size_bytes)
    if computed != header.crc and not (header.is_old and is_old_message(view, position)):
        raise CorruptRecordError(
            f"the batch at offset {header.base_offset} is corrupt: stored CRC {header.crc}, computed {computed}"
        )


def assign_offset(buffer: WritableBuffer, position: int, base_offset: int, leader_epoch: int) -> None:
    """Writes the base offset and the leader epoch into the batch at `position`. The CRC covers neither."""
    BASE_OFFSET.pack_into(buffer, position, base_offset)
    LEADER_EPOCH.pack_into(buffer, position + LEADER_EPOCH_POSITION, leader_epoch)


def set_log_append_time(buffer: WritableBuffer, position: int, now_ms: int) -> None:
    """Stamps the batch at `position` with the broker's time: every record's timestamp is now `now_ms`."""
    set_max_timestamp(buffer, position, TimestampType.LOG_APPEND_TIME, now_ms)


def set_max_timestamp(
    buffer: WritableBuffer, position: int, timestamp_type: TimestampType, max_timestamp_ms: int
) -> None:
    """Writes the timestamp type and the max timestamp, and the CRC where that changes anything."""
    header = read_header(buffer, position)
    assert position + header.size_bytes <= len(buffer)
    if header.timestamp_type == timestamp_type and header.max_timestamp_ms == max_timestamp_ms:
        return
    attributes = header.attributes & ~LOG_APPEND_TIME_FLAG
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_FLAG
    ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes)
    MAX_TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, max_timestamp_ms)
    CRC.pack_into(buffer, position + CRC_POSITION, computed_crc(buffer, position, header.size_bytes))


def increment_sequence(sequence: int, increment: int) -> int:
    """`sequence + increment`, where 2^31-1 is followed by 0."""
    return (sequence + increment) & MAX_SEQUENCE


def decrement_sequence(sequence: int, decrement: int) -> int:
    """`sequence - decrement`, where 0 is preceded by 2^31-1."""
    return (sequence - decrement) & MAX_SEQUENCE
