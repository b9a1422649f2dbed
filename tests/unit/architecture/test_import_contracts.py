"""The import contracts of pyproject.toml refuse what they are there for, shown on a small house with planted faults."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PYPROJECT = ROOT / "pyproject.toml"
CONTRACTS = tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]
PACKAGES = {each["containers"][0]: each["layers"] for each in CONTRACTS if each["type"] == "layers"}


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Every room of the house and of the simulator, empty, under the real contracts."""
    for package, layers in PACKAGES.items():
        for room in [name for layer in layers for name in layer.split(" | ") if not name.startswith("(")]:
            (tmp_path / package / room).mkdir(parents=True)
            (tmp_path / package / room / "__init__.py").touch()
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "penstock" / "node" / "handlers").mkdir()
    (tmp_path / "penstock" / "node" / "handlers" / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text(PYPROJECT.read_text())
    return tmp_path


def lint(house: Path) -> tuple[int, str]:
    """The exit code and output of import-linter on a house."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    environment = os.environ | {"PYTHONPATH": str(house)}
    done = subprocess.run(command, cwd=house, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_house_in_order_is_accepted(house: Path) -> None:
    code, output = lint(house)
    assert code == 0, output


@pytest.mark.parametrize(
    ("module", "source", "said"),
    [
        (
            "penstock/config/upwards.py",
            "import penstock.server",
            "penstock.config is not allowed to import",
        ),
        ("penstock/node/upwards.py", "def f():\n    import penstock.client", "penstock.node is not allowed to import"),
        ("penstock/node/machine.py", "from penstock.node import handlers", "penstock.node.machine is not allowed"),
        ("penstock/attic/__init__.py", "", "attic"),
        ("penstock/server/heavy.py", "import numpy", "penstock.server is not allowed to import numpy"),
        ("penstock/cli/odd.py", "import simulator.jobs", "penstock is not allowed to import simulator"),
        (
            "simulator/world/odd.py",
            "import simulator.cluster",
            "simulator.world is not allowed to import",
        ),
        ("simulator/attic/__init__.py", "", "attic"),
    ],
)
def test_a_planted_fault_is_found(house: Path, module: str, source: str, said: str) -> None:
    file = house / module
    file.parent.mkdir(exist_ok=True)
    file.write_text(source)
    code, output = lint(house)
    assert code != 0
    assert said in output
