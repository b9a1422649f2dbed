"""BrokerHeartbeatRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message


class BrokerHeartbeatRequest(Message, key=63, versions=(0, 2), flexible_from=0):
    """BrokerHeartbeatRequest, versions 0 to 2."""

    broker_id: int = 0
    broker_epoch: int = -1
    current_metadata_offset: int = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: list[UUID] = ABSENT
    cordoned_log_dirs: list[UUID] | None = None
