"""What the metadata log's directory has done beside its log: each an operation of its disk.

Those on checkpoints share an order of their own, so that a large one delays no append; `quorum-state` shares the log's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import StorageError
from penstock.log.disk import Buffer, Disk, Operation
from penstock.raft.checkpoint import PARTIAL_SUFFIX, SUFFIX, CheckpointId, read_checkpoint, write_checkpoint
from penstock.raft.election import FILE, ElectionState
from penstock.raft.voters import VoterSet

if TYPE_CHECKING:
    from penstock.raft.storage import Storage

NAME = "__cluster_metadata-0"
CHECKPOINTS = f"{NAME} checkpoints"
"""The order of the operations on checkpoints."""


class PersistElection(Operation):
    """Replaces `quorum-state`, durably."""

    __slots__ = ("content", "state")

    def __init__(self, directory: int, owner: Storage, state: ElectionState, content: bytes) -> None:
        super().__init__(directory, NAME, owner)
        self.state = state
        self.content = content

    def run(self, disk: Disk) -> None:
        disk.replace(f"{NAME}/{FILE}", self.content)


class WriteCheckpoint(Operation):
    """Writes a checkpoint. The batches are made while it runs, off the loop, from an image that does not change."""

    __slots__ = ("batches", "checkpoint")

    def __init__(
        self, directory: int, owner: Storage, checkpoint: CheckpointId, batches: Callable[[], Iterable[bytearray]]
    ) -> None:
        super().__init__(directory, CHECKPOINTS, owner)
        self.checkpoint = checkpoint
        self.batches = batches

    def run(self, disk: Disk) -> int:
        return write_checkpoint(disk, NAME, self.checkpoint.file, self.batches())


class DeleteCheckpoints(Operation):
    """Removes checkpoints that newer ones have made superfluous."""

    __slots__ = ("checkpoints",)

    def __init__(self, directory: int, owner: Storage, checkpoints: Sequence[CheckpointId]) -> None:
        super().__init__(directory, CHECKPOINTS, owner)
        self.checkpoints = checkpoints

    def run(self, disk: Disk) -> None:
        for checkpoint in self.checkpoints:
            disk.unlink(f"{NAME}/{checkpoint.file}")
        disk.fsync_directory(NAME)


class WriteSnapshot(Operation):
    """Writes a piece of a snapshot that is fetched into its partial file; the first piece begins it anew."""

    __slots__ = ("data", "position", "snapshot")

    def __init__(self, directory: int, owner: Storage, snapshot: CheckpointId, position: int, data: Buffer) -> None:
        super().__init__(directory, CHECKPOINTS, owner)
        self.snapshot = snapshot
        self.position = position
        self.data = data

    def run(self, disk: Disk) -> int:
        path = partial_path(self.snapshot)
        if not self.position:
            disk.unlink(path)
        disk.write(path, self.position, [self.data])
        return self.position + len(self.data)


@dataclass(frozen=True, slots=True)
class Installed:
    """A snapshot that is in its place: its size, and what its head says."""

    size_bytes: int
    voters: VoterSet | None
    kraft_version: int


class InstallSnapshot(Operation):
    """Checks every batch of a fetched snapshot and gives it its name, durably. The result is None if it is damaged."""

    __slots__ = ("snapshot",)

    def __init__(self, directory: int, owner: Storage, snapshot: CheckpointId) -> None:
        super().__init__(directory, CHECKPOINTS, owner)
        self.snapshot = snapshot

    def run(self, disk: Disk) -> Installed | None:
        path = partial_path(self.snapshot)
        if not disk.exists(path):
            return None
        size_bytes = disk.size(path)
        try:
            found = read_checkpoint(disk.read(path, 0, size_bytes), path)
        except StorageError:
            disk.unlink(path)
            return None
        disk.fsync(path)
        disk.rename(path, f"{NAME}/{self.snapshot.file}")
        disk.fsync_directory(NAME)
        return Installed(size_bytes, found.voters, found.kraft_version or 0)


def partial_path(snapshot: CheckpointId) -> str:
    """Where a snapshot grows while it is fetched; such files are removed at start."""
    return f"{NAME}/{snapshot.file.removesuffix(SUFFIX)}.fetched{PARTIAL_SUFFIX}"
