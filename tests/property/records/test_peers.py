"""Batches of ours read by aiokafka and kafka-python, and theirs by us; without compression the bytes are the same."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_records
from hypothesis import given
from hypothesis import strategies as st

from penstock.records.batch import check_crc, read_header
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from penstock.records.reader import records
from penstock.records.validation import Rules, validate_deep

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of what kafka-python uses to load its schemas
    kafka_python_records = importlib.import_module("kafka.record.default_records")

PEERS: dict[str, Any] = {"aiokafka": aiokafka_records, "kafka-python": kafka_python_records}
KAFKA_PYTHON_CODECS = tuple(codec for codec in Codec if codec is not Codec.SNAPPY)
"""kafka-python has snappy only with a library that is not installed."""

AFTER_EPOCH = 16
"""Where the bytes begin that a producer decides alone: before are offset, length and the leader's epoch."""

DATA = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=20), DATA), max_size=3)
RECORDS = st.lists(st.tuples(st.integers(0, 2**42), DATA, DATA, HEADERS), min_size=1, max_size=12)
PRODUCER = st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1))
PAIRS = pytest.mark.parametrize(
    ("peer", "codec"),
    [("aiokafka", codec) for codec in Codec] + [("kafka-python", codec) for codec in KAFKA_PYTHON_CODECS],
)


def ours(rows: list[Any], codec: Codec, producer: tuple[int, int, int]) -> bytes:
    builder = BatchBuilder(
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        is_transactional=True,
    )
    for row in rows:
        builder.append(*row)
    return bytes(builder.build())


def theirs(peer: str, rows: list[Any], codec: Codec, producer: tuple[int, int, int]) -> bytes:
    builder = PEERS[peer].DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=True,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        batch_size=2**24,
    )
    for offset, (timestamp_ms, key, value, headers) in enumerate(rows):
        assert builder.append(offset, timestamp=timestamp_ms, key=key, value=value, headers=headers) is not None
    return bytes(builder.build())


@PAIRS
@given(rows=RECORDS, producer=PRODUCER)
def test_we_read_what_they_write(peer: str, codec: Codec, rows: list[Any], producer: tuple[int, int, int]) -> None:
    data = theirs(peer, rows, codec, producer)
    header = read_header(data)
    check_crc(data, 0, header)
    assert [(r.timestamp_ms, r.key, r.value, list(r.headers)) for r in records(data, header)] == rows
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == producer
    assert validate_deep(data, 0, header, Rules(), wall_ms=0) == max(row[0] for row in rows)
    if not header.is_compressed:  # kafka-python leaves it when it would not make the batch smaller
        assert ours(rows, Codec.NONE, producer)[AFTER_EPOCH:] == data[AFTER_EPOCH:]


@PAIRS
@given(rows=RECORDS, producer=PRODUCER)
def test_they_read_what_we_write(peer: str, codec: Codec, rows: list[Any], producer: tuple[int, int, int]) -> None:
    batch: Any = PEERS[peer].DefaultRecordBatch(ours(rows, codec, producer))
    assert batch.validate_crc()
    assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in batch] == rows
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == producer
    assert batch.is_transactional
