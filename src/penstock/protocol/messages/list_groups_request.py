"""ListGroupsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class ListGroupsRequest(Message):
    """ListGroupsRequest, versions 0 to 5."""

    __slots__ = ("states_filter", "types_filter",)

    NAME = "ListGroupsRequest"
    KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        states_filter: list[str] = ABSENT,
        types_filter: list[str] = ABSENT,
    ) -> None:
        self.states_filter = [] if states_filter is ABSENT else states_filter
        self.types_filter = [] if types_filter is ABSENT else types_filter
