"""The bytes of a frame, section by section: see `penstock.protocol.telemetry`. There is no numpy at a broker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import sub
from struct import error, pack
from uuid import UUID

from penstock.node.telemetry.table import Row, Table
from penstock.protocol.telemetry import COUNT, FORMAT, HEADER, ITEM_TYPES, MAGIC, NO_ITEMS, SECTION, Block, Kind

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
    return section(block, Kind.VALUES, rows, columns_of([row.values for row in rows])) if rows else NOTHING


def differences(block: Block, rows: Sequence[Row]) -> bytes:
    """A section with what the values of rows are above those before, or with the values if a difference is no int64."""
    if not rows:
        return NOTHING
    present, before = columns_of([row.values for row in rows]), columns_of([row.before for row in rows])
    nothing: Sequence[int] = ()
    found = [nothing if a == b else list(map(sub, a, b)) for a, b in zip(present, before, strict=True)]
    try:
        return section(block, Kind.CHANGES, rows, found)
    except OverflowError:
        return values(block, rows)


def columns_of(rows: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    return list(zip(*rows, strict=True))


def section(block: Block, kind: Kind, rows: Sequence[Row], columns: Sequence[Sequence[int]]) -> bytes:
    assert len(columns) == len(block.columns), f"{block.name} has {len(block.columns)} columns, not {len(columns)}"
    packed = [items(column) for column in columns]
    sizes = [size for size, _ in packed]
    by_size: dict[int, list[bytes]] = {size: [] for size in (NO_ITEMS, *ITEM_TYPES)}
    for size, data in packed:
        by_size[size].append(data)
    return b"".join(
        (
            SECTION.pack(block.number, kind, len(columns), len(rows)),
            ids([row.id for row in rows]),
            bytes(sizes),
            *joined(by_size.values()),
        )
    )


def joined(groups: Iterable[list[bytes]]) -> Iterable[bytes]:
    return (data for group in groups for data in group)


def items(numbers: Sequence[int]) -> tuple[int, bytes]:
    """Numbers in the smallest items that all of them fit into: the size, and the bytes. Raises OverflowError."""
    if not any(numbers):
        return NO_ITEMS, NOTHING
    count = len(numbers)
    for size, code in ITEM_TYPES.items():
        try:
            return size, pack(f"<{count}{code}", *numbers)
        except error:  # a number does not fit
            continue
    raise OverflowError(f"no int64: {min(numbers)} to {max(numbers)}")


def ids(numbers: Sequence[int]) -> bytes:
    size, data = items(list(map(sub, numbers, (0, *numbers[:-1]))))
    return bytes((size,)) + data


def removed(block: Block, numbers: Sequence[int]) -> bytes:
    """A section with the ids of rows that have ended."""
    return SECTION.pack(block.number, Kind.REMOVED, 0, len(numbers)) + ids(numbers) if numbers else NOTHING


def totals(tables: Sequence[Table]) -> bytes:
    """The last section: how many rows each block has."""
    counts = [COUNT.pack(len(table)) for table in tables]
    return SECTION.pack(0, Kind.TOTALS, 0, len(counts)) + b"".join(counts)
