"""A simulated Kafka client: real frames over the simulated network, one request at a time, answers by callback.

What a client knows is what a real one knows: an answer, or that the connection broke and the outcome is unknown. It
connects again by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.protocol import frames
from penstock.protocol.api import API_BY_NUMBER, Api
from penstock.protocol.message import Message
from penstock.protocol.wire import joined
from simulator.world.driver import Simulation
from simulator.world.machine import Machine
from simulator.world.network import Socket

RECONNECT_MS = 50
CONNECT_MS = 100
"""How long an attempt to connect may take; a more patient client leaves a host alone that has just come back."""
TIMEOUT_MS = 30_000

Answered = Callable[[Any], None]


class ClientConnection:
    """One connection of a client: the first request goes out when it is up."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.socket: Socket
        self.dead = False
        self.unsent: list[bytes] = []

    def up(self) -> None:
        for frame in self.unsent:
            self.socket.send(frame)
        self.unsent.clear()

    def received(self, frame: bytearray) -> None:
        self.client.received(frame)

    def lost(self, reason: str) -> None:
        self.dead = True
        self.client.lost(self)

    def give_up(self) -> None:
        """The connection should be up by now."""
        if self.socket.dialling:
            self.socket.close()
            self.lost("no connection in time")

    def send(self, frame: bytes) -> None:
        """Sends a frame, now or when the connection is up."""
        if self.socket.open:
            self.socket.send(frame)
        else:
            self.unsent.append(frame)


class Client:
    """One client, a host of its machine's network. `ask` gives the answer to its callback, or None when the connection
    broke before it came.

    Attributes:
        machine: whom it asks; may be changed between two questions, and then another connection is made.
        latencies_us: of all answers, in order.
    """

    def __init__(self, simulation: Simulation, machine: Machine, name: str) -> None:
        self.simulation = simulation
        self.machine = machine
        self.name = name
        self.latencies_us: list[int] = []
        self._connection: ClientConnection | None = None
        self._connected_to: Machine | None = None
        self._correlation_id = 0
        self._waiting: tuple[int, Api, int, int, Answered] | None = None

    def ask(self, message: Message, version: int, answered: Answered) -> None:
        """Sends a request, connecting first (and waiting until that succeeds) if need be."""
        assert self._waiting is None, "one request at a time"
        self._correlation_id += 1
        number = self._correlation_id
        api = API_BY_NUMBER[message.KEY]
        self._waiting = (number, api, version, self.simulation.now_us, answered)
        chunks = frames.encode_request(api, version, number, self.name, message)
        self._send(number, joined(chunks)[4:])
        self.simulation.after_ms(TIMEOUT_MS, lambda: self._time_out(number))

    def _send(self, number: int, frame: bytes) -> None:
        if self._waiting is None or self._waiting[0] != number:
            return
        connection = self._connection
        if connection is None or connection.dead or self._connected_to is not self.machine:
            self.close()
            connection = self._connection = ClientConnection(self)
            self._connected_to = self.machine
            connection.socket = self.machine.network.dial(self.name, self.machine.address(), connection)
            self.simulation.after_ms(CONNECT_MS, connection.give_up)
        connection.send(frame)

    def close(self) -> None:
        """Closes the connection, if there is one."""
        if self._connection is not None:
            self._connection.socket.close()
            self._connection = None

    def received(self, frame: bytearray) -> None:
        """Takes the answer to the one request under way."""
        assert self._waiting is not None, f"{self.name}: an answer to nothing"
        number, api, version, asked_us, answered = self._waiting
        correlation_id, message = frames.decode_response(api, version, memoryview(frame))
        assert correlation_id == number, f"{self.name}: an answer to another request"
        self._waiting = None
        self.latencies_us.append(self.simulation.now_us - asked_us)
        answered(message)

    def lost(self, connection: ClientConnection) -> None:
        """The connection broke, or could not be made: what was not sent is sent on the next one."""
        if connection is not self._connection:
            return  # a new connection has been made since
        self._connection = None
        if self._waiting is None:
            return
        if connection.unsent:
            number, frame = self._waiting[0], connection.unsent[0]
            self.simulation.after_ms(RECONNECT_MS, lambda: self._send(number, frame))
            return
        answered = self._waiting[4]
        self._waiting = None
        answered(None)

    def _time_out(self, number: int) -> None:
        if self._waiting is not None and self._waiting[0] == number:
            self.simulation.trace(f"{self.name}: no answer to {self._waiting[1].name}")
            self.close()
            answered = self._waiting[4]
            self._waiting = None
            answered(None)

    def percentile_us(self, share: float) -> int:
        """The latency that this share of the answers did not exceed."""
        ordered = sorted(self.latencies_us)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
