"""How many cores a process may use, by files as the kernel writes them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from penstock.server.cores import cores

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="control groups")


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16))


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/", {}, 16),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "max 100000"}, 16),
        ("0::/a/b", {"a/b/cpu.max": "600000 100000", "a/cpu.max": "350000 100000"}, 3),
        ("0::/a/b", {"a/b/cpu.max": "50000 100000"}, 1),
        ("0::/of/the/host", {"cpu.max": "200000 100000"}, 2),
        ("3:cpu,cpuacct:/a", {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, 16),
        ("3:cpu,cpuacct:/a", {"cpu/a/cpu.cfs_quota_us": "400000", "cpu/a/cpu.cfs_period_us": "100000"}, 4),
        ("4:memory:/a", {"a/cpu.max": "200000 100000"}, 16),
        ("0::/a", {"a/cpu.max": "what"}, 16),
    ],
)
def test_a_quota_of_the_process_or_around_it_counts(
    tmp_path: Path, groups: str, files: dict[str, str], expected: int
) -> None:
    (tmp_path / "cgroup").write_text(f"{groups}\n")
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    assert cores(str(tmp_path / "cgroup"), tmp_path / "root") == expected


def test_where_nothing_tells_of_groups_cores_count(tmp_path: Path) -> None:
    assert cores(str(tmp_path / "missing"), tmp_path) == 16
