"""`penstock disks` on a real node with two disks: its plan is carried out, and the disks are looked at again."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.file_systems import Mount, small_file_system
from support.processes import free_ports, wait_until

from penstock.cli.main import main
from penstock.testing.broker import LocalBroker

DISK_BYTES = 64 << 20
RECORDS = ("--value", "v" * 100_000) * 40
"""Of each partition: 4 MB, worth a move."""


@pytest.fixture
def two_disks(tmp_path: Path) -> Iterator[list[Path]]:
    """Two small file systems of their own."""
    with (
        small_file_system(tmp_path / "one", DISK_BYTES) as one,
        small_file_system(tmp_path / "two", DISK_BYTES) as two,
    ):
        yield [one, two]


def test_a_plan_evens_two_disks_out_and_is_carried_out(
    two_disks: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full, empty = (str(path / "data") for path in two_disks)
    metrics = f"127.0.0.1:{free_ports(1)[0]}"
    settings = {
        "log.dirs": f"{full},{empty}",
        "metadata.log.dir": str(tmp_path / "metadata"),
        "penstock.log.dir.placement": "count",
        "penstock.metrics.listener": metrics,
        "log.segment.delete.delay.ms": "0",
    }
    plan = tmp_path / "plan.json"
    with LocalBroker(settings, data_dir=tmp_path / "node") as broker:
        broker.create_topic("clicks", partitions=4)

        def disks(*words: object) -> dict[str, Any]:
            capsys.readouterr()
            options = ("--json", "--metrics", f"http://{metrics}/metrics", "--bootstrap", broker.bootstrap)
            assert main(["disks", *map(str, words), *options]) == 0
            found: dict[str, Any] = json.loads(capsys.readouterr().out)
            return found

        def by_path(field: str) -> dict[str, Any]:
            return {each["path"]: each[field] for each in disks("--top", 9)["directories"]}

        there = {path: [each["partition"] for each in replicas] for path, replicas in by_path("largest").items()}
        assert sorted(map(len, there.values())) == [2, 2]
        for partition in there[full]:
            words = ("produce", "clicks", "--partition", str(partition), "--bootstrap", broker.bootstrap)
            assert main([*words, *RECORDS]) == 0
        before = by_path("free_bytes")
        assert before[full] < before[empty] < DISK_BYTES
        assert by_path("reserve_bytes") == dict.fromkeys((full, empty), DISK_BYTES // 20)
        assert by_path("uncleanable") == {full: 0, empty: 0}

        [move] = disks("--plan", plan)["moves"]
        assert (move["from"]["path"], move["to"]["path"]) == (full, empty)
        assert main(["cluster", "reassign", "--plan", str(plan), "--bootstrap", broker.bootstrap]) == 0

        sizes = {path: [each["partition"] for each in replicas] for path, replicas in by_path("largest").items()}
        assert sizes[empty][0] == move["partition"]
        assert by_path("replica_bytes") == dict.fromkeys((full, empty), move["size_bytes"])

        def is_even() -> bool:
            free = by_path("free_bytes")
            return abs(free[full] - free[empty]) < move["size_bytes"]

        wait_until(is_even, "the files that have moved away are gone")
        assert "moves" in disks("--plan", tmp_path / "none.json")
        assert not (tmp_path / "none.json").exists(), "there is nothing more to move"


def test_a_log_with_damage_is_named_with_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = f"127.0.0.1:{free_ports(1)[0]}"
    settings = {
        "penstock.metrics.listener": metrics,
        "log.cleaner.threads": "0",
        "log.cleaner.backoff.ms": "100",
        "log.initial.task.delay.ms": "0",
    }
    with LocalBroker(settings, data_dir=tmp_path / "node") as broker:
        broker.create_topic("users", configs={"cleanup.policy": "compact", "segment.bytes": str(1 << 20)})
        words = ("produce", "users", "--key", "k", "--bootstrap", broker.bootstrap)
        assert main([*words, *("--value", "v" * 100_000) * 30]) == 0
        first = next(tmp_path.rglob("users-0")) / f"{0:020d}.log"
        with first.open("r+b") as file:
            file.seek(1000)
            file.write(b"damage")
        node = ("--entity", "brokers", "--name", "1", "--bootstrap", broker.bootstrap)
        assert main(["configs", "alter", *node, "--add", "log.cleaner.threads=1"]) == 0

        def told() -> str:
            capsys.readouterr()
            options = ("--metrics", f"http://{metrics}/metrics", "--bootstrap", broker.bootstrap)
            assert main(["disks", *options]) == 0
            return capsys.readouterr().out

        wait_until(lambda: "users-0" in told().partition("WHY")[2], "the log is named")
        (line,) = [line for line in told().partition("WHY")[2].splitlines() if "users-0" in line]
        assert f"users-0/{0:020d}.log" in line
        assert "what is damaged was kept" in line


def test_a_disk_that_is_not_mounted_is_offline_and_its_place_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = Mount(tmp_path / "disk", tmp_path / "two")
    paths = [str(tmp_path / "one"), str(disk.at)]
    metrics = f"127.0.0.1:{free_ports(1)[0]}"
    settings = {
        "log.dirs": ",".join(paths),
        "metadata.log.dir": str(tmp_path / "metadata"),
        "penstock.metrics.listener": metrics,
    }

    def said(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main([*words, "--bootstrap", broker.bootstrap])
        return code, capsys.readouterr().out

    try:
        disk.mount()
        with LocalBroker({**settings, "penstock.log.dir.placement": "count"}, data_dir=tmp_path / "node") as broker:
            broker.create_topic("clicks", partitions=2)
            for partition in "01":
                assert said("produce", "clicks", "--partition", partition, "--value", f"record-{partition}")[0] == 0
        disk.unmount()
        with LocalBroker(settings, data_dir=tmp_path / "node") as broker:
            code, shown = said("disks", "--json")
            assert code == 1
            assert [each["health"] for each in json.loads(shown)["directories"]] == ["ok", "offline"]
            served = json.loads(said("disks", "--json", "--top", "1")[1])["directories"][0]["largest"][0]["partition"]
            assert said("produce", "clicks", "--partition", served, "--value", "more")[0] == 0
            broker.create_topic("others", partitions=2)
            assert said("produce", "others", "--value", "x")[0] == 0
        assert list(disk.at.iterdir()) == []
        disk.mount()
        with LocalBroker(settings, data_dir=tmp_path / "node") as broker:
            code, shown = said("disks", "--json")
            assert (code, [each["health"] for each in json.loads(shown)["directories"]]) == (0, ["ok", "ok"])
            code, shown = said("consume", "clicks")
            assert (code, sorted(shown.split())) == (0, ["more", "record-0", "record-1"])

            def is_offline() -> bool:
                with urllib.request.urlopen(f"http://{metrics}/metrics"):  # which has somebody look at the disks
                    pass
                return [each["health"] for each in json.loads(said("disks", "--json")[1])["directories"]][
                    1
                ] == "offline"

            disk.unmount()
            wait_until(is_offline, "a disk that vanishes is offline")
            broker.create_topic("later", partitions=2)
        assert list(disk.at.iterdir()) == []
    finally:
        disk.unmount()
