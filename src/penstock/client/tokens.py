"""Delegation tokens of any Kafka cluster: make, renew, end and describe them (KIP-48, KIP-373).

The cluster serves these to who has logged in with credentials, and not by a token itself.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.client.admin import refused
from penstock.errors import ErrorCode, RequestError

if TYPE_CHECKING:
    from penstock.client.client import Client

SENTENCES = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "the cluster has none: its nodes have no delegation.token.secret.key",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "they are for who has logged in with credentials, and not by a "
    "token; and only where the controllers' listener is not PLAINTEXT",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "only its owner and its renewers may renew or end one",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "to make one for somebody else needs CREATE_TOKENS on that user",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "there is no such token",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "the token has expired",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "a renewer must be such as User:alice",
}
"""What the errors mean, which come without a message."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token. Principals are written as `User:alice`, times are milliseconds since the epoch."""

    id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    @property
    def password(self) -> str:
        """What its bearer logs in with by SCRAM; the user name is the id."""
        return b64encode(self.hmac).decode()


def check(code: int) -> None:
    """Raises RequestError if the code is an error."""
    error = ErrorCode.of_peer(code)
    refused(error, SENTENCES.get(error), "delegation tokens")


async def create_token(
    client: Client, *, owner: str | None = None, renewers: Sequence[str] = (), max_lifetime_ms: int = -1
) -> Token:
    """Makes a token, for oneself or for `owner`. -1: as long as the cluster allows. Raises RequestError."""
    from penstock.protocol.messages.create_delegation_token_request import (
        CreatableRenewers,
        CreateDelegationTokenRequest,
    )

    kind, _, name = (owner or "").partition(":")
    named = [each.partition(":") for each in renewers]
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind or None,
        owner_principal_name=name or None,
        renewers=[CreatableRenewers(principal_type=each[0], principal_name=each[2]) for each in named],
        max_lifetime_ms=max_lifetime_ms,
    )
    answer = await client.send(request)
    check(answer.error_code)
    made_for = f"{answer.principal_type}:{answer.principal_name}"
    requester = f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}"
    return Token(
        answer.token_id,
        bytes(answer.hmac),
        made_for,
        made_for if requester == ":" else requester,
        tuple(renewers),
        answer.issue_timestamp_ms,
        answer.expiry_timestamp_ms,
        answer.max_timestamp_ms,
    )


async def describe_tokens(client: Client, owners: Sequence[str] = ()) -> list[Token]:
    """The tokens that one may see and that concern these owners, or any if none is named. Raises RequestError."""
    from penstock.protocol.messages.describe_delegation_token_request import (
        DescribeDelegationTokenOwner,
        DescribeDelegationTokenRequest,
    )

    named = [each.partition(":") for each in owners]
    wanted = [DescribeDelegationTokenOwner(principal_type=each[0], principal_name=each[2]) for each in named]
    answer = await client.send(DescribeDelegationTokenRequest(owners=wanted or None))
    check(answer.error_code)
    return [token_of(each) for each in answer.tokens]


def token_of(described: object) -> Token:
    from penstock.protocol.messages.describe_delegation_token_response import DescribedDelegationToken

    assert isinstance(described, DescribedDelegationToken)
    owner = f"{described.principal_type}:{described.principal_name}"
    requester = f"{described.token_requester_principal_type}:{described.token_requester_principal_name}"
    return Token(
        described.token_id,
        bytes(described.hmac),
        owner,
        owner if requester == ":" else requester,
        tuple(f"{each.principal_type}:{each.principal_name}" for each in described.renewers),
        described.issue_timestamp,
        described.expiry_timestamp,
        described.max_timestamp,
    )


async def token_named(client: Client, token_id: str) -> Token:
    """The token with an id, if one may see it. Raises RequestError."""
    for token in await describe_tokens(client):
        if token.id == token_id:
            return token
    raise RequestError(
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND, f"delegation token {token_id}: there is none that you may see"
    )


async def renew_token(client: Client, key: bytes, period_ms: int = -1) -> int:
    """Has the token with an HMAC be good for longer; returns until when. -1: as long as the cluster allows. Raises
    RequestError.
    """
    from penstock.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest

    answer = await client.send(RenewDelegationTokenRequest(hmac=key, renew_period_ms=period_ms))
    check(answer.error_code)
    return int(answer.expiry_timestamp_ms)


async def expire_token(client: Client, key: bytes, period_ms: int = -1) -> int:
    """Ends the token with an HMAC after a while, -1: at once; returns when. Raises RequestError."""
    from penstock.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest

    answer = await client.send(ExpireDelegationTokenRequest(hmac=key, expiry_time_period_ms=period_ms))
    check(answer.error_code)
    return int(answer.expiry_timestamp_ms)
