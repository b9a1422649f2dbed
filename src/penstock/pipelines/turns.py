"""Turns between processes: a live run and a backfill of one pipeline never work at once, and neither starves the other.

Two locks, freed by the kernel however a process ends: `turn` is held while the holder waits for `work`, and let go of
once it has that. So who has just worked cannot get in again before the one who waits.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.pipelines.limits import PIPELINE_TURN_POLL_MS
from penstock.spark.load.load import Stop

TURN, WORK = "turn", "work"


@contextmanager
def turn(directory: Path, stop: Stop, waits: Callable[[], None] = lambda: None) -> Iterator[bool]:
    """Waits for its turn; gives whether it is that, or `stop` was set first.

    Args:
        directory: the pipeline's own.
        stop: ends the wait.
        waits: called once if somebody else is at work.
    """
    directory.mkdir(parents=True, exist_ok=True)
    told = False

    def acquired(file: int) -> bool:
        nonlocal told
        while not _locked(file):
            if not told:
                waits()
                told = True
            if stop.wait(PIPELINE_TURN_POLL_MS / 1000) or stop.is_set():
                return False
        return True

    with _opened(directory / WORK) as work:
        with _opened(directory / TURN) as next_one:
            mine = acquired(next_one) and acquired(work)
        yield mine


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield file
    finally:
        os.close(file)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
