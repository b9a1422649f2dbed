"""DelegationTokenRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class DelegationTokenRecord(Message):
    """DelegationTokenRecord, versions 0 to 0."""

    __slots__ = ("owner", "requester", "renewers", "issue_timestamp", "max_timestamp", "expiration_timestamp", "token_id",)

    NAME = "DelegationTokenRecord"
    KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        owner: str = '',
        requester: str = '',
        renewers: list[str] = ABSENT,
        issue_timestamp: int = 0,
        max_timestamp: int = 0,
        expiration_timestamp: int = 0,
        token_id: str = '',
    ) -> None:
        self.owner = owner
        self.requester = requester
        self.renewers = [] if renewers is ABSENT else renewers
        self.issue_timestamp = issue_timestamp
        self.max_timestamp = max_timestamp
        self.expiration_timestamp = expiration_timestamp
        self.token_id = token_id
