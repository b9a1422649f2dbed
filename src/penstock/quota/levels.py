"""Whose limit counts for a client: the eight levels of Kafka's client quotas, of which the most specific wins.

A limit is set for an entity: a user, a client id, both, or the default of either, which means everybody who has no
limit of the own at that level. Each key (how many bytes, how much time) is looked up by itself, so a client may be
bound by one entity for what it produces and by another for what it fetches.

Who is bound by a default does not share it with all others whom it binds: `group_of` tells who shares a limit.

The order is that of Kafka's DefaultQuotaCallback. Addresses (`IP`) have limits of their own, on new connections only
(`penstock.quota.connections`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
CLIENT_KEYS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
"""What users and clients have limits on: bytes a second, percent of the loop's time, partitions a second."""
IP_KEYS = (CONNECTION_CREATION_RATE,)
"""What addresses have limits on: new connections a second."""

Entity = tuple[tuple[str, str | None], ...]
"""For whom a quota is set: pairs of a type (`user`, `client-id` or `ip`) and a name, sorted by the type. A name of None
is the default of the type. From another version there may be other types, and keys, too: they are kept, and bind
nobody.
"""
QuotaValues = Mapping[str, float]
"""The limits of one entity by key. Some may be NaN or infinite, as in Kafka."""


class QuotasByEntity(Protocol):
    """All quotas; `metadata.client_quotas.ClientQuotas`."""

    def get(self, entity: Entity) -> QuotaValues | None:
        """The limits of an entity; None if it has none."""


BY_SETTING = 9
"""The level below the eight: what `quota.producer.default` and `quota.consumer.default` give each client id."""
DEFAULT_CLIENT: Entity = ((CLIENT_ID, None),)
"""The entity of the last of the eight levels, for which those settings stand in."""


class Limit(NamedTuple):
    """A limit that counts, the entity that it is set for, and the level of that, from 1, the most specific."""

    value: float
    entity: Entity
    level: int


def levels_of(user: str, client_id: str) -> tuple[Entity, ...]:
    """The eight entities whose limits may count for a client, the most specific first."""
    return (
        ((CLIENT_ID, client_id), (USER, user)),
        ((CLIENT_ID, None), (USER, user)),
        ((USER, user),),
        ((CLIENT_ID, client_id), (USER, None)),
        ((CLIENT_ID, None), (USER, None)),
        ((USER, None),),
        ((CLIENT_ID, client_id),),
        ((CLIENT_ID, None),),
    )


def resolve(quotas: QuotasByEntity, user: str, client_id: str, key: str) -> Limit | None:
    """The limit on `key` that counts for a client; None if none does. A client without an id has the id ""."""
    for level, entity in enumerate(levels_of(user, client_id), 1):
        values = quotas.get(entity)
        if values is not None and key in values:
            return Limit(values[key], entity, level)
    return None


def group_of(entity: Entity, user: str, client_id: str) -> tuple[str, str]:
    """Who shares the limit of an entity that counts for a client: all with this user and this client id, "" where the
    entity does not tell apart by it. These are Kafka's tags `user` and `client-id` of its metrics.
    """
    types = {kind for kind, _ in entity}
    return user if USER in types else "", client_id if CLIENT_ID in types else ""
