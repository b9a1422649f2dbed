"""BrokerRegistrationChangeRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message


class BrokerRegistrationChangeRecord(Message):
    """BrokerRegistrationChangeRecord, versions 0 to 3."""

    __slots__ = ("broker_id", "broker_epoch", "fenced", "in_controlled_shutdown", "log_dirs", "cordoned_log_dirs",)

    NAME = "BrokerRegistrationChangeRecord"
    KEY = 17
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = 0,
        fenced: int = 0,
        in_controlled_shutdown: int = 0,
        log_dirs: list[UUID] = ABSENT,
        cordoned_log_dirs: list[UUID] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs = [] if log_dirs is ABSENT else log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs
