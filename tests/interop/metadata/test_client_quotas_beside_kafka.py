"""Client quotas are changed and described as by Apache Kafka 4.3.1: the same requests, good and bad, to both."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import pytest
from interop.bad_input.quota_cases import quota_cases
from interop.clients.valid_security_requests import quota_entry
from interop.clients.wire import Wire
from interop.kafka_peer import KafkaPeer
from support.processes import wait_until

from penstock.errors import ErrorCode
from penstock.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from penstock.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from penstock.quota.levels import levels_of
from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.java

RATE = "producer_byte_rate"
OWN_SENTENCE = {"AlterClientQuotas: 10,001 of them": "ours names the limit"}
Told = tuple[Any, ...]


class Pair(NamedTuple):
    """A connection to each."""

    ours: Wire
    kafkas: Wire

    def both(self, message: Any, version: int = 1) -> tuple[Told, Told]:
        ours, kafkas = (told(wire.ask(message, version)) for wire in self)
        return ours, kafkas


def told(answer: Any) -> Told:
    """All that an answer says, in an order of its own."""
    if hasattr(answer, "error_code"):
        entries = None if answer.entries is None else sorted(map(entry_of, answer.entries), key=repr)
        return ErrorCode(answer.error_code).name, answer.error_message, entries
    return tuple(sorted(map(entry_of, answer.entries), key=repr))


def entry_of(entry: Any) -> Told:
    entity = tuple(sorted((each.entity_type, each.entity_name) for each in entry.entity))
    if hasattr(entry, "values"):
        return entity, sorted((each.key, repr(each.value)) for each in entry.values)
    return entity, ErrorCode(entry.error_code).name, entry.error_message


@pytest.fixture(scope="module")
def pair(kafka_peer: KafkaPeer) -> Iterator[Pair]:
    """Both without quotas; what a test leaves is deleted."""
    with LocalBroker() as broker, Wire(broker.bootstrap) as ours, Wire(kafka_peer.bootstrap) as kafkas:
        made = Pair(ours, kafkas)
        for wire in made:
            delete_all(wire)
        yield made
        for wire in made:
            delete_all(wire)


def delete_all(wire: Wire) -> None:
    entries = [
        EntryData(
            entity=[EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in each.entity],
            ops=[OpData(key=value.key, remove=True) for value in each.values],
        )
        for each in wire.ask(DescribeClientQuotasRequest(), 1).entries
    ]
    wire.ask(AlterClientQuotasRequest(entries=entries), 1)
    wait_until(lambda: not wire.ask(DescribeClientQuotasRequest(), 1).entries, "the quotas are gone")


def alteration(*entries: EntryData, validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)


def settle(pair: Pair) -> Told:
    """What both describe, once Kafka's broker has heard of what its controller did."""
    ours = told(pair.ours.ask(DescribeClientQuotasRequest(), 1))
    wait_until(lambda: told(pair.kafkas.ask(DescribeClientQuotasRequest(), 1)) == ours, f"Kafka describes {ours}")
    return ours


def test_bad_requests_get_the_same_sentences(pair: Pair) -> None:
    different = []
    for case in quota_cases():
        request: Any = case.make(None, 1)  # type: ignore[arg-type]  # it asks for nothing of the world
        ours, kafkas = pair.both(request)
        if case.name in OWN_SENTENCE:
            ours, kafkas = ([each[1] for each in answer] for answer in (ours, kafkas))  # type: ignore[assignment]  # a generator of two
        if ours != kafkas:
            different.append(f"{case.name}:\n  kafka    {kafkas}\n  penstock {ours}")
    assert not different, "\n".join(different)
    assert settle(pair) == ("NONE", "", [])


NAMES = ("alice", "a/b", "%2F", "<default>", " ", "\n", "\u00e9\u4e16", "a,b=c", "x" * 300, "User:alice", "*")
ADDRESSES = ("10.0.0.7", "10.7", "010.0.0.8", "4294967295", "::1", "[2001:db8::1]", "::ffff:10.0.0.9", "localhost")
NO_ADDRESSES = (
    "256.0.0.1",
    "1.2.3.4.5",
    "1..2",
    "-1.2",
    "10.0.0.0/8",
    "[10.0.0.7]",
    "a.host.invalid",
    "::1::",
    "[",
    "",
)


def test_names_of_all_kinds_are_kept_as_they_are(pair: Pair) -> None:
    entries = [quota_entry({kind: name}, **{RATE: 1e15}) for name in NAMES for kind in ("user", "client-id")]
    entries += [quota_entry({"user": one, "client-id": other}, **{RATE: 1e15}) for one, other in product(NAMES, NAMES)]
    ours, kafkas = pair.both(alteration(*entries))
    assert ours == kafkas
    assert {code for _, code, _ in ours} == {"NONE"}
    _, _, described = settle(pair)
    assert len(described) == len(entries)
    for name in NAMES:
        ours, kafkas = pair.both(
            DescribeClientQuotasRequest(components=[ComponentData(entity_type="user", match_type=0, match=name)])
        )
        assert ours == kafkas
    for wire in pair:
        delete_all(wire)


def test_what_is_an_address_is_one_to_both(pair: Pair) -> None:
    for name in (*ADDRESSES, *NO_ADDRESSES):
        ours, kafkas = pair.both(
            alteration(quota_entry({"ip": name}, connection_creation_rate=1e9), validate_only=True)
        )
        assert ours == kafkas, name
        assert (ours[0][1] == "NONE") is (name in ADDRESSES), name


def test_changes_one_after_the_other(pair: Pair) -> None:
    """Values of all kinds, duplicates of which one is made, deletions of what is there and is not."""
    both: dict[str, str | None] = {"user": "steps", "client-id": "c"}
    twice = quota_entry({"user": "steps"}, **{RATE: 1e15})
    history = [
        alteration(quota_entry(both, **{RATE: 2.0**63, "request_percentage": math.inf})),
        alteration(quota_entry(both, consumer_byte_rate=math.nan, controller_mutation_rate=1e-300)),
        alteration(quota_entry(both, consumer_byte_rate=math.nan)),
        alteration(twice, quota_entry({"user": "steps"}, **{RATE: 2e15})),
        alteration(quota_entry({"user": "steps"}, consumer_byte_rate=1e15, request_percentage=0.0)),
        alteration(quota_entry({"ip": None}, connection_creation_rate=2.0**31 - 1)),
        alteration(quota_entry(both, **{RATE: None, "no_such": None})),
        alteration(quota_entry({"user": "nobody"}, **{RATE: None})),
        alteration(
            EntryData(entity=[*twice.entity, EntityData(entity_type="user", entity_name="last")], ops=twice.ops)
        ),
    ]
    for number, request in enumerate(history):
        ours, kafkas = pair.both(request, version=number % 2)
        assert ours == kafkas, number
        assert settle(pair)[0] == "NONE"
    assert len(settle(pair)[2]) == 4
    for wire in pair:
        delete_all(wire)


LEVELS = levels_of("alice", "web")
MATCHES: Sequence[tuple[int, bool] | None] = (None, (0, True), (1, False), (2, False))
"""How a type may be asked for: not, by its name, its default, any."""


def filters() -> list[DescribeClientQuotasRequest]:
    made = []
    for strict, user, client in product((False, True), MATCHES, MATCHES):
        components = [
            ComponentData(entity_type=kind, match_type=how[0], match=name if how[1] else None)
            for kind, name, how in (("user", "alice", user), ("client-id", "web", client))
            if how is not None
        ]
        made.append(DescribeClientQuotasRequest(components=components, strict=strict))
    return made


@pytest.mark.slow
def test_all_combinations_of_the_eight_levels_are_described_alike(pair: Pair) -> None:
    """One level comes or goes between two combinations (Gray's code), and all 32 filters are asked each time."""
    there = 0
    asked = filters()
    assert len(asked) == 32
    for step in range(256):
        wanted = step ^ (step >> 1)
        for number, level in enumerate(LEVELS):
            if (there ^ wanted) >> number & 1:
                value = 1e15 + number if wanted >> number & 1 else None
                ours, kafkas = pair.both(alteration(quota_entry(dict(level), **{RATE: value})))
                assert ours == kafkas
                assert ours[0][1] == "NONE"
        there = wanted
        assert len(settle(pair)[2]) == there.bit_count()
        for request in asked:
            ours, kafkas = pair.both(request)
            assert ours == kafkas, (f"{there:08b}", request)
    for wire in pair:
        delete_all(wire)


def test_addresses_are_found_alike(pair: Pair) -> None:
    """By their name as it was spelt, the default and any, strictly and not, beside quotas of users and clients."""
    entries = [quota_entry({"ip": name}, connection_creation_rate=1e9) for name in (None, *ADDRESSES)]
    entries += [quota_entry(dict(entity), **{RATE: 1e15}) for entity in LEVELS]
    ours, kafkas = pair.both(alteration(*entries))
    assert ours == kafkas
    settle(pair)
    wanted = [(1, None), (2, None), *((0, name) for name in (*ADDRESSES, "10.0.0.8", "0:0:0:0:0:0:0:1"))]
    found = 0
    for strict, (how, name) in product((False, True), wanted):
        components = [ComponentData(entity_type="ip", match_type=how, match=name)]
        ours, kafkas = pair.both(DescribeClientQuotasRequest(components=components, strict=strict))
        assert ours == kafkas, (strict, how, name)
        found += len(ours[2])
    assert found > 2 * len(ADDRESSES)
    for wire in pair:
        delete_all(wire)


def test_the_comparison_can_fail(pair: Pair) -> None:
    pair.ours.ask(alteration(quota_entry({"user": "one"}, **{RATE: 1e15})), 1)
    ours, kafkas = pair.both(DescribeClientQuotasRequest())
    assert ours != kafkas
    delete_all(pair.ours)
