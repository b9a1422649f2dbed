"""`penstock lake` on the command line: what it says, what it refuses, and that a dry run does nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")

from support.lake_tables import load, opened, verdict_of

from penstock.cli.main import main
from penstock.spark.lake.table import LakeTable


@pytest.fixture(params=["delta", "iceberg"])
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> LakeTable:
    lake = opened(tmp_path, request.param)
    for start in (0, 10, 20):
        load(lake, start, start + 10)
    return lake


def test_a_table_is_maintained_and_stays_clean(lake: LakeTable, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lake", "maintain", lake.uri]) == 0
    assert "files merged 3, into 1" in capsys.readouterr().out
    assert main(["lake", "maintain", lake.uri, "--keep-hours", "0", "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["vacuum"]["files_deleted"] >= 3
    assert main(["verify", lake.uri]) == 0
    load(lake, 30, 40)
    assert verdict_of(lake).rows == 40


def test_a_dry_run_says_what_would_be_and_does_nothing(lake: LakeTable, capsys: pytest.CaptureFixture[str]) -> None:
    version = lake.version
    assert main(["lake", "maintain", lake.uri, "--dry-run"]) == 0
    assert "files to merge 3, into 1" in capsys.readouterr().out
    lake.refresh()
    assert (lake.version, len(lake.files())) == (version, 3)


def test_an_age_that_could_hit_a_running_job_is_refused(lake: LakeTable, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lake", "maintain", lake.uri, "--keep-hours", "1"]) == 2
    assert "could delete files of a running job" in capsys.readouterr().err


def test_a_table_shows_what_it_is(lake: LakeTable, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lake", "show", lake.uri]) == 0
    said = capsys.readouterr().out
    assert f"{lake.format}, version" in said
    assert "clicks-0  0 to 30  by test" in said
    assert main(["lake", "show", lake.uri, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == 3


def test_a_storage_option_without_a_value_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lake", "show", str(tmp_path), "--storage-option", "AWS_REGION"]) == 2
    assert "must be NAME=VALUE" in capsys.readouterr().err
