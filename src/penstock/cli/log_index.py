"""`penstock log index`: makes the indexes of a stopped broker's partitions anew from their segments."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.cli.common import Actions, add_action, add_flag, add_json, add_option
from penstock.cli.log_compact import checkpointed
from penstock.cli.log_progress import Progress
from penstock.errors import StorageError, UsageError

if TYPE_CHECKING:
    from penstock.log.rebuilding import RebuiltFile
    from penstock.server.disk import BlockingDisk

INDEX_INTERVAL_BYTES = 4096


def register(actions: Actions[argparse.ArgumentParser]) -> None:
    index = add_action(
        actions, "index", index_action, "make the indexes of partitions anew from their segments"
    ).examples(
        "penstock log index --dry-run data/clicks-0     only say what is missing or wrong",
        "penstock log index data/clicks-0               the broker must be stopped",
    )
    index.add_argument("directories", nargs="+", metavar="DIR", help="a partition's directory, as data/clicks-0")
    add_flag(index, "--dry-run", "only say what would change")
    add_option(
        index, "--index-interval-bytes", "N", "the topic's index.interval.bytes", default=INDEX_INTERVAL_BYTES, type=int
    )
    add_json(index)


def index_action(arguments: argparse.Namespace) -> int:
    """Rebuilds, and prints what has changed in each directory."""
    from penstock.cli.output import print_json

    if arguments.index_interval_bytes < 0:
        raise UsageError(f"--index-interval-bytes {arguments.index_interval_bytes} is negative")
    places = [place_of(directory) for directory in arguments.directories]
    progress = Progress(arguments.directories)
    found: list[dict[str, Any]] = []
    for directory, (parent, name) in zip(arguments.directories, places, strict=True):
        lines = []
        with nobody_else_at(parent, dry_run=arguments.dry_run):
            for file in rebuilt(parent, name, arguments, progress.of(directory)):
                lines.append(line_of(file))
        progress.clear()
        if arguments.json:
            found.append({"directory": directory, "files": lines})
        else:
            print_lines(directory, lines, dry_run=arguments.dry_run)
    if arguments.json:
        print_json(found)
    return 0


def place_of(directory: str) -> tuple[str, str]:
    """The log directory of a partition's directory, and its name there. Raises UsageError when it is none."""
    from penstock.log.names import LOG, offset_of

    full = os.path.realpath(directory)
    if not os.path.isdir(full):
        raise UsageError(f"{directory}: there is no such directory")
    if not any(offset_of(file, LOG) is not None for file in os.listdir(full)):
        raise UsageError(
            f"{directory} has no segments: either nothing was written to it yet, or it is not a partition's directory,"
            " as data/clicks-0 is"
        )
    parent, name = os.path.split(full)
    return parent, name


@contextmanager
def nobody_else_at(parent: str, *, dry_run: bool) -> Iterator[None]:
    """Keeps brokers from a log directory meanwhile. Raises StorageError where one runs.

    A copy of a partition somewhere else has no broker beside it, and gets no lock file. A dry run only asks for the
    lock, since it makes no file.
    """
    from penstock.log.meta_properties import FILE
    from penstock.server.directory_lock import LOCK_FILE, DirectoryLock, holder_of

    if dry_run:
        if holder_of(parent) is not None:
            raise StorageError(f"log directory {parent} is in use by another process\n  stop it first")
        yield
        return
    has_lock, has_properties = (os.path.exists(os.path.join(parent, file)) for file in (LOCK_FILE, FILE))
    if not has_lock and not has_properties:
        yield
        return
    lock = DirectoryLock(parent)
    try:
        if not has_lock:
            give_to_owner(parent, LOCK_FILE)
        yield
    finally:
        lock.release()


def rebuilt(parent: str, name: str, arguments: argparse.Namespace, told: Any) -> Iterator[RebuiltFile]:
    """The files of a log, those that differ written, each by another file that takes its place."""
    from penstock.log.names import parse_name
    from penstock.log.rebuilding import Rebuilding
    from penstock.server.disk import BlockingDisk

    disk = BlockingDisk(0, parent, writable=not arguments.dry_run, probed=False)
    try:
        start = checkpointed(disk, name)[0] if parse_name(name) is not None else 0
        rebuilding = Rebuilding(
            disk, name, log_start_offset=start, index_interval_bytes=arguments.index_interval_bytes, told=told
        )
        for file in rebuilding.run():
            if file.has_changed and not arguments.dry_run:
                replace(disk, name, file)
            yield file
    finally:
        disk.close()


def replace(disk: BlockingDisk, name: str, file: RebuiltFile) -> None:
    """Writes a file durably."""
    disk.replace(f"{name}/{file.name}", file.content)
    give_to_owner(os.path.join(disk.path, name), file.name)


def give_to_owner(directory: str, file: str) -> None:
    """Makes a file that root has written that of the directory's owner: the broker must be able to write to it."""
    if os.geteuid() == 0:
        owner = os.stat(directory)
        os.chown(os.path.join(directory, file), owner.st_uid, owner.st_gid)


def line_of(file: RebuiltFile) -> dict[str, Any]:
    """What has become of a file."""
    line: dict[str, Any] = {"file": file.name, "changed": file.has_changed}
    if file.entry_bytes:
        line["entries"] = len(file.content) // file.entry_bytes
        line["entries_before"] = None if file.before is None else len(file.before) // file.entry_bytes
    else:
        line["existed"] = file.before is not None
    return line


def print_lines(directory: str, lines: list[dict[str, Any]], *, dry_run: bool) -> None:
    from penstock.cli.output import printable

    directory = printable(directory)
    changed = [line for line in lines if line["changed"]]
    if not changed:
        print(f"{directory}: all {len(lines)} files are as they should be")
        return
    verb = "would be made anew" if dry_run else "made anew"
    print(f"{directory}: {len(changed)} of {len(lines)} files {verb}")
    for line in changed:
        print(f"  {line['file']}: {difference(line)}")


def difference(line: dict[str, Any]) -> str:
    if "entries" not in line:
        return "it was wrong" if line["existed"] else "it was missing"
    entries = f"{line['entries']:,} entr" + ("y" if line["entries"] == 1 else "ies")
    if line["entries_before"] is None:
        return f"it was missing; {entries}"
    if line["entries_before"] == line["entries"]:
        return f"{entries}, of which some were wrong"
    return f"{entries} instead of {line['entries_before']:,}"
