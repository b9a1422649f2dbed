"""DeleteGroupsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class DeleteGroupsRequest(Message):
    """DeleteGroupsRequest, versions 0 to 2."""

    __slots__ = ("groups_names",)

    NAME = "DeleteGroupsRequest"
    KEY = 42
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        groups_names: list[str] = ABSENT,
    ) -> None:
        self.groups_names = [] if groups_names is ABSENT else groups_names
