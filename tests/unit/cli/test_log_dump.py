"""How far `penstock log dump` says that it is, where it says nothing else for long: `--verify` and `--json`."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest
from support.planted import flipped, sound_log, write_out

from penstock.cli import log_progress
from penstock.cli.main import main
from penstock.log import dump

Capture = pytest.CaptureFixture[str]
HISTORY = sound_log()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """One that shows how far a command is, however little there is to read, which is read in pieces."""
    monkeypatch.setattr(log_progress, "PROGRESS_FROM_BYTES", 1)
    monkeypatch.setattr(log_progress, "REDRAW_S", 0)
    monkeypatch.setattr(dump, "RECOVERY_CHUNK_BYTES", 300)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The segments of a log, and their time indexes."""
    directory = write_out(HISTORY.one.disk, tmp_path / "data")
    return [str(path) for suffix in (".log", ".timeindex") for path in sorted(directory.glob(f"*{suffix}"))]


def shown(terminal: Terminal) -> list[int]:
    return [int(percent) for percent in re.findall(r"(\d+) % of [^:]*: /", terminal.getvalue())]


def test_a_check_shows_how_far_it_is(files: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    assert main(["log", "dump", "--verify", *files]) == 0
    assert shown(terminal) == sorted(shown(terminal)), "it only grows"
    assert 0 < shown(terminal)[0] < 50
    assert shown(terminal)[-1] == 100
    assert terminal.getvalue().removesuffix("\x1b[J").endswith("\x1b[1A\x1b[J"), "and is taken away"
    assert capsys.readouterr().out.splitlines() == [f"{file}  is in order" for file in files]


def test_json_is_made_while_it_shows_how_far_it_is(
    files: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = on_a_terminal(monkeypatch)
    segments = [file for file in files if file.endswith(".log")]
    assert main(["log", "dump", "--json", *segments]) == 0
    assert shown(terminal)[-1] == 100
    assert {line["file"] for line in json.loads(capsys.readouterr().out)} <= set(segments)


def test_what_is_wrong_with_a_file_is_said_once_it_is_found(
    files: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = on_a_terminal(monkeypatch)
    path = Path(files[0])
    path.write_bytes(flipped(path.read_bytes(), 8 * 100))
    assert main(["log", "dump", "--verify", *files]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"{files[0]}    position ")
    assert "PROBLEM" in said[0]
    assert shown(terminal)[-1] == 100, "also what was not read of a damaged file counts"


def test_who_sees_the_batches_needs_no_more(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    assert main(["log", "dump", *files]) == 0
    assert terminal.getvalue() == ""
