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
@pytest.mark.xdist_group("drivers beside a session")
@pytest.mark.parametrize("name", deaths.CASES)
def test_tables_are_exact_after_20_kills_of_the_driver(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path, name: str
) -> None:
    topic, case, chance = f"kills-{name}", deaths.CASES[name], random.Random(17)
    broker.create_topic(topic)
    for number in range(20):
        publish(broker, topic, case.input(number))
        point, commit = chance.choice(("before", "after")), str(chance.randint(1, case.commits))
        driver = [sys.executable, deaths.__file__, name, point, commit, broker.bootstrap, str(tmp_path), topic]
        killed = subprocess.run(
            driver, start_new_session=True, timeout=300, check=False, capture_output=True, text=True
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    publish(broker, topic, case.input(20))
    deaths.run_until(lambda failed: not failed, lambda: deaths.run(spark, name, broker.bootstrap, tmp_path, topic))
    deaths.check(name, tmp_path, 21)
