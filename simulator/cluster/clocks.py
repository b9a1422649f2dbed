"""Somebody sets the clocks of the machines, in every scenario: ahead and back, by little, by minutes and by a day.

Nothing but timestamps may follow, and what goes by them. So it is no fault among others: it happens all the time, by
chance of its own, and a run is the same with it and without, which is what the trace's hash says (the trace tells of
the steps, the hash does not have them).

Where the cleaner runs all the time, markers go once they are older than `delete.retention.ms`. A replica that is away
for longer than that may miss some, in Kafka too, and whoever sets clocks by as much does the same to it. So there they
go wrong by little; it gets much later on all machines at once, and only while no replica lacks anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
MARKERS_STAY_MS = 600_000
"""`delete.retention.ms` where the cleaner runs all the time: no run takes so long."""
APART_MS_MAX, LATER_MS = MARKERS_STAY_MS // 3, MARKERS_STAY_MS + 100_000
"""How far the clocks are apart there, and how much later it gets at once."""
SEED = 0xC10C


class Clocks:
    """Sets clocks from `begin` on, for as long as the simulation lasts.

    Args:
        ahead_ms_max: no clock goes further off than this.
        may_be_later: whether it may get later by LATER_MS on all machines; it never does without.
    """

    def __init__(
        self,
        simulation: Simulation,
        machines: Sequence[Machine],
        *,
        ahead_ms_max: int = AHEAD_MS_MAX,
        may_be_later: Callable[[], bool] | None = None,
    ) -> None:
        self._simulation = simulation
        self._machines = machines
        self._ahead_ms_max = ahead_ms_max
        self._may_be_later = may_be_later
        self._later_ms = 0
        self._random = Random(SEED ^ simulation.seed)

    def begin(self) -> None:
        """The first step comes after a while."""
        self._simulation.after_ms(self._random.randint(*INTERVAL_MS), self._next)

    def _next(self) -> None:
        random = self._random
        machine = random.choice(list(self._machines))
        bound_ms = random.choice(STEPS_MS)
        step_ms = random.randint(-bound_ms // UNIT_MS, bound_ms // UNIT_MS) * UNIT_MS
        if abs(machine.wall_ahead_ms - self._later_ms + step_ms) <= self._ahead_ms_max:
            self._simulation.remark(f"the clock of {machine.host} is set by {step_ms:+} ms")
            machine.step_clock(step_ms)
        if self._may_be_later is not None and self._later_ms + LATER_MS <= AHEAD_MS_MAX and self._may_be_later():
            self._simulation.remark(f"it is {LATER_MS} ms later everywhere")
            self._later_ms += LATER_MS
            for each in self._machines:
                each.step_clock(LATER_MS)
        self.begin()


def of_cleaned(simulation: Simulation, machines: Sequence[Machine], nothing_is_missing: Callable[[], bool]) -> Clocks:
    """The clocks of a cluster whose cleaner runs all the time; see the module's head."""
    return Clocks(simulation, machines, ahead_ms_max=APART_MS_MAX // 2, may_be_later=nothing_is_missing)
