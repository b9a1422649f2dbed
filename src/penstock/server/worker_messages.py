"""What the broker and a worker process say to each other: one length-prefixed message for a task, one for its end.
A task that is paced says in between what it has read and written, and waits for an answer.

Before the first task the worker says of which release it is: it runs what is installed now, which may be another one
than the broker was started from.

A message is pickled, but names no class other than those listed here: no function runs and no object is made that is
not plain data. Anything else is garbage, and fails the task. That keeps out accidents, not an attacker: a worker is a
process of the same user, and may do whatever the broker may.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from dataclasses import dataclass, fields, is_dataclass
from struct import Struct
from typing import Any

from penstock import __version__
from penstock.config.topic import TopicConfig
from penstock.errors import ErrorCode
from penstock.log.compaction.passes import LastRecord, Pass, Rest, SealedSegment
from penstock.log.compaction.report import Counted, GroupReport, PassReport
from penstock.log.compaction.task import PassOutcome, RunPass
from penstock.log.compaction.transactions import AbortedTransaction, TransactionState
from penstock.log.disk import FileInfo
from penstock.log.loading import OpenArguments
from penstock.log.producer_state import Marker
from penstock.log.recovery import OffsetRange, RecoveryReport
from penstock.log.recovery_task import PlannedRecovery, PlanRecovery, ScannedSegment, ScanSegment
from penstock.log.segment_scan import ProducerBatch, SegmentScan, SegmentToScan
from penstock.log.tasks import Task
from penstock.records.batch import BatchHeader, TimestampType
from penstock.records.compression import Codec
from penstock.records.validation import Rules
from penstock.replication.rewrite import RewriteBatch, Rewritten

LENGTH = Struct(">Q")


class GarbageError(Exception):
    """Bytes that are no message."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker is there; `release` is its own."""

    release: str


@dataclass(frozen=True, slots=True)
class Order:
    """A task, and the path of the log directory that it reads."""

    path: str
    task: Task


@dataclass(frozen=True, slots=True)
class Moved:
    """A task has read and written so many bytes since it said so last, and waits to be told to go on."""

    count: int


@dataclass(frozen=True, slots=True)
class GoOn:
    """A task that has moved something may go on."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task has ended well."""

    report: object


@dataclass(frozen=True, slots=True)
class Failed:
    """No worker could be had for a task; or it has ended its workers, if `crashed`; or it has `raised` something, which
    is an OSError with the number `errno`, unless that is None.
    """

    reason: str
    crashed: bool = False
    raised: bool = False
    errno: int | None = None


COMPACTION = (
    RunPass,
    PassOutcome,
    Pass,
    SealedSegment,
    LastRecord,
    AbortedTransaction,
    Rest,
    TransactionState,
    PassReport,
    GroupReport,
    Counted,
)
RECOVERY = (
    PlanRecovery,
    PlannedRecovery,
    RecoveryReport,
    OffsetRange,
    OpenArguments,
    TopicConfig,
    FileInfo,
    ScanSegment,
    ScannedSegment,
    SegmentToScan,
    SegmentScan,
    ProducerBatch,
    BatchHeader,
    Marker,
)
REWRITING = (RewriteBatch, Rewritten, Rules, TimestampType, Codec, ErrorCode, bytearray)
"""Tasks, their reports, and what these consist of."""
ALL = (Ready, Order, Moved, GoOn, Done, Failed, *COMPACTION, *RECOVERY, *REWRITING)
CLASSES = {(each.__module__, each.__qualname__): each for each in ALL}
Message = Ready | Order | Moved | GoOn | Done | Failed


def release() -> str:
    """Tells the code of one release from that of another: by its version, and by what messages consist of."""
    parts = [(key, [part.name for part in fields(each)] if is_dataclass(each) else []) for key, each in CLASSES.items()]
    return hashlib.sha256(repr((__version__, sorted(parts))).encode()).hexdigest()


def own_bytes(view: memoryview) -> tuple[type[bytearray], tuple[pickle.PickleBuffer]]:
    """A view of bytes arrives as bytes of one's own."""
    return bytearray, (pickle.PickleBuffer(view),)


class PlainUnpickler(pickle.Unpickler):
    """Makes no object but those of CLASSES."""

    def find_class(self, module: str, name: str) -> Any:
        found = CLASSES.get((module, name))
        if found is None:
            raise GarbageError(f"{module}.{name} is no part of a message")
        return found


def encode(message: Message) -> memoryview:
    """A message with its length before it. A large one is copied once."""
    encoded = io.BytesIO(bytes(LENGTH.size))
    encoded.seek(LENGTH.size)
    pickler = pickle.Pickler(encoded, protocol=5)
    pickler.dispatch_table = {memoryview: own_bytes}
    pickler.dump(message)
    LENGTH.pack_into(encoded.getbuffer(), 0, encoded.tell() - LENGTH.size)
    return encoded.getbuffer()


def decode(body: bytes | bytearray) -> Message:
    """The message of a body. Raises GarbageError for anything else."""
    try:
        message = PlainUnpickler(io.BytesIO(body)).load()
    except GarbageError:
        raise
    except Exception as error:  # pickle says that of bytes that are none
        raise GarbageError(f"{type(error).__name__}: {error}") from None
    if not isinstance(message, Message):
        raise GarbageError(f"{type(message).__name__} is no message")
    return message
