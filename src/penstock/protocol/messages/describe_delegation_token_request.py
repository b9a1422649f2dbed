"""DescribeDelegationTokenRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeDelegationTokenRequest(Message):
    """DescribeDelegationTokenRequest, versions 1 to 3."""

    __slots__ = ("owners",)

    NAME = "DescribeDelegationTokenRequest"
    KEY = 41
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        owners: list[DescribeDelegationTokenOwner] | None = ABSENT,
    ) -> None:
        self.owners = [] if owners is ABSENT else owners


class DescribeDelegationTokenOwner(Struct):
    __slots__ = ("principal_type", "principal_name",)

    def __init__(
        self,
        *,
        principal_type: str = '',
        principal_name: str = '',
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
