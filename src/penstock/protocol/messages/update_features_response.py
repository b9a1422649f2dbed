"""UpdateFeaturesResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class UpdateFeaturesResponse(Message):
    """UpdateFeaturesResponse, versions 0 to 2."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results",)

    NAME = "UpdateFeaturesResponse"
    KEY = 57
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = '',
        results: list[UpdatableFeatureResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is ABSENT else results


class UpdatableFeatureResult(Struct):
    __slots__ = ("feature", "error_code", "error_message",)

    def __init__(
        self,
        *,
        feature: str = '',
        error_code: int = 0,
        error_message: str | None = '',
    ) -> None:
        self.feature = feature
        self.error_code = error_code
        self.error_message = error_message
