"""Lake tables on HDFS: tasks write straight to it, without Java, and commits are atomic there too."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from interop.hadoop_peer import HadoopPeer

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")

from deltalake import DeltaTable
from interop.spark.lake.killed_driver import run
from interop.spark.load.support import publish
from support.lake_tables import CLICKS, load, only, raced, rows, verdict_of, written

from penstock.cli.main import main
from penstock.errors import PenstockError
from penstock.spark.lake.destination import Destination
from penstock.spark.lake.files import DataFileWriter
from penstock.spark.lake.maintenance import Maintenance
from penstock.spark.lake.open import open_table
from penstock.spark.lake.reading import batches_of
from penstock.spark.lake.records import RECORD_SCHEMA, with_date
from penstock.spark.lake.table import LakeTable
from penstock.spark.lake.verify import verify
from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.xdist_group("hdfs")]
RACERS = 4
NUMBERS = count()


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with HadoopPeer(tmp_path_factory.mktemp("hadoop")) as hadoop:
        yield hadoop.uri


@pytest.fixture
def place(hdfs: str) -> str:
    """Where nothing is yet."""
    return f"{hdfs}/lake/clicks_{next(NUMBERS)}"


def opened(place: str, table_format: str, tmp_path: Path) -> LakeTable:
    options = {} if table_format == "delta" else {"catalog.uri": f"sqlite:///{tmp_path / 'catalog.db'}"}
    columns = with_date(RECORD_SCHEMA)
    return open_table(
        place, "test", format=table_format, columns=columns, partition_by=["date"], storage_options=options
    )


@pytest.mark.parametrize("table_format", ["delta", pytest.param("iceberg", marks=pytest.mark.long)])
def test_a_table_on_hdfs_is_loaded_proven_and_maintained(
    place: str, table_format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = opened(place, table_format, tmp_path)
    for start in range(0, 60, 20):
        load(lake, start, start + 20, [(start, start + 1, "control")])
    assert (verdict_of(lake).clean, verdict_of(lake).rows, verdict_of(lake).gaps) == (True, 57, {"control": 3})
    done = Maintenance(lake, target_bytes=1 << 20, keep_hours=0).run()
    assert int(done["compact"]["files_merged"]) >= 3
    again = opened(place, table_format, tmp_path)
    assert again.end(CLICKS) == 60
    load(again, 60, 70)
    words = [word for name, value in again.storage_options.items() for word in ("--storage-option", f"{name}={value}")]  # type: ignore[attr-defined]
    assert main(["verify", place, "--table-format", table_format, *words]) == 0
    assert "clean: 67 rows" in capsys.readouterr().out
    values = sorted(v.as_py() for batch in batches_of(again, ["value"]) for v in batch.column("value"))
    assert values == sorted(b"v%d" % offset for offset in range(70) if offset not in (0, 20, 40))


@pytest.mark.parametrize("table_format", ["delta", pytest.param("iceberg", marks=pytest.mark.long)])
def test_of_writers_that_race_on_hdfs_one_commits(place: str, table_format: str, tmp_path: Path) -> None:
    opened(place, table_format, tmp_path)
    copies = [opened(place, table_format, tmp_path) for _ in range(RACERS)]
    files = [written(copy, rows(range(10))) for copy in copies]
    assert raced(copies, files) == 1
    lake = opened(place, table_format, tmp_path)
    assert (verdict_of(lake).clean, verdict_of(lake).rows) == (True, 10)
    Maintenance(lake, target_bytes=1 << 20, keep_hours=0).run()
    left = [each.path for each in lake.destination().list("") if ".tmp." in each.path]
    assert left == [], "files that the losers never closed stay for ever"
    assert verdict_of(lake).clean


def test_a_destination_on_hdfs_writes_reads_lists_and_deletes(place: str) -> None:
    there = Destination.from_json(Destination(place).to_json())
    with there.open("a/one.bin") as file:
        file.write(b"12345")
        assert there.read("a/one.bin") is None, "a file is seen before it is whole"
    assert there.read("a/one.bin") == b"12345"
    assert there.size_bytes("a/one.bin") == 5
    assert [(each.path, each.size_bytes) for each in there.list("")] == [("a/one.bin", 5)]
    assert there.list("none") == []
    there.delete("a/one.bin")
    assert there.read("a/one.bin") is None
    there.delete("a/one.bin")


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_name_service_is_told_by_storage_options(hdfs: str, place: str, tmp_path: Path, table_format: str) -> None:
    options = {
        "dfs.nameservices": "prod",
        "dfs.ha.namenodes.prod": "nn1,nn2",
        "dfs.namenode.rpc-address.prod.nn1": "127.0.0.1:1",
        "dfs.namenode.rpc-address.prod.nn2": hdfs.removeprefix("hdfs://"),
    }
    if table_format == "iceberg":
        options["catalog.uri"] = f"sqlite:///{tmp_path / 'catalog.db'}"
    lake = open_table(place.replace(hdfs, "hdfs://prod"), "test", format=table_format, storage_options=options)
    load(lake, 0, 10)
    assert (verdict_of(lake).clean, verdict_of(lake).rows) == (True, 10)
    assert Destination(place).list(""), "it is elsewhere"


def test_other_readers_find_the_files_of_odd_partition_values(place: str) -> None:
    schema = pa.schema([("site", pa.string()), ("hits", pa.int64())])
    odd = ["a b", "ü/%:", None]
    lake = open_table(place, "test", columns=schema, partition_by=["site"], records=False)
    with DataFileWriter(lake.destination(), schema) as writer:
        writer.write(pa.RecordBatch.from_pydict({"site": odd, "hits": [1, 2, 3]}, schema=schema))
        files = writer.close()
    lake.commit(files, {}, {})
    found = pa.table(DeltaTable(place).to_pyarrow_table()).to_pylist()
    assert sorted((str(each["site"]), each["hits"]) for each in found) == [("None", 3), ("a b", 1), ("ü/%:", 2)]


def test_a_topic_is_loaded_to_hdfs_by_the_command(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    with LocalBroker() as broker:
        broker.create_topic("clicks", 1)
        publish(broker, "clicks", 500, partitions=1)
        assert main(["load", "clicks", "--table", place, "--bootstrap", broker.bootstrap, "--once"]) == 0
    assert only(verify(open_table(place, "load", create=False))).rows == 500
    assert main(["verify", place]) == 0
    assert "clean: 500 rows" in capsys.readouterr().out


@pytest.mark.spark
@pytest.mark.long
def test_a_stream_reaches_hdfs_once_and_sql_reads_it(spark: SparkSession, place: str) -> None:
    checkpoint = Destination(f"{place}_checkpoint")
    with LocalBroker() as broker:
        broker.create_topic("clicks", 1)
        publish(broker, "clicks", 600, partitions=1)
        run(spark, broker.bootstrap, place, checkpoint.uri)
        checkpoint.delete("commits/0")  # as if the driver died before it noted the batch as done
        run(spark, broker.bootstrap, place, checkpoint.uri)
    assert checkpoint.read("commits/0") is not None
    spark.read.format("penstock-lake").load(place).createOrReplaceTempView("pages")
    counted = spark.sql("select count(*), count(distinct offset), max(offset) from pages where page like 'value%'")
    assert tuple(counted.collect()[0]) == (300, 300, 598)


def test_an_hdfs_that_does_not_answer_is_an_error_in_one_line() -> None:
    with pytest.raises(PenstockError, match=r"the table at hdfs://127\.0\.0\.1:1/lake cannot be opened"):
        open_table("hdfs://127.0.0.1:1/lake", "test", create=False)
