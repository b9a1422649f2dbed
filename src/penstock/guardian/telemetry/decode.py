"""A frame of telemetry (`penstock.protocol.telemetry`) as arrays. The broker may be anybody's: every bound is checked.

ProtocolError for whatever is no frame: nothing else is raised, and nothing is allocated by what a frame merely claims.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from penstock.errors import ProtocolError
from penstock.guardian.limits import (
    TELEMETRY_COLUMNS_MAX,
    TELEMETRY_FRAME_MAX_BYTES,
    TELEMETRY_SECTIONS_MAX,
    TELEMETRY_UNPACKED_MAX_BYTES,
    TELEMETRY_VALUES_MAX,
)
from penstock.protocol.telemetry import (
    BLOCKS,
    COUNT,
    FORMAT,
    FULL,
    HEADER,
    ITEM_TYPES,
    MAGIC,
    NO_ITEMS,
    SECTION,
    Block,
    Kind,
)

Ids = NDArray[np.int64]
Matrix = NDArray[np.int64]

SIZED: Final[dict[int, np.dtype[Any]]] = {size: np.dtype(f"<i{size}") for size in ITEM_TYPES}
SIZES: Final = {NO_ITEMS, *SIZED}
ID_SIZES: Final = (NO_ITEMS, 1, 2, 4)
ID_MAX: Final = (1 << 32) - 1
LENGTH_BYTES = 2
PIECE_BYTES = 64 * 1024
"""What is decompressed at a time."""


@dataclass(slots=True)
class Part:
    """A section of a block: rows with names (a text for each field), with values or changes of them (the matrix has a
    row for each column), or that have ended.
    """

    block: Block
    kind: Kind
    ids: Ids
    names: list[tuple[str, ...]] = field(default_factory=list)
    values: Matrix = field(default_factory=lambda: np.empty((0, 0), np.int64))


@dataclass(slots=True)
class Frame:
    """A whole frame. `since`: FULL, or the sequence after which it tells what has changed. `totals`: how many rows
    each block has, by its number.
    """

    node_id: int
    incarnation: UUID
    sequence: int
    since: int
    parts: list[Part]
    totals: dict[int, int]


class Cursor:
    """A position in bytes; nothing is read beyond their end. `values_left`: how many more values there may be."""

    __slots__ = ("data", "position", "values_left")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.values_left = TELEMETRY_VALUES_MAX
        self.position = 0

    def take(self, length: int, what: str) -> int:
        """Goes on by `length`; where that begins."""
        start = self.position
        if length > len(self.data) - start:
            raise ProtocolError(f"telemetry ends within {what}, at byte {start} of {len(self.data)}")
        self.position = start + length
        return start

    @property
    def ended(self) -> bool:
        return self.position == len(self.data)


def decode(frame: bytes) -> Frame:
    """Reads a frame. Raises ProtocolError."""
    if len(frame) > TELEMETRY_FRAME_MAX_BYTES:
        raise ProtocolError(f"telemetry of {len(frame)} bytes, more than {TELEMETRY_FRAME_MAX_BYTES}")
    if len(frame) < HEADER.size:
        raise ProtocolError(f"telemetry of {len(frame)} bytes, less than its header of {HEADER.size}")
    magic, version, reserved, node_id, incarnation, sequence, since = HEADER.unpack_from(frame)
    if magic != MAGIC:
        raise ProtocolError(f"no telemetry: it begins with {magic!r}, not with {MAGIC!r}")
    if version != FORMAT or reserved:
        raise ProtocolError(f"telemetry in format {version}.{reserved}; only {FORMAT}.0 is known")
    if node_id < 0 or sequence <= 0 or not FULL <= since < sequence or since == 0:
        raise ProtocolError(f"telemetry of node {node_id} with sequence {sequence} since {since}")
    data = Cursor(unpacked(frame[HEADER.size :]))
    parts, totals = sections(data)
    return Frame(node_id, UUID(bytes=incarnation), sequence, since, parts, totals)


def unpacked(packed: bytes) -> bytes:
    """Decompresses, up to TELEMETRY_UNPACKED_MAX_BYTES."""
    zstandard: Any = import_module("zstandard")
    decompressor = zstandard.ZstdDecompressor(max_window_size=TELEMETRY_UNPACKED_MAX_BYTES)
    pieces: list[bytes] = []
    size_bytes = 0
    try:
        with decompressor.stream_reader(packed, read_across_frames=False) as reader:
            while piece := reader.read(PIECE_BYTES):
                pieces.append(piece)
                size_bytes += len(piece)
                if size_bytes > TELEMETRY_UNPACKED_MAX_BYTES:
                    raise ProtocolError(f"telemetry of more than {TELEMETRY_UNPACKED_MAX_BYTES} bytes")
    except zstandard.ZstdError as error:
        raise ProtocolError(f"telemetry cannot be decompressed: {error}") from error
    return b"".join(pieces)


def sections(data: Cursor) -> tuple[list[Part], dict[int, int]]:
    """All sections, up to that of the totals, which ends them."""
    parts: list[Part] = []
    for _ in range(TELEMETRY_SECTIONS_MAX):
        start = data.take(SECTION.size, "the head of a section")
        number, kind, width, rows = SECTION.unpack_from(data.data, start)
        if kind == Kind.TOTALS:
            totals = read_totals(data, rows)
            if not data.ended:
                raise ProtocolError(f"telemetry has {len(data.data) - data.position} bytes after its totals")
            return parts, totals
        try:
            part_kind = Kind(kind)
        except ValueError:
            raise ProtocolError(f"telemetry has a section of kind {kind}") from None
        if not rows or width > TELEMETRY_COLUMNS_MAX:
            raise ProtocolError(f"telemetry has a section of {rows} rows and {width} columns")
        block = BLOCKS[number] if number < len(BLOCKS) else None
        part = read_part(data, block, part_kind, width, rows)
        if part is not None:
            parts.append(part)
    raise ProtocolError(f"telemetry has more than {TELEMETRY_SECTIONS_MAX} sections")


def read_totals(data: Cursor, blocks: int) -> dict[int, int]:
    if blocks < len(BLOCKS):
        raise ProtocolError(f"telemetry has totals of {blocks} blocks, not of {len(BLOCKS)}")
    start = data.take(COUNT.size * blocks, "the totals")
    found = np.frombuffer(data.data, "<u4", len(BLOCKS), start)
    return dict(enumerate(found.tolist()))


def read_part(data: Cursor, block: Block | None, kind: Kind, width: int, rows: int) -> Part | None:
    """A section after its head; None if it is of a block that we do not know."""
    what = f"the {kind.name.lower()} of block {block.name if block is not None else 'unknown'}"
    ids = read_ids(data, rows, what)
    if kind is Kind.REMOVED:
        if width:
            raise ProtocolError(f"{what} have a width of {width}")
        return None if block is None else Part(block, kind, ids)
    least = 0 if block is None else len(block.fields if kind is Kind.NAMES else block.columns)
    if width < least:
        raise ProtocolError(f"{what} have {width} columns, not {least}")
    if kind is Kind.NAMES:
        names = read_names(data, width, least, rows, what)
        return None if block is None else Part(block, kind, ids, names=names)
    values = read_values(data, width, rows, what)
    return None if block is None else Part(block, kind, ids, values=values[:least])


def read_ids(data: Cursor, rows: int, what: str) -> Ids:
    """The ids of a section's rows, each once."""
    size = data.data[data.take(1, what)]
    if size not in ID_SIZES:
        raise ProtocolError(f"{what} have ids of {size} bytes")
    if size:
        steps = np.frombuffer(data.data, SIZED[size], rows, data.take(size * rows, what))
    else:
        steps = np.zeros(min(rows, 2), np.int8)  # more than one row with the same id is refused below
    ids: Ids = np.cumsum(steps, dtype=np.int64)
    ascending = bool((steps[1:] > 0).all())
    if int(ids.min()) < 0 or int(ids.max()) > ID_MAX or (not ascending and np.unique(ids).size != rows):
        raise ProtocolError(f"{what} have ids that are none, or one twice")
    return ids


def read_names(data: Cursor, width: int, wanted: int, rows: int, what: str) -> list[tuple[str, ...]]:
    fields: list[list[str]] = []
    for number in range(width):
        start = data.take(LENGTH_BYTES * rows, what)
        ends = np.cumsum(np.frombuffer(data.data, "<u2", rows, start), dtype=np.int64).tolist()
        start = data.take(ends[-1], what)
        if number >= wanted:
            continue
        text = data.data
        try:
            fields.append([text[start + a : start + b].decode() for a, b in zip((0, *ends[:-1]), ends, strict=True)])
        except UnicodeDecodeError:
            raise ProtocolError(f"{what} are not UTF-8") from None
    return list(zip(*fields, strict=True))


def read_values(data: Cursor, width: int, rows: int, what: str) -> Matrix:
    """All columns: those with items of one size lie together."""
    start = data.take(width, what)
    sizes = data.data[start : start + width]
    if unknown := set(sizes) - SIZES:
        raise ProtocolError(f"{what} have a column of items of {min(unknown)} bytes")
    data.values_left -= width * rows
    if data.values_left < 0:  # columns of no items take no bytes in the frame, and do here
        raise ProtocolError(f"telemetry has more than {TELEMETRY_VALUES_MAX} values")
    if rows == 1:  # as of half of all sections: that takes numpy longer
        return read_row(data, sizes, what)
    values = np.zeros((width, rows), np.int64)
    for size, item in SIZED.items():
        columns = [number for number, found in enumerate(sizes) if found == size]
        if columns:
            start = data.take(size * rows * len(columns), what)
            found = np.frombuffer(data.data, item, rows * len(columns), start)
            values[columns] = found.reshape(len(columns), rows)
    return values


def read_row(data: Cursor, sizes: bytes, what: str) -> Matrix:
    """The columns of a single row."""
    start = data.take(sum(sizes), what)
    numbers = [0] * len(sizes)
    for size, number in sorted(zip(sizes, range(len(sizes)), strict=True)):
        numbers[number] = int.from_bytes(data.data[start : start + size], "little", signed=True)
        start += size
    return np.array(numbers, np.int64).reshape(len(sizes), 1)
