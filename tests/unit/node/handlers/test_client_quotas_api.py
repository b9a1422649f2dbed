"""AlterClientQuotas and DescribeClientQuotas through a whole node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.broker import Client, Node

from penstock.errors import ErrorCode
from penstock.node.limits import QUOTA_CHANGES_PER_REQUEST_MAX
from penstock.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from penstock.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from penstock.security.authorizer import StandardAuthorizer

RATE = "producer_byte_rate"


def entry(entity: Mapping[str, str | None], **limits: float | None) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in limits.items()],
    )


def alter(client: Client, *entries: EntryData, validate_only: bool = False, version: int = 1) -> list[Any]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    return list(client.ask(request, version).entries)


def described(client: Client, *components: ComponentData, strict: bool = False) -> dict[Any, Any]:
    answer = client.ask(DescribeClientQuotasRequest(components=list(components), strict=strict), 1)
    assert (answer.error_code, answer.error_message) == (0, "")
    return {
        tuple((each.entity_type, each.entity_name) for each in of.entity): {each.key: each.value for each in of.values}
        for of in answer.entries
    }


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_come_and_go(version: int) -> None:
    client = Node().connect()
    answers = alter(
        client, entry({"user": "a", "client-id": None}, **{RATE: 5.0}), entry({"ip": None}), version=version
    )
    assert [(each.error_code, each.error_message) for each in answers] == [(0, None)] * 2
    pair = (("client-id", None), ("user", "a"))
    assert [(each.entity_type, each.entity_name) for each in answers[0].entity] == list(pair)
    assert described(client) == {pair: {RATE: 5.0}}
    alter(client, entry({"user": "a", "client-id": None}, **{RATE: None}), version=version)
    assert described(client) == {}


def test_validating_changes_nothing_and_finds_errors() -> None:
    client = Node().connect()
    good, bad = entry({"user": "a"}, **{RATE: 5.0}), entry({"user": "b"}, **{RATE: 0.0})
    answers = alter(client, good, bad, validate_only=True)
    assert [each.error_code for each in answers] == [0, ErrorCode.INVALID_REQUEST]
    assert described(client) == {}


def test_an_entity_that_is_named_twice_is_answered_once() -> None:
    client = Node().connect()
    (answer,) = alter(client, entry({"user": "a"}, **{RATE: 5.0}), entry({"user": "a"}, **{RATE: 6.0}))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert described(client) == {(("user", "a"),): {RATE: 5.0}}


def test_wide_requests_take_steps_and_name_an_entity_twice_too() -> None:
    node = Node()
    client, other = node.connect(), node.connect()
    many = [entry({"user": f"u{number:05}"}, **{RATE: 1.0 + number}) for number in range(5_000)]
    answers = alter(client, *many, entry({"user": "u00000"}, **{RATE: 7.0}))
    assert len(answers) == 5_000
    assert [each.error_code for each in answers if each.error_code] == [ErrorCode.INVALID_REQUEST]
    found = described(other)
    assert len(found) == 5_000
    assert found[("user", "u00000"),] == {RATE: 1.0}
    assert described(other, ComponentData(entity_type="user", match_type=0, match="u04999"), strict=True) == {
        (("user", "u04999"),): {RATE: 5000.0}
    }


def test_too_many_changes_are_refused() -> None:
    client = Node().connect()
    many = [entry({"user": f"u{number}"}) for number in range(QUOTA_CHANGES_PER_REQUEST_MAX + 1)]
    answers = alter(client, *many)
    assert {each.error_code for each in answers} == {ErrorCode.POLICY_VIOLATION}
    assert len(answers) == len(many)
    ops = [OpData(key=f"k{number}", remove=True) for number in range(QUOTA_CHANGES_PER_REQUEST_MAX + 1)]
    (answer,) = alter(client, EntryData(entity=[EntityData(entity_type="user", entity_name="a")], ops=ops))
    assert answer.error_code == ErrorCode.POLICY_VIOLATION


def test_quotas_survive_a_restart() -> None:
    node = Node()
    alter(
        node.connect(), entry({"user": "\u00e9 %2F/\n<default>"}, **{RATE: 5.0}), entry({"user": None}, **{RATE: 6.0})
    )
    before = described(node.connect())
    assert len(before) == 2
    node.restart()
    assert described(node.connect()) == before


def test_a_wrong_filter_is_refused_as_a_whole() -> None:
    client = Node().connect()
    request = DescribeClientQuotasRequest(components=[ComponentData(entity_type="group", match_type=2, match=None)])
    answer = client.ask(request, 1)
    assert (answer.error_code, answer.error_message, answer.entries) == (
        ErrorCode.UNSUPPORTED_VERSION,
        "Unsupported entity type group",
        None,
    )


def test_who_has_no_right_gets_the_error_for_each_entity() -> None:
    client = Node(authorizer=StandardAuthorizer()).connect()
    answers = alter(client, entry({"user": "a"}), entry({"user": "a"}), entry({}))
    refused = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    assert [(each.error_code, each.error_message) for each in answers] == [refused] * 3
    answer = client.ask(DescribeClientQuotasRequest(components=[]), 1)
    assert (answer.error_code, answer.error_message, answer.entries) == (*refused, None)


def test_the_log_says_who_has_changed_what(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    client = Node().connect()
    alter(client, entry({"user": "a", "client-id": None}, **{RATE: 5.0}), entry({"user": "b"}, **{RATE: 0.0}))
    alter(client, entry({"user": "c"}, **{RATE: 5.0}), validate_only=True)
    alter(client, entry({"user": "a", "client-id": None}, **{RATE: None}))
    lines = [record.getMessage() for record in caplog.records if "client quota" in record.getMessage()]
    assert len(lines) == 2
    for line, what in zip(lines, ("client quota set", "client quota deleted"), strict=True):
        assert what in line
        assert "user=a" in line
        assert "client-id=(default)" in line
