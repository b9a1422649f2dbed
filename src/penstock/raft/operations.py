"""Operations on the metadata log's directory besides those of its log.

Those on checkpoints share an order of their own, so that a large one delays no append; `quorum-state` shares the log's.
Those without which the quorum does not go on share the log's fuse, and wait for room with it (`raft.no_room`); a
checkpoint of our own is just written later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from penstock.errors import StorageError
from penstock.log.disk import Buffer, Disk, Operation, OperationOwner
from penstock.log.operations import LogOperation, OperatedLog
from penstock.log.space import is_full, put_back
from penstock.raft.checkpoint import PARTIAL_SUFFIX, SUFFIX, CheckpointId, read_checkpoint, write_checkpoint
from penstock.raft.election import FILE, ElectionState
from penstock.raft.voters import VoterSet


def checkpoints_of(name: str) -> str:
    """The order of what is done to the checkpoints of a log."""
    return f"{name} checkpoints"


class OnCheckpoints(Operation):
    """An operation on the checkpoints of a log. They share an order of their own. `name` is the log's directory."""

    __slots__ = ("name",)

    def __init__(self, directory: int, name: str, owner: OperationOwner) -> None:
        super().__init__(directory, checkpoints_of(name), owner)
        self.name = name


class PersistElection(LogOperation):
    """Replaces `quorum-state`, durably."""

    __slots__ = ("content", "name", "state")

    def __init__(self, log: OperatedLog, owner: OperationOwner, state: ElectionState, content: bytes) -> None:
        super().__init__(log)
        self.owner = owner
        self.name = log.files.name
        self.state = state
        self.content = content

    def work(self, disk: Disk) -> None:
        path = f"{self.name}/{FILE}"
        try:
            disk.replace(path, self.content)
        except OSError as error:
            put_back(error, disk, (), [f"{path}.tmp"])
            raise


class WriteCheckpoint(OnCheckpoints):
    """Writes a checkpoint. The batches are made while it runs, off the loop, from an image that does not change."""

    __slots__ = ("batches", "checkpoint")

    def __init__(
        self,
        directory: int,
        name: str,
        owner: OperationOwner,
        checkpoint: CheckpointId,
        batches: Callable[[], Iterable[bytearray]],
    ) -> None:
        super().__init__(directory, name, owner)
        self.checkpoint = checkpoint
        self.batches = batches

    def run(self, disk: Disk) -> int:
        try:
            return write_checkpoint(disk, self.name, self.checkpoint.file, self.batches())
        except OSError as error:
            if is_full(error):
                disk.unlink(f"{self.name}/{self.checkpoint.file.removesuffix(SUFFIX)}{PARTIAL_SUFFIX}")
            raise


class DeleteCheckpoints(OnCheckpoints):
    """Removes checkpoints that newer ones have replaced."""

    __slots__ = ("checkpoints",)

    def __init__(self, directory: int, name: str, owner: OperationOwner, checkpoints: Sequence[CheckpointId]) -> None:
        super().__init__(directory, name, owner)
        self.checkpoints = checkpoints

    def run(self, disk: Disk) -> None:
        for checkpoint in self.checkpoints:
            disk.unlink(f"{self.name}/{checkpoint.file}")
        disk.fsync_directory(self.name)


class WriteSnapshot(LogOperation):
    """Writes a piece of a fetched snapshot to its partial file; the first piece starts the file again."""

    __slots__ = ("data", "name", "position", "snapshot")

    def __init__(
        self, log: OperatedLog, owner: OperationOwner, snapshot: CheckpointId, *, position: int, data: Buffer
    ) -> None:
        super().__init__(log, order=checkpoints_of(log.files.name))
        self.owner = owner
        self.name = log.files.name
        self.snapshot = snapshot
        self.position = position
        self.data = data

    def work(self, disk: Disk) -> int:
        path = partial_path(self.name, self.snapshot)
        if not self.position:
            disk.unlink(path)
        try:
            disk.write(path, self.position, [self.data])
        except OSError as error:
            put_back(error, disk, [(path, self.position)])
            raise
        return self.position + len(self.data)


@dataclass(frozen=True, slots=True)
class Installed:
    """An installed snapshot: its size, and the contents of its head."""

    size_bytes: int
    voters: VoterSet | None
    kraft_version: int


class InstallSnapshot(OnCheckpoints):
    """Checks every batch of a fetched snapshot and gives it its name, durably. The result is None if it is damaged."""

    __slots__ = ("snapshot",)

    def __init__(self, directory: int, name: str, owner: OperationOwner, snapshot: CheckpointId) -> None:
        super().__init__(directory, name, owner)
        self.snapshot = snapshot

    def run(self, disk: Disk) -> Installed | None:
        path = partial_path(self.name, self.snapshot)
        if not disk.exists(path):
            return None
        size_bytes = disk.size(path)
        try:
            found = read_checkpoint(disk.read(path, 0, size_bytes), path)
        except StorageError:
            disk.unlink(path)
            return None
        disk.fsync(path)
        disk.rename(path, f"{self.name}/{self.snapshot.file}")
        disk.fsync_directory(self.name)
        return Installed(size_bytes, found.voters, found.kraft_version or 0)


def partial_path(name: str, snapshot: CheckpointId) -> str:
    """Where a snapshot grows while it is fetched; such files are removed at start."""
    return f"{name}/{snapshot.file.removesuffix(SUFFIX)}.fetched{PARTIAL_SUFFIX}"
