"""VotersRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class VotersRecord(Message):
    """VotersRecord, versions 0 to 0."""

    __slots__ = ("version", "voters",)

    NAME = "VotersRecord"
    KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        version: int = 0,
        voters: list[Voter] = ABSENT,
    ) -> None:
        self.version = version
        self.voters = [] if voters is ABSENT else voters


class Voter(Struct):
    __slots__ = ("voter_id", "voter_directory_id", "endpoints", "kraft_version_feature",)

    def __init__(
        self,
        *,
        voter_id: int = 0,
        voter_directory_id: UUID = ZERO_UUID,
        endpoints: list[Endpoint] = ABSENT,
        kraft_version_feature: KRaftVersionFeature = ABSENT,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.endpoints = [] if endpoints is ABSENT else endpoints
        self.kraft_version_feature = KRaftVersionFeature() if kraft_version_feature is ABSENT else kraft_version_feature


class Endpoint(Struct):
    __slots__ = ("name", "host", "port",)

    def __init__(
        self,
        *,
        name: str = '',
        host: str = '',
        port: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port


class KRaftVersionFeature(Struct):
    __slots__ = ("min_supported_version", "max_supported_version",)

    def __init__(
        self,
        *,
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version
