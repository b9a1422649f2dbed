"""Formatting log directories: what Kafka's StorageTool 4.3 writes, so that either can start on what the other
formatted.

Every directory gets `meta.properties` and `bootstrap.checkpoint`; the metadata log directory of a dynamic quorum
(kraft.version 1) also the checkpoint `0-0` with its first voters. A static quorum (`controller.quorum.voters`) has
kraft.version 0 and its voters only in the settings. The feature levels are those that were asked for, and otherwise
those that Kafka's new clusters have as far as they are served.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from penstock.errors import ConfigError
from penstock.log.disk import Disk
from penstock.log.meta_properties import (
    FILE,
    RESERVED_DIRECTORY_IDS,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from penstock.metadata.bootstrap import write_bootstrap
from penstock.metadata.features import (
    DEFAULT_LEVELS,
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    METADATA_VERSIONS,
    SUPPORTED_FEATURES,
    MetadataVersion,
    UnsupportedFeatureError,
    metadata_version,
    metadata_version_named,
)
from penstock.metadata.result import MetadataMessage
from penstock.protocol.messages.metadata.feature_level_record import FeatureLevelRecord
from penstock.raft.checkpoint import BOOTSTRAP, checkpoint_batches, write_checkpoint
from penstock.raft.topic import METADATA
from penstock.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet

DASH = 62
"""What `-` is in URL-safe base 64: ids that start with it look like options on a command line."""


@dataclass(frozen=True, slots=True)
class FormatRequest:
    """The directories to format, and how.

    Attributes:
        cluster_id: of the cluster, as in `meta.properties`.
        node_id: of this node.
        metadata_directory: which of the directories holds the metadata log.
        release_version: a name or release such as `4.3-IV0` or `4.2`; None for the newest.
        feature_levels: levels by feature name that were asked for.
        standalone: a dynamic quorum with this node as its only voter, reached at `controller`.
        controller: this node's controller listener; needed with `standalone`.
        users: records of SCRAM credentials that the metadata log begins with.
        ignore_formatted: leave directories alone that are formatted already, instead of refusing.
    """

    cluster_id: str
    node_id: int
    metadata_directory: str
    release_version: str | None = None
    feature_levels: Mapping[str, int] = field(default_factory=dict)
    standalone: bool = False
    controller: VoterEndpoint | None = None
    ignore_formatted: bool = False
    users: Sequence[MetadataMessage] = ()


@dataclass(frozen=True, slots=True)
class Formatted:
    """A formatted directory and its role; `kind` as Kafka calls it."""

    path: str
    kind: str
    directory_id: UUID
    metadata_version: str


def format_directories(
    directories: Mapping[str, Disk], request: FormatRequest, random: Random, now_ms: int
) -> Sequence[Formatted]:
    """Formats the directories that are not yet; blocks. Nothing is written unless everything asked for is possible.

    Raises ConfigError: a directory is formatted already, or for another cluster or node; a feature or level is not
    supported.
    """
    if request.metadata_directory not in directories:
        raise ConfigError(f"the metadata log directory {request.metadata_directory} is not one of the log directories")
    version = chosen_version(request)
    records, kraft_version = chosen_levels(request, version)
    empty = unformatted(directories, request)
    formatted = []
    for path in empty:
        disk, directory_id = directories[path], new_directory_id(random)
        write_bootstrap(disk, records, version, now_ms)
        kind = "data directory"
        if path == request.metadata_directory:
            kind = "metadata directory"
            if kraft_version > 0:
                kind = "dynamic metadata voter directory"
                write_first_voters(disk, request, directory_id, kraft_version, now_ms)
        write_meta_properties(disk, MetaProperties(request.cluster_id, request.node_id, directory_id))
        formatted.append(Formatted(path, kind, directory_id, version.name))
    return formatted


def unformatted(directories: Mapping[str, Disk], request: FormatRequest) -> Sequence[str]:
    """The directories that have no `meta.properties` yet, in the order of their paths."""
    empty = []
    for path in sorted(directories):
        if not directories[path].exists(FILE):
            empty.append(path)
            continue
        found = read_meta_properties(directories[path], path)
        if found.cluster_id != request.cluster_id:
            raise ConfigError(f"{path} belongs to cluster {found.cluster_id}, not to {request.cluster_id}")
        if found.node_id != request.node_id:
            raise ConfigError(f"{path} belongs to node {found.node_id}, not to {request.node_id}")
        if not request.ignore_formatted:
            raise ConfigError(
                f"log directory {path} is already formatted\n"
                "  --ignore-formatted leaves it as it is and formats the others"
            )
    return empty


def chosen_version(request: FormatRequest) -> MetadataVersion:
    """The metadata.version to format with. Raises ConfigError for one that is unknown or asked for twice."""
    level = request.feature_levels.get(METADATA_VERSION)
    try:
        if level is not None:
            if request.release_version is not None:
                raise ConfigError(f"use --release-version alone, or --feature {METADATA_VERSION}=LEVEL alone")
            return metadata_version(level)
        if request.release_version is not None:
            return metadata_version_named(request.release_version)
    except UnsupportedFeatureError:
        asked = level if request.release_version is None else request.release_version
        known = ", ".join(f"{each.level} ({each.name})" for each in METADATA_VERSIONS.values())
        raise ConfigError(f"{METADATA_VERSION} {asked} is not supported: choose one of {known}") from None
    return METADATA_VERSIONS[LATEST_METADATA_VERSION]


def chosen_levels(request: FormatRequest, version: MetadataVersion) -> tuple[list[MetadataMessage], int]:
    """The bootstrap records, and the level of kraft.version, which is kept elsewhere.

    Raises ConfigError for a feature or level that is not supported.
    """
    for name, level in request.feature_levels.items():
        if name not in SUPPORTED_FEATURES:
            raise ConfigError(f"unknown feature {name}: known are {', '.join(SUPPORTED_FEATURES)}")
        lowest, highest = SUPPORTED_FEATURES[name]
        if not lowest <= level <= highest:
            raise ConfigError(f"{name}={level} is not supported: it can be {lowest} to {highest}")
    kraft_version = request.feature_levels.get(KRAFT_VERSION, int(request.standalone))
    if (kraft_version > 0) != request.standalone:
        other = "without" if request.standalone else "only with"
        raise ConfigError(
            f"{KRAFT_VERSION}={kraft_version} goes {other} --standalone: leave --feature {KRAFT_VERSION} out"
        )
    records = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=version.level)]
    for name, level in sorted({**DEFAULT_LEVELS, **request.feature_levels}.items()):
        if level > 0 and name not in {METADATA_VERSION, KRAFT_VERSION}:
            records.append(FeatureLevelRecord(name=name, feature_level=level))
    return [*records, *request.users], kraft_version


def write_first_voters(disk: Disk, request: FormatRequest, directory_id: UUID, kraft_version: int, now_ms: int) -> None:
    """The checkpoint 0-0 of a dynamic quorum, with this node as the only voter."""
    if request.controller is None:
        raise ConfigError("--standalone needs a controller listener: see controller.listener.names")
    voters = VoterSet([Voter(ReplicaKey(request.node_id, directory_id), (request.controller,))])
    disk.make_directory(METADATA.directory)
    batches = checkpoint_batches(
        (), epoch=0, last_contained_timestamp_ms=now_ms, wall_ms=now_ms, kraft_version=kraft_version, voters=voters
    )
    write_checkpoint(disk, METADATA.directory, BOOTSTRAP.file, batches)
    disk.fsync_directory("")


def new_directory_id(random: Random) -> UUID:
    """A random id for a directory, none of those that Kafka reserves."""
    while True:
        new = UUID(int=random.getrandbits(128), version=4)
        if new.int >= RESERVED_DIRECTORY_IDS and new.bytes[0] >> 2 != DASH:
            return new
