"""DescribeClientQuotasRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeClientQuotasRequest(Message):
    """DescribeClientQuotasRequest, versions 0 to 1."""

    __slots__ = ("components", "strict",)

    NAME = "DescribeClientQuotasRequest"
    KEY = 48
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        components: list[ComponentData] = ABSENT,
        strict: bool = False,
    ) -> None:
        self.components = [] if components is ABSENT else components
        self.strict = strict


class ComponentData(Struct):
    __slots__ = ("entity_type", "match_type", "match",)

    def __init__(
        self,
        *,
        entity_type: str = '',
        match_type: int = 0,
        match: str | None = '',
    ) -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match
