"""Somebody sets the clocks of the machines, in every scenario: ahead and back, by little, by minutes and by a day.

Nothing but timestamps may follow, and what goes by them. So it is no fault among others: it happens all the time, by
chance of its own, and a run is the same with it and without, which is what the trace's hash says (the trace tells of
the steps, the hash does not have them).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from simulator.world.driver import Simulation
from simulator.world.machine import Machine

STEPS_MS = (100, 12_000, 300_000, 86_400_000)
"""A step is up to one of these, either way."""
UNIT_MS = 100
"""Steps are multiples of it: a process that starts rounds its deadlines to ticks of what it counts by."""
AHEAD_MS_MAX = 2 * 86_400_000
"""Usually no clock goes further off than this, so that retention has nothing to do yet."""
INTERVAL_MS = (100, 2_500)
SEED = 0xC10C


class Clocks:
    """Sets clocks from `begin` on, for as long as the simulation lasts.

    Args:
        ahead_ms_max: no clock goes further off than this.
    """

    def __init__(
        self, simulation: Simulation, machines: Sequence[Machine], *, ahead_ms_max: int = AHEAD_MS_MAX
    ) -> None:
        self._simulation = simulation
        self._machines = machines
        self._ahead_ms_max = ahead_ms_max
        self._random = Random(SEED ^ simulation.seed)

    def begin(self) -> None:
        """The first step comes after a while."""
        self._simulation.after_ms(self._random.randint(*INTERVAL_MS), self._next)

    def _next(self) -> None:
        random = self._random
        machine = random.choice(list(self._machines))
        bound_ms = random.choice(STEPS_MS)
        step_ms = random.randint(-bound_ms // UNIT_MS, bound_ms // UNIT_MS) * UNIT_MS
        if abs(machine.wall_ahead_ms + step_ms) <= self._ahead_ms_max:
            self._simulation.remark(f"the clock of {machine.host} is set by {step_ms:+} ms")
            machine.step_clock(step_ms)
        self.begin()
