"""Delegation tokens: what the metadata log keeps of them, and who finds them (KIP-48, KIP-373).

A token is an id, whose it is, who may renew it, and until when it is good. Who has its HMAC, SHA-512 of the id under
`delegation.token.secret.key`, may log in as its owner. The log holds no HMAC: all nodes have the key, and derive it.

Owner and renewers may renew a token until `max_ms`, and end it. It is good until `expires_ms`; the controller removes
those that are past that every `delegation.token.expiry.check.interval.ms`.

All metadata versions that are supported here have these records (Kafka's since 3.6-IV2).
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from penstock.metadata.limits import TOKENS_SWEPT_PER_STEP
from penstock.metadata.persistent import PersistentMap
from penstock.metadata.result import MetadataMessage
from penstock.protocol.messages.metadata.delegation_token_record import DelegationTokenRecord
from penstock.protocol.messages.metadata.remove_delegation_token_record import RemoveDelegationTokenRecord

USER_PREFIX = "User:"
"""How the only principals begin that may renew a token, or log in by one."""


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
