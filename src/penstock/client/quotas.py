"""Client quotas of any Kafka cluster: list, set and delete them (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.client.admin import refused
from penstock.quota.levels import CLIENT_ID, IP, USER, Entity, QuotaValues

if TYPE_CHECKING:
    from penstock.client.client import Client

EXACT, DEFAULT = 0, 1
NOUNS = {USER: "user", CLIENT_ID: "client id", IP: "address"}


def entity_words(entity: Entity) -> str:
    """An entity in a few words: `user alice, default client id`."""
    parts = []
    for kind, name in sorted(entity, reverse=True):
        noun = NOUNS.get(kind, kind)
        parts.append(f"default {noun}" if name is None else f"{noun} {name}")
    return ", ".join(parts) or "nobody"


async def list_quotas(client: Client, wanted: Entity = ()) -> list[tuple[Entity, QuotaValues]]:
    """The quotas of all entities with these types and names, in order; of all if none is given. Raises RequestError."""
    from penstock.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest

    components = [
        ComponentData(entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name)
        for kind, name in wanted
    ]
    answer = await client.send(DescribeClientQuotasRequest(components=components))
    refused(answer.error_code, answer.error_message, "quotas")
    found = [
        (
            tuple(sorted((each.entity_type, each.entity_name) for each in entry.entity)),
            {each.key: each.value for each in sorted(entry.values, key=lambda each: each.key)},
        )
        for entry in answer.entries or ()
    ]
    return sorted(found, key=lambda each: [(kind, name is not None, name or "") for kind, name in each[0]])


async def alter_quotas(
    client: Client, entity: Entity, limits: Mapping[str, float | None], *, validate_only: bool = False
) -> None:
    """Sets limits of an entity, or deletes those that are None. Raises RequestError, and then nothing is changed."""
    from penstock.protocol.messages.alter_client_quotas_request import (
        AlterClientQuotasRequest,
        EntityData,
        EntryData,
        OpData,
    )

    entry = EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in limits.items()],
    )
    answer = await client.send(AlterClientQuotasRequest(entries=[entry], validate_only=validate_only))
    for result in answer.entries:
        refused(result.error_code, result.error_message, f"quota of {entity_words(entity)}")


def limit_text(value: float) -> str:
    """A limit as people write it: whole numbers without a point."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
