"""How commands print: tables, sizes, times, colour on a terminal only."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

RED, GREEN, YELLOW, BOLD, DIM = "31", "32", "33", "1", "2"
GAP = "  "
CUT_MIN = 8
"""Columns are not cut below this width, however narrow the terminal."""
WRAPPED_MIN = 20
"""A last column of at least this width has its text over several lines instead of cut."""
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
    """Prints aligned columns under their names; those named in `right` are aligned to the right.

    On a terminal the table fits: a long last column is wrapped, otherwise wide columns are cut.
    """
    lines = [tuple(head), *(tuple(str(cell) for cell in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if sys.stdout.isatty():
        widths = fitting(widths, shutil.get_terminal_size().columns)
    to_the_right = set(right)
    aligned = [str.rjust if name in to_the_right else str.ljust for name in head]
    for number, line in enumerate(lines):
        for text in row_lines(line, widths, aligned):
            print(paint(text, BOLD) if number == 0 else text)


def row_lines(
    line: Sequence[str], widths: Sequence[int], aligned: Sequence[Callable[[str, int], str]]
) -> Iterator[str]:
    """One row of a table: a line, or several when the last cell does not fit into one."""
    *cells, last = line
    head = [align(cut(cell, width), width) for cell, width, align in zip(cells, widths, aligned, strict=False)]
    width, align = widths[-1], aligned[-1]
    wraps = len(last) > width >= WRAPPED_MIN and " " in last
    for part in textwrap.wrap(last, width) if wraps else [cut(last, width)]:
        yield GAP.join([*head, align(part, width)]).rstrip()
        head = [" " * len(cell) for cell in head]


def fitting(widths: Sequence[int], columns: int) -> list[int]:
    """The widths, the largest of them made smaller as far as the table needs it, none below CUT_MIN."""
    found = [min(width, columns) for width in widths]
    excess = sum(found) + len(GAP) * (len(found) - 1) - columns
    while excess > 0 and (largest := max(found)) > CUT_MIN:
        found[found.index(largest)] -= 1
        excess -= 1
    return found


def cut(cell: str, width: int) -> str:
    """A cell that fits, with an ellipsis where it was longer."""
    return cell if len(cell) <= width else cell[: width - 1] + "…"


def printable(text: str) -> str:
    """A name from a disk, or a message with one, as a terminal may have it: what is not text is escaped."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def counted(count: int, what: str) -> str:
    """`1 record`, `2,000 records`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


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
