"""ConsumerGroupRegularExpressionKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ConsumerGroupRegularExpressionKey(Message, key=16, versions=(0, 0)):
    """ConsumerGroupRegularExpressionKey, versions 0 to 0."""

    group_id: str = ''
    regular_expression: str = ''
