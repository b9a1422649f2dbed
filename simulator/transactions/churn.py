"""The processes of transactional ids, and what happens to them: they die, stand still, and are replaced, and wake."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simulator.transactions.client import TransactionalClient
from simulator.transactions.load import TransactionLoad

ABSENCE_MS_MAX = 1_500
LONG_ABSENCE_MS_MAX = 6_000
LONG_ABSENCE_PROBABILITY = 0.3
BIRTH_MS_MAX = 800
STILL_MS_MAX = 3_000

Maker = Callable[[str], TransactionalClient]


class Slot:
    """A transactional id, and room for one process; those that it has replaced may live on.

    Args:
        make: makes the process of a name. lasting: there is one as long as anything is left to do.

    Attributes:
        process: the newest. retired: those that were replaced while they stood still.
    """

    def __init__(self, load: TransactionLoad, transactional_id: str, make: Maker, *, lasting: bool) -> None:
        self.load = load
        self.transactional_id = transactional_id
        self.lasting = lasting
        self.process: TransactionalClient | None = None
        self.retired: list[TransactionalClient] = []
        self._make = make
        self._born = 0

    def fill(self) -> None:
        """A new process starts, unless there is one."""
        if self.load.over or (self.process is not None and self.process.alive):
            return
        self._born += 1
        self.process = self._make(f"{self.transactional_id}-{self._born}")
        self.process.start()

    def replace(self) -> None:
        """Somebody starts the process once more, while the first one stands still, and will go on."""
        if self.process is not None:
            self.retired.append(self.process)
            self.process = None

    @property
    def alive(self) -> list[TransactionalClient]:
        """The processes that live."""
        found = self.retired if self.process is None else [*self.retired, self.process]
        return [process for process in found if process.alive]


class Churn:
    """Has things happen to the processes, from `begin` to `end`."""

    def __init__(self, load: TransactionLoad, slots: Sequence[Slot], interval_ms: tuple[int, int]) -> None:
        self.load = load
        self.slots = slots
        self.interval_ms = interval_ms
        self._simulation = load.clients.simulation
        self._random = self._simulation.random
        self._going_on = False

    def begin(self) -> None:
        """All start, one after the other; then things happen."""
        self._going_on = True
        for slot in self.slots:
            self._simulation.after_ms(self._random.randrange(BIRTH_MS_MAX), slot.fill)
        self._wait()

    def end(self) -> None:
        """Nothing happens any more; whoever was replaced dies, whoever is to last is there."""
        self._going_on = False
        self.load.patient = True
        for slot in self.slots:
            for process in slot.retired:
                process.die()

    def fill(self) -> None:
        """Starts those again that have something left to do."""
        for slot in self.slots:
            if slot.lasting:
                slot.fill()

    def _wait(self) -> None:
        self._simulation.after_ms(self._random.randint(*self.interval_ms), self._next)

    def _next(self) -> None:
        if not self._going_on:
            return
        slot = self._random.choice(list(self.slots))
        process = slot.process
        if process is None or not process.alive:
            slot.fill()
        else:
            kind = self._random.choice([self._dies, self._stands_still, self._is_replaced])
            self.load.count(kind.__name__)
            kind(slot, process)
        self._wait()

    def _comes_back(self, slot: Slot) -> None:
        long = self._random.random() < LONG_ABSENCE_PROBABILITY
        self._simulation.after_ms(self._random.randrange(LONG_ABSENCE_MS_MAX if long else ABSENCE_MS_MAX), slot.fill)

    def _dies(self, slot: Slot, process: TransactionalClient) -> None:
        process.trace("dies")
        process.die()
        self._comes_back(slot)

    def _stands_still(self, slot: Slot, process: TransactionalClient) -> None:
        duration_ms = self._random.randrange(STILL_MS_MAX)
        process.trace(f"stands still for {duration_ms} ms")
        process.pause(duration_ms)

    def _is_replaced(self, slot: Slot, process: TransactionalClient) -> None:
        duration_ms = self._random.randrange(STILL_MS_MAX)
        process.trace(f"stands still for {duration_ms} ms, and is replaced")
        process.pause(duration_ms)
        slot.replace()
        self._simulation.after_ms(self._random.randrange(500), slot.fill)
