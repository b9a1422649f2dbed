"""`penstock log dump` of snapshots of the metadata log, and of what a node was formatted with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.metadata.scram import ScramCredential
from penstock.protocol.messages.metadata.no_op_record import NoOpRecord
from penstock.protocol.record_frames import encode_metadata_record
from penstock.raft.checkpoint import CheckpointId, checkpoint_batches

Capture = pytest.CaptureFixture[str]
NAMES = (CheckpointId(7, 2).file, "bootstrap.checkpoint")


def batches() -> list[bytes]:
    """A user of SCRAM, and a record without a secret."""
    user = ScramCredential(b"salt", b"canary", b"canary", 4096).record("alice", 1)
    values = [encode_metadata_record(each, 0) for each in (user, NoOpRecord())]
    return [bytes(each) for each in checkpoint_batches(values, epoch=2, last_contained_timestamp_ms=1, wall_ms=1)]


@pytest.fixture(params=NAMES)
def snapshot(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "__cluster_metadata-0" / request.param
    path.parent.mkdir()
    path.write_bytes(b"".join(batches()))
    return path


def test_records_are_shown_and_secrets_hidden(snapshot: Path, capsys: Capture) -> None:
    assert main(["log", "dump", "--records", str(snapshot)]) == 0
    said = capsys.readouterr().out
    assert "(UserScramCredentialRecord of alice, hidden)" in said
    assert "canary" not in said
    assert main(["log", "dump", "--json", str(snapshot)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [line["offsets"] for line in found] == ["0-0", "1-2", "3-3"]


def test_a_whole_one_is_in_order(snapshot: Path, capsys: Capture) -> None:
    assert main(["log", "dump", "--verify", str(snapshot)]) == 0
    assert capsys.readouterr().out == f"{snapshot}  is in order\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"".join(batches()[:-1]), "it has no footer"),
        (b"".join(batches()[1:]), "out of place"),
        (b"".join(batches())[:-1], "is cut off: 1 bytes missing"),
        (b"".join(batches())[:-1] + b"\xff", "its checksum is wrong"),
        (b"", "it has no header"),
        (b"no snapshot at all" * 9, "PROBLEM"),
    ],
)
def test_a_damaged_one_is_said_to_be(snapshot: Path, capsys: Capture, content: bytes, said: str) -> None:
    snapshot.write_bytes(content)
    assert main(["log", "dump", "--verify", str(snapshot)]) == 1
    assert said in capsys.readouterr().out


def test_half_written_ones_are_none(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / f"{NAMES[0]}.part"
    path.write_bytes(b"")
    assert main(["log", "dump", str(path)]) == 2
    assert "or a .checkpoint" in capsys.readouterr().err
