"""`penstock`, watched from inside: where the time of its CPU goes, and how many bytecodes, by room.

    python bench/watched_server.py FILE server start server.properties

SIGUSR1 begins to sample: a timer of consumed CPU interrupts the process and notes the room whose function runs. SIGUSR2
begins to count instead, bytecodes and calls of Python functions, exactly and slowly. The same signal again ends it and
writes the numbers by room and by function to FILE. `bench/trickle.py` drives it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import penstock
from penstock.cli.main import main

SOURCE = str(Path(penstock.__file__).parent) + os.sep
SAMPLE_EVERY_S = 0.001
OUTSIDE = "loop"
"""No function of ours runs: the event loop, and the system calls that it makes."""


def room_of(file: str) -> str:
    """The room of a source file, such as `server`; the node's handlers are one of their own."""
    if not file.startswith(SOURCE):
        return OUTSIDE if "asyncio" in file or "uvloop" in file else "library"
    parts = file[len(SOURCE) :].split(os.sep)
    return "/".join(parts[:2]) if parts[:2] == ["node", "handlers"] else parts[0]


class Watch:
    """What is being noted: nothing, samples, or bytecodes."""

    def __init__(self, report: Path) -> None:
        self._report = report
        self._functions: Counter[tuple[str, str]] = Counter()
        self._calls = 0
        self._on = False

    def sample(self, number: int, frame: FrameType | None) -> None:
        """SIGPROF: CPU time has been used."""
        code = None if frame is None else frame.f_code
        self._functions[(OUTSIDE, "") if code is None else (code.co_filename, code.co_qualname)] += 1

    def sampling(self, number: int, frame: FrameType | None) -> None:
        """SIGUSR1."""
        signal.setitimer(signal.ITIMER_PROF, *((0, 0) if self._on else (SAMPLE_EVERY_S, SAMPLE_EVERY_S)))
        self._turn()

    def counting(self, number: int, frame: FrameType | None) -> None:
        """SIGUSR2."""
        sys.settrace(None if self._on else self._trace)
        self._turn()

    def _turn(self) -> None:
        self._on = not self._on
        if not self._on:
            rooms: Counter[str] = Counter()
            functions: Counter[str] = Counter()
            for (file, name), count in self._functions.items():
                rooms[room_of(file)] += count
                functions[f"{file.removeprefix(SOURCE)}:{name}"] += count
            written = self._report.with_suffix(".new")
            written.write_text(json.dumps({"rooms": rooms, "functions": functions, "calls": self._calls}))
            written.rename(self._report)
        self._functions.clear()
        self._calls = 0

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            self._functions[frame.f_code.co_filename, frame.f_code.co_qualname] += 1
        elif event == "call":
            self._calls += 1
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._trace


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    watch = Watch(Path(sys.argv[1]))
    signal.signal(signal.SIGPROF, watch.sample)
    signal.signal(signal.SIGUSR1, watch.sampling)
    signal.signal(signal.SIGUSR2, watch.counting)
    sys.exit(main(sys.argv[2:]))
