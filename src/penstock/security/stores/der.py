"""DER, as far as it is needed here: tag, length, value (X.690).

Bytes are hostile: a length is checked against what is there, and nothing is copied or entered without a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from math import prod
from typing import NamedTuple

from penstock.security.limits import DER_DEPTH_MAX, STORE_ITERATIONS_MAX, STORE_SCRYPT_BLOCKS_MAX

INTEGER = 0x02
BIT_STRING = 0x03
OCTET_STRING = 0x04
OBJECT_IDENTIFIER = 0x06
SEQUENCE = 0x30
SET = 0x31
CONSTRUCTED = 0x20
LENGTH_BYTES_MAX = 4
SCRYPT_NUMBERS = 3


class DerError(ValueError):
    """The bytes are no DER."""


class Value(NamedTuple):
    """One value: its tag's byte, its content, and all of its bytes."""

    tag: int
    content: memoryview
    whole: memoryview

    def children(self) -> list[Value]:
        """The values that it consists of. Raises DerError."""
        return list(values(self.content))

    def expect(self, tag: int) -> Value:
        """The same value. Raises DerError if it is of another kind."""
        if self.tag != tag:
            raise DerError(f"a value of kind {self.tag:#x} where {tag:#x} belongs")
        return self


def values(data: bytes | memoryview) -> Iterator[Value]:
    """The values that lie one behind the other. Raises DerError."""
    view, position = memoryview(data), 0
    while position < len(view):
        value, position = value_at(view, position)
        yield value


def only(data: bytes | memoryview, tag: int) -> Value:
    """The only value of the bytes. Raises DerError."""
    value, end = value_at(memoryview(data), 0)
    if end != len(data):
        raise DerError("bytes after the end")
    return value.expect(tag)


def value_at(view: memoryview, start: int) -> tuple[Value, int]:
    """The value that begins there, and where it ends. Raises DerError."""
    if len(view) - start < 2:
        raise DerError("the bytes end inside a value")
    tag, length, position = view[start], view[start + 1], start + 2
    if tag & 0x1F == 0x1F:
        raise DerError("a tag of several bytes")
    if length & 0x80:
        size = length & 0x7F
        if not 1 <= size <= LENGTH_BYTES_MAX or len(view) - position < size:
            raise DerError("a length that cannot be")
        length = int.from_bytes(view[position : position + size], "big")
        position += size
    end = position + length
    if end > len(view):
        raise DerError("the bytes end inside a value")
    return Value(tag, view[position:end], view[start:end]), end


def object_identifier(content: bytes | memoryview) -> str:
    """An object identifier with points: `2.5.4.3`. Raises DerError."""
    if not content or content[-1] & 0x80:
        raise DerError("an object identifier that does not end")
    arcs: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(number)
            number = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(str(arc) for arc in (first, arcs[0] - 40 * first, *arcs[1:]))


def iterations_allowed(data: bytes | memoryview) -> bool:
    """Whether all derivations of keys together, as far as they lie in the open, ask for no more than
    STORE_ITERATIONS_MAX rounds, and each scrypt for no more than STORE_SCRYPT_BLOCKS_MAX blocks.

    Their parameters have the salt, an OCTET STRING, and then the number of rounds (PKCS#5, PKCS#12), or for scrypt
    cost, size of blocks and parallelism (RFC 7914), which multiply.
    """
    rounds = 0
    for numbers in derivations(memoryview(data), DER_DEPTH_MAX):
        rounds += numbers[0]
        if len(numbers) == SCRYPT_NUMBERS and prod(numbers) > STORE_SCRYPT_BLOCKS_MAX:
            return False
    return rounds <= STORE_ITERATIONS_MAX


def derivations(data: memoryview, depth: int) -> Iterator[list[int]]:
    """The numbers that follow an OCTET STRING, in values nested at most `depth` deep; what is no DER has none."""
    try:
        found = list(values(data))
    except DerError:
        return
    for position, value in enumerate(found):
        if value.tag == OCTET_STRING:
            following = takewhile(lambda each: each.tag == INTEGER, found[position + 1 : position + 1 + SCRYPT_NUMBERS])
            numbers = [int.from_bytes(each.content, "big") for each in following]
            if numbers:
                yield numbers
    for value in found:
        if depth and (value.tag & CONSTRUCTED or value.tag == OCTET_STRING):
            yield from derivations(value.content, depth - 1)
