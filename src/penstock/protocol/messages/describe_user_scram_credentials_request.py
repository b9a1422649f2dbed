"""DescribeUserScramCredentialsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeUserScramCredentialsRequest(Message, key=50, versions=(0, 0), flexible_from=0):
    """DescribeUserScramCredentialsRequest, versions 0 to 0."""

    users: list[UserName] | None = ABSENT


class UserName(Struct):
    name: str = ''
