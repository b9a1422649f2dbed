"""What the broker and a worker process say to each other: one length-prefixed message for a task, one for its end.

A message is pickled, but names no class other than those listed here: no function runs and no object is made that is
not plain data. Anything else is garbage, and fails the task. That keeps out accidents, not an attacker: a worker is a
process of the same user, and may do whatever the broker may.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from struct import Struct
from typing import Any

from penstock.config.topic import TopicConfig
from penstock.log.disk import FileInfo
from penstock.log.loading import OpenArguments
from penstock.log.recovery import OffsetRange, RecoveryReport
from penstock.log.recovery_task import PlannedRecovery, PlanRecovery
from penstock.log.tasks import Task

LENGTH = Struct(">Q")


class GarbageError(Exception):
    """Bytes that are no message."""


@dataclass(frozen=True, slots=True)
class Order:
    """A task, and the path of the log directory that it reads."""

    path: str
    task: Task


@dataclass(frozen=True, slots=True)
class Done:
    """A task has ended well."""

    report: object


@dataclass(frozen=True, slots=True)
class Failed:
    """A task has raised something."""

    reason: str


TASKS = (PlanRecovery, PlannedRecovery, RecoveryReport, OffsetRange, OpenArguments, TopicConfig, FileInfo)
"""The tasks, their reports, and what these consist of."""
CLASSES = {(each.__module__, each.__qualname__): each for each in (Order, Done, Failed, *TASKS)}


class PlainUnpickler(pickle.Unpickler):
    """Makes no object but those of CLASSES."""

    def find_class(self, module: str, name: str) -> Any:
        found = CLASSES.get((module, name))
        if found is None:
            raise GarbageError(f"{module}.{name} is no part of a message")
        return found


def encode(message: Order | Done | Failed) -> bytes:
    """A message with its length before it."""
    body = pickle.dumps(message, protocol=5)
    return LENGTH.pack(len(body)) + body


def decode(body: bytes | bytearray) -> Order | Done | Failed:
    """The message of a body. Raises GarbageError for anything else."""
    try:
        message = PlainUnpickler(io.BytesIO(body)).load()
    except GarbageError:
        raise
    except Exception as error:  # pickle says that of bytes that are none
        raise GarbageError(f"{type(error).__name__}: {error}") from None
    if not isinstance(message, (Order, Done, Failed)):
        raise GarbageError(f"{type(message).__name__} is no message")
    return message
