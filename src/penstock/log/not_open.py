"""The exception for callers that want at once what requires reading files first: a log, or a directory's sizes."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import NotResident


class Opening:
    """A log on its way to being open. The functions in `when_done` are called once, on the loop, however it ended."""

    __slots__ = ("name", "when_done")

    def __init__(self, name: str) -> None:
        self.name = name
        self.when_done: list[Callable[[int], None]] = []

    def done(self, now_ms: int) -> None:
        """Calls all that wait."""
        waiting, self.when_done = self.when_done, []
        for function in waiting:
            function(now_ms)


class NotOpen(NotResident):
    """The log is not open yet. Append a function to `opening.when_done` and run the handler again when it is called.

    `no_room`: it waits for room on its disk, which nobody else should wait for.
    """

    def __init__(self, directory: int, opening: Opening, *, no_room: bool = False) -> None:
        super().__init__(directory, opening.name, 0, 0)
        self.opening = opening
        self.no_room = no_room
