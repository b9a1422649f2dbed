"""Every test is ended when it hangs, with the stack of where it hung, and the others run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import limits

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 60
HOLDS_THE_GIL = """
import ctypes
import pytest
from support import limits

limits.MARGIN_S = 0.5

def test_before_it():
    pass

@pytest.mark.timeout(0.5)
def test_that_holds_the_gil():
    lock = ctypes.create_string_buffer(128)
    library = ctypes.PyDLL(None)
    library.pthread_mutex_lock(lock)
    library.pthread_mutex_lock(lock)

def test_after_it():
    pass

@pytest.fixture
def holds_the_gil_at_its_end():
    yield
    test_that_holds_the_gil()

@pytest.mark.timeout(0.5)
def test_that_fails_before(holds_the_gil_at_its_end):
    assert False

def test_at_last():
    pass
"""


def test_every_test_has_a_limit(request: pytest.FixtureRequest) -> None:
    assert request.session.items
    for item in request.session.items:
        limit = item.get_closest_marker("timeout")
        assert limit is not None, item.nodeid
        assert 0 < limit.args[0] <= limits.LONG_S, item.nodeid


def test_a_test_that_hangs_is_ended_and_the_next_one_runs(tmp_path: Path) -> None:
    file = tmp_path / "test_hanging.py"
    file.write_text(
        "import threading\ndef test_that_hangs():\n    threading.Event().wait()\ndef test_after_it():\n    pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--timeout", "0.2", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "threading.Event().wait()" in done.stdout
    assert "Failed: Timeout" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_a_test_that_hangs_and_holds_the_gil_is_reported_and_the_others_run(tmp_path: Path) -> None:
    """No signal handler runs then, and no thread; only the end of the process helps."""
    pytest.importorskip("xdist", reason="needs penstock[test]")
    (tmp_path / "planted.py").write_text(f"from support import groups\ngroups.ROOT = groups.Path({str(tmp_path)!r})\n")
    (tmp_path / "test_held.py").write_text(HOLDS_THE_GIL)
    (tmp_path / "test_others.py").write_text("def test_another():\n    pass\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = f"{ROOT}{os.pathsep}{ROOT / 'tests'}"
    options = ["-p", "planted", "-p", "conftest", "-n", "1", "--dist", "loadgroup", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "crashed while running 'test_held.py::test_that_holds_the_gil'" in done.stdout
    assert "in test_that_holds_the_gil" in done.stderr
    assert "in holds_the_gil_at_its_end" in done.stderr
    assert "test_held.py::test_that_fails_before" in done.stdout
    assert "3 failed, 4 passed" in done.stdout, done.stdout
