"""Runs the unit tests on every newer Python that this machine has, each in a `.venv-3.N` of its own.

A Python is looked for by name on the PATH and among pyenv's. One that is not there is named, and is no failure: what
was not run is said.

    python tools/other_pythons.py [3.12 3.13 3.14]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.12", "3.13", "3.14")
EXTRAS = "spark,iceberg,avro,connect,sql,regex,uvloop,test"
TESTS = ("tests/unit", "--ignore", "tests/unit/architecture", "-m", "not slow and not long")
"""As in `make test`, but the architecture's: they read the sources, whatever runs them, and need what only developers
have."""


def found(version: str) -> Path | None:
    """An interpreter of this version that runs."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for candidate in (f"python{version}", *sorted(pyenv.glob(f"{version}*/bin/python"), reverse=True)):
        ask = [str(candidate), "-c", "import sys, venv, ensurepip; print(sys.executable, *sys.version_info[:2])"]
        try:
            said = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()
        except (OSError, subprocess.CalledProcessError):
            continue
        if ".".join(said[1:]) == version:
            return Path(said[0])
    return None


def environment(version: str, interpreter: Path) -> Path:
    """The Python of an environment with what the unit tests need, made anew when the pins have changed."""
    place = ROOT / f".venv-{version}"
    python, ready = place / "bin" / "python", place / "ready"
    pins = max((ROOT / name).stat().st_mtime for name in ("pyproject.toml", "constraints.txt"))
    if not ready.exists() or ready.stat().st_mtime < pins:
        subprocess.run([interpreter, "-m", "venv", "--clear", place], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*install, "--constraint", "constraints.txt", "--editable", f".[{EXTRAS}]"], cwd=ROOT, check=True
        )
        ready.touch()
    return python


def main(versions: list[str]) -> int:
    """Runs them one after the other; the exit code tells whether all that ran passed."""
    worst = 0
    for version in versions or VERSIONS:
        interpreter = found(version)
        if interpreter is None:
            print(f"Python {version}: not on this machine, nothing was run on it", flush=True)
            continue
        print(f"Python {version}: {interpreter}", flush=True)
        command = [environment(version, interpreter), "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *TESTS]
        worst = max(worst, subprocess.run(command, cwd=ROOT, check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
