"""Where the records of an encrypted stream begin and end, and how many of them brought nothing.

A record may say something to TLS itself: new keys, please, or handshake again. Each costs tens of microseconds and 27
bytes, so 64 KB of them would hold the loop for a quarter of a second, before any login. OpenSSL takes as many as it is
given and does not tell. So it is given a few records at a time, and who sends too many that bring no bytes is cut off.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.server.limits import EMPTY_RECORDS_MAX, RECORD_BYTES

HEADER_BYTES = 5
FED_BYTES = RECORD_BYTES + 512
"""A piece given to OpenSSL at once has one record with its header and tag, or several small ones."""
FED_RECORDS = 16
READS_AN_EMPTY_RECORD = 1000
"""So many records with bytes allow one more without."""


class Records:
    """The records of one direction of a connection."""

    __slots__ = ("_at", "_begun", "_head", "_read")

    def __init__(self) -> None:
        self._at = 0  # where the next record begins, counted from the beginning of the next bytes
        self._head = b""  # what has arrived of its header
        self._begun = self._read = 0

    def pieces(self, data: memoryview) -> Iterator[memoryview]:
        """The bytes that have arrived, in pieces for OpenSSL. All must be taken."""
        at, head, size_bytes = self._at, self._head, len(data)
        start = count = 0
        while at + HEADER_BYTES <= size_bytes:
            header = data[at : at + HEADER_BYTES] if at >= 0 else head + bytes(data[: at + HEADER_BYTES])
            end = at + HEADER_BYTES + (header[3] << 8 | header[4])
            if at > start and (end - start > FED_BYTES or count == FED_RECORDS):
                self._begun += count
                yield data[start:at]
                start, count = at, 0
            count += 1
            at = end
        self._begun += count
        self._head = (head if at < 0 else b"") + bytes(data[max(0, at) :]) if at < size_bytes else b""
        self._at = at - size_bytes
        if start < size_bytes:
            yield data[start:]

    def read(self, reads: int) -> None:
        """So many reads have brought bytes, each from one record."""
        self._read += reads

    def begin(self) -> None:
        """The handshake is over, whose records do not count."""
        self._begun = self._read = 0

    def look(self) -> None:
        """All records that have arrived were read. Raises ConnectionError if too many of them brought nothing."""
        empty = self._begun - self._read
        if empty < 0:  # a record may be read in several parts
            self._read = self._begun
        elif empty > EMPTY_RECORDS_MAX + self._read // READS_AN_EMPTY_RECORD:
            raise ConnectionError("the other side asks for new keys again and again, or sends empty records")
