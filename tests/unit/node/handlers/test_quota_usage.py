"""DescribeQuotaUsage: who uses how much of which quota, who is held back, and what an answer is bounded by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.broker import Client, Node
from support.logins import logged_in, secured
from support.requests import batch, fetch, produce, wanted

from penstock.errors import ErrorCode
from penstock.node.limits import QUOTA_USAGES_PER_ANSWER_MAX
from penstock.protocol.messages.metadata.client_quota_record import ClientQuotaRecord, EntityData
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.own.describe_quota_usage_request import ComponentData, DescribeQuotaUsageRequest
from penstock.security.authorizer import AclOperation, ResourceType

KIB = 1024
LARGE = b"x" * 10 * KIB
EXACT, DEFAULT, ANY = 0, 1, 2


def quota(key: str, value: float | None, **entity: str | None) -> ClientQuotaRecord:
    """A record; without a value it removes the quota. `client_id` and `user`: None for the default."""
    parts = [EntityData(entity_type=name.replace("_", "-"), entity_name=each) for name, each in entity.items()]
    return ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None)


def produced(client: Client, client_id: str = "greedy") -> Any:
    return client.ask(produce("t", batch(LARGE)), 9, client_id)


def described(client: Client, *components: tuple[str, int, str | None], **words: Any) -> Any:
    parts = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    return client.ask(DescribeQuotaUsageRequest(components=parts, **words), 0, "console")


def used(answer: Any) -> list[tuple[str, str | None, str | None, int, float]]:
    """Key, user, client id, level and limit of each."""
    assert answer.error_code == 0, answer.error_message
    return [(each.key, each.user, each.client_id, each.level, each.limit) for each in answer.usages]


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    made.create_topic("t")
    yield made
    made.stop()


def test_who_is_held_back_by_what_and_for_how_long(node: Node) -> None:
    node.change([quota("producer_byte_rate", 2 * KIB, client_id="greedy")])
    answer = described(node.connect())
    assert (answer.broker_id, answer.active_controller, answer.matching) == (node.broker.state.node_id, True, 0)
    client = node.connect()
    produced(client)
    (usage,) = described(node.connect()).usages
    assert (usage.throttled_for_ms, usage.held_back_ms, usage.throttle_time_total_ms) == (0, 0, 0)
    delay_ms = client.ask(produce("t", batch(LARGE, LARGE)), 9, "greedy").throttle_time_ms
    assert delay_ms > 1_000
    node.advance(200)
    (usage,) = described(node.connect()).usages
    assert (usage.key, usage.level, usage.client_id, usage.user, usage.address) == (
        *("producer_byte_rate", 7, "greedy", None, None),
    )
    assert [(each.entity_type, each.entity_name) for each in usage.entity] == [("client-id", "greedy")]
    assert usage.limit == 2 * KIB
    assert usage.used > usage.limit
    assert usage.throttled_for_ms == delay_ms - 200
    assert usage.held_back_ms == 200
    assert usage.throttle_time_total_ms == delay_ms
    node.advance(delay_ms + 1_100)
    assert described(node.connect(), throttled_only=True).matching == 0


def test_the_most_urgent_come_first_and_no_more_than_are_asked_for(node: Node) -> None:
    node.change([quota("producer_byte_rate", 2 * KIB, client_id=None), quota("producer_byte_rate", KIB, user="nobody")])
    for client_id, requests in (("idle", 0), ("half", 1), ("over", 2)):
        for _ in range(requests):
            produced(node.connect(), client_id)
    assert [each.client_id for each in described(node.connect()).usages] == ["over", "half"]
    answer = described(node.connect(), max_usages=1)
    assert [each.client_id for each in answer.usages] == ["over"]
    assert answer.matching == 2, "that there are more is said"
    assert [each.client_id for each in described(node.connect(), throttled_only=True).usages] == ["over"]


def test_a_usage_is_told_with_the_level_that_counts_now(node: Node) -> None:
    node.change([quota("producer_byte_rate", KIB, user=None)])
    produced(node.connect())
    assert used(described(node.connect())) == [("producer_byte_rate", "ANONYMOUS", None, 6, KIB)]
    node.change([quota("producer_byte_rate", 9 * KIB, user="ANONYMOUS")])
    assert used(described(node.connect())) == [("producer_byte_rate", "ANONYMOUS", None, 3, 9 * KIB)]
    node.change([quota("producer_byte_rate", None, user="ANONYMOUS"), quota("producer_byte_rate", None, user=None)])
    assert used(described(node.connect())) == []


def test_filters_go_by_who_shares_and_by_whose_default_it_is(node: Node) -> None:
    node.change(
        [
            quota("producer_byte_rate", KIB, client_id=None, user="ANONYMOUS"),
            quota("consumer_byte_rate", KIB, client_id="b"),
            quota("request_percentage", 50, user="ANONYMOUS"),
        ]
    )
    for client_id in ("a", "b"):
        produced(node.connect(), client_id)
    node.connect().ask(fetch("t", wanted()), 12, "b")
    node.connect().ask(MetadataRequest(topics=[]), 12, "c")
    client = node.connect()

    def found(*components: tuple[str, int, str | None]) -> set[tuple[str, str | None, str | None]]:
        return {(each.key, each.user, each.client_id) for each in described(client, *components).usages}

    pair_a, pair_b = (("producer_byte_rate", "ANONYMOUS", name) for name in "ab")
    assert found(("client-id", EXACT, "a")) == {pair_a}
    assert found(("client-id", EXACT, "b")) == {pair_b, ("consumer_byte_rate", None, "b")}
    assert pair_a in found(("client-id", DEFAULT, None), ("user", ANY, None))
    assert ("consumer_byte_rate", None, "b") not in found(("client-id", DEFAULT, None))
    assert ("request_percentage", "ANONYMOUS", None) in found(("user", EXACT, "ANONYMOUS"))
    assert found(("user", EXACT, "bob")) == set()
    assert found(("ip", ANY, None)) == set()


def test_new_connections_of_addresses_are_there_too(node: Node) -> None:
    node.change([quota("connection_creation_rate", 1, ip=None), quota("connection_creation_rate", 100, ip="10.0.0.7")])
    for _ in range(11):
        node.broker.quotas.connection_delay_ms("10.0.0.8", node.now_ms)
    node.broker.quotas.connection_delay_ms("10.0.0.7", node.now_ms)
    client = node.connect()
    usages = {each.address: each for each in described(client, ("ip", ANY, None)).usages}
    default, own = usages["10.0.0.8"], usages["10.0.0.7"]
    assert (default.level, own.level, default.limit, own.limit) == (2, 1, 1, 100)
    assert [(each.entity_type, each.entity_name) for each in default.entity] == [("ip", None)]
    assert default.throttled_for_ms > 0
    assert own.throttled_for_ms == 0
    assert [each.address for each in described(client, ("ip", EXACT, "::ffff:10.0.0.7")).usages] == ["10.0.0.7"]


def test_those_beyond_the_bound_are_nobody_in_particular() -> None:
    node = Node(penstock_quota_entities_max=1)
    node.create_topic("t")
    node.change([quota("producer_byte_rate", KIB, client_id=None)])
    for client_id in ("first", "second", "third"):
        produced(node.connect(), client_id)
    answer = described(node.connect())
    assert sorted(used(answer), key=lambda each: each[3]) == [
        ("producer_byte_rate", None, None, 0, KIB),
        ("producer_byte_rate", None, "first", 7 + 1, KIB),
    ]
    assert answer.shared_total >= 2
    node.stop()


def test_many_usages_are_looked_through_in_steps(monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
    monkeypatch.setattr("penstock.node.handlers.quota_usage.QUOTA_USAGES_PER_STEP", 3)
    node.change([quota("producer_byte_rate", KIB, client_id=None)])
    client = node.connect()
    for number in range(20):
        client.ask(produce("t", batch(b"x")), 9, f"c{number}")
    answer = described(client, max_usages=7)
    assert (answer.matching, len(answer.usages)) == (20, 7)


@pytest.mark.parametrize("most", [0, -1, QUOTA_USAGES_PER_ANSWER_MAX + 1, 2**31 - 1])
def test_a_bound_that_is_none_is_refused(node: Node, most: int) -> None:
    answer = described(node.connect(), max_usages=most)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message == f"max_usages is {most}: it must be 1 to {QUOTA_USAGES_PER_ANSWER_MAX}."


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", 0, "a")], ErrorCode.INVALID_REQUEST),
        ([("group", 0, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", 0, "a"), ("user", 2, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 0, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", 2, None), ("user", 2, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_wrong_filter_is_refused_as_kafka_refuses_those_of_quotas(
    node: Node, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    answer = described(node.connect(), *components)
    assert answer.error_code == code
    assert answer.error_message
    assert not answer.usages


def test_it_needs_describe_configs_on_the_cluster(node: Node) -> None:
    client = node.connect()
    asked: list[tuple[AclOperation, ResourceType]] = []
    node.acls.refused = lambda operation, resource, name: not asked.append((operation, resource))
    assert described(client).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    node.acls.refused = lambda *_: False
    assert (AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER) in asked


def test_users_are_told_apart_from_client_ids() -> None:
    node = secured()
    node.create_topic("t")
    node.change([quota("producer_byte_rate", KIB, user="alice"), quota("producer_byte_rate", 2 * KIB, client_id="x")])
    produced(logged_in(node, "alice"), "x")
    produced(logged_in(node, "bob"), "x")
    found = used(described(node.connect()))
    assert sorted(found, key=lambda each: each[3]) == [
        ("producer_byte_rate", "alice", None, 3, KIB),
        ("producer_byte_rate", None, "x", 7, 2 * KIB),
    ]
    node.stop()
