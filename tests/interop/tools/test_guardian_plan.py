"""A plan of Guardian, carried out by Kafka's ReassignPartitionsCommand: three nodes with two log directories each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from interop.kafka_peer import require_kafka
from interop.tools.toolbox import OFFSETS, PERFORMANCE, REASSIGN, TOPICS, Toolbox
from interop.tools.two_directories import directory, formatted
from support.heard import until_heard
from support.processes import Cluster, wait_until

from penstock.cli.main import main

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPIC, PARTITIONS = "planned", 6
RECORDS, RECORD_BYTES = 1_000, 100
FULL, EMPTY = (1, 2), 3
LOAD = 100.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with formatted(tmp_path_factory.mktemp("planned")) as made:
        yield made


@pytest.fixture(scope="module")
def tools() -> Iterator[Toolbox]:
    require_kafka()
    with Toolbox() as toolbox:
        yield toolbox


def directories(cluster: Cluster, node_id: int) -> list[str]:
    return [str(directory(cluster, node_id, number)) for number in (0, 1)]


def write_model(cluster: Cluster, path: Path) -> None:
    """The topic as it is: all on two brokers, in the first directory of each."""
    path.mkdir()
    nodes = sorted(cluster.roles)
    count = len(nodes)
    brokers = {
        "broker": pa.array(nodes, pa.int32()),
        "rack": [f"r{each}" for each in nodes],
        "idc": ["here"] * count,
        "host": [f"h{each}" for each in nodes],
        "alive": [True] * count,
        "new": [False] * count,
        **dict.fromkeys(("cpu_capacity", "net_in_capacity", "net_out_capacity"), [LOAD * 1_000] * count),
    }
    disks = [(node_id, each) for node_id in nodes for each in directories(cluster, node_id)]
    replicas = [(partition, at, node_id) for partition in range(PARTITIONS) for at, node_id in enumerate(FULL)]
    loads = ("cpu", "bytes", "disk_write", "disk_read", "net_in", "net_out")
    tables = {
        "brokers": brokers,
        "disks": {
            "broker": pa.array([each for each, _ in disks], pa.int32()),
            "dir": [each for _, each in disks],
            "bytes_capacity": [LOAD * 1_000] * len(disks),
            "rate_capacity": [LOAD * 1_000] * len(disks),
            "alive": [True] * len(disks),
        },
        "replicas": {
            "topic": [TOPIC] * len(replicas),
            "partition": pa.array([partition for partition, _, _ in replicas], pa.int32()),
            "position": pa.array([at for _, at, _ in replicas], pa.int16()),
            "leader": [at == 0 for _, at, _ in replicas],
            "broker": pa.array([each for _, _, each in replicas], pa.int32()),
            "dir": [directories(cluster, each)[0] for _, _, each in replicas],
            **{f"{name}{end}": [LOAD] * len(replicas) for name in loads for end in ("", "_p95")},
        },
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), path / f"{name}.parquet")


def test_kafkas_tool_carries_a_plan_out(
    cluster: Cluster, tools: Toolbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(tool: str, *arguments: object) -> str:
        until_heard(cluster.bootstrap)
        return tools.run(tool, cluster.bootstrap, *arguments).out

    assignment = ",".join([":".join(map(str, FULL))] * PARTITIONS)
    say(TOPICS, "--create", "--topic", TOPIC, "--replica-assignment", assignment)
    load = ("--topic", TOPIC, "--num-records", RECORDS, "--record-size", RECORD_BYTES, "--throughput", -1)
    assert f"{RECORDS} records sent" in say(PERFORMANCE, *load)
    write_model(cluster, tmp_path / "model")
    assert main(["guardian", "plan", "--model", str(tmp_path / "model"), "--json"]) == 0
    plan = capsys.readouterr().out
    file = tmp_path / "plan.json"
    file.write_text(plan)
    moved = json.loads(plan)["partitions"]
    assert any(EMPTY in each["replicas"] for each in moved)
    assert "Successfully started" in say(REASSIGN, "--execute", "--reassignment-json-file", file)
    done = [f"Reassignment of partition {TOPIC}-{each['partition']} is completed" for each in moved]
    verify = (REASSIGN, "--verify", "--reassignment-json-file", file)
    wait_until(lambda: all(each in say(*verify) for each in done), "all has moved")
    described = say(TOPICS, "--describe", "--topic", TOPIC)
    for each in moved:
        assert f"Replicas: {','.join(map(str, each['replicas']))}\t" in described
    counts = Counter(node_id for line in described.splitlines() if "Replicas: " in line and "Partition: " in line
                     for node_id in line.split("Replicas: ")[1].split("\t")[0].split(","))  # fmt: skip
    assert set(counts.values()) == {PARTITIONS * len(FULL) // 3}, "each broker has its share"
    ends = say(OFFSETS, "--topic", TOPIC)
    assert sum(int(line.rpartition(":")[2]) for line in ends.splitlines()) == RECORDS
