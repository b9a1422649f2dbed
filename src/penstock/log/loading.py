"""From the files of a log to its state, when it is opened and after a truncation has changed the files.

Only the listing, the small files, the ends of the active segment's indexes and what comes after its last index entry
are read; after a clean stop that is all. Producer state newer than the latest snapshot is replayed from batch headers.
Files that contradict each other raise `RecoveryNeeded`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from penstock.config.topic import TopicConfig
from penstock.errors import CorruptRecordError, InvalidRecordError, StorageError
from penstock.log import leader_epochs, partition_metadata, producer_snapshot
from penstock.log.damaged_index import DamagedFileError, DamagedIndexError, Start, start_at
from penstock.log.disk import Disk, FileInfo
from penstock.log.index import Index
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.limits import BATCHES_PER_PRODUCER, RECALLED_INDEX_ENTRIES
from penstock.log.lookup import batch_headers, header_with, headers_at, headers_from
from penstock.log.names import (
    ABORTED_INDEX,
    CLEANED,
    DELETED,
    LEADER_EPOCHS,
    LOG,
    OFFSET_INDEX,
    PARTITION_METADATA,
    SNAPSHOT,
    TIME_INDEX,
    file_name,
    offset_of,
)
from penstock.log.producer_state import Batch, Marker, Origin, ProducerState, Step
from penstock.log.segment import Segment
from penstock.records.batch import BatchHeader
from penstock.records.control import ControlType, EndTransactionMarker, control_records, plain_marker


class RecoveryNeeded(StorageError):
    """The files of a log contradict each other or lack one: run `recovery.recover_log`, then open again."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} must be recovered before it is opened: {reason}")
        self.name = name
        self.reason = reason


@dataclass(frozen=True, slots=True)
class OpenArguments:
    """The arguments for opening and recovering a log: plain data, so that they can go to another process.

    Attributes:
        recovery_point: from recovery-point-offset-checkpoint, 0 if it has none.
        log_start_offset: from log-start-offset-checkpoint, 0 if it has none.
        doubtful: an fsync had failed in the log directory before this start.
    """

    name: str
    config: TopicConfig
    recovery_point: int
    log_start_offset: int
    wall_ms: int
    doubtful: bool = False


@dataclass(slots=True)
class Loaded:
    """The state of a log according to its files. `snapshots`: offsets of the `.snapshot` files, rising; `stale_paths`:
    useless files; `deleted_paths`: those of deleted segments, and of a pass of the cleaner that has not ended.
    """

    segments: list[Segment]
    log_end_offset: int
    producers: ProducerState
    leader_epochs: LeaderEpochs
    topic_id: UUID | None
    snapshots: list[int]
    stale_paths: list[str]
    deleted_paths: list[str]


def nothing(topic_id: UUID | None, log_start_offset: int) -> Loaded:
    """The state of a log that has no files yet."""
    producers = ProducerState(log_start_offset)
    return Loaded([], log_start_offset, producers, LeaderEpochs(), topic_id, [], [], [])


def load(disk: Disk, name: str, *, log_start_offset: int, wall_ms: int) -> Loaded:
    """Reads a log's directory. Raises RecoveryNeeded, and NotResident if `disk` does; changes nothing."""
    files = listing(disk, name)
    segments = load_segments(name, files, wall_ms)
    log_end_offset = load_active(disk, segments[-1]) if segments else log_start_offset
    if segments and log_end_offset < log_start_offset:
        raise RecoveryNeeded(name, f"it ends at {log_end_offset}, before its start offset {log_start_offset}")
    epochs = load_leader_epochs(disk, name, files)
    epochs.truncate_from_end(log_end_offset)
    epochs.truncate_from_start(log_start_offset)
    producers = ProducerState(log_start_offset)
    snapshots, useless = load_snapshot(disk, name, files, producers, log_end_offset)
    if segments:
        with recoverable(name):
            if producers.producers:
                recall(disk, segments[-1], producers)
            replay(disk, segments, producers, log_end_offset, active=segments[-1])
    snapshots, strays = without_strays(snapshots, segments)
    stale = [f"{name}/{file_name(offset, SNAPSHOT)}" for offset in [*useless, *strays]]
    return Loaded(
        segments,
        log_end_offset,
        producers,
        epochs,
        load_topic_id(disk, name, files),
        snapshots,
        stale,
        [f"{name}/{file}" for file in files if is_deleted(file) or file.endswith(CLEANED)],
    )


def listing(disk: Disk, name: str) -> dict[str, FileInfo]:
    """The files of a log by name, in the order of their names."""
    return {info.name: info for info in disk.list(name) if not info.is_directory}


def load_segments(name: str, files: Mapping[str, FileInfo], wall_ms: int) -> list[Segment]:
    """The segments from their files' names and sizes, nothing read. Raises RecoveryNeeded if an index is missing."""
    return [
        load_segment(name, info, files, wall_ms) for info in files.values() if offset_of(info.name, LOG) is not None
    ]


def is_deleted(file: str) -> bool:
    """Whether the file is one of a deleted segment. Snapshots of the metadata log have their own deletion."""
    return file.endswith(DELETED) and not file.endswith(".checkpoint" + DELETED)


def load_segment(name: str, info: FileInfo, files: Mapping[str, FileInfo], wall_ms: int) -> Segment:
    """A segment from its files' sizes, nothing read."""
    base_offset = offset_of(info.name, LOG)
    assert base_offset is not None
    segment = Segment(name, base_offset, wall_ms, size_bytes=info.size_bytes)
    segment.modified_ms = info.modified_ms
    segment.largest_timestamp_ms = None
    segment.largest_is_right = False
    segment.flushed = True
    count_entries(name, segment.offset_index, files.get(file_name(base_offset, OFFSET_INDEX)))
    count_entries(name, segment.time_index, files.get(file_name(base_offset, TIME_INDEX)))
    aborted = files.get(file_name(base_offset, ABORTED_INDEX))
    if aborted is not None:
        count_entries(name, segment.aborted_index, aborted)
    return segment


def count_entries(name: str, index: Index, info: FileInfo | None) -> None:
    if info is None:
        raise RecoveryNeeded(name, f"{index.path} is missing")
    if info.size_bytes % index.ENTRY.size:
        raise RecoveryNeeded(name, f"{index.path} has {info.size_bytes} bytes, no multiple of {index.ENTRY.size}")
    index.written = info.size_bytes // index.ENTRY.size


def load_active(disk: Disk, segment: Segment) -> int:
    """Reads what appending to a segment requires; returns the offset after its last batch."""
    name = segment.name
    time_index = segment.time_index
    time_index.last_timestamp_ms, time_index.last_offset = time_index.last_entry(disk)
    largest_timestamp_ms, largest_offset = time_index.last_timestamp_ms, time_index.last_offset
    next_offset = segment.base_offset
    latest: BatchHeader | None = None
    with recoverable(name):
        start = last_start(disk, segment)
        end = start.position
        if start.position:
            _, first = next(batch_headers(disk, segment.log_path, 0, segment.size_bytes))
            segment.rolling_timestamp_ms = first.max_timestamp_ms
        for at, header in headers_at(disk, segment, start):
            if not at:
                segment.rolling_timestamp_ms = header.max_timestamp_ms
            if header.max_timestamp_ms > largest_timestamp_ms:
                largest_timestamp_ms, largest_offset = header.max_timestamp_ms, header.last_offset
            if header.base_offset < next_offset:
                raise RecoveryNeeded(
                    name, f"{segment.log_path} has offset {header.base_offset} after {next_offset - 1}"
                )
            if latest is None and header.base_offset <= time_index.last_offset <= header.last_offset:
                latest = header
            next_offset = header.next_offset
            end = at + header.size_bytes
        if end != segment.size_bytes:
            raise RecoveryNeeded(name, f"{segment.log_path} ends within a batch")
        check_last_entries(segment, next_offset)
        if time_index.written:
            check_last_time(segment, latest or header_with(disk, segment, time_index.last_offset))
    segment.largest_timestamp_ms, segment.largest_timestamp_offset = largest_timestamp_ms, largest_offset
    segment.largest_is_right = True
    segment.bytes_since_index = segment.size_bytes - start.position
    segment.flushed = False
    return next_offset


def last_start(disk: Disk, segment: Segment) -> Start:
    """Where the last entry of the offset index leads. Raises DamagedIndexError or RecoveryNeeded if that is wrong."""
    index = segment.offset_index
    if not index.written:
        return Start(0)
    relative_offset, position = index.entry(disk, index.written - 1)
    index.last_offset = segment.base_offset + relative_offset
    if position >= segment.size_bytes:  # also of none
        raise RecoveryNeeded(
            segment.name, f"{index.path} points to {position} in {segment.size_bytes} bytes of records"
        )
    return start_at(segment, relative_offset, position)


def check_last_entries(segment: Segment, next_offset: int) -> None:
    """Raises RecoveryNeeded if an index of a segment that ends at `next_offset` says an offset beyond: the next append
    could not go on from there.
    """
    for index in (segment.offset_index, segment.time_index):
        if not segment.base_offset - 1 <= index.last_offset < max(next_offset, segment.base_offset + 1):
            said = f"{index.path} has the offset {index.last_offset}"
            raise RecoveryNeeded(segment.name, f"{said}, and the segment ends at {next_offset}")


def check_last_time(segment: Segment, latest: BatchHeader | None) -> None:
    """Raises RecoveryNeeded if `latest`, the batch with the offset of the last entry of the segment's time index, has
    not the time of that entry: appends, roll and retention go on from there.
    """
    index = segment.time_index
    if latest is None or latest.max_timestamp_ms != index.last_timestamp_ms:
        said = f"{index.path} says that the latest time is {index.last_timestamp_ms}, at offset {index.last_offset}"
        raise RecoveryNeeded(segment.name, f"{said}, and no batch there has it")


def load_leader_epochs(disk: Disk, name: str, files: Mapping[str, FileInfo]) -> LeaderEpochs:
    info = files.get(LEADER_EPOCHS)
    if info is None or not info.size_bytes:
        return LeaderEpochs()
    path = f"{name}/{LEADER_EPOCHS}"
    try:
        return leader_epochs.decode(disk.read(path, 0, info.size_bytes), path)
    except StorageError as error:
        raise RecoveryNeeded(name, str(error)) from error


def load_topic_id(disk: Disk, name: str, files: Mapping[str, FileInfo]) -> UUID | None:
    """Raises StorageError for a partition.metadata that cannot be read: no recovery repairs that."""
    info = files.get(PARTITION_METADATA)
    if info is None:
        return None
    path = f"{name}/{PARTITION_METADATA}"
    return partition_metadata.decode(disk.read(path, 0, info.size_bytes), path)


def load_snapshot(
    disk: Disk,
    name: str,
    files: Mapping[str, FileInfo],
    producers: ProducerState,
    log_end_offset: int,
) -> tuple[list[int], list[int]]:
    """Fills `producers` from the latest good snapshot; returns the offsets of good (as far as known) and useless ones.

    Without a good one the producers are left empty, at the log start.
    """
    offsets = sorted(offset for file in files if (offset := offset_of(file, SNAPSHOT)) is not None)
    useless = [offset for offset in offsets if offset > log_end_offset]
    del offsets[len(offsets) - len(useless) :]
    while offsets:
        file = file_name(offsets[-1], SNAPSHOT)
        path = f"{name}/{file}"
        try:
            producers.load(producer_snapshot.decode(disk.read(path, 0, files[file].size_bytes), path))
        except StorageError:
            useless.append(offsets.pop())
            continue
        producers.end_offset = offsets[-1]
        break
    return offsets, useless


def recall(disk: Disk, segment: Segment, producers: ProducerState) -> None:
    """Reads, at the log's end, the batches before the last one of each producer, which a snapshot leaves out.

    A producer that had several batches in flight when its broker died sends all of them again, the oldest first.
    """
    index = segment.offset_index
    number = index.written - RECALLED_INDEX_ENTRIES
    start = start_at(segment, *index.entry(disk, number)) if number >= 0 else Start(0)
    found: dict[int, list[Batch]] = {}
    for _, header in headers_at(disk, segment, start):
        if header.base_offset >= producers.end_offset:
            break
        producer = producers.producers.get(header.producer_id)
        if producer is not None and producer.epoch == header.producer_epoch and not header.is_control:
            batch = Batch(
                header.base_sequence,
                header.last_sequence,
                header.base_offset,
                header.last_offset,
                header.max_timestamp_ms,
            )
            found.setdefault(header.producer_id, []).append(batch)
    for producer_id, batches in found.items():
        producer = producers.producers[producer_id]
        if producer.batches:
            earlier = [batch for batch in batches if batch.last_offset < producer.batches[0].last_offset]
            recalled = (*earlier, *producer.batches)[-BATCHES_PER_PRODUCER:]
            producers.producers[producer_id] = producer._replace(batches=recalled)


@contextmanager
def recoverable(name: str) -> Iterator[None]:
    """Turns what is wrong with an active segment and its indexes into the need for a recovery, which reads it all."""
    try:
        yield
    except DamagedIndexError as error:
        raise RecoveryNeeded(name, error.reason) from error
    except (CorruptRecordError, InvalidRecordError, DamagedFileError) as error:
        raise RecoveryNeeded(name, str(error)) from error


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turns an unreadable batch, or one of an old format, into an error of this log alone."""
    try:
        yield
    except (CorruptRecordError, InvalidRecordError) as error:
        raise StorageError(f"{name}: {error}") from error


def without_strays(snapshots: list[int], segments: list[Segment]) -> tuple[list[int], list[int]]:
    """Splits snapshots into those worth keeping (the latest, and those at which a segment begins) and the others."""
    bases = {segment.base_offset for segment in segments}
    kept = [offset for offset in snapshots if offset in bases or offset == snapshots[-1]]
    return kept, [offset for offset in snapshots if offset not in kept]


def replay(
    disk: Disk, segments: list[Segment], producers: ProducerState, end_offset: int, *, active: Segment | None = None
) -> None:
    """Brings the producers from their end offset to `end_offset` by the headers of the batches between.

    Where the index of an older segment than the `active` one leads astray, all headers of that segment are read.
    """
    for number, segment in enumerate(segments):
        start = producers.end_offset
        next_base = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        if start >= end_offset or start >= next_base:
            continue
        found = headers_from(disk, segment, start) if segment is active else headers_to(disk, segment, start)
        for at, header in found:
            if header.last_offset >= start and header.base_offset < end_offset:
                marker = None
                if header.is_control and header.has_producer_id:
                    marker = marker_of(disk.read(segment.log_path, at, header.size_bytes), header)
                replay_batch(header, producers, marker)
    producers.end_offset = end_offset


def headers_to(disk: Disk, segment: Segment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """The headers from a batch at or before the one that holds `offset` on; from the first if the index is damaged."""
    try:
        yield from headers_from(disk, segment, offset)
    except DamagedIndexError:  # found with the first batch
        yield from batch_headers(disk, segment.log_path, 0, segment.size_bytes)


def replay_batch(header: BatchHeader, producers: ProducerState, marker: Marker | None) -> Step | None:
    """Accounts for a batch that is in the log; `marker` is what a control batch of a producer says."""
    step = None
    if header.has_producer_id:
        step = producers.reserve(header, header.base_offset, Origin.REPLICATION, marker)
    producers.end_offset = header.next_offset
    return step


def marker_of(batch: bytes | bytearray | memoryview, header: BatchHeader, position: int = 0) -> Marker | None:
    """The end of a transaction in a control batch; None if the cleaner has emptied it or it holds something else."""
    plain = plain_marker(batch, header, position)
    if plain is not None:
        return Marker(plain.type is ControlType.COMMIT, plain.coordinator_epoch)
    for record in control_records(batch, header, position):
        if isinstance(record.message, EndTransactionMarker):
            return Marker(record.type is ControlType.COMMIT, record.message.coordinator_epoch)
    return None
