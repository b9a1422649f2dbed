"""Work that may be done outside the node's process: a task, plain data in, and its report, plain data out.

The work of a `TaskOperation` can mostly be done as such a task. The lane asks it for one; a worker process runs the
task on a read-only disk; then the lane finishes the operation with the report. Later operations of the same order wait.
If there are no workers, or the work is too small for one, the lane runs the operation like any other, and so does the
simulator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.log.disk import Disk, Operation

LAST_RANK = 9


class Task(ABC):
    """Work for a worker process. Subclasses are frozen dataclasses of plain data.

    Attributes:
        report_type: what `run` returns an instance of; plain data, too.
        urgent: whether a client waits for it; such a task reads no files.
        writes: whether it makes files, under names that nobody else uses.
        paced: whether it may have to wait after it has read or written something.
        what: names the work for a person.
        deadline_ms: how long a worker may take for it.
        rank: of two tasks that wait for a worker, the one with the smaller rank is done first.
    """

    __slots__ = ()
    report_type: ClassVar[type]
    urgent: ClassVar[bool] = False
    writes: ClassVar[bool] = False
    paced: ClassVar[bool] = False

    @property
    @abstractmethod
    def what(self) -> str: ...

    @property
    @abstractmethod
    def deadline_ms(self) -> int: ...

    @property
    def rank(self) -> int:
        return LAST_RANK

    @abstractmethod
    def run(self, disk: Disk) -> object:
        """Does the work; changes nothing on the disk that anybody has."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The tasks of work that several workers may share; each does one, in any order."""

    tasks: Sequence[Task]


class TaskOperation(Operation):
    """See the module's head. `run` does all of the work; the rest are the steps of doing it apart."""

    __slots__ = ()

    @abstractmethod
    def task(self, disk: Disk) -> Task | Parts | None:
        """What workers are to do; None if it would not be worth it. Called in the lane."""

    @abstractmethod
    def finish(self, disk: Disk, report: Any) -> Any:
        """Takes up the report of the task, or the list of the parts' reports; the result is as that of `run`, or
        another task, when one more is needed. Called in the lane.
        """

    @abstractmethod
    def without_report(self, disk: Disk, reason: str) -> Any:
        """The result when the task, or a part, has ended its workers: they died, hung or answered garbage.

        Called in the lane.
        """

    def without_worker(self, disk: Disk, reason: str) -> Any:
        """The result when no worker could be had. Called in the lane, which does the work itself unless that would take
        more of the node than waiting.
        """
        return self.run(disk)

    def when_raised(self, disk: Disk, reason: str, errno: int | None) -> Any:
        """The result when the task, or a part, has raised something: an OSError with this number, or something else.

        Called in the lane. Unless said otherwise `run` raises it, too, where a bug is told from a damaged file.
        """
        return self.run(disk)
