"""What a user gets: the wheel, pip-installed into an empty environment, runs a cluster, a produce and a consume."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTALL_TIMEOUT_S = 300
COMMAND_TIMEOUT_S = 60
OFFLINE = re.compile(
    r"Temporary failure in name resolution|Failed to establish|NewConnectionError|Network is unreachable"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    target = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(target), str(ROOT))
    (built,) = target.glob("penstock-*.whl")
    return built


@pytest.fixture(scope="module")
def bin_directory(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment that has the wheel and what it requires, nothing else."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=True)
    pip(str(home / "bin" / "python"), "install", "--constraint", str(ROOT / "constraints.txt"), str(wheel))
    return home / "bin"


def pip(python: str, *arguments: str) -> None:
    """Runs pip; without a network the test is skipped, which with CI=true is a failure."""
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    if OFFLINE.search(done.stderr):
        pytest.skip("pip needs the network to install what the wheel requires")
    assert done.returncode == 0, done.stderr


def run(bin_directory: Path, *arguments: str, stdin: str = "") -> str:
    """Runs `penstock` of that environment, away from this tree; returns what it printed."""
    done = subprocess.run(
        [str(bin_directory / "penstock"), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
        cwd=bin_directory,
        env=environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment() -> dict[str, str]:
    """The environment without what would let this tree in."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PENSTOCK"))}


@contextmanager
def dev_cluster(bin_directory: Path, data: Path) -> Iterator[str]:
    """`penstock dev` on free ports; gives its address, and stops it as Ctrl-C does."""
    command = [str(bin_directory / "penstock"), "dev", "--json", "--port", "0", "--metrics-port", "0"]
    with subprocess.Popen(
        [*command, "--data", str(data)], stdout=subprocess.PIPE, text=True, cwd=bin_directory, env=environment()
    ) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["bootstrap"]
        finally:
            process.terminate()
            assert process.wait(COMMAND_TIMEOUT_S) == 0


@pytest.mark.slow
def test_the_wheel_has_the_package_and_its_data_and_nothing_else(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "penstock",
        "pyspark_penstock",
        "pyspark_penstock_lake",
    }
    assert {"penstock/py.typed", "penstock/protocol/schema.txt"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.slow
def test_an_empty_environment_runs_a_cluster_a_produce_and_a_consume(bin_directory: Path, tmp_path: Path) -> None:
    assert run(bin_directory, "--version").startswith("penstock ")
    with dev_cluster(bin_directory, tmp_path / "data") as bootstrap:
        run(bin_directory, "produce", "clicks", "--bootstrap", bootstrap, stdin="one\ntwo\nthree\n")
        seen = run(bin_directory, "consume", "clicks", "--bootstrap", bootstrap)
    assert [line for line in seen.splitlines() if line] == ["one", "two", "three"]
