"""A log directory that is only read, and that says how much of it was: for the progress of a command."""

from __future__ import annotations

from collections.abc import Callable

from penstock.server.disk import BlockingDisk


class ToldDisk(BlockingDisk):
    """See the module's head. `told` gets the number of bytes of each read; nobody is told before it is set."""

    def __init__(self, path: str) -> None:
        super().__init__(0, path, writable=False)
        self.told: Callable[[int], None] = lambda count: None

    def read(self, path: str, position: int, length: int) -> bytes:
        data = super().read(path, position, length)
        self.told(len(data))
        return data
