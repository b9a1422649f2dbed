"""DelegationTokenRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class DelegationTokenRecord(Message, key=10, versions=(0, 0), flexible_from=0):
    """DelegationTokenRecord, versions 0 to 0."""

    owner: str = ''
    requester: str = ''
    renewers: list[str] = ABSENT
    issue_timestamp: int = 0
    max_timestamp: int = 0
    expiration_timestamp: int = 0
    token_id: str = ''
