"""Confluent's framing of a value: a zero byte, a schema's id in four bytes (big-endian), then the value itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.spark.load.formats.format import Rejected

MAGIC, HEADER_BYTES = 0, 5
NO_ID = -1
UNFRAMED = "no schema id: the value does not begin with a zero byte and four more"
Numbers = np.ndarray[Any, np.dtype[Any]]


def id_of(value: bytes) -> int:
    """The schema id of one value. Raises Rejected."""
    if len(value) < HEADER_BYTES or value[0] != MAGIC:
        raise Rejected(UNFRAMED)
    return int.from_bytes(value[1:HEADER_BYTES], "big")


def buffers_of(values: pa.Array) -> tuple[Numbers, Numbers]:
    """The bounds (one more than values) and the bytes of a binary column without nulls."""
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4) if offsets else np.zeros(1, np.int32)
    return bounds, np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)


def ids_of(values: pa.Array) -> Numbers:
    """The schema id of each value of a binary column without nulls; NO_ID where there is none."""
    bounds, data = buffers_of(values)
    starts, sizes = bounds[:-1].astype(np.int64), np.diff(bounds)
    ids = np.full(len(values), NO_ID, np.int64)
    long_enough = np.flatnonzero(sizes >= HEADER_BYTES)
    heads = data[starts[long_enough, None] + np.arange(HEADER_BYTES)].astype(np.int64)
    found = heads[:, 1:] @ (1 << np.array([24, 16, 8, 0], np.int64))
    ids[long_enough] = np.where(heads[:, 0] == MAGIC, found, NO_ID)
    return ids


def bodies_of(values: pa.Array) -> pa.Array:
    """What follows the framing, of a binary column without nulls in which every value has it."""
    bounds, data = buffers_of(values)
    starts = bounds[:-1].astype(np.int64)
    keep = np.ones(int(bounds[-1]), bool)
    keep[: bounds[0]] = False
    keep[(starts[:, None] + np.arange(HEADER_BYTES)).ravel()] = False
    ends = bounds - bounds[0] - HEADER_BYTES * np.arange(len(bounds), dtype=np.int32)
    body = data[: bounds[-1]][keep]
    return pa.Array.from_buffers(
        values.type, len(values), [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(body)]
    )
