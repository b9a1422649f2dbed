"""Sockets that are not served and are closed a little later, so that who is refused does not come back at once."""

from __future__ import annotations

import asyncio
import socket

from penstock.server.limits import CLOSED_LATER_MAX


class ClosedLater:
    """See the module's head. At most CLOSED_LATER_MAX are kept: the oldest is closed when there are more."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timers: dict[socket.socket, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def close_in(self, delay_ms: int, sock: socket.socket) -> None:
        """Closes a socket after some time."""
        if len(self._timers) >= CLOSED_LATER_MAX:
            self._close(next(iter(self._timers)))
        self._timers[sock] = self._loop.call_later(delay_ms / 1_000, self._close, sock)

    def close_all(self) -> None:
        """Closes all now."""
        for sock in list(self._timers):
            self._close(sock)

    def _close(self, sock: socket.socket) -> None:
        self._timers.pop(sock).cancel()
        sock.close()
