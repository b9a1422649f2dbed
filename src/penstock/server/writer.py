"""The sending half of a connection: chunks in, bytes out, in order, as fast as the client reads.

A chunk is a buffer or a `FileSlice`. A slice is read when its turn comes, SEND_PIECE_BYTES at a time: at once if the
piece is in the page cache, otherwise in the directory's lane, while other connections go on. So an answer of any size
needs one piece of memory, and none while the client does not read and memory is short: then the piece is dropped and
read again later.

The transport takes lists of buffers, for the kernel or for encryption.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any, Protocol, runtime_checkable

from penstock.log.disk import Buffer, Disk, FileSlice, Operation
from penstock.node.effects import Chunk
from penstock.server.limits import (
    SEND_CHUNKS_MAX,
    SEND_PIECE_BYTES,
    SEND_PIECE_WHEN_SHORT_BYTES,
    TURN_MAX_BYTES,
    UNSENT_PIECES_MAX_BYTES,
)
from penstock.server.transport import Transport


class SendError(Exception):
    """An answer that cannot be completed (its file is gone or too short): the connection must be closed."""


@runtime_checkable
class SliceDisk(Protocol):
    """The part of a server's disk that sending uses."""

    def read_slice(self, piece: FileSlice) -> memoryview:
        """The bytes of a slice: on the loop the resident ones from its start, in a lane all of them.

        Raises OSError, also if its file is gone; in a lane also if that ends before the slice does.
        """
        ...


class WriterHost(Protocol):
    """The surroundings of a writer: the disks, the lanes, and a way to be flushed again.

    Attributes: `unsent_pieces_bytes`, the memory of all writers' pieces of files that have not been sent to their end.
    """

    unsent_pieces_bytes: int

    def resident_disk(self, directory: int) -> SliceDisk:
        """The disk that returns resident bytes and never waits."""
        ...

    def read_in_lane(self, operation: Operation) -> None:
        """Runs a read in its directory's lane; its owner is told."""
        ...

    def wake_when_writable(self, number: int, wanted: bool) -> None:
        """Sets whether the connection is flushed when its socket accepts bytes again."""
        ...


class ReadPiece(Operation):
    """Reads a piece of a file that was not in the page cache. Each writer has one at a time."""

    __slots__ = ("number", "piece", "size_bytes", "tenant")

    def __init__(self, owner: Writer, number: int, piece: FileSlice) -> None:
        super().__init__(piece.directory, f"send-{number}", owner)
        self.number = number
        self.piece = piece
        self.size_bytes = piece.length
        self.tenant: Hashable = None

    def run(self, disk: Disk) -> Buffer:
        """The bytes of the piece, all of them."""
        assert isinstance(disk, SliceDisk)
        return disk.read_slice(self.piece)


class Writer:
    """Sends over a transport. `number` is the connection's.

    Attributes: `queued_bytes`, of buffers (not of files) that have been queued and not sent.

    `_chunks` wait as they were given; `_ready` are bytes for the next call and `_origins`, parallel to it, the slices
    they come from (None: a buffer). `_ready_bytes` counts all of those, `_piece_bytes` what is of slices. The host's
    `unsent_pieces_bytes` counts pieces in full until their last byte is sent: so long they take memory in full.
    `_reading` is the piece that the lane reads, which comes before all of `_chunks`.
    """

    __slots__ = (
        "_chunks", "_closed", "_failure", "_host", "_number", "_origins", "_piece_bytes", "_reading", "_ready",
        "_ready_bytes", "_transport", "_waits", "queued_bytes",
    )  # fmt: skip

    def __init__(self, number: int, transport: Transport, host: WriterHost) -> None:
        self.queued_bytes = 0
        self._number = number
        self._transport = transport
        self._host = host
        self._chunks: deque[Chunk] = deque()
        self._ready: deque[Buffer] = deque()
        self._origins: deque[FileSlice | None] = deque()
        self._ready_bytes = 0
        self._piece_bytes = 0
        self._reading: ReadPiece | None = None
        self._failure: str | None = None
        self._waits = False
        self._closed = False

    def queue(self, chunks: Sequence[Chunk]) -> None:
        """Adds whole frames, to be sent by `flush`."""
        for chunk in chunks:
            if isinstance(chunk, FileSlice):
                if chunk.length:
                    self._chunks.append(chunk)
            elif len(chunk):
                self.queued_bytes += len(chunk)
                self._chunks.append(chunk)

    def flush(self) -> bool:
        """Sends what the socket takes in one turn. True if nothing is left; otherwise it will be called again."""
        chunks = self._chunks
        if not (self._waits or self._ready or self._reading is not None or self._failure is not None):
            if len(chunks) == 1 and type(chunks[0]) is bytes:
                return self._flush_one(chunks[0])  # one small answer: nearly always
            if len(chunks) == 3 and type(chunks[1]) is FileSlice:
                return self._flush_fetched(*chunks)  # one with records: nearly always a Fetch's
        return self._flush_all()

    def _flush_one(self, chunk: bytes) -> bool:
        """Sends the only chunk; what the socket does not take of it is queued as usual."""
        try:
            sent_bytes = self._transport.send(chunk)
        except (BlockingIOError, InterruptedError):
            return self._flush_all()
        self.queued_bytes -= sent_bytes
        if sent_bytes < len(chunk):
            self._chunks[0] = memoryview(chunk)[sent_bytes:]
            return self._flush_all()
        self._chunks.clear()
        return not self._transport.unsent or self._flush_all()

    def _flush_fetched(self, head: Chunk, piece: Chunk, tail: Chunk) -> bool:
        """Sends the only chunks, one of them a range of a file, if that is resident. What the socket does not take of
        them is queued as usual.
        """
        assert isinstance(piece, FileSlice)
        if isinstance(head, FileSlice) or isinstance(tail, FileSlice) or piece.length > self._room_bytes():
            return self._flush_all()
        try:
            data = self._host.resident_disk(piece.directory).read_slice(piece)
        except OSError:
            return self._flush_all()  # which meets it, too
        if len(data) < piece.length:
            return self._flush_all()
        try:
            sent_bytes = self._transport.send_many((head, data, tail))
        except (BlockingIOError, InterruptedError):
            sent_bytes = 0
        self._chunks.clear()
        own_bytes = len(head) + len(tail)
        if sent_bytes == own_bytes + piece.length:
            self.queued_bytes -= own_bytes
            return not self._transport.unsent or self._flush_all()
        self._ready.extend((head, data, tail))
        self._origins.extend((None, piece, None))
        self._ready_bytes = own_bytes + piece.length
        self._piece_bytes = piece.length
        self._host.unsent_pieces_bytes += piece.length
        self._sent_some(sent_bytes)
        self._keep_or_give_back()
        self._wake(True)
        return False

    def _flush_all(self) -> bool:
        transport = self._transport
        if transport.unsent and not transport.push():
            self._wake(True)
            return False
        budget_bytes = TURN_MAX_BYTES
        while budget_bytes > 0:
            self._fill()
            if not self._ready:
                break
            sent_bytes, full = self._send()
            budget_bytes -= sent_bytes
            if full:
                self._keep_or_give_back()
                break
        full = bool(self._ready) or transport.unsent
        unsent = full or bool(self._chunks)
        self._wake(full or (unsent and self._reading is None))
        return not unsent and self._reading is None

    def close(self) -> None:
        """Forgets everything unsent, and the read under way."""
        self._closed = True
        self._wake(False)
        self._chunks.clear()
        self._forget_ready()

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        """Takes a piece that the lane has read; the caller flushes afterwards."""
        assert isinstance(operation, ReadPiece)
        self._reading = None
        if not self._closed:
            self._take(operation.piece, result)

    def operation_failed(self, operation: Operation, error: Exception, now_ms: int) -> None:
        """The lane could not read a piece; the next flush raises the error."""
        assert isinstance(operation, ReadPiece)
        self._reading = None
        self._failure = f"cannot read {operation.piece.path}: {error}"

    def operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        """A bug while the piece was read; the next flush raises it."""
        self._failure = f"a bug: {error!r}"

    def _fill(self) -> None:
        """Makes bytes ready: buffers, and a piece of files, in at most SEND_CHUNKS_MAX parts."""
        if self._failure is not None:
            raise SendError(self._failure)
        chunks, ready = self._chunks, self._ready
        while chunks and self._reading is None and len(ready) < SEND_CHUNKS_MAX:
            chunk = chunks[0]
            if not isinstance(chunk, FileSlice):
                chunks.popleft()
                ready.append(chunk)
                self._origins.append(None)
                self._ready_bytes += len(chunk)
            elif (room_bytes := self._room_bytes()) > 0:
                self._read(chunk, min(chunk.length, room_bytes))
            else:
                return

    def _room_bytes(self) -> int:
        """How many bytes of files may be made ready besides those that are."""
        short = self._host.unsent_pieces_bytes > UNSENT_PIECES_MAX_BYTES // 2
        return (SEND_PIECE_WHEN_SHORT_BYTES if short else SEND_PIECE_BYTES) - self._piece_bytes

    def _read(self, first: FileSlice, length: int) -> None:
        """Takes the resident part of the next `length` bytes of the first slice; has the lane read the rest."""
        wanted = first if length == first.length else first.part(0, length)
        try:
            data = self._host.resident_disk(first.directory).read_slice(wanted)
        except OSError as error:
            raise SendError(f"cannot read {first.path}: {error}") from error
        if data:
            self._take(self._cut(first, len(data)), data)
        if len(data) < length:
            self._reading = ReadPiece(self, self._number, self._cut(self._first_slice(), length - len(data)))
            self._host.read_in_lane(self._reading)

    def _first_slice(self) -> FileSlice:
        first = self._chunks[0]
        assert isinstance(first, FileSlice)
        return first

    def _cut(self, first: FileSlice, length: int) -> FileSlice:
        """Takes `length` bytes off the front slice and leaves its rest in front."""
        assert 0 < length <= first.length
        if length == first.length:
            self._chunks.popleft()
            return first
        self._chunks[0] = first.part(length, first.length - length)
        return first.part(0, length)

    def _take(self, piece: FileSlice, data: Buffer) -> None:
        assert len(data) == piece.length
        self._ready.append(data)
        self._origins.append(piece)
        self._ready_bytes += piece.length
        self._piece_bytes += piece.length
        self._host.unsent_pieces_bytes += piece.length

    def _send(self) -> tuple[int, bool]:
        """One call: returns how many bytes were sent, and whether the socket takes no more now."""
        ready = self._ready
        try:
            sent_bytes = self._transport.send(ready[0]) if len(ready) == 1 else self._transport.send_many(ready)
        except (BlockingIOError, InterruptedError):
            return 0, True
        if sent_bytes == self._ready_bytes:
            self.queued_bytes -= sent_bytes - self._piece_bytes
            self._forget_ready()
            return sent_bytes, False
        self._sent_some(sent_bytes)
        return sent_bytes, True

    def _sent_some(self, sent_bytes: int) -> None:
        """Takes off what is ready what the socket has taken, which is not all of it."""
        ready = self._ready
        self._ready_bytes -= sent_bytes
        left_bytes = sent_bytes
        while True:
            size_bytes = len(ready[0])
            if size_bytes > left_bytes:
                self._sent(self._origins[0], left_bytes)
                ready[0] = memoryview(ready[0])[left_bytes:]
                return
            left_bytes -= size_bytes
            origin = self._origins.popleft()
            self._sent(origin, size_bytes)
            if origin is not None:
                self._host.unsent_pieces_bytes -= origin.length
            ready.popleft()

    def _forget_ready(self) -> None:
        for origin in self._origins:
            if origin is not None:
                self._host.unsent_pieces_bytes -= origin.length
        self._piece_bytes = self._ready_bytes = 0
        self._ready.clear()
        self._origins.clear()

    def _sent(self, origin: FileSlice | None, size_bytes: int) -> None:
        if origin is None:
            self.queued_bytes -= size_bytes
        else:
            self._piece_bytes -= size_bytes

    def _keep_or_give_back(self) -> None:
        """The socket takes no more now: what is ready waits in memory, unless that is short."""
        if self._reading is None and self._host.unsent_pieces_bytes > UNSENT_PIECES_MAX_BYTES:
            self._give_back()

    def _give_back(self) -> None:
        """Drops the file bytes that are ready; their unsent slices return to the front.

        Not while the lane reads: its piece follows what is ready, and precedes all other chunks.
        """
        assert self._reading is None
        for data, origin in zip(reversed(self._ready), reversed(self._origins), strict=True):
            if origin is None:
                self._chunks.appendleft(data)
            else:
                self._chunks.appendleft(origin.part(origin.length - len(data), len(data)))
        self._forget_ready()

    def _wake(self, wanted: bool) -> None:
        if wanted != self._waits:
            self._waits = wanted
            self._host.wake_when_writable(self._number, wanted)
