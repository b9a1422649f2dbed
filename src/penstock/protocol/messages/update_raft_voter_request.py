"""UpdateRaftVoterRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class UpdateRaftVoterRequest(Message, key=82, versions=(0, 0), flexible_from=0):
    """UpdateRaftVoterRequest, versions 0 to 0."""

    cluster_id: str | None = ''
    current_leader_epoch: int = 0
    voter_id: int = 0
    voter_directory_id: UUID = ZERO_UUID
    listeners: list[Listener] = ABSENT
    kraft_version_feature: KRaftVersionFeature = ABSENT


class Listener(Struct):
    name: str = ''
    host: str = ''
    port: int = 0


class KRaftVersionFeature(Struct):
    min_supported_version: int = 0
    max_supported_version: int = 0
