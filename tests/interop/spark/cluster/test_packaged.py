"""Executors that have no Penstock get it with the job: as a zip file, or in an archive of a Python environment."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from interop.spark.load.support import publish
from support.packages import archived_environment, bare_environment, driver_command, driver_environment, zipped

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

from penstock.spark.cluster import SparkCluster
from penstock.spark.lake.open import open_table
from penstock.spark.lake.verify import verify
from penstock.testing.broker import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.long]
RECORDS, PARTITIONS = 60_000, 2
PATIENCE_S = 900
FILE = """
[pipeline]
name = "lake"
job = "load"
[kafka]
bootstrap = "{bootstrap}"
[options]
topics = ["in"]
table = "lake"
offsets_per_job = 30000
[spark]
spark.executor.memory = "512m"
{settings}
"""


def run(
    directory: Path, broker: LocalBroker, master: str, python: Path | str, settings: Mapping[str, object]
) -> subprocess.CompletedProcess[str]:
    """A load that has caught up, by a driver that has Penstock on its path."""
    lines = "\n".join(f'{name} = "{value}"' for name, value in settings.items())
    (directory / "lake.toml").write_text(FILE.format(bootstrap=broker.bootstrap, settings=lines))
    words = ["pipeline", "run", "lake.toml", "--once", "--master", master, "--state", "state", "--spark-log", "log"]
    return subprocess.run(
        driver_command(*words),
        env=driver_environment(python),
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_executors_without_penstock_get_it_with_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    python = bare_environment(tmp_path / "bare")
    archive = archived_environment(tmp_path)
    ways: dict[str, tuple[Path | str, dict[str, object]]] = {
        "zip": (python, {"spark.submit.pyFiles": zipped(tmp_path)}),
        "archive": ("./environment/bin/python", {"spark.archives": f"{archive}#environment"}),
    }
    with LocalBroker() as broker, SparkCluster(tmp_path / "cluster", workers=1, memory_mb=700) as cluster:
        broker.create_topic("in", PARTITIONS)
        publish(broker, "in", RECORDS, partitions=PARTITIONS)
        refused = run(tmp_path, broker, cluster.master, python, {})
        assert refused.returncode != 0
        assert "the workers' Python has no penstock" in refused.stderr + refused.stdout
        for name, (chosen, settings) in ways.items():
            there = tmp_path / name
            there.mkdir()
            (there / "environment").symlink_to(tmp_path / "packed")  # for the Python that plans, on the driver
            done = run(there, broker, cluster.master, chosen, settings)
            assert done.returncode == 0, (name, done.stdout, done.stderr, (there / "log").read_text()[-4000:])
            verdicts = verify(open_table(str(there / "lake"), "lake", create=False))
            assert all(verdict.clean for verdict in verdicts)
            assert sum(verdict.rows for verdict in verdicts) == RECORDS
