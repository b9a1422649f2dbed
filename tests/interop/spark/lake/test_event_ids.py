"""An event that was sent twice is in the table once, by Spark's own state and the sink's batches, across restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

from deltalake import DeltaTable
from interop.spark.load.support import publish_values

from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "write-to-the-lake.md"
NOW_MS = 1_767_225_600_000


def events(*numbers: int) -> list[bytes]:
    return [json.dumps({"id": f"e{number}", "page": f"p{number}"}).encode() for number in numbers]


def test_the_example_of_the_page_takes_each_event_once(spark: SparkSession, tmp_path: Path) -> None:
    section = PAGE.read_text().split("## Events that were sent twice", 1)[1]
    example = section.split("```py\n", 1)[1].split("```", 1)[0]
    example = example.replace('"lake/', f'"{tmp_path}/lake/').replace('"checkpoints/', f'"{tmp_path}/checkpoints/')
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    try:
        with LocalBroker() as broker:
            broker.create_topic("clicks", 2)
            for some in (events(1, 2, 1, 3), events(3, 4, 2, 4)):
                for partition in (0, 1):  # a repetition may be in another partition
                    publish_values(broker, "clicks", *some, partition=partition, timestamp_ms=NOW_MS)
                code = compile(example.replace("127.0.0.1:9092", broker.bootstrap), str(PAGE), "exec")
                exec(code, {"spark": spark})
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    pages = DeltaTable(str(tmp_path / "lake/events")).to_pyarrow_table()["page"].to_pylist()
    assert sorted(pages) == ["p1", "p2", "p3", "p4"]
