"""Bad requests about client quotas."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from interop.bad_input.case import Case, of
from interop.clients.valid_security_requests import quota_entry

from penstock.protocol.api import ApiKey
from penstock.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntryData, OpData
from penstock.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest

RATE, CONNECTIONS = "producer_byte_rate", "connection_creation_rate"
ALICE = {"user": "alice"}
ENTITIES: Mapping[str, Mapping[str, str | None]] = {
    "nobody": {},
    "no name of a user": {"user": ""},
    "no name of a client": {"client-id": "", "user": "alice"},
    "no name of an address": {"ip": ""},
    "no type": {"": "alice"},
    "an unknown type": {"group": "alice"},
    "a type in capitals": {"USER": "alice"},
    "an address and a user": {"ip": "10.0.0.7", "user": "alice"},
    "the default address and client": {"ip": None, "client-id": None},
    "no address": {"ip": "a.host.invalid"},
    "an address that is too large": {"ip": "256.1.1.1"},
}
VALUES: Mapping[str, tuple[str, float]] = {
    "0": (RATE, 0.0),
    "negative": (RATE, -1.0),
    "10^300": (RATE, 1e300),
    "10^300 percent": ("request_percentage", 1e300),
    "infinite": (RATE, math.inf),
    "minus infinite": (RATE, -math.inf),
    "not a number": (RATE, math.nan),
    "a fraction": (RATE, 0.5),
    "nearly whole": (RATE, 1.0000001),
    "of an address": (CONNECTIONS, 1.0),
    "no name": ("", 1.0),
    "an unknown name": ("share_byte_rate", 1.0),
}
RATES: Mapping[str, float] = {"0": 0.0, "a fraction": 0.5, "2^31": 2.0**31, "not a number": math.nan}
FILTERS: Mapping[str, Sequence[tuple[str, int, str | None]]] = {
    "no type": [("", 0, "a")],
    "an unknown type": [("group", 0, "a")],
    "a type twice": [("user", 0, "a"), ("user", 2, None)],
    "an unknown type twice": [("group", 0, "a"), ("group", 0, "a")],
    "exactly nothing": [("user", 0, None)],
    "a default with a name": [("user", 1, "a")],
    "any with a name": [("user", 2, "")],
    "an unknown match": [("user", 3, None)],
    "a negative match": [("user", -1, None)],
    "an address and a user": [("ip", 2, None), ("user", 2, None)],
    "an address and a default client": [("ip", 0, "10.0.0.7"), ("client-id", 1, None)],
}


def alteration(*entries: EntryData, validate_only: bool = True) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)


def quota_cases() -> Iterator[Case]:
    alter, describe = of(ApiKey.ALTER_CLIENT_QUOTAS), of(ApiKey.DESCRIBE_CLIENT_QUOTAS)
    for name, entity in ENTITIES.items():
        for what, limits in {"": {RATE: 1.0}, ", nothing to change": {}}.items():
            request = alteration(quota_entry(entity, **limits))
            yield alter(f"of {name}{what}", lambda world, version, r=request: r)  # type: ignore[misc]  # its default
    for name, (key, value) in VALUES.items():
        request = alteration(quota_entry(ALICE, **{key: value}))
        yield alter(f"limit {name}", lambda world, version, r=request: r)  # type: ignore[misc]  # its default
    for name, value in RATES.items():
        request = alteration(quota_entry({"ip": "10.0.0.7"}, **{CONNECTIONS: value}))
        yield alter(f"connections {name}", lambda world, version, r=request: r)  # type: ignore[misc]  # its default
    one = quota_entry(ALICE, **{RATE: 1.0})
    yield alter("nothing", lambda world, version: alteration())
    yield alter("an entity twice", lambda world, version: alteration(one, one, quota_entry({"user": None})))
    key_twice = EntryData(entity=one.entity, ops=[*one.ops, OpData(key=RATE, value=2.0)])
    yield alter("a limit twice", lambda world, version: alteration(key_twice))
    type_twice = EntryData(entity=[*one.entity, *one.entity], ops=one.ops)
    yield alter("a type twice", lambda world, version: alteration(type_twice))
    yield alter("delete what is not there", lambda world, version: alteration(quota_entry(ALICE, no_such=None)))
    many = [quota_entry({"user": f"u{number}"}, **{RATE: 1.0}) for number in range(10_001)]
    yield alter("10,001 of them", lambda world, version: alteration(*many))
    for name, filters in FILTERS.items():
        parts = [ComponentData(entity_type=kind, match_type=how, match=match) for kind, how, match in filters]
        wanted = DescribeClientQuotasRequest(components=parts)
        yield describe(name, lambda world, version, r=wanted: r)  # type: ignore[misc]  # its default
    yield describe("strictly nothing", lambda world, version: DescribeClientQuotasRequest(strict=True))
