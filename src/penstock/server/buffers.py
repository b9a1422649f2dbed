"""Receive buffers: pooled, lent to requests as memoryviews, reused only when no view of them is left.

A connection takes a buffer for one read and gives it back when the node has got the frames, so the next read of the
same turn reuses it: thousands of sockets that become readable at once need one buffer, not thousands. The node may
still hold views of it: of a frame whose bytes it appends at the end of the turn, or of a request that waits. A
bytearray with exported views refuses to change its length, which is how the pool finds out: such a buffer is tried
again at the end of the turn; after that it counts as lent and is looked at now and then. So nothing is copied, and
nothing is overwritten while in use.
"""

from __future__ import annotations

from collections import deque
from mmap import mmap

from penstock.server.limits import BUFFER_POOL_MAX_BYTES, RECEIVE_BUFFER_BYTES

POOLED_MAX_BYTES = 4 * 1024 * 1024
"""Larger frames get anonymous memory of their exact size, which the system takes back when the last view goes."""

SMALL_MAX_BYTES = RECEIVE_BUFFER_BYTES // 2
"""Smaller buffers are made to measure and not kept: a connection that sends a frame bit by bit holds little."""

LENT_LOOKS_PER_TURN = 8

Storage = bytearray | mmap


class BufferPool:
    """Buffers of RECEIVE_BUFFER_BYTES and its power-of-two multiples, free ones kept up to `free_max_bytes` in all.

    Attributes: `held_bytes`, the bytes of all buffers handed out and not yet free of views.
    """

    __slots__ = ("_free", "_free_bytes", "_free_max_bytes", "_lent", "held_bytes")

    def __init__(self, free_max_bytes: int = BUFFER_POOL_MAX_BYTES) -> None:
        self._free: dict[int, list[bytearray]] = {}
        self._free_bytes = 0
        self._free_max_bytes = free_max_bytes
        self._lent: deque[Storage] = deque()
        self.held_bytes = 0

    def acquire(self, size_bytes: int = RECEIVE_BUFFER_BYTES) -> Storage:
        """A writable buffer of at least `size_bytes`, with arbitrary content."""
        if size_bytes > POOLED_MAX_BYTES:
            self.held_bytes += size_bytes
            return mmap(-1, size_bytes)
        if size_bytes <= SMALL_MAX_BYTES:
            self.held_bytes += size_bytes
            return bytearray(size_bytes)
        size_bytes = size_class(size_bytes)
        self.held_bytes += size_bytes
        free = self._free.get(size_bytes)
        if free:
            self._free_bytes -= size_bytes
            return free.pop()
        return bytearray(size_bytes)

    def release(self, buffer: Storage) -> None:
        """Gives a buffer back. Views of it may still be held: then it is lent until they are gone."""
        if not self.reclaim(buffer):
            self._lent.append(buffer)

    def look(self, most: int = LENT_LOOKS_PER_TURN) -> None:
        """Takes back lent buffers that have no views any more; looks at no more than `most` of them."""
        lent = self._lent
        for _ in range(min(most, len(lent))):
            buffer = lent.popleft()
            if not self.reclaim(buffer):
                lent.append(buffer)

    @property
    def lent_buffers(self) -> int:
        """How many buffers cannot be reused because of views."""
        return len(self._lent)

    def reclaim(self, buffer: Storage) -> bool:
        """Takes a buffer back if it has no views; returns whether it did."""
        size_bytes = len(buffer)
        try:
            if isinstance(buffer, mmap):
                buffer.close()
            else:
                buffer.append(0)
                buffer.pop()
        except BufferError:
            return False
        self.held_bytes -= size_bytes
        if (
            RECEIVE_BUFFER_BYTES <= size_bytes <= POOLED_MAX_BYTES
            and self._free_bytes + size_bytes <= self._free_max_bytes
        ):
            self._free_bytes += size_bytes
            self._free.setdefault(size_bytes, []).append(buffer)  # type: ignore[arg-type]
        return True


def size_class(size_bytes: int) -> int:
    """The smallest power-of-two multiple of RECEIVE_BUFFER_BYTES that holds `size_bytes`."""
    return max(RECEIVE_BUFFER_BYTES, 1 << (size_bytes - 1).bit_length())
