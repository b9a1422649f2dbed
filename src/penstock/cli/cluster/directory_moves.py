"""The `log_dirs` of a plan carried out: replicas to other directories of their brokers (AlterReplicaLogDirs).

A replica that comes from another broker gets its directory before it is there: the broker remembers it. As Kafka's
tool does, the brokers are asked before the controller, and again when the replicas have arrived.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.cli.output import counted, size_text
from penstock.cli.progress import Lines
from penstock.client.log_directories import Described, LogDirectoryState
from penstock.errors import ErrorCode, RequestError, UnreachableError, UsageError
from penstock.placement.plan import LogDirs

if TYPE_CHECKING:
    from penstock.client.client import Client, Partition

LOOK_EVERY_S = 0.2
PATIENCE_S = 60.0
"""How long the moves may show no progress while they are watched."""


@dataclass(frozen=True, slots=True)
class DirectoryMove:
    """One replica to one directory of its broker; `before` is None when the replica is not there yet."""

    topic: str
    index: int
    broker: int
    before: str | None
    after: str
    size_bytes: int = 0

    @property
    def key(self) -> Partition:
        """Topic and index."""
        return self.topic, self.index

    def __str__(self) -> str:
        way = f"into {self.after}" if self.before is None else f"{self.before} -> {self.after}"
        return f"{self.topic}-{self.index} on broker {self.broker}  {way}"

    def as_json(self) -> dict[str, Any]:
        """The move as reports have it."""
        return {
            "topic": self.topic,
            "partition": self.index,
            "broker": self.broker,
            "from": self.before,
            "to": self.after,
        }


async def find_directory_moves(client: Client, log_dirs: LogDirs) -> list[DirectoryMove]:
    """What of `log_dirs` is not so yet. Raises UsageError for a directory that a broker does not have or that is
    offline, UnreachableError for a broker that does not answer."""
    from penstock.client.log_directories import describe_log_directories

    described = await describe_log_directories(client, {broker_id for _, _, broker_id in log_dirs})
    found = []
    for (topic, index, broker_id), path in sorted(log_dirs.items()):
        before, size_bytes = whereabouts(directories_of(described, broker_id, path), (topic, index))
        if before != path:
            found.append(DirectoryMove(topic, index, broker_id, before, path, size_bytes))
    return found


def directories_of(described: Described, broker_id: int, wanted: str | None = None) -> tuple[LogDirectoryState, ...]:
    """The directories of a broker. Raises UsageError unless the wanted one is there and works."""
    directories = described[broker_id]
    if isinstance(directories, UnreachableError):
        raise directories
    state = next((each for each in directories if each.path == wanted), None)
    if wanted is not None and state is None:
        known = ", ".join(each.path for each in directories)
        raise UsageError(f"broker {broker_id} has no log directory {wanted}: it has {known}")
    if state is not None and state.error is not ErrorCode.NONE:
        raise UsageError(f"log directory {wanted} of broker {broker_id} is offline: it cannot take replicas")
    return directories


def whereabouts(directories: Sequence[LogDirectoryState], key: Partition) -> tuple[str | None, int]:
    """The path of the directory with the replica in use, None if there is none, and the bytes of it."""
    for directory in directories:
        for replica in directory.replicas:
            if replica.key == key and not replica.is_future:
                return directory.path, replica.size_bytes
    return None, 0


def total_text(moves: Collection[DirectoryMove]) -> str | None:
    """How much moves between directories, in words; None when nothing does."""
    within = [each for each in moves if each.before is not None]
    size_bytes = sum(each.size_bytes for each in within)
    return f"{counted(len(within), 'replica')} to other directories ({size_text(size_bytes)})" if within else None


async def begin_directory_moves(
    client: Client, moves: Sequence[DirectoryMove], *, arrived: bool = False
) -> list[tuple[Partition, RequestError]]:
    """Asks the brokers; returns what they refused. Before it has `arrived`, a replica may be missing."""
    from penstock.client.log_directories import alter_replica_directories

    refusals = []
    coming = set() if arrived else {(each.key, each.broker) for each in moves if each.before is None}
    for broker_id in sorted({each.broker for each in moves}):
        targets = {each.key: each.after for each in moves if each.broker == broker_id}
        for key, error in (await alter_replica_directories(client, broker_id, targets)).items():
            expected = (
                error is not None and error.code is ErrorCode.REPLICA_NOT_AVAILABLE and (key, broker_id) in coming
            )
            if error is not None and not expected:
                refusals.append((key, error))
    return refusals


async def watch_directory_moves(client: Client, moves: Sequence[DirectoryMove]) -> None:
    """Shows the progress until all replicas are where they are to be.

    Raises UnreachableError when nothing has changed for `PATIENCE_S`. Ctrl-C ends the watching, not the moving.
    """
    from penstock.client.log_directories import describe_log_directories

    lines = Lines(sys.stderr)
    last: tuple[int, int] | None = None
    changed_at = time.monotonic()
    brokers = {each.broker for each in moves}
    try:
        while True:
            described = await describe_log_directories(client, brokers)
            left = [each for each in moves if not is_there(described, each)]
            now = (len(left), sum(copied_bytes(described, each) for each in left))
            if now != last:
                last, changed_at = now, time.monotonic()
            text = f"in the new directories: {len(moves) - len(left)} of {counted(len(moves), 'replica')}"
            lines.show([text], last=not left)
            if not left:
                return
            if time.monotonic() > changed_at + PATIENCE_S:
                raise UnreachableError(f"{left[0]}: no progress in {PATIENCE_S:g} s; the broker's log tells more")
            await asyncio.sleep(LOOK_EVERY_S)
    except asyncio.CancelledError:
        lines.say("the brokers go on moving; `penstock disks` shows where replicas are")
        raise


def is_there(described: Described, move: DirectoryMove) -> bool:
    """Whether a replica is in use in its new directory."""
    directories = described[move.broker]
    return not isinstance(directories, UnreachableError) and whereabouts(directories, move.key)[0] == move.after


def copied_bytes(described: Described, move: DirectoryMove) -> int:
    """Bytes of a replica that are in its new directory already."""
    directories = described[move.broker]
    if isinstance(directories, UnreachableError):
        return 0
    return sum(
        replica.size_bytes
        for directory in directories
        if directory.path == move.after
        for replica in directory.replicas
        if replica.key == move.key
    )
