"""Work that may be done outside the node's process: a task, plain data in, and its report, plain data out.

A `TaskOperation` is an operation, most of whose work can be such a task. The lane asks it for one; a worker process
runs the task on a disk that it only reads; then the lane finishes the operation with the report. Operations of the same
order wait all the while. Where there are no workers, or the work is too small for one, the lane runs the operation like
any other, and so does the simulator.
"""

from __future__ import annotations

from typing import Any, ClassVar

from penstock.log.disk import Disk, Operation


class Task:
    """Work for a worker process. Subclasses are frozen dataclasses of plain data and define `run`.

    Attributes:
        report_type: what `run` returns an instance of; plain data, too.
        what: names the work for a person.
        deadline_ms: how long a worker may take for it.
    """

    __slots__ = ()
    report_type: ClassVar[type]

    @property
    def what(self) -> str:
        raise NotImplementedError

    @property
    def deadline_ms(self) -> int:
        raise NotImplementedError

    def run(self, disk: Disk) -> object:
        """Does the work; changes nothing on the disk."""
        raise NotImplementedError


class TaskOperation(Operation):
    """See the module's head. Subclasses define `run`, which does all of the work, and the steps of doing it apart."""

    __slots__ = ()

    def task(self, disk: Disk) -> Task | None:
        """What a worker is to do; None if it would not be worth it. Called in the lane."""
        raise NotImplementedError

    def finish(self, disk: Disk, report: Any) -> Any:
        """Takes up the report of the task; the result is as that of `run`. Called in the lane."""
        raise NotImplementedError

    def without_report(self, disk: Disk, reason: str) -> Any:
        """The result when the task has ended two workers: they died, hung or answered garbage. Called in the lane.

        When the task raised something, or no worker could be started, `run` is called instead.
        """
        raise NotImplementedError
