"""DescribeUserScramCredentialsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeUserScramCredentialsRequest(Message):
    """DescribeUserScramCredentialsRequest, versions 0 to 0."""

    __slots__ = ("users",)

    NAME = "DescribeUserScramCredentialsRequest"
    KEY = 50
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        users: list[UserName] | None = ABSENT,
    ) -> None:
        self.users = [] if users is ABSENT else users


class UserName(Struct):
    __slots__ = ("name",)

    def __init__(
        self,
        *,
        name: str = '',
    ) -> None:
        self.name = name
