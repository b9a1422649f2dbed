"""`penstock users` and the first users of `penstock storage format`, as a person types them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.testing.broker import LocalBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def users(broker: LocalBroker, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["users", *arguments, "--bootstrap", broker.bootstrap])
    out, err = capsys.readouterr()
    assert "canary" not in out + err
    return code, out + err


def test_a_user_comes_changes_and_goes(broker: LocalBroker, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("canary\n")
    assert users(broker, capsys, "list") == (0, "no user has a SCRAM password\n")
    code, said = users(broker, capsys, "add", "alice", "--password-file", str(file))
    assert (code, said) == (0, "password of alice set for SCRAM-SHA-256 and SCRAM-SHA-512\n")
    users(broker, capsys, "add", "alice", "--password-file", str(file), "--mechanism", "SCRAM-SHA-512",
          "--iterations", "8192")  # fmt: skip
    _, said = users(broker, capsys, "list", "--json")
    assert json.loads(said) == [
        {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4096},
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 8192},
    ]
    assert users(broker, capsys, "remove", "alice", "--mechanism", "SCRAM-SHA-256")[0] == 0
    assert users(broker, capsys, "remove", "alice") == (0, "password of alice removed for SCRAM-SHA-512\n")
    code, said = users(broker, capsys, "remove", "alice")
    assert code == 1
    assert "does not exist" in said


def test_what_cannot_be_is_refused(broker: LocalBroker, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    assert users(broker, capsys, "add", "bob", "--password-file", str(empty))[0] == 2
    assert users(broker, capsys, "add", "bob", "--password-file", str(tmp_path / "none"))[0] == 2
    empty.write_text("canary")
    assert users(broker, capsys, "add", "bob", "--password-file", str(empty), "--iterations", "4095")[0] == 2
    assert users(broker, capsys, "add", "", "--password-file", str(empty))[0] == 2


def test_a_node_begins_with_the_users_that_it_was_formatted_with(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    properties = tmp_path / "server.properties"
    data = tmp_path / "data"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        f"controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:0\nlog.dirs={data}\n"
    )
    options = ["storage", "format", "-t", "XQ3xXQ3xRfWTb1cQ8RBv5A", "-c", str(properties), "--standalone"]
    assert main([*options, "--add-scram", "SCRAM-SHA-256=[name=alice]"]) == 2
    assert not data.exists()
    assert main([*options, "--add-scram", "SCRAM-SHA-256=[name=alice,password=canary]"]) == 0
    with LocalBroker(data_dir=data) as broker:
        assert users(broker, capsys, "list")[1].split()[3:] == ["alice", "SCRAM-SHA-256", "4096"]
