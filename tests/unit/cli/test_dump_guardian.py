"""`penstock log dump` of Guardian's log and its snapshots: records in words."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from penstock.cli.main import main
from penstock.guardian.core.records import encode_records
from penstock.protocol.messages.guardian.guardian_cluster_record import GuardianClusterRecord
from penstock.protocol.messages.guardian.guardian_level_record import GuardianLevelRecord
from penstock.raft.checkpoint import CheckpointId, checkpoint_batches
from penstock.raft.topic import GUARDIAN
from penstock.records.builder import BatchBuilder

RECORDS = [GuardianLevelRecord(feature_level=1), GuardianClusterRecord(cluster_id=UUID(int=7), name="clicks")]


def dumped(path: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    assert main(["log", "dump", "--records", str(path)]) == 0
    return capsys.readouterr().out


def test_records_of_the_log_and_of_a_snapshot_are_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch = BatchBuilder(base_offset=0, leader_epoch=3)
    for value in encode_records(RECORDS):
        batch.append(1_000, None, value)
    snapshot = checkpoint_batches(encode_records(RECORDS), epoch=3, last_contained_timestamp_ms=1, wall_ms=1)
    directory = tmp_path / GUARDIAN.directory
    for name, content in ((f"{0:020}.log", batch.build()), (CheckpointId(2, 3).file, b"".join(snapshot))):
        said = dumped(directory / name, bytes(content), capsys)
        assert "GuardianLevelRecord" in said
        assert "feature_level=1" in said
        assert "name='clicks'" in said


def test_elsewhere_they_are_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch = BatchBuilder(base_offset=0, leader_epoch=3)
    batch.append(1_000, None, encode_records(RECORDS)[1])
    assert "GuardianClusterRecord" not in dumped(tmp_path / "topic-0" / f"{0:020}.log", bytes(batch.build()), capsys)
