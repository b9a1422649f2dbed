"""How far a command is with the logs of directories, on standard error, where there is much to read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping

PROGRESS_FROM_BYTES = 64 << 20
"""Less than that is done before anybody asks how far it is."""
REDRAW_S = 0.2
SEGMENT = ".log"


class Progress:
    """See the module's head. `readings`: how often the work reads a log, at most. `files`: how much it reads of single
    files, by path, instead of whole directories.
    """

    def __init__(
        self, directories: Iterable[str] = (), *, readings: int = 1, files: Mapping[str, int] | None = None
    ) -> None:
        from penstock.cli.progress import Lines

        self.expected = {path: readings * bytes_below(path) for path in directories}
        self.expected.update(files or {})
        self.done_bytes = 0
        self.lines = Lines() if sum(self.expected.values()) >= PROGRESS_FROM_BYTES else None
        self.drawn_at = 0.0

    def of(self, path: str) -> Callable[[int], None]:
        """What the work on one log tells how many bytes more it has looked at."""

        def add(count: int) -> None:
            self.done_bytes += count
            if self.lines is not None and time.monotonic() >= self.drawn_at + REDRAW_S:
                self.drawn_at = time.monotonic()
                self.lines.show([self.text(path)])

        return add

    def up_to(self, path: str) -> Callable[[int], None]:
        """Like `of`, for work that may read some of it twice: no more counts than is expected there."""
        add, left = self.of(path), self.expected[path]

        def told(count: int) -> None:
            nonlocal left
            count = min(count, left)
            left -= count
            if count:
                add(count)

        return told

    def expect(self, path: str, count: int) -> None:
        """The work in one of the directories turns out to be to read so many bytes."""
        self.expected[path] = count

    @property
    def total_bytes(self) -> int:
        return sum(self.expected.values())

    def text(self, path: str) -> str:
        from penstock.cli.output import size_text

        percent = min(100 * self.done_bytes // max(self.total_bytes, 1), 100)
        return f"{percent} % of {size_text(self.total_bytes)}: {path}"

    def clear(self) -> None:
        """Takes the line off a terminal, for output to come."""
        if self.lines is not None and self.lines.is_terminal:
            self.lines.show([])


def bytes_below(directory: str) -> int:
    """Bytes of segments in a directory and those below it."""
    found = 0
    for path, _, files in os.walk(directory):
        for file in files:
            if file.endswith(SEGMENT):
                try:
                    found += os.lstat(os.path.join(path, file)).st_size
                except OSError:
                    continue  # removed meanwhile
    return found
