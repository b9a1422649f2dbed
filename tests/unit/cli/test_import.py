"""`penstock import`: what is chosen of a directory, which topics will do, and what is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.legacy import NONE, Kept, message, message_set, write_log

from penstock.cli import import_job
from penstock.cli.import_job import MapFile, check_configs
from penstock.cli.importing import choose
from penstock.cli.main import main
from penstock.cli.output import size_text
from penstock.cli.progress import Lines
from penstock.errors import UsageError


def logs(*names: tuple[str | None, int]) -> list[Any]:
    return [SimpleNamespace(topic=topic, partition=partition, fault=None) for topic, partition in names]


def arguments(**changes: Any) -> Namespace:
    return Namespace(**{"directory": "old", "topic": "clicks", "from_topic": None, "partition": None, **changes})


def chosen(found: list[Any], **changes: Any) -> list[tuple[int, str | None]]:
    return [(partition, log.topic) for partition, log in choose(found, arguments(**changes))]


def test_the_topic_of_the_same_name_is_taken_or_the_only_one_or_the_one_named() -> None:
    both = logs(("clicks", 0), ("clicks", 1), ("mails", 0))
    assert chosen(both) == [(0, "clicks"), (1, "clicks")]
    assert chosen(both, from_topic="mails") == [(0, "mails")]
    assert chosen(logs(("mails", 2))) == [(2, "mails")]
    assert chosen(logs(("mails", 2)), partition=0) == [(0, "mails")]
    assert chosen(logs((None, 0)), partition=5) == [(5, None)]
    both[2].fault = "it is broken"
    assert chosen(both) == [(0, "clicks"), (1, "clicks")]
    with pytest.raises(UsageError, match="old: it is broken"):
        choose(both, arguments(from_topic="mails"))
    with pytest.raises(UsageError, match="old has topics clicks, mails: which one"):
        choose(both, arguments(topic="new"))
    with pytest.raises(UsageError, match="--from-topic other: old has topics clicks, mails"):
        choose(both, arguments(from_topic="other"))
    with pytest.raises(UsageError, match="is for one partition, and clicks has 2"):
        choose(both, arguments(partition=1))
    with pytest.raises(UsageError, match="partitions count from 0"):
        choose(logs(("clicks", 0)), arguments(partition=-1))


def test_a_partition_that_is_there_twice_or_cannot_be_is_refused() -> None:
    """`clicks-0` and `clicks-00`: both would be appended to one partition, as if they were the same records."""
    with pytest.raises(UsageError, match="old has two directories of partition 0 of clicks"):
        choose(logs(("clicks", 0), ("clicks", 0), ("clicks", 1)), arguments())
    with pytest.raises(UsageError, match="clicks-2147483647: no topic has so many partitions"):
        choose(logs(("clicks", 2**31 - 1)), arguments())
    with pytest.raises(UsageError, match="clicks-99999999999: no topic has so many partitions"):
        choose(logs(("clicks", 0)), arguments(partition=99_999_999_999))
    assert chosen(logs(("clicks", 2**31 - 1)), partition=0) == [(0, "clicks")]


def test_a_partition_that_is_a_link_keeps_the_number_that_it_has_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = write_log(tmp_path / "moved", [(0, message(0, b"k", b"v"))])
    link = tmp_path / "clicks-7"
    link.symlink_to(elsewhere)
    assert main(["import", f"{link}/", "clicks", "--dry-run"]) == 0
    assert "clicks-7: 1 record" in capsys.readouterr().out
    other = tmp_path / "current"
    other.symlink_to(write_log(tmp_path / "old" / "clicks-3", [(0, message(0, b"k", b"v"))]))
    assert main(["import", str(other), "clicks", "--dry-run"]) == 0
    assert "clicks-3: 1 record" in capsys.readouterr().out


KEEPS_ALL = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({"cleanup.policy": "compact,delete"}, "is compacted"),
        ({"message.timestamp.type": "LogAppendTime"}, "times would not be kept"),
        ({"retention.ms": "1000"}, "--add retention.ms=-1\n"),
        ({"retention.bytes": "7", "retention.ms": "1"}, "--add retention.ms=-1 --add retention.bytes=-1"),
    ],
)
def test_a_topic_in_which_not_all_would_stay_is_refused(configs: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as raised:
        check_configs("clicks", {**KEEPS_ALL, **configs}, allow_retention=False)
    assert said in str(raised.value)


def test_retention_can_be_accepted() -> None:
    check_configs("clicks", {**KEEPS_ALL, "retention.ms": "1000"}, allow_retention=True)
    check_configs("clicks", KEEPS_ALL, allow_retention=False)


def test_a_map_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "map.csv"
    with MapFile(str(path)) as offsets:  # of an import that does not end
        part = offsets.begin(0)
        assert part is not None
        part.write("clicks,0,0,0,1\n")
    assert list(tmp_path.iterdir()) == []
    with MapFile(str(path)) as offsets:
        for _ in range(2):  # a pass that begins anew writes its part anew
            for partition in (1, 0):
                part = offsets.begin(partition)
                assert part is not None
                part.write(f"clicks,{partition},0,0,1\n")
                offsets.end(partition)
        offsets.finish([0, 1])
    assert path.read_text() == "topic,partition,old_offset,new_offset,records\nclicks,0,0,0,1\nclicks,1,0,0,1\n"
    assert [each.name for each in tmp_path.iterdir()] == ["map.csv"]


def test_one_run_at_a_time_writes_a_map(tmp_path: Path) -> None:
    """The second cut the parts of the first, whose map then had a hole of zeros."""
    path = tmp_path / "map.csv"
    with MapFile(str(path)) as first:
        with pytest.raises(UsageError, match=r"map\.csv: another import is writing it"), MapFile(str(path)):
            pass
        assert first.begin(0) is not None
        first.end(0)
        first.finish([0])
    with pytest.raises(UsageError, match="it is a directory"), MapFile(str(tmp_path)):
        pass
    (tmp_path / "map.csv.partial").mkdir()  # of a run that was killed
    with MapFile(str(path)):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["map.csv"]


def test_a_directory_may_have_more_files_than_can_be_open(tmp_path: Path) -> None:
    for partition in range(120):
        write_log(tmp_path / "old" / f"clicks-{partition}", [(0, message(0, b"k", b"v"))])
    words = [sys.executable, "-m", "penstock", "import", "old", "clicks", "--dry-run", "--offset-map", "map.csv"]
    limited = ["sh", "-c", 'ulimit -n 100; exec "$@"', "sh", *words]
    done = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "120 partitions: 120 records, 240 B"), done.stderr
    assert len((tmp_path / "map.csv").read_text().splitlines()) == 241


def test_a_dry_run_asks_no_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = [Kept(offset, 5, b"k", b"value") for offset in range(3)]
    write_log(tmp_path / "clicks-0", [(0, message_set("aiokafka", 1, NONE, records[:1]))])
    write_log(tmp_path / "clicks-1", [(0, message_set("aiokafka", 1, NONE, records[:1]))])
    words = ["import", str(tmp_path), "clicks", "--dry-run", "--bootstrap", "127.0.0.1:1"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "clicks-0: 1 record, 6 B of keys and values" in out
    assert "2 partitions: 2 records, 12 B" in out
    assert main([*words, "--verify"]) == 2
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    one, other = json.loads(capsys.readouterr().out)
    assert one["checksum"] == other["checksum"]
    assert (one["records"], one["data_bytes"], one["there_before"], one["kafka"]) == (1, 6, None, "0.8 to 0.10")


def test_damage_is_named_and_the_exit_code_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(message(0, b"k", b"first") + message(1, b"k", b"second") + message(2, None, b"", timestamp_ms=-9))
    data[36] ^= 1
    log = write_log(tmp_path / "clicks-0", [(0, bytes(data))])
    assert main(["import", str(log), "clicks", "--dry-run"]) == 1
    out = capsys.readouterr().out
    assert "DAMAGED: 1 place, 40 bytes passed over" in out
    assert "00000000000000000000.log, byte 0, 40 bytes: a message of 40 bytes does not have its checksum" in out
    assert "1 time before 1970; the records were kept without" in out


def test_a_name_that_is_no_text_is_said_all_the_same(tmp_path: Path) -> None:
    """Kafka 0.7 took any name for a topic; the report on what was damaged ended in an exception."""
    name = os.fsdecode(b"cl\xffcks")
    write_log(tmp_path / f"{name}-0", [(0, message(0, b"k", b"v")[:-1] + b"x")])
    words = [sys.executable, "-m", "penstock", "import", ".", "clicks", "--from-topic", name, "--dry-run"]
    strict = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(words, cwd=tmp_path, env=strict, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert r"cl\udcffcks-0/00000000000000000000.log, byte 0" in done.stdout


def test_what_is_no_old_log_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(tmp_path / "none"), "clicks", "--dry-run"]) == 2
    assert "there is no such directory" in capsys.readouterr().err
    assert main(["import", str(tmp_path), "clicks", "--dry-run"]) == 2
    assert f"{tmp_path}: no log of Kafka 0.7 to 0.10 is there" in capsys.readouterr().err


def test_a_dry_run_shows_how_far_it_is_on_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for step, every_s in (("DRY_RUN_STEP", 1), ("PROGRESS_EVERY_S", -1)):
        monkeypatch.setattr(import_job, step, every_s)
    shown: list[list[str]] = []
    show = Lines.show

    def noted(lines: Lines, texts: list[str], *, last: bool = False) -> None:
        shown.append(list(texts))
        show(lines, texts, last=last)

    monkeypatch.setattr(Lines, "show", noted)
    for partition in range(2):
        write_log(tmp_path / f"clicks-{partition}", [(0, b"".join(message(each, b"k", b"v") for each in range(4)))])
    assert main(["import", str(tmp_path), "clicks", "--dry-run", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)
    assert shown[0][1] == "clicks-1: waits"
    assert "clicks-0: 2 records, " in "\n".join(shown[1]), "while the first is read"
    assert shown[-1] == [f"clicks-{each}: 4 records, 100% of {size_text(144)} read" for each in range(2)]
    assert said.err.splitlines()[-2:] == shown[-1]
