"""ApiVersionsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ApiVersionsResponse(Message, key=18, versions=(0, 4), flexible_from=3):
    """ApiVersionsResponse, versions 0 to 4."""

    error_code: int = 0
    api_keys: list[ApiVersion] = ABSENT
    throttle_time_ms: int = 0
    supported_features: list[SupportedFeatureKey] = ABSENT
    finalized_features_epoch: int = -1
    finalized_features: list[FinalizedFeatureKey] = ABSENT
    zk_migration_ready: bool = False


class ApiVersion(Struct):
    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


class SupportedFeatureKey(Struct):
    name: str = ''
    min_version: int = 0
    max_version: int = 0


class FinalizedFeatureKey(Struct):
    name: str = ''
    max_version_level: int = 0
    min_version_level: int = 0
