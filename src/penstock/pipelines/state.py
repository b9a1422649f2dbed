"""A pipeline's directory: the lock that keeps a second copy out, the status that other terminals read, checkpoints.

STATE/clicks/lock           held for as long as the pipeline runs; the kernel lets go of it, however that ends
STATE/clicks/status.json    its last report, replaced about once a second
STATE/clicks/checkpoints/   of its streaming queries, unless the file names another place
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.errors import PenstockError
from penstock.pipelines.monitor import Report

LOCK, STATUS = "lock", "status.json"


class RunningError(PenstockError):
    """The pipeline runs already, here; the message names the process."""


def state_directory() -> Path:
    """Where pipelines have their directories: PENSTOCK_STATE, else penstock/pipelines in XDG_STATE_HOME."""
    if given := os.environ.get("PENSTOCK_STATE"):
        return Path(given)
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "penstock" / "pipelines"


class Lock:
    """Held by the process that runs a pipeline; a context manager."""

    def __init__(self, directory: Path, name: str) -> None:
        self._path = directory / LOCK
        self._name = name
        self._file = -1

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 32).decode(errors="replace").strip()
            os.close(file)
            raise RunningError(
                f"pipeline {self._name} runs already, as process {holder or '?'}\n"
                "  `penstock pipeline status` shows it; stop it there, or give this one another name"
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._file)


def is_held(directory: Path) -> bool:
    """Whether a process holds the lock of a pipeline's directory."""
    try:
        file = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def write_status(directory: Path, report: Report) -> None:
    """Replaces the status file."""
    fresh = directory / f"{STATUS}.new"
    fresh.write_text(json.dumps(report.as_json()))
    fresh.replace(directory / STATUS)


@dataclass(frozen=True, slots=True)
class Known:
    """A pipeline seen from outside: its last report, and whether its process still runs."""

    report: Report
    live: bool


def read_status(directory: Path) -> Known | None:
    """The last status in a pipeline's directory; None if it never ran."""
    try:
        told = json.loads((directory / STATUS).read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Known(Report(**told), is_held(directory))


def all_known(state: Path) -> list[Known]:
    """All pipelines below a state directory as seen from outside, by name."""
    if not state.is_dir():
        return []
    found = (read_status(directory) for directory in sorted(state.iterdir()))
    return [known for known in found if known is not None]
