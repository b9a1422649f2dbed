"""Frames that lie: each is refused with a sentence, before anything is allocated for it."""

from __future__ import annotations

import struct
import tracemalloc
from random import Random

import pytest
import zstandard
from support.telemetry_frames import INCARNATION, frames

from penstock.errors import ProtocolError
from penstock.guardian.limits import TELEMETRY_FRAME_MAX_BYTES, TELEMETRY_UNPACKED_MAX_BYTES
from penstock.guardian.telemetry.decode import decode
from penstock.guardian.telemetry.view import View
from penstock.protocol.telemetry import BLOCKS, DISKS, GROUPS, HEADER, MAGIC, SECTION, Kind

TOTALS = SECTION.pack(0, Kind.TOTALS, 0, len(BLOCKS)) + struct.pack(f"<{len(BLOCKS)}I", *[0] * len(BLOCKS))
ONE_ID = b"\x01\x05"


def framed(
    data: bytes, *, magic: bytes = MAGIC, version: int = 0, node: int = 1, sequence: int = 2, since: int = -1
) -> bytes:
    head = HEADER.pack(magic, version, 0, node, INCARNATION.bytes, sequence, since)
    return head + zstandard.ZstdCompressor().compress(data)


def section(kind: Kind, width: int, rows: int, rest: bytes, block: int = GROUPS.number) -> bytes:
    return framed(SECTION.pack(block, kind, width, rows) + rest + TOTALS)


def refused(frame: bytes) -> str:
    with pytest.raises(ProtocolError) as error:
        decode(frame)
    return str(error.value)


def test_what_adds_up_is_taken() -> None:
    assert decode(framed(TOTALS)).parts == []
    (part,) = decode(section(Kind.VALUES, 3, 1, ONE_ID + b"\x00\x01\x02" + b"\x07\x00\x01")).parts
    assert part.ids.tolist() == [5]
    assert part.values.tolist() == [[0], [7], [256]]


def test_more_columns_fields_and_blocks_of_a_newer_broker_are_passed_over() -> None:
    (part,) = decode(section(Kind.VALUES, 5, 1, ONE_ID + b"\x00\x01\x00\x02\x01" + b"\x07\x09\x00\x01")).parts
    assert part.values.tolist() == [[0], [7], [0]]
    names = b"".join(struct.pack("<H", len(text)) + text for text in (b"g", b"classic", b"consumer", b"new"))
    (part,) = decode(section(Kind.NAMES, 4, 1, ONE_ID + names)).parts
    assert part.names == [("g", "classic", "consumer")]
    assert decode(section(Kind.REMOVED, 0, 1, ONE_ID, block=77)).parts == []
    newer = struct.pack(f"<{len(BLOCKS) + 1}I", *[0] * (len(BLOCKS) + 1))
    assert decode(framed(SECTION.pack(0, Kind.TOTALS, 0, len(BLOCKS) + 1) + newer)).totals[0] == 0


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"", "of 0 bytes, less than its header"),
        (b"x" * (TELEMETRY_FRAME_MAX_BYTES + 1), "more than"),
        (framed(TOTALS, magic=b"PTEX"), "no telemetry: it begins with b'PTEX'"),
        (framed(TOTALS, version=1), "format 1.0"),
        (framed(TOTALS, node=-1), "of node -1"),
        (framed(TOTALS, sequence=0), "sequence 0"),
        (framed(TOTALS, sequence=2, since=2), "since 2"),
        (framed(TOTALS, since=-2), "since -2"),
        (framed(b""), "ends within the head of a section"),
        (framed(TOTALS)[:-3] + b"\xff\xff\xff", "telemetry"),
        (framed(TOTALS + b"x"), "1 bytes after its totals"),
        (framed(TOTALS[:-1]), "ends within the totals"),
        (framed(SECTION.pack(0, Kind.TOTALS, 0, 1) + bytes(4)), "totals of 1 blocks"),
        (framed(SECTION.pack(0, 9, 0, 1) + TOTALS), "a section of kind 9"),
        (section(Kind.VALUES, 3, 0, b""), "a section of 0 rows"),
        (section(Kind.VALUES, 300, 1, b""), "300 columns"),
        (section(Kind.VALUES, 2, 1, ONE_ID), "2 columns, not 3"),
        (section(Kind.VALUES, 3, 1, ONE_ID + b"\x03\x00\x00"), "items of 3 bytes"),
        (section(Kind.VALUES, 3, 1, b"\x08" + bytes(8)), "ids of 8 bytes"),
        (section(Kind.VALUES, 3, 1, b"\x01\xff"), "ids that are none"),
        (section(Kind.VALUES, 3, 2, b"\x01\x05\x00"), "or one twice"),
        (section(Kind.VALUES, 3, 4_000_000_000, b"\x00"), "or one twice"),
        (section(Kind.VALUES, 3, 4_000_000_000, b"\x01"), "ends within"),
        (section(Kind.REMOVED, 1, 1, ONE_ID), "a width of 1"),
        (section(Kind.NAMES, 3, 1, ONE_ID + b"\x01\x00\xff" + bytes(4)), "not UTF-8"),
        (section(Kind.NAMES, 3, 1, ONE_ID + b"\xff\xff"), "ends within"),
        (section(Kind.NAMES, 1, 1, ONE_ID), "1 columns, not 3"),
        (framed((SECTION.pack(GROUPS.number, Kind.REMOVED, 0, 1) + ONE_ID) * 3_000), "more than 2000 sections"),
    ],
)
def test_a_lie_is_refused(frame: bytes, why: str) -> None:
    assert why in refused(frame)


def test_a_small_frame_cannot_become_a_large_one() -> None:
    """A bomb of zeros, and columns that take no bytes: neither takes more memory than it may."""
    bomb = zstandard.ZstdCompressor(level=19).compress(bytes(4 * TELEMETRY_UNPACKED_MAX_BYTES))
    head = HEADER.pack(MAGIC, 0, 0, 1, INCARNATION.bytes, 2, -1)
    assert len(bomb) < 100_000
    rows = 30_000
    ids = b"\x01" + b"\x01" * rows
    empty = SECTION.pack(DISKS.number, Kind.VALUES, 255, rows) + ids + bytes(255)
    tracemalloc.start()
    try:
        assert "more than" in refused(head + bomb)
        assert "values" in refused(framed(empty * 40 + TOTALS))
        assert tracemalloc.get_traced_memory()[1] < 2 * TELEMETRY_UNPACKED_MAX_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("skipped", "why"),
    [([0], "goes on from"), ([0, 1], "goes on from")],
)
def test_a_frame_that_does_not_follow_is_refused(skipped: list[int], why: str) -> None:
    told, view = frames(Random(1)), View()
    for number, frame in enumerate(told[:3]):
        if number in skipped:
            continue
        with pytest.raises(ProtocolError, match=why):
            view.take(decode(frame))
    assert (view.sequence, len(view["partitions"])) == (-1, 0)
    view.take(decode(told[0]))
    assert len(view["partitions"]) == 6


@pytest.mark.parametrize("kind", [Kind.VALUES, Kind.CHANGES])
def test_values_of_a_row_without_a_name_are_refused(kind: Kind) -> None:
    with pytest.raises(ProtocolError, match="has not named"):
        View().take(decode(section(kind, 3, 1, ONE_ID + bytes(3))))


def test_a_frame_that_does_not_add_up_is_refused() -> None:
    names = b"".join(struct.pack("<H", 1) + b"g" for _ in range(3))
    with pytest.raises(ProtocolError, match="0 rows of groups, and they add up to 1"):
        View().take(decode(section(Kind.NAMES, 3, 1, ONE_ID + names)))
