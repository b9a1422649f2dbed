"""A cluster as its faults see it, and what lets them happen.

A kind of fault is a function: it does its damage to a cluster and gives what ends it, or None when there was nothing to
be done. `Faults` lets up to `at_once_max` of them happen at the same time. What a fault says in the trace begins with
`fault:`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from simulator.world.driver import Simulation
from simulator.world.machine import Machine
from simulator.world.network import Network

DOWN_MS = (50, 4_000)
INTERVAL_MS = (50, 1_200)

End = Callable[[], None]


@dataclass
class FaultTarget:
    """A cluster as faults see it.

    Attributes:
        clients: hosts of the network that are no machines.
        whole: whether every broker lives, is registered as it is now, and has all its replicas in sync.
    """

    simulation: Simulation
    network: Network
    machines: Sequence[Machine]
    clients: list[str] = field(default_factory=list)
    whole: Callable[[], bool] = lambda: False

    @property
    def running(self) -> list[Machine]:
        return [machine for machine in self.machines if machine.running]

    def one(self) -> Machine | None:
        """A machine that runs."""
        running = self.running
        return self.simulation.random.choice(running) if running else None

    def controller(self) -> Machine | None:
        """The machine whose controller is the active one, or takes itself for it in the newest epoch."""
        leading = [machine for machine in self.running if machine.broker.quorum.leads]
        return max(leading, key=lambda machine: machine.broker.quorum.epoch, default=None)

    def two(self) -> tuple[Machine, Machine] | None:
        """Two machines, running or not."""
        if len(self.machines) < 2:
            return None
        first, second = self.simulation.random.sample(list(self.machines), 2)
        return first, second

    def say(self, text: str) -> None:
        self.simulation.trace(f"fault: {text}")


Fault = Callable[[FaultTarget], End | None]


class Faults:
    """Has faults happen from `begin` to `end`.

    Args:
        kinds: what may happen, each as often as it is named. interval_ms, duration_ms: bounds of the time between two
        faults, and of how long one lasts.

    Attributes:
        happened: how often each kind did, by name.
    """

    def __init__(
        self,
        cluster: FaultTarget,
        kinds: Sequence[Fault],
        *,
        at_once_max: int = 2,
        interval_ms: tuple[int, int] = INTERVAL_MS,
        duration_ms: tuple[int, int] = DOWN_MS,
    ) -> None:
        self.cluster = cluster
        self.happened: dict[str, int] = {}
        self._count = 0
        self._kinds = kinds
        self._at_once_max = at_once_max
        self._interval_ms = interval_ms
        self._duration_ms = duration_ms
        self._ends: dict[int, End] = {}
        self._going_on = False

    def begin(self) -> None:
        """Faults happen from now on."""
        self._going_on = True
        self._wait()

    def end(self) -> None:
        """No more of them; those that last end now."""
        self._going_on = False
        for number in list(self._ends):
            self._end(number)

    def _wait(self) -> None:
        if self._kinds:
            self.cluster.simulation.after_ms(self.cluster.simulation.random.randint(*self._interval_ms), self._next)

    def _next(self) -> None:
        if not self._going_on:
            return
        random = self.cluster.simulation.random
        if len(self._ends) < self._at_once_max:
            kind = random.choice(list(self._kinds))
            end = kind(self.cluster)
            if end is not None:
                self.happened[kind.__name__] = self.happened.get(kind.__name__, 0) + 1
                self._count += 1
                number = self._count
                self._ends[number] = end
                self.cluster.simulation.after_ms(random.randint(*self._duration_ms), lambda: self._end(number))
        self._wait()

    def _end(self, number: int) -> None:
        end = self._ends.pop(number, None)
        if end is not None:
            end()
