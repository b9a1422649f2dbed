"""RegisterBrokerRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class RegisterBrokerRecord(Message, key=0, versions=(0, 4), flexible_from=0):
    """RegisterBrokerRecord, versions 0 to 4."""

    broker_id: int = 0
    is_migrating_zk_broker: bool = False
    incarnation_id: UUID = ZERO_UUID
    broker_epoch: int = 0
    end_points: list[BrokerEndpoint] = ABSENT
    features: list[BrokerFeature] = ABSENT
    rack: str | None = ''
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: list[UUID] = ABSENT
    cordoned_log_dirs: list[UUID] | None = None


class BrokerEndpoint(Struct):
    name: str = ''
    host: str = ''
    port: int = 0
    security_protocol: int = 0


class BrokerFeature(Struct):
    name: str = ''
    min_supported_version: int = 0
    max_supported_version: int = 0
