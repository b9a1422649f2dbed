"""`penstock log index` on real files: what it replaces, what it says, and when it refuses."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path

import pytest
from support.planted import flipped, sound_log, write_out

from penstock.cli import log_progress
from penstock.cli.main import main
from penstock.log.checkpoints import LOG_START
from penstock.server.directory_lock import LOCK_FILE, DirectoryLock

Capture = pytest.CaptureFixture[str]
INDEX, TIME_INDEX = f"{0:020d}.index", f"{0:020d}.timeindex"
INTERVAL = ["--index-interval-bytes", "100"]
HISTORY = sound_log()


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    directory = write_out(HISTORY.one.disk, tmp_path / "data")
    (directory.parent / LOCK_FILE).touch()
    return directory


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_missing_and_wrong_indexes_are_made_anew(partition: Path, capsys: Capture) -> None:
    had = contents(partition)
    (partition / INDEX).unlink()
    (partition / TIME_INDEX).write_bytes(flipped(had[TIME_INDEX], 3))
    assert main(["log", "verify", str(partition)]) == 1
    capsys.readouterr()
    assert main(["log", "index", "--dry-run", *INTERVAL, str(partition)]) == 0
    assert "2 of 9 files would be made anew" in capsys.readouterr().out
    assert not (partition / INDEX).exists()
    assert main(["log", "index", *INTERVAL, str(partition)]) == 0
    said = capsys.readouterr().out
    assert "2 of 9 files made anew" in said
    assert f"{INDEX}: it was missing; {len(had[INDEX]) // 8} entries" in said
    assert f"{TIME_INDEX}: " in said
    assert contents(partition) == had
    assert main(["log", "verify", str(partition)]) == 0
    capsys.readouterr()
    assert main(["log", "index", *INTERVAL, str(partition)]) == 0
    assert "all 9 files are as they should be" in capsys.readouterr().out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("words", [["--dry-run"], []], ids=["a dry run", "in earnest"])
def test_on_a_terminal_it_shows_how_far_it_is(
    words: list[str], partition: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_progress, "PROGRESS_FROM_BYTES", 0)
    monkeypatch.setattr(log_progress, "REDRAW_S", 0)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["log", "index", *words, *INTERVAL, str(partition)]) == 0
    shown = [int(percent) for percent in re.findall(r"(\d+) % of [^:]*: /", terminal.getvalue())]
    assert shown == sorted(shown), "it only grows"
    assert 0 < shown[0] < 100
    assert shown[-1] == 100
    assert terminal.getvalue().endswith("\x1b[1A\x1b[J"), "and is taken away"
    assert "%" not in capsys.readouterr().out


def test_little_is_done_without_a_word(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["log", "index", *INTERVAL, str(partition)]) == 0
    assert terminal.getvalue() == ""


def test_an_index_is_replaced_by_a_file_and_never_written_in_place(partition: Path) -> None:
    """Whoever has the old file open reads what it was."""
    whole = (partition / INDEX).read_bytes()
    (partition / INDEX).write_bytes(whole[:-8])
    with (partition / INDEX).open("rb") as old:
        assert main(["log", "index", *INTERVAL, str(partition)]) == 0
        assert old.read() == whole[:-8]
    assert (partition / INDEX).read_bytes() == whole
    assert not list(partition.glob("*.tmp"))


def test_its_json_has_every_file(partition: Path, capsys: Capture) -> None:
    (partition / INDEX).unlink()
    assert main(["log", "index", "--json", *INTERVAL, str(partition)]) == 0
    [found] = json.loads(capsys.readouterr().out)
    changed = [line for line in found["files"] if line["changed"]]
    assert [(line["file"], line["entries_before"]) for line in changed] == [(INDEX, None)]
    assert len(found["files"]) == 9


def test_it_refuses_while_a_broker_has_the_directory(partition: Path, capsys: Capture) -> None:
    (partition / INDEX).unlink()
    lock = DirectoryLock(str(partition.parent))
    try:
        assert main(["log", "index", str(partition)]) == 1
        assert main(["log", "index", "--dry-run", str(partition)]) == 1
    finally:
        lock.release()
    assert "used" in capsys.readouterr().err
    assert not (partition / INDEX).exists()


def test_a_copy_somewhere_else_gets_no_lock_file(partition: Path) -> None:
    (partition.parent / LOCK_FILE).unlink()
    assert main(["log", "index", *INTERVAL, str(partition)]) == 0
    assert [path.name for path in partition.parent.iterdir()] == [partition.name]


def test_bad_arguments_are_refused_in_a_line(partition: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["log", "index", str(tmp_path / "nowhere")]) == 2
    assert main(["log", "index", str(tmp_path)]) == 2
    assert "nothing was written to it yet" in capsys.readouterr().err
    assert main(["log", "index", "--index-interval-bytes", "-1", str(partition)]) == 2
    (partition.parent / LOG_START).write_text("0\n1\nx\n")
    assert main(["log", "index", str(partition)]) == 2
    assert "log-start-offset-checkpoint beside clicks-0: line 2" not in capsys.readouterr().err.splitlines()[0]


def test_the_owner_of_the_directory_gets_the_files(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root repairs; the broker that writes them next is somebody else."""
    given: list[tuple[str, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda path, user, _: given.append((os.path.basename(path), user)))
    (partition / INDEX).unlink()
    assert main(["log", "index", *INTERVAL, str(partition)]) == 0
    assert given == [(INDEX, partition.stat().st_uid)]


def test_a_dry_run_makes_no_file(partition: Path) -> None:
    """Not even a lock file: root's would keep the broker from starting."""
    data = partition.parent
    (data / LOCK_FILE).unlink()
    (data / "meta.properties").touch()
    before = sorted(data.rglob("*"))
    assert main(["log", "index", "--dry-run", *INTERVAL, str(partition)]) == 0
    assert sorted(data.rglob("*")) == before


def test_a_lock_file_that_is_made_is_the_owners(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = partition.parent
    (data / LOCK_FILE).unlink()
    (data / "meta.properties").touch()
    given: list[str] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda path, user, group: given.append(os.path.relpath(path, data)))
    assert main(["log", "index", *INTERVAL, str(partition)]) == 0
    assert given == [LOCK_FILE]
    assert main(["log", "index", *INTERVAL, str(partition)]) == 0
    assert given == [LOCK_FILE], "one that was there stays as it is"
