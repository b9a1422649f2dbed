"""The bytes of a frame, section by section: see `penstock.protocol.telemetry`. There is no numpy at a broker."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error, pack
from uuid import UUID

from penstock.node.telemetry.table import Row, Table
from penstock.protocol.telemetry import COUNT, FORMAT, HEADER, ITEM_TYPES, MAGIC, SECTION, Block, Kind

NOTHING = b""


def header(node_id: int, incarnation: UUID, sequence: int, since: int) -> bytes:
    return HEADER.pack(MAGIC, FORMAT, 0, node_id, incarnation.bytes, sequence, since)


def names(block: Block, rows: Sequence[Row]) -> bytes:
    """A section with the names of rows."""
    if not rows:
        return NOTHING
    parts = [SECTION.pack(block.number, Kind.NAMES, len(block.fields), len(rows)), ids([row.id for row in rows])]
    for texts in zip(*[row.name for row in rows], strict=True):
        encoded = [text.encode("utf-8", "replace") for text in texts]
        parts.append(pack(f"<{len(encoded)}H", *map(len, encoded)))
        parts += encoded
    return b"".join(parts)


def values(block: Block, rows: Sequence[Row]) -> bytes:
    """A section with the values of rows."""
    if not rows:
        return NOTHING
    columns = list(zip(*[row.values for row in rows], strict=True))
    assert len(columns) == len(block.columns), f"{block.name} has {len(block.columns)} columns, not {len(columns)}"
    parts = [SECTION.pack(block.number, Kind.VALUES, len(columns), len(rows)), ids([row.id for row in rows])]
    parts += map(column, columns)
    return b"".join(parts)


def column(numbers: Sequence[int]) -> bytes:
    """A column, in the smallest items that all of its numbers fit into."""
    count = len(numbers)
    for size, code in ITEM_TYPES.items():
        try:
            return b"%c" % size + pack(f"<{count}{code}", *numbers)
        except error:  # a number does not fit
            continue
    raise AssertionError(f"no int64: {min(numbers)} to {max(numbers)}")


def removed(block: Block, numbers: Sequence[int]) -> bytes:
    """A section with the ids of rows that have ended."""
    return SECTION.pack(block.number, Kind.REMOVED, 0, len(numbers)) + ids(numbers) if numbers else NOTHING


def totals(tables: Sequence[Table]) -> bytes:
    """The last section: how many rows each block has."""
    counts = [COUNT.pack(len(table)) for table in tables]
    return SECTION.pack(0, Kind.TOTALS, 0, len(counts)) + b"".join(counts)


def ids(numbers: Sequence[int]) -> bytes:
    return pack(f"<{len(numbers)}I", *numbers)
