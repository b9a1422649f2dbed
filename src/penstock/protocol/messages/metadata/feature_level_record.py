"""FeatureLevelRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class FeatureLevelRecord(Message):
    """FeatureLevelRecord, versions 0 to 0."""

    __slots__ = ("name", "feature_level",)

    NAME = "FeatureLevelRecord"
    KEY = 12
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        name: str = '',
        feature_level: int = 0,
    ) -> None:
        self.name = name
        self.feature_level = feature_level
