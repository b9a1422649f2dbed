"""QuorumStateData. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class QuorumStateData(Message, key=-1, versions=(0, 1), flexible_from=0):
    """QuorumStateData, versions 0 to 1."""

    cluster_id: str = ''
    leader_id: int = -1
    leader_epoch: int = -1
    voted_id: int = -1
    voted_directory_id: UUID = ZERO_UUID
    applied_offset: int = 0
    current_voters: list[Voter] | None = ABSENT


class Voter(Struct):
    voter_id: int = 0
