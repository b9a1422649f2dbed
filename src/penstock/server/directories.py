"""A node's log directories as the server opens them: locked, each with its disk; and formatting them.

A directory that cannot be opened is offline from the start, and nothing is written there: the place where a disk is to
be mounted is on the disk above it.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.log.directory import LogDirectory
from penstock.log.meta_properties import FILE, NotMounted, UnusableDirectory
from penstock.server.directory_lock import DirectoryLock, has_been_locked
from penstock.server.disk import DESCRIPTORS_MAX, BlockingDisk

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.metadata.format import FormatRequest, Formatted
    from penstock.raft.voters import VoterEndpoint


class Directories:
    """The log directories of one node, locked until `close`. Those that cannot be used have an `error`.

    Attributes:
        of_logs: those of log.dirs, in that order; all: these and, if it is a separate one, the metadata log's, last.
        metadata: the one with the metadata log.
    """

    def __init__(self, settings: Settings, *, durable: bool = True, descriptors_max: int = DESCRIPTORS_MAX) -> None:
        """Locks and opens the directories.

        Raises:
            StorageError: another process has locked one.
        """
        self._locks: list[DirectoryLock] = []
        self._disks: list[BlockingDisk] = []
        self.all: list[LogDirectory] = []
        paths = directories_of(settings)
        try:
            for index, path in enumerate(paths):
                self._open(index, path, durable, max(16, descriptors_max // len(paths)))
        except BaseException:
            self.close()
            raise
        self.of_logs: Sequence[LogDirectory] = self.all[: len(settings.directories)]
        self.metadata = next(directory for directory in self.all if directory.path == settings.metadata_directory)

    def close(self) -> None:
        """Closes all files and releases the locks."""
        for disk in self._disks:
            disk.close()
        for lock in self._locks:
            lock.release()

    def _open(self, index: int, path: str, durable: bool, descriptors_max: int) -> None:
        error: OSError | None = None
        try:
            check_formatted(path)
            self._locks.append(DirectoryLock(path))
            disk = BlockingDisk(index, path, durable=durable, descriptors_max=descriptors_max)
            disk.hide_secrets()
        except OSError as found:
            error = found
            disk = BlockingDisk(index, path, durable=durable, descriptors_max=descriptors_max, probed=False)
        self._disks.append(disk)
        self.all.append(LogDirectory(index, path, disk.loop, disk))
        self.all[-1].error = error


def check_formatted(path: str) -> None:
    """Raises OSError for a path that is no log directory which was formatted."""
    try:
        if not os.path.isdir(path):
            os.stat(path)
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        os.stat(f"{path}/{FILE}")
    except FileNotFoundError:
        raise NotMounted(f"it has no {FILE}" if os.path.isdir(path) else "it does not exist") from None


def format_storage(
    settings: Settings,
    cluster_id: str | None,
    random: Random,
    now_ms: int,
    *,
    standalone: bool = True,
    durable: bool = True,
    beside_used: bool = False,
) -> Sequence[Formatted]:
    """Makes and formats the directories of a node which is its whole quorum; formatted ones are left alone.

    Without a `cluster_id` they join the cluster of the formatted ones, or begin a new one. `beside_used`: also if the
    node has run with others. Otherwise nothing is formatted then: what looks new may be the empty place of a disk that
    is not mounted. Raises ConfigError for a directory of another cluster or node.
    """
    from penstock.log.meta_properties import new_directory_id, uuid_text
    from penstock.metadata.format import FormatRequest

    used = [path for path in directories_of(settings) if os.path.exists(f"{path}/{FILE}") and has_been_locked(path)]
    if used and not beside_used:
        known = cluster_id_of(settings)
        if cluster_id not in (None, known):
            raise ConfigError(f"{used[0]} belongs to cluster {known}, not to {cluster_id}")
        return ()
    if cluster_id is None:
        cluster_id = cluster_id_of(settings) or uuid_text(new_directory_id(random))
    request = FormatRequest(
        cluster_id=cluster_id,
        node_id=settings.node_id,
        metadata_directory=settings.metadata_directory,
        standalone=standalone,
        controller=controller_endpoint(settings) if standalone else None,
        ignore_formatted=True,
    )
    return format_for(settings, request, random, now_ms, durable=durable)


def format_for(
    settings: Settings, request: FormatRequest, random: Random, now_ms: int, *, durable: bool = True
) -> Sequence[Formatted]:
    """Makes and formats the directories of the settings as requested. Raises ConfigError."""
    from penstock.metadata.format import format_directories

    disks: dict[str, BlockingDisk] = {}
    try:
        for path in directories_of(settings):
            os.makedirs(path, exist_ok=True)
            disks[path] = BlockingDisk(0, path, durable=durable)
        return format_directories(disks, request, random, now_ms)
    finally:
        for disk in disks.values():
            with suppress(OSError):
                disk.close()


def directories_of(settings: Settings) -> Sequence[str]:
    """The paths of log.dirs, and metadata.log.dir if that is another one."""
    return list(dict.fromkeys((*settings.directories, settings.metadata_directory)))


def cluster_id_of(settings: Settings) -> str | None:
    """The cluster that the first directory belongs to whose meta.properties can be read."""
    from penstock.log.meta_properties import parse_meta_properties

    for path in directories_of(settings):
        with suppress(OSError, UnusableDirectory), open(f"{path}/{FILE}", "rb") as file:
            return parse_meta_properties(file.read(), path).cluster_id
    return None


def controller_endpoint(settings: Settings) -> VoterEndpoint:
    """This controller's address for other controllers, as written into a dynamic quorum's first voters."""
    from penstock.raft.voters import VoterEndpoint

    endpoint = settings.controller_endpoints[0]
    return VoterEndpoint(endpoint.listener, endpoint.host or socket.getfqdn(), endpoint.port)
