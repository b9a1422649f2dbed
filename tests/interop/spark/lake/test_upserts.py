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
from deltalake import DeltaTable  # noqa: E402
from interop.spark.lake import killed_upsert  # noqa: E402

from penstock.errors import ConfigError  # noqa: E402
from penstock.spark.frames import upsert as module  # noqa: E402
from penstock.spark.frames.upsert import upsert  # noqa: E402

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


def rows_of(path: Path) -> list[Row]:
    found = DeltaTable(str(path)).to_pyarrow_table(columns=["k", "n", "at", "v"]).to_pylist()
    return sorted(tuple(row.values()) for row in found)  # type: ignore[misc]


def test_after_random_batches_and_their_repetitions_a_table_equals_a_dict(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(17)
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
        upsert(frame, str(path), **OPTIONS, txnVersion=str(number))
        version = DeltaTable(str(path)).version()
        assert not upsert(frame, str(path), **OPTIONS, txnVersion=str(number)), "it is not done again"
        model = after(model, batch)
        assert (rows_of(path), DeltaTable(str(path)).version()) == (sorted(model.values()), version)

    kept = {file for file in DeltaTable(str(path)).file_uris() if "n=1" in file or "n=2" in file}
    upsert(spark.createDataFrame([("zz", 0, 99, "new")], SCHEMA), str(path), **OPTIONS, txnVersion="9")
    assert kept <= set(DeltaTable(str(path)).file_uris()), "files without a key of the batch stay"
    assert ("zz", 0, 99, "new") in rows_of(path)
    with pytest.raises(Exception, match="column k of the key is null in a row"):
        upsert(spark.createDataFrame([(None, 0, 99, "new")], SCHEMA), str(path), **OPTIONS, txnVersion="10")
    blank = spark.createDataFrame([("", 1)], "p string, n int")
    with pytest.raises(Exception, match="column p of the key is null in a row"):  # as Delta reads it back
        upsert(blank, str(tmp_path / "empty"), upsertBy="p", partitionBy="p")
    with pytest.raises(ConfigError, match="rows are upserted into Delta tables only"):
        upsert(frame, str(tmp_path / "i"), **OPTIONS, txnVersion="1", tableFormat="iceberg")

    commit, strangers = module.DeltaLake.replace, []

    def overtaken(self: Any, *parts: Any) -> bool:
        if not strangers:  # another upsert of the same key gets in between once
            strangers.append(1)
            upsert(
                spark.createDataFrame([("zz", 0, 100, "theirs"), ("zy", 0, 1, "theirs")], SCHEMA), str(path), **other
            )
        return commit(self, *parts)

    other = {**OPTIONS, "txnAppId": "other", "txnVersion": "0"}
    monkeypatch.setattr(module.DeltaLake, "replace", overtaken)
    assert upsert(spark.createDataFrame([("zz", 0, 101, "ours")], SCHEMA), str(path), **OPTIONS, txnVersion="11")
    assert [row for row in rows_of(path) if row[0] > "z"] == [("zy", 0, 1, "theirs"), ("zz", 0, 101, "ours")]


@pytest.mark.xdist_group("drivers beside a session")
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.long)])
def test_counts_are_exact_though_the_driver_is_killed_around_its_commits(
    spark: SparkSession, tmp_path: Path, kills: int
) -> None:
    source, path, checkpoint = tmp_path / "source", tmp_path / "counts", tmp_path / "checkpoint"
    source.mkdir()
    files = kills + 2
    for number in range(files):
        pq.write_table(
            pa.table({"n": pa.array(range(number * 1000, number * 1000 + 1000))}), source / f"{number:03}.parquet"
        )
    for kill in range(kills):
        point = ("after", "before")[kill % 2]
        driver = [sys.executable, killed_upsert.__file__, point, str(source), str(path), str(checkpoint)]
        killed = subprocess.run(
            driver, start_new_session=True, timeout=300, check=False, capture_output=True, text=True
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    killed_upsert.run(spark, source, path, checkpoint)
    table = DeltaTable(str(path))
    keys = killed_upsert.KEYS
    wanted = {key: len(range(key, files * 1000, keys)) for key in range(keys)}
    rows = table.to_pyarrow_table().to_pylist()
    assert (len(rows), {row["key"]: row["rows"] for row in rows}) == (keys, wanted)
    done = [each for each in table.history() if "penstock.batch" in each]
    assert len(done) == files, "one commit a batch"
    counted = "select count(*), count(distinct key), sum(rows) from read_parquet(?)"
    assert duckdb.execute(counted, [table.file_uris()]).fetchone() == (keys, keys, files * 1000)
