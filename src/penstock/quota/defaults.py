"""All quotas, and below them what a broker's settings give each client id: `quota.producer.default` and
`quota.consumer.default`, which Kafka had until version 4. They stand in for the default client id's quota, the last of
the eight levels, where that does not set the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from penstock.quota.levels import (
    BY_SETTING,
    CLIENT_ID,
    DEFAULT_CLIENT,
    USER,
    Entity,
    Limit,
    QuotasByEntity,
    QuotaValues,
)


class Quotas(QuotasByEntity, Protocol):
    """All quotas; `metadata.client_quotas.ClientQuotas`."""

    def values(self) -> Iterator[QuotaValues]:
        """The limits of each entity."""


class NoQuotas:
    """No quotas: what a node knows before its metadata."""

    def get(self, entity: object) -> None:
        return None

    def values(self) -> Iterator[QuotaValues]:
        return iter(())


class WithDefaults:
    """See the module's head. `defaults` are the limits of the settings by key."""

    def __init__(self, quotas: Quotas, defaults: QuotaValues) -> None:
        self._quotas = quotas
        self.defaults = defaults

    def get(self, entity: Entity) -> QuotaValues | None:
        """The limits of an entity; None if it has none."""
        values = self._quotas.get(entity)
        if not self.defaults or entity != DEFAULT_CLIENT:
            return values
        return {**self.defaults, **(values or {})}

    def values(self) -> Iterator[QuotaValues]:
        """The limits of each entity, and of the settings."""
        yield from self._quotas.values()
        yield self.defaults

    def standing(self, key: str, user: str, client_id: str, level: int) -> Limit | None:
        """The limit on `key` that counts for all with this user and client id who share one that was found at `level`:
        the first of the levels that tell clients apart alike. None if it is gone meanwhile.
        """
        for number, entity in alike(level, user, client_id):
            values = self.get(entity)
            if values is not None and key in values:
                by_setting = (
                    key in self.defaults and entity == DEFAULT_CLIENT and key not in (self._quotas.get(entity) or {})
                )
                return Limit(values[key], entity, BY_SETTING if by_setting else number)
        return None


def alike(level: int, user: str, client_id: str) -> tuple[tuple[int, Entity], ...]:
    """The levels, with their entities, that tell clients apart by the same as `level`, the most specific first."""
    if level in (3, 6):
        return (3, ((USER, user),)), (6, ((USER, None),))
    if level in (7, 8, BY_SETTING):
        return (7, ((CLIENT_ID, client_id),)), (8, DEFAULT_CLIENT)
    return (
        (1, ((CLIENT_ID, client_id), (USER, user))),
        (2, ((CLIENT_ID, None), (USER, user))),
        (4, ((CLIENT_ID, client_id), (USER, None))),
        (5, ((CLIENT_ID, None), (USER, None))),
    )
