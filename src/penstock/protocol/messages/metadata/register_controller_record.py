"""RegisterControllerRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class RegisterControllerRecord(Message):
    """RegisterControllerRecord, versions 0 to 0."""

    __slots__ = ("controller_id", "incarnation_id", "zk_migration_ready", "end_points", "features",)

    NAME = "RegisterControllerRecord"
    KEY = 27
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        controller_id: int = 0,
        incarnation_id: UUID = ZERO_UUID,
        zk_migration_ready: bool = False,
        end_points: list[ControllerEndpoint] = ABSENT,
        features: list[ControllerFeature] = ABSENT,
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.end_points = [] if end_points is ABSENT else end_points
        self.features = [] if features is ABSENT else features


class ControllerEndpoint(Struct):
    __slots__ = ("name", "host", "port", "security_protocol",)

    def __init__(
        self,
        *,
        name: str = '',
        host: str = '',
        port: int = 0,
        security_protocol: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class ControllerFeature(Struct):
    __slots__ = ("name", "min_supported_version", "max_supported_version",)

    def __init__(
        self,
        *,
        name: str = '',
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version
