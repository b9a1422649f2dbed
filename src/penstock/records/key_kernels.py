"""Compiled loops over the keys of records: which record is the last of its key, and those that stay, put together.

A table of keys is an array of 64-bit numbers, three an entry: both halves of a keyed hash of the key, and the record's
offset plus one, 0 in an empty entry. It is open addressing with double hashing over a prime number of entries, of which
at least one stays empty. The hash is SipHash-2-4 with 128 bits (Aumasson and Bernstein 2012, and their own code): two
keys with one hash would delete each other's records, and who does not know the hash's key cannot make such keys.

What is hashed and copied here lies where `kernels.find_records` found it, which checks every length, so nothing here
does. Offsets are unsigned, for the sum of a batch's base offset and a delta may be beyond 63 bits. `log.compaction`
has the same in plain Python. Numba notices a change of this file only: nothing here calls what another file compiles.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from penstock.records.kernels import (
    HAS_VALUE,
    KEY_LENGTH,
    KEY_START,
    OFFSET_DELTA,
    RECORD_START,
    TIMESTAMP_DELTA,
    Array,
    compiled,
)

ENTRY_NUMBERS = 3

# Entries of the result of `select`.
(
    KEPT, KEPT_TOMBSTONES, LARGEST_TIMESTAMP_DELTA, SUPERSEDED, REMOVED_TOMBSTONES, WITHOUT_KEY, PAYLOAD_BYTES,
) = range(7)  # fmt: skip
RESULT_SIZE = 7

int64: Any = numba.int64
uint64: Any = numba.uint64


@compiled
def rotated(number: int, bits: int) -> int:
    result: int = number << uint64(bits) | number >> uint64(64 - bits)
    return result


@compiled
def mixed(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    """One round of SipHash."""
    v0 += v1
    v2 += v3
    v1 = rotated(v1, 13) ^ v0
    v3 = rotated(v3, 16) ^ v2
    v0 = rotated(v0, 32)
    v2 += v1
    v0 += v3
    v1 = rotated(v1, 17) ^ v2
    v3 = rotated(v3, 21) ^ v0
    v2 = rotated(v2, 32)
    return v0, v1, v2, v3


@compiled
def taken_in(v0: int, v1: int, v2: int, v3: int, word: int) -> tuple[int, int, int, int]:
    """What 8 bytes of the message do to the state."""
    v0, v1, v2, v3 = mixed(v0, v1, v2, v3 ^ word)
    v0, v1, v2, v3 = mixed(v0, v1, v2, v3)
    return v0 ^ word, v1, v2, v3


@compiled
def word_at(data: Array, position: int) -> int:
    """8 bytes as a number, the first one lowest."""
    at = uint64(position)
    word: int = uint64(data[at]) | uint64(data[at + uint64(1)]) << uint64(8)
    word |= uint64(data[at + uint64(2)]) << uint64(16) | uint64(data[at + uint64(3)]) << uint64(24)
    word |= uint64(data[at + uint64(4)]) << uint64(32) | uint64(data[at + uint64(5)]) << uint64(40)
    word |= uint64(data[at + uint64(6)]) << uint64(48) | uint64(data[at + uint64(7)]) << uint64(56)
    return word


@compiled
def siphash(data: Array, position: int, length: int, key0: int, key1: int) -> tuple[int, int]:
    """Both halves of the hash of `length` bytes; `key0` and `key1` are the halves of its key, low bytes first."""
    v0 = key0 ^ uint64(0x736F6D6570736575)
    v1 = key1 ^ uint64(0x646F72616E646F6D) ^ uint64(0xEE)
    v2 = key0 ^ uint64(0x6C7967656E657261)
    v3 = key1 ^ uint64(0x7465646279746573)
    for _ in range(length >> 3):
        v0, v1, v2, v3 = taken_in(v0, v1, v2, v3, word_at(data, position))
        position += 8
    last = uint64(length) << uint64(56)
    for i in range(length & 7):
        last |= uint64(data[uint64(position + i)]) << uint64(8 * i)
    v0, v1, v2, v3 = taken_in(v0, v1, v2, v3, last)
    v2 ^= uint64(0xEE)
    for _ in range(4):
        v0, v1, v2, v3 = mixed(v0, v1, v2, v3)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= uint64(0xDD)
    for _ in range(4):
        v0, v1, v2, v3 = mixed(v0, v1, v2, v3)
    return first, v0 ^ v1 ^ v2 ^ v3


@compiled
def hash_keys(data: Array, found: Array, count: int, hash_key: Array, hashes: Array) -> None:
    """Fills `hashes` (uint64 [at least `count`, 2]) with those of the keys that are not null."""
    for row in range(count):
        if found[row, KEY_LENGTH] >= 0:
            first, second = siphash(data, found[row, KEY_START], found[row, KEY_LENGTH], hash_key[0], hash_key[1])
            hashes[row, 0] = first
            hashes[row, 1] = second


@compiled
def entry_of(table: Array, first: int, second: int) -> int:
    """Where the entry of a key is or, if it is not there, the empty one for it. There is always an empty one."""
    slots = uint64(len(table)) // uint64(ENTRY_NUMBERS)
    slot = first % slots
    step = uint64(1) + second % (slots - uint64(1))
    while True:
        at: int = slot * uint64(ENTRY_NUMBERS)
        if table[at + uint64(2)] == uint64(0) or (table[at] == first and table[at + uint64(1)] == second):
            return at
        slot += step
        if slot >= slots:
            slot -= slots


@compiled
def add(  # noqa: PLR0917
    data: Array, found: Array, count: int, base_offset: np.uint64, start_offset: np.uint64,
    hash_key: Array, hashes: Array, table: Array, size: int, limit: int,
) -> tuple[int, int, bool]:  # fmt: skip
    """Notes the keys of a batch's records from `start_offset` on.

    Args:
        data, found: as `find_records` was given and left them, of `count` records.
        hash_key: uint64 [2], its halves, low bytes first.
        hashes: uint64 [at least `count`, 2], scratch.
        table: uint64 [ENTRY_NUMBERS * entries], with `size` keys of at most `limit`.

    Returns the new size, the offset delta of the last record that was noted or -1, and whether the table was full
    before another one.
    """
    hash_keys(data, found, count, hash_key, hashes)
    last_delta = int64(-1)
    for row in range(count):
        offset = base_offset + uint64(found[row, OFFSET_DELTA])
        if found[row, KEY_LENGTH] < 0 or offset < start_offset:
            continue
        if size >= limit:
            return size, last_delta, True
        at = entry_of(table, hashes[row, 0], hashes[row, 1])
        if table[at + uint64(2)] == uint64(0):
            table[at] = hashes[row, 0]
            table[at + uint64(1)] = hashes[row, 1]
            size += 1
        table[at + uint64(2)] = offset + uint64(1)
        last_delta = found[row, OFFSET_DELTA]
    return size, last_delta, False


@compiled
def select(  # noqa: PLR0917
    data: Array, found: Array, count: int, base_offset: np.uint64, known_end: np.uint64, drop_tombstones: bool,
    hash_key: Array, hashes: Array, table: Array, stays: Array, payload: Array, result: Array,
) -> None:  # fmt: skip
    """Puts together the records that stay: the last of each key, and all from `known_end` on.

    Args, further to those of `add`:
        known_end: the table knows the keys of all offsets below.
        stays: bool [at least `count`], scratch.
        payload: uint8 [as long as `data`], the records that stay; untouched if all do.
        result: int64 [RESULT_SIZE].
    """
    hash_keys(data, found, count, hash_key, hashes)
    result[:] = 0
    for row in range(count):
        offset = base_offset + uint64(found[row, OFFSET_DELTA])
        stays[row] = True
        if offset < known_end:
            if found[row, KEY_LENGTH] < 0:
                result[WITHOUT_KEY] += 1
                stays[row] = False
                continue
            at = entry_of(table, hashes[row, 0], hashes[row, 1])
            if offset + uint64(1) < table[at + uint64(2)]:
                result[SUPERSEDED] += 1
                stays[row] = False
                continue
            if drop_tombstones and not found[row, HAS_VALUE]:
                result[REMOVED_TOMBSTONES] += 1
                stays[row] = False
                continue
        if not result[KEPT] or found[row, TIMESTAMP_DELTA] > result[LARGEST_TIMESTAMP_DELTA]:
            result[LARGEST_TIMESTAMP_DELTA] = found[row, TIMESTAMP_DELTA]
        result[KEPT] += 1
        result[KEPT_TOMBSTONES] += 1 - found[row, HAS_VALUE]
    if result[KEPT] < count:
        result[PAYLOAD_BYTES] = gather(data, found, count, stays, payload)


@compiled
def gather(data: Array, found: Array, count: int, stays: Array, payload: Array) -> int:
    """Copies the records that stay, neighbours at once; returns their bytes."""
    size: int = int64(0)
    row = 0
    while row < count:
        first = row
        while row < count and stays[row]:
            row += 1
        start = found[first, RECORD_START]
        length = found[row, RECORD_START] - start
        source = uint64(start)
        target = uint64(size)
        for i in range(uint64(length)):
            payload[target + i] = data[source + i]
        size += length
        row += 1
    return size
