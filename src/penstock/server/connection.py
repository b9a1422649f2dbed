"""One connection, of a client or to another node: frames in, without a copy, and answers out.

A read fills the loop's one buffer and slices the whole frames in it. If they are few bytes they are copied, and the
buffer serves the next read at once; otherwise it is lent to them, returns to the pool at the end of the loop turn, and
the host takes another. The beginning of an incomplete frame is kept in a buffer for that frame, which the next read
fills first (one `recvmsg_into` fills both). So an idle connection owns no buffer, and of a large frame only the
beginning is copied.

The buffer of a frame grows with what has arrived (RECEIVE_GROWTH), so announcing a size costs nothing. A frame has a
deadline: the connection of a sender that is too slow is closed. A frame that is too large (socket.request.max.bytes)
closes it at once (`frame_too_large`). Reading stops for three independent reasons: the node has enough of this
connection's requests, the client does not read its answers, or memory for requests is short in the whole process.

One readable event makes one read: the selector serves connections round-robin, TURN_MAX_BYTES at most each.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntFlag
from struct import Struct
from typing import TYPE_CHECKING, Protocol

from penstock.protocol.frames import foreign_protocol
from penstock.server.buffers import Storage
from penstock.server.limits import (
    COPIED_READ_BYTES,
    RECEIVE_BUFFER_BYTES,
    RECEIVE_GROWTH,
    RECEIVE_RATE_MIN_BYTES_PER_S,
    SEND_QUEUE_MAX_BYTES,
    TURN_MAX_BYTES,
)
from penstock.server.transport import Transport
from penstock.server.writer import SendError, Writer, WriterHost

if TYPE_CHECKING:
    import asyncio

Receiver = Callable[[int, memoryview, int], None]
LENGTH = Struct(">i").unpack_from
LENGTH_BYTES = 4
FIRST_GUESS_BYTES = 1024
RECEIVE_GROWTH_WHEN_SHORT = 1.25


class Pause(IntFlag):
    """The reasons for not reading from a connection."""

    NODE = 1
    ANSWERS = 2
    MEMORY = 4
    CLOSING = 8
    HANDSHAKE = 16


class ConnectionHost(WriterHost, Protocol):
    """The surroundings of a connection: turns of the loop, memory, and its end.

    Attributes: `now_ms`, the time of the event being handled; `read_buffer`, which the next read fills.
    """

    loop: asyncio.AbstractEventLoop
    now_ms: int
    read_buffer: Storage

    def begin(self) -> None:
        """A callback of the loop begins."""
        ...

    def acquire_buffer(self, size_bytes: int = ...) -> Storage:
        """A buffer of at least this size."""
        ...

    def give_back(self, buffer: Storage) -> None:
        """Takes a buffer back, which may still have views."""
        ...

    def may_grow(self, connection: SocketConnection) -> bool: ...

    def check_memory(self, connection: SocketConnection) -> None:
        """Stops reading from a connection when memory for requests is short."""
        ...

    def frame_begins(self, connection: SocketConnection) -> None: ...

    def frame_arrived(self, connection: SocketConnection) -> None: ...

    def flush_later(self, connection: SocketConnection) -> None: ...

    def lose(self, connection: SocketConnection, reason: str) -> None:
        """Closes a connection now."""
        ...

    def lose_by_bug(self, connection: SocketConnection, error: Exception) -> None: ...

    def refuse(self, connection: SocketConnection, reason: str) -> None:
        """Closes a connection that sent a frame of a size that is not allowed."""
        ...


class Side(Protocol):
    """The client or the other node at the end of a connection: takes its frames and events.

    Attributes:
        receiver: called with the connection's key, a frame and the time.
        largest_bytes: the largest frame that is received; for clients it is socket.request.max.bytes.
        answers_pause: whether reading stops while too much is unsent.
    """

    largest_bytes: int
    answers_pause: bool

    @property
    def receiver(self) -> Receiver: ...

    def established(self, connection: SocketConnection) -> None:
        """The handshake is over, if there was one."""
        ...

    def frame_too_large(self, size_bytes: int) -> str:
        """The reason for closing a connection whose next frame is larger than `largest_bytes`."""
        ...

    def left(self, connection: SocketConnection) -> None:
        """The connection has been closed and no longer counts."""
        ...

    def lost(self, connection: SocketConnection, reason: str) -> None:
        """The connection has ended without being closed by us."""
        ...


class SocketConnection:
    """See the module's head. Driven by the loop (`on_readable`, `on_writable`) and by its host.

    Attributes:
        number: unique and never reused; negative for another node.
        side: the client or the node at the other end.
        address: the client's IP address; peer: with its port, for people.
        frame_since_ms: when the frame that is arriving began.
        active_ms: last time that bytes were sent or received.
        close_reason: why it is closed once its answers have left; None while it is served.
    """

    __slots__ = (
        "_filled", "_host", "_key", "_largest_bytes", "_needed", "_partial", "_pauses", "_receiver", "_registered",
        "_stash", "active_ms", "address", "close_reason", "closed", "closing_since_ms", "frame_since_ms", "listener",
        "number", "peer", "side", "transport", "writer",
    )  # fmt: skip

    def __init__(
        self,
        host: ConnectionHost,
        side: Side,
        transport: Transport,
        number: int,
        *,
        listener: str,
        address: str,
        peer: str,
    ) -> None:
        now_ms = host.now_ms
        self.number = number
        self.side = side
        self.transport = transport
        self.listener = listener
        self.address = address
        self.peer = peer
        self.active_ms = now_ms
        self.frame_since_ms = now_ms
        self.closing_since_ms = 0
        self.close_reason: str | None = None
        self.closed = False
        self.writer = Writer(number, transport, host)
        self._host = host
        self._key = abs(number)
        self._receiver = side.receiver
        self._largest_bytes = side.largest_bytes
        self._stash = b""
        self._partial: Storage | None = None
        self._filled = 0
        self._needed = 0
        self._pauses = Pause(0)
        self._registered = False

    def start(self) -> None:
        """Begins with the handshake, if the transport has one, and then reads."""
        if self.transport.ready:
            self.side.established(self)
        else:
            self._host.frame_begins(self)  # a handshake has its deadline too
            self.transport.on_step = self._stepped
            try:
                self._shake_hands()
            except Exception as error:  # a bug: it is this connection's end alone
                self._host.lose_by_bug(self, error)
        self._watch()

    def _shake_hands(self) -> None:
        try:
            self.transport.shake_hands()
        except (BlockingIOError, InterruptedError):
            if self.transport.stepping:
                self.pause(Pause.HANDSHAKE)
            return
        except OSError as error:
            end = self._host.refuse if self.number > 0 else self._host.lose
            end(self, f"handshake failed: {error}")
            return
        if self.transport.ready:
            self._host.frame_arrived(self)
            self.side.established(self)

    def _stepped(self) -> None:
        """A step of the handshake, which ran elsewhere, has ended."""
        if not self.closed:
            self._pauses &= ~Pause.HANDSHAKE
            self.on_readable()
            self._watch()
            if self.transport.unsent:  # a socket with little room, or a long chain: the other side waits for the rest
                self._host.flush_later(self)

    # Reading

    def on_readable(self) -> None:
        """Reads once and hands whole frames to the node."""
        host = self._host
        host.begin()
        self.active_ms = host.now_ms
        try:
            if self.transport.ready:
                self._receive()
            else:
                self._shake_hands()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            host.lose(self, f"receive failed: {error.strerror or error}")
        except Exception as error:  # a bug in the node: it must not be a weapon against other clients
            host.lose_by_bug(self, error)
        if self.transport.waiting:
            self._read_again()

    def pause(self, reason: Pause) -> None:
        """Stops reading for a reason, in addition to any other."""
        self._pauses |= reason
        self._watch()

    def resume(self, reason: Pause) -> None:
        """Removes one reason; reads again when none is left."""
        self._pauses &= ~reason
        self._watch()

    def paused_for(self, reason: Pause) -> bool:
        """Whether reading is stopped for this reason, perhaps among others."""
        return bool(self._pauses & reason)

    @property
    def partial_bytes(self) -> int:
        """Memory held by a frame that has not fully arrived."""
        return 0 if self._partial is None else len(self._partial)

    def overdue(self, now_ms: int, timeout_ms: int, rate_factor: int) -> bool:
        """Whether the arriving frame has taken too long; a higher `rate_factor` allows it less time for its size."""
        allowed_ms = timeout_ms + self._filled * 1000 // (RECEIVE_RATE_MIN_BYTES_PER_S * rate_factor)
        return now_ms - self.frame_since_ms > allowed_ms

    def _watch(self) -> None:
        wanted = not self._pauses and not self.closed
        if wanted != self._registered:
            self._registered = wanted
            if wanted:
                self._host.loop.add_reader(self.transport.fileno(), self.on_readable)
                if self.transport.waiting:
                    self._read_again()
            else:
                self._host.loop.remove_reader(self.transport.fileno())

    def _read_again(self) -> None:
        """Reads, in a later turn, bytes that the transport holds, unless reading has stopped by then."""
        self._host.loop.call_soon(self._on_waiting)

    def _on_waiting(self) -> None:
        if self._registered and self.transport.waiting:
            self.on_readable()

    def _receive(self) -> None:
        if self._partial is not None:
            self._receive_more()
            return
        host = self._host
        buffer = host.read_buffer
        start = len(self._stash)
        if start:
            buffer[:start] = self._stash
            received_bytes = self.transport.receive_into(memoryview(buffer)[start:])
        else:
            received_bytes = self.transport.receive_into(buffer)
        if not received_bytes:
            host.lose(self, "closed by the other side")
            return
        if start:
            self._stash = b""
            host.frame_arrived(self)  # or its rest: then that begins again
        end = start + received_bytes
        if end <= COPIED_READ_BYTES:
            copied = memoryview(bytearray(memoryview(buffer)[:end]))
            if LENGTH_BYTES < end == LENGTH_BYTES + LENGTH(copied)[0] <= self._largest_bytes:  # as nearly always
                self._receiver(self._key, copied[LENGTH_BYTES:], host.now_ms)
            else:
                self._slice(copied, end)
            return
        host.read_buffer = host.acquire_buffer()
        try:
            self._slice(memoryview(buffer), end)
        finally:
            host.give_back(buffer)

    def _receive_more(self) -> None:
        """Fills the arriving frame, and with the same call the read buffer with what follows."""
        assert self._partial is not None
        if self._filled == len(self._partial):
            self._grow()
        storage_end = min(len(self._partial), self._needed)
        rest = memoryview(self._partial)[self._filled : min(storage_end, self._filled + TURN_MAX_BYTES)]
        if self._filled + len(rest) < self._needed:
            received_bytes = self.transport.receive_into(rest)
            self._received(received_bytes, rest)
        else:
            buffer = self._host.acquire_buffer()
            try:
                received_bytes = self.transport.receive_into_two(rest, buffer)
                over_bytes = max(0, received_bytes - len(rest))
                self._received(received_bytes - over_bytes, rest)
                if over_bytes:
                    self._slice(memoryview(buffer), over_bytes)
            finally:
                self._host.give_back(buffer)

    def _received(self, arrived_bytes: int, rest: memoryview) -> None:
        """Handles more bytes of the arriving frame, which were written into `rest`."""
        assert self._partial is not None
        if not arrived_bytes:
            self._host.lose(self, "closed by the other side inside a frame")
            return
        self._filled += arrived_bytes
        rest.release()
        if self._filled == self._needed:
            self._whole_frame()
        elif self._filled == len(self._partial):
            self._host.check_memory(self)

    def _whole_frame(self) -> None:
        partial, end = self._partial, self._needed
        assert partial is not None
        self._partial = None
        host = self._host
        host.frame_arrived(self)
        try:
            self._receiver(self._key, memoryview(partial)[LENGTH_BYTES:end], host.now_ms)
        finally:
            host.give_back(partial)

    def _slice(self, view: memoryview, end: int) -> None:
        """Passes on the whole frames in `view[:end]` and keeps the rest."""
        host, key, position = self._host, self._key, 0
        received, now_ms, largest = self._receiver, host.now_ms, self._largest_bytes
        while end - position >= LENGTH_BYTES:
            (size,) = LENGTH(view, position)
            if not 0 < size <= largest:
                host.refuse(self, self._too_large(size))
                return
            stop = position + LENGTH_BYTES + size
            if stop > end:
                self._keep(view[position:end], stop - position)
                return
            received(key, view[position + LENGTH_BYTES : stop], now_ms)
            position = stop
        if position < end:
            self._stash = bytes(view[position:end])
            host.frame_begins(self)

    def _keep(self, arrived: memoryview, needed: int) -> None:
        """Moves the beginning of an incomplete frame out of the pooled buffer."""
        self._needed = needed
        self._filled = len(arrived)
        self._partial = self._storage()
        memoryview(self._partial)[: self._filled] = arrived
        self._host.frame_begins(self)

    def _grow(self) -> None:
        old = self._partial
        assert old is not None
        self._partial = self._storage()
        memoryview(self._partial)[: self._filled] = memoryview(old)[: self._filled]
        self._host.give_back(old)

    def _storage(self) -> Storage:
        host = self._host
        growth = RECEIVE_GROWTH if host.may_grow(self) else RECEIVE_GROWTH_WHEN_SHORT
        guess = max(FIRST_GUESS_BYTES, int(self._filled * growth))
        return host.acquire_buffer(min(self._needed, guess))

    def _too_large(self, size_bytes: int) -> str:
        if self._largest_bytes < self.side.largest_bytes and foreign_protocol(size_bytes) is None:
            return f"request of {size_bytes} bytes before login; sasl.server.max.receive.size is {self._largest_bytes}"
        return self.side.frame_too_large(size_bytes)

    def limit_frames(self, largest_bytes: int) -> None:
        """Sets the largest frame that is received, from the next read on."""
        self._largest_bytes = largest_bytes

    # Sending

    def on_writable(self) -> None:
        """The socket takes bytes again."""
        self._host.begin()
        self._host.flush_later(self)

    def flush(self) -> None:
        """Sends what can be sent; a connection that is to be closed is closed after the last byte."""
        if self.closed:
            return
        self.active_ms = self._host.now_ms
        try:
            done = self.writer.flush()
        except (OSError, SendError) as error:
            self._host.lose(self, f"send failed: {error}")
            return
        if done and self.close_reason is not None:
            self._host.lose(self, self.close_reason)
            return
        if not self.side.answers_pause:
            return
        queued_bytes = self.writer.queued_bytes
        if queued_bytes > SEND_QUEUE_MAX_BYTES:
            self.pause(Pause.ANSWERS)
        elif not self._registered and self._pauses & Pause.ANSWERS and queued_bytes <= SEND_QUEUE_MAX_BYTES // 2:
            self.resume(Pause.ANSWERS)

    def watch_writable(self, wanted: bool) -> None:
        """Sets whether `on_writable` is called."""
        if wanted:
            self._host.loop.add_writer(self.transport.fileno(), self.on_writable)
        else:
            self._host.loop.remove_writer(self.transport.fileno())

    # The end

    def close(self) -> None:
        """Closes the socket and gives back its buffers. The host does the rest."""
        assert not self.closed
        self.closed = True
        self._watch()
        self.writer.close()
        self.transport.close()
        if self._partial is not None:
            self._host.give_back(self._partial)
            self._partial = None


assert RECEIVE_BUFFER_BYTES >= LENGTH_BYTES
