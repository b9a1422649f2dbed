"""Worker processes: what would hold the interpreter's lock for long runs in them, as tasks of plain data.

A worker is a process of its own, spawned at the first need, at most one a core, and ended when there was nothing to do
for a while; many small tasks share one. It has none of the broker's descriptors, gives way to it, and dies with it; see
`server.worker_main`. A thread goes with each worker: it starts it, hands it one task at a time, and waits.

A task fails when its worker dies, hangs, or answers garbage: it is tried once more, in a new worker, and has `crashed`
if that fails so, too. It fails at once when it raises something, for it would do so again. A worker whose task has
failed otherwise is ended. One that does not start, or is of another release, has had no task.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic
from typing import NamedTuple

from penstock.events import events
from penstock.log.tasks import Task
from penstock.server.limits import WORKER_IDLE_S, WORKER_MESSAGE_MAX_BYTES, WORKER_START_MAX_MS
from penstock.server.worker_messages import (
    LENGTH,
    Done,
    Failed,
    GarbageError,
    Message,
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


class WorkerFailedError(Exception):
    """A worker has died, hangs, or says what is no report."""


class Job(NamedTuple):
    """A task, the index of the log directory that it reads, and who hears of its end."""

    directory: int
    task: Task
    ended: Ended


class Workers:
    """All workers of a node. `submit` may be called from any thread; `ended` is called in a thread of a worker.

    Args:
        paths: of the log directories, by index.
        processes_max: how many workers at most; None: one a core.
        idle_s: for how long a worker waits for a task before it is ended.
        command: what starts one.

    Attributes: `started`, processes so far.
    """

    def __init__(
        self,
        paths: Mapping[int, str],
        *,
        processes_max: int | None = None,
        idle_s: float = WORKER_IDLE_S,
        command: tuple[str, ...] = COMMAND,
    ) -> None:
        self.started = 0
        self._paths = paths
        self._processes_max = processes_max or cores()
        self._idle_s = idle_s
        self._command = command
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._threads: set[threading.Thread] = set()
        self._processes: set[WorkerProcess] = set()
        self._serving = 0
        self._waiting = 0
        self._closed = False

    def submit(self, directory: int, task: Task, ended: Ended) -> None:
        """Has a task run. Nobody hears of one that has not ended when the workers are closed."""
        with self._changed:
            if self._closed:
                return
            self._jobs.append(Job(directory, task, ended))
            if len(self._jobs) <= self._waiting or self._serving >= self._processes_max or self._start_thread():
                self._changed.notify()
                return
            if self._serving:
                return  # who serves comes to it
            self._jobs.pop()
        ended(Failed(f"{task.what}: no thread can be started"))

    def close(self) -> None:
        """Ends all workers at once; they only read."""
        with self._changed:
            self._closed = True
            self._jobs.clear()
            threads = list(self._threads)
            for process in self._processes:
                process.kill()
            self._changed.notify_all()
        for thread in threads:
            thread.join(END_TIMEOUT_S)

    def _start_thread(self) -> bool:
        """Whether there is one more to serve; the system may have no room for it."""
        thread = threading.Thread(target=self._work, name="penstock-worker", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._serving += 1
        self._threads.add(thread)
        return True

    @property
    def processes(self) -> int:
        """How many there are now."""
        return len(self._processes)

    # A worker's thread

    def _work(self) -> None:
        process: WorkerProcess | None = None
        try:
            while (job := self._next()) is not None:
                process, ended = self._do(process, job)
                if ended is not None:
                    job.ended(ended)
        finally:
            self._end(process)
            with self._changed:
                self._threads.discard(threading.current_thread())

    def _next(self) -> Job | None:
        """The next job; None when there was none for a while. The thread then counts no more."""
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: self._jobs or self._closed, self._idle_s)
            self._waiting -= 1
            if self._jobs and not self._closed:
                return self._jobs.popleft()
            self._serving -= 1
            return None

    def _do(self, process: WorkerProcess | None, job: Job) -> tuple[WorkerProcess | None, Done | Failed | None]:
        """Has a job done; the worker for the next one, and how it ended, or None if the workers are closed."""
        reason, crashes = "", 0
        for number in range(TRIES):
            try:
                if process is None:
                    process = self._start()
                crashes += 1  # unless it returns
                return process, process.run(self._paths[job.directory], job.task)
            except Exception as error:  # of the worker or of the system; whichever, the job must end
                reason = str(error) or type(error).__name__
                self._end(process)
                process = None
            if self._closed:
                return None, None
            again = number + 1 < TRIES
            logger.warning("a worker has failed", task=job.task.what, reason=reason, again=again)
        return None, Failed(f"{job.task.what} failed {TRIES} times in a worker process: {reason}", crashes == TRIES)

    def _start(self) -> WorkerProcess:
        process = WorkerProcess(self._command)
        with self._changed:
            self.started += 1
            self._processes.add(process)
            if self._closed:
                process.kill()
        try:
            process.meet()
        except BaseException:
            self._end(process)
            raise
        return process

    def _end(self, process: WorkerProcess | None) -> None:
        if process is not None:
            process.end()
            with self._changed:
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

    def run(self, path: str, task: Task) -> Done | Failed:
        """Has a task done. Raises WorkerFailedError, or OSError; the worker is of no more use then."""
        message = self._hear(task.deadline_ms, encode(Order(path, task)))
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
            raise WorkerFailedError(f"no report within {timeout_ms} ms") from None
        except ConnectionError as error:
            raise WorkerFailedError(f"it has died ({error})") from None
        except GarbageError as error:
            raise WorkerFailedError(f"garbage: {error}") from None

    def kill(self) -> None:
        """Ends it at once; who waits for it hears of that."""
        self._process.kill()

    def end(self) -> None:
        """Has it end, and waits for that."""
        self._socket.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

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


def cores() -> int:
    """How many cores the process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
