"""Ctrl-C and SIGTERM for commands that end at a point of their own choice, such as between two jobs.

A `threading.Event` cannot be set from a signal handler safely: the handler may interrupt the very thread that holds the
event's lock. So this is a flag and a pipe, which is what a handler may touch.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
TERMINATED_EXIT_CODE = 128 + signal.SIGTERM


class Stopping:
    """Set once, by a signal; `is_set` and `wait` as of a threading.Event."""

    def __init__(self) -> None:
        self._set = False
        self._reader, self._writer = os.pipe()

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)

    def set(self) -> None:
        if not self._set:
            self._set = True
            os.write(self._writer, b".")

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float) -> bool:
        """Waits at most `timeout` seconds; whether it is set."""
        deadline = time.monotonic() + timeout
        while not self._set and (left := deadline - time.monotonic()) > 0:
            select.select([self._reader], [], [], left)
        return self._set


@contextlib.contextmanager
def stopped_by_signals(heard: Callable[[], None] = lambda: None) -> Iterator[Stopping]:
    """A Stopping that Ctrl-C and SIGTERM set within the block; `heard` is called at the first of them."""
    stopping = Stopping()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if not stopping.is_set():
            stopping.set()
            heard()

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        stopping.close()


async def unless_terminated(work: Coroutine[Any, Any, None]) -> int:
    """Does the work; SIGTERM ends it as Ctrl-C does, so that a member leaves its group, and a producer
    aborts its transaction. Returns the exit code."""
    import asyncio

    task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        ours = asyncio.current_task()
        if ours is not None and ours.cancelling():
            raise
        return TERMINATED_EXIT_CODE
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
    return 0
