"""Loads through a store and a catalog that lose answers, with kills: nothing missing, nothing twice, ever.

`pytest -m long -k "trouble and 120"` runs ten of the two hundred again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")
pytest.importorskip("moto", reason="needs penstock[test]")

from interop.spark.load.support import PARTITIONS, publish
from interop.spark.load.trouble import Run, publish_json
from support.lossy_lake import LossyLake

from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS, RECORDS = {"raw": "clicks", "json": "pages"}, 600
FORMATS = ("delta", "iceberg")


@pytest.fixture(scope="module")
def bootstrap(broker: LocalBroker) -> str:
    for topic in TOPICS.values():
        broker.create_topic(topic, PARTITIONS)
    publish(broker, TOPICS["raw"], RECORDS)
    publish_json(broker, TOPICS["json"], RECORDS)
    return broker.bootstrap


@pytest.fixture
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LossyLake]:
    with LossyLake(tmp_path_factory.mktemp("lossy")) as lake:
        yield lake


def runs(lake: LossyLake, bootstrap: str, seeds: range) -> int:
    """How many faults there were. Both formats of tables and of values, with kills and without, take turns."""
    faults = 0
    for seed in seeds:
        values = "json" if seed % 8 > 3 else "raw"
        run = Run(
            lake,
            bootstrap,
            TOPICS[values],
            records=RECORDS,
            table_format=FORMATS[seed % 2],
            seed=seed,
            kill=seed % 4 < 2,
            values=values,
        )
        try:
            run.run()
        except BaseException as error:
            error.add_note(f"seed {seed}; what the loads said before: {run.errors}")
            raise
        faults += run.faults
    return faults


@pytest.mark.long
def test_ten_loads_in_trouble_lose_and_double_nothing(lake: LossyLake, bootstrap: str) -> None:
    assert runs(lake, bootstrap, range(10)) > 50


@pytest.mark.long
@pytest.mark.parametrize("first", range(10, 210, 10))
def test_loads_in_trouble_lose_and_double_nothing(lake: LossyLake, bootstrap: str, first: int) -> None:
    assert runs(lake, bootstrap, range(first, first + 10)) > 50


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("table_format", FORMATS)
def test_loads_on_spark_in_trouble_lose_and_double_nothing(
    spark: SparkSession, lake: LossyLake, bootstrap: str, table_format: str
) -> None:
    """Tasks write their files straight to the store, and Spark runs those again that fail."""
    for seed in range(1000, 1003):
        run = Run(
            lake,
            bootstrap,
            TOPICS["raw"],
            records=RECORDS,
            table_format=table_format,
            seed=seed,
            kill=False,
            spark=spark,
        )
        run.run()
