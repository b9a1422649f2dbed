"""What is in a log's files, for people: one description a batch, entry or producer, and what is wrong with it.

Pure functions over a blocking disk; the command line prints what they yield. Each file is described by its suffix:
records (`.log`), the two indexes and the aborted transactions, producer snapshots, leader epochs, partition metadata,
snapshots of the metadata log (`.checkpoint`).
`verify_offset_index` and `verify_time_index` hold an index against the records it points into, as Kafka's
DumpLogSegments does with --verify-index-only and --index-sanity-check, and report every entry that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.log import leader_epochs, partition_metadata, producer_snapshot
from penstock.log.disk import Disk
from penstock.log.index import RELATIVE_OFFSET_MAX, AbortedIndex, OffsetIndex, TimeIndex
from penstock.log.limits import RECOVERY_CHUNK_BYTES
from penstock.log.names import (
    ABORTED_INDEX,
    CHECKPOINT,
    LEADER_EPOCHS,
    LOG,
    OFFSET_INDEX,
    PARTITION_METADATA,
    SNAPSHOT,
    TIME_INDEX,
    offset_of,
)
from penstock.records.batch import HEADER_BYTES, NO_TIMESTAMP, BatchHeader, check_crc, read_entry
from penstock.records.reader import Record, counted, records


@dataclass(frozen=True, slots=True)
class BatchDescription:
    """One batch of a `.log` file, or one message of format 0 or 1. `problem` says what is wrong, "" if nothing is;
    `records` only when asked for.
    """

    position: int
    header: BatchHeader
    problem: str
    records: tuple[Record, ...] = ()


class IndexEntry(NamedTuple):
    """Offset and position in a `.index` file; offset and timestamp (`value`) in a `.timeindex` file."""

    offset: int
    value: int


class Problem(NamedTuple):
    """Something wrong with a file: which entry or byte, and what."""

    at: int
    message: str


def kind_of(path: str) -> str:
    """The suffix or name that says what a file is. Raises ValueError for a file that is not one of a log's."""
    name = path.rpartition("/")[2]
    if name in (LEADER_EPOCHS, PARTITION_METADATA):
        return name
    if name.endswith(CHECKPOINT):
        return CHECKPOINT
    for suffix in (LOG, OFFSET_INDEX, TIME_INDEX, ABORTED_INDEX, SNAPSHOT):
        if offset_of(name, suffix) is not None:
            return suffix
    raise ValueError(
        f"{path} is not a file of a log: wanted 20 digits and .log, .index, .timeindex, .txnindex, .snapshot, "
        f"or a .checkpoint"
    )


def base_offset_of(path: str) -> int:
    """The offset in a file's name. Raises ValueError as `kind_of`."""
    offset = offset_of(path.rpartition("/")[2], kind_of(path))
    if offset is None:
        raise ValueError(f"{path} has no offset in its name")
    return offset


def describe_log(disk: Disk, path: str, *, deep: bool = False) -> Iterator[BatchDescription | Problem]:
    """Every batch of a `.log` file, or of a snapshot of the metadata log, whose offsets are its own; with its records
    if `deep`; at the end a Problem where there is no whole batch.
    """
    size_bytes = disk.size(path)
    position = 0
    next_offset = 0 if kind_of(path) == CHECKPOINT else base_offset_of(path)
    while position < size_bytes:
        data = disk.read(path, position, max(RECOVERY_CHUNK_BYTES, HEADER_BYTES))
        at = 0
        while True:
            try:
                header = read_entry(data, at)
            except (CorruptRecordError, InvalidRecordError) as error:
                if at + HEADER_BYTES > len(data) and position - at + len(data) < size_bytes:
                    break
                yield Problem(position, f"{error}; {size_bytes - position} bytes from here on are not described")
                return
            if position + header.size_bytes > size_bytes:
                missing = position + header.size_bytes - size_bytes
                yield Problem(position, f"the batch at offset {header.base_offset} is cut off: {missing} bytes missing")
                return
            if at + header.size_bytes > len(data):
                if at == 0:
                    data = disk.read(path, position, header.size_bytes)
                    continue
                break
            yield describe_batch(data, at, position, header, next_offset=next_offset, deep=deep)
            next_offset = header.next_offset
            position += header.size_bytes
            at += header.size_bytes
            if at == len(data):
                break


def describe_batch(
    data: bytes, at: int, position: int, header: BatchHeader, *, next_offset: int, deep: bool
) -> BatchDescription:
    problem = ""
    found: tuple[Record, ...] = ()
    try:
        check_crc(data, at, header)
    except CorruptRecordError:
        return BatchDescription(position, header, "its checksum is wrong")
    try:
        if deep:
            found = tuple(records(data, header, at))
        if header.is_old:
            header = counted(data, header, at)
    except (CorruptRecordError, InvalidRecordError) as error:
        problem = str(error)
    if header.base_offset < next_offset:
        problem = f"its offset {header.base_offset} comes after {next_offset - 1}"
    return BatchDescription(position, header, problem, found)


def describe_offset_index(disk: Disk, path: str) -> Iterator[IndexEntry]:
    base_offset = base_offset_of(path)
    for relative_offset, position in OffsetIndex.ENTRY.iter_unpack(whole_entries(disk, path, OffsetIndex.ENTRY.size)):
        yield IndexEntry(base_offset + relative_offset, position)


def describe_time_index(disk: Disk, path: str) -> Iterator[IndexEntry]:
    base_offset = base_offset_of(path)
    for timestamp_ms, relative_offset in TimeIndex.ENTRY.iter_unpack(whole_entries(disk, path, TimeIndex.ENTRY.size)):
        yield IndexEntry(base_offset + relative_offset, timestamp_ms)


def describe_aborted_index(disk: Disk, path: str) -> Iterator[tuple[int, int, int, int]]:
    """(producer id, first offset, last offset, last stable offset) of every aborted transaction."""
    for entry in AbortedIndex.ENTRY.iter_unpack(whole_entries(disk, path, AbortedIndex.ENTRY.size)):
        yield entry[1:]


def describe_snapshot(disk: Disk, path: str) -> list[producer_snapshot.Entry]:
    """The producers of a `.snapshot` file. Raises StorageError when it is damaged."""
    return producer_snapshot.entries(disk.read(path, 0, disk.size(path)), path)


def describe_leader_epochs(disk: Disk, path: str) -> list[tuple[int, int]]:
    """(epoch, start offset). Raises StorageError when the file is malformed."""
    return leader_epochs.decode(disk.read(path, 0, disk.size(path)), path).entries()


def describe_partition_metadata(disk: Disk, path: str) -> str:
    """The topic id. Raises StorageError when the file is malformed."""
    return str(partition_metadata.decode(disk.read(path, 0, disk.size(path)), path))


def verify_offset_index(disk: Disk, path: str) -> Iterator[Problem]:
    """Entries of a `.index` file that do not rise, or do not point to a batch that ends with their offset."""
    log_path = path.removesuffix(OFFSET_INDEX) + LOG
    yield from size_problem(disk, path, OffsetIndex.ENTRY.size)
    size_bytes = disk.size(log_path)
    last = IndexEntry(base_offset_of(path) - 1, -1)
    for number, entry in enumerate(describe_offset_index(disk, path)):
        if is_padding(entry, number, base_offset_of(path)):
            return
        if entry.offset <= last.offset or entry.value <= last.value:
            yield Problem(number, f"{entry.offset} at {entry.value} comes after {last.offset} at {last.value}")
        header = header_at(disk, log_path, entry.value, size_bytes)
        if header is None:
            yield Problem(number, f"it points to position {entry.value}, where no batch is")
        elif header.last_offset != entry.offset:
            yield Problem(number, f"it says {entry.offset} and the batch there ends with {header.last_offset}")
        last = entry


def verify_time_index(disk: Disk, path: str) -> Iterator[Problem]:
    """Entries of a `.timeindex` file that do not rise, or whose batch has another largest timestamp."""
    log_path = path.removesuffix(TIME_INDEX) + LOG
    yield from size_problem(disk, path, TimeIndex.ENTRY.size)
    wanted: dict[int, tuple[int, int]] = {}
    last = IndexEntry(-1, NO_TIMESTAMP)
    for number, entry in enumerate(describe_time_index(disk, path)):
        if is_padding(entry, number, base_offset_of(path)):
            break
        if entry.offset < last.offset or entry.value <= last.value:
            yield Problem(number, f"{entry.value} at {entry.offset} comes after {last.value} at {last.offset}")
        wanted[entry.offset] = (number, entry.value)
        last = entry
    largest_ms = NO_TIMESTAMP
    for found in describe_log(disk, log_path):
        if isinstance(found, BatchDescription):
            header = found.header
            largest_ms = max(largest_ms, header.max_timestamp_ms)
            number, timestamp_ms = wanted.pop(header.last_offset, (-1, -1))
            if number >= 0 and header.max_timestamp_ms != timestamp_ms:
                found_ms = header.max_timestamp_ms
                yield Problem(number, f"it says {timestamp_ms} and the batch that ends with its offset has {found_ms}")
            elif number >= 0 and largest_ms != timestamp_ms:
                yield Problem(number, f"it says {timestamp_ms} and an earlier batch has {largest_ms}")
    for offset, (number, _) in wanted.items():
        yield Problem(number, f"no batch ends with its offset {offset}")


def is_padding(entry: IndexEntry, number: int, base_offset: int) -> bool:
    """Whether the rest of an index is the zeros that Kafka reserves for an active segment."""
    return number > 0 and entry == IndexEntry(base_offset, 0)


def size_problem(disk: Disk, path: str, entry_bytes: int) -> Iterator[Problem]:
    size_bytes = disk.size(path)
    if size_bytes % entry_bytes:
        yield Problem(size_bytes // entry_bytes, f"{size_bytes % entry_bytes} bytes after the last whole entry")


def whole_entries(disk: Disk, path: str, entry_bytes: int) -> bytes:
    size_bytes = disk.size(path)
    return disk.read(path, 0, size_bytes - size_bytes % entry_bytes)


def header_at(disk: Disk, path: str, position: int, size_bytes: int) -> BatchHeader | None:
    if not 0 <= position < size_bytes:
        return None
    try:
        header = read_entry(disk.read(path, position, HEADER_BYTES))
    except (CorruptRecordError, InvalidRecordError):
        return None
    return header if header.last_offset_delta <= RELATIVE_OFFSET_MAX else None
