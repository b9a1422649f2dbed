"""BrokerRegistrationRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class BrokerRegistrationRequest(Message):
    """BrokerRegistrationRequest, versions 0 to 4."""

    __slots__ = ("broker_id", "cluster_id", "incarnation_id", "listeners", "features", "rack", "is_migrating_zk_broker", "log_dirs", "previous_broker_epoch",)

    NAME = "BrokerRegistrationRequest"
    KEY = 62
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        broker_id: int = 0,
        cluster_id: str = '',
        incarnation_id: UUID = ZERO_UUID,
        listeners: list[Listener] = ABSENT,
        features: list[Feature] = ABSENT,
        rack: str | None = '',
        is_migrating_zk_broker: bool = False,
        log_dirs: list[UUID] = ABSENT,
        previous_broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.incarnation_id = incarnation_id
        self.listeners = [] if listeners is ABSENT else listeners
        self.features = [] if features is ABSENT else features
        self.rack = rack
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.log_dirs = [] if log_dirs is ABSENT else log_dirs
        self.previous_broker_epoch = previous_broker_epoch


class Listener(Struct):
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


class Feature(Struct):
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
