"""A compiled walk over the batches of a segment file, for the recovery of logs: headers, checksums, order, indexes.

The bytes are hostile and compiled code checks no bounds: a header is read only where all of it is, and a batch only
when its length, which nothing vouches for, ends within the bytes at hand. `log.segment_scan` is the same in plain
Python, and the tests hold the two against each other. Numba notices a change of this file only: nothing here calls what
another file compiles.

The CRC-32C (Castagnoli) is taken eight bytes at a time from eight tables. A large batch is left to the caller, who has
a library that uses the processor's own instruction.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from penstock.records.kernels import Array, compiled

int64: Any = numba.int64
uint64: Any = numba.uint64

LEAST_LENGTH = 49
"""The length field of a batch without records: the header without what precedes and includes that field."""
HEADER_BYTES = 61
OVERHEAD_BYTES = 12
CHECKED_HERE_MAX_BYTES = 4096
"""The CRC of a batch up to this size is taken here."""
RELATIVE_OFFSET_MAX = 2**31 - 1
POLYNOMIAL = 0x82F63B78

# Why a walk has stopped.
(MORE, INVALID, CHECK, ORDER) = range(4)
"""`MORE`: the next batch is not wholly in these bytes. `INVALID`: there is no valid batch. `CHECK`: the caller is to
check the CRC of the next batch. `ORDER`: a base offset cannot be right, or is too far from the segment's."""

# The state of a walk between two calls. The last entries are a batch after a gap, which waits for the one after it.
(
    POSITION, NEXT_OFFSET, VALID_BYTES, SINCE_INDEX, LARGEST_TIMESTAMP, LARGEST_OFFSET, LATEST_EPOCH,
    WAITS, WAITING_POSITION, WAITING_BASE, WAITING_DELTA, WAITING_SIZE, WAITING_TIMESTAMP, WAITING_EPOCH,
    WAITING_PRODUCER, WAITING_ATTRIBUTES,
) = range(16)  # fmt: skip
STATE_SIZE = 16

# Columns of what a walk finds: batches of producers, index entries, and the first batch of each newer leader epoch.
BATCH_POSITION, BATCH_BASE, BATCH_SIZE, BATCH_PRODUCER, BATCH_ATTRIBUTES = range(5)
ENTRY_OFFSET, ENTRY_POSITION, ENTRY_TIMESTAMP, ENTRY_TIMESTAMP_OFFSET = range(4)
EPOCH, EPOCH_OFFSET = range(2)
BATCH_COLUMNS, ENTRY_COLUMNS, EPOCH_COLUMNS = 5, 4, 2
BATCHES, ENTRIES, EPOCHS = range(3)
"""Entries of `counts`: how many rows of each there are."""


def crc_tables() -> Array:
    """Eight tables of 256 entries: what a byte does to the CRC that 0 to 7 further bytes follow."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for place in range(1, 8):
        before = tables[place - 1]
        tables[place] = before >> 8 ^ tables[0][before & 0xFF]
    return tables.reshape(-1)


@compiled
def big32(data: Array, position: int) -> int:
    """The unsigned number of 32 bits at `position`, the first byte highest."""
    at = uint64(position)
    number: int = uint64(data[at]) << uint64(24) | uint64(data[at + uint64(1)]) << uint64(16)
    number |= uint64(data[at + uint64(2)]) << uint64(8) | uint64(data[at + uint64(3)])
    return number


@compiled
def signed32(data: Array, position: int) -> int:
    number: int = int64(big32(data, position) << uint64(32)) >> 32
    return number


@compiled
def signed64(data: Array, position: int) -> int:
    number: int = int64(big32(data, position) << uint64(32) | big32(data, position + 4))
    return number


@compiled
def little64(data: Array, position: int) -> int:
    at = uint64(position)
    word: int = uint64(data[at]) | uint64(data[at + uint64(1)]) << uint64(8)
    word |= uint64(data[at + uint64(2)]) << uint64(16) | uint64(data[at + uint64(3)]) << uint64(24)
    word |= uint64(data[at + uint64(4)]) << uint64(32) | uint64(data[at + uint64(5)]) << uint64(40)
    word |= uint64(data[at + uint64(6)]) << uint64(48) | uint64(data[at + uint64(7)]) << uint64(56)
    return word


@compiled
def crc32c(data: Array, position: int, end: int, tables: Array) -> int:
    """The CRC-32C of the bytes from `position` to `end`, all of which are there."""
    crc = uint64(0xFFFFFFFF)
    low = uint64(0xFF)
    while position + 8 <= end:
        word = little64(data, position) ^ crc
        crc = (
            uint64(tables[uint64(1792) + (word & low)])
            ^ uint64(tables[uint64(1536) + (word >> uint64(8) & low)])
            ^ uint64(tables[uint64(1280) + (word >> uint64(16) & low)])
            ^ uint64(tables[uint64(1024) + (word >> uint64(24) & low)])
            ^ uint64(tables[uint64(768) + (word >> uint64(32) & low)])
            ^ uint64(tables[uint64(512) + (word >> uint64(40) & low)])
            ^ uint64(tables[uint64(256) + (word >> uint64(48) & low)])
            ^ uint64(tables[word >> uint64(56)])
        )
        position += 8
    while position < end:
        crc = uint64(tables[(crc ^ uint64(data[uint64(position)])) & low]) ^ crc >> uint64(8)
        position += 1
    result: int = crc ^ uint64(0xFFFFFFFF)
    return result


@compiled
def accept(  # noqa: PLR0917 all that a batch changes
    position: int, base: int, delta: int, size: int, timestamp: int, epoch: int, producer: int, attributes: int,
    segment_base: int, interval: int, state: Array, batches: Array, entries: Array, epochs: Array, counts: Array,
) -> bool:  # fmt: skip
    """Takes a batch into the segment; False if it is too far from the segment's base offset."""
    if base - segment_base > RELATIVE_OFFSET_MAX - delta:
        return False
    last = base + delta
    if timestamp > state[LARGEST_TIMESTAMP]:
        state[LARGEST_TIMESTAMP] = timestamp
        state[LARGEST_OFFSET] = last
    if state[SINCE_INDEX] > interval:
        row = counts[ENTRIES]
        entries[row, ENTRY_OFFSET] = last
        entries[row, ENTRY_POSITION] = position
        entries[row, ENTRY_TIMESTAMP] = state[LARGEST_TIMESTAMP]
        entries[row, ENTRY_TIMESTAMP_OFFSET] = state[LARGEST_OFFSET]
        counts[ENTRIES] = row + 1
        state[SINCE_INDEX] = 0
    state[SINCE_INDEX] += size
    if epoch > state[LATEST_EPOCH]:
        state[LATEST_EPOCH] = epoch
        row = counts[EPOCHS]
        epochs[row, EPOCH] = epoch
        epochs[row, EPOCH_OFFSET] = base
        counts[EPOCHS] = row + 1
    if producer > -1:
        row = counts[BATCHES]
        batches[row, BATCH_POSITION] = position
        batches[row, BATCH_BASE] = base
        batches[row, BATCH_SIZE] = size
        batches[row, BATCH_PRODUCER] = producer
        batches[row, BATCH_ATTRIBUTES] = attributes
        counts[BATCHES] = row + 1
    state[NEXT_OFFSET] = last + 1
    state[VALID_BYTES] = position + size
    return True


@compiled
def accept_waiting(  # noqa: PLR0917 as accept
    segment_base: int, interval: int, state: Array, batches: Array, entries: Array, epochs: Array, counts: Array
) -> bool:
    """The same for the batch after a gap."""
    state[WAITS] = 0
    return accept(
        state[WAITING_POSITION], state[WAITING_BASE], state[WAITING_DELTA], state[WAITING_SIZE],
        state[WAITING_TIMESTAMP], state[WAITING_EPOCH], state[WAITING_PRODUCER], state[WAITING_ATTRIBUTES],
        segment_base, interval, state, batches, entries, epochs, counts,
    )  # fmt: skip


@compiled
def walk(  # noqa: C901, PLR0912, PLR0917 one loop, for the compiler's sake
    data: Array, start: int, file_bytes: int, segment_base: int, following: int, interval: int, checked: int,
    tables: Array, state: Array, batches: Array, entries: Array, epochs: Array, counts: Array,
) -> int:  # fmt: skip
    """Walks from `state[POSITION]` on for as long as batches are whole, valid and in order; says why it has stopped.

    Args:
        data: the bytes of the file from `start` on; uint8, read-only.
        file_bytes: the size of the file. segment_base: the offset in its name.
        following: the base offset of the next segment; -1 for none.
        interval: index.interval.bytes.
        checked: the position of a batch whose CRC is known to be right; -1 for none.
        batches, entries, epochs: int64, with a row for each batch that `data` can hold, and one more.
    """
    end = len(data)
    while True:
        position = state[POSITION]
        at = position - start
        if file_bytes - position < HEADER_BYTES:
            return INVALID
        if end - at < HEADER_BYTES:
            return MORE
        length = signed32(data, at + 8)
        if data[uint64(at + 16)] != 2 or length < LEAST_LENGTH:
            return INVALID
        size = length + OVERHEAD_BYTES
        delta = signed32(data, at + 23)
        if size > file_bytes - position or delta < 0:
            return INVALID
        if size > end - at:
            return MORE
        if position != checked:
            if size > CHECKED_HERE_MAX_BYTES:
                return CHECK
            if crc32c(data, at + 21, at + size, tables) != big32(data, at + 17):
                return INVALID
        base = signed64(data, at)
        state[POSITION] = position + size
        if state[WAITS] != 0:
            waiting = state[WAITING_BASE]
            if state[NEXT_OFFSET] <= base and (base < waiting or base - waiting <= state[WAITING_DELTA]):
                state[WAITS] = 0
                return ORDER
            if not accept_waiting(segment_base, interval, state, batches, entries, epochs, counts):
                return ORDER
        if base < state[NEXT_OFFSET]:
            return ORDER
        timestamp = signed64(data, at + 35)
        epoch = signed32(data, at + 12)
        producer = signed64(data, at + 43)
        attributes = int64(data[uint64(at + 22)])
        if base > state[NEXT_OFFSET]:
            if state[NEXT_OFFSET] <= following <= base:
                return ORDER
            state[WAITS] = 1
            state[WAITING_POSITION] = position
            state[WAITING_BASE] = base
            state[WAITING_DELTA] = delta
            state[WAITING_SIZE] = size
            state[WAITING_TIMESTAMP] = timestamp
            state[WAITING_EPOCH] = epoch
            state[WAITING_PRODUCER] = producer
            state[WAITING_ATTRIBUTES] = attributes
        elif not accept(
            position, base, delta, size, timestamp, epoch, producer, attributes,
            segment_base, interval, state, batches, entries, epochs, counts,
        ):  # fmt: skip
            return ORDER


@compiled
def walk_ended(  # noqa: PLR0917 as accept
    following: int, segment_base: int, interval: int, state: Array, batches: Array, entries: Array, epochs: Array,
    counts: Array,
) -> None:  # fmt: skip
    """After the last valid batch: takes one that waits, unless it reaches over where the next segment begins.

    `following`: as that of `walk`.
    """
    if state[WAITS] != 0:
        waiting = state[WAITING_BASE]
        if state[NEXT_OFFSET] <= following and (following < waiting or following - waiting <= state[WAITING_DELTA]):
            state[WAITS] = 0
        else:
            accept_waiting(segment_base, interval, state, batches, entries, epochs, counts)
