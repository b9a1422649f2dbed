"""RemoveRaftVoterRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class RemoveRaftVoterRequest(Message):
    """RemoveRaftVoterRequest, versions 0 to 0."""

    __slots__ = ("cluster_id", "voter_id", "voter_directory_id",)

    NAME = "RemoveRaftVoterRequest"
    KEY = 81
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        cluster_id: str | None = '',
        voter_id: int = 0,
        voter_directory_id: UUID = ZERO_UUID,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
