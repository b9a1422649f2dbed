"""DescribeDelegationTokenRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeDelegationTokenRequest(Message, key=41, versions=(1, 3), flexible_from=2):
    """DescribeDelegationTokenRequest, versions 1 to 3."""

    owners: list[DescribeDelegationTokenOwner] | None = ABSENT


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = ''
    principal_name: str = ''
