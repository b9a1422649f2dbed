"""DataFrames from lake tables, by Spark: the rows that other readers find, and each once in a stream that is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")
duckdb = pytest.importorskip("duckdb", reason="needs penstock[sql]")

from deltalake import DeltaTable, write_deltalake  # noqa: E402
from interop.spark.lake import killed_reader  # noqa: E402
from interop.spark.lake.killed_reader import follow  # noqa: E402

from penstock.spark.lake.open import open_table  # noqa: E402
from penstock.spark.lake.reading import batches_of  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS = Path(killed_reader.__file__).parents[3]
pytestmark = [pytest.mark.spark, pytest.mark.slow]
PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "read-from-the-lake.md"
ROWS = """select id, concat('p ', id % 3) as page, cast(id as decimal(20, 2)) as price, id % 2 = 0 as even,
cast(id as double) as real, date_add(date'2026-01-01', cast(id % 4 as int)) as day,
timestamp_micros(1767225600000000 + id * 7) as at,
timestamp_ntz'2026-01-01 00:00:00.123456' as local, array(id, null) as list, map('k', id) as map,
named_struct('a', id, 'b', cast(null as string)) as pair, cast('x' as binary) as bytes from range({}, {})"""


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_spark_reads_back_what_other_readers_read(spark: SparkSession, tmp_path: Path, table_format: str) -> None:
    path = str(tmp_path / "rows")
    for start in (0, 50):
        rows = spark.sql(ROWS.format(start, start + 50))
        writer = rows.write.format("penstock-lake").option("tableFormat", table_format)
        writer.option("partitionBy", "page,day").mode("append").save(path)
    frame = spark.read.format("penstock-lake").load(path)
    lake = open_table(path, "test", format=table_format, create=False, records=False)
    wanted = pa.Table.from_batches(batches_of(lake, frame.columns)).sort_by("id")
    found = frame.toArrow().sort_by("id")
    assert found.to_pylist() == wanted.to_pylist()
    assert frame.where("page = 'p 1' and day > '2026-01-02'").count() == 16
    assert frame.count() == 100, "the filters of one query are not the next one's"
    assert {each.name: each.dataType.simpleString() for each in frame.schema} == {
        each.name: each.dataType.simpleString() for each in rows.schema
    }
    if table_format == "delta":
        theirs = DeltaTable(path).to_pyarrow_table().sort_by("id")
        assert theirs.column("price").to_pylist() == found.column("price").to_pylist()
        sums = 'select count(*), sum(id), sum(price), max("at"), count(distinct (page, "day")) from {}'
        with duckdb.connect() as connection:
            connection.register("theirs", theirs).register("found", found)
            read = [connection.execute(sums.format(name)).fetchall() for name in ("theirs", "found")]
        assert read[0] == read[1]
    first = spark.read.format("penstock-lake").option("versionAsOf", "1").schema("page string, id bigint").load(path)
    assert (first.count(), first.agg({"id": "max"}).collect()[0][0]) == (50, 49)


@pytest.mark.xdist_group("drivers beside a session")
@pytest.mark.long
def test_a_stream_that_is_killed_after_the_sinks_commit_has_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    source, path, checkpoint = (tmp_path / name for name in ("source", "copy", "checkpoint"))
    for each in range(4):
        write_deltalake(str(source), pa.table({"id": range(each * 10, each * 10 + 10)}), mode="append")
    driver = [sys.executable, killed_reader.__file__, str(source), str(path), str(checkpoint)]
    killed = subprocess.run(
        driver,
        env=os.environ | {"PYTHONPATH": f"{TESTS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        start_new_session=True,
        timeout=300,
        check=False,
        capture_output=True,
        text=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    write_deltalake(str(source), pa.table({"id": range(40, 50)}), mode="append")
    follow(spark, source, path, checkpoint)
    follow(spark, source, path, checkpoint)
    assert sorted(DeltaTable(str(path)).to_pyarrow_table()["id"].to_pylist()) == list(range(50))
    assert DeltaTable(str(path)).version() == 5, "a commit a file, and the one that made the table"
    write_deltalake(str(source), pa.table({"id": [0]}), mode="overwrite")
    with pytest.raises(Exception, match=r"version 5 of the table at .* replaced or deleted rows"):
        follow(spark, source, path, checkpoint)


def test_the_examples_of_the_page_run_and_what_is_wrong_is_said(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clicks = spark.sql("select cast(id % 3 as int) as partition, id as offset, concat('/', id) as page from range(30)")
    for _ in range(2):
        clicks.write.format("penstock-lake").mode("append").save(str(tmp_path / "lake/clicks"))
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        exec(re.sub('"(lake|checkpoints)/', rf'"{tmp_path}/\1/', example), {"spark": spark})
    assert "30 of 60" in capsys.readouterr().out
    assert DeltaTable(str(tmp_path / "lake/first")).to_pyarrow_table().num_rows == 20
    reader = spark.read.format("penstock-lake")
    with pytest.raises(Exception, match=r"unknown option versonasof; did you mean versionAsOf\?"):
        reader.option("versonAsOf", "1").load(str(tmp_path / "lake/clicks"))
    with pytest.raises(Exception, match="there is no Delta table at"):
        spark.read.format("penstock-lake").load(str(tmp_path / "lake/none"))


def test_a_table_in_a_store_is_read_and_followed(spark: SparkSession, endpoint: str, tmp_path: Path) -> None:
    store = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    told = {f"storage.{name}": value for name, value in store.items()}
    catalog = {"catalog.uri": f"sqlite:///{tmp_path / 'catalog.db'}"}
    for table_format, more in (("delta", {}), ("iceberg", catalog)):
        path = f"s3://lake/{table_format}"
        options = {**told, **more, "tableFormat": table_format}
        spark.range(20).write.format("penstock-lake").options(**options).mode("append").save(path)
        assert spark.read.format("penstock-lake").options(**options).load(path).count() == 20
        rows = spark.readStream.format("penstock-lake").options(**options).load(path)
        writer = rows.writeStream.format("penstock-lake").option("checkpointLocation", str(tmp_path / table_format))
        copy = str(tmp_path / f"copy of {table_format}")
        writer.trigger(availableNow=True).start(copy).awaitTermination()
        assert DeltaTable(copy).to_pyarrow_table().num_rows == 20
