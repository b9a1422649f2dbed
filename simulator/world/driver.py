"""The driver of a simulation: virtual time, one heap of events, lanes that run operations, and a trace.

Everything that happens is an event at a virtual time in microseconds; events at the same time happen in the order in
which they were set. All chance comes from one generator. So a seed gives the same run every time, on every machine and
under every PYTHONHASHSEED, and the trace's hash says whether two runs were the same.

`Lanes` stands for the shell of one machine: operations of the same (directory, order) run first-in first-out, others
overlap, small appends may run inline. When a disk raises `PowerLoss`, the machine is gone: what was under way is
forgotten and `on_crash` is called.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random
from typing import Any

from penstock.log.disk import Operation
from penstock.log.tasks import TaskOperation
from simulator.world.clock import VirtualClock
from simulator.world.disk import PowerLoss, SimulatedDisk

EVENTS_MAX = 2_000_000
"""A simulation with more events does not come to an end."""
TRACE_LINES_KEPT = 200
LANE_START_US_MAX = 300
STALL_US_MAX = 600_000
INLINE_PROBABILITY = 0.7

Event = Callable[[], None]


class Simulation:
    """Virtual time and chance of one run.

    Attributes:
        random: where all chance comes from.
        clock: virtual time in milliseconds; `now_us` in microseconds since the start.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.clock = VirtualClock()
        self.now_us = 0
        self._start_ms = self.clock.now_ms
        self._heap: list[tuple[int, int, Event]] = []
        self._sequence = 0
        self._events = 0
        self._digest = hashlib.sha256()
        self._lines: deque[str] = deque(maxlen=TRACE_LINES_KEPT)

    @property
    def now_ns(self) -> int:
        """The time of the clock, as exactly as it is known."""
        return self._start_ms * 1_000_000 + self.now_us * 1_000

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms

    def after_us(self, delay_us: int, event: Event) -> None:
        """Has something happen so much later."""
        assert delay_us >= 0
        self._sequence += 1
        heappush(self._heap, (self.now_us + delay_us, self._sequence, event))

    def after_ms(self, delay_ms: int, event: Event) -> None:
        """As `after_us`, in milliseconds."""
        self.after_us(delay_ms * 1000, event)

    def at_ms(self, time_ms: int, event: Event) -> None:
        """Has something happen at a time of the clock; now, if that is past."""
        self.after_us(max(0, (time_ms - self._start_ms) * 1000 - self.now_us), event)

    def run(self, until_ms: int | None = None) -> None:
        """Runs events until none is left, or until the clock is there."""
        until_us = None if until_ms is None else (until_ms - self._start_ms) * 1000
        while self._heap and (until_us is None or self._heap[0][0] <= until_us):
            time_us, _, event = heappop(self._heap)
            self._set_time(time_us)
            self._events += 1
            assert self._events < EVENTS_MAX, "the simulation does not come to an end"
            event()
        if until_us is not None:
            self._set_time(max(self.now_us, until_us))

    def _set_time(self, time_us: int) -> None:
        self.now_us = time_us
        self.clock.now_ms = self._start_ms + time_us // 1000

    def trace(self, text: str) -> None:
        """Notes what happened, for the hash and for people."""
        line = f"{self.now_us / 1000:12.3f}ms {text}"
        self._digest.update(line.encode())
        self._lines.append(line)

    def remark(self, text: str) -> None:
        """Notes something for people only."""
        self._lines.append(f"{self.now_us / 1000:12.3f}ms {text}")

    @property
    def trace_hash(self) -> str:
        """Two runs were the same if and only if this is."""
        return self._digest.hexdigest()

    @property
    def trace_tail(self) -> str:
        """The last lines of the trace."""
        return "\n".join(self._lines)


class Lanes:
    """Runs one machine's operations on its disks, in virtual time.

    Args:
        disks: the blocking disks, by index.
        completed, failed: called at the end of an operation, as the shell tells the node; `None` tells `owner` itself.
        on_event: called after each end, for the effects that it had.
        on_crash: called when the machine lost power.

    Attributes:
        stall_probability: how likely an operation waits for up to STALL_US_MAX before it begins.
        task_us_max: up to this longer a task takes, as in a worker that others keep from running. What it reads and
            writes is there from the beginning.
    """

    def __init__(
        self,
        simulation: Simulation,
        disks: Sequence[SimulatedDisk],
        *,
        on_event: Callable[[], None],
        on_crash: Callable[[], None],
        completed: Callable[[Operation, Any, int], None] | None = None,
        failed: Callable[[Operation, OSError, int], None] | None = None,
    ) -> None:
        self._simulation = simulation
        self._disks = disks
        self._on_event = on_event
        self._on_crash = on_crash
        self._completed = completed
        self._failed = failed
        self.stall_probability = 0.0
        self.task_us_max = 0
        self._queues: dict[tuple[int, str], deque[Operation]] = {}
        self._alive = True

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits."""
        return bool(self._queues)

    def run(self, operations: Sequence[Operation]) -> None:
        """Takes operations in the order in which they were emitted."""
        for operation in operations:
            key = (operation.directory, operation.order)
            queue = self._queues.get(key)
            if queue is not None:
                queue.append(operation)
                continue
            self._queues[key] = deque([operation])
            self._start(key, operation)

    def _start(self, key: tuple[int, str], operation: Operation) -> None:
        random = self._simulation.random
        inline = operation.inline and random.random() < INLINE_PROBABILITY
        delay_us = 0 if inline else random.randrange(LANE_START_US_MAX)
        if self.stall_probability and random.random() < self.stall_probability:
            delay_us = random.randrange(STALL_US_MAX)
        self._simulation.after_us(delay_us, lambda: self._begin(key))

    def stop(self) -> None:
        """The machine is gone: nothing that is under way ends any more."""
        self._alive = False

    def _begin(self, key: tuple[int, str]) -> None:
        if not self._alive:
            return
        operation = self._queues[key][0]
        disk = self._disks[operation.directory]
        before_us = disk.busy_us
        result: Any = None
        error: OSError | None = None
        try:
            result = operation.run(disk)
        except PowerLoss:
            self._simulation.trace(f"power loss in {type(operation).__name__} {operation.order}")
            self.stop()
            self._on_crash()
            return
        except OSError as failure:
            error = failure
        took_us = disk.busy_us - before_us
        if self.task_us_max and isinstance(operation, TaskOperation):
            took_us += self._simulation.random.randrange(self.task_us_max)
        self._simulation.after_us(took_us, lambda: self._end(key, operation, result, error))

    def _end(self, key: tuple[int, str], operation: Operation, result: Any, error: OSError | None) -> None:
        if not self._alive:
            return
        queue = self._queues[key]
        queue.popleft()
        if queue:
            self._simulation.after_us(0, lambda: self._begin(key))
        else:
            del self._queues[key]
        now_ms = self._simulation.now_ms
        self._simulation.trace(f"{type(operation).__name__} {operation.directory}:{operation.order} {error or 'done'}")
        if error is None:
            (self._completed or operation.owner.operation_completed)(operation, result, now_ms)
        else:
            (self._failed or operation.owner.operation_failed)(operation, error, now_ms)
        self._on_event()
