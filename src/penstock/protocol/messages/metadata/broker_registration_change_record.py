"""BrokerRegistrationChangeRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message


class BrokerRegistrationChangeRecord(Message, key=17, versions=(0, 3), flexible_from=0):
    """BrokerRegistrationChangeRecord, versions 0 to 3."""

    broker_id: int = 0
    broker_epoch: int = 0
    fenced: int = 0
    in_controlled_shutdown: int = 0
    log_dirs: list[UUID] = ABSENT
    cordoned_log_dirs: list[UUID] | None = None
