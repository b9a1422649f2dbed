"""Worker processes: what would hold the interpreter's lock for long runs in them, as tasks of plain data.

A worker is a process of its own, spawned at the first need and ended when there was nothing to do for a while; many
small tasks share one. It has none of the broker's descriptors, and dies with it; see `server.worker_main`.

Workers form pools, each with a queue and processes of its own. Each log directory has one, so that a directory that
hangs holds up no other; its workers give way to the broker, and what ranks first is done first. One more is for tasks
that clients wait for: these read no files, its workers do not give way, and a task that has waited there for too long
fails.

A thread goes with each worker: it starts it, hands it one task at a time, and waits. A task fails when its worker dies
or answers garbage: it is tried once more, in a new worker. It has `crashed` if that fails so, too, or if its time is
over. It fails at once when it raises something, for it would do so again, and when no worker can be started. A worker
whose task has failed otherwise is ended. One that does not start, or is of another release, has had no task.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from heapq import heapify, heappop, heappush
from math import inf
from time import monotonic
from typing import NamedTuple

from penstock.events import events
from penstock.log.tasks import Task
from penstock.server.cores import cores
from penstock.server.limits import (
    WORKER_IDLE_S,
    WORKER_MESSAGE_MAX_BYTES,
    WORKER_START_AGAIN_S,
    WORKER_START_MAX_MS,
    WORKER_WAIT_MAX_S,
    WORKERS_MAX,
)
from penstock.server.pace import Pace
from penstock.server.worker_messages import (
    LENGTH,
    Done,
    Failed,
    GarbageError,
    GoOn,
    Message,
    Moved,
    Order,
    Ready,
    decode,
    encode,
    release,
)

logger = events("server.workers")

TRIES = 2
END_TIMEOUT_S = 2.0
"""How long a worker may take to end by itself; then it is killed."""
COMMAND = (sys.executable, "-P", "-m", "penstock.server.worker_main")

Ended = Callable[[Done | Failed], None]
Paced = Callable[[int, Callable[[float], bool]], None]


class WorkerFailedError(Exception):
    """A worker has died, hangs, or says what is no report."""


class WorkerHungError(WorkerFailedError):
    """A worker has said nothing in time."""


class Job(NamedTuple):
    """A task, who hears of its end, and until when it may wait. Jobs are in the order of rank, then of number."""

    rank: int
    number: int
    task: Task
    ended: Ended
    until_s: float


class Workers:
    """All workers of a node. `submit` may be called from any thread; `ended` is called in a thread of a worker.

    Args:
        paths: of the log directories, by index.
        processes_max: how many workers the directories share, at least one each; tasks that clients wait for have one
            fewer. None: one a core.
        idle_s: for how long a worker waits for a task before it is ended.
        wait_max_s: for how long a task that a client waits for may wait for a worker.
        command: what starts one.
        pace: when tasks that are paced may go on; None: at once.

    Attributes: `pools`, for their figures.
    """

    def __init__(
        self,
        paths: Mapping[int, str],
        *,
        processes_max: int | None = None,
        idle_s: float = WORKER_IDLE_S,
        wait_max_s: float = WORKER_WAIT_MAX_S,
        command: tuple[str, ...] = COMMAND,
        pace: Pace | None = None,
    ) -> None:
        most = processes_max or cores()
        of_directory = min(WORKERS_MAX, max(1, most // max(1, len(paths))))
        niced = (*command, "gives-way")
        self._of_directories = {
            index: Pool(path, of_directory, idle_s, niced, pace=partial(pace.wait, index) if pace else None)
            for index, path in paths.items()
        }
        left_to_the_loop = min(WORKERS_MAX, max(1, most - 1))
        self._urgent = Pool("/", left_to_the_loop, idle_s, command, wait_max_s)
        self.pools = [self._urgent, *self._of_directories.values()]

    def submit(self, directory: int, task: Task, ended: Ended) -> None:
        """Has a task run. Nobody hears of one that has not ended when the workers are closed."""
        (self._urgent if task.urgent else self._of_directories[directory]).submit(task, ended)

    def close(self) -> None:
        """Ends all workers at once. What they have written has names of its own, and goes with the next start."""
        threads = [thread for pool in self.pools for thread in pool.close()]
        deadline_s = monotonic() + END_TIMEOUT_S
        for thread in threads:
            thread.join(max(0.0, deadline_s - monotonic()))


class Pool:
    """Workers that share a queue and one log directory, at `path`. See `Workers` for the rest.

    Attributes: `started`, processes so far; `done` and `failed`, tasks so far.
    """

    def __init__(
        self,
        path: str,
        processes_max: int,
        idle_s: float,
        command: tuple[str, ...],
        wait_max_s: float = inf,
        *,
        pace: Paced | None = None,
    ) -> None:
        self.started = self.done = self.failed = 0
        self._path = path
        self._processes_max = processes_max
        self._idle_s = idle_s
        self._command = command
        self._wait_max_s = wait_max_s
        self._pace = pace
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._jobs: list[Job] = []
        self._submitted = 0
        self._threads: set[threading.Thread] = set()
        self._processes: set[WorkerProcess] = set()
        self._start_from_s = 0.0
        self._not_started = ""
        self._serving = 0
        self._waiting = 0
        self._watched = wait_max_s == inf  # then there is nothing to watch

    def submit(self, task: Task, ended: Ended) -> None:
        with self._changed:
            if self._closing.is_set():
                return
            self._submitted += 1
            job = Job(task.rank, self._submitted, task, ended, monotonic() + self._wait_max_s)
            heappush(self._jobs, job)
            if len(self._jobs) <= self._waiting:
                self._changed.notify()
                return
            if self._serving < self._processes_max and self._start_thread(self._work):
                self._serving += 1
                return
            if self._serving:  # who serves comes to it
                self._watched = self._watched or self._start_thread(self._watch)
                return
            self._jobs.remove(job)
            heapify(self._jobs)
        self._ended(job, Failed(f"{task.what}: no thread can be started"))

    def close(self) -> list[threading.Thread]:
        """Ends all at once. The result are threads that will have ended soon."""
        with self._changed:
            self._closing.set()
            self._jobs.clear()
            for process in self._processes:
                process.kill()
            self._changed.notify_all()
            return list(self._threads)

    @property
    def processes(self) -> int:
        """How many there are now."""
        return len(self._processes)

    def _start_thread(self, target: Callable[[], None]) -> bool:
        """Whether there is one more; the system may have no room for it."""
        thread = threading.Thread(target=target, name="penstock-worker", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._threads.add(thread)
        return True

    def _ended(self, job: Job, end: Done | Failed) -> None:
        with self._changed:
            self.done += isinstance(end, Done)
            self.failed += isinstance(end, Failed)
        job.ended(end)

    # The thread that looks after what waits

    def _watch(self) -> None:
        said = False
        while (job := self._next_overdue()) is not None:
            if not said:  # once until the queue is empty again
                logger.warning("tasks wait for a worker for too long, lanes do them", task=job.task.what)
                said = True
            self._ended(job, Failed(f"{job.task.what}: no worker was free for {self._wait_max_s:g} s"))

    def _next_overdue(self) -> Job | None:
        """Waits for a job to have waited too long; None if none waits."""
        while True:
            with self._changed:
                if not self._jobs:
                    self._watched = False
                    self._threads.discard(threading.current_thread())
                    return None
                left_s = self._jobs[0].until_s - monotonic()
                if left_s <= 0:
                    return heappop(self._jobs)
            self._closing.wait(left_s)

    # A worker's thread

    def _work(self) -> None:
        process: WorkerProcess | None = None
        try:
            while (job := self._next()) is not None:
                process, end = self._do(process, job)
                if end is not None:
                    self._ended(job, end)
        finally:
            self._end(process)
            with self._changed:
                self._threads.discard(threading.current_thread())

    def _next(self) -> Job | None:
        """The next job; None when there was none for a while. The thread then counts no more."""
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: self._jobs or self._closing.is_set(), self._idle_s)
            self._waiting -= 1
            if self._jobs:
                return heappop(self._jobs)
            self._serving -= 1
            return None

    def _do(self, process: WorkerProcess | None, job: Job) -> tuple[WorkerProcess | None, Done | Failed | None]:
        """Has a job done; the worker for the next one, and how it ended, or None if the workers are closed."""
        what = job.task.what
        for tries in range(1, TRIES + 1):
            try:
                process = process or self._start()
            except Exception as error:  # of the system, or another release; whichever, the job must end
                return None, None if self._closing.is_set() else Failed(f"{what}: no worker can be started: {error}")
            try:
                end = process.run(self._path, job.task, self._moved)
                if isinstance(end, Failed):
                    logger.warning("a task has failed", task=what, reason=end.reason)
                return process, end
            except Exception as error:
                self._end(process)
                process = None
                reason = str(error) or type(error).__name__
                given_up = tries == TRIES or isinstance(error, WorkerHungError)
            if self._closing.is_set():
                return None, None
            logger.warning("a worker has failed", task=what, reason=reason, again=not given_up)
            if given_up:
                break
        return None, Failed(f"{what} failed in a worker process (try {tries} of {TRIES}): {reason}", crashed=True)

    def _moved(self, count: int) -> None:
        """A task has read and written so many bytes: waits until it may go on."""
        if self._pace is not None:
            self._pace(count, self._closing.wait)

    def _start(self) -> WorkerProcess:
        """Raises WorkerFailedError or OSError; also for a while after it did."""
        with self._changed:
            self._processes = {each for each in self._processes if not each.gone}
            if len(self._processes) >= 2 * self._processes_max:
                raise WorkerFailedError("too many workers hang and do not end")
            if monotonic() < self._start_from_s:
                raise WorkerFailedError(self._not_started)
        process = None
        try:
            process = WorkerProcess(self._command)
            with self._changed:
                self.started += 1
                self._processes.add(process)
                if self._closing.is_set():
                    process.kill()
            process.meet()
        except Exception as error:
            self._end(process)
            self._not_started = str(error) or type(error).__name__
            self._start_from_s = monotonic() + WORKER_START_AGAIN_S
            if not self._closing.is_set():
                said = "no worker can be started: for a while lanes do the tasks, and the cleaner waits"
                logger.warning(said, reason=self._not_started)
            raise
        return process

    def _end(self, process: WorkerProcess | None) -> None:
        if process is not None:
            process.end()
            with self._changed:
                if process.gone:
                    self._processes.discard(process)


class WorkerProcess:
    """One worker, used by one thread; only `kill` may be called from another."""

    def __init__(self, command: tuple[str, ...]) -> None:
        """Starts it. Raises OSError where that cannot be done."""
        self._socket, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, close_fds=True, start_new_session=True
                )
        except BaseException:
            self._socket.close()
            raise
        logger.info("worker started", pid=self._process.pid)

    def meet(self) -> None:
        """Waits until it is ready. Raises WorkerFailedError, also when it is of another release than the broker."""
        message = self._hear(WORKER_START_MAX_MS)
        if message != Ready(release()):
            raise WorkerFailedError("another release than that of this broker is installed: restart the broker")

    def run(self, path: str, task: Task, moved: Callable[[int], None]) -> Done | Failed:
        """Has a task done. Raises WorkerFailedError, or OSError; the worker is of no more use then.

        `moved` is told what a paced task has read and written, and returns when it may go on. That time does not count.
        """
        left_ms = task.deadline_ms
        message: Message = Order(path, task)
        while True:
            began_s = monotonic()
            message = self._hear(max(left_ms, 1), encode(message))
            if not isinstance(message, Moved) or not task.paced:
                break
            left_ms -= int((monotonic() - began_s) * 1000)
            moved(message.count)
            message = GoOn()
        if isinstance(message, Failed):
            return message
        if not isinstance(message, Done) or not isinstance(message.report, task.report_type):
            raise WorkerFailedError(f"garbage: no report of {task.what}")
        return message

    def _hear(self, timeout_ms: int, order: bytes | memoryview = b"") -> Message:
        """What it says next, after an order. Raises WorkerFailedError."""
        deadline_s = monotonic() + timeout_ms / 1000
        try:
            self._socket.settimeout(timeout_ms / 1000)
            self._socket.sendall(order)
            (length,) = LENGTH.unpack(self._receive(LENGTH.size, deadline_s))
            if length > WORKER_MESSAGE_MAX_BYTES:
                raise WorkerFailedError(f"garbage: a report of {length} bytes")
            return decode(self._receive(length, deadline_s))
        except TimeoutError:
            raise WorkerHungError(f"no report within {timeout_ms} ms") from None
        except ConnectionError as error:
            raise WorkerFailedError(f"it has died ({error})") from None
        except GarbageError as error:
            raise WorkerFailedError(f"garbage: {error}") from None

    def kill(self) -> None:
        """Ends it at once; who waits for it hears of that."""
        self._process.kill()

    def end(self) -> None:
        """Has it end, and waits for that, but not for ever: one that a disk holds up does not end even when killed."""
        self._socket.close()
        for _ in range(2):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_TIMEOUT_S)
                return
            self._process.kill()

    @property
    def gone(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def _receive(self, count: int, deadline_s: float) -> bytearray:
        data = bytearray(count)
        view = memoryview(data)
        while view:
            left_s = deadline_s - monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._socket.settimeout(left_s)
            received = self._socket.recv_into(view)
            if not received:
                raise ConnectionError("it has closed its socket")
            view = view[received:]
        return data
