"""What the old formats have in common: a file is a sequence of messages, one of which may wrap others, compressed."""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from penstock.records.batch import NO_TIMESTAMP

Buffer = bytes | memoryview

CODEC_MASK = 0x07
NO_OFFSET = -1


class Entry(NamedTuple):
    """One message as it is in the bytes.

    `offset` is what the message says: -1 in Kafka 0.7, where its place in the log is its offset. `codec` is not 0 when
    `value` is other messages, compressed. `has_append_time`: the broker set the timestamp, and those inside count for
    nothing.
    """

    offset: int
    magic: int
    codec: int
    timestamp_ms: int = NO_TIMESTAMP
    has_append_time: bool = False
    key: bytes | None = None
    value: bytes | None = None


class LegacyRecord(NamedTuple):
    """A record of an old log. `offset` is its offset there; `codec` is the one that it was compressed with.

    In Kafka 0.7 it is the position of the message in the whole log, the same for all that one message wraps.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    codec: int = 0


class Format(Protocol):
    """An old format. Both methods want `HEADER_BYTES` at `position` to be there."""

    HEADER_BYTES: int
    """As many as say how large a message is."""
    CANDIDATE: re.Pattern[bytes]
    """Matches where a message may begin; for searching after damage."""

    def size_at(self, view: Buffer, position: int) -> int:
        """Size in bytes of the message that may be at `position`; 0 when none can be there."""
        ...

    def is_intact(self, view: Buffer, position: int, size_bytes: int) -> bool:
        """Whether the message of this size has the checksum that it claims."""
        ...

    def entry(self, view: Buffer, position: int, size_bytes: int) -> Entry:
        """The intact message. Raises CorruptRecordError when its lengths contradict each other."""
        ...
