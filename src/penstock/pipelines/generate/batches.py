"""Record batches from Arrow columns, with no Python object a record.

A record is varints and bytes in a row, so Arrow's element-wise join of the columns with a table of ready varints is the
records' encoding, and the joined array's data is what a batch has after its header.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.records.batch import (
    CRC,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    computed_crc,
)  # fmt: skip
from penstock.records.compression import Codec, Contexts, compress
from penstock.records.varint import write_varint

Array = np.ndarray[Any, Any]

NUMBERS_MAX = 1 << 14
"""Lengths, offset deltas and timestamp deltas (ms) of one batch must be below it."""


class Batches:
    """Encodes batches; keeps the table of varints. Not for several threads at once."""

    def __init__(self, codec: Codec) -> None:
        self._codec, self._contexts = codec, Contexts()
        self._varints = pa.array([varint(number) for number in range(NUMBERS_MAX)], pa.binary())
        self._lengths = sizes_of(self._varints)

    def build(self, times: Array, keys: pa.Array, values: pa.Array) -> bytearray:
        """One batch of records without headers. `times` are epoch milliseconds in rising order, no key and no value is
        null, and all three have the same length, at least 1.
        """
        count = len(times)
        deltas = times - times[0]
        key_bytes, value_bytes = (sizes_of(column) for column in (keys, values))
        order = np.arange(count)
        numbers = (deltas, order, key_bytes, value_bytes)
        assert all(each.min() >= 0 and each.max() < NUMBERS_MAX for each in numbers)
        sizes = 2 + key_bytes + value_bytes + sum(self._lengths[each] for each in numbers)
        assert sizes.max() < NUMBERS_MAX
        end = pa.repeat(pa.scalar(b"\0", pa.binary()), count)
        size, delta, place, key_size, value_size = (self._varints.take(pa.array(each)) for each in (sizes, *numbers))
        key, value = keys.cast(pa.binary()), values.cast(pa.binary())
        joined = pc.binary_join_element_wise(
            size, end, delta, place, key_size, key, value_size, value, end, pa.scalar(b"", pa.binary())
        )
        records = memoryview(joined.buffers()[2])[: int(sizes.sum() + self._lengths[sizes].sum())]
        return self._framed(records, int(times[0]), int(times[-1]), count)

    def _framed(self, records: Any, first_ms: int, last_ms: int, count: int) -> bytearray:
        payload = records if self._codec is Codec.NONE else compress(self._codec, records, self._contexts, None)
        length = HEADER_BYTES + len(payload) - LOG_OVERHEAD_BYTES
        batch = bytearray(
            HEADER.pack(
                0, length, NO_LEADER_EPOCH, MAGIC, 0, int(self._codec), count - 1, first_ms, last_ms,
                NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count,
            )
        )  # fmt: skip
        batch += payload
        CRC.pack_into(batch, CRC_POSITION, computed_crc(batch, 0, len(batch)))
        return batch


def sizes_of(column: pa.Array) -> Array:
    """Bytes of each value of a binary or string column."""
    sizes: Array = pc.binary_length(column).to_numpy().astype(np.int64)
    return sizes


def varint(number: int) -> bytes:
    """A number as records write it: zigzag, seven bits a byte."""
    out = bytearray()
    write_varint(out, number)
    return bytes(out)
