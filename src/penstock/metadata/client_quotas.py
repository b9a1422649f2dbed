"""Client quotas: what the metadata log keeps of them, and the controller's side of changing and describing them
(KIP-546, KIP-599, KIP-612).

As Kafka's ClientQuotaControlManager and ClientQuotasImage. What a record says is kept whatever it says: a key or a type
of entity that is unknown here is from another version, is shown, and binds nobody. Such a key can be removed.

A quota for an address must name one: where Kafka looks a host name up, which may take seconds and have another answer
on each broker, this is refused, but for `localhost`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.config.addresses import canonical_address
from penstock.errors import ErrorCode, RequestError
from penstock.metadata.persistent import PersistentMap
from penstock.metadata.result import ApiError, MetadataMessage, Result
from penstock.protocol.messages.metadata.client_quota_record import ClientQuotaRecord, EntityData
from penstock.quota.levels import (
    CLIENT_ID,
    CLIENT_KEYS,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    IP,
    IP_KEYS,
    PRODUCER_BYTE_RATE,
    USER,
    Entity,
    QuotaValues,
)

__all__ = ["CLIENT_ID", "IP", "USER", "ClientQuotas", "Entity", "QuotaValues"]

TYPES = (CLIENT_ID, USER, IP)
"""The types of entities, in the order in which Kafka writes and checks them."""
WHOLE = {
    PRODUCER_BYTE_RATE: (2**63, "LONG"),
    CONSUMER_BYTE_RATE: (2**63, "LONG"),
    CONNECTION_CREATION_RATE: (2**31 - 1, "INT"),
}
"""Keys whose values are whole numbers: the greatest, and the name of the type in Kafka's sentence. Kafka compares with
its greatest long as a double, which is one more."""
FRACTION_MAX = 1e-6
"""How far a value may be from a whole number."""

_Key = tuple[tuple[str, bool, str], ...]


def entity_of(parts: Iterable[Any]) -> Entity:
    """The entity of a record or a request. Of a type that is named twice the last name counts, as in Kafka."""
    return tuple(sorted({each.entity_type: each.entity_name for each in parts}.items()))


def _key(entity: Entity) -> _Key:
    return tuple((kind, name is not None, name or "") for kind, name in entity)


def _entity(key: _Key) -> Entity:
    return tuple((kind, name if named else None) for kind, named, name in key)


@dataclass(frozen=True, slots=True)
class ClientQuotas:
    """The quotas of all entities that have any, in the order of the entities, a default before names."""

    by_key: PersistentMap[_Key, QuotaValues] = field(default_factory=PersistentMap)

    def __len__(self) -> int:
        return len(self.by_key)

    def __iter__(self) -> Iterator[Entity]:
        return (_entity(key) for key in self.by_key)

    def __contains__(self, entity: Entity) -> bool:
        return _key(entity) in self.by_key

    def get(self, entity: Entity) -> QuotaValues | None:
        """The quotas of an entity, by key; None if it has none."""
        return self.by_key.get(_key(entity))

    def items(self) -> Iterator[tuple[Entity, QuotaValues]]:
        """Entities with their quotas."""
        return ((_entity(key), values) for key, values in self.by_key.items())

    def values(self) -> Iterator[QuotaValues]:
        """The quotas of each entity."""
        return self.by_key.values()

    def with_changes(self, changes: Mapping[Entity, QuotaValues]) -> ClientQuotas:
        """The quotas after those of some entities are others; without values: after they are gone. The same object if
        nothing changes.
        """
        if not changes:
            return self
        by_key = self.by_key
        for entity, values in changes.items():
            by_key = by_key.set(_key(entity), values) if values else by_key.remove(_key(entity))
        return ClientQuotas(by_key)


def connection_rates(changes: Mapping[Entity, QuotaValues]) -> Iterator[tuple[str | None, str, float | None]]:
    """What changed quotas say of new connections a second: the address as connections have it (None: each that has no
    limit of its own), the name that the quota gives it, and the limit (None: none any more).
    """
    for entity, values in changes.items():
        if len(entity) == 1 and entity[0][0] == IP:
            name = entity[0][1]
            address = None if name is None else canonical_address(name)
            if address is not None or name is None:
                yield address, name or "", values.get(CONNECTION_CREATION_RATE)


def replayed(values: QuotaValues, record: ClientQuotaRecord) -> QuotaValues:
    """The quotas of the record's entity after the record."""
    changed = dict(values)
    if record.remove:
        changed.pop(record.key, None)
    else:
        # One object for all NaNs, so that equal quotas are equal.
        changed[record.key] = math.nan if math.isnan(record.value) else record.value
    return {key: changed[key] for key in sorted(changed)}


def quota_records(quotas: ClientQuotas) -> Iterator[ClientQuotaRecord]:
    """The records that make these quotas."""
    for entity, values in quotas.items():
        for key, value in values.items():
            yield quota_record(entity, key, value)


def quota_record(entity: Entity, key: str, value: float | None) -> ClientQuotaRecord:
    """The record that sets one quota of an entity, or removes it (None)."""
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    return ClientQuotaRecord(entity=parts, key=key, value=0.0 if value is None else value, remove=value is None)


def quota_changes(before: ClientQuotas, after: ClientQuotas) -> dict[Entity, QuotaValues]:
    """The entities whose quotas are new or others than before, with all they have now."""
    found: dict[Entity, QuotaValues] = {entity: {} for entity in before if entity not in after}
    found.update({entity: values for entity, values in after.items() if before.get(entity) != values})
    return found


# Changing them


@dataclass(frozen=True, slots=True)
class Alteration:
    """What is to change of an entity: keys with their new values, None where one is to go."""

    entity: Entity
    changes: Sequence[tuple[str, float | None]]


def alter_client_quotas(
    quotas: ClientQuotas, alterations: Sequence[Alteration], seen: set[Entity] | None = None
) -> Result[list[tuple[Entity, ApiError]]]:
    """Changes quotas; answers each alteration by itself, INVALID_REQUEST if it cannot be made.

    An entity may be altered once in a request, and a key of it once. A further alteration is INVALID_REQUEST and not
    made; the first one is, although Kafka, whose answer names each entity once, says nothing of it.

    Args:
        seen: the entities that the request has altered before; these ones are added.
    """
    records: list[MetadataMessage] = []
    answers: list[tuple[Entity, ApiError]] = []
    seen = set() if seen is None else seen
    for each in alterations:
        try:
            if each.entity in seen or len(dict(each.changes)) < len(each.changes):
                sentence = f"Ignoring duplicate entity {entity_words(each.entity)}"
                raise RequestError(ErrorCode.INVALID_REQUEST, sentence)
            keys = keys_of(each.entity)
            records += alteration_records(quotas.get(each.entity) or {}, each, keys)
            answers.append((each.entity, ApiError()))
        except RequestError as error:
            answers.append((each.entity, ApiError.of(error)))
        seen.add(each.entity)
    return Result(answers, records)


def alteration_records(current: QuotaValues, wanted: Alteration, keys: Sequence[str]) -> list[ClientQuotaRecord]:
    """The records of one alteration, of an entity that can have limits on `keys`; none for what is so already.

    Raises RequestError INVALID_REQUEST, in Kafka's sentences.
    """
    records = []
    for key, value in wanted.changes:
        if value is None:
            if key in current:
                records.append(quota_record(wanted.entity, key, None))
            continue
        check_value(keys, key, value)
        if not same(current.get(key), value):
            records.append(quota_record(wanted.entity, key, value))
    return records


def same(one: float | None, other: float) -> bool:
    """Whether two values are one, NaN included."""
    return one == other or (one is not None and math.isnan(one) and math.isnan(other))


def keys_of(entity: Entity) -> Sequence[str]:
    """What an entity can have limits on. Raises RequestError INVALID_REQUEST for one that can have none."""
    names = dict(entity)
    if not names:
        raise refusal("Invalid empty client quota entity")
    for kind in in_order(names):
        if kind not in TYPES:
            raise refusal(f"Unhandled client quota entity type: {kind}")
        if names[kind] == "":
            raise refusal(f"Empty {kind} not supported")
    if IP not in names:
        return CLIENT_KEYS
    if len(names) > 1:
        sentence = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        raise refusal(sentence)
    address = names[IP]
    if address is not None and canonical_address(address) is None:
        raise refusal(f"{address} is not a valid IP or resolvable host.")
    return IP_KEYS


def in_order(kinds: Iterable[str]) -> list[str]:
    """Types of an entity in Kafka's order, unknown ones last."""
    given = list(kinds)
    return [kind for kind in TYPES if kind in given] + [kind for kind in given if kind not in TYPES]


def check_value(keys: Sequence[str], key: str, value: float) -> None:
    """Raises RequestError INVALID_REQUEST for a value that a key cannot have. NaN passes, as in Kafka."""
    if key not in keys:
        raise refusal(f"Invalid configuration key {key}")
    if value <= 0:
        raise refusal(f"Quota {key} must be greater than 0")
    if key in WHOLE:
        greatest, type_name = WHOLE[key]
        if value > greatest:
            article = "an" if type_name == "INT" else "a"
            raise refusal(f"Proposed value for {key} is too large for {article} {type_name}.")
        if not math.isnan(value) and value % 1.0 > FRACTION_MAX:
            raise refusal(f"{key} cannot be a fractional value.")


def refusal(sentence: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, sentence)


def entity_words(entity: Entity) -> str:
    """An entity as Kafka prints it."""
    names = dict(entity)
    fields = ", ".join([f"{kind}={'null' if names[kind] is None else names[kind]}" for kind in in_order(names)])
    return f"ClientQuotaEntity(entries={{{fields}}})"


# Describing them

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
"""How a filter wants the name of a type: this one, the default, or any (the default included)."""


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """Which entities are meant. `names`: what each type's name must be, None being the default; `any_name`: types that
    must be there, with whatever name. `strict`: nothing else may be there.
    """

    names: Mapping[str, str | None]
    any_name: frozenset[str]
    strict: bool

    def matches(self, entity: Entity) -> bool:
        if self.strict and len(entity) != len(self.names) + len(self.any_name):
            return False
        own = dict(entity)
        named = all(kind in own and own[kind] == name for kind, name in self.names.items())
        return named and all(kind in own for kind in self.any_name)


def filter_of(components: Sequence[Any], *, strict: bool) -> QuotaFilter:
    """The filter of a request's components (`entity_type`, `match_type`, `match`). Raises RequestError
    INVALID_REQUEST, or UNSUPPORTED_VERSION for an unknown type, in Kafka's sentences and order.
    """
    names: dict[str, str | None] = {}
    any_name: set[str] = set()
    for each in components:
        kind = each.entity_type
        if not kind:
            raise refusal("Invalid empty entity type.")
        if kind in names or kind in any_name:
            raise refusal(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in TYPES:
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        check_match(each.match_type, each.match)
        if each.match_type == SPECIFIED:
            any_name.add(kind)
        else:
            names[kind] = each.match
    if len(names) + len(any_name) > 1 and (IP in names or IP in any_name):
        sentence = (
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
        raise refusal(sentence)
    return QuotaFilter(names, frozenset(any_name), strict)


def check_match(match_type: int, match: str | None) -> None:
    """Raises RequestError INVALID_REQUEST for a way to match that does not go with its name."""
    if match_type == EXACT:
        if match is None:
            raise refusal("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif match_type in (DEFAULT, SPECIFIED):
        if match is not None:
            name = "MATCH_TYPE_DEFAULT" if match_type == DEFAULT else "MATCH_TYPE_SPECIFIED"
            raise refusal(f"Request specified {name}, but also specified a match string.")
    else:
        raise refusal(f"Unknown match type {match_type}")
