"""Logs with something changed in their files, sent through what a broker does with a log when it starts.

A log is recovered, unless it was stopped cleanly, and opened. It is read from its start and anywhere, searched by time,
cleaned, and loses what is too old. Whatever was changed:

- Each record that comes out with a right checksum is one that was written, at its offset.
- A read skips nothing that is there, and a look-up by time finds the first record.
- What raises is one of the errors for broken bytes and logs.
- Intact batches that a recovery takes out of a log are in a file beside it, and the report says so; what the cleaner
  cannot read stays byte for byte, and the report says so.
- The cleaner keeps the last record of every key.
- Retention removes no segment that has a record which is young enough.

A recovery only scans the segments from the recovery point on. Nothing covers the base offset of a batch but its
neighbours, so in an older segment a batch may come out at another offset, and so may the last one of a log; nothing
covers the end of an index at all, so an older one that was cut or is another segment's may hide a record from a look-up
by time, or from retention, if it is not at the segment's end. A file that ends with a batch says nothing of others that
came after it. Apache Kafka has the same limits, and `penstock log verify` finds what a clean stop has a witness for.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import NamedTuple

from penstock.errors import CorruptRecordError, InvalidRecordError, NotResident, RequestError, StorageError
from penstock.log.checked_times import TimesNotChecked
from penstock.log.loading import OpenArguments, RecoveryNeeded
from penstock.log.names import ABORTED_INDEX, CORRUPT, LOG, SNAPSHOT, TIME_INDEX
from penstock.log.recovery import RecoveryReport, first_doubtful, recover_log
from penstock.log.retention import Retention
from penstock.log.retiring import retire
from penstock.log.walks import FoundOffset
from penstock.records.batch import BatchHeader, check_crc, headers, read_entry, read_header
from penstock.records.compression import Codec
from simulator.world.disk import SimulatedDisk
from support.compaction import OUT, History, Written, compacted, planned, records_of
from support.logs import NAME, NOW_MS, OneLog, topic_config
from support.planted import contents, mutated, put

BATCHES = 36
BATCHES_PER_SEGMENT = 12
HIDDEN_MS = 30
"""By so much the time of a batch is before the latest one before it, at most: see `template`."""
TEMPLATES = 8
KEYS = 25
"""So many that some records of most transactions are the last of their keys."""
CONFIG = topic_config(index_interval_bytes=100)
LENGTH, LEADER_EPOCH = slice(8, 12), slice(12, 16)
LENGTHS = [0, 1, 48, 49, 2**31 - 1, -1, -(2**31)]
ERRORS = (StorageError, RequestError, CorruptRecordError, InvalidRecordError)


class Batch(NamedTuple):
    header: BatchHeader
    data: bytes
    position: int

    @property
    def is_sound(self) -> bool:
        try:
            check_crc(self.data, 0, self.header)
        except CorruptRecordError:
            return False
        return True


@dataclass(frozen=True)
class Template:
    """A sound log: its files, what was written into it, and the base offsets of its segments."""

    files: dict[str, bytes]
    written: dict[int, Written]
    aborted: frozenset[int]
    bases: list[int]
    end: int


@cache
def template(seed: int) -> Template:
    """A log of three segments: every codec, producers, transactions that commit, abort and stay open."""
    random, history, at_ms = Random(seed), History.empty(), NOW_MS
    for number in range(BATCHES):
        at_ms += random.randrange(-3, 20)
        pairs = [(b"k%d" % random.randrange(KEYS), value(random)) for _ in range(random.randint(1, 4))]
        if number % 5 == 3:
            history.append(
                pairs, producer_id=7, transactional=True, codec=random.choice(list(Codec)), timestamp_ms=at_ms
            )
        elif number % 5 == 4 and number < BATCHES - 2:
            history.end(7, commit=random.random() < 0.5, timestamp_ms=at_ms)
        else:
            codec, producer_id = random.choice(list(Codec)), random.choice([-1, 1, 2])
            history.append(pairs, codec=codec, producer_id=producer_id, timestamp_ms=at_ms)
        if number % BATCHES_PER_SEGMENT == BATCHES_PER_SEGMENT - 1 and number < BATCHES - 1:
            history.roll()
    history.one.close()
    written = {each.offset: each for each in history.written}
    log = history.one.log
    return Template(
        contents(history.one.disk), written, frozenset(history.aborted), log.segments.bases, log.log_end_offset
    )


def value(random: Random) -> bytes | None:
    return None if random.random() < 0.1 else random.randbytes(random.randrange(60))


# Changing files


def changed(log: Template, path: str, random: Random) -> bytes:
    """A file of a log with something done to it."""
    content = log.files[path]
    at = random.randrange(len(content) + 1)
    kind = random.randrange(8)
    if kind == 0:
        return content[:at] + random.randbytes(random.randrange(1, 80)) + content[at:]
    if kind == 1 and path.endswith(LOG):
        position = random.choice([position for position, _ in headers(content)])
        length = struct.pack(">i", random.choice([*LENGTHS, random.randrange(2**31), len(content) - position]))
        return content[: position + 8] + length + content[position + 12 :]
    if kind == 2:  # another file of its kind
        suffix = path[path.rindex(".") :]
        return log.files[random.choice([each for each in sorted(log.files) if each.endswith(suffix)])]
    if kind == 3:  # a piece of a file of its kind, in the wrong place
        other = log.files[
            random.choice([each for each in sorted(log.files) if each.endswith(path[path.rindex(".") :])])
        ]
        start = random.randrange(len(other) + 1)
        return content[:at] + other[start : start + random.randrange(1, 400)] + content[at:]
    return mutated(content, random)


def some_of(paths: list[str], random: Random) -> list[str]:
    """Segments half of the time; indexes of aborted transactions, of which there are few, more often than others."""
    kind = random.random()
    suffix = LOG if kind < 0.5 else ABORTED_INDEX if kind < 0.6 else ""
    return [path for path in paths if path.endswith(suffix)]


def mutate(disk: SimulatedDisk, log: Template, random: Random) -> list[str]:
    """Changes one to three files of a log; which ones."""
    paths = sorted(path for path in log.files if "." in path.rpartition("/")[2])
    chosen = {random.choice(some_of(paths, random)) for _ in range(random.randint(1, 3))}
    for path in sorted(chosen):
        put(disk, path, changed(log, path, random))
    return sorted(path for path in chosen if disk.content(path) != log.files[path])


# What is there


def walked(content: bytes) -> tuple[list[Batch], bool]:
    """The batches of a segment, right or not, and whether they reach to the end of the file."""
    found, end = [], 0
    try:
        for position, header in headers(content):
            if header.size_bytes > len(content) - position:
                break
            found.append(Batch(header, bytes(content[position : position + header.size_bytes]), position))
            end = position + header.size_bytes
    except (CorruptRecordError, InvalidRecordError):
        pass
    return found, end == len(content)


def bare(batch: bytes) -> bytes:
    """A batch without its base offset and its leader epoch, which no checksum covers."""
    return batch[LENGTH] + batch[LEADER_EPOCH.stop :]


def sound_records(batches: list[Batch]) -> list[Written]:
    return list(records_of((batch.header, batch.data) for batch in batches if batch.is_sound))


@dataclass
class Case:
    """One log with something changed, and how far it has got.

    Attributes: `changed`, the paths of the files; `stopped_cleanly`, whether it is opened without a recovery, if that
    is not asked for; `scanned`, the segments that are read whole by a recovery.
    """

    seed: int
    log: Template = field(init=False)
    random: Random = field(init=False)
    disk: SimulatedDisk = field(init=False)
    changed: list[str] = field(init=False)
    recovery_point: int = field(init=False)
    stopped_cleanly: bool = field(init=False)
    scanned: list[int] = field(init=False)
    outcomes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = Random(f"segments {self.seed}")
        self.log = template(self.random.randrange(TEMPLATES))
        self.disk = SimulatedDisk()
        self.disk.make_directory(NAME)
        for path, content in self.log.files.items():
            self.disk.write(path, 0, [content])
        self.changed = mutate(self.disk, self.log, self.random)
        bases = self.log.bases
        self.recovery_point = self.random.choice([0, bases[1], bases[-1], self.log.end])
        self.stopped_cleanly = self.recovery_point == self.log.end and self.random.random() < 0.5
        self.scanned = [] if self.stopped_cleanly else bases[first_doubtful(bases, self.recovery_point) :]

    def run(self) -> Counter[str]:
        """Raises AssertionError if a rule is broken, and whatever should not be raised."""
        if not self.changed:
            self.outcomes["not changed"] += 1
            return self.outcomes
        before = contents(self.disk)
        try:
            one = self.opened(before)
        except (StorageError, RecoveryNeeded):
            self.outcomes["not opened"] += 1
            return self.outcomes
        self.segments = {base: walked(self.disk.content(f"{NAME}/{base:020d}{LOG}")) for base in one.log.segments.bases}
        self.read_all(one)
        self.read_anywhere(one)
        self.look_up_times(one)
        self.clean()
        self.retire(one)
        return self.outcomes

    def opened(self, before: dict[str, bytes]) -> OneLog:
        """As a broker opens it. Raises what says that it cannot be opened."""
        if self.stopped_cleanly:
            self.outcomes["opened at once"] += 1
            try:
                return OneLog(CONFIG, self.disk)
            except RecoveryNeeded:
                self.outcomes["asked for a recovery"] += 1
                self.scanned = [self.log.bases[-1]]
        arguments = OpenArguments(NAME, CONFIG, self.recovery_point, 0, NOW_MS)
        report = recover_log(self.disk, arguments, flushed_offset=self.recovery_point)
        self.check_recovery(before, report)
        return OneLog(CONFIG, self.disk)

    # Which parts of the files nothing has looked at

    def changes(self, suffix: str) -> bool:
        return any(path.endswith(suffix) for path in self.changed)

    def is_older(self, suffix: str, base: int | None = None) -> bool:
        """Whether a file of this kind was changed in a segment that no recovery scans."""
        return any(
            path.endswith(suffix) and int(path.rpartition("/")[2].partition(".")[0]) not in self.scanned
            for path in self.changed
            if base is None or f"/{base:020d}" in path
        )

    # Recovery

    def check_recovery(self, before: dict[str, bytes], report: RecoveryReport) -> None:
        """No intact batch is gone without a copy and a word."""
        after = contents(self.disk)
        kept = b"\0\0\0".join(content for path, content in after.items() if path.endswith(CORRUPT))
        there = {
            bare(batch.data) for path, content in after.items() if path.endswith(LOG) for batch in walked(content)[0]
        }
        for base in self.log.bases:
            path = f"{NAME}/{base:020d}{LOG}"
            for header_at, header in headers(self.log.files[path]):
                data = self.log.files[path][header_at : header_at + header.size_bytes]
                if bare(data) in there:
                    continue
                if data in before[path][len(after.get(path, b"")) :]:
                    assert data in kept, f"batch {header.base_offset} was whole and is gone"
                    assert report.lost, f"batch {header.base_offset} was whole, and the report says nothing is lost"
                ends_early = self.log.files[path].startswith(before[path]) and walked(before[path])[1]
                assert report.lost or report.cut_bytes or ends_early or base not in self.scanned, "damage is said"
        self.outcomes["cut" if report.cut_bytes else "whole"] += 1
        self.outcomes["kept aside"] += len(report.kept_aside)

    # Reading

    def check_records(self, batches: list[Batch], *, is_last: bool) -> None:
        for batch in batches:
            if not batch.is_sound:
                self.outcomes["batches with a wrong checksum"] += 1
                continue
            for record in sound_records([batch]):
                self.outcomes["records"] += 1
                if record == self.log.written.get(record.offset):
                    continue
                moved = [each for each in self.log.written.values() if each[1:] == record[1:]]
                excused = self.is_older(LOG) or (is_last and batch is batches[-1])
                assert moved, f"{record} was never written"
                assert excused, f"{record} was never written at that offset"
                self.outcomes["at another offset"] += 1

    def read_all(self, one: OneLog) -> None:
        log = one.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            max_bytes = self.random.choice([1, 300, 5000, 1 << 20])
            try:
                found = log.read(offset, max_bytes)
            except ERRORS:
                self.outcomes["reads refused"] += 1
                offset = min((base for base in log.segments.bases if base > offset), default=log.log_end_offset)
                continue
            if not found.slices:  # as in Apache Kafka, where the end of an older segment is gone
                assert self.is_older(LOG), f"nothing at {offset}, and the log ends at {log.log_end_offset}"
                self.outcomes["nothing to the end"] += 1
                break
            assert found.next_offset > offset, f"a read from {offset} goes on at {found.next_offset}"
            data = b"".join(self.disk.read(piece.path, piece.position, piece.length) for piece in found.slices)
            self.check_records(walked(data)[0], is_last=found.next_offset == log.log_end_offset)
            offset = found.next_offset

    def read_anywhere(self, one: OneLog) -> None:
        """Each read begins with the first batch that ends at or after the offset."""
        log = one.log
        for _ in range(8):
            offset = self.random.randrange(log.log_start_offset, max(log.log_end_offset, log.log_start_offset + 1))
            log.segments.forget_positions()
            try:
                found = log.read(offset, self.random.choice([1, 5000]))
            except ERRORS:
                assert self.is_older(""), f"{offset}: a scanned segment is sound"
                self.outcomes["reads refused"] += 1
                continue
            base = max(base for base in log.segments.bases if base <= offset)
            if not found.slices or self.is_older(LOG):
                continue
            [piece] = found.slices
            first = read_header(self.disk.read(piece.path, piece.position, piece.length))
            following = [batch for each in log.segments.bases if each >= base for batch in self.segments[each][0]]
            expected = next(batch.header for batch in following if batch.header.last_offset >= offset)
            assert first == expected, f"a read from {offset} begins at {first.base_offset}, not {expected.base_offset}"
            self.outcomes["reads"] += 1

    def look_up_times(self, one: OneLog) -> None:
        log = one.log
        there = [record for base in log.segments.bases for record in sound_records(self.segments[base][0])]
        for _ in range(6):
            timestamp_ms = NOW_MS + self.random.randrange(-10, 350)
            try:
                found = self.look_up(one, timestamp_ms)
            except ERRORS:
                assert self.is_older(""), "a scanned segment is sound"
                self.outcomes["look-ups refused"] += 1
                continue
            if self.is_older(LOG):
                continue
            if found is not None:
                record = next((each for each in there if each.offset == found.offset), None)
                if record is not None:  # a marker has a time, too, and no key
                    assert found.timestamp_ms == record.timestamp_ms >= timestamp_ms
            if not self.is_older(TIME_INDEX):
                expected = next(self.timed(log.segments.bases, timestamp_ms), None)
                assert (found and found.offset) == expected, f"{timestamp_ms}: {found}, not {expected}"
                self.outcomes["look-ups"] += 1

    def look_up(self, one: OneLog, timestamp_ms: int) -> FoundOffset | None:
        """A look-up, what is long done by the lane."""
        try:
            return one.log.offset_for_timestamp(timestamp_ms)
        except NotResident as missing:
            missing.was_read(missing.read(self.disk))
        return self.look_up(one, timestamp_ms)

    def timed(self, bases: list[int], timestamp_ms: int) -> Iterator[int]:
        """The offsets of the records, markers too, with at least a timestamp."""
        for base in bases:
            for batch in self.segments[base][0]:
                if batch.header.is_control:
                    if batch.header.max_timestamp_ms >= timestamp_ms:
                        yield batch.header.base_offset
                    continue
                for record in records_of([(batch.header, batch.data)]):
                    if record.timestamp_ms >= timestamp_ms:
                        yield record.offset

    # Cleaning

    def clean(self) -> None:
        try:
            work = planned(self.disk, config=CONFIG)
            report = compacted(self.disk, work)
        except ERRORS:
            assert self.is_older("") or self.changes(SNAPSHOT), "a scanned segment is sound"
            self.outcomes["not cleaned"] += 1
            return
        after = contents(self.disk)
        left = b"\0\0\0".join(content for path, content in after.items() if path.startswith(OUT + "/"))
        before = {record for found, _ in self.segments.values() for record in sound_records(found)}
        remain: set[Written] = set()
        for path, content in after.items():
            if path.startswith(OUT + "/") and path.endswith(LOG):
                remain.update(sound_records(walked(content)[0]))
        assert remain <= before, "the cleaner makes no records"
        for segment in work.segments:
            found, is_whole = self.segments[segment.base_offset]
            if not is_whole and segment.base_offset not in report.left_alone:
                self.check_kept_message(segment.base_offset, left)
                assert report.problem_count, "and it is said"
            damaged = [batch for batch in found if not batch.is_sound]
            assert all(batch.data in left for batch in damaged), "what cannot be read stays"
            assert not damaged or report.problem_count, "and is said"
        if not self.changes(SNAPSHOT) and not self.is_older(LOG):
            latest = {each.key: each for each in sorted(before) if each.offset not in self.log.aborted}
            assert set(latest.values()) <= remain, "the last record of every key stays"
        self.outcomes["cleaned"] += 1

    def check_kept_message(self, base: int, left: bytes) -> None:
        """Where the batches of a segment end, there is one whose format is now 0 or 1: it is damaged, and kept."""
        found, _ = self.segments[base]
        content = self.disk.content(f"{NAME}/{base:020d}{LOG}")
        at = found[-1].position + len(found[-1].data) if found else 0
        header = read_entry(content, at)
        assert header.is_old
        assert content[at : at + header.size_bytes] in left

    # Retention

    def retire(self, one: OneLog) -> None:
        """What an open log would remove, for several rules, and what is removed by the files."""
        for _ in range(8):
            rule = Retention(self.random.randrange(100), -1, 0, one.log.log_end_offset)
            wall_ms = NOW_MS + self.random.randrange(500)
            self.check_retired(len(self.due(one, rule, wall_ms)), one, rule, wall_ms)
        self.check_retired(retire(self.disk, NAME, rule, wall_ms).segments, one, rule, wall_ms)

    def due(self, one: OneLog, rule: Retention, wall_ms: int) -> list[str]:
        """What an open log would remove, what is to be checked by the lane."""
        try:
            return one.log.segments.due(rule, one.log.log_end_offset, wall_ms)
        except TimesNotChecked as missing:
            missing.was_read(missing.read(self.disk))
        return self.due(one, rule, wall_ms)

    def check_retired(self, count: int, one: OneLog, rule: Retention, wall_ms: int) -> None:
        for base in one.log.segments.bases[:count]:
            found, is_whole = self.segments[base]
            hidden_ms = HIDDEN_MS if self.is_older(TIME_INDEX, base) else 0
            latest_ms = max((batch.header.max_timestamp_ms for batch in found if batch.is_sound), default=-1)
            assert wall_ms - latest_ms > rule.retention_ms - hidden_ms, f"segment {base} was young enough"
            self.outcomes["retired"] += is_whole


def run_case(seed: int) -> Counter[str]:
    """One log; what happened to it. Raises AssertionError, or what should not have been raised, with the seed."""
    case = Case(seed)
    try:
        return case.run()
    except Exception as error:
        error.add_note(f"seed {seed}: {', '.join(case.changed)}; recovery point {case.recovery_point}")
        raise
