"""Client quotas in the image, and the controller's rules about them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
from unit.metadata.controller_state import State

from penstock.config.addresses import canonical_address
from penstock.errors import ErrorCode, RequestError
from penstock.metadata.client_quotas import (
    Alteration,
    QuotaFilter,
    alter_client_quotas,
    connection_rates,
    filter_of,
    quota_record,
)
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.difference import difference
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.metadata.records import image_records
from penstock.metadata.result import ApiError, MetadataMessage
from penstock.protocol.messages.describe_client_quotas_request import ComponentData
from penstock.protocol.messages.metadata.client_quota_record import ClientQuotaRecord, EntityData
from penstock.quota.levels import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
    QuotaValues,
)

ALICE: Entity = (("user", "alice"),)
ANY_USER: Entity = (("user", None),)
PAIR: Entity = (("client-id", "web"), ("user", "alice"))
ADDRESS: Entity = (("ip", "10.0.0.7"),)
NAN, INFINITE = math.nan, math.inf


def image_of(records: Iterable[MetadataMessage], base: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    delta = MetadataDelta(base)
    for record in records:
        delta.replay(record)
    return delta.apply(base.offset + 1, 1, 0)


def altered(image: MetadataImage, *alterations: Alteration) -> tuple[MetadataImage, list[ApiError]]:
    result = alter_client_quotas(image.client_quotas, alterations)
    return image_of(result.records, image), [error for _, error in result.response]


def quotas(image: MetadataImage) -> dict[Entity, dict[str, float]]:
    return {entity: dict(values) for entity, values in image.client_quotas.items()}


def test_quotas_come_change_and_go() -> None:
    image, errors = altered(
        EMPTY_IMAGE,
        Alteration(ALICE, [(PRODUCER_BYTE_RATE, 10.0), (REQUEST_PERCENTAGE, 0.5)]),
        Alteration(ANY_USER, [(PRODUCER_BYTE_RATE, 1.0)]),
        Alteration(PAIR, [(CONSUMER_BYTE_RATE, 3.0)]),
    )
    assert not any(error.failed for error in errors)
    assert quotas(image) == {
        PAIR: {CONSUMER_BYTE_RATE: 3.0},
        ANY_USER: {PRODUCER_BYTE_RATE: 1.0},
        ALICE: {PRODUCER_BYTE_RATE: 10.0, REQUEST_PERCENTAGE: 0.5},
    }
    assert (PAIR in image.client_quotas, ADDRESS in image.client_quotas) == (True, False)
    image, _ = altered(
        image, Alteration(ALICE, [(PRODUCER_BYTE_RATE, None)]), Alteration(PAIR, [(CONSUMER_BYTE_RATE, None)])
    )
    assert quotas(image) == {ANY_USER: {PRODUCER_BYTE_RATE: 1.0}, ALICE: {REQUEST_PERCENTAGE: 0.5}}
    assert PAIR not in list(image.client_quotas)


def test_what_is_so_already_makes_no_record() -> None:
    image, _ = altered(EMPTY_IMAGE, Alteration(ALICE, [(REQUEST_PERCENTAGE, NAN), (PRODUCER_BYTE_RATE, 1.0)]))
    again = Alteration(ALICE, [(REQUEST_PERCENTAGE, NAN), (PRODUCER_BYTE_RATE, 1.0), (CONSUMER_BYTE_RATE, None)])
    result = alter_client_quotas(
        image.client_quotas, [again, Alteration(PAIR, [("no such", None)]), Alteration(ADDRESS, [])]
    )
    assert result.records == []
    assert not any(error.failed for _, error in result.response)


VALUES = [
    (ALICE, PRODUCER_BYTE_RATE, 0.0, "Quota producer_byte_rate must be greater than 0"),
    (ALICE, PRODUCER_BYTE_RATE, -1.0, "Quota producer_byte_rate must be greater than 0"),
    (ALICE, REQUEST_PERCENTAGE, -INFINITE, "Quota request_percentage must be greater than 0"),
    (ALICE, PRODUCER_BYTE_RATE, 1e300, "Proposed value for producer_byte_rate is too large for a LONG."),
    (ALICE, CONSUMER_BYTE_RATE, INFINITE, "Proposed value for consumer_byte_rate is too large for a LONG."),
    (ALICE, PRODUCER_BYTE_RATE, 1.5, "producer_byte_rate cannot be a fractional value."),
    (ALICE, PRODUCER_BYTE_RATE, 1.9999999, "producer_byte_rate cannot be a fractional value."),
    (ALICE, PRODUCER_BYTE_RATE, 1.0000001, None),
    (ALICE, PRODUCER_BYTE_RATE, 2.0**63, None),
    (ALICE, PRODUCER_BYTE_RATE, NAN, None),
    (ALICE, REQUEST_PERCENTAGE, 1e300, None),
    (ALICE, REQUEST_PERCENTAGE, INFINITE, None),
    (ALICE, "controller_mutation_rate", 1e-300, None),
    (ALICE, CONNECTION_CREATION_RATE, 1.0, "Invalid configuration key connection_creation_rate"),
    (ALICE, "", 1.0, "Invalid configuration key "),
    (ADDRESS, PRODUCER_BYTE_RATE, 1.0, "Invalid configuration key producer_byte_rate"),
    (
        ADDRESS,
        CONNECTION_CREATION_RATE,
        2.0**31,
        "Proposed value for connection_creation_rate is too large for an INT.",
    ),
    (ADDRESS, CONNECTION_CREATION_RATE, 0.5, "connection_creation_rate cannot be a fractional value."),
    (ADDRESS, CONNECTION_CREATION_RATE, 2.0**31 - 1, None),
]


@pytest.mark.parametrize(("entity", "key", "value", "sentence"), VALUES)
def test_values_are_checked_as_kafka_does(entity: Entity, key: str, value: float, sentence: str | None) -> None:
    image, (error,) = altered(EMPTY_IMAGE, Alteration(entity, [(key, value)]))
    assert error == (ApiError() if sentence is None else ApiError(ErrorCode.INVALID_REQUEST, sentence))
    assert len(image.client_quotas) == (sentence is None)


COMBINED = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
ENTITIES: list[tuple[Entity, str]] = [
    ((), "Invalid empty client quota entity"),
    ((("user", ""),), "Empty user not supported"),
    ((("client-id", ""), ("user", "")), "Empty client-id not supported"),
    ((("ip", ""),), "Empty ip not supported"),
    ((("", "a"),), "Unhandled client quota entity type: "),
    ((("User", "a"),), "Unhandled client quota entity type: User"),
    ((("ip", None), ("user", "a")), COMBINED),
    ((("ip", "a.host.invalid"),), "a.host.invalid is not a valid IP or resolvable host."),
    ((("ip", "256.0.0.1"),), "256.0.0.1 is not a valid IP or resolvable host."),
]  # fmt: skip


@pytest.mark.parametrize(("entity", "sentence"), ENTITIES)
def test_entities_are_checked_as_kafka_does(entity: Entity, sentence: str) -> None:
    for changes in ([(PRODUCER_BYTE_RATE, 1.0)], [("no such", None)], []):
        _, (error,) = altered(EMPTY_IMAGE, Alteration(entity, changes))
        assert error == ApiError(ErrorCode.INVALID_REQUEST, sentence)


def test_one_wrong_value_keeps_the_others_of_its_entity_from_being_set_and_no_other_entity() -> None:
    image, errors = altered(
        EMPTY_IMAGE,
        Alteration(ALICE, [(CONSUMER_BYTE_RATE, 1.0), (PRODUCER_BYTE_RATE, 0.0)]),
        Alteration(PAIR, [(CONSUMER_BYTE_RATE, 1.0)]),
    )
    assert [error.failed for error in errors] == [True, False]
    assert list(image.client_quotas) == [PAIR]


def test_a_second_alteration_of_an_entity_is_ignored_and_said_to_be() -> None:
    image, errors = altered(
        EMPTY_IMAGE,
        Alteration(PAIR, [(CONSUMER_BYTE_RATE, 1.0)]),
        Alteration(PAIR, [(CONSUMER_BYTE_RATE, 2.0)]),
        Alteration(ANY_USER, [(PRODUCER_BYTE_RATE, 1.0), (PRODUCER_BYTE_RATE, 2.0)]),
    )
    sentence = "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=web, user=alice})"
    default = "Ignoring duplicate entity ClientQuotaEntity(entries={user=null})"
    refused = [ApiError(ErrorCode.INVALID_REQUEST, each) for each in (sentence, default)]
    assert errors == [ApiError(), *refused]
    assert quotas(image) == {PAIR: {CONSUMER_BYTE_RATE: 1.0}}


def test_a_snapshot_has_them_and_a_difference_finds_them() -> None:
    old, _ = altered(
        EMPTY_IMAGE,
        Alteration(ALICE, [(PRODUCER_BYTE_RATE, NAN), (CONSUMER_BYTE_RATE, 1.0)]),
        Alteration(PAIR, [(CONSUMER_BYTE_RATE, 3.0)]),
        Alteration(ANY_USER, [(CONSUMER_BYTE_RATE, 3.0)]),
    )
    assert image_of(image_records(old)).client_quotas == old.client_quotas
    assert not difference(old, image_of(image_records(old))).client_quotas
    new, _ = altered(
        old, Alteration(PAIR, [(CONSUMER_BYTE_RATE, None)]), Alteration(ALICE, [(CONSUMER_BYTE_RATE, 2.0)]),
        Alteration(ADDRESS, [(CONNECTION_CREATION_RATE, 2.0)]),
    )  # fmt: skip
    delta = difference(old, new)
    assert delta.apply(new.offset, 1, 0).client_quotas == new.client_quotas
    assert set(delta.client_quotas) == {PAIR, ALICE, ADDRESS}
    assert delta.client_quotas[PAIR] == {}


def test_a_delta_tells_whose_quotas_have_changed() -> None:
    image, _ = altered(
        EMPTY_IMAGE, Alteration(ALICE, [(PRODUCER_BYTE_RATE, 1.0)]), Alteration(PAIR, [(CONSUMER_BYTE_RATE, 1.0)])
    )
    delta = MetadataDelta(image)
    delta.replay(quota_record(ALICE, CONSUMER_BYTE_RATE, 2.0))
    delta.replay(quota_record(PAIR, CONSUMER_BYTE_RATE, None))
    assert delta.client_quotas == {ALICE: {CONSUMER_BYTE_RATE: 2.0, PRODUCER_BYTE_RATE: 1.0}, PAIR: {}}


def test_records_of_another_version_are_kept_and_can_be_removed() -> None:
    strange: Entity = (("group", "g"),)
    image = image_of(
        [
            quota_record(strange, "share_rate", 5.0),
            quota_record(ALICE, "share_rate", -1.0),
            ClientQuotaRecord(entity=[], key="", value=0.0),
            # Of a type that is there twice the last one counts.
            ClientQuotaRecord(
                entity=[EntityData(entity_type="user", entity_name=each) for each in ("a", "b")], key="k", value=1.0
            ),
        ]
    )
    expected = {(): {"": 0.0}, strange: {"share_rate": 5.0}, ALICE: {"share_rate": -1.0}, (("user", "b"),): {"k": 1.0}}
    assert quotas(image) == expected
    assert image_of(image_records(image)).client_quotas == image.client_quotas
    image, (error,) = altered(image, Alteration(ALICE, [("share_rate", None)]))
    assert not error.failed
    assert ALICE not in image.client_quotas


def test_what_is_lost_before_its_commit_is_undone() -> None:
    state = State()
    state.replay([quota_record(ALICE, PRODUCER_BYTE_RATE, 1.0)])
    state.commit()
    state.replay([quota_record(ALICE, PRODUCER_BYTE_RATE, 2.0), quota_record(PAIR, CONSUMER_BYTE_RATE, 2.0)])
    assert len(state.controller.image.client_quotas) == 2, "the next request sees them"
    state.controller.revert()
    assert quotas(state.controller.image) == {ALICE: {PRODUCER_BYTE_RATE: 1.0}}


def test_a_removal_of_what_is_not_there_changes_nothing() -> None:
    assert quotas(image_of([quota_record(ALICE, PRODUCER_BYTE_RATE, None)])) == {}


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("010.0.0.07", "10.0.0.7"),
        ("10.7", "10.0.0.7"),
        ("1.2.259", "1.2.1.3"),
        ("4294967295", "255.255.255.255"),
        ("localhost", "127.0.0.1"),
        ("::1", "::1"),
        ("[2001:DB8:0::1]", "2001:db8::1"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("fe80::1%eth0", "fe80::1"),
        ("4294967296", None),
        ("1.2.3.256", None),
        ("256.1", None),
        ("1.2.3.4.5", None),
        ("1..2", None),
        ("-1.2", None),
        ("\u0661.2.3.4", None),
        ("[10.0.0.7]", None),
        ("10.0.0.0/8", None),
        ("example.org", None),
        ("", None),
    ],
)
def test_an_address_is_taken_as_java_takes_it(name: str, address: str | None) -> None:
    assert canonical_address(name) == address


def test_limits_on_connections_are_by_address() -> None:
    rate = {CONNECTION_CREATION_RATE: 3.0}
    changes: dict[Entity, QuotaValues] = {
        (("ip", "10.7"),): rate,
        (("ip", "::1"),): {},
        (("ip", None),): rate,
        (("ip", "10.0.0.8"),): {"other": 9.0},
        (("ip", "gone.example.org"),): rate,
        (("ip", "10.0.0.9"), ("user", "a")): rate,
        ALICE: rate,
    }
    assert list(connection_rates(changes)) == [
        ("10.0.0.7", "10.7", 3.0),
        ("::1", "::1", None),
        (None, "", 3.0),
        ("10.0.0.8", "10.0.0.8", None),
    ]


def component(kind: str, match_type: int, match: str | None = None) -> ComponentData:
    return ComponentData(entity_type=kind, match_type=match_type, match=match)


def test_filters_find_exact_default_and_any_names_strictly_or_not() -> None:
    entities: list[Entity] = [
        ALICE, ANY_USER, PAIR, ADDRESS,
        (("client-id", None), ("user", "alice")), (("client-id", "web"),), (("ip", None),),
    ]  # fmt: skip

    def found(*components: ComponentData, strict: bool = False) -> list[Entity]:
        wanted = filter_of(components, strict=strict)
        return [entity for entity in entities if wanted.matches(entity)]

    alice, default_user, any_user = component("user", 0, "alice"), component("user", 1), component("user", 2)
    assert found() == entities
    assert found(strict=True) == []
    assert found(alice) == [ALICE, PAIR, entities[4]]
    assert found(alice, strict=True) == [ALICE]
    assert found(default_user) == found(default_user, strict=True) == [ANY_USER]
    assert found(any_user, strict=True) == [ALICE, ANY_USER]
    assert found(any_user, component("client-id", 2)) == [PAIR, entities[4]]
    assert found(alice, component("client-id", 1), strict=True) == [entities[4]]
    assert found(component("ip", 2)) == [ADDRESS, entities[6]]
    assert found(component("ip", 1)) == [entities[6]]


@pytest.mark.parametrize(
    ("components", "code", "sentence"),
    [
        ([component("", 9)], ErrorCode.INVALID_REQUEST, "Invalid empty entity type."),
        ([component("group", 9)], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group"),
        ([component("user", 9)], ErrorCode.INVALID_REQUEST, "Unknown match type 9"),
        ([component("user", -1)], ErrorCode.INVALID_REQUEST, "Unknown match type -1"),
        (
            [component("user", 0)],
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [component("user", 1, "")],
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [component("user", 2, "a")],
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        (
            [component("user", 2), component("user", 9)],
            ErrorCode.INVALID_REQUEST,
            "Entity type user cannot appear more than once in the filter.",
        ),
        (
            [component("ip", 2), component("client-id", 1)],
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component.",
        ),
    ],
)
def test_a_wrong_filter_is_refused_in_kafkas_sentence(
    components: list[ComponentData], code: ErrorCode, sentence: str
) -> None:
    with pytest.raises(RequestError) as raised:
        filter_of(components, strict=False)
    assert (raised.value.code, raised.value.message) == (code, sentence)


def test_a_filter_of_a_name_that_is_empty_finds_nobody() -> None:
    assert filter_of([component("user", 0, "")], strict=False) == QuotaFilter({"user": ""}, frozenset(), strict=False)
