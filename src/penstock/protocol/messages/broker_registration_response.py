"""BrokerRegistrationResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class BrokerRegistrationResponse(Message, key=62, versions=(0, 4), flexible_from=0):
    """BrokerRegistrationResponse, versions 0 to 4."""

    throttle_time_ms: int = 0
    error_code: int = 0
    broker_epoch: int = -1
