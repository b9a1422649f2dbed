"""Inspect, check and repair the files of a log: batches, indexes, producers, leader epochs, what compaction removes.

`dump` and `verify` only read, so they may be used on the files of a running broker. So may `compact --dry-run`; stop
the broker, or take a copy, for `compact --to`. `index` writes, and refuses to while a broker runs.

examples:
  penstock log verify data
  penstock log dump data/clicks-0/00000000000000000000.log --records
  penstock log dump --verify data/clicks-0/*.log data/clicks-0/*.index data/clicks-0/*.timeindex
  penstock log dump data/clicks-0/leader-epoch-checkpoint --json
  penstock log dump data/__cluster_metadata-0/*.checkpoint --records
  penstock log compact --dry-run data/profiles-0
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.cli import log_compact, log_index, log_verify
from penstock.cli.common import add_action, add_actions, add_flag, add_json, run_action
from penstock.cli.log_progress import Progress
from penstock.errors import StorageError, UsageError

if TYPE_CHECKING:
    from penstock.log.disk import Disk
    from penstock.log.dump import BatchDescription, Problem
    from penstock.records.reader import Record

SUMMARY = "inspect, check and repair the files of a log"
Line = dict[str, Any]
Reading = Callable[[bytes | None], str | None]
"""What is shown of a value instead of its bytes; None: nothing else."""

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    dump = add_action(
        actions, "dump", dump_action, "print the contents of log files and any problems with them"
    ).examples(
        "penstock log dump data/clicks-0/00000000000000000000.log --records",
        "penstock log dump --verify data/clicks-0/*.index",
    )
    dump.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help=".log, .index, .timeindex, .txnindex, .snapshot, .checkpoint, epochs or metadata",
    )
    add_flag(dump, "--records", "print every record of each batch")
    add_flag(dump, "--verify", "print problems only; exit code 1 if there are any")
    add_json(dump)
    log_verify.register(actions)
    log_index.register(actions)
    log_compact.register(actions)


def dump_action(arguments: argparse.Namespace) -> int:
    """Prints the files one after the other; 1 if something is wrong with one."""
    from penstock.cli.output import print_json

    everything: list[Line] = []
    wrong = 0
    verify, is_quiet = arguments.verify, arguments.verify or arguments.json
    to_read = {path: bytes_to_read(path, verify=verify) if is_quiet else 0 for path in arguments.files}
    progress = Progress(files=to_read)
    for path in arguments.files:
        if not is_quiet:
            print(f"{path}:")
        problems = 0
        told = progress.up_to(path)
        for line in lines_of(path, told, records=arguments.records, verify=verify):
            if arguments.json:
                everything.append({"file": path, **line})
            else:
                progress.clear()
                if verify and not problems:
                    print(path, end="  ")
                print_line(line)
            problems += bool(line.get("problem"))
        told(to_read[path])
        wrong += problems
        if verify and not arguments.json and not problems:
            progress.clear()
            print(f"{path}  is in order")
    progress.clear()
    if arguments.json:
        print_json(everything)
    return 1 if wrong else 0


def bytes_to_read(path: str, *, verify: bool) -> int:
    """How much of records there is to read for a file: its own, or with `verify` those that a time index is about."""
    from penstock.log.names import LOG, TIME_INDEX

    if verify and path.endswith(TIME_INDEX):
        path = path.removesuffix(TIME_INDEX) + LOG
    try:
        return os.stat(path).st_size if path.endswith(LOG) else 0
    except OSError:
        return 0  # said in its turn


def print_line(line: Line) -> None:
    """One description as `name value` pairs; a problem in red."""
    from penstock.cli.output import RED, paint

    problem = line.get("problem")
    text = "  ".join(f"{name} {value}" for name, value in line.items() if name not in ("problem", "records"))
    print(f"  {text}" + (paint(f"  PROBLEM: {problem}", RED) if problem else ""))
    for record in line.get("records", ()):
        print("    " + "  ".join(f"{name} {cell_text(name, value)}" for name, value in record.items()))


def cell_text(name: str, value: Any) -> str:
    """A part of a record for a person; headers in their order, a name as often as it comes."""
    if name == "headers":
        return ", ".join(f"{header!r}={data!r}" for header, data in value)
    return repr(value) if name in TEXTS else str(value)


TEXTS = ("key", "value")


def lines_of(path: str, told: Callable[[int], None], *, records: bool, verify: bool) -> Iterator[Line]:
    """The contents of a file, or with `verify` only its faults. Raises UsageError for a file that does not belong to a
    log. `told` gets the number of bytes of each read.
    """
    from penstock.cli.told_disk import ToldDisk
    from penstock.log.dump import kind_of
    from penstock.log.names import CHECKPOINT, LOG

    try:
        kind = kind_of(path)
    except ValueError as error:
        raise UsageError(str(error)) from None
    full = os.path.abspath(path)
    if not os.path.isfile(full):
        raise UsageError(f"{path}: there is no such file")
    disk = ToldDisk(os.path.dirname(full))
    disk.told = told
    name = os.path.basename(full)
    try:
        if verify:
            yield from verified(kind, disk, name)
        elif kind == LOG:
            yield from describe_log(disk, name, records, reading=reading_of(full))
        elif kind == CHECKPOINT:
            yield from describe_checkpoint(disk, name, records, reading=reading_of(full))
        else:
            yield from DESCRIBERS[kind](disk, name, records)
    except StorageError as error:
        yield {"problem": str(error)}
    finally:
        disk.close()


def reading_of(path: str) -> Reading:
    """How the values of records in a file are shown: those of a metadata log without secrets, Guardian's in words."""
    from penstock.cli.log_secrets import guardians, hidden
    from penstock.log.directory import METADATA_LOG
    from penstock.log.names import CHECKPOINT
    from penstock.raft.topic import GUARDIAN

    directory = os.path.basename(os.path.dirname(path))
    if directory == GUARDIAN.directory:
        return guardians
    return hidden if directory == METADATA_LOG or path.endswith(CHECKPOINT) else nothing


def nothing(value: bytes | None) -> str | None:
    """Says nothing of a value, which is shown as it is."""
    return None


def verified(kind: str, disk: Disk, name: str) -> Iterator[Line]:
    """The faults of a file; an index is compared with the log beside it."""
    from penstock.log import dump
    from penstock.log.names import CHECKPOINT, LOG, OFFSET_INDEX, TIME_INDEX

    if kind in (OFFSET_INDEX, TIME_INDEX):
        beside = name.removesuffix(kind) + LOG
        if not disk.exists(beside):
            raise UsageError(f"{name} needs {beside} beside it to be verified against")
        verify = dump.verify_offset_index if kind == OFFSET_INDEX else dump.verify_time_index
        yield from (problem_line(problem, "entry") for problem in verify(disk, name))
        return
    for line in DESCRIBERS[kind](disk, name, kind in (LOG, CHECKPOINT)):
        if line.get("problem"):
            line.pop("records", None)
            yield line


def describe_log(disk: Disk, name: str, records: bool, *, reading: Reading = nothing) -> Iterator[Line]:
    from penstock.log import dump

    for found in dump.describe_log(disk, name, deep=records):
        if isinstance(found, dump.BatchDescription):
            yield batch_line(found, records, reading=reading)
        else:
            yield problem_line(found, "position")


def describe_checkpoint(disk: Disk, name: str, records: bool, *, reading: Reading = nothing) -> Iterator[Line]:
    """A snapshot of a quorum's log, or what a node was formatted with; secrets are hidden as in the log itself."""
    from penstock.raft.checkpoint import read_checkpoint

    problems = 0
    for line in describe_log(disk, name, records, reading=reading):
        problems += "problem" in line
        yield line
    if not problems:
        read_checkpoint(disk.read(name, 0, disk.size(name)), name)  # StorageError where its beginning or end is missing


def batch_line(found: BatchDescription, records: bool, *, reading: Reading = nothing) -> Line:
    from penstock.cli.times import timestamp_text

    header = found.header
    line: Line = {
        "position": found.position,
        "offsets": f"{header.base_offset}-{header.last_offset}",
        "records_in_batch": "unknown" if header.record_count < 0 else header.record_count,
        "bytes": header.size_bytes,
        "timestamp": timestamp_text(header.max_timestamp_ms),
        "compression": header.compression.kafka_name,
        "leader_epoch": header.leader_epoch,
    }
    if header.is_old:
        line["format"] = header.magic
    if header.has_producer_id:
        line["producer"] = f"{header.producer_id}/{header.producer_epoch}"
        line["sequence"] = header.base_sequence
    kinds = (("control", header.is_control), ("transactional", header.is_transactional))
    if any(flag for _, flag in kinds):
        line["kind"] = "+".join(name for name, flag in kinds if flag)
    if found.problem:
        line["problem"] = found.problem
    if records:
        line["records"] = [record_line(record, reading) for record in found.records]
    return line


def record_line(record: Record, reading: Reading) -> Line:
    line: Line = {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": shown(record.key),
        "value": reading(record.value) or shown(record.value),
    }
    if record.headers:
        line["headers"] = [[name, shown(value)] for name, value in record.headers]
    return line


def shown(data: bytes | None) -> str | None:
    """Bytes as text, what is not UTF-8 escaped."""
    return None if data is None else data.decode(errors="backslashreplace")


def problem_line(problem: Problem, what: str) -> Line:
    return {what: problem.at, "problem": problem.message}


def describe_offset_index(disk: Disk, name: str, _: bool) -> Iterator[Line]:
    from penstock.log import dump

    for entry in dump.describe_offset_index(disk, name):
        yield {"offset": entry.offset, "position": entry.value}


def describe_time_index(disk: Disk, name: str, _: bool) -> Iterator[Line]:
    from penstock.cli.times import timestamp_text
    from penstock.log import dump

    for entry in dump.describe_time_index(disk, name):
        yield {"timestamp": timestamp_text(entry.value), "timestamp_ms": entry.value, "offset": entry.offset}


def describe_aborted_index(disk: Disk, name: str, _: bool) -> Iterator[Line]:
    from penstock.log import dump

    for producer_id, first, last, stable in dump.describe_aborted_index(disk, name):
        yield {"producer_id": producer_id, "first_offset": first, "last_offset": last, "last_stable_offset": stable}


def describe_snapshot(disk: Disk, name: str, _: bool) -> Iterator[Line]:
    from penstock.log import dump

    for entry in dump.describe_snapshot(disk, name):
        yield entry._asdict()


def describe_leader_epochs(disk: Disk, name: str, _: bool) -> Iterator[Line]:
    from penstock.log import dump

    for epoch, start in dump.describe_leader_epochs(disk, name):
        yield {"leader_epoch": epoch, "start_offset": start}


def describe_partition_metadata(disk: Disk, name: str, _: bool) -> Iterator[Line]:
    from penstock.log import dump

    yield {"topic_id": dump.describe_partition_metadata(disk, name)}


DESCRIBERS: dict[str, Callable[[Disk, str, bool], Iterable[Line]]] = {
    ".log": describe_log,
    ".index": describe_offset_index,
    ".timeindex": describe_time_index,
    ".txnindex": describe_aborted_index,
    ".snapshot": describe_snapshot,
    ".checkpoint": describe_checkpoint,
    "leader-epoch-checkpoint": describe_leader_epochs,
    "partition.metadata": describe_partition_metadata,
}
