"""Which record is the last of its key: a hash table of 24 bytes an entry, a keyed hash of the key and the offset.

The table is open addressing with double hashing over a prime number of slots. Two keys with the same hash would delete
each other's records, so the hash has 128 bits and is keyed with random bytes that the caller draws for each pass: under
Kafka's MD5 whoever may write can make such keys. Python offers no keyed SipHash-128; BLAKE2b with a key and 16 bytes of
digest is in its standard library and no slower there than MD5. Source: `SkimpyOffsetMap` and `Cleaner` of Apache Kafka
4.3.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import NamedTuple, Protocol

from penstock.errors import ConfigError
from penstock.log.compaction.records import Selection, walk
from penstock.records.batch import BatchHeader, Buffer

ENTRY_BYTES = 24
HASH_BYTES = 16
NO_OFFSET = -1
EMPTY = bytes(ENTRY_BYTES - HASH_BYTES)
OFFSET = Struct(">Q")
"""The offset plus one, so that no entry looks like an empty slot."""
HASH_HALVES = Struct(">QQ")


class Added(NamedTuple):
    """The end of adding a batch: `last_offset` is the last record's that was added if the map is now `full`."""

    full: bool
    last_offset: int = NO_OFFSET


class LatestOffsets(Protocol):
    """What a pass asks of a map; `OffsetMap` is the plain one, and `maps.offset_map` gives the fastest there is.

    Attributes: `size` entries of at most `limit`.
    """

    @property
    def size(self) -> int: ...
    @property
    def limit(self) -> int: ...

    def clear(self) -> None:
        """Forgets all."""
        ...

    def add(self, data: Buffer, header: BatchHeader, start_offset: int) -> Added:
        """Notes the keys of the records from `start_offset` on, `data` being the batch's records, decompressed.

        Raises InvalidRecordError for a broken batch, of which nothing is noted then.
        """
        ...

    def select(self, data: Buffer, header: BatchHeader, latest_offset: int, *, drop_tombstones: bool) -> Selection:
        """The records that stay: the last of each key, and all beyond `latest_offset`, up to which the map knows.

        Raises InvalidRecordError for a broken batch.
        """
        ...


class OffsetMap:
    """See the module's head.

    Args:
        buffer_bytes: size of the table, `log.cleaner.dedupe.buffer.size`.
        load_factor: share of the slots that may be used, `log.cleaner.io.buffer.load.factor`.
        hash_key: 16 random bytes.

    Raises ConfigError for a table in which not even one key has a place.
    """

    __slots__ = ("_hash_key", "_table", "limit", "size", "slots")

    def __init__(self, buffer_bytes: int, load_factor: float, hash_key: bytes) -> None:
        self.slots, self.limit = room(buffer_bytes, load_factor)
        self.size = 0
        self._hash_key = hash_key
        self._table = bytearray(self.slots * ENTRY_BYTES)

    def clear(self) -> None:
        self.size = 0
        self._table[:] = bytes(len(self._table))

    def add(self, data: Buffer, header: BatchHeader, start_offset: int) -> Added:
        last_offset = NO_OFFSET
        for record in walk(bytes(data), header):
            if record.key is not None and record.offset >= start_offset:
                if self.size >= self.limit:
                    return Added(True, last_offset)
                self.put(record.key, record.offset)
                last_offset = record.offset
        return Added(False, last_offset)

    def select(self, data: Buffer, header: BatchHeader, latest_offset: int, *, drop_tombstones: bool) -> Selection:
        parts: list[bytes] = []
        kept_tombstones = superseded = removed_tombstones = without_key = 0
        deltas = []
        data = bytes(data)
        for record in walk(data, header):
            if record.offset <= latest_offset:
                if record.key is None:
                    without_key += 1
                    continue
                if record.offset < self.get(record.key):
                    superseded += 1
                    continue
                if not record.has_value and drop_tombstones:
                    removed_tombstones += 1
                    continue
            parts.append(data[record.start : record.end])
            deltas.append(record.timestamp_delta)
            kept_tombstones += not record.has_value
        payload, largest = b"".join(parts), max(deltas, default=0)
        return Selection(payload, len(parts), kept_tombstones, largest, superseded, removed_tombstones, without_key)

    def put(self, key: bytes, offset: int) -> None:
        """Notes the offset as the last of the key. The caller heeds `limit`."""
        digest = self._digest(key)
        at = self._find(digest)
        if self._table[at + HASH_BYTES : at + ENTRY_BYTES] == EMPTY:
            assert self.size < self.limit
            self._table[at : at + HASH_BYTES] = digest
            self.size += 1
        OFFSET.pack_into(self._table, at + HASH_BYTES, offset + 1)

    def get(self, key: bytes) -> int:
        """The last offset of the key, -1 if it is not there."""
        at = self._find(self._digest(key)) + HASH_BYTES
        return int.from_bytes(self._table[at : at + OFFSET.size], "big") - 1

    def _digest(self, key: bytes) -> bytes:
        return blake2b(key, digest_size=HASH_BYTES, key=self._hash_key).digest()

    def _find(self, digest: bytes) -> int:
        """Where the entry of a key is or, if it is not there, the empty slot for it. There is always an empty slot."""
        first, second = HASH_HALVES.unpack(digest)
        slot: int = first % self.slots
        step: int = 1 + second % (self.slots - 1)
        table = self._table
        while True:
            at = slot * ENTRY_BYTES
            if table[at : at + HASH_BYTES] == digest or table[at + HASH_BYTES : at + ENTRY_BYTES] == EMPTY:
                return at
            slot = (slot + step) % self.slots


def room(buffer_bytes: int, load_factor: float) -> tuple[int, int]:
    """Slots of a table of this size, a prime number, and how many of them may be used. Raises ConfigError for none."""
    if not 0 < load_factor <= 1:
        raise ConfigError(f"a load factor of {load_factor} is not between 0 and 1")
    slots = buffer_bytes // ENTRY_BYTES
    while slots > 2 and any(slots % divisor == 0 for divisor in range(2, int(slots**0.5) + 1)):
        slots -= 1
    limit = min(int(slots * load_factor), slots - 1)
    if limit < 1:
        raise ConfigError(
            f"a dedupe buffer of {buffer_bytes} bytes with load factor {load_factor} has no room for a single key"
        )
    return slots, limit
