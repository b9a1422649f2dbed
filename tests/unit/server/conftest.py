"""A shell around a small node of the tests' own, on socket pairs and files of a temporary directory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.lane_tasks import Running

from penstock.log.disk import Disk, FileSlice, Operation
from penstock.node.effects import Effect, Send
from penstock.security.certificates import Shown
from penstock.server.clock import Clock
from penstock.server.disk import BlockingDisk
from penstock.server.limits import ShellLimits
from penstock.server.shell import Shell
from penstock.server.transport import Transports, plain


def framed(body: bytes) -> bytes:
    """A frame as it stands on the wire."""
    return struct.pack(">i", len(body)) + body


@dataclass
class FakeNode:
    """Records what it is told; answers each frame with what `answer(connection, frame)` returns (an echo)."""

    frames: list[tuple[int, bytes]] = field(default_factory=list)
    kept: list[memoryview] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    subjects: dict[int, str | None] = field(default_factory=dict)
    waited_ms: dict[int, int] = field(default_factory=dict)
    up: list[int] = field(default_factory=list)
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    links_lost: list[tuple[int, str]] = field(default_factory=list)
    completed: list[tuple[Operation, Any]] = field(default_factory=list)
    failed: list[tuple[Operation, OSError]] = field(default_factory=list)
    broke: list[tuple[Operation, Exception]] = field(default_factory=list)
    ticks: list[int] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    bugs: list[Exception] = field(default_factory=list)
    deadline_ms: int | None = None
    keep: bool = False
    delay_ms: int = 0

    def connection_delay_ms(self, address: str, now_ms: int) -> int:
        return self.delay_ms

    def tenant_of(self, connection: int) -> int:
        return connection

    def answer(self, connection: int, frame: bytes) -> list[Effect]:
        return [Send(connection, [framed(frame)])]

    def connected(
        self, connection: int, listener: str, peer: str, now_ms: int, shown: Shown | None = None, *, since_ms: int = -1
    ) -> None:
        self.subjects[connection] = None if shown is None else shown.subject
        self.waited_ms[connection] = now_ms - since_ms

    def received(self, connection: int, frame: memoryview, now_ms: int) -> None:
        self.frames.append((connection, bytes(frame)))
        if self.keep:
            self.kept.append(frame)
        self.effects += self.answer(connection, bytes(frame))

    def disconnected(self, connection: int, now_ms: int) -> None:
        self.lost.append(connection)

    def link_up(self, link: int, now_ms: int) -> None:
        self.up.append(link)

    def link_received(self, link: int, frame: memoryview, now_ms: int) -> None:
        self.answers.append((link, bytes(frame)))

    def link_lost(self, link: int, reason: str, now_ms: int) -> None:
        self.links_lost.append((link, reason))

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        self.completed.append((operation, result))

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        self.failed.append((operation, error))

    def operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        self.broke.append((operation, error))

    def tick(self, now_ms: int) -> None:
        self.ticks.append(now_ms)
        self.deadline_ms = None

    def next_deadline_ms(self) -> int | None:
        return self.deadline_ms

    def bug(self, place: str, what: str, error: Exception) -> None:
        self.bugs.append(error)

    def take_effects(self) -> list[Effect]:
        taken = self.effects
        self.effects = []
        return taken


class FakeDisk:
    """Files of a directory. `resident` bytes of each slice are given on the loop; the lane reads everything."""

    def __init__(self, path: Path, resident: int | None = None) -> None:
        self.path = path
        self.resident = resident
        self.loop_reads = 0
        self.largest_read = 0

    def read_slice(self, piece: FileSlice) -> memoryview:
        self.loop_reads += 1
        self.largest_read = max(self.largest_read, piece.length)
        data = self._read(piece.path, piece.position, piece.length)
        return memoryview(data if self.resident is None else data[: self.resident])

    def _read(self, path: str, position: int, length: int) -> bytes:
        descriptor = os.open(self.path / path, os.O_RDONLY)
        try:
            return os.pread(descriptor, length, position)
        finally:
            os.close(descriptor)


class FakeBlockingDisk(FakeDisk):
    def read_slice(self, piece: FileSlice) -> memoryview:
        data = self._read(piece.path, piece.position, piece.length)
        if len(data) < piece.length:
            raise OSError(5, "the file ends before the slice", piece.path)
        return memoryview(data)


@dataclass
class FakeDirectory:
    index: int
    disk: Any
    blocking_disk: Any


class World:
    """One shell, one fake node, and the loop they run on."""

    def __init__(self, path: Path, limits: ShellLimits, resident: int | None, transport_of: Transports) -> None:
        self.loop = asyncio.new_event_loop()
        self.node = FakeNode()
        self.disk = FakeDisk(path, resident)
        self.path = path
        self.clock = Clock()
        directory = FakeDirectory(0, self.disk, FakeBlockingDisk(path))
        self.shell = Shell(self.node, self.loop, [directory], limits, clock=self.clock, transport_of=transport_of)
        self.clients: list[socket.socket] = []

    def connect(self, address: str = "10.0.0.1") -> socket.socket:
        """A client's end of a new connection, non-blocking."""
        client, server = socket.socketpair()
        client.setblocking(False)
        self.clients.append(client)
        self.shell.accepted(server, "PLAINTEXT", address, f"{address}:1")
        return client

    def run_until(self, reached: Callable[[], bool], timeout_s: float = 5.0) -> None:
        """Runs the loop until `reached()`; fails after the timeout."""

        async def wait() -> None:
            while not reached():
                await asyncio.sleep(0)

        self.loop.run_until_complete(asyncio.wait_for(wait(), timeout_s))

    def settle(self, turns: int = 10) -> None:
        """Runs the loop for some turns."""

        async def wait() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        self.loop.run_until_complete(wait())

    def read(self, client: socket.socket, size: int) -> bytes:
        """Exactly `size` bytes from a client's socket."""
        data = bytearray()

        def enough() -> bool:
            with contextlib.suppress(BlockingIOError):
                data.extend(client.recv(1 << 20))
            return len(data) >= size

        self.run_until(enough)
        assert len(data) == size
        return bytes(data)

    def read_end(self, client: socket.socket) -> bytes:
        """What is left to read on a socket that the shell closes."""
        data = bytearray()

        def ended() -> bool:
            try:
                received = client.recv(1 << 20)
            except BlockingIOError:
                return False
            except ConnectionResetError:
                return True
            data.extend(received)
            return not received

        self.run_until(ended)
        return bytes(data)

    def file(self, name: str, data: bytes) -> FileSlice:
        """A slice that is the whole of a new file."""
        (self.path / name).write_bytes(data)
        return FileSlice(0, name, 0, len(data))

    def close(self) -> None:
        self.shell.stop()
        for client in self.clients:
            client.close()
        self.settle(2)
        self.loop.close()


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Makes worlds: `make_world(resident=..., idle_ms=...)`, any field of ShellLimits."""
    worlds = []

    def make(resident: int | None = None, transport_of: Transports = plain, **limits: Any) -> World:
        worlds.append(World(tmp_path, ShellLimits(**limits), resident, transport_of))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()


class Note(Operation):
    """An operation that notes its name, and waits for an event first when it is given one."""

    def __init__(
        self, name: str, notes: list[str], *, order: str = "log", inline: bool = False, wait: Any = None
    ) -> None:
        super().__init__(0, order, self, inline=inline)  # type: ignore[arg-type]
        self.name = name
        self.notes = notes
        self.wait = wait

    def run(self, disk: Disk) -> str:
        if self.wait is not None:
            assert self.wait.wait(5)
        self.notes.append(self.name)
        return self.name


@pytest.fixture
def note() -> type[Note]:
    return Note


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[BlockingDisk]:
    """A directory's disk off the loop."""
    disk = BlockingDisk(0, str(tmp_path))
    yield disk
    disk.close()


@pytest.fixture
def run(disk: BlockingDisk) -> Iterator[Callable[[Any], Running]]:
    """Makes lanes over it: `run(workers)`."""
    made: list[Running] = []

    def run(workers: Any) -> Running:
        made.append(Running(disk, workers))
        return made[-1]

    yield run
    for running in made:
        running.lane.close()
