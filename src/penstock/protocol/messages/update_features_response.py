"""UpdateFeaturesResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class UpdateFeaturesResponse(Message, key=57, versions=(0, 2), flexible_from=0):
    """UpdateFeaturesResponse, versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ''
    results: list[UpdatableFeatureResult] = ABSENT


class UpdatableFeatureResult(Struct):
    feature: str = ''
    error_code: int = 0
    error_message: str | None = ''
