"""AddRaftVoterRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class AddRaftVoterRequest(Message, key=80, versions=(0, 1), flexible_from=0):
    """AddRaftVoterRequest, versions 0 to 1."""

    cluster_id: str | None = ''
    timeout_ms: int = 0
    voter_id: int = 0
    voter_directory_id: UUID = ZERO_UUID
    listeners: list[Listener] = ABSENT
    ack_when_committed: bool = True


class Listener(Struct):
    name: str = ''
    host: str = ''
    port: int = 0
