"""LeaderChangeMessage. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class LeaderChangeMessage(Message, key=-1, versions=(0, 1), flexible_from=0):
    """LeaderChangeMessage, versions 0 to 1."""

    version: int = 0
    leader_id: int = 0
    voters: list[Voter] = ABSENT
    granting_voters: list[Voter] = ABSENT


class Voter(Struct):
    voter_id: int = 0
    voter_directory_id: UUID = ZERO_UUID
