"""Why a limit counts for a client, and why the others that are set do not."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from penstock.quota.levels import (
    BY_SETTING,
    CONSUMER_BYTE_RATE,
    DEFAULT_CLIENT,
    IP,
    PRODUCER_BYTE_RATE,
    Entity,
    QuotasByEntity,
    levels_of,
)

SETTINGS: Final = {
    PRODUCER_BYTE_RATE: "quota.producer.default",
    CONSUMER_BYTE_RATE: "quota.consumer.default",
}
"""The settings of a broker below the eight levels, by the limit that they give each client id."""


class Why(StrEnum):
    """What became of a level."""

    COUNTS = "counts"
    NOT_SET = "not set"
    LESS_SPECIFIC = "less specific"


class Level(NamedTuple):
    """One level of one limit: its number from 1, the most specific, whose limit it is, what is set there, and `why`.

    `value` is None where nothing is set. On level BY_SETTING, which brokers have each by itself, `by_broker` has what
    is set.
    """

    number: int
    entity: Entity
    value: float | None
    why: Why
    by_broker: Mapping[int, float] | None = None


def explained(
    quotas: QuotasByEntity, user: str, client_id: str, key: str, by_broker: Mapping[int, float] | None = None
) -> list[Level]:
    """All levels of a limit on users and client ids. `by_broker`: the setting of the brokers that have one."""
    found = among(quotas, levels_of(user, client_id), key)
    if key in SETTINGS:
        why = Why.NOT_SET if not by_broker else Why.LESS_SPECIFIC if counting(found) else Why.COUNTS
        found.append(Level(BY_SETTING, DEFAULT_CLIENT, None, why, by_broker or {}))
    return found


def explained_address(quotas: QuotasByEntity, names: Mapping[str, str], address: str, key: str) -> list[Level]:
    """Both levels of a limit on addresses. `names`: how quotas write an address, where they write it otherwise."""
    return among(quotas, (((IP, names.get(address, address)),), ((IP, None),)), key)


def among(quotas: QuotasByEntity, entities: tuple[Entity, ...], key: str) -> list[Level]:
    """The levels of these entities, of which the first that sets the limit counts."""
    found: list[Level] = []
    for number, entity in enumerate(entities, 1):
        value = (quotas.get(entity) or {}).get(key)
        why = Why.NOT_SET if value is None else Why.LESS_SPECIFIC if counting(found) else Why.COUNTS
        found.append(Level(number, entity, value, why))
    return found


def counting(levels: list[Level]) -> Level | None:
    """The level that counts; None if there is none."""
    return next((each for each in levels if each.why is Why.COUNTS), None)
