"""Rows with a key, without Spark: what may be one, which files may hold it, and how a batch takes files' place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")

from deltalake import DeltaTable, write_deltalake  # noqa: E402
from pyspark.sql.pandas.types import from_arrow_schema  # noqa: E402

from penstock.errors import ConfigError, PenstockError  # noqa: E402
from penstock.spark.frames.columns import UnfitError  # noqa: E402
from penstock.spark.frames.keyed import is_ordered, keyed, loose, may_hold  # noqa: E402
from penstock.spark.frames.options import FrameOptions  # noqa: E402
from penstock.spark.frames.sink import BatchWriter, opened, target_of  # noqa: E402
from penstock.spark.frames.upsert import upserts  # noqa: E402
from penstock.spark.lake.batches import QueryBatch  # noqa: E402
from penstock.spark.lake.delta import DeltaLake  # noqa: E402
from penstock.spark.lake.maintenance import Maintenance  # noqa: E402
from penstock.spark.lake.records import LakeConflictError  # noqa: E402
from penstock.spark.lake.table import TableFile  # noqa: E402
from penstock.spark.limits import UPSERT_LOOSE_FILES  # noqa: E402

COLUMNS = pa.schema([("id", pa.int64()), ("page", pa.string())])
KEY = ("id",)
SCHEMA = from_arrow_schema(
    pa.schema(
        [
            *(("id", pa.int64()), ("x", pa.float64()), ("tags", pa.map_(pa.string(), pa.int32()))),
            *(("gone", pa.bool_()), ("at", pa.timestamp("us", "UTC")), ("page", pa.string())),
        ]
    )
)


def table(path: Path, *ids: int, number: int = 0) -> DeltaLake:
    """A table of rows with a key, from one upsert."""
    lake = opened(FrameOptions(str(path), upsert_by=KEY), COLUMNS)
    assert isinstance(lake, DeltaLake)
    assert put(lake, QueryBatch("q", number), *ids)
    return lake


def put(lake: DeltaLake, batch: QueryBatch, *ids: int) -> bool:
    """Puts rows into the place of all that there are."""
    rows = pa.RecordBatch.from_pydict({"id": list(ids), "page": [f"/{each}" for each in ids]}, schema=COLUMNS)
    files = target_of(lake, COLUMNS).write([rows]).files
    return lake.replace(files, lake.files(), batch, KEY, lambda: None)


def ids_of(path: Path) -> list[int]:
    return sorted(DeltaTable(str(path)).to_pyarrow_table()["id"].to_pylist())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (FrameOptions("t", upsert_by=("idd",)), r"upsertBy: the rows have no column idd; did you mean id\?"),
        (FrameOptions("t", upsert_by=("x",)), "column x, double, cannot be a key"),
        (FrameOptions("t", upsert_by=("tags",)), "column tags, map<string,int>, cannot be a key"),
        (FrameOptions("t", upsert_by=KEY, latest_by="tags"), "column tags, map<string,int>, does not say which row is"),
        (FrameOptions("t", upsert_by=KEY, latest_by="gone"), "column gone, boolean, does not say which row is later"),
        (FrameOptions("t", upsert_by=KEY, delete_when="gon"), r"deleteWhen: the rows have no column gon; did you mean"),
    ],
)
def test_what_is_no_key_no_order_and_no_mark_is_named(options: FrameOptions, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        keyed(SCHEMA, options)


def test_a_boolean_that_deletes_is_no_column_of_the_table_and_another_column_is() -> None:
    flag = keyed(SCHEMA, FrameOptions("t", upsert_by=KEY, delete_when="gone"))
    null = keyed(SCHEMA, FrameOptions("t", upsert_by=KEY, delete_when="page"))
    assert (flag.is_flag, "gone" in flag.rows.names) == (True, False)
    assert (null.is_flag, "page" in null.rows.names) == (False, True)
    assert [name for name in SCHEMA.names if not is_ordered(SCHEMA[name].dataType)] == ["tags"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "upsertBy is missing"),
        ({"upsertBy": "a,a"}, "upsertBy = 'a,a' must be columns"),
        ({"upsertBy": "a", "latestBy": "a"}, "latestBy = 'a' must be a column beside the key"),
        ({"upsertBy": "a", "latestBy": "b", "deleteWhen": "b"}, "latestBy and deleteWhen must be two columns"),
        ({"latestBy": "a"}, "latestBy needs upsertBy"),
        ({"upsertBy": "a", "txnVersion": "1"}, r"txnVersion is for df\.write"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_a_stream_starts(
    options: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        upserts("t", **options)


def test_a_sink_of_spark_refuses_a_key_and_says_what_to_call() -> None:
    with pytest.raises(ConfigError, match=r"not by key\n  use penstock\.spark\.frames\.upsert"):
        BatchWriter(SCHEMA, {"path": "t", "upsertBy": "id"}, False)


def test_files_are_passed_over_by_what_the_table_knows_of_them() -> None:
    files = [TableFile(name, 1) for name in ("low", "high", "unknown")]
    known = {"low": {"id": (1, 5), "page": ("a", "c")}, "high": {"id": (5, 9), "page": ("x", "z")}}
    for spans, found in (
        ({"id": (5, 5)}, "low high unknown"),
        ({"id": (6, 7)}, "high unknown"),
        ({"id": (5, 5), "page": ("d", "e")}, "unknown"),
        ({}, "low high unknown"),
    ):
        assert [each.path for each in may_hold(files, known, spans)] == found.split()
    at = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    times = {"low": {"at": (at, at)}, "high": {"at": (date(1970, 1, 3), date(1970, 1, 4))}}
    assert [each.path for each in may_hold(files[:1], times, {"at": (1_000_999, 2_000_000)})] == ["low"], "cut times"
    assert not may_hold(files[:1], times, {"at": (1_001_001, 2_000_000)})
    assert [each.path for each in may_hold(files[1:2], times, {"at": (3, 9)})] == ["high"]


@pytest.mark.parametrize(
    ("kind", "unit_us"), [(pa.timestamp("us", "UTC"), 1), (pa.date32(), 86_400_000_000)], ids=["timestamp", "date"]
)
@pytest.mark.parametrize("year", [-5, 1969, 12_000])
def test_a_key_of_any_time_is_looked_for_where_it_is(tmp_path: Path, kind: Any, unit_us: int, year: int) -> None:
    """Statistics have no years but 1 to 9999, and milliseconds only."""
    value = ((year - 1970) * 31_556_952_000_000 + 1_001) // unit_us
    columns = pa.schema([("id", kind)])
    lake = opened(FrameOptions(str(tmp_path / "t"), upsert_by=KEY), columns)
    rows = pa.RecordBatch.from_arrays(
        [pa.array([value], pa.int64() if unit_us == 1 else pa.int32()).cast(kind)], schema=columns
    )
    assert isinstance(lake, DeltaLake)
    assert lake.replace(target_of(lake, columns).write([rows]).files, [], QueryBatch("q", 1), KEY, lambda: None)
    assert may_hold(lake.files(), lake.spans(KEY), {"id": (value, value)}) == lake.files()
    if year == 1969:
        other = value + 400_000_000_000 // unit_us + 1
        assert not may_hold(lake.files(), lake.spans(KEY), {"id": (other, other)})


def test_many_small_files_of_one_partition_value_are_rewritten_along() -> None:
    few = [TableFile(f"a{at}", 1, {"p": "a"}) for at in range(UPSERT_LOOSE_FILES)]
    many = [TableFile(f"b{at}", 1, {"p": "b"}) for at in range(UPSERT_LOOSE_FILES + 1)]
    assert loose([*few, *many, TableFile("large", 1 << 30, {"p": "b"})]) == many


def test_files_take_the_place_of_others_once_a_batch(tmp_path: Path) -> None:
    lake = table(tmp_path / "t", 1, 2)
    assert lake.spans(["id", "page"])[lake.files()[0].path] == {"id": (1, 2), "page": ("/1", "/2")}
    assert put(lake, QueryBatch("q", 1), 2, 3)
    assert not put(lake, QueryBatch("q", 1), 7)
    assert not put(lake, QueryBatch("q", 0), 7)
    assert ids_of(tmp_path / "t") == [2, 3]
    assert lake.replace([], lake.files(), QueryBatch("q", 2), KEY, lambda: None), "all rows are deleted"
    assert ids_of(tmp_path / "t") == []


def test_of_two_upserts_planned_from_one_version_the_later_conflicts(tmp_path: Path) -> None:
    lake = table(tmp_path / "t", 1, 2)
    other = opened(FrameOptions(lake.uri, upsert_by=KEY), COLUMNS)
    assert isinstance(other, DeltaLake)
    assert put(other, QueryBatch("r", 0), 1, 5)
    with pytest.raises(LakeConflictError, match="another writer committed at the same time"):
        put(lake, QueryBatch("q", 1), 1, 6)
    assert ids_of(tmp_path / "t") == [1, 5]
    stale = opened(FrameOptions(lake.uri, upsert_by=KEY), COLUMNS)
    assert isinstance(stale, DeltaLake)
    assert put(lake, QueryBatch("q", 1), 1, 6)
    files = target_of(stale, COLUMNS).write([pa.RecordBatch.from_pydict({"id": [6], "page": ["/6"]})]).files
    with pytest.raises(LakeConflictError):  # both only add, and either may have missed a row of the other's
        stale.replace(files, [], QueryBatch("r", 1), KEY, lambda: None)


def test_an_upsert_that_a_compaction_overtook_conflicts(tmp_path: Path) -> None:
    lake = table(tmp_path / "t", 1, 2)
    rows = pa.RecordBatch.from_pydict({"id": [3], "page": ["/3"]}, schema=COLUMNS)
    assert lake.replace(target_of(lake, COLUMNS).write([rows]).files, [], QueryBatch("q", 1), KEY, lambda: None)
    other = opened(FrameOptions(lake.uri, upsert_by=KEY), COLUMNS)
    assert Maintenance(other, target_bytes=1 << 20, keep_hours=24).run(["compact"])["compact"]["files_merged"] == 2
    with pytest.raises(LakeConflictError):
        put(lake, QueryBatch("q", 2), 9)
    assert ids_of(tmp_path / "t") == [1, 2, 3]


def test_whatever_a_stranger_commits_between_the_last_look_and_the_commit_is_a_conflict(tmp_path: Path) -> None:
    def appended(path: Path) -> None:
        write_deltalake(str(path), pa.table({"id": [2], "page": ["/theirs"]}), mode="append")

    def compacted(path: Path) -> None:
        assert DeltaTable(str(path)).optimize.compact()["numFilesRemoved"] == 2

    for name, disturb, there in (("append", appended, [1, 2, 2]), ("compaction", compacted, [1, 2])):
        path = tmp_path / name
        lake = table(path, 1)
        write_deltalake(str(path), pa.table({"id": [2], "page": ["/2"]}, schema=COLUMNS), mode="append")
        lake.refresh()
        rows = pa.RecordBatch.from_pydict({"id": [1, 2], "page": ["/new", "/new"]}, schema=COLUMNS)
        new = target_of(lake, COLUMNS).write([rows]).files
        strangers = iter([disturb])

        def check(path: Path = path, strangers: Iterator[Callable[[Path], None]] = strangers) -> None:
            for each in strangers:
                each(path)

        with pytest.raises(LakeConflictError, match="another writer committed at the same time"):
            lake.replace(new, lake.files(), QueryBatch("q", 1), KEY, check)
        assert ids_of(path) == there, name
        assert not lake.has(QueryBatch("q", 1)), "it is planned again"
        assert put(lake, QueryBatch("q", 1), 1, 2)
        assert ids_of(path) == [1, 2]


def test_a_table_keeps_its_key_and_is_not_appended_to(tmp_path: Path) -> None:
    lake = table(tmp_path / "t", 1)
    with pytest.raises(UnfitError, match="have another key than page"):
        opened(FrameOptions(lake.uri, upsert_by=("page",)), COLUMNS)
    with pytest.raises(UnfitError, match="have a key, and others would double it: upsert them"):
        opened(FrameOptions(lake.uri), COLUMNS)
    wider = COLUMNS.append(pa.field("user", pa.string()))
    with pytest.raises(UnfitError, match="has no column user, so it cannot be the key"):
        opened(FrameOptions(lake.uri, merge_schema=True, upsert_by=("user",)), wider)


def test_a_table_whose_rows_may_not_be_replaced_is_refused(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "t"), COLUMNS, configuration={"delta.appendOnly": "true"})
    lake = opened(FrameOptions(str(tmp_path / "t"), upsert_by=KEY), COLUMNS)
    assert isinstance(lake, DeltaLake)
    with pytest.raises(PenstockError, match=r"has delta\.appendOnly = true"):
        lake.check_takes_upserts()
