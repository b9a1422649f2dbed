"""CreateDelegationTokenRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class CreateDelegationTokenRequest(Message, key=38, versions=(1, 3), flexible_from=2):
    """CreateDelegationTokenRequest, versions 1 to 3."""

    owner_principal_type: str | None = ''
    owner_principal_name: str | None = ''
    renewers: list[CreatableRenewers] = ABSENT
    max_lifetime_ms: int = 0


class CreatableRenewers(Struct):
    principal_type: str = ''
    principal_name: str = ''
