"""DataFrames into lake tables: what a stream filters of a topic is there once, though its driver is killed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")
duckdb = pytest.importorskip("duckdb", reason="needs penstock[sql]")

from deltalake import DeltaTable  # noqa: E402
from interop.spark.lake import killed_driver  # noqa: E402
from interop.spark.lake.killed_driver import run  # noqa: E402
from interop.spark.load.support import PARTITIONS, publish  # noqa: E402

from penstock.spark.lake.kept import verify_kept  # noqa: E402
from penstock.spark.lake.open import open_table  # noqa: E402
from penstock.spark.lake.reading import batches_of  # noqa: E402
from penstock.testing.broker import LocalBroker  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "write-to-the-lake.md"


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        broker.create_topic("clicks", PARTITIONS)
        yield broker


def batches_done(checkpoint: Path) -> set[int]:
    """The batches that Spark itself has noted as done."""
    return {int(each.name) for each in (checkpoint / "commits").glob("[0-9]*")}


@pytest.mark.xdist_group("drivers beside a session")
@pytest.mark.long
def test_a_driver_killed_between_the_tables_commit_and_sparks_own_doubles_nothing(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path
) -> None:
    publish(broker, "clicks", 3000)
    path, checkpoint = tmp_path / "pages", tmp_path / "checkpoint"
    driver = [sys.executable, killed_driver.__file__, broker.bootstrap, str(path), str(checkpoint)]
    killed = subprocess.run(driver, start_new_session=True, timeout=300, check=False, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    assert (batches_done(checkpoint), DeltaTable(str(path)).version()) == ({0}, 2), "the table has batch 1, Spark not"
    run(spark, broker.bootstrap, path, checkpoint)
    publish(broker, "clicks", 300)
    run(spark, broker.bootstrap, path, checkpoint)
    table = DeltaTable(str(path))
    batches = [json.loads(entry["penstock.batch"])["batch"] for entry in table.history() if "penstock.batch" in entry]
    assert sorted(batches) == sorted(set(batches)), "one commit a batch"
    assert 1 in batches
    wanted = {(partition, offset) for partition in range(PARTITIONS) for offset in range(0, 1100, 2)}
    rows = table.to_pyarrow_table(columns=["partition", "offset"]).to_pylist()
    assert (len(rows), {(row["partition"], row["offset"]) for row in rows}) == (len(wanted), wanted)
    counted = 'select count(*), count(distinct (partition, "offset")) from read_parquet(?)'
    assert duckdb.execute(counted, [table.file_uris()]).fetchone() == (len(wanted), len(wanted))
    assert {str(each) for each in path.rglob("part-*.parquet")} == set(table.file_uris()), "the second files are gone"
    proved = verify_kept(open_table(str(path), "test", create=False, records=False))
    assert all(each.clean for each in proved), proved
    assert [(each.end, each.rows, each.gaps) for each in proved] == [(1100, 550, {"filtered": 550})] * PARTITIONS


def test_a_batch_that_spark_runs_again_is_in_an_iceberg_table_once(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path
) -> None:
    publish(broker, "clicks", 300)
    path, checkpoint = tmp_path / "pages", tmp_path / "checkpoint"
    run(spark, broker.bootstrap, path, checkpoint, tableFormat="iceberg")
    (checkpoint / "commits" / "0").unlink()  # as if the driver died before it noted the batch as done
    run(spark, broker.bootstrap, path, checkpoint, tableFormat="iceberg")
    assert batches_done(checkpoint) == {0}
    lake = open_table(str(path), "test", format="iceberg", create=False, records=False)
    rows = [row for some in batches_of(lake, ["partition", "offset"]) for row in some.to_pylist()]
    wanted = [(partition, offset) for partition in range(PARTITIONS) for offset in range(0, 100, 2)]
    assert sorted((row["partition"], row["offset"]) for row in rows) == wanted


def test_the_examples_of_the_page_run_and_what_is_wrong_is_said(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(broker, "clicks", 300)
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 4
    names = {"spark": spark}
    run_here = [
        re.sub('"(lake|checkpoints)/', rf'"{tmp_path}/\1/', each.replace("127.0.0.1:9092", broker.bootstrap))
        for each in examples
    ]
    for example in run_here:
        exec(compile(example, str(PAGE), "exec"), names)
    assert DeltaTable(str(tmp_path / "lake/clicks")).to_pyarrow_table().num_rows == 300
    counts = DeltaTable(str(tmp_path / "lake/counts"))
    latest = DeltaTable(str(tmp_path / "lake/latest")).to_pyarrow_table(columns=["partition", "offset"]).to_pylist()
    assert sorted(tuple(row.values()) for row in latest) == [(partition, 99) for partition in range(PARTITIONS)]
    assert (counts.to_pyarrow_table()["clicks"].to_pylist(), counts.version()) == ([100] * 3, 1)

    with pytest.raises(Exception, match="query 'clicks' wrote to this table from another checkpoint"):
        exec(run_here[0].replace("checkpoints/", "anew/"), names)
    writer = spark.range(3).write.format("penstock-lake").mode("append")
    with pytest.raises(Exception, match="the table has no column id"):
        writer.save(str(tmp_path / "lake/counts"))
    with pytest.raises(Exception, match="a lake table is not overwritten, rows are only added to it"):
        writer.mode("overwrite").save(str(tmp_path / "other"))
    with pytest.raises(Exception, match=r"unknown option mergeshema; did you mean mergeSchema\?"):
        writer.mode("append").option("mergeShema", "true").save(str(tmp_path / "other"))
