"""`penstock log compact` on real files: reports, copies that our recovery accepts, and bad input."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import sys
from pathlib import Path

import pytest
from support.compaction import History, records_in
from support.logs import NOW_MS, topic_config

from penstock.cli import log_progress
from penstock.cli.main import main
from penstock.log.loading import OpenArguments
from penstock.log.names import parse_name
from penstock.log.recovery import recover_log
from penstock.server.disk import BlockingDisk

Capture = pytest.CaptureFixture[str]
LOG = f"{0:020d}.log"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition's directory with 40 records of 4 keys in two closed segments and an active one."""
    history = History.empty()
    for number in range(20):
        history.append([(b"%d" % (number % 3), b"%d" % number), (b"d", None)])
        if number in (9, 17):
            history.roll()
    history.one.close()
    for path in history.one.disk.paths():
        target = tmp_path / "data" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(history.one.disk.content(path))
    return tmp_path / "data" / history.one.name


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_dry_run_says_what_would_go_and_touches_nothing(partition: Path, capsys: Capture) -> None:
    before = contents(partition.parent)
    assert main(["log", "compact", "--dry-run", str(partition)]) == 0
    said = capsys.readouterr().out
    assert "would remove 32 of 36 records" in said
    assert "4 keys from offset 0 to 36" in said
    assert "0 to 20 (2)" in said
    assert contents(partition.parent) == before


def test_its_json_has_every_figure(partition: Path, capsys: Capture) -> None:
    assert main(["log", "compact", "--dry-run", "--json", str(partition), "--config", "segment.bytes=1048576"]) == 0
    [report] = json.loads(capsys.readouterr().out)
    [group] = report["groups"]
    assert (group["before"]["records"], group["after"]["records"], group["removed"]) == (36, 4, 32)
    assert (group["superseded"], group["kept_tombstones"], report["keys"]) == (32, 1, 4)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("is_copied", [False, True], ids=["a dry run", "a copy"])
def test_on_a_terminal_it_shows_how_far_it_is(
    is_copied: bool, partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_progress, "PROGRESS_FROM_BYTES", 0)
    monkeypatch.setattr(log_progress, "REDRAW_S", 0)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    words = ["--to", str(tmp_path / "out")] if is_copied else ["--dry-run"]
    assert main(["log", "compact", *words, str(partition)]) == 0
    shown = [int(percent) for percent in re.findall(r"(\d+) % of [^:]*: /", terminal.getvalue())]
    assert shown == sorted(shown), "it only grows"
    assert 0 < shown[0] < 50
    assert shown[-1] == 100
    assert terminal.getvalue().endswith("\x1b[1A\x1b[J"), "and is taken away"


def test_a_copy_that_fails_leaves_nothing_that_looks_like_a_log(
    partition: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("penstock.log.compaction.copying.copy_file", full)
    out = tmp_path / "out"
    assert main(["log", "compact", "--to", str(out), str(partition)]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert list(out.iterdir()) == []


def test_a_copy_that_was_killed_is_not_gone_on_with(partition: Path, tmp_path: Path, capsys: Capture) -> None:
    left = tmp_path / "out" / f"{partition.name}.partial"
    left.mkdir(parents=True)
    assert main(["log", "compact", "--to", str(left.parent), str(partition)]) == 2
    assert f"{left.name} is of a copy that did not end; remove it" in capsys.readouterr().err
    assert parse_name(left.name) is None, "no broker takes it for a partition's"


def test_a_copy_is_a_whole_log_that_recovery_accepts(partition: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    before = contents(partition.parent)
    assert main(["log", "compact", "--to", str(out), str(partition)]) == 0
    assert "removed 32 of 36 records" in capsys.readouterr().out
    assert contents(partition.parent) == before
    indexes = [str(path) for path in sorted(out.rglob("*.*index"))]
    assert main(["log", "dump", "--verify", *indexes, *map(str, sorted(out.rglob("*.log")))]) == 0
    disk = BlockingDisk(0, str(out))
    arguments = OpenArguments(partition.name, topic_config(cleanup_policy=("compact",)), 0, 0, NOW_MS)
    recovered = recover_log(disk, arguments)
    disk.close()
    assert (recovered.log_end_offset, recovered.cut_bytes, recovered.lost) == (40, 0, [])
    kept = [(each.key, each.value) for each in records_in(disk, partition.name) if each.offset < 36]
    disk.close()
    assert kept == [(b"0", b"15"), (b"1", b"16"), (b"2", b"17"), (b"d", None)]


def test_checkpoints_beside_the_log_bound_the_pass(partition: Path, capsys: Capture) -> None:
    def checkpoint(file: str, offset: int) -> None:
        partition.with_name(file).write_text(f"0\n1\nclicks 0 {offset}\n")

    checkpoint("replication-offset-checkpoint", 35)
    assert main(["log", "compact", "--dry-run", str(partition)]) == 0
    assert "4 keys from offset 0 to 20" in capsys.readouterr().out
    checkpoint("replication-offset-checkpoint", 36)
    checkpoint("cleaner-offset-checkpoint", 20)
    assert main(["log", "compact", "--dry-run", str(partition)]) == 0
    assert "4 keys from offset 20 to 36" in capsys.readouterr().out
    partition.with_name("cleaner-offset-checkpoint").write_text("7\n")
    partition.with_name("replication-offset-checkpoint").write_text("7\n1\nx\n")
    assert main(["log", "compact", "--dry-run", str(partition)]) == 2
    assert "replication-offset-checkpoint beside clicks-0: line 1" in capsys.readouterr().err


def test_damage_is_said_and_the_exit_code_tells(partition: Path, capsys: Capture) -> None:
    data = bytearray((partition / LOG).read_bytes())
    data[-1] ^= 1
    (partition / LOG).write_bytes(data)
    assert main(["log", "compact", "--dry-run", str(partition)]) == 1
    assert "the batch at offset 18 is kept as it is: its checksum is wrong" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--dry-run", "{partition}/nowhere"], 2, "there is no such directory"),
        (["--dry-run", "{partition}/.."], 2, "its name should be TOPIC-PARTITION"),
        (["--dry-run", "{empty}"], 2, "has no segments"),
        (["--dry-run", "{partition}", "--buffer-mb", "0"], 1, "has no room for a single key"),
        (["--dry-run", "{partition}", "--buffer-mb", "65537"], 2, "65537 is more than 65536"),
        (["--dry-run", "{partition}", "--config", "segment.byte=1"], 1, "did you mean segment.bytes"),
        (["--to", "{partition}/..", "{partition}"], 2, "it has a clicks-0 already"),
        (["--to", "{partition}/" + LOG, "{partition}"], 2, "it is not a directory"),
        (["--to", "{partition}", "{partition}"], 2, "/clicks-0, which stays as it is"),
        (["--to", "{partition}/a/b", "{partition}"], 2, "/clicks-0, which stays as it is"),
        (["--to", "", "{partition}"], 2, "--to names no directory"),
        (["--to", "{empty}/out", "{partition}", "{partition}"], 2, "two of the directories are named clicks-0"),
    ],
)
def test_bad_input_is_refused(words: list[str], code: int, said: str, partition: Path, capsys: Capture) -> None:
    empty = partition.with_name("empty-0")
    empty.mkdir()
    assert main(["log", "compact", *(word.format(partition=partition, empty=empty) for word in words)]) == code
    assert said in capsys.readouterr().err


def test_a_buffer_for_which_there_is_no_memory_is_refused(
    partition: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("penstock.log.compaction.maps.offset_map", none_left)
    assert main(["log", "compact", "--dry-run", str(partition)]) == 2
    assert "--buffer-mb 128 is more memory than there is" in capsys.readouterr().err


def test_it_never_works_in_place(partition: Path, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["log", "compact", str(partition)])
    assert refused.value.code == 2
    assert "one of the arguments --dry-run --to is required" in capsys.readouterr().err


def test_a_log_that_must_be_recovered_first_is_said(partition: Path, capsys: Capture) -> None:
    (partition / LOG).with_suffix(".index").unlink()
    assert main(["log", "compact", "--dry-run", str(partition)]) == 1
    assert "must be recovered before it is opened" in capsys.readouterr().err


def test_a_dry_run_says_when_a_broker_has_no_room(
    partition: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["log", "compact", "--dry-run", str(partition)]
    largest = max(path.stat().st_size for path in partition.glob("*.log"))
    monkeypatch.setattr(BlockingDisk, "total_bytes", lambda disk: 1 << 40)
    monkeypatch.setattr(BlockingDisk, "free_bytes", lambda disk: 2 * largest)
    assert main(words) == 0
    assert "a broker" not in capsys.readouterr().out
    monkeypatch.setattr(BlockingDisk, "free_bytes", lambda disk: largest)
    assert main(words) == 0
    said = capsys.readouterr().out
    assert f"a broker cannot clean it now: {largest} bytes are free" in said
    assert f"{2 * largest} free bytes would do" in said
    assert main([*words, "--json"]) == 0
    [report] = json.loads(capsys.readouterr().out)
    assert report["no_room"].endswith("would do")
