"""Feature levels: what this version supports, and which record versions a metadata.version calls for.

We register and advertise only what works. A log or cluster with a higher finalized level is refused, in one line that
names the feature and the command which lowers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import ErrorCode, PenstockError

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELR_VERSION = "eligible.leader.replicas.version"
GROUP_VERSION = "group.version"
TRANSACTION_VERSION = "transaction.version"


@dataclass(frozen=True, slots=True)
class MetadataVersion:
    """One level of metadata.version.

    `register_broker_record` and `broker_registration_change_record` are the newest versions of these records that every
    member of a cluster at this level understands; so are the RPC versions that brokers send to each other unasked.
    """

    level: int
    name: str
    register_broker_record: int
    broker_registration_change_record: int
    partition_record: int
    partition_change_record: int
    fetch_request: int
    list_offsets_request: int

    @property
    def release(self) -> str:
        """The Kafka release, such as 4.3."""
        return self.name.split("-")[0]


METADATA_VERSIONS: Mapping[int, MetadataVersion] = {
    version.level: version
    for version in (
        MetadataVersion(25, "4.0-IV3", 3, 2, 2, 2, 17, 10),
        MetadataVersion(26, "4.1-IV0", 3, 2, 2, 2, 17, 10),
        MetadataVersion(27, "4.1-IV1", 3, 2, 2, 2, 18, 10),
        MetadataVersion(28, "4.2-IV0", 3, 2, 2, 2, 18, 10),
        MetadataVersion(29, "4.2-IV1", 3, 2, 2, 2, 18, 11),
        MetadataVersion(30, "4.3-IV0", 4, 3, 2, 2, 18, 11),
    )
}
"""The one table by which versions of records and of inter-broker requests are chosen."""

LATEST_METADATA_VERSION = max(METADATA_VERSIONS)

NEW_RECORD_FORMATS = frozenset({30})
"""Levels that brought fields which older levels cannot hold: no way back below them."""

SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = {
    ELR_VERSION: (0, 1),
    GROUP_VERSION: (0, 1),
    KRAFT_VERSION: (0, 1),
    METADATA_VERSION: (min(METADATA_VERSIONS), LATEST_METADATA_VERSION),
    "share.version": (0, 0),
    "streams.version": (0, 0),
    TRANSACTION_VERSION: (0, 2),
}
"""Kafka's features, and the least and greatest level of each that this version supports."""

REGISTERED_FEATURES: Mapping[str, tuple[int, int]] = {
    name: levels for name, levels in SUPPORTED_FEATURES.items() if levels[1] > 0
}
"""What brokers and controllers register and advertise. A feature that is only known at level 0 is not mentioned."""

DEFAULT_LEVELS: Mapping[str, int] = {GROUP_VERSION: 1, TRANSACTION_VERSION: 2}
"""Levels that a new cluster has unless others are asked for, beside metadata.version and kraft.version."""


class UnsupportedFeatureError(PenstockError):
    """A finalized feature level that this version does not support."""

    code = ErrorCode.UNSUPPORTED_VERSION


def check_level(name: str, level: int) -> None:
    """Raises UnsupportedFeatureError, in one line that says what to do, for a level that we do not support."""
    lowest, highest = SUPPORTED_FEATURES.get(name, (0, 0))
    if lowest <= level <= highest or (level == 0 and name != METADATA_VERSION):
        return
    if level < lowest:
        raise UnsupportedFeatureError(
            f"the cluster's {name} is {described(name, level)}, below {described(name, lowest)}, the lowest supported: "
            f"raise it with kafka-features upgrade --feature {name}={lowest}"
        )
    raise UnsupportedFeatureError(
        f"the cluster's {name} is {described(name, level)}, above {described(name, highest)}, the highest supported: "
        f"lower it with kafka-features downgrade --feature {name}={highest}"
    )


def described(name: str, level: int) -> str:
    """A level for people: metadata versions have names."""
    version = METADATA_VERSIONS.get(level) if name == METADATA_VERSION else None
    return str(level) if version is None else f"{level} ({version.name})"


def record_formats_differ(low: int, high: int) -> bool:
    """Whether records of metadata.version `high` may not be readable at `low`."""
    return any(low < level <= high for level in NEW_RECORD_FORMATS)


def metadata_version(level: int) -> MetadataVersion:
    """The row of the table for a finalized level. Raises UnsupportedFeatureError if we do not support it."""
    check_level(METADATA_VERSION, level)
    return METADATA_VERSIONS[level]


def metadata_version_named(text: str) -> MetadataVersion:
    """The metadata version of a name such as `4.3-IV0`, or of a release such as `4.3` or `4.3.1`: its newest.

    Raises UnsupportedFeatureError for any other text.
    """
    release = ".".join(text.split(".")[:2])
    newest = None
    for version in METADATA_VERSIONS.values():
        if version.name == text:
            return version
        if version.release == release and "-" not in text:
            newest = version
    if newest is None:
        known = ", ".join(version.name for version in METADATA_VERSIONS.values())
        raise UnsupportedFeatureError(f"unknown metadata.version {text}: supported are {known}")
    return newest
