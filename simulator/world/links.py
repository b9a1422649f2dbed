"""The machine's ends of its connections: those that it serves, and those that its node has dialled.

What arrives waits for the machine's loop, in the order in which it came. A slice of a response that is cold is read in
the lane; only its connection waits for it. One whose file is gone by then, or has been cut, ends the connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from penstock.errors import NotResident
from penstock.log.disk import Disk, FileSlice, Operation
from penstock.node.broker import Broker
from penstock.node.effects import Chunk
from simulator.world.disk import SimulatedDisk
from simulator.world.network import Socket
from simulator.world.taps import Tap

LENGTH_BYTES = 4


class LinkHost(Protocol):
    """What a connection asks of its machine.

    Attributes:
        dialled: the connections to other nodes that have not been hung up, by the node's number.
        tap: who listens to those that are served.
    """

    broker: Broker
    disks: Sequence[SimulatedDisk]
    tap: Tap
    dialled: dict[int, DialledLink]

    @property
    def now_ms(self) -> int:
        """The time that the process counts."""

    def on_loop(self, event: Callable[[], None]) -> None:
        """Has something happen on the loop as soon as it is free."""

    def read_in_lane(self, operation: Operation) -> None:
        """Runs a read of a connection that sends."""

    def link_gone(self, link: ServedLink) -> None:
        """A connection that was served is gone."""


class SliceRead(Operation):
    """Reads a cold slice of a response in the lane."""

    __slots__ = ("piece",)

    def __init__(self, piece: FileSlice, link: ServedLink) -> None:
        super().__init__(piece.directory, f"send {link.number}", link)
        self.piece = piece

    def run(self, disk: Disk) -> bytes:
        return disk.read(disk.find(self.piece), self.piece.position, self.piece.length)


class ServedLink:
    """A connection that a client or another node has made.

    Attributes:
        number: what the node calls it.
        paused: the node reads no more of it for now.
    """

    def __init__(self, machine: LinkHost, number: int, socket: Socket) -> None:
        self.machine = machine
        self.number = number
        self.socket = socket
        self.paused = False
        self._unread: deque[bytearray] = deque()
        self._unsent: deque[Chunk | None] = deque()
        self._assembled: list[bytes] = []
        self._said_ms: deque[int] = deque()
        self._reading = False
        self._closing = False

    # What the network says

    def up(self) -> None:
        """Never: it was not dialled."""

    def received(self, frame: bytearray) -> None:
        self.machine.on_loop(lambda: self._deliver(frame))

    def lost(self, reason: str) -> None:
        self.machine.on_loop(lambda: self.machine.link_gone(self))

    def _deliver(self, frame: bytearray) -> None:
        self._unread.append(frame)
        if self.paused:
            self.machine.tap.unread(self.number, self.machine.now_ms)
        self._read_on()

    def _read_on(self) -> None:
        """Gives the node the frame that has waited longest, if it reads."""
        if self._unread and not self.paused:
            frame, now_ms = self._unread.popleft(), self.machine.now_ms
            self.machine.tap.read(self.number, frame, now_ms)
            self.machine.broker.received(self.number, memoryview(frame), now_ms)

    # What the node wants

    def resume(self) -> None:
        """Reads on: what has not been read first, then what waits for the loop already."""
        self.paused = False
        for _ in self._unread:
            self.machine.on_loop(self._read_on)

    def send(self, chunks: Sequence[Chunk]) -> None:
        """Sends whole frames when their slices have been read."""
        self._unsent += [*chunks, None]
        self._said_ms.append(self.machine.now_ms)
        self._send_on()

    def close(self) -> None:
        """Closes when everything has been sent."""
        self._closing = True
        self._send_on()

    def _send_on(self) -> None:
        """Sends what can be sent without waiting for a disk."""
        while self._unsent and self.socket.open and not self._reading:
            chunk = first = self._unsent[0]
            if isinstance(first, FileSlice):
                try:
                    disk = self.machine.disks[first.directory].loop
                    chunk = disk.read(disk.find(first), first.position, first.length)
                except NotResident:
                    self._reading = True
                    self.machine.read_in_lane(SliceRead(first, self))
                    return
                except FileNotFoundError:
                    chunk = b""
                assert isinstance(chunk, bytes | bytearray | memoryview)
                if len(chunk) < first.length:
                    self._break_off()
                    return
            self._unsent.popleft()
            if chunk is not None:
                assert isinstance(chunk, bytes | bytearray | memoryview)
                self._assembled.append(bytes(chunk))
            else:
                self._send_frames()
        if self._closing and not self._unsent:
            self.socket.close()

    def _send_frames(self) -> None:
        data, self._assembled = b"".join(self._assembled), []
        said_ms = self._said_ms.popleft()
        for frame in split(data):
            self.machine.tap.sent(self.number, frame, said_ms)
            self.socket.send(frame)

    def _break_off(self) -> None:
        """An answer cannot be completed."""
        self.socket.close()
        self.machine.link_gone(self)

    # Owner of SliceRead

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        self._reading = False
        first = self._unsent[0]
        if isinstance(first, FileSlice) and len(result) < first.length:
            self._break_off()
            return
        self._unsent[0] = result
        self._send_on()

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        self._break_off()

    def operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        self._break_off()


class DialledLink:
    """A connection to another node; `link` is what our node calls it."""

    def __init__(self, machine: LinkHost, link: int) -> None:
        self.machine = machine
        self.link = link
        self.socket: Socket

    def up(self) -> None:
        self._tell(lambda: self.machine.broker.link_up(self.link, self.machine.now_ms))

    def received(self, frame: bytearray) -> None:
        self._tell(lambda: self.machine.broker.link_received(self.link, memoryview(frame), self.machine.now_ms))

    def lost(self, reason: str) -> None:
        def gone() -> None:
            del self.machine.dialled[self.link]
            self.machine.broker.link_lost(self.link, reason, self.machine.now_ms)

        self._tell(gone)

    def _tell(self, event: Callable[[], None]) -> None:
        """Nothing more is told of a link that the node has hung up."""
        self.machine.on_loop(lambda: event() if self.link in self.machine.dialled else None)


def split(data: bytes) -> list[bytes]:
    """The frames in what is sent at once, each without its length."""
    frames, position = [], 0
    while position < len(data):
        end = position + LENGTH_BYTES + int.from_bytes(data[position : position + LENGTH_BYTES], "big")
        assert end <= len(data), "only whole frames are sent"
        frames.append(data[position + LENGTH_BYTES : end])
        position = end
    return frames
