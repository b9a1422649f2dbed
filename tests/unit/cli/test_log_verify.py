"""`penstock log verify` on real files: verdicts, exit codes, and that nothing on the disk changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.planted import flipped, sound_log, write_out

from penstock.cli import log_progress
from penstock.cli.main import main
from penstock.log.checkpoints import HIGH_WATERMARK, RECOVERY_POINT
from penstock.log.clean_shutdown import FILE as CLEAN_SHUTDOWN
from penstock.log.meta_properties import MetaProperties, format_meta_properties
from penstock.server.directory_lock import LOCK_FILE, DirectoryLock, holder_of

Capture = pytest.CaptureFixture[str]
LOG = f"{0:020d}.log"
HISTORY = sound_log()
END = HISTORY.one.log.log_end_offset


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A sound partition in a log directory that was stopped cleanly."""
    directory = write_out(HISTORY.one.disk, tmp_path / "data")
    data = directory.parent
    (data / "meta.properties").write_bytes(format_meta_properties(MetaProperties("cluster", 1, None)))
    (data / LOCK_FILE).touch()
    (data / CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":1}')
    for file in (RECOVERY_POINT, HIGH_WATERMARK):
        (data / file).write_text(f"0\n1\nclicks 0 {END}\n")
    return directory


def state(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a directory with its content and when it was changed."""
    found = {path: (path.read_bytes() if path.is_file() else b"") for path in [directory, *directory.rglob("*")]}
    return {str(path): (content, path.stat().st_mtime_ns) for path, content in found.items()}


def damage(partition: Path) -> None:
    content = (partition / LOG).read_bytes()
    (partition / LOG).write_bytes(flipped(content, 700))


def test_a_sound_directory_is_called_sound_and_stays_as_it_is(partition: Path, capsys: Capture) -> None:
    before = state(partition.parent)
    assert main(["log", "verify", str(partition.parent)]) == 0
    said = capsys.readouterr()
    assert f"{partition}: sound; offsets 0 to {END}" in said.out
    assert "1 log checked, no problems" in said.out
    assert not said.err
    assert state(partition.parent) == before


def test_one_partition_is_judged_by_the_checkpoints_beside_it(partition: Path, capsys: Capture) -> None:
    assert main(["log", "verify", str(partition)]) == 0
    (partition.parent / HIGH_WATERMARK).write_text(f"0\n1\nclicks 0 {END + 5}\n")
    assert main(["log", "verify", str(partition)]) == 1
    said = capsys.readouterr().out
    assert f"the high watermark by the checkpoint is {END + 5}; the log ends at {END}" in said


@pytest.mark.parametrize("file", [HIGH_WATERMARK, "meta.properties"])
def test_a_file_of_the_log_directory_that_cannot_be_read_does_not_keep_logs_from_being_checked(
    partition: Path, capsys: Capture, file: str
) -> None:
    (partition.parent / file).unlink()
    (partition.parent / file).mkdir()
    assert main(["log", "verify", str(partition.parent)]) == 1
    said = capsys.readouterr().out
    assert f"PROBLEM: {file}: it cannot be read: Is a directory" in said
    assert f"{partition}: sound" in said


@pytest.mark.parametrize("file", [LOG, f"{0:020d}.index", "leader-epoch-checkpoint"])
def test_a_link_that_leads_nowhere_is_a_problem(partition: Path, capsys: Capture, file: str) -> None:
    (partition / file).unlink()
    (partition / file).symlink_to("nowhere")
    assert main(["log", "verify", str(partition)]) == 1
    assert f"PROBLEM: {file}: it cannot be opened: nothing is there" in capsys.readouterr().out


def test_damage_has_exit_code_1_and_is_named_in_text_and_json(partition: Path, capsys: Capture) -> None:
    damage(partition)
    before = state(partition.parent)
    assert main(["log", "verify", str(partition.parent)]) == 1
    said = capsys.readouterr().out
    assert f"PROBLEM: {LOG} byte 0: the batch at offset 0 is damaged: its checksum is wrong" in said
    assert "1 log checked, 1 of them with problems" in said
    assert main(["log", "verify", "--json", str(partition.parent)]) == 1
    own, log = json.loads(capsys.readouterr().out)
    assert own["verdict"] == "sound"
    assert (log["verdict"], log["counts"]["problem"], log["segments"]) == ("damaged", 1, 3)
    assert log["findings"][0]["file"] == LOG
    assert state(partition.parent) == before


def test_notes_are_printed_when_asked_for(partition: Path, capsys: Capture) -> None:
    (partition / f"{0:020d}.log.deleted").touch()
    (partition.parent / "clicks-1.0123456789abcdef0123456789abcdef-delete").mkdir()
    (partition.parent / "lost+found").mkdir()
    assert main(["log", "verify", str(partition.parent)]) == 0
    assert "note:" not in capsys.readouterr().out
    assert main(["log", "verify", "--notes", str(partition.parent)]) == 0
    said = capsys.readouterr().out
    assert f"{0:020d}.log.deleted: of a deleted segment" in said
    assert "-delete: a deleted partition" in said
    assert "lost+found: a directory that is no partition's" in said


def test_the_directorys_own_files_are_checked(partition: Path, capsys: Capture) -> None:
    (partition.parent / RECOVERY_POINT).write_text("0\n7\nclicks 0 1\n")
    (partition.parent / "meta.properties").write_text("version=9\n")
    assert main(["log", "verify", str(partition.parent)]) == 1
    said = capsys.readouterr().out
    assert "recovery-point-offset-checkpoint: line 2: 7 entries announced, 1 found" in said
    assert "meta.properties: " in said


def test_a_future_replica_and_a_stray_one_are_checked_too(partition: Path, capsys: Capture) -> None:
    damage(partition)
    partition.rename(partition.with_name("clicks-0.0123456789abcdef0123456789abcdef-stray"))
    assert main(["log", "verify", "--notes", str(partition.parent)]) == 1
    said = capsys.readouterr().out
    assert "its checksum is wrong" in said
    assert "has an offset of clicks-0, of which no directory is here" in said


def test_progress_goes_to_standard_error(partition: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_progress, "PROGRESS_FROM_BYTES", 0)
    for command in (("verify",), ("index",), ("compact", "--dry-run")):
        assert main(["log", *command, "--json", str(partition)]) == 0
        said = capsys.readouterr()
        assert json.loads(said.out)
        assert f" KiB: {partition}" in said.err


def test_names_that_are_no_text_are_escaped(partition: Path, capsys: Capture) -> None:
    with open(os.fsencode(partition) + b"/\xff\x1b[2J\n.log", "wb"):
        pass
    os.mkdir(os.fsencode(partition.parent) + b"/\xfe")
    assert main(["log", "verify", "--notes", str(partition.parent)]) == 0
    assert r"\udcff\x1b[2J\n.log: nothing that a broker makes" in capsys.readouterr().out
    assert main(["log", "verify", "--json", str(partition.parent)]) == 0
    assert r"\udcfe" in json.loads(capsys.readouterr().out)[0]["findings"][0]["file"]


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_what_is_no_log_is_refused(name: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["log", "verify", str(tmp_path / name)]) == 2
    assert name in capsys.readouterr().err


def test_beside_a_running_broker_a_torn_tail_is_not_judged(partition: Path, capsys: Capture) -> None:
    last = max(path for path in partition.iterdir() if path.suffix == ".log")
    with last.open("ab") as file:
        file.write(b"\0" * 30)
    assert main(["log", "verify", str(partition)]) == 1
    lock = DirectoryLock(str(partition.parent))
    try:
        assert main(["log", "verify", str(partition)]) == 0
    finally:
        lock.release()
    assert "not judged in part" in capsys.readouterr().out


def test_a_broker_that_starts_meanwhile_is_noticed(
    partition: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with max(path for path in partition.iterdir() if path.suffix == ".log").open("ab") as file:
        file.write(b"\0" * 30)
    holders = [None, 4711]
    monkeypatch.setattr("penstock.server.directory_lock.holder_of", lambda _: holders.pop(0))
    assert main(["log", "verify", str(partition)]) == 0
    assert "the tail, which is being written" in capsys.readouterr().out


def test_asking_who_holds_a_lock_takes_none(tmp_path: Path) -> None:
    """Neither from another process nor from this one."""
    assert holder_of(str(tmp_path)) is None
    assert not os.listdir(tmp_path)
    held = (
        "import sys; from penstock.server.directory_lock import DirectoryLock as L; L(sys.argv[1]); print(flush=True)"
    )
    words = [sys.executable, "-c", f"{held}; sys.stdin.read()", str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        assert holder_of(str(tmp_path)) == process.pid
        process.communicate()
    assert holder_of(str(tmp_path)) is None
    own = DirectoryLock(str(tmp_path))
    assert holder_of(str(tmp_path)) == os.getpid()
    words[2] = "import sys; from penstock.server.directory_lock import holder_of; print(holder_of(sys.argv[1]))"
    assert subprocess.check_output(words, text=True).strip() == str(os.getpid())
    own.release()
