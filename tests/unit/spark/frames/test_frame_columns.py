"""Which columns of a DataFrame a table takes, and what is said of the others."""

from __future__ import annotations

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

from pyspark.sql.types import (  # noqa: E402
    ArrayType,
    DayTimeIntervalType,
    IntegerType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from penstock.errors import ConfigError  # noqa: E402
from penstock.spark.frames.columns import (  # noqa: E402
    UnfitError,
    as_table,
    check_fits,
    columns_of,
    with_derived,
)


def test_columns_are_nullable_at_every_depth_and_times_are_utc() -> None:
    inner = StructType().add("a", IntegerType(), nullable=False)
    frame = StructType().add("when", TimestampType(), nullable=False).add("deep", ArrayType(inner, containsNull=False))
    assert columns_of(frame) == pa.schema(
        [("when", pa.timestamp("us", tz="UTC")), ("deep", pa.list_(pa.struct([("a", pa.int32())])))]
    )


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (StructType(), "has no columns"),
        (StructType().add("a b", StringType()), "cannot have a column 'a b': rename it"),
        (StructType().add("a", StringType()).add("A", StringType()), "two columns a"),
        (StructType().add("a", NullType()), "cannot keep column a, void: cast it"),
        (StructType().add("a", ArrayType(DayTimeIntervalType())), r"cannot keep column a\.element, interval"),
        (StructType().add("a", MapType(StringType(), VariantType())), r"cannot keep column a\.value, variant"),
    ],
)
def test_what_a_table_cannot_keep_is_refused(frame: StructType, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        columns_of(frame)


TABLE = pa.schema([pa.field("id", pa.int64(), nullable=False), ("price", pa.float64()), ("name", pa.string())])


def test_narrower_numbers_fit_and_columns_that_the_rows_lack_are_left_out() -> None:
    rows = pa.RecordBatch.from_pydict({"price": pa.array([1.5], pa.float32()), "id": pa.array([7], pa.int16())})
    check_fits(rows.schema, TABLE, ())
    assert as_table(rows, TABLE).to_pylist() == [{"price": 1.5, "id": 7}]
    assert as_table(rows, TABLE).schema.types == [pa.float64(), pa.int64()]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"id": pa.int64(), "nam": pa.string()}, r"the table has no column nam; did you mean name\?\n.*mergeSchema"),
        ({"id": pa.string()}, "column id is int64 in the table, not string: cast it"),
        ({"id": pa.int64(), "price": pa.int64()}, "column price is double in the table, not int64"),
        ({"name": pa.string()}, "column id of the table may not be null, and the rows have no such column"),
    ],
)
def test_what_does_not_fit_is_named(rows: dict[str, pa.DataType], message: str) -> None:
    with pytest.raises(UnfitError, match=message):
        check_fits(pa.schema(rows.items()), TABLE, ())


def test_a_null_where_the_table_forbids_it_is_refused() -> None:
    with pytest.raises(UnfitError, match="column id of the table may not be null, and a row has none"):
        as_table(pa.RecordBatch.from_pydict({"id": pa.array([1, None])}), TABLE)


def test_a_table_by_day_gets_the_day_of_the_timestamp() -> None:
    rows = pa.schema([("timestamp", pa.timestamp("us", tz="UTC")), ("page", pa.string())])
    assert with_derived(rows, ["date"]).field("date").type == pa.date32()
    check_fits(rows, with_derived(rows, ["date"]), ["date"])


@pytest.mark.parametrize(
    ("by", "message"),
    [
        (["pages"], r"partitioned by pages; did you mean page\?: no column"),
        (["price"], "partitioned by price, double: only by text, whole numbers or dates"),
        (["date"], "partitioned by date: no column"),
        (["page", "price"], "by price, double"),
    ],
)
def test_columns_that_set_no_files_apart_are_refused(by: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        with_derived(pa.schema([("page", pa.string()), ("price", pa.float64())]), by)


def test_a_column_must_be_left_in_the_files() -> None:
    with pytest.raises(ConfigError, match="by all its columns"):
        with_derived(pa.schema([("page", pa.string())]), ["page"])
