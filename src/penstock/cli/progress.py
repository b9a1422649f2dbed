"""Lines that show work going on: redrawn in place on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from typing import TextIO

PLAIN_INTERVAL_S = 10.0


def fit(lines: Sequence[str], columns: int, rows: int) -> list[str]:
    """Lines that a terminal can redraw: none is wrapped, and all are on the screen with the cursor below them."""
    shown = [line if len(line) < columns or "\x1b" in line else f"{line[: columns - 2]}…" for line in lines]
    room = max(rows - 1, 2)
    return shown if len(shown) <= room else [*shown[: room - 1], f"... and {len(shown) - room + 1} more lines"]


class Lines:
    """A block of lines, one an item.

    Args:
        stream: where they go; standard error by default.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._drawn = 0
        self._said: Sequence[str] = ()
        self._said_at = 0.0

    @property
    def is_terminal(self) -> bool:
        """Whether lines are redrawn in place."""
        return self._terminal

    def show(self, lines: Sequence[str], *, last: bool = False) -> None:
        """The lines as they are now. Elsewhere than on a terminal they are said when they changed, not too often."""
        if self._terminal:
            up = f"\x1b[{self._drawn}A" if self._drawn else ""
            fitting = fit(lines, *shutil.get_terminal_size())
            self._write(up + "".join(f"\r\x1b[K{line}\n" for line in fitting) + "\x1b[J")
            self._drawn = len(fitting)
            return
        due = last or time.monotonic() >= self._said_at + PLAIN_INTERVAL_S
        if due and lines != self._said:
            self._write("".join(f"{line}\n" for line in lines))
            self._said, self._said_at = list(lines), time.monotonic()

    def say(self, text: str) -> None:
        """A line that stays, above the others."""
        up = f"\x1b[{self._drawn}A\x1b[J" if self._terminal and self._drawn else ""
        self._drawn = 0
        self._write(f"{up}{text}\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
