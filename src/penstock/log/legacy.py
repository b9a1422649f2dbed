"""Logs that brokers of before Kafka 0.11 left behind: their directories, and all their records in order.

Kafka 0.7 names the files of a partition by the position of their first byte in the log, with the suffix `.kafka`; 0.8
to 0.10 name them by the offset of the first record, `.log`. So the suffix tells them apart, and only the latest of the
files may end within a message. Other files (indexes, what was to be deleted or was not yet cleaned) hold nothing more.

    logs = find_logs(disk, "clicks-0")
    for record in LegacyRecords(disk, logs[0]):
        ...

Brokers of that time followed symbolic links, so directories and segments may be links here, too: none is left out.

The same files give the same records in the same order each time: `penstock import` goes on by counting them. Offsets
are not under a message's checksum. One that cannot be (not above the last, or in the next file's range) is counted and
taken for the one after the last, and the record is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from penstock.errors import PenstockError, StorageError, UsageError
from penstock.log.disk import Disk
from penstock.log.limits import LEGACY_HOLES_NAMED_MAX
from penstock.log.names import LOG, SWAP, offset_of, parse_name
from penstock.records.batch import HEADER_BYTES, NO_TIMESTAMP, read_header
from penstock.records.compression import Contexts
from penstock.records.legacy.formats import Format, LegacyRecord
from penstock.records.legacy.kafka07 import KAFKA_07
from penstock.records.legacy.kafka08 import KAFKA_08
from penstock.records.legacy.scan import Found, Hole, Kind, PresentFormatError, Scan
from penstock.records.legacy.wrappers import Unwrapper

KAFKA = ".kafka"
MAX_OFFSET = 2**63 - 1


class Segment(NamedTuple):
    """A file of a log. `base` is its first offset, in Kafka 0.7 its first byte's position in the log."""

    path: str
    base: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LegacyLog:
    """A partition's log. `topic` is None and `partition` 0 where the directory's name does not say."""

    topic: str | None
    partition: int
    directory: str
    suffix: str
    segments: tuple[Segment, ...]
    fault: str | None = None
    """Why it cannot be read: it is not as a broker leaves it after a clean stop."""

    @property
    def is_kafka07(self) -> bool:
        return self.suffix == KAFKA

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def format(self) -> Format:
        return KAFKA_07 if self.is_kafka07 else KAFKA_08


def find_logs(disk: Disk, name: str) -> list[LegacyLog]:
    """The logs of a directory: that of one partition, whose own `name` is given, or those of its subdirectories.

    Raises UsageError when there are none, or a link leads nowhere.
    """
    if (own := log_in(disk, "", name)) is not None:
        return [own]
    entries = [each for each in disk.list("") if parse_name(each.name)]
    found = [log_in(disk, each.name, each.name) for each in entries if each.is_directory or is_link(disk, each.name)]
    logs = [log for log in found if log is not None]
    if not logs:
        raise UsageError(
            "no log of Kafka 0.7 to 0.10 is there: neither files of 20 digits and .kafka or .log, nor directories"
            " TOPIC-PARTITION with such files"
        )
    return sorted(logs, key=lambda log: (log.topic or "", log.partition))


def is_link(disk: Disk, name: str) -> bool:
    """Whether an entry that is no directory leads to one. Raises UsageError if it leads nowhere."""
    try:
        disk.list(name)
    except NotADirectoryError:
        return False
    except FileNotFoundError:
        raise UsageError(f"{name} is a link to what is not there") from None
    return True


def log_in(disk: Disk, directory: str, name: str) -> LegacyLog | None:
    """The log in one directory; None if it has no segments."""
    segments: dict[str, list[Segment]] = {KAFKA: [], LOG: []}
    fault = None
    for file in disk.list(directory):
        if file.is_directory:
            continue
        path = f"{directory}/{file.name}" if directory else file.name
        if file.name.endswith(LOG + SWAP):
            fault = f"{path}: the old broker died while it compacted this log; start and stop it once, which ends that"
        for suffix, those in segments.items():
            if (base := offset_of(file.name, suffix)) is not None:
                those.append(Segment(path, base, size_of(disk, path, file.size_bytes)))
    suffixes = [suffix for suffix, those in segments.items() if those]
    if not suffixes:
        return None
    if len(suffixes) > 1:
        where = directory or name
        fault = f"{where} has both .kafka files (Kafka 0.7) and .log files: they are two logs, not one"
    topic, partition = parse_name(name) or (None, 0)
    in_order = tuple(sorted(segments[suffixes[0]], key=lambda segment: segment.base))
    fault = fault or (overlap(in_order) if suffixes[0] == KAFKA else present_format(disk, in_order))
    return LegacyLog(topic, partition, directory, suffixes[0], in_order, fault)


def size_of(disk: Disk, path: str, listed_bytes: int) -> int:
    """Bytes of a file, of a link those of what it leads to. As listed if it cannot be opened: reading it says why."""
    try:
        return disk.size(path)
    except OSError:
        return listed_bytes


def overlap(segments: Sequence[Segment]) -> str | None:
    """What is wrong with files of Kafka 0.7, one of which begins within another."""
    for one, following in pairwise(segments):
        if following.base < one.base + one.size_bytes:
            return f"{following.path} begins before {one.path} ends: they are not of one log"
    return None


def present_format(disk: Disk, segments: Sequence[Segment]) -> str | None:
    """What is wrong with a log whose last file is of today's format."""
    last = next((segment for segment in reversed(segments) if segment.size_bytes), None)
    try:
        if last is None or not read_header(disk.read(last.path, 0, HEADER_BYTES)):
            return None
    except (PenstockError, OSError):
        return None
    return f"{last.path} begins with a record batch, the format of Kafka 0.11 and later; {SERVED}"


SERVED = "a broker serves such a log as it is, from its own directory"


class NamedHole(NamedTuple):
    """Bytes of a file of which no records came, and why."""

    path: str
    position: int
    size_bytes: int
    reason: str


@dataclass(slots=True)
class LegacyReport:
    """What was found in a log so far. `read_bytes` is all files up to here, `codecs` counts messages by theirs, `holes`
    names the first damaged places.

    `cut_off_bytes` and `unused_bytes` are no damage: the incomplete write at the end of the log, and zeros at the end
    of a file. `missing_bytes`, in Kafka 0.7 only: of files that are not there.
    """

    read_bytes: int = 0
    messages: int = 0
    records: int = 0
    codecs: Counter[int] = field(default_factory=Counter)
    damaged: int = 0
    damaged_bytes: int = 0
    cut_off_bytes: int = 0
    unused_bytes: int = 0
    missing_bytes: int = 0
    wrong_offsets: int = 0
    wrong_timestamps: int = 0
    holes: list[NamedHole] = field(default_factory=list)
    end_offset: int = 0
    """The offset after the last record, in the old log's own terms."""

    @property
    def is_clean(self) -> bool:
        """Whether every record was read, as far as the files can tell."""
        return not (self.damaged or self.missing_bytes or self.wrong_offsets or self.wrong_timestamps)

    def damage(self, path: str, position: int, size_bytes: int, reason: str) -> None:
        self.damaged += 1
        self.damaged_bytes += size_bytes
        if len(self.holes) < LEGACY_HOLES_NAMED_MAX:
            self.holes.append(NamedHole(path, position, size_bytes, reason))


class LegacyRecords:
    """Iterates over the records of a log, in order.

    Attributes:
        report: what was found up to the last record.
    """

    def __init__(self, disk: Disk, log: LegacyLog) -> None:
        assert log.fault is None
        self._disk = disk
        self._log = log
        self._unwrapper = Unwrapper(log.format, Contexts())
        self.report = LegacyReport(end_offset=log.segments[0].base)
        self._gaps: list[int] = []
        self._bounds = [segment.base for segment in log.segments[1:]] + [MAX_OFFSET]

    def take_gaps(self) -> Sequence[int]:
        """Where, since the last call, damage began in the log; only Kafka 0.7, whose offsets are positions."""
        gaps, self._gaps = self._gaps, []
        return gaps

    def __iter__(self) -> Iterator[LegacyRecord]:
        """Raises StorageError when a file cannot be read or is of the present format."""
        end = self._log.segments[0].base
        for segment, bound in zip(self._log.segments, self._bounds, strict=True):
            if self._log.is_kafka07 and segment.base > end:
                self._missing(end, segment.base - end)
            end = segment.base + segment.size_bytes
            try:
                yield from self._segment(segment, bound)
            except PresentFormatError as error:
                raise StorageError(f"{segment.path}: {error}; {SERVED}") from None
            except OSError as error:
                raise StorageError(f"{segment.path} cannot be read: {error.strerror or error}") from None

    def _missing(self, position: int, size_bytes: int) -> None:
        self.report.missing_bytes += size_bytes
        self._gaps.append(position)

    def _segment(self, segment: Segment, bound: int) -> Iterator[LegacyRecord]:
        report = self.report
        before_bytes = report.read_bytes
        scan = Scan(lambda at, length: self._disk.read(segment.path, at, length), segment.size_bytes, self._log.format)
        for found in scan:
            report.read_bytes = before_bytes + found.position + found.size_bytes
            if isinstance(found, Hole):
                self._note(segment, found)
            elif self._log.is_kafka07:
                yield from self._records(segment, found, segment.base + found.position)
                report.end_offset = segment.base + found.position + found.size_bytes
            else:
                for record in self._records(segment, found, found.entry.offset):
                    yield self._placed(record, bound)

    def _records(self, segment: Segment, found: Found, offset: int) -> Iterator[LegacyRecord]:
        report = self.report
        report.messages += 1
        report.codecs[found.entry.codec] += 1
        damaged_bytes = found.size_bytes
        for each in self._unwrapper.records(found.entry, offset):
            if isinstance(each, str):
                report.damage(segment.path, found.position, damaged_bytes, each)
                damaged_bytes = 0  # it was counted
                continue
            report.records += 1
            if each.timestamp_ms >= NO_TIMESTAMP:
                yield each
            else:
                report.wrong_timestamps += 1
                yield each._replace(timestamp_ms=NO_TIMESTAMP)

    def _placed(self, record: LegacyRecord, bound: int) -> LegacyRecord:
        """The record with an offset that can be."""
        report = self.report
        if not report.end_offset <= record.offset < bound:
            report.wrong_offsets += 1
            record = record._replace(offset=report.end_offset)
        report.end_offset = record.offset + 1
        return record

    def _note(self, segment: Segment, hole: Hole) -> None:
        is_last = segment is self._log.segments[-1]
        if hole.kind is Kind.UNUSED:
            self.report.unused_bytes += hole.size_bytes
        elif hole.kind is Kind.CUT_OFF and is_last:
            self.report.cut_off_bytes += hole.size_bytes
        else:
            self.report.damage(segment.path, hole.position, hole.size_bytes, hole.reason)
        if self._log.is_kafka07:
            self._gaps.append(segment.base + hole.position)
