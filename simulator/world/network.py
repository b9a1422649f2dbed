"""The network of a simulation: hosts, TCP connections between them, and all that goes wrong with these.

    network = Network(simulation)
    network.listen("node-2", 9092, accept)                  # a machine does that by itself
    socket = network.dial("node-1", ("node-2", 9092), owner)
    network.partition("node-1", "node-2", both_ways=False)  # nothing of node-1 reaches node-2 any more
    network.heal()

What is sent on a connection arrives whole and in order, or the connection dies. A frame is what an application sends at
once. As in TCP:

- What a partition keeps is sent again when it has healed, after a while (RETRANSMIT_MAX_MS at most): late, not lost. So
  is the news that a connection was closed. A reset is sent once: if it is lost the other side knows nothing.
- A connection to a host that is cut off or without power is tried again and again, at SYN_RETRY_MS doubled; one to a
  port where nobody listens is refused at once.
- A process that is killed closes its connections. A host that loses its power says nothing: its peers hear of it soon
  (as if the last switch told them) or, with `half_open_probability`, not before they send something and the host is
  back.

Every host, also one of a client, has a name; latency, bandwidth and partitions are between two names and in one
direction each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from simulator.world.driver import Simulation

Address = tuple[str, int]

LATENCY_US = (50, 400)
RETRANSMIT_MAX_MS = 1_000
SYN_RETRY_MS = 1_000
SYN_RETRIES_MAX = 6
REFUSED = "connection refused"
RESET = "connection reset"


@dataclass(frozen=True, slots=True)
class Quality:
    """Of one direction between two hosts: latency between two bounds, and bytes a second if these are limited."""

    latency_us: tuple[int, int] = LATENCY_US
    bytes_per_s: int | None = None


class Owner(Protocol):
    """Who uses one end of a connection."""

    def up(self) -> None:
        """The connection that was dialled has been made."""

    def received(self, frame: bytearray) -> None:
        """A frame has arrived."""

    def lost(self, reason: str) -> None:
        """The connection is closed, broken, or could not be made. Nothing follows."""


Accept = Callable[["Socket"], Owner]


class Way:
    """One direction of a connection: what travels, and what waits for a partition to heal.

    Attributes:
        busy_us: until when its bandwidth is used. next_us: nothing arrives earlier.
        held: what arrived while the way was blocked, or after such. dropped: nothing arrives any more.
    """

    __slots__ = ("busy_us", "dropped", "held", "next_us", "number", "source", "target")

    def __init__(self, number: int, source: str, target: str) -> None:
        self.number = number
        self.source = source
        self.target = target
        self.busy_us = 0
        self.next_us = 0
        self.held: deque[Callable[[], None]] = deque()
        self.dropped = False


class Socket:
    """One end of a connection.

    Attributes:
        host, peer: names of this end's host and of the other's.
        open: it can send; False once closed, lost, or before it is up.
    """

    __slots__ = ("dialling", "host", "network", "number", "open", "other", "owner", "peer", "way")

    def __init__(self, network: Network, number: int, host: str, peer: str) -> None:
        self.network = network
        self.number = number
        self.host = host
        self.peer = peer
        self.open = False
        self.dialling = False
        self.owner: Owner
        self.other: Socket
        self.way = Way(number, host, peer)

    def send(self, frame: bytes | bytearray) -> None:
        """Sends a frame after all earlier ones. On a socket that is not open any more it goes nowhere."""
        if self.open:
            self.network.carry(self, bytearray(frame))

    def close(self) -> None:
        """Closes; the other side hears of it after all that was sent. Gives up dialling."""
        if self.open:
            self.network.finish(self)
        self._end()

    def reset(self) -> None:
        """Breaks the connection: what is on its way is gone, the other side hears of it unless that is lost too."""
        if self.open:
            self.network.reset(self)
        self._end()

    def _end(self) -> None:
        self.open = self.dialling = False
        self.network.sockets.pop(self.number, None)


class Network:
    """See the module's head. All methods act at once, at the simulation's present time.

    Attributes:
        half_open_probability: of a connection to a host that loses its power, that the other side is not told.
        sockets: ends of connections that are being made or open, by number.
        carried: told of every frame that is sent, and by which end.
    """

    def __init__(self, simulation: Simulation, *, half_open_probability: float = 0.0) -> None:
        self.simulation = simulation
        self.half_open_probability = half_open_probability
        self.sockets: dict[int, Socket] = {}
        self.carried: Callable[[Socket, bytearray], None] | None = None
        self._listening: dict[Address, Accept] = {}
        self._without_power: dict[str, None] = {}
        self._partitions: dict[tuple[str, str], None] = {}
        self._stalled: dict[int, None] = {}
        self._qualities: dict[tuple[str, str], Quality] = {}
        self._usual = Quality()
        self._holding: dict[int, Way] = {}
        self._last_number = 0

    # Faults

    def partition(self, source: str, target: str, *, both_ways: bool = True) -> None:
        """Nothing of `source` reaches `target` any more, nor the other way round unless `both_ways` is False."""
        self._partitions[source, target] = None
        if both_ways:
            self._partitions[target, source] = None

    def heal(self, source: str | None = None, target: str | None = None) -> None:
        """Ends the partitions between two hosts, both ways; all of them, and what stalls, without names."""
        if source is None or target is None:
            self._partitions.clear()
            self._stalled.clear()
        else:
            self._partitions.pop((source, target), None)
            self._partitions.pop((target, source), None)
        self._send_again()

    def stall(self, socket: Socket) -> None:
        """What is sent to one end of a connection is late, until `resume`: its packets alone are lost on the way."""
        self._stalled[socket.other.way.number] = None

    def resume(self, socket: Socket) -> None:
        """Ends `stall`."""
        self._stalled.pop(socket.other.way.number, None)
        self._send_again()

    def set_quality(self, source: str, target: str, quality: Quality | None) -> None:
        """How good one direction is from now on; None: as usual."""
        if quality is None:
            self._qualities.pop((source, target), None)
        else:
            self._qualities[source, target] = quality

    def break_connections(self, host: str, peer: str | None = None) -> int:
        """Breaks the connections of a host (with one peer), as a firewall that restarts does; both ends hear of it.

        Returns how many there were.
        """
        broken = 0
        for socket in list(self.sockets.values()):
            if socket.open and socket.host == host and peer in (None, socket.peer):
                broken += 1
                socket.way.dropped = socket.other.way.dropped = True
                self._soon(socket.way, partial(self._lost, socket, RESET))
                self._soon(socket.way, partial(self._lost, socket.other, RESET))
        return broken

    def silence_connections(self, host: str, peer: str | None = None) -> int:
        """Forgets the connections of a host (with one peer) without a word, as a firewall does with those that it takes
        for idle: both ends stay open, and nothing that is sent arrives.

        Returns how many there were.
        """
        silent = 0
        for socket in self.sockets.values():
            if socket.open and socket.host == host and peer in (None, socket.peer):
                silent += 1
                socket.way.dropped = socket.other.way.dropped = True
        return silent

    def process_died(self, host: str) -> None:
        """The process on a host is gone: its ports are closed, and so are its connections."""
        self._stop_listening(host)
        for socket in self._sockets_of(host):
            socket.close()

    def power_off(self, host: str) -> None:
        """A host is gone without a word."""
        self._stop_listening(host)
        for socket in self._sockets_of(host):
            socket.open = socket.dialling = False
            socket.way.dropped = True
            self.sockets.pop(socket.number, None)
            silent = self.half_open_probability > 0 and self.simulation.random.random() < self.half_open_probability
            if not silent:
                self._refuse(socket)
        self._without_power[host] = None

    def power_on(self, host: str) -> None:
        """A host has its power again; what was sent to it meanwhile comes again, to be refused."""
        self._without_power.pop(host, None)
        self._send_again()

    # What hosts use

    def listen(self, host: str, port: int, accept: Accept) -> None:
        """Connections to this address are given to `accept`, which says who owns them."""
        self._listening[host, port] = accept

    def stop_listening(self, host: str, port: int) -> None:
        """Connections to this address are refused from now on; those that there are stay."""
        self._listening.pop((host, port), None)

    def dial(self, host: str, address: Address, owner: Owner) -> Socket:
        """Connects from a host to an address; the owner hears `up` or `lost`, unless the socket is closed before."""
        near = self._socket(host, address[0])
        far = self._socket(address[0], host)
        near.other, far.other = far, near
        near.owner = owner
        near.dialling = True
        self.sockets[near.number] = near
        self._ask(near, address, 0)
        return near

    # Connecting

    def _socket(self, host: str, peer: str) -> Socket:
        self._last_number += 1
        return Socket(self, self._last_number, host, peer)

    def _ask(self, near: Socket, address: Address, attempt: int) -> None:
        """Asks for a connection, again and again while there is no answer."""

        def again() -> None:
            if attempt < SYN_RETRIES_MAX:
                self.simulation.after_ms(SYN_RETRY_MS << attempt, lambda: self._ask(near, address, attempt + 1))
            else:
                self._not_made(near, "connection timed out")

        def asked() -> None:
            if self._blocked(near.way) or self._blocked(near.other.way):
                again()
            else:
                made = address in self._listening
                answer = (lambda: self._made(near, address)) if made else lambda: self._not_made(near, REFUSED)
                self._soon(near.other.way, answer)

        if near.dialling:
            self._soon(near.way, asked)

    def _not_made(self, near: Socket, reason: str) -> None:
        if near.dialling:
            near.dialling = False
            del self.sockets[near.number]
            near.owner.lost(reason)

    def _made(self, near: Socket, address: Address) -> None:
        if not near.dialling:
            return
        near.dialling = False
        near.open = True
        self._travel(near.way, 0, lambda: self._accept(near.other, address))
        near.owner.up()

    def _accept(self, far: Socket, address: Address) -> None:
        accept = self._listening.get(address)
        if accept is None:
            self._refuse(far)
            return
        far.open = True
        self.sockets[far.number] = far
        far.owner = accept(far)

    # Carrying

    def carry(self, socket: Socket, frame: bytearray) -> None:
        """Sends a frame from one end to the other."""
        other = socket.other
        if self.carried is not None:
            self.carried(socket, frame)

        def arrive() -> None:
            if other.open:
                other.owner.received(frame)
            else:
                self._refuse(other)

        self._travel(socket.way, len(frame), arrive)

    def finish(self, socket: Socket) -> None:
        """Tells the other end, after all that was sent, that no more comes."""
        self._travel(socket.way, 0, lambda: self._lost(socket.other, "closed by the other side"))

    def reset(self, socket: Socket) -> None:
        """Drops what travels from this end; tells the other, once."""
        socket.way.dropped = True
        self._refuse(socket)

    def _refuse(self, socket: Socket) -> None:
        """Tells the other end, once, that there is no such connection (any more)."""
        if (socket.host, socket.peer) not in self._partitions:
            self._soon(socket.way, lambda: self._lost(socket.other, RESET))

    def _lost(self, socket: Socket, reason: str) -> None:
        if socket.open:
            socket.open = False
            self.sockets.pop(socket.number, None)
            socket.owner.lost(reason)

    def _travel(self, way: Way, size_bytes: int, arrive: Callable[[], None]) -> None:
        """Delivers what was sent on a way, in order, when it is free."""

        def arrived() -> None:
            if way.dropped:
                return
            if way.held or self._blocked(way):
                way.held.append(arrive)
                self._holding[way.number] = way
            else:
                arrive()

        quality = self._qualities.get((way.source, way.target), self._usual)
        now_us = self.simulation.now_us
        needs_us = size_bytes * 1_000_000 // quality.bytes_per_s if quality.bytes_per_s else 0
        way.busy_us = max(now_us, way.busy_us) + needs_us
        way.next_us = max(way.next_us, way.busy_us + self.simulation.random.randint(*quality.latency_us))
        self.simulation.after_us(way.next_us - now_us, arrived)

    def _send_again(self) -> None:
        """What was held on ways that are free now is sent again, each at a time of its own."""
        for way in list(self._holding.values()):
            if not self._blocked(way):
                delay_us = self.simulation.random.randint(0, RETRANSMIT_MAX_MS * 1000)
                self.simulation.after_us(delay_us, partial(self._arrive_again, way))

    def _arrive_again(self, way: Way) -> None:
        if self._blocked(way):
            return
        self._holding.pop(way.number, None)
        while way.held and not way.dropped:
            way.held.popleft()()
        way.held.clear()

    def _soon(self, way: Way, event: Callable[[], None]) -> None:
        """One packet that is not part of the stream: has something happen one latency later."""
        quality = self._qualities.get((way.source, way.target), self._usual)
        self.simulation.after_us(self.simulation.random.randint(*quality.latency_us), event)

    def _blocked(self, way: Way) -> bool:
        down = self._without_power
        return (
            way.source in down
            or way.target in down
            or (way.source, way.target) in self._partitions
            or way.number in self._stalled
        )

    def _sockets_of(self, host: str) -> list[Socket]:
        return [socket for socket in self.sockets.values() if socket.host == host]

    def _stop_listening(self, host: str) -> None:
        for address in [address for address in self._listening if address[0] == host]:
            del self._listening[address]
