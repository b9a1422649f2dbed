"""Kafka's classes as the Java machine keeps them for its next start: a class data sharing archive.

A tool of Kafka's, or a node of it, that runs for a second spends most of it reading, checking and linking the same
thousands of classes. The archive has what one node needed, laid out in memory; a machine that starts with it takes half
the processor time. It is made once for a Java machine and a set of jars, by a node that is started and stopped, and is
only ever a short cut: where it cannot be made or does not fit, the machine starts as it would without.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

QUIET = "-Xlog:disable"
"""An archive that does not fit is nothing to be said on a tool's output."""


def options(jars: Path, cache: Path, run_a_node: Callable[[str], None]) -> tuple[str, ...]:
    """Java options with which Kafka's classes come from the archive, which is made when it is not there.

    Args:
        jars: the directory of Kafka's jars, which must come first on the class path.
        cache: the directory of the archives.
        run_a_node: starts and stops a node of Kafka with one more Java option.
    """
    archive = cache / f"kafka-{_fingerprint(jars)}.jsa"
    tried = archive.with_suffix(".tried")
    if not tried.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not tried.exists():  # nobody else was faster
                fresh = archive.with_suffix(".new")
                run_a_node(f"-XX:ArchiveClassesAtExit={fresh}")
                if fresh.exists():
                    fresh.replace(archive)
                tried.touch()
    return (f"-XX:SharedArchiveFile={archive}", QUIET) if archive.exists() else ()


def _fingerprint(jars: Path) -> str:
    """Of the Java machine and the jars, as the machine compares them: where they are and when they were written."""
    java = Path(shutil.which("java") or "java").resolve()
    seen = [java, *sorted(jars.glob("*.jar"))]
    text = "\n".join(f"{path} {path.stat().st_mtime_ns} {path.stat().st_size}" for path in seen)
    return hashlib.sha256(text.encode()).hexdigest()[:20]
