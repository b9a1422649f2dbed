"""Whose a data directory of `penstock dev` is: what it may format, and what --fresh may remove.

`penstock dev` formats only a directory that is new or empty, and leaves a mark there (`.penstock-dev`). What has the
mark may be emptied again, as long as nobody uses it and it has nothing but what nodes write. Everything else is
refused, before a single file is touched: a directory of sources, of `storage format`, of Apache Kafka.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from penstock.errors import ConfigError, StorageError

MARK = ".penstock-dev"
MARK_TEXT = "penstock dev made this directory: penstock dev --fresh may empty it\n"
META = "meta.properties"
UNREMARKABLE = frozenset({".lock", ".penstock-probe", "lost+found"})
"""What a directory may have and still count as empty."""
FOREIGN_NAMED_MAX = 3

_NODE_FILES = (
    "meta.properties", "bootstrap.checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint",
    "replication-offset-checkpoint", "cleaner-offset-checkpoint", ".kafka_cleanshutdown", ".penstock-fsync-failed",
    ".penstock-probe", ".lock", MARK,
)  # fmt: skip
_REPLICA_FILES = (
    "leader-epoch-checkpoint", "partition.metadata", "quorum-state", "flushed-offset", "unflushed-rolls",
)  # fmt: skip
_NODE_FILE = re.compile(rf"(?:{'|'.join(map(re.escape, _NODE_FILES))})(?:\.tmp)?")
_REPLICA = re.compile(r"[A-Za-z0-9._-]+-[0-9]+(?:\.[0-9a-f]{32}-(?:delete|stray|future))?")
_REPLICA_FILE = re.compile(
    rf"[0-9]{{20}}(?:-[0-9]{{10}})?(?:\.[a-z0-9]+)+|(?:{'|'.join(map(re.escape, _REPLICA_FILES))})(?:\.tmp)?"
)


def check_fit(path: str) -> None:
    """Raises ConfigError unless a node may keep its data there: the directory is new, empty, or a node's already."""
    names = entries(path)
    if names and not names & {MARK, META}:
        raise ConfigError(
            f"{path} is not empty and not the data directory of a node: it is left alone\n"
            "  choose a new or an empty directory"
        )


def check_cluster_fit(path: str) -> None:
    """Raises ConfigError unless a cluster may keep its nodes there: the directory is new, empty, or its own."""
    names = entries(path)
    if META in names:
        raise ConfigError(f"{path} is the data directory of one node: choose another --data for several")
    if names and MARK not in names:
        raise ConfigError(
            f"{path} is not empty and was not made by penstock dev --brokers: it is left alone\n"
            "  choose a new or an empty directory with --data"
        )


def mark(path: str) -> None:
    """Makes the directory if there is none, and marks it as ours if it is empty."""
    os.makedirs(path, exist_ok=True)
    if not entries(path):
        with open(os.path.join(path, MARK), "w") as file:
            file.write(MARK_TEXT)


def entries(path: str) -> set[str]:
    """The directory's entries, except those that do not matter; none if it does not exist."""
    try:
        return set(os.listdir(path)) - UNREMARKABLE
    except FileNotFoundError:
        return set()


@contextmanager
def held(paths: Sequence[str], *, for_a_node: bool = False) -> Iterator[None]:
    """Keeps other processes out of the directories. Raises StorageError when another process has one.

    `for_a_node`: they stay out until a node of this process has taken the locks itself.
    """
    from penstock.server.directory_lock import DirectoryLock

    with ExitStack() as stack:
        locks = []
        for path in paths:
            try:
                locks.append(DirectoryLock(path))
            except StorageError:
                raise StorageError(
                    f"{path} is in use by another process: nothing was changed\n"
                    "  stop that one first, or choose another directory"
                ) from None
            stack.callback(locks[-1].release)
        yield
        if for_a_node:
            stack.pop_all()
            for lock in locks:
                lock.hand_over()


def empty(paths: Sequence[str]) -> None:
    """Removes what nodes have written into the directories, which the caller holds, and each of which has the mark.

    Raises ConfigError when one is not marked, or has what no node writes; nothing was removed from any of them then.
    """
    for path in paths:
        if entries(path):
            check_ours(path)
    for path in paths:
        files, directories = a_nodes(path)
        for name in files:
            os.unlink(os.path.join(path, name))
        for name in directories:
            remove_directory(os.path.join(path, name))
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(path, META))  # a node's directory until the last


def a_nodes(path: str) -> tuple[list[str], list[str]]:
    """The files and directories in a log directory that nodes write, by their names, except meta.properties. Other
    files that have come since the check for foreign ones are not included.
    """
    files, directories = [], []
    for name in sorted(entries(path) - {MARK, META}):
        full = os.path.join(path, name)
        if os.path.isdir(full) and not os.path.islink(full):
            directories.append(name)
            files += [f"{name}/{each}" for each in os.listdir(full) if _REPLICA_FILE.fullmatch(each)]
        elif _NODE_FILE.fullmatch(name):
            files.append(name)
    return files, directories


def remove_directory(path: str) -> None:
    """Removes an emptied directory. Raises ConfigError when there is something in it again."""
    try:
        os.rmdir(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise ConfigError(
            f"{path} has what no broker writes, which came while it was emptied: that is left there\n"
            "  move it away, then start again"
        ) from None


def check_ours(path: str) -> None:
    """Raises ConfigError when something in the directory was not written by a node that `penstock dev` ran."""
    if not os.path.exists(os.path.join(path, MARK)):
        raise ConfigError(
            f"{path} was not made by penstock dev: --fresh removes nothing there\n"
            "  choose another --data, or empty it yourself"
        )
    if found := sorted(foreign(path)):
        more = f" and {len(found) - FOREIGN_NAMED_MAX} more" if len(found) > FOREIGN_NAMED_MAX else ""
        raise ConfigError(
            f"{path} has what no broker writes: --fresh removes nothing there\n"
            f"  move {', '.join(found[:FOREIGN_NAMED_MAX])}{more} away first, or choose another --data"
        )


def foreign(path: str) -> Iterator[str]:
    """The names in a log directory, two levels deep, that no node writes."""
    with os.scandir(path) as found:
        for entry in found:
            if entry.name == "lost+found":
                continue
            if entry.is_symlink() or not entry.is_dir():
                if entry.is_symlink() or not _NODE_FILE.fullmatch(entry.name):
                    yield entry.name
            elif not _REPLICA.fullmatch(entry.name):
                yield f"{entry.name}/"
            else:
                yield from (f"{entry.name}/{name}" for name in foreign_files(entry.path))


def foreign_files(path: str) -> Iterator[str]:
    """The names in a replica's directory that no node writes."""
    with os.scandir(path) as found:
        for entry in found:
            if not entry.is_file(follow_symlinks=False) or not _REPLICA_FILE.fullmatch(entry.name):
                yield entry.name
