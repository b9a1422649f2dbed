"""ApiVersionsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ApiVersionsResponse(Message):
    """ApiVersionsResponse, versions 0 to 4."""

    __slots__ = ("error_code", "api_keys", "throttle_time_ms", "supported_features", "finalized_features_epoch", "finalized_features", "zk_migration_ready",)

    NAME = "ApiVersionsResponse"
    KEY = 18
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        error_code: int = 0,
        api_keys: list[ApiVersion] = ABSENT,
        throttle_time_ms: int = 0,
        supported_features: list[SupportedFeatureKey] = ABSENT,
        finalized_features_epoch: int = -1,
        finalized_features: list[FinalizedFeatureKey] = ABSENT,
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys = [] if api_keys is ABSENT else api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = [] if supported_features is ABSENT else supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = [] if finalized_features is ABSENT else finalized_features
        self.zk_migration_ready = zk_migration_ready


class ApiVersion(Struct):
    __slots__ = ("api_key", "min_version", "max_version",)

    def __init__(
        self,
        *,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version


class SupportedFeatureKey(Struct):
    __slots__ = ("name", "min_version", "max_version",)

    def __init__(
        self,
        *,
        name: str = '',
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version


class FinalizedFeatureKey(Struct):
    __slots__ = ("name", "max_version_level", "min_version_level",)

    def __init__(
        self,
        *,
        name: str = '',
        max_version_level: int = 0,
        min_version_level: int = 0,
    ) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level
