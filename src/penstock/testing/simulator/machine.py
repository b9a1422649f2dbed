"""A machine that runs a whole node: the real Broker on simulated disks, in virtual time, with clients connected to it.

The machine does what the shell of a real server does, and nothing else: it gives the broker frames, ticks and the ends
of operations, one at a time, takes the effects after each and carries them out in order. An event of the loop takes as
long as the disk reads that it did itself, and later events wait for it: so code that reads a cold disk on the loop is
seen in everybody's latency. A slice of a response that is cold is read in the lane; only its connection waits for it.

Frames need time on the network, and keep their order on a connection. When the machine dies all its connections do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from penstock.config.server import Settings
from penstock.errors import NotResident, StorageError
from penstock.log.directory import LogDirectory
from penstock.log.disk import Disk, FileSlice, Operation
from penstock.log.events import LogEvent
from penstock.metadata.format import FormatRequest, format_directories
from penstock.metadata.image import Endpoint
from penstock.node.broker import Broker
from penstock.node.effects import Close, Run, Send
from penstock.raft.voters import VoterEndpoint
from penstock.testing.simulator.disk import PowerLoss, SimulatedDisk
from penstock.testing.simulator.driver import Lanes, Simulation
from penstock.testing.simulator.timeline import check

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
LISTENER = "PLAINTEXT"
RESTART_DELAY_MS = 500
FAILED_STARTS_MAX = 5
"""Starts in a row that may fail by a fault of the disk; then it is the crash before that the node cannot get over."""
EVENT_US = 20
NETWORK_US = (50, 400)

Received = Callable[[bytes], None]
Lost = Callable[["Link"], None]


class Link:
    """A client's connection: what the machine owes it, and when the next frame may arrive on either side."""

    def __init__(self, number: int, received: Received, lost: Lost) -> None:
        self.number = number
        self.received = received
        self.lost = lost
        self.open = True
        self.outgoing: deque[Any] = deque()
        self.assembled: list[bytes] = []
        self.sending = False
        self.next_us = {"in": 0, "out": 0}


class SliceRead(Operation):
    """Reads a cold slice of a response in the lane."""

    __slots__ = ("piece",)

    def __init__(self, piece: FileSlice, link: Link, owner: Any) -> None:
        super().__init__(piece.directory, f"send {link.number}", owner)
        self.piece = piece

    def run(self, disk: Disk) -> bytes:
        return disk.read(self.piece.path, self.piece.position, self.piece.length)


class SliceOwner:
    """Goes on with a link's sending when a slice was read."""

    def __init__(self, machine: Machine, link: Link) -> None:
        self.machine = machine
        self.link = link

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        self.link.sending = False
        self.link.outgoing[0] = result
        self.machine.send_on(self.link)

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        self.machine.lose(self.link)


class Machine:
    """One node and its disks.

    Attributes:
        broker: the present incarnation; `running` while it is.
        lost_power: whether the last death was a power failure.
        events: what its log directories reported, of all incarnations.
        before_start, started, died, stopped: called on those occasions; `started` when the broker is ready, `stopped`
        after a clean stop.
    """

    def __init__(self, simulation: Simulation, disks: Sequence[SimulatedDisk], **settings: Any) -> None:
        self.simulation = simulation
        self.disks = disks
        paths = tuple(f"/data/{disk.directory}" for disk in disks)
        self.settings = Settings.for_node(log_dirs=paths, **settings)
        self.events: list[LogEvent] = []
        self.before_start: Callable[[], None] = lambda: None
        self.started: Callable[[], None] = lambda: None
        self.died: Callable[[], None] = lambda: None
        self.stopped: Callable[[], None] = lambda: None
        self.running = False
        self.lost_power = False
        self.incarnation = 0
        self.broker: Broker
        self._lanes: Lanes
        self._links: dict[int, Link] = {}
        self._last_link = 0
        self._free_us = 0
        self._tick_ms: int | None = None
        self._announced = False
        self._failed_starts = 0
        self._format()

    def _format(self) -> None:
        paths = self.settings.directories
        controller = VoterEndpoint("CONTROLLER", "127.0.0.1", 9093)
        request = FormatRequest(CLUSTER_ID, self.settings.node_id, paths[0], standalone=True, controller=controller)
        disks: dict[str, Disk] = dict(zip(paths, self.disks, strict=True))
        format_directories(disks, request, self.simulation.random, self.simulation.now_ms)

    # Life

    def start(self) -> None:
        """Boots; if the power or every disk fails on the way, once more."""
        self.incarnation += 1
        self.before_start()
        self.broker = Broker(
            self.settings,
            [
                LogDirectory(disk.directory, path, disk.loop, disk)
                for path, disk in zip(self.settings.directories, self.disks, strict=True)
            ],
            random=Random(self.simulation.random.getrandbits(64)),
            report=self._report,
            bug=self._bug,
        )
        self._lanes = Lanes(
            self.simulation,
            self.disks,
            on_event=self._after_event,
            on_crash=self.kill,
            completed=lambda operation, result, now_ms: self._ended(operation, result, None, now_ms),
            failed=lambda operation, error, now_ms: self._ended(operation, None, error, now_ms),
        )
        self._tick_ms = None
        self._announced = False
        self.simulation.trace(f"start {self.incarnation}")
        try:
            self.broker.start([Endpoint(LISTENER, "127.0.0.1", 9092)], self.simulation.now_ms)
        except PowerLoss:
            self.kill()
            return
        except (StorageError, OSError) as error:
            self.simulation.trace(f"start failed: {error}")
            self._failed_starts += 1
            check(self._failed_starts < FAILED_STARTS_MAX, "a node starts after a crash", str(error))
            self.kill()
            return
        self.running = True
        self._failed_starts = 0
        self._free_us = self.simulation.now_us
        self._after_event()

    def shutdown(self) -> None:
        """Begins a clean stop."""
        self.broker.shutdown(self.simulation.now_ms)
        self._after_event()

    def kill(self, *, power_failed: bool = True) -> None:
        """The machine goes down now and comes back a little later; with a reboot, if an fsync has failed on it."""
        power_failed |= any(disk.fsync_failed for disk in self.disks)
        self._lanes.stop()
        self._down()
        for disk in self.disks:
            disk.restart(power_failed=power_failed)
        self.lost_power = power_failed
        self.simulation.trace("power failure" if power_failed else "kill -9")
        self.died()
        self.simulation.after_ms(RESTART_DELAY_MS, self.start)

    def _down(self) -> None:
        self.running = False
        for link in list(self._links.values()):
            self.lose(link, tell=False)

    def _report(self, event: LogEvent) -> None:
        self.events.append(event)
        self.simulation.trace(str(event))

    def _bug(self, where: str, error: Exception) -> None:
        raise AssertionError(f"error in {where}") from error

    # Connections

    def connect(self, received: Received, lost: Lost) -> Link | None:
        """A client connects; None while the machine is down."""
        if not self.running:
            return None
        self._last_link += 1
        link = self._links[self._last_link] = Link(self._last_link, received, lost)
        self.broker.connected(link.number, LISTENER, "127.0.0.1:40000", self.simulation.now_ms)
        return link

    def deliver(self, link: Link, frame: bytearray) -> None:
        """A client sends a frame, without its length."""
        self._travel(link, "in", lambda: self._on_loop(link, frame))

    def lose(self, link: Link, *, tell: bool = True) -> None:
        """A connection breaks; the client hears of it a little later."""
        if link.open:
            link.open = False
            del self._links[link.number]
            if tell:
                self.broker.disconnected(link.number, self.simulation.now_ms)
            self.simulation.after_us(NETWORK_US[1], lambda: link.lost(link))

    def _travel(self, link: Link, way: str, arrive: Callable[[], None]) -> None:
        arrives_us = max(link.next_us[way], self.simulation.now_us + self.simulation.random.randint(*NETWORK_US))
        link.next_us[way] = arrives_us
        self.simulation.after_us(arrives_us - self.simulation.now_us, arrive)

    def _on_loop(self, link: Link, frame: bytearray) -> None:
        """Gives the broker a frame as soon as its loop is free."""
        if not link.open:
            return
        wait_us = self._free_us - self.simulation.now_us
        if wait_us > 0:
            self.simulation.after_us(wait_us, lambda: self._on_loop(link, frame))
            return
        self._event(lambda: self.broker.received(link.number, memoryview(frame), self.simulation.now_ms))

    # The loop

    def _event(self, event: Callable[[], None]) -> None:
        """Does something on the loop, which is busy as long as the disks it used itself."""
        before_us = sum(disk.busy_us for disk in self.disks)
        try:
            event()
            self._after_event()
        except PowerLoss:
            self.kill()
            return
        self._free_us = self.simulation.now_us + EVENT_US + sum(disk.busy_us for disk in self.disks) - before_us

    def _ended(self, operation: Operation, result: Any, error: OSError | None, now_ms: int) -> None:
        if isinstance(operation, SliceRead):
            if error is None:
                operation.owner.operation_completed(operation, result, now_ms)
            else:
                operation.owner.operation_failed(operation, error, now_ms)
        elif error is None:
            self.broker.operation_completed(operation, result, now_ms)
        else:
            self.broker.operation_failed(operation, error, now_ms)

    def _after_event(self) -> None:
        for effect in self.broker.take_effects():
            if isinstance(effect, Run):
                self._lanes.run([effect.operation])
            elif isinstance(effect, Send) and effect.connection in self._links:
                link = self._links[effect.connection]
                link.outgoing += [*effect.chunks, None]
                self.send_on(link)
            elif isinstance(effect, Close) and effect.connection in self._links:
                self.simulation.trace(f"closed {effect.connection}: {effect.reason}")
                self.lose(self._links[effect.connection], tell=False)
        self._set_tick()
        if self.broker.ready and not self._announced:
            self._announced = True
            self.simulation.trace("ready")
            self.started()
        if self.running and self.broker.stopped:
            self.simulation.trace("stopped")
            self._lanes.stop()
            self._down()
            self.stopped()
        elif self.running and self.broker.failure is not None:
            self.simulation.trace(f"failed: {self.broker.failure}")
            self.kill()

    def _set_tick(self) -> None:
        deadline_ms = self.broker.next_deadline_ms()
        if deadline_ms is not None and (self._tick_ms is None or deadline_ms < self._tick_ms):
            self._tick_ms = deadline_ms
            incarnation = self.incarnation
            self.simulation.at_ms(deadline_ms, lambda: self._tick(incarnation, deadline_ms))

    def _tick(self, incarnation: int, set_for_ms: int) -> None:
        if self.running and incarnation == self.incarnation and self._tick_ms == set_for_ms:
            self._tick_ms = None
            self._event(lambda: self.broker.tick(self.simulation.now_ms))

    # Sending

    def send_on(self, link: Link) -> None:
        """Sends what can be sent to a client without waiting for a disk."""
        while link.outgoing and link.open and not link.sending:
            chunk = link.outgoing[0]
            if isinstance(chunk, FileSlice):
                try:
                    chunk = self.disks[chunk.directory].loop.read(chunk.path, chunk.position, chunk.length)
                except NotResident:
                    link.sending = True
                    self._lanes.run([SliceRead(chunk, link, SliceOwner(self, link))])
                    return
                except FileNotFoundError:
                    self.lose(link)
                    return
            link.outgoing.popleft()
            if chunk is not None:
                link.assembled.append(bytes(chunk))
            else:
                self._send_frames(link)

    def _send_frames(self, link: Link) -> None:
        data, link.assembled = b"".join(link.assembled), []
        while data:
            end = 4 + int.from_bytes(data[:4], "big")
            assert end <= len(data), "only whole frames are sent"
            frame, data = data[4:end], data[end:]
            self._travel(link, "out", lambda content=frame: self._arrived(link, content))  # type: ignore[misc]

    def _arrived(self, link: Link, frame: bytes) -> None:
        if link.open:
            link.received(frame)
