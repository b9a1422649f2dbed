"""Reading lake tables of both formats without Spark: columns, partitions, versions, and what is refused."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")

from deltalake import DeltaTable, write_deltalake  # noqa: E402

from penstock.errors import ConfigError, PenstockError  # noqa: E402
from penstock.spark.frames.columns import UnfitError  # noqa: E402
from penstock.spark.frames.options import FrameOptions  # noqa: E402
from penstock.spark.frames.read_options import parse  # noqa: E402
from penstock.spark.frames.reader import BatchReader, history_of, schema_of  # noqa: E402
from penstock.spark.frames.sink import commit, opened, target_of  # noqa: E402
from penstock.spark.lake.batches import QueryBatch  # noqa: E402
from penstock.spark.lake.pieces import shared_out  # noqa: E402
from penstock.spark.lake.scan import ScanFile, UnreadableError  # noqa: E402
from penstock.spark.limits import LAKE_FILE_OPEN_BYTES, LAKE_READ_TASK_BYTES  # noqa: E402


@pytest.fixture(params=["delta", "iceberg"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> FrameOptions:
    return FrameOptions(str(tmp_path / "pages"), request.param, merge_schema=True)


def add(options: FrameOptions, rows: Any) -> None:
    """One commit of some rows, as the sink makes it."""
    lake = opened(options, rows.schema)
    target = target_of(lake, rows.schema)
    assert commit(lake, target, [target.write(rows.to_batches())], QueryBatch())


def read(path: str, **more: str) -> list[dict[str, Any]]:
    """All rows as Spark's tasks read them."""
    options = parse({"path": path, **more})
    reader = BatchReader(options, schema_of(options, history_of(options)))
    return [row for task in reader.partitions() for some in reader.read(task) for row in some.to_pylist()]


def test_a_table_of_any_version_is_read_back(options: FrameOptions) -> None:
    first = pa.table({"id": [1, 2], "page": ["/a", None], "at": [datetime(2026, 1, 1, tzinfo=UTC)] * 2})
    add(options, first)
    add(options, pa.table({"id": [3], "tags": [["x", "y"]]}))
    lack = {"page": None, "at": None}
    rows = [{**row, "tags": None} for row in first.to_pylist()] + [{"id": 3, **lack, "tags": ["x", "y"]}]
    assert read(options.path) == rows
    assert read(options.path, columns="tags,id") == [{"tags": row["tags"], "id": row["id"]} for row in rows]
    history = history_of(parse({"path": options.path}))
    versions = [number for number in range(1, history.newest() + 1) if history.at(number).files]
    assert read(options.path, versionAsOf=str(versions[0])) == first.to_pylist()
    assert read(options.path, timestampAsOf="2999-01-01") == rows
    with pytest.raises(UnreadableError, match="has no version 99"):
        read(options.path, versionAsOf="99")
    with pytest.raises(UnreadableError, match=r"had no version at 2001-01-01T00:00:00\.000Z that is still known"):
        read(options.path, timestampAsOf="2001-01-01")
    with pytest.raises(ConfigError, match=r"no column pag; did you mean page\?"):
        read(options.path, columns="pag")


def test_partition_values_have_their_types_back(options: FrameOptions) -> None:
    texts = ["a b", "\u00fc", "a/b", "a%2Fb", "x=y", None, "__HIVE_DEFAULT_PARTITION_", "1"]
    days = [date(2026, 1, 1), date(1969, 12, 31), None]
    rows = [{"id": at, "text": text, "day": days[at % 3], "n": at % 2} for at, text in enumerate(texts)]
    table = pa.Table.from_pylist(
        rows, pa.schema([("id", pa.int64()), ("text", pa.string()), ("day", pa.date32()), ("n", pa.int32())])
    )
    lake_options = FrameOptions(options.path, options.table_format, ("text", "day", "n"))
    add(lake_options, table)
    assert sorted(read(options.path), key=lambda row: row["id"]) == rows


def test_a_narrower_column_of_an_older_file_is_widened_and_old_int96_times_are_read(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    moment = datetime(1600, 1, 1, tzinfo=UTC)
    write_deltalake(
        path, pa.table({"id": pa.array([1], pa.int64()), "at": pa.array([moment], pa.timestamp("us", "UTC"))})
    )
    import pyarrow.parquet as pq

    narrow = pa.table({"id": pa.array([7], pa.int32()), "at": pa.array([moment.replace(tzinfo=None)])})
    pq.write_table(narrow, tmp_path / "t" / "old.parquet", use_deprecated_int96_timestamps=True)
    from deltalake.transaction import AddAction

    size = os.path.getsize(tmp_path / "t" / "old.parquet")
    table = DeltaTable(path)
    table.create_write_transaction([AddAction("old.parquet", size, {}, 0, True, "{}")], "append", table.schema())
    assert sorted(row["id"] for row in read(path)) == [1, 7]
    assert [row["at"] for row in read(path)] == [moment, moment]


def test_what_is_not_understood_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match="there is no Delta table at"):
        read(str(tmp_path / "none"))
    with pytest.raises(PenstockError, match="there is no Iceberg table at"):
        read(str(tmp_path / "none"), tableFormat="iceberg")
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": [1]}))
    log = tmp_path / "t" / "_delta_log" / ("0" * 20 + ".json")
    plain = log.read_text()
    for change, told in (
        (('"configuration":{}', '"configuration":{"delta.columnMapping.mode":"name"}'), "column mapping"),
        (
            (
                '"minReaderVersion":1,"minWriterVersion":2',
                '"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["variantType"],"writerFeatures":["variantType"]',
            ),
            "variantType",
        ),
    ):
        assert change[0] in plain
        log.write_text(plain.replace(*change))
        with pytest.raises(PenstockError, match=told):
            read(path)


def test_a_schema_must_be_the_tables(tmp_path: Path) -> None:
    from pyspark.sql.types import IntegerType, LongType, StringType, StructType

    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": pa.array([1], pa.int32())}))
    options = parse({"path": path})
    wider = BatchReader(options, StructType().add("id", LongType()))
    assert [each.to_pylist() for task in wider.partitions() for each in wider.read(task)] == [[{"id": 1}]]
    with pytest.raises(UnfitError, match="column id is int32 in the table, not string"):
        BatchReader(options, StructType().add("id", StringType()))
    with pytest.raises(UnfitError, match="leave NOT NULL out"):
        BatchReader(options, StructType().add("id", IntegerType(), nullable=False))
    reader = BatchReader(options, StructType().add("id", IntegerType()))
    for each in (tmp_path / "t").glob("*.parquet"):
        each.unlink()
    with pytest.raises(UnreadableError, match="is gone: the version that has it was vacuumed"):
        [list(reader.read(task)) for task in reader.partitions()]


def test_files_are_shared_out_by_bytes() -> None:
    small = [ScanFile(f"f{at}", 1000) for at in range(10)]
    assert len(shared_out(small, 2)) == 2
    large = [ScanFile("large", 10 * LAKE_READ_TASK_BYTES + 7), *small]
    for at_once in (1, 4, 100):
        packed = shared_out(large, at_once)
        pieces = [each for some in packed for each in some]
        assert sum(each.end - each.start for each in pieces) == sum(each.size_bytes for each in large)
        assert all(each.end - each.start <= LAKE_READ_TASK_BYTES for each in pieces)
        assert len(packed) >= min(at_once, 10)
    assert shared_out([], 4) == []
    assert shared_out([ScanFile("empty", 0)], 4)[0][0].end == 0
    assert LAKE_FILE_OPEN_BYTES < LAKE_READ_TASK_BYTES


def test_row_groups_of_a_file_are_read_once_however_it_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.spark.lake.pieces.LAKE_FILE_OPEN_BYTES", 1)
    import pyarrow.parquet as pq
    from deltalake.transaction import AddAction

    path = str(tmp_path / "t")
    DeltaTable.create(path, pa.schema([("id", pa.int64())]))
    pq.write_table(pa.table({"id": range(1000)}), tmp_path / "t" / "f.parquet", row_group_size=37)
    size = os.path.getsize(tmp_path / "t" / "f.parquet")
    table = DeltaTable(path)
    table.create_write_transaction([AddAction("f.parquet", size, {}, 0, True, "{}")], "append", table.schema())
    for parts in ("1", "3", "50"):
        assert [row["id"] for row in read(path, **{"penstock.parallelism": parts})] == list(range(1000))
