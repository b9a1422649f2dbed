"""ListConfigResourcesRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class ListConfigResourcesRequest(Message):
    """ListConfigResourcesRequest, versions 0 to 1."""

    __slots__ = ("resource_types",)

    NAME = "ListConfigResourcesRequest"
    KEY = 74
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        resource_types: list[int] = ABSENT,
    ) -> None:
        self.resource_types = [] if resource_types is ABSENT else resource_types
