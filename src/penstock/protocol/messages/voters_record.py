"""VotersRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class VotersRecord(Message, key=-1, versions=(0, 0), flexible_from=0):
    """VotersRecord, versions 0 to 0."""

    version: int = 0
    voters: list[Voter] = ABSENT


class Voter(Struct):
    voter_id: int = 0
    voter_directory_id: UUID = ZERO_UUID
    endpoints: list[Endpoint] = ABSENT
    kraft_version_feature: KRaftVersionFeature = ABSENT


class Endpoint(Struct):
    name: str = ''
    host: str = ''
    port: int = 0


class KRaftVersionFeature(Struct):
    min_supported_version: int = 0
    max_supported_version: int = 0
