"""Equal keys go where Kafka's producers send them."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2

from penstock.records import kernels
from penstock.records.partitioner import murmur2, partition_for_key

KEYS = [Random(1).randbytes(length) for length in (*range(40), 1000)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_kafkas(key: bytes, value: int) -> None:
    assert murmur2(key) == value % 2**32


def test_the_hash_is_aiokafkas() -> None:
    assert [murmur2(key) for key in KEYS] == [aiokafka_murmur2(key) % 2**32 for key in KEYS]


def test_a_column_of_keys_goes_where_each_key_goes() -> None:
    column = pa.array(KEYS, pa.binary())
    _, ends, data = column.buffers()
    out = np.empty(len(KEYS), np.int32)
    kernels.partitions(np.frombuffer(data, np.uint8), np.frombuffer(ends, np.int32), 7, out)
    assert out.tolist() == [partition_for_key(key, 7) for key in KEYS]
    assert set(out.tolist()) == set(range(7))
