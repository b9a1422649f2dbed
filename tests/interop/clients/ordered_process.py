"""A client as a process that takes orders: one a line in, an answer or events a line out. It ends with its input."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from typing import Self

END_TIMEOUT_S = 30.0


class OrderedProcess:
    """See the module's head. A context manager."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = command

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.ended()
        self.process.stdout.close()

    def ended(self) -> None:
        """Called when the process has ended, before what it has said is closed."""

    def give(self, order: str) -> None:
        """Gives an order."""
        assert self.process.stdin is not None
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()

    def ask(self, order: str) -> str:
        """Gives an order and waits for the line that answers it."""
        assert self.process.stdout is not None
        self.give(order)
        line = self.process.stdout.readline()
        assert line, f"{self.command} died of {order}"
        return line

    def lines(self) -> Iterator[str]:
        """What the process says, until it ends."""
        assert self.process.stdout is not None
        yield from self.process.stdout
