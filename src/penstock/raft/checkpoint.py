"""Checkpoints of the metadata log (KIP-630): `<end offset>-<epoch>.checkpoint`.

A checkpoint replaces the log before its end offset. It is a run of record batches with offsets of their own: a
control batch with the SnapshotHeader (and kraft.version and voters from version 1 on), the records, a control batch
with the SnapshotFooter. Without its footer, or with a batch that fails its checksum, it is not a checkpoint.

`0-0` is the one that `storage format` writes: no records, only the first voters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from penstock.errors import CorruptRecordError, InvalidRecordError, StorageError
from penstock.log.disk import Disk
from penstock.protocol.message import Message
from penstock.protocol.messages.kraft_version_record import KRaftVersionRecord
from penstock.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from penstock.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from penstock.protocol.messages.voters_record import VotersRecord
from penstock.raft.voters import VoterSet
from penstock.records.batch import BatchHeader, Buffer, check_crc, headers
from penstock.records.builder import BatchBuilder
from penstock.records.control import control_batch, control_records
from penstock.records.reader import records

SUFFIX = ".checkpoint"
PARTIAL_SUFFIX = ".checkpoint.part"
NAME = re.compile(r"(?P<offset>[0-9]{20})-(?P<epoch>[0-9]{10})\.checkpoint")
BATCH_MAX_BYTES = 1024 * 1024
"""Size at which a batch of a checkpoint is closed; one record alone may be larger."""


@dataclass(frozen=True, slots=True, order=True)
class CheckpointId:
    """The id of a checkpoint: it contains all records below `end_offset`, the last of them written in `epoch`."""

    end_offset: int
    epoch: int

    @property
    def file(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"

    @staticmethod
    def of_file(name: str) -> CheckpointId | None:
        """The id that a file name says, None for other files."""
        found = NAME.fullmatch(name)
        return None if found is None else CheckpointId(int(found["offset"]), int(found["epoch"]))


BOOTSTRAP = CheckpointId(0, 0)
"""The checkpoint that formatting writes."""


@dataclass(frozen=True, slots=True)
class LogBatch:
    """One batch of the metadata log or of a checkpoint: either control messages or the values of records."""

    header: BatchHeader
    control: Sequence[Message] = ()
    values: Sequence[bytes] = ()


def read_batches(view: Buffer, path: str) -> Iterator[LogBatch]:
    """The batches of a run, each checked. Raises StorageError, which names the file, where one is damaged."""
    try:
        for position, header in headers(view):
            check_crc(view, position, header)
            if header.is_control:
                found = control_records(view, header, position)
                messages = [each.message for each in found if isinstance(each.message, Message)]
                yield LogBatch(header, control=messages)
            else:
                yield LogBatch(header, values=[record.value or b"" for record in records(view, header, position)])
    except (CorruptRecordError, InvalidRecordError) as error:
        raise StorageError(f"{path} is damaged: {error}") from None


def checkpoint_batches(
    values: Iterable[bytes],
    *,
    epoch: int,
    last_contained_timestamp_ms: int,
    wall_ms: int,
    kraft_version: int = 0,
    voters: VoterSet | None = None,
) -> Iterator[bytearray]:
    """The batches of a checkpoint with these record values, in order.

    `kraft_version` above 0 adds that version and the voters to the first batch, as Kafka does.
    """
    first: list[Message] = [SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_timestamp_ms)]
    if kraft_version > 0:
        assert voters is not None, "from kraft.version 1 on, the voters are in the log"
        first += [KRaftVersionRecord(kraft_version=kraft_version), voters.to_record()]
    yield control_batch(first, base_offset=0, leader_epoch=epoch, wall_ms=wall_ms)
    builder = BatchBuilder(base_offset=len(first), leader_epoch=epoch)
    for value in values:
        if builder.record_count and builder.size_bytes + len(value) > BATCH_MAX_BYTES:
            next_offset = builder.base_offset + builder.record_count
            yield builder.build()
            builder = BatchBuilder(base_offset=next_offset, leader_epoch=epoch)
        builder.append(wall_ms, None, value)
    next_offset = builder.base_offset + builder.record_count
    if builder.record_count:
        yield builder.build()
    yield control_batch([SnapshotFooterRecord()], base_offset=next_offset, leader_epoch=epoch, wall_ms=wall_ms)


def write_checkpoint(disk: Disk, directory: str, name: str, batches: Iterable[bytearray]) -> int:
    """Writes a checkpoint durably under its name, all of it or nothing. Blocks; returns its size in bytes."""
    partial = f"{directory}/{name}.part" if directory else f"{name}.part"
    disk.unlink(partial)
    position = 0
    for batch in batches:
        disk.write(partial, position, [batch])
        position += len(batch)
    disk.fsync(partial)
    disk.rename(partial, partial.removesuffix(".part"))
    disk.fsync_directory(directory)
    return position


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint as read: `values` are its records, `voters` and `kraft_version` what its head says (or None)."""

    last_contained_timestamp_ms: int
    values: Sequence[bytes]
    kraft_version: int | None
    voters: VoterSet | None


def read_checkpoint(view: Buffer, path: str) -> Checkpoint:
    """Reads a whole checkpoint. Raises StorageError when it is damaged or has no end."""
    header: SnapshotHeaderRecord | None = None
    kraft_version: int | None = None
    voters: VoterSet | None = None
    values: list[bytes] = []
    complete = False
    for batch in read_batches(view, path):
        if complete or (header is None and not batch.control):
            raise StorageError(f"{path} is damaged: batch at offset {batch.header.base_offset} is out of place")
        for message in batch.control:
            if isinstance(message, SnapshotHeaderRecord):
                header = message
            elif isinstance(message, KRaftVersionRecord):
                kraft_version = message.kraft_version
            elif isinstance(message, VotersRecord):
                voters = VoterSet.from_record(message)
            complete = complete or isinstance(message, SnapshotFooterRecord)
        values.extend(batch.values)
    if header is None or not complete:
        raise StorageError(f"{path} is damaged: it has no {'header' if header is None else 'footer'}")
    return Checkpoint(header.last_contained_log_timestamp, values, kraft_version, voters)
