"""The table as its own checkpoint, and the proof that `verify` gives of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")

import pyarrow.parquet as pq  # noqa: E402

from penstock.errors import PenstockError  # noqa: E402
from penstock.spark.lake.delta import DeltaLake  # noqa: E402
from penstock.spark.lake.offsets import runs_of  # noqa: E402
from penstock.spark.lake.records import (  # noqa: E402
    RECORD_SCHEMA,
    DataFile,
    Gap,
    LakeConflictError,
    Statistics,
    TopicPartition,
)
from penstock.spark.lake.verify import PartitionVerdict, verify  # noqa: E402

CLICKS = TopicPartition("clicks", UUID(int=1), 0)
CLICKS_AGAIN = TopicPartition("clicks", UUID(int=2), 0)


def write(directory: Path, offsets: Iterable[int], partition: TopicPartition = CLICKS) -> DataFile:
    offsets = list(offsets)
    rows = {
        "topic": [partition.topic] * len(offsets),
        "topicId": [str(partition.topic_id)] * len(offsets),
        "partition": [partition.partition] * len(offsets),
        "offset": offsets,
        "timestamp": [0] * len(offsets),
        "timestampType": [0] * len(offsets),
        "key": [None] * len(offsets),
        "value": [b"v"] * len(offsets),
        "headers": [[]] * len(offsets),
    }
    table = pa.table(rows, schema=RECORD_SCHEMA)
    path = directory / f"{len(list(directory.glob('*.parquet')))}.parquet"
    pq.write_table(table, path)
    return data_file(path, table)


def data_file(path: Path, table: object) -> DataFile:
    statistics = Statistics()
    statistics.add(table)
    return DataFile(path.name, path.stat().st_size, table.num_rows, statistics.low, statistics.high)  # type: ignore[attr-defined]


def only(verdicts: list[PartitionVerdict]) -> PartitionVerdict:
    assert len(verdicts) == 1
    return verdicts[0]


@pytest.fixture
def lake(tmp_path: Path) -> DeltaLake:
    return DeltaLake.open(str(tmp_path), "test")


def test_a_new_table_has_no_end_and_a_commit_moves_it(lake: DeltaLake, tmp_path: Path) -> None:
    assert lake.end(CLICKS) is None
    lake.commit([write(tmp_path, range(5, 15))], {CLICKS: 5}, {CLICKS: 15})
    assert lake.end(CLICKS) == 15
    assert DeltaLake.open(str(tmp_path), "test").end(CLICKS) == 15


def test_a_second_copy_of_a_pipeline_cannot_commit_the_same_range(lake: DeltaLake, tmp_path: Path) -> None:
    other = DeltaLake.open(str(tmp_path), "test")
    lake.commit([write(tmp_path, range(10))], {CLICKS: 0}, {CLICKS: 10})
    with pytest.raises(LakeConflictError, match="another copy of the pipeline is running"):
        other.commit([write(tmp_path, range(10))], {CLICKS: 0}, {CLICKS: 10})
    assert only(verify(lake)).clean


def test_two_pipelines_keep_their_own_ends(lake: DeltaLake, tmp_path: Path) -> None:
    other = DeltaLake.open(str(tmp_path), "other")
    lake.commit([write(tmp_path, range(10))], {CLICKS: 0}, {CLICKS: 10})
    other.refresh()
    assert other.end(CLICKS) is None


def test_a_clean_table_is_clean_over_several_commits(lake: DeltaLake, tmp_path: Path) -> None:
    for start in (0, 10, 20):
        lake.commit([write(tmp_path, range(start, start + 10))], {CLICKS: start}, {CLICKS: start + 10})
    verdict = only(verify(lake))
    assert verdict.clean
    assert (verdict.start, verdict.end, verdict.rows) == (0, 30, 30)


def test_a_deleted_row_is_missing(lake: DeltaLake, tmp_path: Path) -> None:
    lake.commit([write(tmp_path, range(10))], {CLICKS: 0}, {CLICKS: 10})
    lake.table.delete("offset = 7")
    verdict = only(verify(lake))
    assert not verdict.clean
    assert verdict.missing_ranges == [(7, 8)]


def test_a_doubled_row_is_a_duplicate_even_in_the_same_batch(lake: DeltaLake, tmp_path: Path) -> None:
    lake.commit([write(tmp_path, [0, 1, 2, 2, 3])], {CLICKS: 0}, {CLICKS: 4})
    assert only(verify(lake)).duplicate_ranges == [(2, 3)]


def test_a_file_added_twice_is_a_run_of_duplicates(lake: DeltaLake, tmp_path: Path) -> None:
    lake.commit([write(tmp_path, range(10)), write(tmp_path, range(3, 6))], {CLICKS: 0}, {CLICKS: 10})
    verdict = only(verify(lake))
    assert verdict.duplicates == 3
    assert verdict.duplicate_ranges == [(3, 6)]


def test_a_range_that_the_commits_promise_but_no_file_holds_is_missing(lake: DeltaLake, tmp_path: Path) -> None:
    lake.commit([write(tmp_path, range(2, 8))], {CLICKS: 0}, {CLICKS: 10})
    assert only(verify(lake)).missing_ranges == [(0, 2), (8, 10)]


def test_rows_beyond_what_the_commits_say_are_reported(lake: DeltaLake, tmp_path: Path) -> None:
    lake.commit([write(tmp_path, range(12))], {CLICKS: 0}, {CLICKS: 10})
    assert only(verify(lake)).outside == 2


def test_a_gap_with_a_reason_is_legal_and_only_within_its_range(lake: DeltaLake, tmp_path: Path) -> None:
    gaps = [Gap(CLICKS, 4, 6, "control")]
    lake.commit([write(tmp_path, [0, 1, 2, 3, 7, 8, 9])], {CLICKS: 0}, {CLICKS: 10}, gaps)
    verdict = only(verify(lake))
    assert verdict.legal_gaps == 2
    assert verdict.missing_ranges == [(6, 7)]


def test_a_filter_on_any_column_finds_the_rows(lake: DeltaLake, tmp_path: Path) -> None:
    """Readers pass a file over by its statistics; a column without them would hide every row."""
    lake.commit([write(tmp_path, range(10))], {CLICKS: 0}, {CLICKS: 10})
    for name, value in (("topic", "clicks"), ("partition", 0), ("offset", 7), ("timestampType", 0), ("value", b"v")):
        assert lake.table.to_pyarrow_table(filters=[(name, "=", value)]).num_rows == (1 if name == "offset" else 10)
    assert lake.table.to_pyarrow_table(filters=[("partition", "=", 1)]).num_rows == 0


@pytest.mark.parametrize(
    ("timestamp_us", "instant"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1000, "1969-12-31T23:59:59.999Z"),
        (1_795_261_382_910_000, "2026-11-21T11:43:02.910Z"),
        (2**63 - 1, "9999-12-31T23:59:59.999Z"),
        (-(2**63), "0001-01-01T00:00:00.000Z"),
    ],
)
def test_statistics_hold_every_timestamp_that_a_producer_may_send(timestamp_us: int, instant: str) -> None:
    row = {"topic": "t", "topicId": "i", "partition": 0, "offset": 0, "timestampType": 0}
    table = pa.Table.from_pylist([row], schema=RECORD_SCHEMA)
    at = table.schema.get_field_index("timestamp")
    column = pa.array([timestamp_us], pa.int64()).view(RECORD_SCHEMA.field("timestamp").type)
    statistics = Statistics()
    statistics.add(table.set_column(at, "timestamp", column))
    assert statistics.low["timestamp"] == statistics.high["timestamp"] == instant


def test_a_recreated_topic_is_another_topic(lake: DeltaLake, tmp_path: Path) -> None:
    lake.commit([write(tmp_path, range(10))], {CLICKS: 0}, {CLICKS: 10})
    lake.commit([write(tmp_path, range(4), CLICKS_AGAIN)], {CLICKS_AGAIN: 0}, {CLICKS_AGAIN: 4})
    assert [(v.topic_id, v.rows, v.clean) for v in verify(lake)] == [
        (str(UUID(int=1)), 10, True),
        (str(UUID(int=2)), 4, True),
    ]


def test_a_table_of_something_else_is_refused(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path), pa.table({"x": [1]}))
    with pytest.raises(PenstockError, match="has no column topic"):
        DeltaLake.open(str(tmp_path), "test")


@pytest.mark.parametrize(
    ("offsets", "runs"),
    [
        ([], []),
        ([3], [(3, 4)]),
        ([1, 2, 3], [(1, 4)]),
        ([3, 1, 2, 9], [(1, 4), (9, 10)]),
        ([1, 1, 2], [(1, 3), (1, 2)]),
    ],
)
def test_offsets_become_runs(offsets: list[int], runs: list[tuple[int, int]]) -> None:
    import numpy as np

    assert [tuple(run) for run in runs_of(np.array(offsets, dtype=np.int64)).tolist()] == runs
