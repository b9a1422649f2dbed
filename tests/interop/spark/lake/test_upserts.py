"""Upserts on real Spark: a table equals a dict after random batches, and counts are exact after kills of the driver."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")
duckdb = pytest.importorskip("duckdb", reason="needs penstock[sql]")

import pyarrow.parquet as pq  # noqa: E402
from interop.spark.lake import killed_upsert  # noqa: E402

from penstock.spark.frames import upsert as module  # noqa: E402
from penstock.spark.frames.upsert import upsert  # noqa: E402
from penstock.spark.lake.open import open_table  # noqa: E402
from penstock.spark.lake.reading import batches_of  # noqa: E402
from penstock.spark.lake.table import FORMATS, LakeTable  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
Row = tuple[str, int, int | None, str | None]
SCHEMA = "k string, n int, at bigint, v string"
OPTIONS = {"upsertBy": "k,n", "latestBy": "at", "deleteWhen": "v", "partitionBy": "n", "txnAppId": "job"}


def after(table: dict[Any, Row], batch: list[Row]) -> dict[Any, Row]:
    """What a table holds after a batch, by the rules of the page."""

    def place(row: Row) -> tuple[Any, ...]:
        _, _, at, v = row
        return (at is not None, at or 0, v is None, v or "")

    latest: dict[Any, Row] = {}
    for row in sorted(batch, key=place):
        latest[row[:2]] = row
    now = dict(table)
    for key, row in latest.items():
        old = now.get(key)
        if old is None or (row[2] is not None, row[2] or 0) >= (old[2] is not None, old[2] or 0):
            now[key] = row
    return {key: row for key, row in now.items() if row[3] is not None}


def lake_of(path: Path) -> LakeTable:
    return open_table(str(path), "read", format="auto", create=False, records=False)


def rows_of(path: Path) -> list[Row]:
    found = [row for some in batches_of(lake_of(path), ["k", "n", "at", "v"]) for row in some.to_pylist()]
    return sorted(tuple(row.values()) for row in found)


@pytest.mark.parametrize("table_format", FORMATS)
def test_after_random_batches_and_their_repetitions_a_table_equals_a_dict(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_format: str
) -> None:
    if table_format == "iceberg":
        pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")
    chance, options = random.Random(17), {**OPTIONS, "tableFormat": table_format}
    path, model = tmp_path / "t", dict[Any, Row]()
    for number in range(6):
        if number == 3:  # as if the table were large: files are looked for by statistics and by keys
            monkeypatch.setattr(module, "UPSERT_WHOLE_BYTES", 0)
        batch: list[Row] = [
            (
                chance.choice("abcdef"),
                chance.randrange(3),
                chance.choice([None, *range(number, number + 3)]),
                chance.choice([None, "x", "y"]),
            )
            for _ in range(20)
        ]
        frame = spark.createDataFrame(batch, SCHEMA)
        upsert(frame, str(path), **options, txnVersion=str(number))
        version = lake_of(path).version
        assert not upsert(frame, str(path), **options, txnVersion=str(number)), "it is not done again"
        model = after(model, batch)
        assert (rows_of(path), lake_of(path).version) == (sorted(model.values()), version)

    kept = {file.path for file in lake_of(path).files() if file.partition_values["n"] in ("1", "2")}
    upsert(spark.createDataFrame([("zz", 0, 99, "new")], SCHEMA), str(path), **options, txnVersion="9")
    assert kept <= {file.path for file in lake_of(path).files()}, "files without a key of the batch stay"
    assert ("zz", 0, 99, "new") in rows_of(path)
    with pytest.raises(Exception, match="column k of the key is null in a row"):
        upsert(spark.createDataFrame([(None, 0, 99, "new")], SCHEMA), str(path), **options, txnVersion="10")
    blank = spark.createDataFrame([("", 1)], "p string, n int")
    empty = {"upsertBy": "p", "partitionBy": "p", "tableFormat": table_format}
    if table_format == "delta":
        with pytest.raises(Exception, match="column p of the key is null in a row"):  # as Delta reads it back
            upsert(blank, str(tmp_path / "empty"), **empty)
    else:
        assert all(upsert(blank, str(tmp_path / "empty"), **empty) for _ in range(2))
        assert [row.num_rows for row in batches_of(lake_of(tmp_path / "empty"), ["p"])] == [1]

    lake_class = type(lake_of(path))
    commit, strangers = lake_class.replace, list[int]()

    def overtaken(self: Any, *parts: Any) -> bool:
        if not strangers:  # another upsert of the same key gets in between once
            strangers.append(1)
            upsert(
                spark.createDataFrame([("zz", 0, 100, "theirs"), ("zy", 0, 1, "theirs")], SCHEMA), str(path), **other
            )
        return commit(self, *parts)

    other = {**options, "txnAppId": "other", "txnVersion": "0"}
    monkeypatch.setattr(lake_class, "replace", overtaken)
    assert upsert(spark.createDataFrame([("zz", 0, 101, "ours")], SCHEMA), str(path), **options, txnVersion="11")
    assert [row for row in rows_of(path) if row[0] > "z"] == [("zy", 0, 1, "theirs"), ("zz", 0, 101, "ours")]
    gone = [(row[0], row[1], 1000, None) for row in rows_of(path)]
    assert upsert(spark.createDataFrame(gone, SCHEMA), str(path), **options, txnVersion="12"), "nothing is left"
    assert (rows_of(path), lake_of(path).files()) == ([], [])


@pytest.mark.xdist_group("drivers beside a session")
@pytest.mark.parametrize(
    ("table_format", "kills"),
    [
        ("delta", 2),
        pytest.param("delta", 20, marks=pytest.mark.long),
        pytest.param("iceberg", 20, marks=pytest.mark.long),
    ],
)
def test_counts_are_exact_though_the_driver_is_killed_around_its_commits(
    spark: SparkSession, tmp_path: Path, table_format: str, kills: int
) -> None:
    source, path, checkpoint = tmp_path / "source", tmp_path / "counts", tmp_path / "checkpoint"
    source.mkdir()
    files = 2 * kills  # a driver that dies after its second commit has done two of them, before it one
    for number in range(files):
        pq.write_table(
            pa.table({"n": pa.array(range(number * 1000, number * 1000 + 1000))}), source / f"{number:03}.parquet"
        )
    for kill in range(kills):
        point = ("after", "before")[kill % 2]
        driver = [sys.executable, killed_upsert.__file__, point, table_format, str(source), str(path), str(checkpoint)]
        killed = subprocess.run(
            driver, start_new_session=True, timeout=300, check=False, capture_output=True, text=True
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    killed_upsert.run(spark, table_format, source, path, checkpoint)
    lake, keys = lake_of(path), killed_upsert.KEYS
    wanted = {key: len(range(key, files * 1000, keys)) for key in range(keys)}
    rows = [row for some in batches_of(lake, ["key", "rows"]) for row in some.to_pylist()]
    assert (len(rows), {row["key"]: row["rows"] for row in rows}) == (keys, wanted)
    assert killed_upsert.commits(lake) == files, "one commit a batch"
    counted = "select count(*), count(distinct key), sum(rows) from read_parquet(?)"
    paths = [str(path / file.path) for file in lake.files()]
    assert duckdb.execute(counted, [paths]).fetchone() == (keys, keys, files * 1000)
