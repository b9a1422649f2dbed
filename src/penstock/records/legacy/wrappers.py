"""Opens compressed messages of the old formats: the records inside, with their offsets and times.

Inside a wrapper offsets are absolute (magic 0, as a broker of 0.8 and 0.9 rewrote them) or relative (magic 1 from 0.10
on, KIP-31); the wrapper's own is that of the last record inside. Both are read alike: what is missing between the last
one inside and the wrapper's is added to all. In Kafka 0.7 all records inside have the wrapper's position. Where the
broker set the time of a wrapper (KIP-32), it is that of all records inside.

A broken message inside is passed over and described, and the others are kept. Wrappers inside wrappers, which Kafka
read in its first years, are opened up to a depth, all within one bound for what comes out of the outermost.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.records.compression import Contexts
from penstock.records.legacy.compression import decompress_legacy
from penstock.records.legacy.formats import NO_OFFSET, Buffer, Entry, Format, LegacyRecord
from penstock.records.limits import LEGACY_WRAPPER_DEPTH_MAX, LEGACY_WRAPPER_MAX_BYTES


class Unwrapper:
    """Makes records of messages.

    Args:
        old_format: of the messages.
        contexts: compression state of this thread.
        limit_bytes: what one message may unpack to.
    """

    def __init__(self, old_format: Format, contexts: Contexts, limit_bytes: int = LEGACY_WRAPPER_MAX_BYTES) -> None:
        self._format = old_format
        self._contexts = contexts
        self._limit_bytes = limit_bytes
        self._left_bytes = 0

    def records(self, entry: Entry, offset: int) -> Iterator[LegacyRecord | str]:
        """The records of an intact message that has this offset, in order; a text for what cannot be read of it."""
        if not entry.codec:
            yield LegacyRecord(offset, entry.timestamp_ms, entry.key, entry.value)
            return
        self._left_bytes = self._limit_bytes
        yield from self._unwrapped(entry, offset, entry.codec, 1)

    def _unwrapped(self, wrapper: Entry, offset: int, codec: int, depth: int) -> Iterator[LegacyRecord | str]:
        if depth > LEGACY_WRAPPER_DEPTH_MAX:
            yield f"compressed messages inside each other, more than {LEGACY_WRAPPER_DEPTH_MAX} deep"
            return
        try:
            data = self._unpacked(wrapper)
        except (CorruptRecordError, InvalidRecordError) as error:
            yield str(error)
            return
        self._left_bytes -= len(data)
        base = self._base_offset(data, wrapper, offset)
        for found in self._messages(data):
            if isinstance(found, str):
                yield found
                continue
            own = offset if found.offset == NO_OFFSET else base + found.offset
            if found.codec:
                yield from self._unwrapped(found, own, codec, depth + 1)
            else:
                time_ms = wrapper.timestamp_ms if wrapper.has_append_time else found.timestamp_ms
                yield LegacyRecord(own, time_ms, found.key, found.value, codec)

    def _unpacked(self, wrapper: Entry) -> Buffer:
        if wrapper.value is None:
            raise InvalidRecordError("a compressed message without a value")
        return decompress_legacy(wrapper.codec, wrapper.value, wrapper.magic, self._left_bytes, self._contexts)

    def _base_offset(self, data: Buffer, wrapper: Entry, offset: int) -> int:
        """What is added to the offsets inside."""
        if wrapper.offset == NO_OFFSET:
            return 0
        last = NO_OFFSET
        for position, size_bytes in self._sizes(data):
            if self._format.is_intact(data, position, size_bytes):
                last = int.from_bytes(data[position : position + 8], "big")
        return max(offset - last, 0) if last != NO_OFFSET else 0

    def _sizes(self, data: Buffer) -> Iterator[tuple[int, int]]:
        """Position and size of each whole message, as far as their sizes lead."""
        position, end = 0, len(data)
        while end - position >= self._format.HEADER_BYTES:
            size_bytes = self._format.size_at(data, position)
            if not size_bytes or size_bytes > end - position:
                return
            yield position, size_bytes
            position += size_bytes

    def _messages(self, data: Buffer) -> Iterator[Entry | str]:
        """The messages inside, and a text for each that cannot be read."""
        end = 0
        for position, size_bytes in self._sizes(data):
            end = position + size_bytes
            if not self._format.is_intact(data, position, size_bytes):
                yield "a message inside does not have its checksum"
                continue
            try:
                yield self._format.entry(data, position, size_bytes)
            except CorruptRecordError as error:
                yield f"a message inside: {error}"
        if end < len(data) or not data:
            yield f"{len(data) - end} bytes inside are no message"
