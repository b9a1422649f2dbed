"""ControllerRegistrationRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ControllerRegistrationRequest(Message, key=70, versions=(0, 0), flexible_from=0):
    """ControllerRegistrationRequest, versions 0 to 0."""

    controller_id: int = 0
    incarnation_id: UUID = ZERO_UUID
    zk_migration_ready: bool = False
    listeners: list[Listener] = ABSENT
    features: list[Feature] = ABSENT


class Listener(Struct):
    name: str = ''
    host: str = ''
    port: int = 0
    security_protocol: int = 0


class Feature(Struct):
    name: str = ''
    min_supported_version: int = 0
    max_supported_version: int = 0
