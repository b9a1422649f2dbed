"""How commands print: tables, sizes, times, colour on a terminal only."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

RED, GREEN, YELLOW, BOLD, DIM = "31", "32", "33", "1", "2"
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour if `stream` (stdout) is a terminal and NO_COLOR is not set."""
    stream = stream or sys.stdout
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"


def print_json(value: Any) -> None:
    """One JSON document, indented."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[str] = ()) -> None:
    """Aligned columns under their names; the columns named in `right` are aligned to the right."""
    lines = [tuple(head), *(tuple(str(cell) for cell in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    to_the_right = set(right)
    for number, line in enumerate(lines):
        cells = [
            cell.rjust(width) if name in to_the_right else cell.ljust(width)
            for name, cell, width in zip(head, line, widths, strict=True)
        ]
        text = "  ".join(cells).rstrip()
        print(paint(text, BOLD) if number == 0 else text)


def size_text(size_bytes: int) -> str:
    """A size as people say it: `512 B`, `1.5 GiB`."""
    size: float = size_bytes
    for unit in UNITS:
        if abs(size) < 1024 or unit == UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"


def home_relative(path: str) -> str:
    """A path with the home directory as `~`."""
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if home != "/" and path.startswith(home + "/") else path
