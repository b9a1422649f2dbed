"""`meta.properties`: which cluster and node a log directory belongs to (version 1, as `storage format` writes it).

    cluster.id=XQ3xXQ3xRfWTb1cQ8RBv5A
    directory.id=oFbkZ0lJSUaHEkBFvG5Kzg
    node.id=1
    version=1

It is a Java properties file. A directory id that is missing is added at start, as Kafka does.

A directory without the file is a new one that was not formatted, or the empty place of a disk that is not mounted. The
two look alike, so a node leaves it alone: it is offline, as is one that cannot be read, and the others serve. (Kafka
does not start in the first case, and serves in the second.)
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.config.properties import parse
from penstock.errors import ConfigError, StorageError
from penstock.log.disk import Disk
from penstock.log.events import DirectoryFailed, LogEvent

if TYPE_CHECKING:
    from penstock.log.directory import LogDirectory

FILE = "meta.properties"
VERSION = 1
UUID_CHARACTERS = 22
NODE_ID_DIGITS_MAX = 10
RESERVED_DIRECTORY_IDS = 100
"""Ids below this mean "unassigned", "lost" and the like to the controller; no directory has one."""


class UnusableDirectory(ConfigError):
    """The file of one log directory is missing or damaged. Those of others may be well."""


class NotFormatted(UnusableDirectory):
    """A log directory has no such file."""

    def __init__(self, directory: str) -> None:
        super().__init__(
            f"log directory {directory} is not formatted: it has no {FILE}\n  run `penstock storage format` first"
        )


class NotMounted(OSError):
    """Why a directory that is not formatted is offline, or one that `lacks` even more."""

    def __init__(self, lacks: str = f"it has no {FILE}") -> None:
        super().__init__(
            f"{lacks}: mount its disk and start again, or, if it is new, format it with "
            "`penstock storage format --ignore-formatted`"
        )


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The contents of meta.properties. `directory_id` is None if it has none yet."""

    cluster_id: str
    node_id: int
    directory_id: UUID | None


def uuid_text(value: UUID) -> str:
    """A UUID as Kafka prints it: URL-safe base64 without padding."""
    return urlsafe_b64encode(value.bytes).decode().rstrip("=")


def parse_uuid(text: str) -> UUID:
    """The UUID that Kafka prints so. Raises ValueError."""
    if len(text) != UUID_CHARACTERS:
        raise ValueError(f"{text!r} is not a UUID in base64 ({UUID_CHARACTERS} characters)")
    return UUID(bytes=urlsafe_b64decode(text + "=="))


def escape(value: str) -> str:
    """A value as Java's Properties.store writes it."""
    escaped = "".join(f"\\{character}" if character in "\\=:#!" else character for character in value)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def format_meta_properties(properties: MetaProperties) -> bytes:
    """The content of the file."""
    entries = {"cluster.id": properties.cluster_id}
    if properties.directory_id is not None:
        entries["directory.id"] = uuid_text(properties.directory_id)
    entries |= {"node.id": str(properties.node_id), "version": str(VERSION)}
    return "".join(["#\n", *(f"{name}={escape(value)}\n" for name, value in entries.items())]).encode("latin-1")


def parse_meta_properties(content: bytes, path: str) -> MetaProperties:
    """Parses the contents of meta.properties.

    Raises:
        UnusableDirectory: the file is damaged: an entry is missing or malformed; names the file.
        ConfigError: the version is not 1.
    """
    entries = parse_entries(content, path)
    version = entries.get("version", "0")
    if version != str(VERSION):
        raise ConfigError(
            f"{path} has version {version}, this is for version {VERSION}"
            + (
                "\n  it was written by a broker that used ZooKeeper; migrate it to KRaft first"
                if version == "0"
                else ""
            )
        )
    for name in ("cluster.id", "node.id"):
        if name not in entries:
            raise UnusableDirectory(f"{path} has no {name}")
    if not entries["node.id"].isdecimal() or len(entries["node.id"]) > NODE_ID_DIGITS_MAX:
        raise UnusableDirectory(f"{path}: node.id = {entries['node.id']!r} is not a number of 32 bits")
    directory_id = None
    if "directory.id" in entries:
        try:
            directory_id = parse_uuid(entries["directory.id"])
        except ValueError as error:
            raise UnusableDirectory(f"{path}: directory.id: {error}") from None
        if directory_id.int < RESERVED_DIRECTORY_IDS:
            raise UnusableDirectory(f"{path}: directory.id {entries['directory.id']} is reserved")
    return MetaProperties(entries["cluster.id"], int(entries["node.id"]), directory_id)


def parse_entries(content: bytes, path: str) -> Mapping[str, str]:
    """The entries of the file, whatever they are. Raises UnusableDirectory if it cannot be one of any version."""
    try:
        entries = parse(content, path)
    except ConfigError as error:
        raise UnusableDirectory(str(error)) from None
    if not entries:
        raise UnusableDirectory(f"{path} is empty")
    if "version" not in entries and "broker.id" not in entries:
        raise UnusableDirectory(f"{path} has no version")
    return entries


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties:
    """Reads the file of a log directory, whose path is for messages.

    Raises:
        UnusableDirectory: the directory is not formatted, or the file is damaged.
        ConfigError: the file has another version.
        OSError: as the disk does.
    """
    try:
        content = disk.read(FILE, 0, disk.size(FILE))
    except FileNotFoundError:
        raise NotFormatted(directory) from None
    return parse_meta_properties(content, f"{directory}/{FILE}")


def write_meta_properties(disk: Disk, properties: MetaProperties) -> None:
    """Writes the file atomically and durably; blocking."""
    disk.replace(FILE, format_meta_properties(properties))


def check_together(found: Sequence[tuple[str, MetaProperties]], node_id: int) -> None:
    """Whether directories, given with their paths, belong to one cluster and to this node.

    Raises:
        ConfigError: they do not; the message names the directory and what to do.
    """
    owners: dict[UUID, str] = {}
    for path, properties in found:
        first_path, first = found[0]
        if properties.cluster_id != first.cluster_id:
            raise ConfigError(
                f"cluster id mismatch: {path} belongs to cluster {properties.cluster_id},"
                f" {first_path} to {first.cluster_id}\n  start with the right --config, or move the directory away"
            )
        if properties.node_id != node_id:
            raise ConfigError(
                f"node id mismatch: {path} belongs to node {properties.node_id}, this node is configured as {node_id}"
                "\n  start with the right --config, or move the directory away"
            )
        if properties.directory_id is not None:
            other = owners.setdefault(properties.directory_id, path)
            if other != path:
                raise ConfigError(
                    f"{path} and {other} have the same directory.id {uuid_text(properties.directory_id)}\n"
                    "  one is a copy of the other: keep one, or remove directory.id from the copy's meta.properties"
                )


def new_directory_id(random: Random) -> UUID:
    """An id that is not reserved and does not begin with a dash, which tools would take for an option (as Kafka)."""
    while True:
        candidate = UUID(int=random.getrandbits(128), version=4)
        if candidate.int >= RESERVED_DIRECTORY_IDS and not uuid_text(candidate).startswith("-"):
            return candidate


def identify(
    directories: Sequence[LogDirectory],
    node_id: int,
    random: Random,
    report: Callable[[LogEvent], None],
    *,
    metadata_directory: LogDirectory | None = None,
) -> str:
    """Reads and checks the files of all directories, gives each its id (a new one if it has none); blocking.

    A directory that cannot be used, or that was found to be so before, goes offline. Returns the cluster id.

    Args:
        metadata_directory: the one that a node cannot do without; None: it can do without any of them.

    Raises:
        ConfigError: a directory belongs to another cluster or node; none, or not the metadata log's, is formatted.
        StorageError: no directory can be used, or not the metadata log's.
    """
    usable = [(each, properties) for each in directories if (properties := look_into(each)) is not None]
    check_enough(directories, metadata_directory)
    check_together([(directory.path, properties) for directory, properties in usable], node_id)
    for directory, properties in usable:
        directory.id = properties.directory_id
        if directory.id is None:
            directory.id = new_directory_id(random)
            try:
                write_meta_properties(directory.blocking_disk, replace(properties, directory_id=directory.id))
            except OSError as error:
                directory.error = error
    check_enough(directories, metadata_directory)
    for directory in directories:
        if directory.error is not None:
            report(DirectoryFailed(directory.path, directory.error))
    return usable[0][1].cluster_id


def look_into(directory: LogDirectory) -> MetaProperties | None:
    """What the file of a directory says; None, and an `error` of the directory, if that cannot be used.

    Raises:
        ConfigError: the file has another version.
    """
    if directory.error is not None:
        return None
    try:
        return read_meta_properties(directory.blocking_disk, directory.path)
    except OSError as error:
        directory.error = error
    except NotFormatted:
        directory.error = NotMounted()
    except UnusableDirectory as error:
        directory.error = OSError(str(error))
    return None


def check_enough(directories: Sequence[LogDirectory], metadata_directory: LogDirectory | None) -> None:
    """Whether a node can do with the directories that are online; see `identify` for what is raised otherwise."""
    errors = [directory.error for directory in directories]
    if all(isinstance(error, NotMounted) for error in errors):
        raise NotFormatted(directories[0].path)
    if None not in errors:
        reasons = "\n  ".join(f"{directory.path}: {directory.error}" for directory in directories)
        raise StorageError(f"no log directory can be used\n  {reasons}")
    if metadata_directory is not None and (error := metadata_directory.error) is not None:
        reason = f"the metadata log directory {metadata_directory.path} cannot be used: {error}"
        raise ConfigError(reason) if isinstance(error, NotMounted) else StorageError(reason)
