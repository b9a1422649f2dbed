"""Batches into tables of both formats without Spark: each once, whoever offers it, and whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")

from dataclasses import replace  # noqa: E402
from datetime import UTC, date, datetime  # noqa: E402

from deltalake import DeltaTable  # noqa: E402
from pyspark.sql.pandas.types import from_arrow_schema  # noqa: E402
from support.lake_tables import load  # noqa: E402
from support.lake_tables import opened as a_loads_table  # noqa: E402

from penstock.errors import PenstockError  # noqa: E402
from penstock.spark.frames.columns import UnfitError  # noqa: E402
from penstock.spark.frames.options import FrameOptions  # noqa: E402
from penstock.spark.frames.sink import StreamWriter, Written, abort, commit, opened, target_of  # noqa: E402
from penstock.spark.lake.batches import QueryBatch  # noqa: E402
from penstock.spark.lake.maintenance import Maintenance  # noqa: E402
from penstock.spark.lake.reading import batches_of  # noqa: E402
from penstock.spark.lake.table import LakeTable  # noqa: E402

COLUMNS = pa.schema([("id", pa.int64()), ("page", pa.string())])


@pytest.fixture(params=["delta", "iceberg"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> FrameOptions:
    return FrameOptions(str(tmp_path / "pages"), request.param)


def rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(ids), "page": [f"/{each}" for each in ids]}, schema=COLUMNS)


def offer(options: FrameOptions, batch: QueryBatch, *ids: int) -> bool:
    """One batch as a driver brings it: a task writes its rows, and it commits."""
    lake = opened(options, COLUMNS)
    target = target_of(lake, COLUMNS)
    return commit(lake, target, [target.write([rows(*ids)])], batch)


def ids_of(options: FrameOptions) -> list[int]:
    lake = opened(options, COLUMNS)
    return sorted(each for some in batches_of(lake, ["id"]) for each in some.column("id").to_pylist())


def files_in(lake: LakeTable) -> set[str]:
    return {each.path for each in lake.destination().list("") if Path(each.path).name.startswith("part-")}


def test_a_batch_that_is_offered_again_is_left_alone_and_its_files_are_deleted(options: FrameOptions) -> None:
    assert offer(options, QueryBatch("q", 0), 1, 2)
    assert offer(options, QueryBatch("q", 1), 3)
    for number, ids in ((1, [3]), (0, [1, 2])):
        assert not offer(options, QueryBatch("q", number), *ids)
    assert offer(options, QueryBatch("other", 0), 4)
    assert ids_of(options) == [1, 2, 3, 4]
    lake = opened(options, COLUMNS)
    assert files_in(lake) == {each.path for each in lake.files()}


def test_an_older_copy_of_a_checkpoint_is_refused(options: FrameOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.spark.frames.sink.query_of", lambda options: "q")
    given = {"path": options.path, "tableFormat": options.table_format, "checkpointLocation": "/nowhere"}
    writer = StreamWriter(from_arrow_schema(COLUMNS), given, False)
    for number in range(3):
        writer.commit([writer.write(iter([rows(number)]))], number)
    with pytest.raises(
        PenstockError, match="the table has batch 2 of this query, and the checkpoint goes on with batch 1"
    ):
        writer.commit([writer.write(iter([rows(7)]))], 1)
    writer.commit([writer.write(iter([rows(2)]))], 2)
    assert ids_of(options) == [0, 1, 2]
    lake = opened(options, COLUMNS)
    assert files_in(lake) == {each.path for each in lake.files()}


def test_partitions_of_any_text_are_read_back_and_kept(options: FrameOptions) -> None:
    options = replace(options, partition_by=("page",))
    values = ["a b", "\u00fc", "a/b", "a%2Fb", "x=y"]
    lake = opened(options, COLUMNS)
    target = target_of(lake, COLUMNS)
    batch = pa.RecordBatch.from_pydict({"id": list(range(len(values))), "page": values}, schema=COLUMNS)
    assert commit(lake, target, [target.write([batch])], QueryBatch())
    lake = opened(options, COLUMNS)
    assert files_in(lake) == {each.path for each in lake.files()}
    found = [row for some in batches_of(lake, ["id", "page"]) for row in some.to_pylist()]
    assert sorted(found, key=lambda row: row["id"]) == batch.to_pylist()
    if options.table_format == "delta":
        table = DeltaTable(options.path)
        assert table.vacuum(retention_hours=0, enforce_retention_duration=False, full=True) == []
        assert table.to_pyarrow_table().num_rows == len(values)


def test_a_column_that_differs_by_case_is_not_added(options: FrameOptions) -> None:
    opened(options, COLUMNS)
    with pytest.raises(UnfitError, match="column Page differs from the table's page by case only"):
        opened(replace(options, merge_schema=True), pa.schema([("id", pa.int64()), ("Page", pa.string())]))


def test_rows_of_no_query_are_added_each_time(options: FrameOptions) -> None:
    assert offer(options, QueryBatch(), 1)
    assert offer(options, QueryBatch(), 1)
    assert ids_of(options) == [1, 1]


def test_of_drivers_that_commit_one_batch_at_the_same_time_one_does(options: FrameOptions) -> None:
    drivers = []
    opened(options, COLUMNS)
    for _ in range(4):  # all have planned and written before the first of them commits
        lake = opened(options, COLUMNS)
        target = target_of(lake, COLUMNS)
        drivers.append((lake, target, target.write([rows(1, 2, 3)])))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda each: commit(each[0], each[1], [each[2]], QueryBatch("q", 5, "pages")), drivers))
    assert ids_of(options) == [1, 2, 3]


def test_queries_and_strangers_that_write_at_the_same_time_all_do(options: FrameOptions) -> None:
    opened(options, COLUMNS)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda at: offer(options, QueryBatch(f"q{at}" if at else None, 0), at), range(4)))
    assert ids_of(options) == [0, 1, 2, 3]


def test_a_name_is_of_one_checkpoint_and_a_checkpoint_of_one_name(options: FrameOptions) -> None:
    assert offer(options, QueryBatch("q", 3, "pages"), 1)
    with pytest.raises(PenstockError, match="query 'pages' wrote to this table from another checkpoint than"):
        offer(options, QueryBatch("new", 0, "pages"), 1)
    with pytest.raises(PenstockError, match="checkpoint q is of another query: under another name than 'copy'"):
        offer(options, QueryBatch("q", 4, "copy"), 2)
    assert offer(options, QueryBatch("q", 4, "pages"), 2)
    lake = opened(options, COLUMNS)
    assert ids_of(options) == [1, 2]
    assert files_in(lake) == {each.path for each in lake.files()}


def test_a_task_that_fails_leaves_no_file(options: FrameOptions) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield rows(1)
        raise ValueError("the query failed")

    lake = opened(options, COLUMNS)
    with pytest.raises(ValueError, match="the query failed"):
        target_of(lake, COLUMNS).write(failing())
    assert not files_in(lake)


def test_a_batch_that_was_given_up_is_deleted_unless_it_may_be_committed_yet(options: FrameOptions) -> None:
    lake = opened(options, COLUMNS)
    target = target_of(lake, COLUMNS)
    whole = [target.write([rows(1)]), target.write([rows(2)])]
    abort(target.destination, whole)
    assert len(files_in(lake)) == 2, "the store may be about to apply the commit that failed"
    abort(target.destination, [whole[0], None])
    assert files_in(lake) == {whole[1].files[0].path}
    assert Maintenance(lake, target_bytes=1, keep_hours=0).run(["vacuum"])["vacuum"]["files_deleted"] == 1
    assert not files_in(lake)


def test_a_batch_without_rows_is_no_commit(options: FrameOptions) -> None:
    lake = opened(options, COLUMNS)
    target = target_of(lake, COLUMNS)
    version = lake.version
    assert not commit(lake, target, [target.write([rows()])], QueryBatch("q", 0))
    assert opened(options, COLUMNS).version == version


def test_columns_that_strangers_add_stay_null_and_merge_schema_adds_ones_own(options: FrameOptions) -> None:
    lake = opened(options, COLUMNS)
    target = target_of(lake, COLUMNS)
    report = target.write([rows(1)])
    opened(options, COLUMNS).add_columns([pa.field("country", pa.string())])
    lake.refresh()
    assert commit(lake, target, [report], QueryBatch("q", 0))
    wider = COLUMNS.append(pa.field("agent", pa.string()))
    with pytest.raises(UnfitError, match="the table has no column agent"):
        opened(options, wider)
    merging = FrameOptions(options.path, options.table_format, merge_schema=True)
    assert opened(merging, wider).columns.names == ["id", "page", "country", "agent"]


def test_a_table_made_again_under_a_batch_does_not_get_its_files(tmp_path: Path) -> None:
    options = FrameOptions(str(tmp_path / "pages"))
    lake = opened(options, COLUMNS)
    target = target_of(lake, COLUMNS)
    report = target.write([rows(1)])
    DeltaTable.create(options.path, COLUMNS, mode="overwrite", partition_by=["page"])
    again = opened(options, COLUMNS)
    with pytest.raises(UnfitError, match=r"was (dropped and made again|partitioned otherwise) while the batch was"):
        commit(again, target_of(again, COLUMNS), [report], QueryBatch("q", 0))
    assert not files_in(again)
    with pytest.raises(UnfitError, match="was dropped and made again while the batch was written"):
        commit(again, target_of(again, COLUMNS), [Written(report.files, "gone")], QueryBatch("q", 0))


def test_a_table_changed_while_its_commit_loses_to_a_stranger_is_looked_at_again(tmp_path: Path) -> None:
    options = FrameOptions(str(tmp_path / "pages"))
    lake = opened(options, COLUMNS)
    target = target_of(lake, COLUMNS)
    report = target.write([rows(1)])
    narrower = pa.schema([("id", pa.int64()), ("page", pa.int64())])
    DeltaTable.create(options.path, narrower, mode="overwrite")  # and `lake` has not seen it
    with pytest.raises(PenstockError, match=r"column page is int64 in the table, not string|dropped and made again"):
        commit(lake, target, [report], QueryBatch("q", 0))


def test_a_loads_table_is_not_written_to(tmp_path: Path) -> None:
    lake = a_loads_table(tmp_path, "delta", "clicks-load")
    load(lake, 0, 10)
    with pytest.raises(UnfitError, match="is that of load 'clicks-load', and `penstock verify` would find rows"):
        opened(FrameOptions(lake.uri), lake.columns)


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"delta.constraints.positive": "id > 0"}, r"delta\.constraints\.positive"),
        ({"delta.setTransactionRetentionDuration": "interval 1 day"}, "setTransactionRetentionDuration"),
    ],
)
def test_a_table_with_rules_that_are_not_kept_here_is_refused(
    tmp_path: Path, settings: dict[str, str], rule: str
) -> None:
    path = str(tmp_path / "pages")
    table = DeltaTable.create(path, COLUMNS)
    if "positive" in next(iter(settings)):
        table.alter.add_constraint({"positive": "id > 0"})
    else:
        table.alter.set_table_properties(settings)
    with pytest.raises(PenstockError, match=rule):
        opened(FrameOptions(path), COLUMNS)


def test_another_partitioning_than_the_tables_is_refused(options: FrameOptions) -> None:
    opened(options, COLUMNS)
    with pytest.raises(UnfitError, match="is partitioned by nothing: leave the option partitionBy out"):
        opened(FrameOptions(options.path, options.table_format, ("page",)), COLUMNS)


def test_rows_come_back_apart_by_day_with_every_type_and_after_a_compaction(options: FrameOptions) -> None:
    columns = pa.schema(
        [
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("local", pa.timestamp("us")),
            ("offset", pa.string()),  # a name that a load's tables have with another type
            ("price", pa.decimal128(10, 2)),
            ("tags", pa.map_(pa.string(), pa.int32())),
            ("deep", pa.list_(pa.struct([("a", pa.int32())]))),
        ]
    )
    made = [
        {
            "timestamp": datetime(2026, 1, day, 3, tzinfo=UTC),
            "local": datetime(2026, 1, day, 4),
            "offset": f"o{day}",
            "price": None,
            "tags": [("x", day)],
            "deep": [{"a": None}],
        }
        for day in (1, 2, 2)
    ]
    options = FrameOptions(options.path, options.table_format, ("date",))
    for number in range(2):
        lake = opened(options, columns)
        target = target_of(lake, columns)
        report = target.write([pa.RecordBatch.from_pylist(made, schema=columns)])
        assert commit(lake, target, [report], QueryBatch("q", number))
    lake = opened(options, columns)
    wanted = [{**each, "date": date(2026, 1, day)} for each, day in zip(made, (1, 2, 2), strict=True)] * 2
    for _ in range(2):
        found = [row for some in batches_of(lake, lake.columns.names) for row in some.to_pylist()]
        assert sorted(found, key=lambda row: row["timestamp"]) == sorted(wanted, key=lambda row: str(row["timestamp"]))
        assert {each.partition_values["date"] for each in lake.files()} == {"2026-01-01", "2026-01-02"}
        Maintenance(lake, target_bytes=1 << 20, keep_hours=0).run()
        lake.refresh()
    assert len(lake.files()) == 2
    if options.table_format == "delta":
        when = [("date", "=", date(2026, 1, 2)), ("local", ">=", datetime(2026, 1, 2, 4))]
        assert DeltaTable(options.path).to_pyarrow_table(filters=when).num_rows == 4
