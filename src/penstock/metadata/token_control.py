"""The controller's side of delegation tokens, as Kafka's DelegationTokenControlManager (KIP-48, KIP-373)."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.delegation_tokens import USER_PREFIX, DelegationToken
from penstock.metadata.limits import DELEGATION_TOKENS_MAX, RENEWERS_PER_TOKEN_MAX
from penstock.metadata.result import Result
from penstock.protocol.messages.metadata.remove_delegation_token_record import RemoveDelegationTokenRecord

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

TIMESTAMP_MAX_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The settings: how long tokens can be renewed, and how long they are good after each renewal, at most."""

    max_ms: int
    renewed_ms: int


def create_token(
    controller: Controller, owner: str, requester: str, renewers: Sequence[str], *, max_lifetime_ms: int, now_ms: int
) -> Result[DelegationToken]:
    """Makes a token. `max_lifetime_ms` of 0 or less means the longest. Raises RequestError."""
    check_renewers(renewers)
    tokens, lifetimes = controller.image.delegation_tokens, lifetimes_of(controller)
    if len(tokens) >= DELEGATION_TOKENS_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION)
    lifetime_ms = min(lifetimes.max_ms, max_lifetime_ms) if max_lifetime_ms > 0 else lifetimes.max_ms
    max_ms = later(now_ms, lifetime_ms)
    expires_ms = min(max_ms, later(now_ms, lifetimes.renewed_ms))
    token = DelegationToken(new_id(controller), owner, requester, tuple(renewers), now_ms, max_ms, expires_ms)
    return Result(token, [token.record()])


def check_renewers(renewers: Sequence[str]) -> None:
    """Raises RequestError for those who cannot renew a token, and if they are too many."""
    if len(renewers) > RENEWERS_PER_TOKEN_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION)
    if not all(each.startswith(USER_PREFIX) for each in renewers):
        raise RequestError(ErrorCode.INVALID_PRINCIPAL_TYPE)


def renew_token(
    controller: Controller, token: DelegationToken | None, principal: str, period_ms: int, now_ms: int
) -> Result[DelegationToken]:
    """Has a token be good for longer: `period_ms` from now, or if that is 0 or less, as long as a new one. Raises
    RequestError.
    """
    found = checked(token)
    if found.is_over(now_ms):
        raise RequestError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    check_renewer(found, principal)
    longest_ms = lifetimes_of(controller).renewed_ms
    renewed_ms = min(longest_ms, period_ms) if period_ms > 0 else longest_ms
    return changed(found, later(now_ms, renewed_ms))


def expire_token(
    token: DelegationToken | None, principal: str, period_ms: int, now_ms: int
) -> Result[DelegationToken | None]:
    """Ends a token at once, if `period_ms` is negative, or that long from now. Raises RequestError."""
    found = checked(token)
    check_renewer(found, principal)
    if period_ms < 0:
        return Result(None, [RemoveDelegationTokenRecord(token_id=found.id)])
    if found.is_over(now_ms):
        raise RequestError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    after = changed(found, later(now_ms, period_ms))
    return Result(after.response, after.records)


def changed(token: DelegationToken, expires_ms: int) -> Result[DelegationToken]:
    """The token with another end, which is never after `max_ms`."""
    after = replace(token, expires_ms=min(token.max_ms, expires_ms))
    return Result(after, [after.record()])


def checked(token: DelegationToken | None) -> DelegationToken:
    """Raises RequestError for a token that does not exist."""
    if token is None:
        raise RequestError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return token


def check_renewer(token: DelegationToken, principal: str) -> None:
    """Raises RequestError for somebody who is neither owner nor renewer."""
    if not token.may_renew(principal):
        raise RequestError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def later(now_ms: int, duration_ms: int) -> int:
    """A time after now that fits into 64 bits."""
    return min(TIMESTAMP_MAX_MS, now_ms + duration_ms)


def lifetimes_of(controller: Controller) -> Lifetimes:
    settings = controller.settings
    return Lifetimes(settings.delegation_token_max_lifetime_ms, settings.delegation_token_expiry_time_ms)


def new_id(controller: Controller) -> str:
    """An id as Kafka makes them: a random UUID in URL-safe base 64."""
    return urlsafe_b64encode(controller.random_id().bytes).decode().rstrip("=")
