"""`guardian.properties`: which Guardian and node a directory belongs to, and who the others were when it was formatted.

    directory.id=oFbkZ0lJSUaHEkBFvG5Kzg
    guardian.id=XQ3xXQ3xRfWTb1cQ8RBv5A
    node.id=1
    version=1
    voters=1,2,3

It is a Java properties file. The ids of the voters are kept since a node that takes others for its quorum than the rest
do could elect a second leader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from uuid import UUID

from penstock.config.guardian import PREFIX, GuardianSettings
from penstock.config.properties import parse
from penstock.errors import ConfigError, StorageError
from penstock.log import meta_properties
from penstock.log.disk import Disk
from penstock.log.meta_properties import new_directory_id, parse_uuid, uuid_text

FILE = "guardian.properties"
VERSION = 1


@dataclass(frozen=True, slots=True)
class GuardianIdentity:
    """The contents of the file."""

    guardian_id: str
    node_id: int
    directory_id: UUID
    voters: tuple[int, ...]

    @property
    def encoded(self) -> bytes:
        entries = {
            "directory.id": uuid_text(self.directory_id),
            "guardian.id": self.guardian_id,
            "node.id": str(self.node_id),
            "version": str(VERSION),
            "voters": ",".join(map(str, self.voters)),
        }
        return "".join(["#\n", *(f"{name}={value}\n" for name, value in entries.items())]).encode("latin-1")


def parse_identity(content: bytes, path: str) -> GuardianIdentity:
    """Parses the file. Raises StorageError, which names it, where it is damaged; ConfigError for another version."""
    entries = parse(content, path)
    if entries.get("version", str(VERSION)) != str(VERSION):
        raise ConfigError(f"{path} has version {entries['version']}, this is for version {VERSION}")
    try:
        return GuardianIdentity(
            uuid_text(parse_uuid(entries["guardian.id"])),
            int(entries["node.id"]),
            parse_uuid(entries["directory.id"]),
            tuple(map(int, entries["voters"].split(","))),
        )
    except (KeyError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise StorageError(f"{path} is damaged: {what}") from None


def read_identity(disk: Disk, directory: str, settings: GuardianSettings) -> GuardianIdentity:
    """The identity of a directory, which must be that of the node of these settings.

    Raises ConfigError for a directory that is not formatted, or that belongs to another node, to a broker, or to a
    Guardian of other nodes; StorageError for a file that is damaged.
    """
    path = f"{directory}/{FILE}"
    if not disk.exists(FILE):
        if disk.exists(meta_properties.FILE):
            raise ConfigError(f"{directory} is a log directory of a broker or controller, not one of Guardian")
        raise ConfigError(f"{directory} is not formatted: it has no {FILE}\n  run `penstock guardian format` first")
    found = parse_identity(disk.read(FILE, 0, disk.size(FILE)), path)
    if found.node_id != settings.penstock_guardian_node_id:
        raise ConfigError(
            f"{directory} belongs to node {found.node_id}, and {PREFIX}node.id is {settings.penstock_guardian_node_id}"
        )
    if found.voters != settings.voter_ids:
        raise ConfigError(
            f"{PREFIX}voters names nodes {listed(settings.voter_ids)}; {directory} was formatted for nodes "
            f"{listed(found.voters)}\n  a node that counts on others than the rest do could elect a second leader: put "
            "the old ids back"
        )
    return found


def listed(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))


def format_directory(
    disk: Disk, directory: str, settings: GuardianSettings, guardian_id: str | None, random: Random
) -> GuardianIdentity:
    """Makes an empty directory that of a Guardian node, durably. Without `guardian_id` it begins a new Guardian.

    Raises ConfigError for a malformed id, a missing one where there are several nodes, and a directory that is not
    empty.
    """
    if guardian_id is None:
        if len(settings.voter_ids) > 1:
            raise ConfigError(
                f"a Guardian of {len(settings.voter_ids)} nodes needs one id for all of them: --guardian-id\n"
                "  `penstock storage random-uuid` prints a new one"
            )
        guardian_id = uuid_text(new_directory_id(random))
    try:
        guardian_id = uuid_text(parse_uuid(guardian_id))
    except ValueError as error:
        raise ConfigError(f"--guardian-id: {error}\n  `penstock storage random-uuid` prints one") from None
    check_empty(disk, directory)
    identity = GuardianIdentity(
        guardian_id, settings.penstock_guardian_node_id, new_directory_id(random), settings.voter_ids
    )
    disk.replace(FILE, identity.encoded)
    return identity


def check_empty(disk: Disk, directory: str) -> None:
    """Raises ConfigError for a directory with anything in it but the lock of a process."""
    entries: Mapping[str, object] = {each.name: each for each in disk.list("")}
    if FILE in entries:
        raise ConfigError(f"{directory} is formatted already\n  it is left as it is; remove it to begin anew")
    if meta_properties.FILE in entries:
        raise ConfigError(f"{directory} is a log directory of a broker or controller: give Guardian one of its own")
    other = next((name for name in entries if name != ".lock"), None)
    if other is not None:
        raise ConfigError(f"{directory} is not empty: it has {other}; give Guardian a directory of its own")
