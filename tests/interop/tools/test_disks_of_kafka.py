"""`penstock disks` and the plans of `penstock cluster reassign` beside Apache Kafka."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from interop.kafka_peer import KafkaPeer
from interop.tools.toolbox import REASSIGN, Toolbox

from penstock.cli.main import main
from penstock.placement.plan import plan_json

pytestmark = pytest.mark.java


def test_kafkas_directories_are_shown_and_its_tool_takes_a_plan_with_directories(
    kafka_peer: KafkaPeer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka_peer.create_topic("disks", partitions=2)
    options = ("--bootstrap", kafka_peer.bootstrap)
    for partition, values in ((0, 1), (1, 2)):
        assert (
            main(["produce", "disks", "--partition", f"{partition}", *options, *(("--value", "v" * 900_000) * values)])
            == 0
        )
    capsys.readouterr()
    assert main(["disks", "--json", "--top", "10000", *options]) == 0
    [disk] = json.loads(capsys.readouterr().out)["directories"]
    [path] = kafka_peer.log_dirs
    assert (disk["path"], disk["health"], disk["reserve_bytes"]) == (str(path), "ok", None)
    status = os.statvfs(path)
    assert disk["total_bytes"] == status.f_blocks * status.f_frsize
    assert 0 < disk["free_bytes"] < disk["total_bytes"]
    ours = [each for each in disk["largest"] if each["topic"] == "disks"]
    assert [each["partition"] for each in ours] == [1, 0]
    segment = path / "disks-1" / f"{0:020d}.log"
    assert ours[0]["size_bytes"] == segment.stat().st_size

    plan = tmp_path / "plan.json"
    node = kafka_peer.node_id
    plan.write_text(json.dumps(plan_json({("disks", 1): (node,)}, {("disks", 1, node): str(path)})))
    with Toolbox() as tools:
        told = tools.run(REASSIGN, kafka_peer.bootstrap, "--reassignment-json-file", plan, "--verify")
    assert "Reassignment of partition disks-1 is completed" in told.out
    assert f"Reassignment of replica disks-1-{node} completed successfully" in told.out
