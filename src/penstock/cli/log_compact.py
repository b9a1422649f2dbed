"""`penstock log compact`: what a pass of the log cleaner removes from partition directories, or cleaned copies."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.cli.common import Actions, add_action, add_flag, add_json, add_option, add_pairs, pairs
from penstock.cli.log_progress import Progress, bytes_below
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.cli.told_disk import ToldDisk
    from penstock.config.topic import TopicConfig
    from penstock.log.compaction.offset_map import LatestOffsets
    from penstock.log.compaction.passes import Pass
    from penstock.log.compaction.report import PassReport
    from penstock.log.compaction.target import Target
    from penstock.log.disk import Disk

LOAD_FACTOR = 0.9
BUFFER_MB = 128
BUFFER_MAX_MB = 65_536
READINGS = 2
"""How often a pass reads a segment, at most: for its keys, and for what stays."""
MB = 1 << 20
PARTIAL = ".partial"
"""After the name of a copy that is not whole; no broker takes such a directory for a partition's."""


def register(actions: Actions[argparse.ArgumentParser]) -> None:
    compact = add_action(
        actions, "compact", compact_action, "show what compaction would remove from partitions, or write cleaned copies"
    ).examples(
        "penstock log compact --dry-run data/profiles-0",
        "penstock log compact --dry-run data/profiles-* --config delete.retention.ms=0 --json",
        "penstock log compact --to /backup data/profiles-0       a cleaned copy, in /backup/profiles-0",
    )
    compact.add_argument("directories", nargs="+", metavar="DIR", help="a partition's directory, as data/profiles-0")
    result = compact.add_mutually_exclusive_group(required=True)
    add_flag(result, "--dry-run", "only print what would be removed; changes nothing")
    result.add_argument("--to", metavar="OUT", help="directory for cleaned copies of the logs; DIR stays as it is")
    add_pairs(compact, "--config", "config of the topic, as delete.retention.ms")
    add_option(compact, "--buffer-mb", "N", "memory for keys; 24 bytes each", default=BUFFER_MB, type=int)
    add_json(compact)


@dataclass(frozen=True)
class Defaults:
    """What a topic's configuration is resolved over here: Kafka's defaults, for no broker is asked."""

    topic_defaults: TopicConfig


class Shown(NamedTuple):
    """The progress of one of the directories."""

    progress: Progress
    directory: str

    def begin(self, disk: ToldDisk, work: Pass, *, copies: bool) -> None:
        """The pass is planned: what it reads counts from now on. `copies`: all other segments are copied besides."""
        log_bytes, read_bytes = bytes_below(self.directory), 0
        for segment in work.segments:
            readings = READINGS if segment.end_offset > work.first_dirty_offset else READINGS - 1
            read_bytes += readings * segment.size_bytes
            log_bytes -= segment.size_bytes
        self.progress.expect(self.directory, read_bytes + (log_bytes if copies else 0))
        disk.told = self.progress.of(self.directory)


def compact_action(arguments: argparse.Namespace) -> int:
    """Prints a report for each directory; 1 if something in one is damaged."""
    from penstock.cli.output import print_json
    from penstock.config.topic import TopicConfig

    config = TopicConfig.resolve(Defaults(TopicConfig.defaults()), pairs(arguments.config, "--config"))
    if arguments.buffer_mb > BUFFER_MAX_MB:
        raise UsageError(f"--buffer-mb {arguments.buffer_mb} is more than {BUFFER_MAX_MB}")
    places = [place_of(directory) for directory in arguments.directories]
    if arguments.to is not None:
        check_target(arguments.to, places)
    progress = Progress(arguments.directories, readings=READINGS)
    reports = []
    for (parent, name), directory in zip(places, arguments.directories, strict=True):
        shown = Shown(progress, directory)
        report, no_room = compacted(parent, name, arguments.to, config, arguments.buffer_mb * MB, shown=shown)
        progress.clear()
        reports.append((report, no_room))
        if not arguments.json:
            print_report(directory, report, arguments.to, no_room)
    if arguments.json:
        print_json([report_json(*each) for each in reports])
    return 1 if any(report.problems for report, _ in reports) else 0


def place_of(directory: str) -> tuple[str, str]:
    """The log directory of a partition's directory, and its name there. Raises UsageError when it is none."""
    from penstock.log.names import LOG, offset_of, parse_name

    full = os.path.realpath(directory)
    if not os.path.isdir(full):
        raise UsageError(f"{directory}: there is no such directory")
    parent, name = os.path.split(full)
    if parse_name(name) is None:
        raise UsageError(f"{directory} is not a partition's directory: its name should be TOPIC-PARTITION")
    if not any(offset_of(file, LOG) is not None for file in os.listdir(full)):
        raise UsageError(f"{directory} has no segments: a log's files are 20 digits and .log, .index, .timeindex")
    return parent, name


def check_target(out: str, places: Sequence[tuple[str, str]]) -> None:
    """Raises UsageError if a copy would be written over something, over another copy, or into one of the logs."""
    if not out:
        raise UsageError("--to names no directory")
    if os.path.exists(out) and not os.path.isdir(out):
        raise UsageError(f"--to {out}: it is not a directory")
    names = [name for _, name in places]
    for number, (parent, name) in enumerate(places):
        log = os.path.join(parent, name)
        if os.path.commonpath([log, os.path.realpath(out)]) == log:
            raise UsageError(f"--to {out}: it is in {log}, which stays as it is")
        if os.path.exists(os.path.join(out, name)):
            raise UsageError(f"--to {out}: it has a {name} already; nothing is written over")
        if os.path.exists(os.path.join(out, name + PARTIAL)):
            raise UsageError(f"--to {out}: {name}{PARTIAL} is of a copy that did not end; remove it")
        if name in names[:number]:
            raise UsageError(f"two of the directories are named {name}, and both copies would be in {out}/{name}")


def compacted(
    parent: str, name: str, out: str | None, config: TopicConfig, buffer_bytes: int, *, shown: Shown
) -> tuple[PassReport, str]:
    """One pass over one log, now; and, in a dry run, why a broker would have no room for it, "" if it has.

    Raises StorageError for a log that must be recovered first, ConfigError for too small a buffer.
    """
    from penstock.cli.told_disk import ToldDisk
    from penstock.log.compaction.cleaning import run_pass
    from penstock.log.compaction.copying import copy_the_rest
    from penstock.log.compaction.passes import plan_pass
    from penstock.log.loading import load

    now_ms = time.time_ns() // 1_000_000
    disk = ToldDisk(parent)
    try:
        start, clean_offset, high_watermark = checkpointed(disk, name)
        loaded = load(disk, name, log_start_offset=start, wall_ms=now_ms)
        work = plan_pass(
            disk,
            name,
            loaded,
            config,
            log_start_offset=start,
            high_watermark=loaded.log_end_offset if high_watermark is None else high_watermark,
            clean_offset=clean_offset,
            now_ms=now_ms,
        )
        offsets = key_map(buffer_bytes)
        shown.begin(disk, work, copies=out is not None)
        if out is None:
            return run_pass(disk, work, offsets, None), without_room(disk, work)
        with copying(out, name) as target:
            report = run_pass(disk, work, offsets, target)
            copy_the_rest(disk, report, target)
        return report, ""
    finally:
        disk.close()


def without_room(disk: Disk, work: Pass) -> str:
    """Why a broker would have no room for the largest new segment; "" if it has. The reserve is the default one."""
    from penstock.log.compaction.parts import NoRoom, Room
    from penstock.log.space import reserve_of

    room = Room.of(disk.free_bytes(), reserve_of(None, disk.total_bytes()), 0)
    try:
        room.check(disk, max((segment.size_bytes for segment in work.to_clean), default=0))
    except NoRoom as error:
        return str(error)
    return ""


def key_map(buffer_bytes: int) -> LatestOffsets:
    """Raises UsageError when there is not that much memory, ConfigError for too small a buffer."""
    from penstock.log.compaction.maps import offset_map

    try:
        return offset_map(buffer_bytes, LOAD_FACTOR, os.urandom(16))
    except MemoryError:
        raise UsageError(f"--buffer-mb {buffer_bytes // MB} is more memory than there is") from None


@contextmanager
def copying(out: str, name: str) -> Iterator[Target]:
    """A target for a copy. It gets the log's name once it is whole and durable: part of one looks like a whole log."""
    from penstock.log.compaction.target import Target
    from penstock.server.disk import BlockingDisk

    partial = name + PARTIAL
    os.makedirs(os.path.join(out, partial))
    disk = BlockingDisk(1, out)
    try:
        yield Target(disk, partial)
        disk.rename(partial, name)
        disk.fsync_directory("")
    except BaseException:
        shutil.rmtree(os.path.join(out, partial), ignore_errors=True)
        raise
    finally:
        disk.close()


def checkpointed(disk: Disk, name: str) -> tuple[int, int | None, int | None]:
    """What the checkpoint files beside a log say: its start, where its last cleaning ended, its high watermark."""
    from penstock.log.checkpoints import (
        CLEANER_OFFSET,
        HIGH_WATERMARK,
        LOG_START,
        MalformedCheckpoint,
        parse_checkpoint,
    )
    from penstock.log.names import parse_name

    partition = parse_name(name)
    assert partition is not None
    found = []
    for file in (LOG_START, CLEANER_OFFSET, HIGH_WATERMARK):
        try:
            offsets = parse_checkpoint(disk.read(file, 0, disk.size(file))) if disk.exists(file) else {}
        except MalformedCheckpoint as error:
            raise UsageError(f"{file} beside {name}: {error}") from None
        found.append(offsets.get(partition))
    return found[0] or 0, found[1], found[2]


def report_json(report: PassReport, no_room: str) -> dict[str, Any]:
    groups = [{**asdict(group), "removed": group.removed} for group in report.groups]
    return {**asdict(report), "groups": groups, "no_room": no_room}


def print_report(directory: str, report: PassReport, out: str | None, no_room: str = "") -> None:
    """A line for each new segment, the sums, and what is damaged."""
    from penstock.cli.output import RED, counted, paint, print_table, size_text

    before = sum(group.before.bytes for group in report.groups)
    after = sum(group.after.bytes for group in report.groups)
    records = sum(group.before.records for group in report.groups)
    removed = sum(group.removed for group in report.groups)
    verb = "would remove" if out is None else "removed"
    print(
        f"{directory}: {verb} {removed:,} of {counted(records, 'record')}, {size_text(before)} to {size_text(after)}; "
        f"{counted(report.keys, 'key')} from offset {report.first_dirty_offset} to {report.end_offset}"
    )
    if report.map_is_full:
        print(
            f"  the buffer is full: the next pass goes on at {report.end_offset} of {report.first_uncleanable_offset}"
        )
    if not report.groups:
        print("  nothing can be cleaned: the active segment never is, nor what lies beyond the last stable offset")
    else:
        print_table(HEAD, [row(group) for group in report.groups], right=HEAD[1:])
    if no_room:
        print(f"  a broker cannot clean it now: {no_room}")
    for problem in report.problems:
        print("  " + paint(f"PROBLEM: {problem}", RED))
    if report.problem_count > len(report.problems):
        print(f"  and {counted(report.problem_count - len(report.problems), 'further problem')}")


HEAD = (
    "segments", "bytes", "after", "batches", "after", "records", "after", "superseded", "delete markers",
    "without key", "aborted",
)  # fmt: skip


def row(group: Any) -> list[str]:
    first, last = group.base_offsets[0], group.base_offsets[-1]
    before, after = group.before, group.after
    segments = f"{first}" if first == last else f"{first} to {last} ({len(group.base_offsets)})"
    numbers = (
        before.bytes, after.bytes, before.batches, after.batches, before.records, after.records,
        group.superseded, group.removed_tombstones, group.without_key, group.aborted,
    )  # fmt: skip
    return [segments, *(f"{number:,}" for number in numbers)]
