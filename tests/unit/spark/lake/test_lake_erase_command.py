"""`penstock lake erase` on the command line: a preview, the deed, the list, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("duckdb", reason="needs penstock[sql]")

from support.lake_tables import load, opened

from penstock.cli.main import main


@pytest.fixture
def table(tmp_path: Path) -> str:
    lake = opened(tmp_path, "delta")
    load(lake, 0, 10)
    load(lake, 10, 20)
    return lake.uri


def test_a_preview_the_deed_and_the_proof(table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    persons = tmp_path / "persons.txt"
    persons.write_text("k3\nk13\nnobody\n")
    command = ["lake", "erase", table, "--list", f"persons={persons}"]
    command += ["--where", "decode(key) in (select value from persons)"]
    assert main(command) == 0
    assert capsys.readouterr().out == "2 rows in 2 files would be erased; nothing was done: add --execute\n"
    assert main([*command, "--reference", "request 17", "--deadline-hours", "0", "--execute"]) == 0
    assert "(request 17): 2 rows of 2 files erased" in capsys.readouterr().out
    assert main(["verify", table]) == 0
    assert "2 erased" in capsys.readouterr().out
    assert main(["lake", "erasures", table]) == 0
    assert "2 old files have the rows until" in capsys.readouterr().out
    assert main(["lake", "maintain", table, "--only", "vacuum"]) == 0
    assert "erased files 2" in capsys.readouterr().out
    assert main(["lake", "erasures", table, "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["reference"], told["old_files_deleted_ms"] is None) == (2, "request 17", False)
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"rows": 0, "files": 0}


def test_what_cannot_be_is_refused(table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lake", "erase", table, "--where", "nosuch = 1", "--execute"]) != 0
    assert "the condition cannot be evaluated" in capsys.readouterr().err
    assert main(["lake", "erase", table, "--where", "true", "--list", f"a={tmp_path / 'none'}"]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main(["lake", "erase", table, "--where", "true", "--deadline-hours", "-1"]) == 2
    assert "cannot be negative" in capsys.readouterr().err
    assert main(["lake", "erase", str(tmp_path / "nothing"), "--where", "true"]) == 1
    assert "there is no Delta table" in capsys.readouterr().err
    assert main(["lake", "erasures", table]) == 0
    assert capsys.readouterr().out == "nothing was erased\n"
