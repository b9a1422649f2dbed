"""Guardian as processes: three nodes of which the leader is killed, and what a person types wrongly."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.guardian_process import GUARDIAN_ID, Guardian
from support.processes import PENSTOCK, free_ports, wait_until

from penstock.cli.main import main

FAILOVER_S = 3.0


@pytest.fixture
def guardian(tmp_path: Path) -> Iterator[Guardian]:
    found = Guardian(tmp_path)
    yield found
    for node_id in list(found.processes):
        found.kill(node_id)


@pytest.fixture
def said(guardian: Guardian, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `penstock guardian clusters` with words: its exit code, and all that it says."""

    def run(*words: str, at: str | None = None) -> tuple[int, str]:
        capsys.readouterr()
        code = main(["guardian", "clusters", *words, "--guardian", at or guardian.addresses])
        return code, "".join(capsys.readouterr())

    return run


def listed(said: Any, at: str | None = None) -> dict[str, Any]:
    code, text = said("list", "--json", at=at)
    assert code == 0, text
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.slow
def test_three_nodes_survive_their_leader_and_a_restart(guardian: Guardian, said: Any) -> None:
    guardian.format()
    for node_id in guardian.ports:
        guardian.start(node_id)
    assert said("add", "clicks", "--bootstrap", "10.0.0.7:9092", "--idc", "north", "--label", "team=web") == (
        0,
        "Registered cluster clicks.\n",
    )
    assert said("add", "clicks", "--bootstrap", "10.0.0.8:9092") == (1, "error: cluster clicks is registered already\n")
    for port in guardian.ports.values():  # each node answers, and says of when; a change is handed on
        wait_until(lambda at=f"127.0.0.1:{port}": "clicks" in str(listed(said, at)), "all nodes know it")  # type: ignore[misc]
        assert 0 <= listed(said, f"127.0.0.1:{port}")["age_ms"] < 5_000
        assert said("set-mode", "clicks", "heal=advise", at=f"127.0.0.1:{port}")[0] == 0
    for number in range(3):
        leader_id = listed(said)["leader"]
        guardian.kill(leader_id)
        began_s = time.monotonic()
        assert said("add", f"later-{number}", "--bootstrap", f"h{number}:9092", "--timeout", "10")[0] == 0
        assert time.monotonic() - began_s < FAILOVER_S
        guardian.start(leader_id)
        again = f"127.0.0.1:{guardian.ports[leader_id]}"  # with two of three away nobody leads
        wait_until(lambda at=again, name=f"later-{number}": name in str(listed(said, at)), "it has caught up")  # type: ignore[misc]
    assert guardian.stop() == [0, 0, 0]
    for node_id in guardian.ports:
        guardian.start(node_id)
    clusters = {each["name"]: each for each in listed(said)["clusters"]}
    assert list(clusters) == ["clicks", "later-0", "later-1", "later-2"]
    assert clusters["clicks"]["modes"] == {
        "balance": "observe", "leaders": "observe", "topics": "observe", "throttle": "observe", "heal": "advise"
    }  # fmt: skip
    assert clusters["clicks"]["labels"] == {"team": "web"}
    assert said("remove", "clicks") == (0, "Removed cluster clicks.\n")
    assert "clicks" not in said("list")[1]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What `penstock guardian` says to words that it refuses. A node sets up the logging of its process."""
    if words[0] == "start":
        done = subprocess.run([*PENSTOCK, "guardian", *words], capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode != 0
        return done.stderr
    capsys.readouterr()
    assert main(["guardian", *words]) != 0
    return capsys.readouterr().err


def test_a_directory_is_formatted_once_and_is_guardians_alone(
    guardian: Guardian, capsys: pytest.CaptureFixture[str]
) -> None:
    first = str(guardian.file(1))
    assert "needs one id for all of them" in refused(capsys, "format", first)
    assert "is not a UUID" in refused(capsys, "format", first, "--guardian-id", "short")
    assert "is not formatted" in refused(capsys, "start", first)
    guardian.data(2).mkdir(exist_ok=True)
    (guardian.data(2) / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    second = str(guardian.file(2))
    assert "log directory of a broker" in refused(capsys, "format", second, "--guardian-id", GUARDIAN_ID)
    assert "log directory of a broker or controller, not one of Guardian" in refused(capsys, "start", second)
    guardian.data(3).mkdir()
    (guardian.data(3) / "photos").mkdir()
    third = str(guardian.file(3))
    assert "is not empty: it has photos" in refused(capsys, "format", third, "--guardian-id", GUARDIAN_ID)
    assert main(["guardian", "format", first, "--guardian-id", GUARDIAN_ID]) == 0
    assert "is formatted already" in refused(capsys, "format", first, "--guardian-id", GUARDIAN_ID)


def test_a_node_of_other_voters_or_another_id_does_not_start(
    guardian: Guardian, capsys: pytest.CaptureFixture[str]
) -> None:
    guardian.format()
    text = guardian.file(1).read_text()
    ports = guardian.ports
    alone = guardian.directory / "alone.properties"
    alone.write_text(f"{text}penstock.guardian.voters=1@127.0.0.1:{ports[1]}\n")
    assert "was formatted for nodes 1, 2, 3" in refused(capsys, "start", str(alone))
    other = guardian.directory / "other.properties"
    other.write_text(f"{text}penstock.guardian.node.id=2\n")
    assert "belongs to node 1, and penstock.guardian.node.id is 2" in refused(capsys, "start", str(other))
    wrong = guardian.directory / "wrong.properties"
    wrong.write_text(f"{text}penstock.guardian.electiontimeout.ms=5\n")
    said = refused(capsys, "start", str(wrong))
    assert "did you mean penstock.guardian.election.timeout.ms?" in said
    assert "wrong.properties, line 5" in said


def test_a_damaged_log_is_not_opened(guardian: Guardian, said: Any, capsys: pytest.CaptureFixture[str]) -> None:
    alone = Guardian(guardian.directory, nodes=1)
    alone.format()
    alone.start(1)
    try:
        assert said("add", "clicks", "--bootstrap", "h:9092", at=alone.addresses)[0] == 0
    finally:
        assert alone.stop() == [0]
    log = alone.data(1) / "__guardian_log-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[-10] ^= 0xFF
    log.write_bytes(data)
    assert "__guardian_log-0 is damaged" in refused(capsys, "start", str(alone.file(1)))
    identity = alone.data(1) / "guardian.properties"
    identity.write_text("version=1\n")
    assert "guardian.properties is damaged" in refused(capsys, "start", str(alone.file(1)))


def test_nobody_there_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    said = refused(capsys, "clusters", "list", "--guardian", f"127.0.0.1:{port}", "--timeout", "0.2")
    assert "Guardian did not answer" in said
    assert "--guardian says where to look" in said
    assert "is not an address" in refused(capsys, "clusters", "list", "--guardian", "nowhere")
