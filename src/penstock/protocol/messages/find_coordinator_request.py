"""FindCoordinatorRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class FindCoordinatorRequest(Message, key=10, versions=(0, 6), flexible_from=3):
    """FindCoordinatorRequest, versions 0 to 6."""

    key: str = ''
    key_type: int = 0
    coordinator_keys: list[str] = ABSENT
