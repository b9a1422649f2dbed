"""Tables are read back as the documentation says: each Python example of the page about loads runs on such tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")

import pyarrow as pa
from interop.spark.load.support import caught_up, options, publish, publish_values
from support.lake_tables import CLICKS, load, opened

from penstock.spark.lake.maintenance import Maintenance
from penstock.spark.lake.records import RECORD_SCHEMA, with_date
from penstock.spark.lake.rows import rows_of
from penstock.spark.load.load import Load
from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "load-a-topic.md"


@pytest.mark.slow
def test_the_examples_of_the_page_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with LocalBroker() as broker:
        broker.create_topic("clicks", 3)
        publish(broker, "clicks", 9)
        publish_values(broker, "clicks", b'{"page":"/"}')
        with Load(None, options(broker, "clicks", tmp_path / "lake" / "clicks")) as running:
            caught_up(running)
        beside = str(tmp_path / "lake" / "clicks_quarantine")
        with Load(None, options(broker, "clicks", tmp_path / "json", format="json", quarantine=beside)) as running:
            caught_up(running)
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 3
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), {"spark": spark})
    said = capsys.readouterr().out
    assert "|        0|    4|" in said, said
    assert "no valid JSON" in said


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_spark_reads_a_table_by_date_with_added_columns_and_after_a_compaction(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    lake = opened(tmp_path, table_format, columns=with_date(RECORD_SCHEMA), partition_by=["date"])
    load(lake, 0, 120)
    lake.add_columns([pa.field("page", pa.string())])
    load(lake, 120, 140, [(125, 126, "control")])
    for _ in range(2):
        found = rows_of(spark, lake, ["topic", "offset", "date", "page", "value"], tasks=2).collect()
        assert sorted(row.offset for row in found) == [*range(125), *range(126, 140)]
        assert {(row.topic, row.page, row.value == b"v%d" % row.offset) for row in found} == {
            (CLICKS.topic, None, True)
        }
        assert {row.date.day for row in found if row.offset < 50} == {1}
        Maintenance(lake, target_bytes=1 << 20, keep_hours=168).run(["compact"])
