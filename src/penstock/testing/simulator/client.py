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
from penstock.testing.simulator.driver import Simulation
from penstock.testing.simulator.machine import Link, Machine

RECONNECT_MS = 50
TIMEOUT_MS = 30_000

Answered = Callable[[Any], None]


class Client:
    """One client. `ask` gives the answer to its callback, or None when the connection broke before it came.

    Attributes:
        latencies_us: of all answers, in order.
    """

    def __init__(self, simulation: Simulation, machine: Machine, name: str) -> None:
        self.simulation = simulation
        self.machine = machine
        self.name = name
        self.latencies_us: list[int] = []
        self._link: Link | None = None
        self._correlation_id = 0
        self._waiting: tuple[int, Api, int, int, Answered] | None = None

    def ask(self, message: Message, version: int, answered: Answered) -> None:
        """Sends a request, connecting first (and waiting until that succeeds) if need be."""
        assert self._waiting is None, "one request at a time"
        if self._link is None or not self._link.open:
            self._link = self.machine.connect(self._received, self._lost)
            if self._link is None:
                self.simulation.after_ms(RECONNECT_MS, lambda: self.ask(message, version, answered))
                return
        self._correlation_id += 1
        number = self._correlation_id
        api = API_BY_NUMBER[message.KEY]
        self._waiting = (number, api, version, self.simulation.now_us, answered)
        chunks = frames.encode_request(api, version, number, self.name, message)
        self.machine.deliver(self._link, bytearray(b"".join(bytes(chunk) for chunk in chunks)[4:]))  # type: ignore[arg-type]
        link = self._link
        self.simulation.after_ms(TIMEOUT_MS, lambda: self._time_out(number, link))

    def _received(self, frame: bytes) -> None:
        assert self._waiting is not None, f"{self.name}: an answer to nothing"
        number, api, version, asked_us, answered = self._waiting
        correlation_id, message = frames.decode_response(api, version, memoryview(frame))
        assert correlation_id == number, f"{self.name}: an answer to another request"
        self._waiting = None
        self.latencies_us.append(self.simulation.now_us - asked_us)
        answered(message)

    def _lost(self, link: Link) -> None:
        if link is not self._link:
            return  # a new connection has been made since
        self._link = None
        if self._waiting is not None:
            answered = self._waiting[4]
            self._waiting = None
            answered(None)

    def _time_out(self, number: int, link: Link) -> None:
        if self._waiting is not None and self._waiting[0] == number:
            self.simulation.trace(f"{self.name}: no answer to {self._waiting[1].name}")
            self.machine.lose(link)

    def percentile_us(self, share: float) -> int:
        """The latency that this share of the answers did not exceed."""
        ordered = sorted(self.latencies_us)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
