"""One client's socket: frames in, without a copy, and answers out.

A read takes a pooled buffer, fills it once and slices the whole frames in it; the buffer goes back at the end of the
loop turn. What is left of a frame that has not fully arrived is kept in a buffer of that frame, which the next read
fills first (one `recvmsg_into` fills both). So an idle connection owns no buffer, and a large frame is copied but for
its beginning by the kernel alone.

The buffer of a frame grows with what has arrived (RECEIVE_GROWTH), so an announced size costs nothing. A frame has a
deadline: a sender that dribbles is closed. Reading stops for three reasons, each of its own: the node has enough of
this connection's requests, the client does not read its answers, or memory for requests is short in the whole process.

One readable event makes one read: the selector serves connections round-robin, TURN_MAX_BYTES at most each.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from enum import IntFlag
from struct import Struct
from typing import TYPE_CHECKING

from penstock.config.limits import (
    RECEIVE_BUFFER_BYTES,
    RECEIVE_GROWTH,
    RECEIVE_RATE_MIN_BYTES_PER_S,
    SEND_QUEUE_MAX_BYTES,
    TURN_MAX_BYTES,
)
from penstock.server.buffers import Storage
from penstock.server.writer import PlainWriter, SendError, Writer

if TYPE_CHECKING:
    from penstock.server.shell import Shell

Receiver = Callable[[int, memoryview, int], None]
LENGTH = Struct(">i").unpack_from
LENGTH_BYTES = 4
FIRST_GUESS_BYTES = 1024
RECEIVE_GROWTH_WHEN_SHORT = 1.25


class Pause(IntFlag):
    """Why a connection is not read from."""

    NODE = 1
    ANSWERS = 2
    MEMORY = 4
    CLOSING = 8


class Connection:
    """See the module's head. Driven by the loop (`on_readable`, `on_writable`) and by the shell.

    Attributes:
        number: what the node calls it; never used again.
        address: the client's IP address; peer: with its port, for people.
        frame_since_ms: when the frame that is arriving began.
        active_ms: last time that bytes went either way.
        close_reason: why it is closed once its answers have left; None while it is served.
    """

    __slots__ = (
        "_filled",
        "_key",
        "_largest_bytes",
        "_needed",
        "_partial",
        "_pauses",
        "_receiver",
        "_registered",
        "_shell",
        "_stash",
        "active_ms",
        "address",
        "close_reason",
        "closed",
        "closing_since_ms",
        "frame_since_ms",
        "listener",
        "number",
        "peer",
        "socket",
        "writer",
    )

    def __init__(
        self, shell: Shell, number: int, sock: socket.socket, *, listener: str, address: str, peer: str
    ) -> None:
        now_ms = shell.now_ms
        self.number = number
        self.socket = sock
        self.listener = listener
        self.address = address
        self.peer = peer
        self.active_ms = now_ms
        self.frame_since_ms = now_ms
        self.closing_since_ms = 0
        self.close_reason: str | None = None
        self.closed = False
        self.writer: Writer = PlainWriter(number, sock, shell)
        self._shell = shell
        self._key = number
        self._receiver: Receiver = shell.node.received
        self._largest_bytes = shell.limits.request_max_bytes
        self._stash = b""
        self._partial: Storage | None = None
        self._filled = 0
        self._needed = 0
        self._pauses = Pause(0)
        self._registered = False

    # Reading

    def on_readable(self) -> None:
        """Reads once and hands whole frames to the node."""
        shell = self._shell
        started_s = shell.begin()
        self.active_ms = shell.now_ms
        try:
            self._receive()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            shell.lose(self, f"receive failed: {error.strerror}")
        except Exception as error:  # a bug in the node: it must not be a weapon against other clients
            shell.lose_by_bug(self, error)
        shell.end(started_s)

    def pause(self, reason: Pause) -> None:
        """Stops reading for a reason, in addition to any other."""
        self._pauses |= reason
        self._watch()

    def resume(self, reason: Pause) -> None:
        """Takes one reason away; reads again when none is left."""
        self._pauses &= ~reason
        self._watch()

    def paused_for(self, reason: Pause) -> bool:
        """Whether `reason` is among those that keep us from reading."""
        return bool(self._pauses & reason)

    @property
    def partial_bytes(self) -> int:
        """Memory held by a frame that has not fully arrived."""
        return 0 if self._partial is None else len(self._partial)

    def overdue(self, now_ms: int, timeout_ms: int, haste: int) -> bool:
        """Whether the frame that is arriving has taken longer than allowed; with `haste`, its size gives less time."""
        allowed_ms = timeout_ms + self._filled * 1000 // (RECEIVE_RATE_MIN_BYTES_PER_S * haste)
        return now_ms - self.frame_since_ms > allowed_ms

    def _watch(self) -> None:
        wanted = not self._pauses and not self.closed
        if wanted != self._registered:
            self._registered = wanted
            if wanted:
                self._shell.loop.add_reader(self.socket.fileno(), self.on_readable)
            else:
                self._shell.loop.remove_reader(self.socket.fileno())

    def _receive(self) -> None:
        if self._partial is not None:
            self._receive_more()
            return
        buffer = self._shell.take_buffer()
        try:
            start = len(self._stash)
            if start:
                buffer[:start] = self._stash
                received_bytes = self.socket.recv_into(memoryview(buffer)[start:])
            else:
                received_bytes = self.socket.recv_into(buffer)
            if not received_bytes:
                self._shell.lose(self, "closed by the other side")
                return
            self._stash = b""
            self._slice(memoryview(buffer), start + received_bytes)
        finally:
            self._shell.give_back(buffer)

    def _receive_more(self) -> None:
        """Fills the frame that is arriving, and with the same call what comes after it."""
        assert self._partial is not None
        if self._filled == len(self._partial):
            self._grow()
        storage_end = min(len(self._partial), self._needed)
        rest = memoryview(self._partial)[self._filled : min(storage_end, self._filled + TURN_MAX_BYTES)]
        if self._filled + len(rest) < self._needed:
            received_bytes = self.socket.recv_into(rest)
            self._received(received_bytes, rest)
        else:
            buffer = self._shell.take_buffer()
            try:
                received_bytes = self.socket.recvmsg_into((rest, buffer))[0]
                over_bytes = max(0, received_bytes - len(rest))
                self._received(received_bytes - over_bytes, rest)
                if over_bytes:
                    self._slice(memoryview(buffer), over_bytes)
            finally:
                self._shell.give_back(buffer)

    def _received(self, arrived_bytes: int, rest: memoryview) -> None:
        """So much more of the frame is there, written into `rest`."""
        assert self._partial is not None
        if not arrived_bytes:
            self._shell.lose(self, "closed by the other side inside a frame")
            return
        self._filled += arrived_bytes
        rest.release()
        if self._filled == self._needed:
            self._whole_frame()
        elif self._filled == len(self._partial):
            self._shell.check_memory(self)

    def _whole_frame(self) -> None:
        partial, end = self._partial, self._needed
        assert partial is not None
        self._partial = None
        shell = self._shell
        shell.frame_arrived(self)
        try:
            self._receiver(self._key, memoryview(partial)[LENGTH_BYTES:end], shell.now_ms)
        finally:
            shell.give_back(partial)

    def _slice(self, view: memoryview, end: int) -> None:
        """Hands on the whole frames in `view[:end]` and keeps what is left."""
        shell, key, position = self._shell, self._key, 0
        received, now_ms, largest = self._receiver, shell.now_ms, self._largest_bytes
        while end - position >= LENGTH_BYTES:
            (size,) = LENGTH(view, position)
            if not 0 < size <= largest:
                shell.refuse(self, self.refusal(size))
                return
            stop = position + LENGTH_BYTES + size
            if stop > end:
                self._keep(view[position:end], stop - position)
                return
            received(key, view[position + LENGTH_BYTES : stop], now_ms)
            position = stop
        if position < end:
            self._stash = bytes(view[position:end])
            shell.frame_begins(self)

    def _keep(self, arrived: memoryview, needed: int) -> None:
        """Moves the beginning of a frame out of the pooled buffer."""
        self._needed = needed
        self._filled = len(arrived)
        self._partial = self._storage()
        memoryview(self._partial)[: self._filled] = arrived
        self._shell.frame_begins(self)

    def _grow(self) -> None:
        old = self._partial
        assert old is not None
        self._partial = self._storage()
        memoryview(self._partial)[: self._filled] = memoryview(old)[: self._filled]
        self._shell.give_back(old)

    def _storage(self) -> Storage:
        shell = self._shell
        growth = RECEIVE_GROWTH if shell.may_grow(self) else RECEIVE_GROWTH_WHEN_SHORT
        guess = max(FIRST_GUESS_BYTES, int(self._filled * growth))
        return shell.pool.acquire(min(self._needed, guess))

    # Sending

    def on_writable(self) -> None:
        """The socket takes bytes again."""
        started_s = self._shell.begin()
        self._shell.flush_later(self)
        self._shell.end(started_s)

    def flush(self) -> None:
        """Sends what can be sent; closes when that was the last of a connection to be closed."""
        if self.closed:
            return
        self.active_ms = self._shell.now_ms
        try:
            done = self.writer.flush()
        except (OSError, SendError) as error:
            self._shell.lose(self, str(error))
            return
        if done and self.close_reason is not None:
            self._shell.lose(self, self.close_reason)
            return
        queued_bytes = self.writer.queued_bytes
        if queued_bytes > SEND_QUEUE_MAX_BYTES:
            self.pause(Pause.ANSWERS)
        elif self._pauses & Pause.ANSWERS and queued_bytes <= SEND_QUEUE_MAX_BYTES // 2:
            self.resume(Pause.ANSWERS)

    def watch_writable(self, wanted: bool) -> None:
        """Whether `on_writable` is to be called."""
        if wanted:
            self._shell.loop.add_writer(self.socket.fileno(), self.on_writable)
        else:
            self._shell.loop.remove_writer(self.socket.fileno())

    # The end

    def refusal(self, size_bytes: int) -> str:
        """Why a frame of this size is not received."""
        return f"request of {size_bytes} bytes; socket.request.max.bytes is {self._largest_bytes}"

    def forget(self) -> None:
        """The shell counts it no more."""
        self._shell.client_left(self)

    def tell_lost(self, reason: str) -> None:
        """The node hears that it is gone."""
        self._shell.node.disconnected(self.number, self._shell.now_ms)

    def close(self) -> None:
        """Closes the socket and gives back what it held. The shell does the rest."""
        assert not self.closed
        self.closed = True
        self._watch()
        self.writer.close()
        self.socket.close()
        if self._partial is not None:
            self._shell.give_back(self._partial)
            self._partial = None


assert RECEIVE_BUFFER_BYTES >= LENGTH_BYTES
