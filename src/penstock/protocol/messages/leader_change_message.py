"""LeaderChangeMessage. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class LeaderChangeMessage(Message):
    """LeaderChangeMessage, versions 0 to 1."""

    __slots__ = ("version", "leader_id", "voters", "granting_voters",)

    NAME = "LeaderChangeMessage"
    KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        version: int = 0,
        leader_id: int = 0,
        voters: list[Voter] = ABSENT,
        granting_voters: list[Voter] = ABSENT,
    ) -> None:
        self.version = version
        self.leader_id = leader_id
        self.voters = [] if voters is ABSENT else voters
        self.granting_voters = [] if granting_voters is ABSENT else granting_voters


class Voter(Struct):
    __slots__ = ("voter_id", "voter_directory_id",)

    def __init__(
        self,
        *,
        voter_id: int = 0,
        voter_directory_id: UUID = ZERO_UUID,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
