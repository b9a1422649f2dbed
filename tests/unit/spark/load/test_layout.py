"""How a load's table is laid out: partition columns, made columns, order of rows; pure functions and task files."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")

import pyarrow.parquet as pq  # noqa: E402

from penstock.errors import ConfigError, PenstockError  # noqa: E402
from penstock.spark.lake.clustering import Cluster  # noqa: E402
from penstock.spark.lake.derived import Derived, derived_of  # noqa: E402
from penstock.spark.lake.destination import Destination, values_in  # noqa: E402
from penstock.spark.load import files as task_files  # noqa: E402
from penstock.spark.load.files import Files  # noqa: E402
from penstock.spark.load.formats.bounded import Bounded  # noqa: E402
from penstock.spark.load.formats.json import JsonFormat  # noqa: E402
from penstock.spark.load.layout import Layout  # noqa: E402
from penstock.spark.load.options import LoadOptions  # noqa: E402

MOMENT = datetime(2026, 1, 31, 23, 59, 59, 999999, tzinfo=UTC)
COLUMNS = pa.schema([("timestamp", pa.timestamp("us", "UTC")), ("at", pa.int64()), ("page", pa.string())])


def layout(**more: Any) -> Layout:
    return Layout.of(LoadOptions("b:1", ["t"], "table", "p", **more))


def rows(*pages: str | None, at: int | None = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"timestamp": MOMENT, "at": at, "page": page} for page in pages], COLUMNS)


@pytest.mark.parametrize(
    ("values", "kind", "day", "hour"),
    [
        ([MOMENT, None], pa.timestamp("us", "UTC"), date(2026, 1, 31), "2026-01-31-23"),
        ([MOMENT, None], pa.timestamp("ms"), date(2026, 1, 31), "2026-01-31-23"),
        ([date(2026, 1, 31), None], pa.date32(), date(2026, 1, 31), "2026-01-31-00"),
        ([-1, None], pa.int64(), date(1969, 12, 31), "1969-12-31-23"),
        ([7, None], pa.int32(), date(1970, 1, 1), "1970-01-01-00"),
        ([2**63 - 1, -(2**63)], pa.int64(), None, None),
    ],
)
def test_days_and_hours_of_times(values: list[Any], kind: Any, day: Any, hour: Any) -> None:
    batch = pa.record_batch([pa.array(values, kind)], names=["at"])
    assert Derived.parse("day(at)").of(batch).to_pylist() == [day, None]
    assert Derived.parse("hour(at)").of(batch).to_pylist() == [hour, None]


def test_what_is_late_is_told_of_each_row_by_itself() -> None:
    now = int(MOMENT.timestamp() * 1000)
    late = Derived("late", "at", 1000)
    batch = pa.RecordBatch.from_pylist(
        [{"timestamp": MOMENT, "at": at} for at in (now - 1000, now - 1001, now + 5000, None)], COLUMNS
    )
    assert late.of(batch).to_pylist() == [False, True, False, None]
    assert Derived.parse(str(late)) == late
    assert (late.name, late.type) == ("late", pa.bool_())


def test_a_table_knows_its_layout_again() -> None:
    made = layout(partition_by=["day(at)", "page"], cluster_by=["at", "timestamp"], z_order=True)
    assert (made.partition_by, made.own, made.needs) == (("at_day", "page"), ("at_day",), {"at", "page"})
    assert derived_of(made.settings, made.partition_by) == {"at_day": "day(at)"}
    assert Cluster.parse(made.settings["penstock.cluster.by"]) == Cluster(("at", "timestamp"), True)
    assert layout(partition_by_date=True) == layout(partition_by=["date"]) == layout(partition_by=["day(timestamp)"])
    assert derived_of({}, ["date"]) == {"date": "day(timestamp)"}, "tables from before there were properties"
    assert layout(event_time="at", late_after_ms=5, partition_by=["late"]).partition_by == ("late",)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"partition_by": ["week(at)"]}, "'week\\(at\\)' is neither a column, day"),
        ({"partition_by": ["late(at, 5)"]}, "late is made by event_time"),
        ({"partition_by": ["pgae"]}, "partitioned by pgae; did you mean page"),
        ({"partition_by": ["timestamp"]}, "partitioned by timestamp, timestamp\\[us, tz=UTC\\]: by text"),
        ({"partition_by": ["day(page)"]}, "page is string, and must be a timestamp"),
        ({"partition_by": ["hour(nothing)"]}, "has no column nothing"),
        ({"partition_by": ["page"], "cluster_by": ["page"]}, "each file has one value of it"),
        ({"cluster_by": ["nothing"]}, "no such column"),
        ({"cluster_by": ["page"], "z_order": True}, "z_order needs two"),
        ({"event_time": "at"}, "go together"),
        ({"event_time": "at", "late_after_ms": 0}, "late_after_ms = 0"),
    ],
)
def test_what_cannot_be_is_refused(more: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        layout(**more).columns(COLUMNS)


def files_of(directory: Path, schema: Any = COLUMNS, **more: Any) -> Files:
    return Files(Destination(str(directory), **more), schema)


def test_rows_go_to_the_file_of_their_values(tmp_path: Path) -> None:
    schema = COLUMNS.append(pa.field("at_hour", pa.string()))
    files = files_of(tmp_path, schema, partition_by=("page", "at_hour"), derived={"at_hour": "hour(at)"})
    files.write(rows("a/b=c", None, "ü", "a/b=c"))
    files.write(rows("ü", "", at=None))
    done = {(f.partition_values["page"], f.partition_values["at_hour"]): f for f in files.close()}
    nineteen_seventy = "1970-01-01-00"
    assert {key: f.rows for key, f in done.items()} == {
        ("a/b=c", nineteen_seventy): 2, (None, nineteen_seventy): 1, ("ü", nineteen_seventy): 1,
        ("ü", None): 1, (None, None): 1,
    }  # fmt: skip
    for (page, hour), file in done.items():
        assert values_in(file.path, ("page", "at_hour")) == {"page": page, "at_hour": hour}
        assert pq.read_schema(tmp_path / file.path).names == ["timestamp", "at"]
        assert set(file.low) <= {"timestamp", "at"}


def test_many_small_batches_become_few_row_groups_of_sorted_rows(tmp_path: Path) -> None:
    files = files_of(tmp_path, cluster_by="page")
    for at in range(20):
        files.write(rows(f"p{at % 7}", None, f"p{at % 3}", at=at))
    (file,) = files.close()
    parquet = pq.ParquetFile(tmp_path / file.path)
    assert (parquet.num_row_groups, file.rows) == (1, 60)
    pages = parquet.read()["page"].to_pylist()
    assert pages[:40] == sorted(pages[:40])
    assert pages[40:] == [None] * 20


def test_rows_that_wait_are_bounded_and_all_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_files, "LOAD_WAITING_BYTES", 100)
    monkeypatch.setattr(task_files, "LOAD_OPEN_FILES", 2)
    files = files_of(tmp_path, partition_by=("page",))
    for at in range(30):
        files.write(rows(f"p{at % 3}", at=at))
        assert files._waiting_bytes <= 100
    done = files.close()
    found = [at for f in done for at in pq.ParquetFile(tmp_path / f.path).read()["at"].to_pylist()]
    assert sorted(found) == list(range(30))
    assert sum(f.rows for f in done) == 30


def test_a_column_of_too_many_values_stops_the_task_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_files, "LOAD_FILES_PER_TASK", 3)
    files = files_of(tmp_path, partition_by=("page",))
    with pytest.raises(PenstockError, match="page: rows of one job have so many values"):
        files.write(rows(*(f"p{at}" for at in range(9))))
    files.abort()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(("by", "why"), [("at_bucket", "at_bucket, a transform"), ("timestamp", "by timestamp, time")])
def test_a_table_of_others_whose_partitions_no_load_makes_is_refused(by: str, why: str) -> None:
    lake: Any = SimpleNamespace(uri="lake/clicks", partition_by=(by,), columns=COLUMNS, derived={}, cluster_by="")
    with pytest.raises(ConfigError, match=why):
        layout().check(lake)


def test_values_that_come_by_turns_do_not_make_a_file_of_each_few_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_files, "LOAD_OPEN_FILES", 4)
    files = files_of(tmp_path, partition_by=("page",))
    for at in range(20):
        files.write(rows(*(f"p{n}" for n in range(9)), at=at))
    assert not files._open
    done = files.close()
    assert sorted(f.rows for f in done) == [20] * 9


def test_values_that_no_directory_can_be_named_after_are_rejected() -> None:
    json = JsonFormat(pa.schema([("page", pa.string())]), (), add_fields=False)
    long, wide, fits = "x" * 251, "ü" * 42, "ü" * 41
    values = [b'{"page":"%s"}' % each.encode() for each in (fits, long, "a", wide)]
    parsed = Bounded(json, ["page"]).parse("t", pa.array([*values[:2], b"broken", None, *values[2:]], pa.binary()))
    assert parsed.columns.column("page").to_pylist() == [fits, None, "a"]
    assert parsed.kept is not None
    assert parsed.kept.to_pylist() == [0, 3, 4]
    assert sorted(parsed.rejected) == [1, 2, 5]
    assert parsed.rejected[1] == parsed.rejected[5] == "page is too long for a column that the table is partitioned by"


def test_rows_near_on_the_curve_are_near_in_every_column() -> None:
    """Of a square of 16 by 16, each quarter of the rows in Z-order is a quarter of the square."""
    pairs = [{"x": x, "y": f"{y:02}"} for y in range(16) for x in range(16)]
    order = Cluster(("x", "y"), True).order(pa.Table.from_pylist(pairs))
    assert sorted(order.tolist()) == list(range(256))
    for at in range(0, 256, 64):
        some = [pairs[each] for each in order[at : at + 64].tolist()]
        assert len({each["x"] for each in some}) == len({each["y"] for each in some}) == 8
    plain = Cluster(("x", "y")).order(pa.Table.from_pylist(pairs))
    assert len({pairs[each]["y"] for each in plain[:64].tolist()}) == 16
