"""A network that can fall silent: nothing arrives any more, and nobody is told.

    with SilentNetwork() as network:
        port = network.port_to("a", 9093)     # "a" reaches 127.0.0.1:9093 by this port of the loopback
        network.silence("a")
        network.speak()

What is sent over a silent connection waits, as TCP has it, and so does the news of its end; new connections are
accepted and then silent too. Connections go on where they were when the network speaks again.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

CHUNK_BYTES = 64 * 1024


class SilentNetwork:
    """See the module's head. Runs in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._speaks: dict[str, asyncio.Event] = {}

    def port_to(self, name: str, port: int) -> int:
        """A new way to a port; all ways of one name are silenced together."""
        return asyncio.run_coroutine_threadsafe(self._listen(name, port), self._loop).result(10)

    def silence(self, *names: str) -> None:
        """Nothing more arrives over the ways of these names."""
        self._loop.call_soon_threadsafe(lambda: [self._speaks[name].clear() for name in names])

    def speak(self) -> None:
        """Everything arrives again."""
        self._loop.call_soon_threadsafe(lambda: [event.set() for event in self._speaks.values()])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _listen(self, name: str, port: int) -> int:
        speaks = self._speaks.setdefault(name, asyncio.Event())
        speaks.set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self._writers.add(writer)
            with suppress(OSError, asyncio.CancelledError):
                await speaks.wait()
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
                self._writers.add(far_writer)
                try:
                    await asyncio.gather(pump(reader, far_writer, speaks), pump(far_reader, writer, speaks))
                finally:
                    far_writer.close()
            writer.close()

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        self._servers.append(server)
        own: int = server.sockets[0].getsockname()[1]
        return own

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:  # closing alone would wait for ever for a reader that takes no more
            writer.transport.abort()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, speaks: asyncio.Event) -> None:
    """Passes bytes on as long as the network speaks; the end of one direction ends both."""
    while data := await reader.read(CHUNK_BYTES):
        await speaks.wait()
        writer.write(data)
        await writer.drain()
    await speaks.wait()
    raise ConnectionError("the other side has closed")
