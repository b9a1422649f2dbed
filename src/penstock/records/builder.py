"""Writes record batches, byte for byte as Kafka's producer does.

    builder = BatchBuilder(codec=Codec.LZ4, producer_id=7, producer_epoch=0, base_sequence=0)
    builder.append(timestamp_ms, key, value)
    batch = builder.build()

Records are encoded as they come; compression, header and CRC are made once in `build`. The base timestamp is that of
the first record. Source: `MemoryRecordsBuilder` and `DefaultRecord` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, repeat

from penstock.records.batch import (
    CONTROL_FLAG,
    CRC,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    Buffer,
    TimestampType,
    computed_crc,
)
from penstock.records.compression import Codec, Contexts, compress
from penstock.records.varint import size_of_varint, varint, write_varint

HeaderPairs = Iterable[tuple[str, Buffer | None]]


class BatchBuilder:
    """A batch under construction. Public attributes may be changed until `build`.

    Args:
        base_offset: offset of the first record; 0 in what a producer sends.
        leader_epoch: -1 in what a producer sends.
        codec, level: how the records are compressed; see `compression.compress`.
        timestamp_type, log_append_time_ms: for log-append time, the broker's time, which every record then has.
        producer_id, producer_epoch, base_sequence: of an idempotent producer.
        is_transactional, is_control: the attribute flags.
        contexts: compression state, which the caller may share between builders of one thread.
    """

    __slots__ = (
        "_base_timestamp_ms", "_contexts", "_count", "_last_offset_delta", "_level", "_max_timestamp_ms", "_records",
        "base_offset", "base_sequence", "codec", "is_control", "is_transactional", "leader_epoch", "log_append_time_ms",
        "producer_epoch", "producer_id", "timestamp_type",
    )  # fmt: skip

    def __init__(
        self,
        *,
        base_offset: int = 0,
        leader_epoch: int = NO_LEADER_EPOCH,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        log_append_time_ms: int = NO_TIMESTAMP,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
        contexts: Contexts | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch
        self.codec = codec
        self.timestamp_type = timestamp_type
        self.log_append_time_ms = log_append_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional
        self.is_control = is_control
        self._level = level
        self._contexts = contexts
        self._records = bytearray()
        self._count = 0
        self._last_offset_delta = -1
        self._base_timestamp_ms = NO_TIMESTAMP
        self._max_timestamp_ms = NO_TIMESTAMP

    @property
    def record_count(self) -> int:
        return self._count

    @property
    def size_bytes(self) -> int:
        """Size of the batch if it were built now and not compressed: an upper bound for compressible data."""
        return HEADER_BYTES + len(self._records)

    def size_with(self, timestamp_ms: int, key: Buffer | None, value: Buffer | None, headers: HeaderPairs = ()) -> int:
        """`size_bytes` as it would be with this record."""
        base_ms = self._base_timestamp_ms if self._count else timestamp_ms
        body = encode_body(timestamp_ms - base_ms, self._last_offset_delta + 1, key, value, headers)
        return self.size_bytes + size_of_varint(len(body)) + len(body)

    def append(
        self,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: HeaderPairs = (),
        *,
        offset: int | None = None,
    ) -> int:
        """Adds a record and returns its offset.

        `offset` is the next one unless given; a greater one leaves a gap, as compaction does. Raises ValueError when it
        is not greater than the last.
        """
        offset_delta = self._last_offset_delta + 1 if offset is None else offset - self.base_offset
        if offset_delta <= self._last_offset_delta:
            last = self.base_offset + self._last_offset_delta
            raise ValueError(f"offset {offset} is not greater than the last one, {last}")
        if not self._count:
            self._base_timestamp_ms = timestamp_ms
        body = encode_body(timestamp_ms - self._base_timestamp_ms, offset_delta, key, value, headers)
        write_varint(self._records, len(body))
        self._records += body
        self._count += 1
        self._last_offset_delta = offset_delta
        self._max_timestamp_ms = max(self._max_timestamp_ms, timestamp_ms)
        return self.base_offset + offset_delta

    def append_all(self, timestamp_ms: int, pairs: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Adds records of these keys and values, all of one time and without headers: as `append` does, for less.

        Column by column: a thousand records take no step of the interpreter each.
        """
        columns = tuple(zip(*pairs, strict=True))
        if not columns:
            return
        keys, values = columns
        lengths: Iterable[int] = map(len, values)
        if None in values:
            lengths = [-1 if value is None else len(value) for value in values]
            values = tuple(value or b"" for value in values)
        if not self._count:
            self._base_timestamp_ms = timestamp_ms
        head = b"\0" + varint(timestamp_ms - self._base_timestamp_ms)
        deltas = range(self._last_offset_delta + 1, self._last_offset_delta + 1 + len(keys))
        fields = zip(
            repeat(head),
            map(varint, deltas),
            map(varint, map(len, keys)),
            keys,
            map(varint, lengths),
            values,
            repeat(b"\0"),
        )
        bodies = list(map(b"".join, fields))
        self._records += b"".join(chain.from_iterable(zip(map(varint, map(len, bodies)), bodies, strict=True)))
        self._count += len(keys)
        self._last_offset_delta = deltas[-1]
        self._max_timestamp_ms = max(self._max_timestamp_ms, timestamp_ms)

    def build(self, *, last_offset: int | None = None) -> bytearray:
        """The batch. `last_offset` is that of the last record unless the batch covers more, as after compaction."""
        delta = self._last_offset_delta if last_offset is None else last_offset - self.base_offset
        assert delta >= self._last_offset_delta
        payload: Buffer = self._records
        if self.codec is not Codec.NONE:
            payload = compress(self.codec, self._records, self._contexts or Contexts(), self._level)
        is_append_time = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        batch = bytearray(
            HEADER.pack(
                self.base_offset,
                HEADER_BYTES + len(payload) - LOG_OVERHEAD_BYTES,
                self.leader_epoch,
                MAGIC,
                0,
                self.attributes(),
                delta,
                self._base_timestamp_ms,
                self.log_append_time_ms if is_append_time else self._max_timestamp_ms,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self._count,
            )
        )
        batch += payload
        CRC.pack_into(batch, CRC_POSITION, computed_crc(batch, 0, len(batch)))
        return batch

    def attributes(self) -> int:
        attributes: int = self.codec
        if self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            attributes |= LOG_APPEND_TIME_FLAG
        if self.is_transactional:
            attributes |= TRANSACTIONAL_FLAG
        if self.is_control:
            attributes |= CONTROL_FLAG
        return attributes


def encode_body(
    timestamp_delta: int, offset_delta: int, key: Buffer | None, value: Buffer | None, headers: HeaderPairs
) -> bytearray:
    """A record after its own length: attributes 0, and its fields."""
    body = bytearray(1)
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    write_bytes(body, key)
    write_bytes(body, value)
    headers = tuple(headers)
    write_varint(body, len(headers))
    for name, header_value in headers:
        write_bytes(body, name.encode())
        write_bytes(body, header_value)
    return body


def write_bytes(out: bytearray, data: Buffer | None) -> None:
    if data is None:
        out.append(1)  # the length -1
    else:
        write_varint(out, len(data))
        out += data
