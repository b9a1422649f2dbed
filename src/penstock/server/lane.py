"""A lane: where the operations of one log directory run, on the loop when the disk is healthy, otherwise on a few
threads.

Operations with the same `order` run one at a time, first-in first-out, wherever they run: while the threads have one of
an order, or it waits for them, a later one of that order, inline or not, waits behind it. Different orders overlap.

The loop does all bookkeeping, so there is no lock: a *run* (all waiting operations of an order) goes to one thread as a
whole, and the order's next run starts when the loop has been told of its end. Runs that wait for a thread are taken by
turns of tenants (`penstock.server.lane_queue`). Threads return results through one deque and wake the loop once for
many of them.

An append is inline while the disk answers from memory. After one that took over `LANE_SLOW_MS`, or when the kernel
nears the amount of dirty pages at which it makes writers wait, the threads take over the directory's appends until none
has been slow for `LANE_HEALTHY_AFTER_MS`. An append during which the thread never waited was not slow by itself: the
machine was busy. A lane's thread does wait, for example for the interpreter, so its appends count as slow later, at
`LANE_STILL_SLOW_MS`.

An operation that has a task for a worker is the last of its run. A thread asks it for the task, or for the parts of
one, and gives that to the workers; when all of it has ended, a thread finishes the operation, and only then does the
run end.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

from penstock.events import events
from penstock.log.disk import Disk, Operation
from penstock.log.tasks import Parts, Task, TaskOperation
from penstock.server.lane_queue import LaneQueue
from penstock.server.limits import LANE_HEALTHY_AFTER_MS, LANE_SLOW_LATELY_MS, LANE_SLOW_MS
from penstock.server.waiting import near_dirty_limit, times_waited
from penstock.server.worker_messages import Done, Failed
from penstock.server.workers import Workers

logger = events("server.lane")

LANE_SLOW_S = LANE_SLOW_MS / 1000
DIRTY_CHECK_EVERY_S = 1.0
LANE_STILL_SLOW_MS = 10 * LANE_SLOW_MS
"""A lane's thread waits for the interpreter too; an append there is slow only beyond this."""


Job = tuple[Operation, Callable[[Disk], Any]]
"""An operation and the step of it that a thread is to run."""


class Outcome:
    """How an operation ended: its result or its error."""

    __slots__ = ("elapsed_s", "error", "operation", "result")

    def __init__(self, operation: Operation, result: Any, error: Exception | None, elapsed_s: float) -> None:
        self.operation = operation
        self.result = result
        self.error = error
        self.elapsed_s = elapsed_s


class Completions:
    """Outcomes on their way from lane threads to the loop. `wake` is called once for all that gather until `take`."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._outcomes: deque[Outcome] = deque()
        self._woken = False

    def put(self, outcome: Outcome) -> None:
        """Adds an outcome; may be called from any thread."""
        self._outcomes.append(outcome)
        if not self._woken:
            self._woken = True
            self._wake()

    def take(self) -> list[Outcome]:
        """Returns the outcomes, on the loop. The flag is cleared first, so that every outcome is announced."""
        self._woken = False
        outcomes = []
        while self._outcomes:
            outcomes.append(self._outcomes.popleft())
        return outcomes


class Lane:
    """One log directory's operations. All methods run on the loop, except those of the threads.

    Parameters: `disk`, the blocking disk of the directory, or None for a lane whose operations need none;
    `completions`, for the threads' outcomes; `threads`, how many to use at most (they start when first needed);
    `workers`, for the tasks of operations, if there are any; `clock_s`, a monotonic clock in seconds.

    Attributes: `appends` and `reads` of the disk that have ended, on the loop or a thread, the bytes that were to be
    read, and the time that they took there.
    """

    def __init__(
        self,
        directory: int,
        disk: Disk | None,
        completions: Completions,
        *,
        threads: int,
        workers: Workers | None = None,
        clock_s: Callable[[], float] = monotonic,
    ) -> None:
        assert threads >= 1
        self.directory = directory
        self.inline_operations = 0
        self.lane_operations = 0
        self.appends = self.reads = self.read_bytes = 0
        self.append_s = self.read_s = 0.0
        self._disk: Any = disk
        self._completions = completions
        self._workers = workers
        self._threads_max = threads
        self._threads: list[threading.Thread] = []
        self._jobs: LaneQueue[list[Job]] = LaneQueue()
        self._waiting: dict[str, list[Operation]] = {}
        self._running: dict[str, int] = {}
        self._clock_s = clock_s
        self._inline_from_s = 0.0
        self._slow_until_s = 0.0
        self._dirty_checked_s = -DIRTY_CHECK_EVERY_S

    @property
    def busy(self) -> bool:
        """Whether operations are running or waiting."""
        return bool(self._running)

    @property
    def healthy(self) -> bool:
        """Whether appends run on the loop now."""
        return self._clock_s() >= self._inline_from_s

    @property
    def slow(self) -> bool:
        """Whether an append was slow just now, or the kernel was near its limit of dirty pages."""
        return self._clock_s() < self._slow_until_s

    @property
    def queued_operations(self) -> int:
        """How many operations the threads have, or have waiting."""
        return sum(self._running.values()) + sum(len(waiting) for waiting in self._waiting.values())

    def run(self, operation: Operation) -> Outcome | None:
        """Runs an operation here and returns its outcome, or gives it to the threads and returns None."""
        if operation.inline and operation.order not in self._running:
            began_s = self._clock_s()
            if self._may_run_inline(began_s):
                self.inline_operations += 1
                waits = times_waited()
                outcome = self._execute(operation, operation.run, began_s)
                self.appends += 1
                self.append_s += outcome.elapsed_s
                if outcome.elapsed_s > LANE_SLOW_S and times_waited() != waits:
                    self._slow(outcome)
                return outcome
        self.lane_operations += 1
        if operation.order in self._running:
            self._waiting.setdefault(operation.order, []).append(operation)
        else:
            self._start(operation.order, [operation])
        return None

    def heard(self, outcome: Outcome) -> None:
        """Takes an outcome of the threads from the loop; the order's next run may start."""
        operation = outcome.operation
        order = operation.order
        if operation.inline:
            self.appends += 1
            self.append_s += outcome.elapsed_s
            if outcome.elapsed_s * 1000 > LANE_STILL_SLOW_MS:
                self._slow(outcome)
        elif operation.size_bytes:
            self.reads += 1
            self.read_bytes += operation.size_bytes
            self.read_s += outcome.elapsed_s
        self._running[order] -= 1
        if not self._running[order]:
            del self._running[order]
            waiting = self._waiting.pop(order, None)
            if waiting:
                self._start(order, waiting)

    def close(self, timeout_s: float = 5.0) -> None:
        """Ends the threads once their operations are done. After the timeout a thread stuck in a dead disk is
        abandoned.
        """
        for _ in self._threads:
            self._jobs.end()
        for thread in self._threads:
            thread.join(timeout_s)
            if thread.is_alive():
                logger.warning("lane thread is stuck in the disk", directory=self.directory)
        self._threads.clear()

    def _may_run_inline(self, now_s: float) -> bool:
        if now_s < self._inline_from_s:
            return False
        if now_s - self._dirty_checked_s >= DIRTY_CHECK_EVERY_S:
            self._dirty_checked_s = now_s
            if near_dirty_limit():
                self._inline_from_s = self._slow_until_s = now_s + DIRTY_CHECK_EVERY_S
                return False
        return True

    def _slow(self, outcome: Outcome) -> None:
        if self.healthy:
            elapsed_ms = round(outcome.elapsed_s * 1000)
            order = outcome.operation.order
            logger.info(
                "slow append, the lane takes over", directory=self.directory, order=order, elapsed_ms=elapsed_ms
            )
        now_s = self._clock_s()
        self._inline_from_s = now_s + LANE_HEALTHY_AFTER_MS / 1000
        self._slow_until_s = now_s + LANE_SLOW_LATELY_MS / 1000

    def _start(self, order: str, operations: list[Operation]) -> None:
        last = next((number for number, each in enumerate(operations) if isinstance(each, TaskOperation)), None)
        if last is not None and operations[last + 1 :]:
            self._waiting[order] = operations[last + 1 :]
            del operations[last + 1 :]
        self._running[order] = len(operations)
        size_bytes = sum(operation.size_bytes for operation in operations)
        self._jobs.put(
            [(operation, self._step_of(operation)) for operation in operations], operations[0].tenant, size_bytes
        )
        if len(self._threads) < min(self._threads_max, len(self._running)):
            name = f"penstock-lane-{self.directory}-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _step_of(self, operation: Operation) -> Callable[[Disk], Any]:
        if isinstance(operation, TaskOperation) and self._workers is not None:
            return partial(task_or_run, operation)
        return operation.run

    def _work(self) -> None:
        while (jobs := self._jobs.get()) is not None:
            for operation, step in jobs:
                outcome = self._execute(operation, step, self._clock_s())
                if isinstance(outcome.result, Task | Parts):
                    assert isinstance(operation, TaskOperation)
                    self._submit(operation, outcome.result)
                else:
                    self._completions.put(outcome)

    def _submit(self, operation: TaskOperation, work: Task | Parts) -> None:
        assert self._workers is not None
        if isinstance(work, Task):
            self._workers.submit(self.directory, work, partial(self._reported, operation))
            return
        gathering = Gathering(len(work.tasks), partial(self._reported, operation))
        for number, task in enumerate(work.tasks):
            self._workers.submit(self.directory, task, partial(gathering.ended, number))

    def _reported(self, operation: TaskOperation, ended: Done | Failed) -> None:
        """A task has ended: has a thread finish the operation. Called in a worker's thread."""
        if isinstance(ended, Done):
            self._jobs.put([(operation, partial(operation.finish, report=ended.report))], None, 0)
            return
        step: Callable[[Disk], Any]
        if ended.crashed:
            step = partial(operation.without_report, reason=ended.reason)
        elif ended.raised:
            step = partial(operation.when_raised, reason=ended.reason, errno=ended.errno)
        else:
            step = partial(operation.without_worker, reason=ended.reason)
        self._jobs.put([(operation, step)], None, 0)

    def _execute(self, operation: Operation, step: Callable[[Disk], Any], began_s: float) -> Outcome:
        result: Any = None
        error: Exception | None = None
        try:
            result = step(self._disk)
        except Exception as failure:  # of the disk, or a bug: the loop tells them apart
            error = failure
        return Outcome(operation, result, error, self._clock_s() - began_s)


class Gathering:
    """The reports of the parts of some work; `all_ended` gets the list of them, or the first failure, worst first."""

    def __init__(self, parts: int, all_ended: Callable[[Done | Failed], None]) -> None:
        assert parts
        self._lock = threading.Lock()
        self._left = parts
        self._reports: list[object] = [None] * parts
        self._failed: Failed | None = None
        self._all_ended = all_ended

    def ended(self, number: int, end: Done | Failed) -> None:
        """A part has ended. Called in a worker's thread."""
        with self._lock:
            if isinstance(end, Done):
                self._reports[number] = end.report
            elif self._failed is None or end.crashed > self._failed.crashed:
                self._failed = end
            self._left -= 1
            left = self._left
        if not left:
            self._all_ended(self._failed or Done(self._reports))


def task_or_run(operation: TaskOperation, disk: Disk) -> Any:
    """The operation's task for a worker; if there is none, the result of running the operation."""
    task = operation.task(disk)
    return operation.run(disk) if task is None else task
