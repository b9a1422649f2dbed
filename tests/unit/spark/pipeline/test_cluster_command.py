"""`penstock spark`, as far as it needs no Spark."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.cli.spark import memory_mb
from penstock.errors import ConfigError
from penstock.spark.session import DEFAULTS, check_addresses, settings_for


def test_no_cluster_is_said_and_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "cluster", "status", "--directory", str(tmp_path)]) == 1
    assert main(["spark", "cluster", "down", "--directory", str(tmp_path), "--json"]) == 0
    said = capsys.readouterr().out.split("\n", 1)
    assert said[0] == "no cluster runs"
    assert json.loads(said[1]) == {"ended": []}


def test_sizes() -> None:
    assert (memory_mb("512m"), memory_mb("2G"), memory_mb("1gb")) == (512, 2048, 1024)
    with pytest.raises(argparse.ArgumentTypeError, match="2 GiB is no size such as 512m"):
        memory_mb("2 GiB")


def test_every_setting_has_a_reason_and_the_users_wins(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "settings"]) == 0
    told = capsys.readouterr().out
    assert all(f"{name} = {each.value}" in told and each.why in told for name, each in DEFAULTS.items())
    assert "spark.executor.memory" not in settings_for(None, {})
    assert settings_for("spark://h:1", {"spark.executor.memory": "2g"})["spark.executor.memory"] == "2g"
    assert "spark.driver.host" not in settings_for("spark://h:1", {})
    assert settings_for("spark://127.0.0.1:1", {})["spark.driver.host"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("master", "remote", "said"),
    [("local", "sc://h:1", "exclude each other"), (None, "h:1", "must be sc://"), ("h:1", None, "must be local")],
)
def test_addresses_that_are_none_are_refused_before_spark_starts(
    master: str | None, remote: str | None, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        check_addresses(master, remote)
