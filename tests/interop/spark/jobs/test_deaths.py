"""The jobs' tables are exact whenever their driver died around a commit."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

from penstock.spark.lake.delta import DeltaLake
from penstock.testing.broker import LocalBroker

from . import deaths
from .conftest import publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Died(Exception):
    """Stands for the death of a driver: to Spark's checkpoint and to the tables it is the same."""


def die() -> None:
    raise Died


@pytest.mark.slow
@pytest.mark.usefixtures("context_of")
@pytest.mark.parametrize("name", deaths.CASES)
def test_tables_are_exact_though_each_round_died_around_a_commit(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    topic, case = f"deaths-{name}", deaths.CASES[name]
    broker.create_topic(topic)
    for number, point in enumerate(("before", "after", "after")):
        publish(broker, topic, case.input(number))
        with monkeypatch.context() as patch:
            patch.setattr(DeltaLake, "replace", deaths.dying(1 + number % case.commits, point, die))
            deaths.run_until(
                lambda failed: any("Died" in str(error) for error in failed),
                lambda: deaths.run(spark, name, broker.bootstrap, tmp_path, topic),
            )
    publish(broker, topic, case.input(3))
    deaths.run_until(lambda failed: not failed, lambda: deaths.run(spark, name, broker.bootstrap, tmp_path, topic))
    deaths.check(name, tmp_path, 4)


@pytest.mark.long
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("name", deaths.CASES)
def test_tables_are_exact_after_20_kills_of_the_driver(broker: LocalBroker, tmp_path: Path, name: str) -> None:
    topic, case, chance = f"kills-{name}", deaths.CASES[name], random.Random(17)
    broker.create_topic(topic)

    def driver(number: int, point: str, commit: int) -> subprocess.CompletedProcess[str]:
        publish(broker, topic, case.input(number))
        words = [deaths.__file__, name, point, str(commit), broker.bootstrap, str(tmp_path), topic]
        return subprocess.run(
            [sys.executable, *words], start_new_session=True, timeout=300, check=False, capture_output=True, text=True
        )

    for number in range(20):
        killed = driver(number, chance.choice(("before", "after")), chance.randint(1, case.commits))
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    last = driver(20, "never", 0)
    assert last.returncode == 0, last.stderr[-3000:]
    deaths.check(name, tmp_path, 21)
