"""CreateDelegationTokenRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class CreateDelegationTokenRequest(Message):
    """CreateDelegationTokenRequest, versions 1 to 3."""

    __slots__ = ("owner_principal_type", "owner_principal_name", "renewers", "max_lifetime_ms",)

    NAME = "CreateDelegationTokenRequest"
    KEY = 38
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        owner_principal_type: str | None = '',
        owner_principal_name: str | None = '',
        renewers: list[CreatableRenewers] = ABSENT,
        max_lifetime_ms: int = 0,
    ) -> None:
        self.owner_principal_type = owner_principal_type
        self.owner_principal_name = owner_principal_name
        self.renewers = [] if renewers is ABSENT else renewers
        self.max_lifetime_ms = max_lifetime_ms


class CreatableRenewers(Struct):
    __slots__ = ("principal_type", "principal_name",)

    def __init__(
        self,
        *,
        principal_type: str = '',
        principal_name: str = '',
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
