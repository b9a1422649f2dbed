"""kill -9 of the driver, of a Python worker, of the broker: nothing lost, nothing doubled.

`pytest -m slow -k "worker and iceberg"` runs one kind on one format.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from interop.hadoop_peer import HDFS, HadoopPeer
from interop.spark.load.kills import KINDS, Run

pytestmark = pytest.mark.spark
SEED = 20


@pytest.mark.slow
def test_a_kill_of_each_kind_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with Run(tmp_path, "delta", SEED) as run:
        for kind in ("worker", "broker", "driver"):
            run.kill(kind)
        run.finish()


@pytest.mark.long
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
@pytest.mark.parametrize("kind", KINDS)
def test_many_kills_lose_and_double_nothing(tmp_path: Path, kind: str, table_format: str) -> None:
    with Run(tmp_path, table_format, SEED) as run:
        for _ in range(20 if table_format == "delta" else 10):
            run.kill(kind)
        run.finish()


@pytest.mark.long
@pytest.mark.java
def test_kills_on_the_way_to_hdfs_lose_and_double_nothing(tmp_path: Path) -> None:
    with HadoopPeer(tmp_path / "hadoop", apart=True) as hadoop, Run(tmp_path, "delta", SEED, hadoop) as run:
        for kind in (*HDFS, "driver", "worker") * 5:
            run.kill(kind)
        run.finish()
