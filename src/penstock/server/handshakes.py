"""TLS handshakes, stepped in a few threads: one step may take more than a millisecond (RSA), and 2,000 clients that
come at once must not hold up the loop. A connection has one step under way at most.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from penstock.server.limits import HANDSHAKE_STEPS_MAX, RECEIVE_BUFFER_BYTES

if TYPE_CHECKING:
    import asyncio

Step = Callable[[], BaseException | None]


class Handshakes:
    """Runs steps in threads and tells the loop of their ends.

    Attributes:
        under_way: steps that run or wait for a thread; at most HANDSHAKE_STEPS_MAX.
        scratch: where encrypted bytes arrive. All connections of the loop share it, since none keeps anything there
            beyond one call.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int) -> None:
        self.under_way = 0
        self.scratch = bytearray(RECEIVE_BUFFER_BYTES)
        self._loop = loop
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="penstock-tls")

    def submit(self, step: Step, ended: Callable[[BaseException | None], None]) -> None:
        """Runs a step, which returns what went wrong, and then calls `ended` with that on the loop.

        Raises ConnectionRefusedError if too many wait.
        """
        if self.under_way >= HANDSHAKE_STEPS_MAX:
            raise ConnectionRefusedError(f"{HANDSHAKE_STEPS_MAX} handshakes wait already")
        self.under_way += 1

        def on_loop(outcome: BaseException | None) -> None:
            self.under_way -= 1
            ended(outcome)

        def done(future: Future[BaseException | None]) -> None:
            if future.cancelled():
                return
            outcome = future.exception() or future.result()
            try:
                self._loop.call_soon_threadsafe(on_loop, outcome)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

        self._pool.submit(step).add_done_callback(done)

    def close(self) -> None:
        """Ends the threads; steps that wait are dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)
