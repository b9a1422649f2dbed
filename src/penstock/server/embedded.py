"""A node in a thread of a host process, with its own loop: for tests and for programs that contain a broker.

It changes nothing in the host: no signal handler, event-loop policy, logging set-up or `gc.freeze`. After `stop`
nothing of it is left: no thread, no descriptor, no lock.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.server.server import Server

if TYPE_CHECKING:
    from penstock.config.server import Settings


class EmbeddedServer:
    """One node in a thread. `start` and `stop` block and may be called from any other thread.

    Args:
        settings: the node's; its directories must be formatted.
        durable: whether fsync is done.
    """

    def __init__(self, settings: Settings, *, durable: bool = False) -> None:
        self._settings = settings
        self._durable = durable
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        self._error: BaseException | None = None
        self._addresses: Mapping[str, str] = {}
        self.server: Server | None = None

    @property
    def addresses(self) -> Mapping[str, str]:
        """`host:port` by listener name."""
        return self._addresses

    def start(self, timeout_s: float = 60.0) -> None:
        """Starts the node; returns when it serves.

        Raises what `Server.start` raises, and TimeoutError.
        """
        assert self._thread is None, "an embedded server starts once"
        self._thread = threading.Thread(target=self._run, name="penstock-broker", daemon=True)
        self._thread.start()
        if not self._started.wait(timeout_s):
            self.stop()
            raise TimeoutError(f"the broker was not ready after {timeout_s} s")
        if self._error is not None:
            self._thread.join()
            raise self._error

    def stop(self, timeout_s: float = 60.0) -> None:
        """Stops the node cleanly and waits for its thread. Does nothing the second time."""
        thread, loop, stop = self._thread, self._loop, self._stop
        if thread is None or not thread.is_alive():
            return
        if loop is not None and stop is not None:
            with suppress(RuntimeError):  # the loop has just ended by itself
                loop.call_soon_threadsafe(stop.set)
        thread.join(timeout_s)
        if thread.is_alive():
            raise TimeoutError(f"the broker has not stopped after {timeout_s} s")

    def _run(self) -> None:
        loop = asyncio.SelectorEventLoop()
        try:
            self._loop = loop
            loop.run_until_complete(self._serve())
        except BaseException as error:
            self._error = error
        finally:
            loop.close()
            self._started.set()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = self.server = Server(self._settings, durable=self._durable)
        await server.start()
        self._addresses = dict(server.addresses)
        self._started.set()
        await self._stop.wait()
        await server.stop()
