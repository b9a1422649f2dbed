"""Connects one node to the world: sockets, lanes and time become events, effects are carried out. It decides nothing.

In one turn of the loop, readable sockets pass their frames to the node; at the end of the turn (one `call_soon` for all
of them) `_end_turn` takes the node's effects, runs and submits operations, queues answers, and flushes each connection
once. So the appends of one turn go out together, and so do the answers to one connection.

The time of a turn is that of its last event. Receive buffers that were used in it return to the pool after the effects
are carried out; those whose bytes the node still needs count as lent.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from time import perf_counter
from typing import Any, Protocol

from penstock.events import RateLimit, events
from penstock.log.disk import Disk, Operation
from penstock.node.effects import Effect, LetIn, PauseReading, ResumeReading, Run, Send
from penstock.node.limits import REFUSAL_REPEAT_MS, REFUSALS_REMEMBERED_MAX
from penstock.node.login_steps import LOGIN_LANE
from penstock.node.telemetry.disk_reads import DiskReads
from penstock.protocol.frames import foreign_protocol
from penstock.security.certificates import Shown, subject_of
from penstock.security.stores.der import DerError
from penstock.server.buffers import BufferPool, Storage
from penstock.server.clock import Clock
from penstock.server.connection import Pause, Receiver, SocketConnection
from penstock.server.entrance import Entrance
from penstock.server.histogram import Histogram
from penstock.server.lane import Completions, Lane
from penstock.server.limits import CLOSE_LINGER_MS, LOGIN_THREADS, RECEIVE_BUFFER_BYTES, ShellLimits
from penstock.server.links import LINK_EFFECTS, Links
from penstock.server.node import Node
from penstock.server.transport import Transports, plain
from penstock.server.workers import Workers
from penstock.server.writer import ReadPiece, SliceDisk

logger = events("server.connection")

SWEEP_EVERY_MS = 1000
LARGE_FRAME_BYTES = 64 * 1024
"""Frames with more memory than this wait first when memory is short; small requests of others go on."""
RECEIVE_RATE_FACTOR_WHEN_SHORT = 64
"""While memory for requests is short, a frame has this share of the time for its size: dribbling senders go first."""
EFFECT_ROUNDS_PER_TURN = 100
"""Inline operations complete within a turn and may cause further effects; after so many rounds the loop serves others
first.
"""


class ShellDirectory(Protocol):
    """One log directory of the shell."""

    index: int

    @property
    def disk(self) -> Disk: ...

    @property
    def blocking_disk(self) -> Disk: ...


class Shell:
    """Runs `node` on `loop`. Listeners pass connections to `accepted`; the shell is the host of all connections, and
    the side of its clients.

    Attributes:
        connections: of clients, by number. links: to other nodes.
        read_buffer: the next read of a socket fills it. It has no views.
        now_ms: the time of the event being handled.
        receiver, largest_bytes, answers_pause: of clients, see `connection.Side`.
        turn_seconds: how long the loop's turns took, each from its first callback to the end of its effects.
        entrance: where connections of clients come in.
        disk_reads: bytes of logs that had to be read when they were sent.
        workers: for the lanes' tasks, if there are any.
        broken: the bug that stopped the node; None while there is none.
    """

    answers_pause = True

    def __init__(
        self,
        node: Node,
        loop: asyncio.AbstractEventLoop,
        directories: Sequence[ShellDirectory],
        limits: ShellLimits,
        *,
        clock: Clock,
        lane_threads: int = 2,
        workers: Workers | None = None,
        on_turn_end: Callable[[], None] | None = None,
        transport_of: Transports = plain,
    ) -> None:
        self.node = node
        self.loop = loop
        self.limits = limits
        self.clock = clock
        self.pool = BufferPool()
        self.read_buffer: Storage = bytearray(RECEIVE_BUFFER_BYTES)
        self.transport_of = transport_of
        self.largest_bytes = limits.request_max_bytes
        self.connections: dict[int, SocketConnection] = {}
        self.links = Links(self)
        self.unsent_pieces_bytes = 0
        self.disk_reads = DiskReads()
        self.turn_seconds = Histogram()
        self.entrance = Entrance(self, limits.rate_windows, limits.connections_max)
        self._refusals = RateLimit(REFUSAL_REPEAT_MS, REFUSALS_REMEMBERED_MAX)
        self.broken: Exception | None = None
        self.now_ms = clock.now_ms()
        self.completions = Completions(self._wake)
        self.lanes = {
            each.index: Lane(each.index, each.blocking_disk, self.completions, threads=lane_threads, workers=workers)
            for each in directories
        }
        self.lanes[LOGIN_LANE] = Lane(LOGIN_LANE, None, self.completions, threads=LOGIN_THREADS)
        self.workers = workers
        self._resident_disks: dict[int, SliceDisk] = {}
        for directory in directories:
            assert isinstance(directory.disk, SliceDisk), "a server sends slices of its logs"
            self._resident_disks[directory.index] = directory.disk
        self._on_turn_end = on_turn_end
        self._next_number = 1
        self._used_buffers: list[Storage] = []
        self._to_flush: dict[int, SocketConnection] = {}
        self._arriving: dict[int, SocketConnection] = {}
        self._starved: dict[int, SocketConnection] = {}
        self._closing: dict[int, SocketConnection] = {}
        self._idle_checks: list[tuple[int, int]] = []
        self._turn_ends = False
        self._turn_began_s = 0.0
        self._more_events = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._sweep: asyncio.TimerHandle | None = None
        self._sweep_ms = 0
        self._stopped = False

    # Turns

    def begin(self) -> None:
        """A callback of the loop begins: reads the clock. What the node makes of it leaves at the end of the turn."""
        self.now_ms = self.clock.now_ms()
        if not self._turn_ends:
            self._end_turn_soon()

    def _end_turn_soon(self) -> None:
        if not self._turn_ends:
            self._turn_ends = True
            self._turn_began_s = perf_counter()
            self.loop.call_soon(self._end_turn)

    def kick(self) -> None:
        """The node got an event outside of our callbacks (start, shutdown): carries out its effects soon."""
        self.begin()

    def guarded(self, work: Callable[[], None]) -> None:
        """Runs one of our callbacks. The node raises nothing, and errors of a connection end only that connection: an
        exception here is a bug of the shell, and stops the node.
        """
        self.begin()
        self._run_guarded(work)

    def _run_guarded(self, work: Callable[[], None]) -> None:
        if self.broken is not None:
            return
        try:
            work()
        except Exception as error:
            self.broken = error
            logger.error("a bug: the node goes no further", trace=True)
        if self._on_turn_end is not None:
            self._on_turn_end()

    def _end_turn(self) -> None:
        began_s = self._turn_began_s
        self._turn_ends = False
        self._run_guarded(self._take_effects)
        self.turn_seconds.add(perf_counter() - began_s)

    def _take_effects(self) -> None:
        for _ in range(EFFECT_ROUNDS_PER_TURN):
            self._more_events = False
            effects = self.node.take_effects()
            for effect in effects:
                try:
                    self._carry_out(effect)
                except Exception as error:
                    self._effect_broke(effect, error)
            effects.clear()
            if not self._more_events:
                break
        else:
            self._end_turn_soon()
        while self._to_flush:
            _, connection = self._to_flush.popitem()
            try:
                connection.flush()
            except Exception as error:
                self.lose_by_bug(connection, error)
        if self._used_buffers or self._starved or self.pool.lent_buffers:
            self._release_buffers()
        self._arm()

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Run):
            self._more_events = True
            self._run(effect.operation)
        elif isinstance(effect, LINK_EFFECTS):
            self._more_events = True
            self.links.carry_out(effect)
        else:
            connection = self.connections.get(effect.connection)
            if connection is None or connection.closed:
                return
            if isinstance(effect, Send):
                connection.writer.queue(effect.chunks)
                self._to_flush[connection.number] = connection
            elif isinstance(effect, PauseReading):
                connection.pause(Pause.NODE)
            elif isinstance(effect, ResumeReading):
                connection.resume(Pause.NODE)
            elif isinstance(effect, LetIn):
                connection.limit_frames(self.largest_bytes)
            else:
                self.close_after_answers(connection, effect.reason)

    def _effect_broke(self, effect: Effect, error: Exception) -> None:
        """A bug: an effect could not be carried out. If it was for a connection, closes that."""
        self._more_events = True
        number = getattr(effect, "connection", None)
        connection = None if number is None else self.connections.get(number)
        if connection is None:
            self.node.bug("connection", f"the effect {type(effect).__name__}", error)
        else:
            self.lose_by_bug(connection, error)

    # Operations

    def read_in_lane(self, operation: Operation) -> None:
        """Runs a writer's read in its directory's lane, in the turn of whom it is for."""
        if isinstance(operation, ReadPiece):
            operation.tenant = self.node.tenant_of(operation.number)
            self.disk_reads.count(operation.piece.path, operation.size_bytes)
        self._run(operation)

    def resident_disk(self, directory: int) -> SliceDisk:
        """The disk of a directory that never waits."""
        return self._resident_disks[directory]

    def _run(self, operation: Operation) -> None:
        outcome = self.lanes[operation.directory].run(operation)
        if outcome is not None:
            self._ended(operation, outcome.result, outcome.error)

    def _ended(self, operation: Operation, result: Any, error: Exception | None) -> None:
        if isinstance(operation, ReadPiece):
            self._piece_ended(operation, result, error)
        elif error is None:
            self.node.operation_completed(operation, result, self.now_ms)
        elif isinstance(error, OSError):
            self.node.operation_failed(operation, error, self.now_ms)
        else:
            self.node.operation_broke(operation, error, self.now_ms)

    def _piece_ended(self, operation: ReadPiece, result: Any, error: Exception | None) -> None:
        try:
            if error is None:
                operation.owner.operation_completed(operation, result, self.now_ms)
            elif isinstance(error, OSError):
                operation.owner.operation_failed(operation, error, self.now_ms)
            else:
                raise error
        except Exception as bug:
            operation.owner.operation_broke(operation, bug, self.now_ms)
            self.node.bug("connection", f"bytes of connection {operation.number}", bug)
        if (connection := self._connection(operation.number)) is not None:
            self.flush_later(connection)

    def _wake(self) -> None:
        """Wakes the loop; called in a lane's thread when outcomes begin to gather."""
        try:
            self.loop.call_soon_threadsafe(self.guarded, self._take_outcomes)
        except RuntimeError:  # the loop is closed: a thread that was stuck in a disk has come back after the stop
            return

    def _take_outcomes(self) -> None:
        for outcome in self.completions.take():
            self.lanes[outcome.operation.directory].heard(outcome)
            self._ended(outcome.operation, outcome.result, outcome.error)
        self._end_turn_soon()

    # Connections

    def accepted(self, sock: socket.socket, listener: str, address: str, peer: str) -> None:
        """A client has connected. Closes the socket if a limit is exceeded; an error ends only this connection."""
        if not self.entrance.admits(sock, listener, address):
            return
        try:
            self.prepare(sock)
        except OSError:  # the client is gone already
            sock.close()
            return
        try:
            transport = self.transport_of(listener, sock, None)
        except Exception as error:
            sock.close()
            self.node.bug("connection", f"a new connection of {address}", error)
            return
        number = self._next_number
        self._next_number += 1
        connection = SocketConnection(self, self, transport, number, listener=listener, address=address, peer=peer)
        limits = self.limits
        connection.limit_frames(limits.before_login_max_bytes.get(listener, self.largest_bytes))
        self.connections[number] = connection
        self.entrance.entered(listener, address)
        if limits.idle_ms >= 0:
            heappush(self._idle_checks, (self.now_ms + limits.idle_ms, number))
            self._sweep_soon()
        try:
            connection.start()
        except Exception as error:
            self.lose_by_bug(connection, error)

    def lose(self, connection: SocketConnection, reason: str) -> None:
        """Closes a connection now, and tells the node unless the node asked for it."""
        if connection.closed:
            return
        logger.debug("connection closed", connection=connection.number, peer=connection.peer, reason=reason)
        connection.close()
        connection.side.left(connection)
        for register in (self._arriving, self._starved, self._closing, self._to_flush):
            register.pop(connection.number, None)
        if connection.close_reason is None:
            connection.side.lost(connection, reason)

    # Clients, as a side of connections

    @property
    def receiver(self) -> Receiver:
        return self.node.received

    def established(self, connection: SocketConnection) -> None:
        """Tells the node of a client, with the certificate that it has shown, if any."""
        certificate = connection.transport.certificate
        try:
            shown = None if certificate is None else Shown(subject_of(certificate), certificate)
        except DerError as error:
            self.refuse(connection, f"the subject of its certificate cannot be read: {error}")
            return
        number, since_ms = connection.number, connection.frame_since_ms
        self.node.connected(number, connection.listener, connection.peer, self.now_ms, shown, since_ms=since_ms)

    def frame_too_large(self, size_bytes: int) -> str:
        """The reason for closing a client's connection whose frame is larger than socket.request.max.bytes."""
        if (spoken := foreign_protocol(size_bytes)) is not None:
            return f"the client speaks {spoken}, this listener does not"
        return f"request of {size_bytes} bytes; socket.request.max.bytes is {self.largest_bytes}"

    def lost(self, connection: SocketConnection, reason: str) -> None:
        """Tells the node that a client is gone, if it knew that one."""
        if connection.transport.ready:
            self.node.disconnected(connection.number, self.now_ms)
        self._end_turn_soon()

    def left(self, connection: SocketConnection) -> None:
        """A client's connection has been closed and no longer counts."""
        del self.connections[connection.number]
        self.entrance.left(connection.listener, connection.address)

    # The end of a connection

    def lose_by_bug(self, connection: SocketConnection, error: Exception) -> None:
        """Closes a connection after a bug in the code that serves it."""
        self.lose(connection, "a bug while it was served")
        self.node.bug("connection", f"the connection of {connection.peer}", error)

    def refuse(self, connection: SocketConnection, reason: str) -> None:
        """Closes a connection that sent a frame of a size that is not allowed."""
        suppressed = self._refusals.suppressed((connection.address, reason), self.now_ms)
        if suppressed is not None:
            more = {"more_since_the_last": suppressed} if suppressed else {}
            logger.info("connection refused", peer=connection.peer, reason=reason, **more)
        self.lose(connection, reason)

    def close_after_answers(self, connection: SocketConnection, reason: str) -> None:
        """Closes a connection when everything queued for it has been sent, or after CLOSE_LINGER_MS."""
        if connection.close_reason is None:
            connection.close_reason = reason
            connection.closing_since_ms = self.now_ms
            connection.pause(Pause.CLOSING)
            self._closing[connection.number] = connection
            self._arriving.pop(connection.number, None)
            self.flush_later(connection)
            self._sweep_soon()

    def flush_later(self, connection: SocketConnection) -> None:
        """Flushes the connection at the end of this turn."""
        self._to_flush[connection.number] = connection

    def wake_when_writable(self, number: int, wanted: bool) -> None:
        """Sets whether the connection is flushed when its socket accepts bytes again."""
        connection = self._connection(number)
        if connection is not None:
            connection.watch_writable(wanted)

    def _connection(self, number: int) -> SocketConnection | None:
        """A client's connection, or with a negative number a link."""
        return self.connections.get(number) if number > 0 else self.links.connected.get(-number)

    def prepare(self, sock: socket.socket) -> None:
        """Sets the options of a new socket."""
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.limits.send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.send_buffer_bytes)

    # Receive memory

    def acquire_buffer(self, size_bytes: int = RECEIVE_BUFFER_BYTES) -> Storage:
        """A buffer of at least this size, to be given back."""
        return self.pool.acquire(size_bytes)

    def give_back(self, buffer: Storage) -> None:
        """Takes a buffer back, now or at the end of the turn, when the node has appended its frames."""
        if not self.pool.reclaim(buffer):
            self._used_buffers.append(buffer)
            self._end_turn_soon()

    def frame_begins(self, connection: SocketConnection) -> None:
        """A part of a frame has arrived: its deadline counts from now."""
        connection.frame_since_ms = self.now_ms
        self._arriving.pop(connection.number, None)
        self._arriving[connection.number] = connection
        self._sweep_soon()
        self.check_memory(connection)

    def frame_arrived(self, connection: SocketConnection) -> None:
        """The frame that was arriving is whole."""
        self._arriving.pop(connection.number, None)

    def may_grow(self, connection: SocketConnection) -> bool:
        """Whether there is memory for a larger buffer for a frame of this connection."""
        short = self.pool.held_bytes > self.limits.received_max_bytes // 2
        return not short or connection is next(iter(self._arriving.values()), None)

    def check_memory(self, connection: SocketConnection) -> None:
        """Stops reading from a connection when memory for requests is short: from those with large frames first, from
        all when it is used up.

        The connection whose frame has been arriving longest is always read, so that some frame is completed. So are
        answers of other nodes, which clients must not delay; the node bounds them by its requests.
        """
        if connection.number < 0 or self.may_grow(connection):
            return
        all_gone = self.pool.held_bytes > self.limits.received_max_bytes
        if all_gone or connection.partial_bytes > LARGE_FRAME_BYTES:
            self._starved[connection.number] = connection
            connection.pause(Pause.MEMORY)

    def _release_buffers(self) -> None:
        pool = self.pool
        for buffer in self._used_buffers:
            pool.release(buffer)
        self._used_buffers.clear()
        if pool.lent_buffers:
            pool.look()
        if self._starved:
            self._feed_starved()

    def _feed_starved(self) -> None:
        self.pool.look(self.pool.lent_buffers)
        if self.pool.held_bytes <= self.limits.received_max_bytes // 2:
            fed: Iterable[SocketConnection] = list(self._starved.values())
        else:
            fed = [connection for connection in list(self._arriving.values())[:1] if connection.number in self._starved]
        for connection in fed:
            del self._starved[connection.number]
            connection.resume(Pause.MEMORY)

    # Time

    def _arm(self) -> None:
        """One timer for the node, moved only when the next deadline is earlier than the timer."""
        deadline_ms = self.node.next_deadline_ms()
        if deadline_ms is None or self._stopped or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = self.clock.due_ms = deadline_ms
        self._timer = self.loop.call_later(max(0, deadline_ms - self.now_ms) / 1000, self.guarded, self._tick)

    def _tick(self) -> None:
        self._timer = self.clock.due_ms = None
        deadline_ms = self.node.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= self.now_ms:
            self.node.tick(self.now_ms)
        self._end_turn_soon()

    def _sweep_soon(self) -> None:
        """Closes idle and too slow connections in a while; arms nothing if there are none."""
        if self._arriving or self._closing:
            delay_ms = min(SWEEP_EVERY_MS, self.limits.receive_timeout_ms)
        else:
            delay_ms = max(SWEEP_EVERY_MS, self._idle_checks[0][0] - self.now_ms)
        due_ms = self.now_ms + delay_ms
        if self._stopped or (self._sweep is not None and self._sweep_ms <= due_ms):
            return
        if self._sweep is not None:
            self._sweep.cancel()
        self._sweep_ms = due_ms
        self._sweep = self.loop.call_later(delay_ms / 1000, self.guarded, self._sweep_connections)

    def _sweep_connections(self) -> None:
        self._sweep = None
        try:
            self._look_at_connections()
        except Exception as error:  # what is overdue waits for the next sweep
            self.node.bug("connection", "the sweep of connections", error)
        if self._arriving or self._closing or self._idle_checks:
            self._sweep_soon()
        self._end_turn_soon()

    def _look_at_connections(self) -> None:
        now_ms = self.now_ms
        rate_factor = RECEIVE_RATE_FACTOR_WHEN_SHORT if self._starved else 1
        for connection in list(self._arriving.values()):
            if connection.paused_for(Pause.NODE | Pause.ANSWERS):
                connection.frame_since_ms = now_ms
            elif connection.overdue(now_ms, self.limits.receive_timeout_ms, rate_factor):
                self.refuse(connection, "a request took too long to arrive (penstock.receive.timeout.ms)")
        for connection in list(self._closing.values()):
            if now_ms - connection.closing_since_ms > CLOSE_LINGER_MS:
                self.lose(connection, connection.close_reason or "")
        self._close_idle(now_ms)

    def _close_idle(self, now_ms: int) -> None:
        checks, idle_ms = self._idle_checks, self.limits.idle_ms
        while checks and checks[0][0] <= now_ms:
            _, number = heappop(checks)
            connection = self.connections.get(number)
            if connection is None:
                continue
            if now_ms - connection.active_ms >= idle_ms:
                self.lose(connection, "idle (connections.max.idle.ms)")
            else:
                heappush(checks, (connection.active_ms + idle_ms, number))

    # End

    @property
    def busy(self) -> bool:
        """Whether operations run, effects wait, or answers are unsent."""
        lanes_busy = any(lane.busy for lane in self.lanes.values())
        return lanes_busy or self._turn_ends or bool(self._to_flush)

    def stop(self) -> None:
        """Closes all connections and ends the lanes. Tells the node nothing more."""
        self._stopped = True
        self.entrance.stop()
        for timer in (self._timer, self._sweep):
            if timer is not None:
                timer.cancel()
        for connection in list(self.connections.values()):
            connection.close_reason = "the broker stops"
            self.lose(connection, connection.close_reason)
        self.links.stop()
        if self.workers is not None:
            self.workers.close()
        for lane in self.lanes.values():
            lane.close()
