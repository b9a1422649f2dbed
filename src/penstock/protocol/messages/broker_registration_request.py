"""BrokerRegistrationRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class BrokerRegistrationRequest(Message, key=62, versions=(0, 4), flexible_from=0):
    """BrokerRegistrationRequest, versions 0 to 4."""

    broker_id: int = 0
    cluster_id: str = ''
    incarnation_id: UUID = ZERO_UUID
    listeners: list[Listener] = ABSENT
    features: list[Feature] = ABSENT
    rack: str | None = ''
    is_migrating_zk_broker: bool = False
    log_dirs: list[UUID] = ABSENT
    previous_broker_epoch: int = -1


class Listener(Struct):
    name: str = ''
    host: str = ''
    port: int = 0
    security_protocol: int = 0


class Feature(Struct):
    name: str = ''
    min_supported_version: int = 0
    max_supported_version: int = 0
