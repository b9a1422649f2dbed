"""Rows become batches: one at a time, or many that have keys alone."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.records.batch import HEADER_BYTES, entries
from penstock.records.compression import Codec, Contexts
from penstock.records.partitioner import partition_for_key
from penstock.records.reader import bounded, records
from penstock.spark.limits import SINK_COMPILED_ROWS
from penstock.spark.write.rows import keyed_rows, rows_of
from penstock.spark.write.staging import RECORD_FRAME_BYTES_MAX, Stager, StagingPlan

NOW_MS = 1_800_000_000_000
PARTITIONS, BATCH_BYTES = 3, 4096
ROWS = SINK_COMPILED_ROWS * 2
BINARY = pa.binary()


def rows(lengths: range, kind: pa.DataType = BINARY) -> pa.RecordBatch:
    keys = [b"k%d" % number for number in range(ROWS)]
    values = [None if number % 97 == 0 else b"v" * lengths[number % len(lengths)] for number in range(ROWS)]
    return pa.record_batch({"value": pa.array(values).cast(kind), "key": pa.array(keys).cast(kind)})


def staged(batch: pa.RecordBatch, *, keyed: bool, codec: Codec = Codec.LZ4) -> tuple[list[bytes], list[int]]:
    """The batches' bytes, and the partition of each."""
    written: list[bytes] = []
    plan = StagingPlan("topic", PARTITIONS, codec, None, BATCH_BYTES)
    stager = Stager(plan, lambda content: written.append(bytes(content)), 0, NOW_MS)
    found = keyed_rows(batch, batch.schema.names, PARTITIONS) if keyed else None
    if keyed:
        assert found is not None
        stager.add_keyed(*found)
    else:
        stager.add(rows_of(batch, batch.schema.names, "topic"))
    return written, [each.partition for each in stager.finish()]


def told(written: list[bytes], partitions: list[int]) -> dict[int, list[tuple[int, bytes | None, bytes | None]]]:
    """By partition the time, key and value of each record."""
    found: dict[int, list[tuple[int, bytes | None, bytes | None]]] = {}
    for content, partition in zip(written, partitions, strict=True):
        for position, header in entries(content):
            for each in records(content, header, position, bounded(Contexts())):
                found.setdefault(partition, []).append((each.timestamp_ms, each.key, each.value))
    return found


@pytest.mark.parametrize("lengths", [range(1), range(1, 200), range(0, 3 * BATCH_BYTES, 700)])
@pytest.mark.parametrize("kind", [BINARY, pa.string()])
def test_many_rows_with_keys_are_staged_as_one_after_the_other(lengths: range, kind: pa.DataType) -> None:
    batch = rows(lengths, kind)
    one_by_one, many = told(*staged(batch, keyed=False)), told(*staged(batch, keyed=True))
    assert many == one_by_one
    assert sum(map(len, many.values())) == ROWS


def test_batches_of_many_rows_are_full_and_no_larger_than_by_one_record() -> None:
    written, partitions = staged(rows(range(1, 200)), keyed=True, codec=Codec.NONE)
    sizes: dict[int, list[int]] = {}
    for content, partition in zip(written, partitions, strict=True):
        sizes.setdefault(partition, []).append(len(content))
    for some in sizes.values():
        assert all(
            BATCH_BYTES <= size < BATCH_BYTES + HEADER_BYTES + 210 + RECORD_FRAME_BYTES_MAX for size in some[:-1]
        )
        assert len(some) > 10


def test_a_slice_of_keys_has_the_partitions_of_its_own_keys() -> None:
    batch = rows(range(5)).slice(1000)
    found = keyed_rows(batch, batch.schema.names, PARTITIONS)
    assert found is not None
    partitions, keys, _ = found
    assert partitions == [partition_for_key(key, PARTITIONS) for key in keys]
    assert keys == batch.column("key").to_pylist()


def test_rows_that_are_few_or_lack_a_key_or_have_more_are_taken_one_by_one() -> None:
    batch = rows(range(5))
    assert keyed_rows(batch.slice(0, SINK_COMPILED_ROWS - 1), batch.schema.names, PARTITIONS) is None
    assert keyed_rows(batch, ["value"], PARTITIONS) is None
    assert keyed_rows(batch.append_column("partition", pa.array([1] * ROWS)), ["key", "value", "partition"], 3) is None
    without = batch.set_column(1, "key", pa.array([None, *batch.column("key").to_pylist()[1:]], pa.binary()))
    assert keyed_rows(without, batch.schema.names, PARTITIONS) is None
