"""A client process that is written as one course of steps, from top to bottom.

    class Poller(Process):
        def run(self) -> Steps[None]:
            while True:
                response = yield self.ask(address, request, 3)
                yield self.sleep(100)

`run` is a generator: it yields operations, each of which is begun and gives what came of it, and goes on. A process may
die, and then nothing of it goes on, though what it has sent is on its way. It may stand still for a while (`pause`):
what was answered meanwhile waits, and it goes on as if nothing had been.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from penstock.protocol.message import Message
from simulator.cluster.client import ClusterClient
from simulator.cluster.load import Load
from simulator.world.network import Address

T = TypeVar("T")
Resume = Callable[[Any], None]
Operation = Callable[[Resume], None]
Steps = Generator[Operation, Any, T]

TIMEOUT_MS = 2_500


class Process(ABC):
    """See the module's head.

    Args:
        host: of the network; several processes may live on one.

    Attributes:
        alive: it has neither died nor come to its end. client: its connections.
    """

    def __init__(self, load: Load, host: str, name: str) -> None:
        self.simulation = load.simulation
        self.random = load.simulation.random
        self.name = name
        self.client = ClusterClient(load.simulation, load.network, host, load.brokers, client_id=name)
        self.alive = True
        self._brokers = load.brokers
        self._paused_until_us = 0
        self._answer: tuple[Any] | None = None
        self._course = self.run()

    @abstractmethod
    def run(self) -> Steps[None]:
        """The course of the process."""

    def start(self) -> None:
        """The process starts."""
        self._go_on(None)

    def die(self) -> None:
        """kill -9: what it has sent is on its way."""
        if self.alive:
            self.alive = False
            for address in self._brokers:
                self.client.hang_up(address)

    def pause(self, duration_ms: int) -> None:
        """The process stands still for a while."""
        self._paused_until_us = max(self._paused_until_us, self.simulation.now_us + duration_ms * 1000)
        self.simulation.after_ms(duration_ms, self._wake)

    @property
    def paused(self) -> bool:
        return self.simulation.now_us < self._paused_until_us

    def _wake(self) -> None:
        if self._answer is not None and not self.paused:
            (value,), self._answer = self._answer, None
            self._go_on(value)

    def _go_on(self, value: Any) -> None:
        if not self.alive:
            return
        if self.paused:
            self._answer = (value,)
            return
        try:
            operation = self._course.send(value)
        except StopIteration:
            self.alive = False
            return
        operation(self._go_on)

    # Operations

    def sleep(self, duration_ms: int) -> Operation:
        """Waits."""
        return lambda resume: self.simulation.after_ms(duration_ms, lambda: resume(None))

    def ask(self, address: Address, message: Message, version: int, *, timeout_ms: int = TIMEOUT_MS) -> Operation:
        """Asks a broker; gives the answer, or None if none came."""
        return lambda resume: self.client.ask(address, message, version, resume, timeout_ms=timeout_ms)

    def together(self, operations: Sequence[Operation]) -> Operation:
        """Begins all of these and gives what came of them when all are over."""

        def begin(resume: Resume) -> None:
            found: dict[int, Any] = {}

            def ended(number: int, value: Any) -> None:
                found[number] = value
                if len(found) == len(operations):
                    resume([found[each] for each in range(len(operations))])

            for number, operation in enumerate(operations):
                operation(lambda value, number=number: ended(number, value))  # type: ignore[misc]

        return begin

    def after(self, delay_ms: int, operation: Operation) -> Operation:
        """Begins something a little later."""
        return lambda resume: self.simulation.after_ms(delay_ms, lambda: operation(resume))
