"""RegisterControllerRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class RegisterControllerRecord(Message, key=27, versions=(0, 0), flexible_from=0):
    """RegisterControllerRecord, versions 0 to 0."""

    controller_id: int = 0
    incarnation_id: UUID = ZERO_UUID
    zk_migration_ready: bool = False
    end_points: list[ControllerEndpoint] = ABSENT
    features: list[ControllerFeature] = ABSENT


class ControllerEndpoint(Struct):
    name: str = ''
    host: str = ''
    port: int = 0
    security_protocol: int = 0


class ControllerFeature(Struct):
    name: str = ''
    min_supported_version: int = 0
    max_supported_version: int = 0
