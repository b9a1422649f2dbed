"""The log manager's operations on a log directory, each an `Operation` that contains all it needs.

Operations on one replica have its name as their order, like the operations of its log. Those on checkpoint files, the
mark of a clean stop and new replicas share one order: the last one emitted is the last one written, and a new replica
is created after the checkpoint from which an older one of its name was removed, and not at all if that was not written.

`replica` and `replicas` are for the manager, which handles the result: `run` does not look at them. A name would not
do: by then it may belong to another replica.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from penstock.errors import NotResident, StorageError
from penstock.log import partition_metadata
from penstock.log.checkpoints import TopicPartition, format_checkpoint
from penstock.log.clean_shutdown import write_clean_shutdown
from penstock.log.disk import FSYNC_FAILED, Disk, FileSlice, Operation, OperationOwner, read_slice
from penstock.log.loading import OpenArguments, RecoveryNeeded
from penstock.log.log import Log
from penstock.log.names import INDEX_SUFFIXES, LOG, PARTITION_METADATA, SNAPSHOT, offset_of
from penstock.log.opening import open_log
from penstock.log.recovery import RecoveryReport, recover_log
from penstock.log.recovery_task import (
    OTHERS,
    PlannedRecovery,
    PlanRecovery,
    ScannedSegment,
    SplitRecovery,
    plan_recovery,
    split_recovery,
)
from penstock.log.replica import Replica
from penstock.log.results import LogOwner, Randomness
from penstock.log.space import is_full
from penstock.log.tasks import Parts, TaskOperation
from penstock.records.wall import WallTime

CHECKPOINTS_ORDER = ".checkpoints"
MEASURE_ORDER = ".measure"
REMOVE_ORDER = ".remove"


class CreateReplicas(Operation):
    """Makes the directories of new replicas: all of them, then one fsync of the log directory.

    The file with the topic id appears by a rename, so that a crash leaves all of it or nothing: a directory with half
    of it could not be opened, one without it gets the id when it is opened. So its own directory needs no fsync.

    It does nothing, and has no room, unless the checkpoints `after` which it comes have found room.

    The result is the names that existed already, whose content is unknown.
    """

    __slots__ = ("after", "names", "replicas")

    def __init__(
        self,
        directory: int,
        owner: OperationOwner,
        replicas: Sequence[Replica],
        after: Sequence[WriteCheckpoint] = (),
    ) -> None:
        super().__init__(directory, CHECKPOINTS_ORDER, owner)
        self.replicas = replicas
        self.after = after
        self.names = [(replica.name, replica.topic_id) for replica in replicas]

    def run(self, disk: Disk) -> set[str]:
        for write in self.after:
            if not write.written:
                raise OSError(errno.ENOSPC, "no room for what must be there before", write.file)
        files = []
        found = set()
        for name, topic_id in self.names:
            assert topic_id is not None, "a new replica is of a topic with an id"
            if disk.exists(name):
                found.add(name)
            else:
                disk.make_directory(name)
            files.append((f"{name}/{PARTITION_METADATA}", partition_metadata.encode(topic_id)))
        disk.replace_all(files)
        disk.fsync_directory("")
        return found


class WritePartitionMetadata(Operation):
    """Ties a directory that has no topic id (or lost it in a crash) to its topic."""

    __slots__ = ("name", "replica", "topic_id")

    def __init__(self, replica: Replica, owner: OperationOwner) -> None:
        super().__init__(replica.directory.index, replica.name, owner)
        self.replica = replica
        self.name = replica.name
        self.topic_id = replica.topic_id

    def run(self, disk: Disk) -> None:
        assert self.topic_id is not None, "nothing to write"
        disk.replace(f"{self.name}/{PARTITION_METADATA}", partition_metadata.encode(self.topic_id))


class OpenLog(Operation):
    """Opens a log in the lane. The result is the Log, or the RecoveryNeeded or StorageError that prevents it."""

    __slots__ = ("arguments", "log_owner", "loop_disk", "random", "replica", "wall")

    def __init__(
        self,
        replica: Replica,
        owner: OperationOwner,
        log_owner: LogOwner[Log],
        arguments: OpenArguments,
        *,
        random: Randomness,
        wall: WallTime,
    ) -> None:
        super().__init__(replica.directory.index, arguments.name, owner)
        self.replica = replica
        self.arguments = arguments
        self.log_owner = log_owner
        self.loop_disk = replica.directory.disk
        self.random = random
        self.wall = wall

    def run(self, disk: Disk) -> Log | RecoveryNeeded | StorageError:
        arguments, owner = self.arguments, self.log_owner
        try:
            return open_log(disk, arguments, owner, random=self.random, loop_disk=self.loop_disk, wall=self.wall)
        except (RecoveryNeeded, StorageError) as error:
            return error


class RecoverLog(TaskOperation):
    """Recovers a log after an unclean stop. The result is the report, or the StorageError that prevents it.

    Attributes: `precedence`, the rank of its tasks; `segments_left` to scan, as far as that is known.
    """

    __slots__ = ("arguments", "precedence", "replica", "segments_left", "split")

    def __init__(
        self, replica: Replica, owner: OperationOwner, arguments: OpenArguments, precedence: int = OTHERS
    ) -> None:
        super().__init__(replica.directory.index, arguments.name, owner)
        self.replica = replica
        self.arguments = arguments
        self.precedence = precedence
        self.segments_left = 0
        self.split: SplitRecovery | None = None

    def run(self, disk: Disk) -> RecoveryReport | StorageError:
        arguments = self.arguments
        try:
            rewrite_from = arguments.recovery_point if arguments.doubtful else None
            return recover_log(disk, arguments, rewrite_from=rewrite_from)
        except StorageError as error:
            return error

    def task(self, disk: Disk) -> PlanRecovery | Parts | None:
        task = plan_recovery(disk, self.arguments, self.precedence)
        self.segments_left = task.segments if task is not None else 0
        if task is None:
            return None
        self.split = split_recovery(disk, self.arguments)
        return self.split.next_parts(self.precedence) if self.split is not None else task

    def finish(
        self, disk: Disk, report: PlannedRecovery | list[ScannedSegment]
    ) -> RecoveryReport | StorageError | PlanRecovery | Parts:
        if isinstance(report, PlannedRecovery):
            return report.carry_out(disk) if report.still_holds(disk) else self.run(disk)
        assert self.split is not None
        if not self.split.take(disk, report):
            self.split = None
            return plan_recovery(disk, self.arguments, self.precedence) or self.run(disk)
        self.segments_left = len(self.split.left)
        if self.split.left:
            return self.split.next_parts(self.precedence)
        try:
            return self.split.carry_out(disk)
        except StorageError as error:
            return error

    def without_report(self, disk: Disk, reason: str) -> RecoveryReport | StorageError:
        return self.run(disk)


class SetAside(Operation):
    """Renames a replica's directory, durably: to `-delete` to be removed, to `-stray` if it is not this node's.

    If there is no room for the longer name, one that is `unwanted` gives up its segments first, oldest first: it may be
    deleted in order to make room. A crash in between leaves a log that begins later, or an empty one, of a partition
    that the metadata no longer gives to this node.
    """

    __slots__ = ("name", "renamed", "unwanted")

    def __init__(
        self, directory: int, owner: OperationOwner, name: str, renamed: str, *, unwanted: bool = False
    ) -> None:
        super().__init__(directory, name, owner)
        self.name = name
        self.renamed = renamed
        self.unwanted = unwanted

    def run(self, disk: Disk) -> None:
        try:
            disk.rename(self.name, self.renamed)
        except OSError as error:
            if not (self.unwanted and is_full(error)):
                raise
            remove_segments(disk, self.name)
            disk.rename(self.name, self.renamed)
        disk.fsync_directory("")

    def again(self) -> SetAside:
        """The same once more, after it has found no room."""
        return SetAside(self.directory, self.owner, self.name, self.renamed, unwanted=self.unwanted)


def remove_segments(disk: Disk, name: str) -> None:
    """Removes all segments of a log, oldest first, their records before their indexes: these alone are nothing."""
    files = [info.name for info in disk.list(name) if not info.is_directory]
    for suffix in (LOG, *INDEX_SUFFIXES, SNAPSHOT):
        for file in files:
            if offset_of(file, suffix) is not None:
                disk.unlink(f"{name}/{file}")


class RemoveDirectory(Operation):
    """Removes a directory that was set aside to be deleted, with at most `files_max` files (None: all).

    The result is whether it is gone; if not, some of its files are.
    """

    __slots__ = ("files_max", "name")

    def __init__(self, directory: int, owner: OperationOwner, name: str, files_max: int | None) -> None:
        super().__init__(directory, REMOVE_ORDER, owner)
        self.name = name
        self.files_max = files_max

    def run(self, disk: Disk) -> bool:
        if not disk.exists(self.name):
            return True
        if self.files_max is not None:
            files = [info.name for info in disk.list(self.name) if not info.is_directory]
            if len(files) > self.files_max:
                for file in files[: self.files_max]:
                    disk.unlink(f"{self.name}/{file}")
                return False
        disk.remove_directory(self.name)
        return True


class ReadRange(Operation):
    """Reads a range so that it is resident; the bytes are not used.

    A file that was deleted meanwhile is no error: the reader runs again and finds out.
    """

    __slots__ = ("length", "path", "position")

    def __init__(self, directory: int, owner: OperationOwner, path: str, position: int, length: int) -> None:
        super().__init__(directory, path, owner)
        self.path = path
        self.position = position
        self.length = length

    def run(self, disk: Disk) -> None:
        with suppress(FileNotFoundError):
            disk.read(self.path, self.position, self.length)


class ReadMissing(Operation):
    """Does what a look on the loop could not (`NotResident.read`); whoever looked does it again.

    The result is what came of it, None if a file was deleted meanwhile.
    """

    __slots__ = ("missing",)

    def __init__(self, missing: NotResident, owner: OperationOwner) -> None:
        super().__init__(missing.directory, missing.path, owner)
        self.missing = missing

    def run(self, disk: Disk) -> Any:
        with suppress(FileNotFoundError):
            return self.missing.read(disk)
        return None


class ReadBytes(Operation):
    """Reads a range for `reader`, which handles the result: the bytes, or None if the file was deleted meanwhile.

    `is_data` is for the reader: whether it wants the bytes, or only wants them to be resident.
    """

    __slots__ = ("is_data", "piece", "reader")

    def __init__(self, piece: FileSlice, owner: OperationOwner, reader: object, *, is_data: bool) -> None:
        super().__init__(piece.directory, piece.path, owner)
        self.piece = piece
        self.reader = reader
        self.is_data = is_data

    def run(self, disk: Disk) -> bytes | None:
        try:
            return read_slice(disk, self.piece)
        except FileNotFoundError:
            return None


class MeasureReplicas(Operation):
    """Adds up the sizes of the record files of replicas that are not open. The result is bytes by name.

    Attributes: `names`; `last`, whether no further batch of the same question follows.
    """

    __slots__ = ("last", "names")

    def __init__(self, directory: int, owner: OperationOwner, names: Sequence[str], *, last: bool) -> None:
        super().__init__(directory, MEASURE_ORDER, owner)
        self.names = names
        self.last = last

    def run(self, disk: Disk) -> dict[str, int]:
        sizes = {}
        for name in self.names:
            try:
                entries = disk.list(name)
            except FileNotFoundError:  # deleted meanwhile
                continue
            sizes[name] = sum(entry.size_bytes for entry in entries if entry.name.endswith(LOG))
        return sizes


class WriteCheckpoint(Operation):
    """Replaces one checkpoint file atomically and durably. `written`: whether it has done so."""

    __slots__ = ("file", "offsets", "written")

    def __init__(self, directory: int, owner: OperationOwner, file: str, offsets: Mapping[TopicPartition, int]) -> None:
        super().__init__(directory, CHECKPOINTS_ORDER, owner)
        self.file = file
        self.offsets = offsets
        self.written = False

    def run(self, disk: Disk) -> None:
        disk.replace(self.file, format_checkpoint(self.offsets))
        self.written = True


class MarkCleanStop(Operation):
    """The last operation on a directory: marks it as cleanly stopped, since everything has been written."""

    __slots__ = ("broker_epoch",)

    def __init__(self, directory: int, owner: OperationOwner, broker_epoch: int) -> None:
        super().__init__(directory, CHECKPOINTS_ORDER, owner)
        self.broker_epoch = broker_epoch

    def run(self, disk: Disk) -> None:
        disk.unlink(FSYNC_FAILED)
        write_clean_shutdown(disk, self.broker_epoch)
