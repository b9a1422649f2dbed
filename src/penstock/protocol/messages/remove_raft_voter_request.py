"""RemoveRaftVoterRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class RemoveRaftVoterRequest(Message, key=81, versions=(0, 0), flexible_from=0):
    """RemoveRaftVoterRequest, versions 0 to 0."""

    cluster_id: str | None = ''
    voter_id: int = 0
    voter_directory_id: UUID = ZERO_UUID
