"""UpdateFeaturesRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class UpdateFeaturesRequest(Message, key=57, versions=(0, 2), flexible_from=0):
    """UpdateFeaturesRequest, versions 0 to 2."""

    timeout_ms: int = 60000
    feature_updates: list[FeatureUpdateKey] = ABSENT
    validate_only: bool = False


class FeatureUpdateKey(Struct):
    feature: str = ''
    max_version_level: int = 0
    allow_downgrade: bool = False
    upgrade_type: int = 1
