"""ConsumerGroupRegularExpressionKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ConsumerGroupRegularExpressionKey(Message):
    """ConsumerGroupRegularExpressionKey, versions 0 to 0."""

    __slots__ = ("group_id", "regular_expression",)

    NAME = "ConsumerGroupRegularExpressionKey"
    KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        group_id: str = '',
        regular_expression: str = '',
    ) -> None:
        self.group_id = group_id
        self.regular_expression = regular_expression
