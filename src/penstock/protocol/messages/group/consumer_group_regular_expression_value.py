"""ConsumerGroupRegularExpressionValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class ConsumerGroupRegularExpressionValue(Message, key=16, versions=(0, 0), flexible_from=0):
    """ConsumerGroupRegularExpressionValue, versions 0 to 0."""

    topics: list[str] = ABSENT
    version: int = 0
    timestamp: int = 0
