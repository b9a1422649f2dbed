"""Tasks for workers that end well or badly, and the command of a worker process that knows them."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from penstock.log.disk import Disk
from penstock.log.tasks import Task
from penstock.server import worker_main, worker_messages

TESTS = Path(__file__).resolve().parents[1]


def command(serve: str) -> tuple[str, ...]:
    """What starts a worker by a function of this module."""
    program = f"import sys; sys.path.insert(0, {str(TESTS)!r}); from support import worker_tasks; worker_tasks.{serve}"
    return (sys.executable, "-P", "-c", program)


COMMAND = command("serve()")
COPIED_BYTES = 64 << 10
IOPRIO_GET = {"x86_64": 252, "aarch64": 31}
"""The number of the system call by machine."""
IOPRIO_CLASS_SHIFT = 13
IOPRIO_IDLE = 3


@dataclass(frozen=True, slots=True)
class Sum:
    value: int


@dataclass(frozen=True, slots=True)
class Process:
    """What a worker finds out about itself."""

    pid: int
    parent: int
    niceness: int
    descriptors: list[str]
    session: int
    io_class: int | None
    oom_score_adj: int


@dataclass(frozen=True, slots=True)
class OddTask(Task):
    """Attributes: `path`, of a file in the log directory or elsewhere."""

    report_type: ClassVar[type] = Sum
    path: str = ""
    deadline_ms: int = 60_000

    @property
    def what(self) -> str:
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class Add(OddTask):
    left: int = 0
    right: int = 0

    def run(self, disk: Disk) -> Sum:
        return Sum(self.left + self.right)


@dataclass(frozen=True, slots=True)
class Ranked(OddTask):
    place: int = 0
    value: int = 0

    @property
    def rank(self) -> int:
        return self.place

    def run(self, disk: Disk) -> Sum:
        return Sum(self.value)


class Hold(OddTask):
    """Until there is a file at `path`."""

    rank = 0

    def run(self, disk: Disk) -> Sum:
        while not os.path.exists(self.path):
            time.sleep(0.01)
        return Sum(0)


class Ask(Add):
    urgent = True


class Measure(OddTask):
    def run(self, disk: Disk) -> Sum:
        return Sum(disk.size(self.path))


class Overwrite(OddTask):
    def run(self, disk: Disk) -> Sum:
        disk.write(self.path, 0, [b"a worker was here"])
        return Sum(0)


class Copy(OddTask):
    """Copies a file to `copy`, in pieces."""

    paced = True
    writes = True

    def run(self, disk: Disk) -> Sum:
        size_bytes = disk.size(self.path)
        for position in range(0, size_bytes, COPIED_BYTES):
            disk.write("copy", position, [disk.read(self.path, position, COPIED_BYTES)])
        return Sum(size_bytes)


class Look(OddTask):
    report_type = Process

    def run(self, disk: Disk) -> Process:
        found = []
        for name in os.listdir("/proc/self/fd"):
            try:
                found.append(os.readlink(f"/proc/self/fd/{name}"))
            except FileNotFoundError:
                continue
        oom_score_adj = int(Path("/proc/self/oom_score_adj").read_text())
        return Process(os.getpid(), os.getppid(), os.nice(0), found, os.getsid(0), io_class(), oom_score_adj)


def io_class() -> int | None:
    """The class in which this process reads and writes, of `man ioprio_set`; None where nobody knows how to ask."""
    number = IOPRIO_GET.get(platform.machine())
    if number is None:
        return None
    priority: int = ctypes.CDLL(None, use_errno=True).syscall(number, worker_main.IOPRIO_WHO_PROCESS, 0)
    return priority >> IOPRIO_CLASS_SHIFT if priority >= 0 else None


class LookSoon(Look):
    urgent = True


class Die(OddTask):
    def run(self, disk: Disk) -> Sum:
        os.kill(os.getpid(), signal.SIGKILL)
        return Sum(0)


class DieOnce(OddTask):
    """Leaves a file at `path` that says so."""

    def run(self, disk: Disk) -> Sum:
        if not os.path.exists(self.path):
            Path(self.path).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Sum(1)


class Stop(OddTask):
    """As a process does that the system never lets run."""

    def run(self, disk: Disk) -> Sum:
        os.kill(os.getpid(), signal.SIGSTOP)
        return Sum(0)


class Compute(OddTask):
    """For ever. Leaves its process id in `path`."""

    def run(self, disk: Disk) -> Sum:
        Path(self.path + ".new").write_text(str(os.getpid()))
        os.replace(self.path + ".new", self.path)
        while True:
            time.monotonic()


class ComputeSoon(Compute):
    urgent = True


class Babble(OddTask):
    def run(self, disk: Disk) -> Sum:
        os.write(0, worker_messages.LENGTH.pack(10) + b"blah blah!")
        return Sum(0)


class Boast(OddTask):
    """Announces more than anybody can hold."""

    def run(self, disk: Disk) -> Sum:
        os.write(0, worker_messages.LENGTH.pack(1 << 60))
        return Sum(0)


class Mistake(OddTask):
    def run(self, disk: Disk) -> OddTask:
        return self


class Swell(OddTask):
    def run(self, disk: Disk) -> Sum:
        raise MemoryError


class Raise(OddTask):
    def run(self, disk: Disk) -> Sum:
        raise ValueError("planted")


CLASSES = (
    *(Sum, Process, Add, Ask, Measure, Overwrite, Look, LookSoon, Die, DieOnce, Stop, Compute, ComputeSoon, Babble),
    *(Ranked, Hold),
    *(Boast, Copy, Mistake, Swell, Raise),
)


def register(classes: dict[tuple[str, str], type]) -> None:
    """Lets messages hold the tasks."""
    classes.update({(each.__module__, each.__qualname__): each for each in CLASSES})


def serve() -> None:
    """A worker process that knows the tasks."""
    register(worker_messages.CLASSES)
    worker_main.main()
