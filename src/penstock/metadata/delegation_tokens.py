"""Delegation tokens: what the metadata log keeps of them, and the controller's side of their life (KIP-48, KIP-373).

A token is an id, whose it is, who may renew it, and until when it is good. Who has its HMAC, SHA-512 of the id under
`delegation.token.secret.key`, may log in as its owner. The log holds no HMAC: all nodes have the key, and derive it.

Owner and renewers may renew a token until `max_ms`, and end it. It is good until `expires_ms`; the controller removes
those that are past that every `delegation.token.expiry.check.interval.ms`.

All metadata versions that are supported here have these records (Kafka's since 3.6-IV2).
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.limits import DELEGATION_TOKENS_MAX, RENEWERS_PER_TOKEN_MAX, TOKENS_SWEPT_PER_STEP
from penstock.metadata.persistent import PersistentMap
from penstock.metadata.result import MetadataMessage, Result
from penstock.protocol.messages.metadata.delegation_token_record import DelegationTokenRecord
from penstock.protocol.messages.metadata.remove_delegation_token_record import RemoveDelegationTokenRecord

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

USER_PREFIX = "User:"
"""How the only principals begin that may renew a token, or log in by one."""
TIMESTAMP_MAX_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """One token. Principals are written as `User:alice`, times are milliseconds since the epoch.

    Attributes:
        owner: whom its bearer logs in as. requester: who had it made. renewers: who may renew and end it, too.
        issued_ms: when it was made. max_ms: how long it can be renewed. expires_ms: how long it is good.
    """

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    @staticmethod
    def of(record: DelegationTokenRecord) -> DelegationToken:
        """What a record keeps."""
        return DelegationToken(
            record.token_id,
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )

    def record(self) -> DelegationTokenRecord:
        """The record that keeps it."""
        return DelegationTokenRecord(
            owner=self.owner,
            requester=self.requester,
            renewers=list(self.renewers),
            issue_timestamp=self.issued_ms,
            max_timestamp=self.max_ms,
            expiration_timestamp=self.expires_ms,
            token_id=self.id,
        )

    @property
    def owner_name(self) -> str:
        """The name of the owner, without the type."""
        return self.owner.partition(":")[2]

    def is_over(self, now_ms: int) -> bool:
        """Whether it is past its time, as Kafka's controllers see it."""
        return self.expires_ms < now_ms or self.max_ms < now_ms

    def may_renew(self, principal: str) -> bool:
        """Whether a principal may renew and end it."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principals: frozenset[str]) -> bool:
        """Whether one of these principals owns it, had it made or may renew it, and so may see it."""
        return not principals.isdisjoint((self.owner, self.requester, *self.renewers))


DelegationTokens = PersistentMap[str, DelegationToken]
"""All tokens, by id."""


def hmac_of(secret: str, token_id: str) -> bytes:
    """The HMAC of a token: what its bearer must have."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


class TokenIds:
    """The ids of tokens by their HMACs, which is how requests name them. For the active controller.

    HMACs of the tokens that it begins with are computed as far as they are looked for, those of others as they come.

    Args:
        secret: delegation.token.secret.key; empty: there are no tokens to look for. tokens: those to begin with.
    """

    def __init__(self, secret: str, tokens: DelegationTokens) -> None:
        self._secret = secret
        self._ids: dict[bytes, str] = {}
        self._not_computed = iter(tokens if secret else ())

    def follow(self, changes: Mapping[str, DelegationToken | None]) -> None:
        """Some tokens are new, changed or gone (None)."""
        if self._secret:
            for token_id, token in changes.items():
                key = hmac_of(self._secret, token_id)
                if token is None:
                    self._ids.pop(key, None)
                else:
                    self._ids[key] = token_id

    def looked_for(self, key: bytes) -> Iterator[str | None]:
        """The last value is the id of the token with this HMAC, None if there is none; before it comes a None for each
        HMAC that is computed, so that the caller can pause."""
        for token_id in self._not_computed if key not in self._ids else ():
            self._ids[hmac_of(self._secret, token_id)] = token_id
            if key in self._ids:
                break
            yield None
        yield self._ids.get(key)


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


def removals(tokens: DelegationTokens, start: str | None, now_ms: int) -> tuple[list[MetadataMessage], str | None]:
    """The removal of each token that is past its time among the next TOKENS_SWEPT_PER_STEP from the id `start` on, and
    the id to go on from; None when all were looked at.
    """
    records: list[MetadataMessage] = []
    for looked_at, (token_id, token) in enumerate(tokens.items(start)):
        if looked_at == TOKENS_SWEPT_PER_STEP:
            return records, token_id
        if token.is_over(now_ms):
            records.append(RemoveDelegationTokenRecord(token_id=token_id))
    return records, None


def with_changes(tokens: DelegationTokens, changes: Mapping[str, DelegationToken | None]) -> DelegationTokens:
    """All tokens after some are new, changed or gone (None)."""
    for token_id, token in changes.items():
        tokens = tokens.remove(token_id) if token is None else tokens.set(token_id, token)
    return tokens


def differences(old: DelegationTokens, new: DelegationTokens) -> dict[str, DelegationToken | None]:
    """The tokens that are new or changed, and None for those that are gone."""
    ids: Iterable[str] = dict.fromkeys([*old, *new])
    return {each: new.get(each) for each in ids if new.get(each) != old.get(each)}
