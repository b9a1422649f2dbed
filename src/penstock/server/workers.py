"""Worker processes: what would hold the interpreter's lock for long runs in them, as tasks of plain data.

A worker is a process of its own, spawned at the first need, at most one a core, and ended when there was nothing to do
for a while; many small tasks share one. It has none of the broker's descriptors, gives way to it, and dies with it; see
`server.worker_main`. A thread goes with each worker: it starts it, hands it one task at a time, and waits.

A task fails when its worker dies, hangs, or answers garbage: it is tried once more, in a new worker. It fails at once
when it raises something, for it would do so again. A worker whose task has failed otherwise is ended.
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
from penstock.server.limits import WORKER_IDLE_S, WORKER_MESSAGE_MAX_BYTES
from penstock.server.worker_messages import LENGTH, Done, Failed, GarbageError, Order, decode, encode

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
            if len(self._jobs) > self._waiting and self._serving < self._processes_max:
                self._serving += 1
                thread = threading.Thread(target=self._work, name="penstock-worker", daemon=True)
                self._threads.add(thread)
                thread.start()
            self._changed.notify()

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
        reason, crashed = "", False
        for number in range(TRIES):
            try:
                if process is None:
                    process = self._start()
                crashed = True  # unless it returns
                return process, process.run(self._paths[job.directory], job.task)
            except Exception as error:  # of the worker or of the system; whichever, the job must end
                reason = str(error) or type(error).__name__
                self._end(process)
                process = None
            if self._closed:
                return None, None
            again = number + 1 < TRIES
            logger.warning("a worker has failed", task=job.task.what, reason=reason, again=again)
        return None, Failed(f"{job.task.what} failed {TRIES} times in a worker process: {reason}", crashed)

    def _start(self) -> WorkerProcess:
        process = WorkerProcess(self._command)
        with self._changed:
            self.started += 1
            self._processes.add(process)
            if self._closed:
                process.kill()
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

    def run(self, path: str, task: Task) -> Done | Failed:
        """Has a task done. Raises WorkerFailedError, or OSError; the worker is of no more use then."""
        deadline_s = monotonic() + task.deadline_ms / 1000
        try:
            self._socket.settimeout(task.deadline_ms / 1000)
            self._socket.sendall(encode(Order(path, task)))
            (length,) = LENGTH.unpack(self._receive(LENGTH.size, deadline_s))
            if length > WORKER_MESSAGE_MAX_BYTES:
                raise WorkerFailedError(f"garbage: a report of {length} bytes")
            message = decode(self._receive(length, deadline_s))
        except TimeoutError:
            raise WorkerFailedError(f"no report within {task.deadline_ms} ms") from None
        except ConnectionError as error:
            raise WorkerFailedError(f"it has died ({error})") from None
        except GarbageError as error:
            raise WorkerFailedError(f"garbage: {error}") from None
        if isinstance(message, Failed):
            return message
        if isinstance(message, Order) or not isinstance(message.report, task.report_type):
            raise WorkerFailedError(f"garbage: no report of {task.what}")
        return message

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
