"""Which files a range of time is looked for in, when its rows are replaced."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

import pyarrow as pa
from deltalake import write_deltalake

from penstock.spark.frames.replace import TimeRange, _touched
from penstock.spark.frames.sink import PIPELINE
from penstock.spark.lake.delta import DeltaLake

DAY = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")])
def test_files_that_may_hold_rows_of_the_range_are_found_by_any_type_of_time(tmp_path: Path, kind: pa.DataType) -> None:
    for days in (-9, 0, 9):
        at = pa.array([DAY + timedelta(days=days)], pa.timestamp("us", "UTC")).cast(kind)
        write_deltalake(str(tmp_path), pa.table({"at": at, "n": [days]}), mode="append")
    lake = DeltaLake.open(str(tmp_path), PIPELINE, records=False)
    assert len(_touched(lake, TimeRange("at", DAY, DAY + timedelta(hours=1)))) == 1
    assert len(_touched(lake, TimeRange("at", DAY - timedelta(days=20), DAY + timedelta(days=20)))) == 3
    assert len(_touched(lake, TimeRange("at", DAY + timedelta(days=3), DAY + timedelta(days=4)))) == 0


def test_dates_are_counted_in_days() -> None:
    first, last = TimeRange("at", DAY, DAY + timedelta(days=1)).span(pa.date32())
    epoch = date(1970, 1, 1)
    assert epoch + timedelta(days=first) <= DAY.date() <= epoch + timedelta(days=last)
