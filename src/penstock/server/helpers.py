"""Threads that help another one with work that waits for the system, such as many fsyncs at the same time.

They start when they are first needed, and stay. They are daemons: one that is stuck in a dead disk does not keep the
process from ending.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Batch(Generic[T, R]):
    """Items that several threads work on, each taking the next one. `results` are complete when `done` is set."""

    def __init__(self, work: Callable[[T], R], items: Sequence[T]) -> None:
        self.done = threading.Event()
        self.error: Exception | None = None
        self.results: dict[int, R] = {}
        self._work = work
        self._todo = deque(enumerate(items))
        self._left = len(items)
        self._lock = threading.Lock()

    def help(self) -> None:
        """Works on items until all are taken."""
        while True:
            try:
                number, item = self._todo.popleft()
            except IndexError:
                return
            try:
                self.results[number] = self._work(item)
            except Exception as error:
                self.error = error
            with self._lock:
                self._left -= 1
                if not self._left:
                    self.done.set()


class Helpers:
    """At most `threads_max` threads of this name. `map` may be called from several threads."""

    def __init__(self, name: str, threads_max: int) -> None:
        self._name = name
        self._threads_max = threads_max
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def map(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """The results of `work` for the items, in their order; the calling thread does its part.

        Raises one of the exceptions that `work` raised, when it has been called for all items.
        """
        if not items:
            return []
        batch = Batch(work, items)
        for _ in range(self._started(min(self._threads_max, len(items) - 1))):
            self._calls.put(batch.help)
        batch.help()
        batch.done.wait()
        if batch.error is not None:
            raise batch.error
        return [batch.results[number] for number in range(len(items))]

    def close(self) -> None:
        """Ends the threads when they have done what they do; they start again when they are needed."""
        with self._lock:
            threads, self._threads = self._threads, []
        for _ in threads:
            self._calls.put(None)

    def _started(self, count: int) -> int:
        """How many threads there are now, up to `count`; fewer, or none, if the system has no more of them."""
        with self._lock:
            while len(self._threads) < count:
                name = f"{self._name}-{len(self._threads)}"
                thread = threading.Thread(target=self._run, name=name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    break
                self._threads.append(thread)
            return min(count, len(self._threads))

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
