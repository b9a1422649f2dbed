"""FindCoordinatorRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class FindCoordinatorRequest(Message):
    """FindCoordinatorRequest, versions 0 to 6."""

    __slots__ = ("key", "key_type", "coordinator_keys",)

    NAME = "FindCoordinatorRequest"
    KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        key: str = '',
        key_type: int = 0,
        coordinator_keys: list[str] = ABSENT,
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = [] if coordinator_keys is ABSENT else coordinator_keys
