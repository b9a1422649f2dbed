"""Control batches: what brokers and controllers write into a log beside the user's records.

A control record's key is a version and a type; the type says what the value is:

- ABORT, COMMIT end a producer's transaction in a partition (KIP-98);
- LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER belong to the metadata quorum's log and snapshots (KIP-595, KIP-630);
- KRAFT_VERSION and KRAFT_VOTERS carry the quorum's version and members (KIP-853).

A reader passes over the types it does not know. Source: `ControlRecordType`, `EndTransactionMarker` and
`ControlRecordUtils` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from penstock.errors import InvalidRecordError
from penstock.protocol.codec import decode, encode_bytes
from penstock.protocol.message import Message
from penstock.protocol.messages.kraft_version_record import KRaftVersionRecord
from penstock.protocol.messages.leader_change_message import LeaderChangeMessage
from penstock.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from penstock.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from penstock.protocol.messages.voters_record import VotersRecord
from penstock.records.batch import (
    CONTROL_FLAG,
    CRC,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    computed_crc,
)
from penstock.records.builder import BatchBuilder
from penstock.records.reader import Decompress, records

CONTROL_KEY = Struct(">hh")
CONTROL_KEY_VERSION = 0
END_TRANSACTION = Struct(">hi")
END_TRANSACTION_VERSION = 0
END_TRANSACTION_RECORD = Struct(">5shhBhiB")
"""All of a marker's record: what `END_TRANSACTION_HEAD` is, the key, the value's length, the value, no headers."""
END_TRANSACTION_HEAD = bytes((16 << 1, 0, 0, 0, CONTROL_KEY.size << 1))
"""Of a record of 16 bytes: its length, attributes, deltas of 0, and the length of the key; lengths are zigzag."""
END_TRANSACTION_VALUE_LENGTH = END_TRANSACTION.size << 1
END_TRANSACTION_BYTES = HEADER_BYTES + END_TRANSACTION_RECORD.size
MESSAGE_VERSION = 0
"""The version in which Kafka 4.3 writes the messages of all quorum control records."""


class ControlType(IntEnum):
    """The type in a control record's key."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransactionMarker(NamedTuple):
    """The end of a producer's transaction in one partition, written by the coordinator of `coordinator_epoch`."""

    type: ControlType
    coordinator_epoch: int


class ControlRecord(NamedTuple):
    """One record of a control batch. `message` is None for types that we do not know."""

    offset: int
    timestamp_ms: int
    type: ControlType
    message: EndTransactionMarker | Message | None


MESSAGES: dict[ControlType, type[Message]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}
TYPES = {message: control_type for control_type, message in MESSAGES.items()}


def end_transaction_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    wall_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """The batch that ends the producer's transaction."""
    assert marker.type in (ControlType.ABORT, ControlType.COMMIT)
    assert producer_id >= 0
    batch = bytearray(
        HEADER.pack(
            base_offset,
            END_TRANSACTION_BYTES - LOG_OVERHEAD_BYTES,
            leader_epoch,
            MAGIC,
            0,
            TRANSACTIONAL_FLAG | CONTROL_FLAG,
            0,
            wall_ms,
            wall_ms,
            producer_id,
            producer_epoch,
            NO_SEQUENCE,
            1,
        )
    )
    batch += END_TRANSACTION_RECORD.pack(
        END_TRANSACTION_HEAD,
        CONTROL_KEY_VERSION,
        marker.type,
        END_TRANSACTION_VALUE_LENGTH,
        END_TRANSACTION_VERSION,
        marker.coordinator_epoch,
        0,
    )
    CRC.pack_into(batch, CRC_POSITION, computed_crc(batch, 0, END_TRANSACTION_BYTES))
    return batch


def plain_marker(view: Buffer, header: BatchHeader, position: int = 0) -> EndTransactionMarker | None:
    """The marker in the control batch at `position`, if it is written as every broker writes it. None says nothing:
    then `control_records` has to look.
    """
    if header.size_bytes != END_TRANSACTION_BYTES or header.record_count != 1 or header.is_compressed:
        return None
    if position + END_TRANSACTION_BYTES > len(view):
        return None
    head, key_version, kind, value_length, version, coordinator_epoch, header_count = (
        END_TRANSACTION_RECORD.unpack_from(view, position + HEADER_BYTES)
    )
    is_plain = head == END_TRANSACTION_HEAD and value_length == END_TRANSACTION_VALUE_LENGTH and not header_count
    if not is_plain or key_version < 0 or version < 0 or kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    return EndTransactionMarker(ControlType(kind), coordinator_epoch)


def control_batch(messages: Iterable[Message], *, base_offset: int, leader_epoch: int, wall_ms: int) -> bytearray:
    """One batch with a control record for each message of the quorum: a LeaderChangeMessage, a SnapshotHeaderRecord,
    a SnapshotFooterRecord, a KRaftVersionRecord or a VotersRecord."""
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=leader_epoch, is_control=True)
    for message in messages:
        builder.append(wall_ms, control_key(TYPES[type(message)]), encode_bytes(message, MESSAGE_VERSION))
    assert builder.record_count
    return builder.build()


def control_key(control_type: ControlType) -> bytes:
    assert control_type is not ControlType.UNKNOWN
    return CONTROL_KEY.pack(CONTROL_KEY_VERSION, control_type)


def control_type(key: Buffer | None) -> ControlType:
    """The type in a control record's key. Raises InvalidRecordError for a key that is too short or negative."""
    if key is None or len(key) < CONTROL_KEY.size:
        raise InvalidRecordError(f"a control record's key has {0 if key is None else len(key)} bytes, it needs 4")
    version, number = CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordError(f"invalid version {version} of a control record's key")
    return ControlType(number) if 0 <= number <= ControlType.KRAFT_VOTERS else ControlType.UNKNOWN


def control_records(
    view: Buffer, header: BatchHeader, position: int = 0, decompress: Decompress | None = None
) -> Iterator[ControlRecord]:
    """The records of the control batch at `position`.

    Raises as `reader.records`, InvalidRecordError for a broken key or marker, ProtocolError for a broken message.
    """
    assert header.is_control
    for record in records(view, header, position, decompress):
        kind = control_type(record.key)
        yield ControlRecord(record.offset, record.timestamp_ms, kind, decode_value(kind, record.value))


def decode_value(kind: ControlType, value: bytes | None) -> EndTransactionMarker | Message | None:
    if kind is ControlType.UNKNOWN:
        return None
    if value is None:
        raise InvalidRecordError(f"a control record of type {kind.name} has no value")
    if kind in MESSAGES:
        return decode(MESSAGES[kind], MESSAGE_VERSION, memoryview(value))[0]
    if len(value) < END_TRANSACTION.size:
        raise InvalidRecordError(f"a transaction marker of {len(value)} bytes: it needs {END_TRANSACTION.size}")
    version, coordinator_epoch = END_TRANSACTION.unpack_from(value)
    if version < 0:
        raise InvalidRecordError(f"invalid version {version} of a transaction marker")
    return EndTransactionMarker(kind, coordinator_epoch)
