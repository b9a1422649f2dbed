"""The keyed hash of the cleaner's table: its authors' vectors, and a twin in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from struct import pack, unpack, unpack_from

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs penstock[kernels]")

from penstock.records import key_kernels

KEY = bytes(range(16))
VECTORS = (
    "a3817f04ba25a8e66df67214c7550293",
    "da87c1d86b99af44347659119b22fc45",
    "8177228da4a45dc7fca38bdef60affe4",
    "9c70b60c5267a94e5f33b6b02985ed51",
    "f88164c12d9c8faf7d0f6e7c7bcd5579",
    "1368875980776f8854527a07690e9627",
    "14eeca338b208613485ea0308fd7a15e",
    "a1f1ebbed8dbc153c0b84aa61ff08239",
    "3b62a9ba6258f5610f83e264f31497b4",
    "264499060ad9baabc47f8b02bb6d71ed",
    "00110dc378146956c95447d3f3d0fbba",
    "0151c568386b6677a2b4dc6f81e5dc18",
    "d626b266905ef35882634df68532c125",
    "9869e247e9c08b10d029934fc4b952f7",
    "31fcefac66d7de9c7ec7485fe4494902",
    "5493e99933b0a8117e08ec0f97cfc3d9",
    "6ee2a4ca67b054bbfd3315bf85230577",
    "473d06e8738db89854c066c47ae47740",
)
"""SipHash-2-4 with 128 bits of no byte, of 0, of 0 and 1, and so on, by its authors' `vectors.h`."""
MASK = 2**64 - 1


def hashed(message: bytes, key: bytes) -> bytes:
    """The compiled hash. The message is in the middle of other bytes, as a key is."""
    data = np.frombuffer(b"\xff" * 3 + message + b"\xff" * 9, np.uint8)
    halves = key_kernels.siphash(data, 3, len(message), *map(np.uint64, unpack("<QQ", key)))
    return pack("<QQ", *halves)


def rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 64 - bits) & MASK


def plain(message: bytes, key: bytes) -> bytes:
    """The same in plain Python, as the paper and its authors' code have it."""
    key0, key1 = unpack("<QQ", key)
    v = [
        key0 ^ 0x736F6D6570736575,
        key1 ^ 0x646F72616E646F6D ^ 0xEE,
        key0 ^ 0x6C7967656E657261,
        key1 ^ 0x7465646279746573,
    ]

    def rounds(count: int) -> None:
        for _ in range(count):
            for a, b, c, d, first, second in ((0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21)):
                v[a] = v[a] + v[b] & MASK
                v[b] = rotated(v[b], first) ^ v[a]
                v[a] = rotated(v[a], 32)
                v[c] = v[c] + v[d] & MASK
                v[d] = rotated(v[d], second) ^ v[c]

    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) & 0xFF])
    for position in range(0, len(padded), 8):
        (word,) = unpack_from("<Q", padded, position)
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    halves = []
    for index, constant in ((2, 0xEE), (1, 0xDD)):
        v[index] ^= constant
        rounds(4)
        halves.append(v[0] ^ v[1] ^ v[2] ^ v[3])
    return pack("<QQ", *halves)


@pytest.mark.parametrize("siphash", [hashed, plain])
def test_the_hash_is_that_of_its_authors(siphash: Callable[[bytes, bytes], bytes]) -> None:
    assert [siphash(bytes(range(length)), KEY) for length in range(len(VECTORS))] == [*map(bytes.fromhex, VECTORS)]


def test_the_hash_is_that_of_its_plain_twin() -> None:
    random = Random(5)
    for length in [*range(70), 255, 256, 1000]:
        message, key = random.randbytes(length), random.randbytes(16)
        assert hashed(message, key) == plain(message, key)


def test_another_key_or_another_length_gives_another_hash() -> None:
    assert hashed(b"k", KEY) != hashed(b"k", KEY[::-1])
    assert hashed(b"k", KEY) != hashed(b"k\0", KEY)
