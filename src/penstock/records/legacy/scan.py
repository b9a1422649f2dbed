"""Walks over one file of an old format, from message to message, and past what is damaged.

A message counts if its size is possible, it ends within the file, and it has its checksum. Where there is none:

1. If the size that is claimed leads to a message, or to the end, only what lies between is damaged.
2. Otherwise the next place is looked for where a message begins. Its checksum is the proof. The bytes of one file under
   checksums that turn out wrong are bounded, since sizes may lie; beyond the bound the rest is passed over.
3. With none left, the rest of the file is `UNUSED` if it is zeros (space that a broker took in advance), `CUT_OFF` if a
   message reaches beyond the end (a broker that died while it wrote), else `DAMAGED`.

Where a compressed message is damaged, messages inside it that snappy left as they were may be found by the search; they
are intact, and are kept. What comes out depends on the bytes alone, so that a second walk finds the same messages in
the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

from penstock.errors import CorruptRecordError, InvalidRecordError, PenstockError
from penstock.records.batch import HEADER_BYTES, check_crc, read_header
from penstock.records.legacy.formats import Entry, Format
from penstock.records.limits import (
    LEGACY_MESSAGE_MAX_BYTES,
    LEGACY_SEARCHED_BYTES_MAX,
    LEGACY_WINDOW_BYTES,
)

Read = Callable[[int, int], bytes]
"""Up to so many bytes from a position of the file; fewer only at its end."""


class PresentFormatError(InvalidRecordError):
    """Record batches of the format that Kafka has used since 0.11, where messages of an old one were expected."""


class Kind(Enum):
    """Why bytes of a file are no messages."""

    DAMAGED = "damaged"
    CUT_OFF = "cut off"
    UNUSED = "unused"


class Found(NamedTuple):
    """An intact message at `position` of the file."""

    position: int
    size_bytes: int
    entry: Entry


class Hole(NamedTuple):
    """Bytes that hold no message."""

    position: int
    size_bytes: int
    kind: Kind
    reason: str


class Window:
    """The part of a file that was read last."""

    def __init__(self, read: Read, size_bytes: int, window_bytes: int) -> None:
        self._read = read
        self._window_bytes = window_bytes
        self.file_bytes = size_bytes
        self.data = b""
        self.start = 0

    def show(self, position: int, least_bytes: int) -> int:
        """Makes `least_bytes` from `position` on visible, as far as the file has them; returns where they are."""
        at = position - self.start
        wanted = min(least_bytes, self.file_bytes - position)
        if at < 0 or at + wanted > len(self.data):
            self.data = self._read(position, min(max(least_bytes, self._window_bytes), self.file_bytes - position))
            self.start, at = position, 0
            if len(self.data) < wanted:
                raise CorruptRecordError(f"the file became shorter than {self.file_bytes} bytes while it was read")
        return at


class Scan:
    """See the module's head. One use.

    Args:
        read: reads the file.
        size_bytes: of the file; what is appended later is not seen.
        old_format: of its messages.
        searched_bytes_max, window_bytes: see `records.limits`.
    """

    def __init__(
        self,
        read: Read,
        size_bytes: int,
        old_format: Format,
        *,
        searched_bytes_max: int = LEGACY_SEARCHED_BYTES_MAX,
        window_bytes: int = LEGACY_WINDOW_BYTES,
    ) -> None:
        self._window = Window(read, size_bytes, max(window_bytes, HEADER_BYTES))
        self._window_bytes = max(window_bytes, HEADER_BYTES)
        self._size_bytes = size_bytes
        self._format = old_format
        self._searchable_bytes = searched_bytes_max

    def __iter__(self) -> Iterator[Found | Hole]:
        """Messages and holes, which together are the whole file. Raises PresentFormatError."""
        position = 0
        while position < self._size_bytes:
            found = self._message_at(position)
            if isinstance(found, Found):
                yield found
                position += found.size_bytes
                continue
            self._check_old(position)
            end = self._end_of_damage(position)
            yield self._hole(position, end, found)
            position = end

    def _message_at(self, position: int) -> Found | str:
        """The message, or why there is none."""
        size_bytes = self._size_at(position)
        if not size_bytes:
            return "no message begins here"
        if position + size_bytes > self._size_bytes:
            return f"a message of {size_bytes} bytes, of which the file has {self._size_bytes - position}"
        at = self._window.show(position, size_bytes)
        data = self._window.data
        if not self._format.is_intact(data, at, size_bytes):
            self._searchable_bytes -= size_bytes
            return f"a message of {size_bytes} bytes does not have its checksum"
        try:
            return Found(position, size_bytes, self._format.entry(data, at, size_bytes))
        except CorruptRecordError as error:
            self._searchable_bytes -= size_bytes
            return f"a message of {size_bytes} bytes: {error}"

    def _size_at(self, position: int) -> int:
        """The size that is claimed by what may be a message; 0 if it cannot be one."""
        if self._size_bytes - position < self._format.HEADER_BYTES:
            return 0
        at = self._window.show(position, self._format.HEADER_BYTES)
        return self._format.size_at(self._window.data, at)

    def _check_old(self, position: int) -> None:
        """Raises PresentFormatError if a whole batch of today's format is there."""
        at = self._window.show(position, HEADER_BYTES)
        try:
            size_bytes = read_header(self._window.data, at).size_bytes
            if size_bytes > min(LEGACY_MESSAGE_MAX_BYTES, self._searchable_bytes):
                return
            at = self._window.show(position, size_bytes)
            self._searchable_bytes -= size_bytes
            check_crc(self._window.data, at, read_header(self._window.data, at))
        except PenstockError:
            return
        raise PresentFormatError(f"a record batch of the present format begins at byte {position}")

    def _end_of_damage(self, position: int) -> int:
        claimed = self._size_at(position)
        if claimed and self._searchable_bytes > 0:
            after = position + claimed
            if after == self._size_bytes or (after < self._size_bytes and self._is_message(after)):
                return after
        return self._next_message(position + 1)

    def _is_message(self, position: int) -> bool:
        return isinstance(self._message_at(position), Found)

    def _next_message(self, position: int) -> int:
        """Where the next message begins, from `position` on; the end of the file if none does."""
        overlap_bytes = self._format.HEADER_BYTES - 1
        while self._size_bytes - position > overlap_bytes:
            at = self._window.show(position, self._window_bytes)
            data, start = self._window.data, self._window.start
            for match in self._format.CANDIDATE.finditer(data, at):
                if self._searchable_bytes < 0:
                    return self._size_bytes
                if self._format.size_at(data, match.start()) and self._is_message(start + match.start()):
                    return start + match.start()
            position = start + len(data) - overlap_bytes
        return self._size_bytes

    def _hole(self, position: int, end: int, reason: str) -> Hole:
        kind = Kind.DAMAGED
        if end == self._size_bytes:
            if self._is_cut_off(position):
                kind = Kind.CUT_OFF
            elif self._is_zeros(position):
                kind, reason = Kind.UNUSED, "zeros to the end of the file"
        return Hole(position, end - position, kind, reason)

    def _is_zeros(self, position: int) -> bool:
        while position < self._size_bytes:
            at = self._window.show(position, 1)
            if self._window.data[at:].strip(b"\0"):
                return False
            position = self._window.start + len(self._window.data)
        return True

    def _is_cut_off(self, position: int) -> bool:
        """Whether the file ends within the message that is there."""
        left_bytes = self._size_bytes - position
        return left_bytes < self._format.HEADER_BYTES or self._size_at(position) > left_bytes
