"""Commands that need no broker: storage, config, log dump, doctor, completion, and what `dev` does before it starts."""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import socket
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli import dev, dev_place, doctor
from penstock.cli.main import main
from penstock.errors import ConfigError, StorageError, UsageError
from penstock.log.meta_properties import parse_uuid
from penstock.records.builder import BatchBuilder
from penstock.server.directory_lock import DirectoryLock

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A configuration file of a node with a dynamic quorum and two log directories."""
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=4\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:9093\nnum.network.threads=3\n"
        f"log.dirs={tmp_path}/b,{tmp_path}/a\n"
    )
    return path


def test_format_says_what_it_formatted_in_the_words_of_kafkas_tool(node: Path, capsys: Capture) -> None:
    command = ["storage", "format", "-t", CLUSTER, "-c", str(node), "--standalone"]
    assert main([*command, "--release-version", "4.2"]) == 0
    assert capsys.readouterr().out == (
        f"Formatting data directory {node.parent}/a with metadata.version 4.2-IV1.\n"
        f"Formatting dynamic metadata voter directory {node.parent}/b with metadata.version 4.2-IV1.\n"
    )
    assert main(command) == 1
    assert "is already formatted\n  --ignore-formatted leaves it" in capsys.readouterr().err
    assert main([*command, "--ignore-formatted"]) == 0
    assert capsys.readouterr().out == "All of the log directories are already formatted.\n"
    shutil.rmtree(node.parent / "a")
    assert main([*command, "--ignore-formatted"]) == 0
    assert "data directory" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("extra", "code", "said"),
    [
        ([], 1, "--standalone makes this node the first voter"),
        (["--standalone", "--feature", "group.version=2"], 1, "group.version=2 is not supported: it can be 0 to 1"),
        (["--standalone", "--feature", "group.version"], 2, "it must be NAME=LEVEL"),
        (["--standalone", "--release-version", "3.9"], 1, "metadata.version 3.9 is not supported: choose one of 25"),
    ],
)
def test_format_refuses_and_writes_nothing(extra: list[str], code: int, said: str, node: Path, capsys: Capture) -> None:
    assert main(["storage", "format", "-t", CLUSTER, "-c", str(node), *extra]) == code
    assert said in capsys.readouterr().err
    assert not (node.parent / "b" / "meta.properties").exists()


def test_info_tells_directories_and_their_problems(node: Path, capsys: Capture) -> None:
    assert main(["storage", "info", "-c", str(node)]) == 1
    assert capsys.readouterr().out == (
        f"Found problems:\n  {node.parent}/a does not exist\n  {node.parent}/b does not exist\n"
    )
    main(["storage", "format", "-t", CLUSTER, "-c", str(node), "--standalone"])
    capsys.readouterr()
    assert main(["storage", "info", "-c", str(node), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["cluster.id"], each["node.id"]) for each in found["directories"]] == [(CLUSTER, 4)] * 2
    assert found["problems"] == []
    meta = node.parent / "a" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=4", "node.id=5"))
    assert main(["storage", "info", "-c", str(node)]) == 1
    assert "the directories belong to different nodes" in capsys.readouterr().out


def test_random_uuids_are_kafkas_and_differ(capsys: Capture) -> None:
    main(["storage", "random-uuid"])
    main(["storage", "random-uuid"])
    first, second = capsys.readouterr().out.split()
    assert parse_uuid(first) != parse_uuid(second)


def test_config_check_says_what_a_file_comes_to(node: Path, capsys: Capture) -> None:
    assert main(["config", "check", str(node)]) == 0
    said = capsys.readouterr().out
    assert "ignored, as they mean nothing here: num.network.threads" in said
    assert "node 4, broker and controller" in said
    assert main(["config", "check", str(node), "--override", "log.segment.bytes=10k"]) == 1
    said = capsys.readouterr().err
    assert 'log.segment.bytes = "10k" is not an integer' in said
    assert said.endswith("\n  in --override\n")
    node.write_text(node.read_text() + "log.segment.byte=1\n")
    assert main(["config", "check", str(node), "--json"]) == 0
    assert "did you mean log.segment.bytes" in json.loads(capsys.readouterr().out)["warnings"][0]
    assert main(["config", "check", str(node), "--strict"]) == 1
    assert "line 8" in capsys.readouterr().err


def test_config_check_of_no_file_is_json_too(tmp_path: Path, capsys: Capture) -> None:
    assert main(["config", "check", str(tmp_path / "none"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "errors": [f"cannot read {tmp_path / 'none'}: no such file or directory"]
    }


STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_config_check_says_all_that_is_wrong_and_where(node: Path, capsys: Capture) -> None:
    right = node.read_text()
    wrong = [
        "log.segment.bytes=10k",
        "authorizer.class.name=com.example.Authorizer",
        "replica.fetch.wait.max.ms=60000",
        "replica.socket.timeout.ms=40000",
        "metric.reporters=com.example.Reporter",
    ]
    node.write_text(right + "\n".join(wrong) + "\n")
    first = right.count("\n") + 1
    assert main(["config", "check", str(node)]) == 1
    said = capsys.readouterr().err
    assert said.count("error: ") == 4
    assert f"it must be at least 1 MiB (1048576)\n  in {node}, line {first}\n" in said
    assert f"it must be {STANDARD_AUTHORIZER}\n  in {node}, line {first + 1}\n" in said
    assert f"in {node}, lines {first + 2} and {first + 3}\n" in said
    assert main(["config", "check", str(node), "--json"]) == 1
    printed = capsys.readouterr()
    assert printed.err == ""
    assert len(json.loads(printed.out)["errors"]) == 4
    node.write_text(right.replace("PLAINTEXT://", "SSL://", 1))
    assert main(["config", "check", str(node)]) == 1
    said = capsys.readouterr().err
    assert "listeners has SSL for clients: inter.broker.listener.name = PLAINTEXT must be one of them" in said
    assert f"in {node}, line 4\n" in said
    node.write_text(node.read_text() + "inter.broker.listener.name=SSL\n")
    assert main(["config", "check", str(node)]) == 0


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    """A segment of two batches."""
    path = tmp_path / "00000000000000000000.log"
    data = bytearray()
    for base_offset in (0, 2):
        builder = BatchBuilder(base_offset=base_offset, leader_epoch=3)
        builder.append(1_700_000_000_000, b"key", b"value", [("h", b"x"), ("h", b"y")])
        builder.append(1_700_000_000_000, None, b"\xff")
        data += builder.build()
    path.write_bytes(data)
    return path


def test_log_dump_shows_batches_and_records(log_file: Path, capsys: Capture) -> None:
    assert main(["log", "dump", "--records", str(log_file)]) == 0
    said = capsys.readouterr().out
    assert "offsets 2-3  records_in_batch 2" in said
    assert "offset 0  timestamp_ms 1700000000000  key 'key'  value 'value'  headers 'h'='x', 'h'='y'" in said
    assert main(["log", "dump", "--json", str(log_file)]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert [(line["offsets"], line["leader_epoch"]) for line in lines] == [("0-1", 3), ("2-3", 3)]
    assert main(["log", "dump", "--json", "--records", str(log_file)]) == 0
    first = json.loads(capsys.readouterr().out)[0]["records"][0]
    assert first["headers"] == [["h", "x"], ["h", "y"]]


def test_log_dump_verify_finds_a_flipped_bit(log_file: Path, capsys: Capture) -> None:
    assert main(["log", "dump", "--verify", str(log_file)]) == 0
    assert "is in order" in capsys.readouterr().out
    data = bytearray(log_file.read_bytes())
    data[70] ^= 1
    log_file.write_bytes(data)
    assert main(["log", "dump", "--verify", str(log_file)]) == 1
    assert "PROBLEM: its checksum is wrong" in capsys.readouterr().out


def test_log_dump_refuses_files_that_are_no_logs(log_file: Path, capsys: Capture) -> None:
    assert main(["log", "dump", "/etc/hostname"]) == 2
    assert "is not a file of a log" in capsys.readouterr().err
    assert main(["log", "dump", str(log_file.with_name("00000000000000000007.log"))]) == 2
    assert "there is no such file" in capsys.readouterr().err
    index = log_file.with_suffix(".index")
    index.write_bytes(bytes(8))
    log_file.unlink()
    assert main(["log", "dump", "--verify", str(index)]) == 2
    assert "needs 00000000000000000000.log beside it" in capsys.readouterr().err


def test_a_damaged_snapshot_is_a_problem(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "00000000000000000009.snapshot"
    path.write_bytes(bytes(20))
    assert main(["log", "dump", str(path)]) == 1
    assert "PROBLEM" in capsys.readouterr().out


def test_doctor_finds_nothing_wrong_here(tmp_path: Path, capsys: Capture) -> None:
    assert main(["doctor", "--data", str(tmp_path / "not" / "yet"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"python", "descriptors", "memory", "clock", "event loop", "log cleaner"} <= {
        each["subject"] for each in found
    }
    assert list(tmp_path.iterdir()) == []


def test_doctor_says_what_to_fix(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "FREE_NEEDED_BYTES", 1 << 60)
    config = tmp_path / "server.properties"
    config.write_text("node.id=x\n")
    assert main(["doctor", "--data", str(tmp_path), "--config", str(config)]) == 1
    said = capsys.readouterr().out
    assert "make room: at least" in said
    assert f"penstock config check {config}" in said
    assert said.endswith("\n2 to fix first\n")


def test_doctor_says_what_it_costs_to_be_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numba" else find_spec(name))
    found = doctor.check_cleaner()
    assert (found.state.value, found.found) == ("look", "in plain Python")
    assert found.remedy.startswith(
        "pip install 'penstock[kernels]' makes compaction about 40 times as fast, and recovery 20 "
    )


@pytest.mark.parametrize(
    ("arguments", "flag", "state"),
    [
        ("'--enable-optimizations' '--with-lto'", "-fprofile-use", "ok"),
        ("", "-fprofile-use", "look"),
        ("'--enable-shared'", "", "ok"),  # Debian's
        (None, None, "look"),
    ],
)
def test_doctor_tells_a_python_that_was_built_without_pgo(
    arguments: str | None, flag: str | None, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", {"CONFIG_ARGS": arguments, "PGO_PROF_USE_FLAG": flag}.get)
    found = doctor.check_python()
    assert found.state.value == state
    assert ("without PGO" in found.found) == ("--enable-optimizations" in found.remedy) == (state == "look")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_action(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("random-uuid", "replication-factor", "snappy", "describe"):
        assert word in script, word


def completed(script: str, *words: str) -> list[str]:
    """What bash proposes for the last of the words."""
    listed = " ".join(f"'{word}'" for word in words)
    command = (
        f'{script}\nCOMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _penstock; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_commands_actions_options_and_values(capsys: Capture) -> None:
    main(["completion", "bash"])
    script = capsys.readouterr().out
    assert completed(script, "penstock", "to") == ["topics", "tokens"]
    assert completed(script, "penstock", "topics", "de") == ["describe", "delete"]
    assert completed(script, "penstock", "topics", "create", "x", "--repli") == [
        "--replication-factor",
        "--replica-assignment",
    ]
    assert completed(script, "penstock", "produce", "x", "--compression", "") == [
        "none", "gzip", "snappy", "lz4", "zstd"
    ]  # fmt: skip
    script += '\npenstock() { [[ "$*" == "completion topics" ]] && echo "clicks orders"; }'
    assert completed(script, "penstock", "consume", "cl") == ["clicks"]
    assert completed(script, "penstock", "groups", "delete", "g", "--topic", "") == ["clicks", "orders"]
    assert completed(script, "penstock", "topics", "create", "x", "--config", "") == []
    assert completed(script, "penstock", "consume", "x", "--print", "") == []


def test_completion_of_topics_is_silent_without_a_broker(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for nobody in ("127.0.0.1:1", "nonsense"):
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", nobody)
        assert main(["completion", "topics"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on, with a free one after it (as far as that can be known)."""
    with socket.socket() as listening:
        listening.bind((dev.HOST, 0))
        listening.listen(1)
        yield listening.getsockname()[1]


def test_dev_takes_the_next_free_port_and_says_so(taken: int) -> None:
    notes: dict[str, str] = {}
    assert taken < dev_place.choose_port(None, taken, "--port", "bootstrap", notes) <= taken + dev_place.PORTS_TRIED
    assert notes == {"bootstrap": f"port {taken} is taken"}
    with pytest.raises(ConfigError, match=f"port {taken} is taken: choose another --port"):
        dev_place.choose_port(taken, 9092, "--port", "bootstrap", notes)
    assert dev_place.choose_port(0, taken, "--port", "bootstrap", notes) == 0
    with pytest.raises(UsageError, match="--port 70000 is not a port"):
        dev_place.choose_port(70_000, 9092, "--port", "bootstrap", notes)


def test_dev_takes_the_next_data_directory_when_another_has_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    notes: dict[str, str] = {}
    usual = dev.free_data_directory(notes)
    assert (usual, notes) == (str(tmp_path / "penstock" / "dev"), {})
    lock = DirectoryLock(usual)
    try:
        assert dev.free_data_directory(notes) == f"{usual}-2"
        assert notes == {"data": "another penstock dev has the usual one"}
        with pytest.raises(StorageError):
            dev.find_place(argparse.Namespace(data=usual, port=0, metrics_port=0))
    finally:
        lock.release()
