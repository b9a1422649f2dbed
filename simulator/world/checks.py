"""How a rule is checked: what holds says nothing, what does not ends the run and says which rule it was, and how to see
it again."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from penstock.log.directory import LogDirectory
from simulator.world.driver import Simulation

PLANTED_ERRORS = (errno.EIO, errno.ENOSPC)


class Violation(AssertionError):
    """The real code broke an invariant. The message names the rule, the partition and the offsets."""


def check(holds: bool, rule: str, detail: str) -> None:
    """Raises Violation unless it holds."""
    if not holds:
        raise Violation(f"{rule}: {detail}")


def disk_failed(directories: Iterable[LogDirectory]) -> bool:
    """Whether a log directory of a machine is offline, which has to be by a fault that was planted in its disk."""
    errors = [directory.error for directory in directories if directory.error is not None]
    for error in errors:
        check(error.errno in PLANTED_ERRORS, "a directory fails only by a fault of the disk", str(error))
    return bool(errors)


@contextmanager
def replayable(simulation: Simulation, scenario: str) -> Iterator[None]:
    """A run: whatever ends it becomes a Violation with the command that replays it and the end of the trace."""
    try:
        yield
    except Exception as bug:
        if isinstance(bug, Violation):
            rule = str(bug)
        else:
            rule = f"{'no assertion fails' if isinstance(bug, AssertionError) else 'error'}: {describe(bug)}"
        replay = f"replay with: python -m simulator --scenario {scenario} --seeds {simulation.seed}"
        raise Violation(f"{rule}\n\n{replay}\n{simulation.trace_tail}") from bug


def describe(bug: Exception) -> str:
    """An assertion, or the error behind it, with where it came from."""
    cause: BaseException = bug
    while cause.__cause__ is not None:
        cause = cause.__cause__
    frame = cause.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = (
        "" if frame is None else f" ({frame.tb_frame.f_code.co_filename.rpartition('penstock/')[2]}:{frame.tb_lineno})"
    )
    return f"{bug}: {type(cause).__name__}: {cause}{where}"
