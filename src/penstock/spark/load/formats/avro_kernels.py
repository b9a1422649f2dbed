"""Compiled loops that turn the bytes of flat Avro records into numbers and places of bytes.

`read` walks each value by a table of its fields and checks every integer and every length against the end of the value
(the bytes are hostile, and compiled code checks no bounds). It takes only what it is sure of: a value with anything
unusual in it, be it broken, of an odd encoding or out of a column's range, is marked, and `avro` decodes that one as it
decodes all without this. So no rule about bad values, and no reason, is here a second time.

Numba notices a change of this file only: nothing here calls what another file compiles.
"""

from __future__ import annotations

from typing import Any

import numba

from penstock.records.kernels import Array, compiled

# Columns of the table of fields. NULL_AT is the branch of a union that is null, or NO_UNION; LEAST and MOST bound a
# NUMBER; SIZE is that of FIXED bytes; NUMBER_AT and PLACE_AT are rows of the results, or NOWHERE.
KIND, NULL_AT, NULL_FITS, LEAST, MOST, SIZE, IS_TEXT, NUMBER_AT, PLACE_AT = range(9)
FIELD_COLUMNS = 9
NO_UNION = NOWHERE = -1
# Kinds of fields.
BOOLEAN, NUMBER, FLOAT, DOUBLE, BYTES, FIXED = range(6)

FAILED = -1

int64: Any = numba.int64
uint64: Any = numba.uint64


@compiled
def varlong(data: Array, position: int, end: int) -> tuple[int, int]:
    """The zig-zag number of 64 bits at `position` and the position after it, or FAILED."""
    raw = uint64(0)
    shift = 0
    while position < end:
        byte = uint64(data[uint64(position)])
        position += 1
        if shift == 63 and byte > 1:
            return int64(0), int64(FAILED)
        raw |= (byte & uint64(0x7F)) << uint64(shift)
        if byte < 0x80:
            return int64(raw >> uint64(1)) ^ -int64(raw & uint64(1)), position
        shift += 7
    return int64(0), int64(FAILED)


@compiled
def little_endian(data: Array, position: int, count: int) -> int:
    """`count` bytes as a number."""
    raw = uint64(0)
    for i in range(count):
        raw |= uint64(data[uint64(position + i)]) << uint64(8 * i)
    number: int = int64(raw)
    return number


@compiled
def is_text(data: Array, position: int, end: int) -> bool:
    """Whether bytes are UTF-8 as Python reads it: no surrogates, nothing longer than need be (RFC 3629)."""
    while position < end:
        first = data[uint64(position)]
        position += 1
        if first < 0x80:
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 if first < 0xE0 else (2 if first < 0xF0 else 3)
        if more > end - position:
            return False
        for i in range(more):
            if data[uint64(position + i)] & 0xC0 != 0x80:
                return False
        second = data[uint64(position)]
        if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F):
            return False
        if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
            return False
        position += more
    return True


@compiled
def read(  # noqa: C901, PLR0912, PLR0915, PLR0917 - one loop, for the compiler's sake
    data: Array, starts: Array, ends: Array, fields: Array,
    numbers: Array, lengths: Array, valid: Array, is_good: Array,
) -> None:  # fmt: skip
    """Reads the values that lie in `data` from `starts` to `ends`.

    Args:
        data: uint8.
        starts, ends: int64 [values], within `data`, or empty ranges.
        fields: int64 [fields, FIELD_COLUMNS].
        numbers: int64 [.., values], zeros: numbers, the bits of floats and doubles, where bytes begin.
        lengths: int32 [.., values], zeros: the lengths of bytes.
        valid: uint8 [as `numbers`], zeros: 1 where there is a value, 0 for null.
        is_good: uint8 [values], zeros: 1 where all of the value was read. The rest of the results is void elsewhere.
    """
    for row in range(starts.shape[0]):
        position = starts[row]
        end = ends[row]
        is_sure = True
        for f in range(fields.shape[0]):
            if fields[f, NULL_AT] != NO_UNION:
                branch, position = varlong(data, position, end)
                if position == FAILED or branch < 0 or branch > 1:
                    is_sure = False
                    break
                if branch == fields[f, NULL_AT]:
                    if fields[f, NULL_FITS] == 0:
                        is_sure = False
                        break
                    continue
            kind = fields[f, KIND]
            number = int64(0)
            length = int64(0)
            if kind == NUMBER:
                number, position = varlong(data, position, end)
                if position == FAILED or number < fields[f, LEAST] or number > fields[f, MOST]:
                    is_sure = False
                    break
            elif kind >= BYTES:  # or FIXED
                length = fields[f, SIZE]
                if kind == BYTES:
                    length, position = varlong(data, position, end)
                if position == FAILED or length < 0 or length > end - position:
                    is_sure = False
                    break
                number = position
                position += length
                if fields[f, IS_TEXT] != 0 and not is_text(data, number, position):
                    is_sure = False
                    break
            else:
                size = 1 if kind == BOOLEAN else (4 if kind == FLOAT else 8)
                if size > end - position:
                    is_sure = False
                    break
                number = little_endian(data, position, size)
                position += size
                if kind == BOOLEAN and (number < 0 or number > 1):
                    is_sure = False
                    break
            at = fields[f, NUMBER_AT]
            if at != NOWHERE:
                numbers[at, row] = number
                valid[at, row] = 1
                at = fields[f, PLACE_AT]
                if at != NOWHERE:
                    lengths[at, row] = length
        if is_sure and position == end:
            is_good[row] = 1


@compiled
def gather(data: Array, starts: Array, bounds: Array, out: Array) -> None:
    """Copies bytes that begin in `data` at `starts` to `out`, where `bounds` (int32, one more) has them."""
    for row in range(starts.shape[0]):
        source = uint64(starts[row])
        target = uint64(bounds[row])
        for i in range(uint64(bounds[row + 1] - bounds[row])):
            out[target + i] = data[source + i]
