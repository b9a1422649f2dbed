"""Apache Kafka's own DumpLogSegments on files that random work on a log left, and on planted corruptions of them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from interop.kafka_peer import require_kafka, run_tool
from support.log_workload import Workload

from penstock.log import dump

pytestmark = pytest.mark.java
DUMP = "org.apache.kafka.tools.DumpLogSegments"


@pytest.fixture(scope="module", autouse=True)
def kafka() -> None:
    require_kafka()


def files_of(workload: Workload, directory: Path) -> dict[str, list[Path]]:
    """Writes the simulated files of a closed log to a real directory; returns them by suffix."""
    workload.one.close()
    found: dict[str, list[Path]] = {}
    for path in workload.one.disk.paths():
        target = directory / path
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(workload.one.disk.content(path))
        found.setdefault(target.suffix, []).append(target)
    return found


def dump_files(paths: list[Path], *options: str) -> str:
    result = run_tool(DUMP, "--files", ",".join(map(str, paths)), *options)
    return result.stdout + result.stderr


@pytest.fixture
def files(tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, list[Path]]:
    workload = Workload(Random(getattr(request, "param", 1)))
    workload.run(120, check=False)
    while len(workload.one.log.segments.all) < 3 or workload.one.log.segments.all[-1].offset_index.entries < 3:
        workload.append()
    return files_of(workload, tmp_path)


@pytest.mark.parametrize("files", [1, 2, 3], indirect=True)
def test_kafka_finds_every_record_and_every_index_entry_right(files: dict[str, list[Path]]) -> None:
    records = dump_files(files[".log"], "--deep-iteration")
    assert "baseOffset" in records
    assert "isvalid: false" not in records
    assert "WARN" not in records
    assert "non-consecutive" not in records
    indexes = dump_files(files[".index"], "--verify-index-only")
    assert "Mismatches" not in indexes
    times = dump_files(files[".timeindex"], "--index-sanity-check")
    assert times.count("passed sanity check") == len(files[".timeindex"])
    full = dump_files(files[".timeindex"], "--verify-index-only")
    assert "Found" not in full
    snapshots = dump_files(files[".snapshot"])
    assert snapshots.count("producerId:") == sum(
        len(dump.producer_snapshot.entries(p.read_bytes(), "")) for p in files[".snapshot"]
    )


def largest(paths: list[Path]) -> Path:
    return max(paths, key=lambda path: path.stat().st_size)


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_kafka_rejects_a_flipped_bit_in_a_record(files: dict[str, list[Path]]) -> None:
    path = largest(files[".log"])
    flip(path, 90)
    assert "isvalid: false" in run_tool(DUMP, "--files", path, "--deep-iteration", check=False).stdout


def test_kafka_rejects_an_index_entry_that_points_elsewhere(files: dict[str, list[Path]]) -> None:
    path = largest(files[".index"])
    flip(path, 3)
    assert "Mismatches" in dump_files([path], "--verify-index-only")


def test_kafka_rejects_a_time_index_of_broken_size(files: dict[str, list[Path]]) -> None:
    path = largest(files[".timeindex"])
    path.write_bytes(path.read_bytes() + b"xyz")
    result = run_tool(DUMP, "--files", path, "--index-sanity-check", check=False)
    assert "passed sanity check" not in result.stdout


def test_kafka_rejects_a_snapshot_with_a_flipped_bit(files: dict[str, list[Path]]) -> None:
    path = largest(files[".snapshot"])
    flip(path, path.stat().st_size - 1)
    result = run_tool(DUMP, "--files", path, check=False)
    assert "corrupt" in (result.stdout + result.stderr).lower()
