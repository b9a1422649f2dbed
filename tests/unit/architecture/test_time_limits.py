"""Every test is ended when it hangs, with the stack of where it hung."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support import limits


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
