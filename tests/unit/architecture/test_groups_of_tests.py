"""Tests that share something stay in one process, also when several run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from support.groups import DRIVERS, FIRST, SPARK, group_of, turn

pytest.importorskip("xdist", reason="needs penstock[test]")

ROOT = Path(__file__).parents[3]
FILES = ("tests/unit/quota", "tests/unit/architecture/test_purity.py", "tests/unit/config")
TIMEOUT_S = 120


def test_the_tests_of_a_file_run_in_one_process() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    options = ["-n", "2", "--dist", "loadgroup", "-v", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *FILES],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    processes: dict[str, set[str]] = defaultdict(set)
    for process, file in re.findall(r"^\[(gw\d)\] .*? (tests/[\w/]+\.py)::", done.stdout, re.MULTILINE):
        processes[file].add(process)
    assert {process for each in processes.values() for process in each} == {"gw0", "gw1"}
    assert all(len(each) == 1 for each in processes.values()), processes


def test_all_that_runs_spark_is_two_groups_and_the_first() -> None:
    jobs, load = "tests/interop/spark/jobs/test_activity.py::a[1]", "tests/interop/spark/load/test_load.py::b"
    tutorial, cluster = "tests/e2e/test_tutorial.py::c", "tests/interop/spark/cluster/test_cluster.py::d"
    assert group_of(jobs) == group_of(load) == SPARK
    assert group_of(tutorial) == group_of(cluster) == DRIVERS
    assert turn(jobs) < turn(tutorial) < turn("tests/e2e/test_dev.py::e") < turn("tests/unit/quota/test_throttle.py::f")
    assert all((ROOT / name).is_dir() for name in FIRST[2:])
