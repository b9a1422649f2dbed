"""Bad input and unfriendly clients under client quotas, and requests of nodes, which no quota may hold up."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.broker import Client, Node
from support.quotas import quota
from support.requests import batch, fetch, produce, wanted

from penstock.errors import ErrorCode
from penstock.node.handlers import registry
from penstock.node.request import Handler
from penstock.node.timers import TICK_MS
from penstock.protocol.acls import AclOperation
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.create_topics_response import CreateTopicsResponse
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest
from penstock.protocol.messages.list_offsets_request import ListOffsetsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from penstock.quota.levels import CLIENT_KEYS, CONTROLLER_MUTATION_RATE
from penstock.quota.limits import NAMES_MAX
from penstock.server.metrics import PrometheusText

KIB = 1024
LARGE = b"x" * 10 * KIB
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    made.create_topic("t", partitions=2)
    yield made
    made.stop()


def produced(client: Client, *, client_id: str = "greedy", acks: int = 1) -> Any:
    return client.ask(produce("t", batch(LARGE), acks=acks), 9, client_id)


def creation(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=1_000)


# Requests of nodes


def test_a_brokers_connection_to_the_controller_is_never_mute(node: Node) -> None:
    """Its heartbeats go there, too; and it makes topics of coordinators, and asks for versions, as anybody may."""
    for key in (CONTROLLER_MUTATION_RATE, "request_percentage"):
        node.change([quota(key, 0.001, user=None), quota(key, 0.001, client_id=None)])
    broker = node.connect("CONTROLLER")
    for name in ("__consumer_offsets", "__transaction_state"):
        answer = broker.ask(creation(name, partitions=50), 7)
        assert answer.topics[0].error_code == 0
        assert answer.throttle_time_ms == 0
    for _ in range(5):
        broker.ask(VERSIONS, 3)
    assert not broker.paused
    assert broker.ask(creation("other", partitions=50), 7).throttle_time_ms > 0, "what anybody makes is counted"
    assert broker.paused


AS_NODES = {
    "markers": (WriteTxnMarkersRequest(markers=[]), 1),
    "a follower's fetch": (fetch("t", wanted(), replica_id=7), 12),
    "a follower's offsets": (ListOffsetsRequest(replica_id=7, topics=[]), 7),
    "a leader that verifies": (AddPartitionsToTxnRequest(transactions=[]), 4),
}


@pytest.mark.parametrize("asks", AS_NODES)
@pytest.mark.parametrize("may", [True, False])
def test_who_may_not_act_as_a_node_is_counted_like_anybody(node: Node, asks: str, *, may: bool) -> None:
    node.change([quota("request_percentage", 0.001, client_id="greedy")])
    message, version = AS_NODES[asks]
    client = node.connect()
    nodes_alone = (AclOperation.CLUSTER_ACTION, AclOperation.ALTER)
    node.acls.refused = lambda operation, *_: not may and operation in nodes_alone
    for _ in range(3):
        client.send(message, version, "greedy")
    node.acls.refused = lambda *_: False
    assert client.paused is not may


def test_who_asks_as_a_client_is_counted_though_it_may_act_as_a_node(node: Node) -> None:
    node.change([quota("request_percentage", 0.001, client_id="greedy")])
    as_client = [
        (fetch("t", wanted(), replica_id=-2), 12),
        (ListOffsetsRequest(replica_id=-1, topics=[]), 7),
        (AddPartitionsToTxnRequest(v3_and_below_transactional_id="x"), 3),
        (creation("__consumer_offsets"), 7),
    ]
    for message, version in as_client:
        client = node.connect()
        for _ in range(3):
            client.send(message, version, "greedy")
        assert client.paused, message


def test_what_the_controller_says_counts_where_no_quota_is_known_yet() -> None:
    waits = CreateTopicsResponse(throttle_time_ms=500, topics=[])
    handler = registry()[ApiKey.CREATE_TOPICS]
    told = Handler(ApiKey.CREATE_TOPICS, lambda *_: waits, handler.refuse)
    node = Node(handlers={ApiKey.CREATE_TOPICS: told})
    client = node.connect()
    assert client.ask(creation("a"), 7).throttle_time_ms == 500
    assert client.paused
    client.send(MetadataRequest(topics=[]), 12)
    node.advance(500 - 1)
    assert not client.answers
    node.advance(1 + TICK_MS)
    client.receive()


def test_a_request_for_many_topics_is_told_to_wait_once(node: Node) -> None:
    node.change([quota(CONTROLLER_MUTATION_RATE, 1, client_id="greedy")])
    for version, code in ((7, ErrorCode.THROTTLING_QUOTA_EXCEEDED), (5, ErrorCode.NONE)):
        node.advance(600_000)
        client = node.connect()
        names = [f"{version}-{number}" for number in range(6)]
        answer = client.ask(creation(*names, partitions=15), version, "greedy")
        assert [topic.error_code for topic in answer.topics] == [0, *[code] * 5]
        (usage,) = node.broker.quotas.usages.kept.values()
        assert usage.delayed_ms == answer.throttle_time_ms > 0


def test_who_waits_as_told_is_let_in_whatever_the_fractions(node: Node) -> None:
    node.change([quota(CONTROLLER_MUTATION_RATE, 0.3, client_id="greedy")])
    client = node.connect()
    refused = 0
    for number in range(60):
        answer = client.ask(creation(f"t-{number}", partitions=1 + number % 7), 7, "greedy")
        if answer.topics[0].error_code:
            refused += 1
            node.advance(answer.throttle_time_ms)
            node.settle()
            answer = node.connect().ask(creation(f"again-{number}"), 7, "greedy")
            assert answer.topics[0].error_code == 0, "it has waited"
            node.advance(TICK_MS)
    assert refused > 10


# Quotas of any value, changed and deleted at any time

ODD = (0.0, -0.0, -1.0, math.nan, math.inf, -math.inf, 1e300, 1.7e308, 5e-324, 1e-300)


@pytest.mark.parametrize("value", ODD)
def test_a_record_with_any_value_does_no_harm(node: Node, value: float) -> None:
    """An API refuses most of them; a record of another version may have any."""
    writer, other = node.connect(), node.connect()
    produced(writer, client_id="writer")
    node.change([quota(key, value, client_id="greedy") for key in CLIENT_KEYS])
    node.change([quota("connection_creation_rate", value, ip="10.0.0.7")])
    for acks in (1, 0):
        client = node.connect()
        client.send(produce("t", batch(LARGE), acks=acks), 9, "greedy")
        assert acks == 0 or client.receive().responses[0].partition_responses[0].error_code == 0
    answer = node.connect().ask(fetch("t", wanted()), 12, "greedy")
    assert answer.error_code == 0
    answer = node.connect().ask(creation("made", partitions=3), 7, "greedy")
    assert answer.topics[0].error_code in (0, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert 0 <= answer.throttle_time_ms < 2**31
    for _ in range(3):
        assert 0 <= node.broker.connection_delay_ms("10.0.0.7", node.now_ms) <= 1_000
    assert produced(other, client_id="quiet").throttle_time_ms == 0, "nobody else is disturbed"
    list(node.broker.metrics())
    node.advance(600_000)
    node.change([quota(key, None, client_id="greedy") for key in CLIENT_KEYS])
    assert produced(node.connect()).throttle_time_ms == 0


def test_a_quota_that_is_raised_while_a_connection_is_mute_holds_for_the_next_one_at_once(node: Node) -> None:
    node.change([quota("producer_byte_rate", 100, client_id="greedy")])
    client = node.connect()
    told_ms = produced(client).throttle_time_ms
    assert told_ms > 50_000
    node.change([quota("producer_byte_rate", 100 * KIB, client_id="greedy")])
    assert produced(node.connect()).throttle_time_ms == 0
    client.send(MetadataRequest(topics=[]), 12, "greedy")
    node.advance(told_ms - 1)
    assert not client.answers, "who was told to wait waits as long, as in Kafka"
    node.advance(1 + TICK_MS)
    client.receive()


def test_a_quota_that_is_deleted_and_set_again_while_a_connection_is_mute(node: Node) -> None:
    other = quota("producer_byte_rate", 1e6, client_id="other")
    node.change([quota("producer_byte_rate", 1 * KIB, client_id="greedy"), other])
    client = node.connect()
    produced(client)
    told_ms = produced(client).throttle_time_ms if not client.paused else 0
    node.change([quota("producer_byte_rate", None, client_id="greedy")])
    node.change([quota("producer_byte_rate", 1 * KIB, client_id="greedy")])
    again = produced(node.connect()).throttle_time_ms
    assert again > told_ms, "what was used counts, or who sets a quota anew would give a burst each time"
    node.advance(again + TICK_MS)
    assert not client.paused


# Entities of another version, and with any name


def test_entities_and_keys_of_another_version_are_kept_and_bind_nobody(node: Node) -> None:
    node.change([quota("producer_byte_rate", 1, group="g"), quota("producer_byte_rate", 1, group="g", user=None)])
    node.change([quota("share_byte_rate", 1, client_id="greedy"), quota("share_byte_rate", 1, ip=None)])
    assert len(node.broker.image.client_quotas) == 4
    assert produced(node.connect()).throttle_time_ms == 0
    assert not node.broker.quotas.usages.kept
    node.change([quota("producer_byte_rate", 100, client_id="greedy")])
    assert produced(node.connect()).throttle_time_ms > 0, "beside them, what is known holds"
    node.restart()
    assert len(node.broker.image.client_quotas) == 4


NAMES = ('"', "\\", "a\nb", "a,b=c", "<default>", "%2F", "é世", " ", "\u2028", "{}", "x" * NAMES_MAX)


@pytest.mark.parametrize("name", NAMES)
def test_a_client_id_that_needs_escaping_has_its_own_quota_and_its_own_series(node: Node, name: str) -> None:
    node.change([quota("producer_byte_rate", 100, client_id=name)])
    assert produced(node.connect(), client_id=name).throttle_time_ms > 0
    assert produced(node.connect(), client_id=name + "'").throttle_time_ms == 0
    text = PrometheusText()
    for sample in node.broker.metrics():
        text.add(sample)
    lines = [line for line in text.take().decode().split("\n") if line.startswith("kafka_server_produce_byte_rate{")]
    shown = [re.fullmatch(r'.*client_id="((?:\\.|[^"\\])*)"} .*', line) for line in lines]
    assert [re.sub(r"\\(.)", lambda each: each[1].replace("n", "\n"), found[1]) for found in shown if found] == [name]


# Clients that look for a way around


def test_what_is_sent_at_once_executes_one_by_one(node: Node) -> None:
    """Requests of all kinds, in one burst: each that costs something mutes what is behind it."""
    node.change([quota("producer_byte_rate", 5 * KIB, client_id="greedy")])
    client = node.connect()
    executed: list[int] = []
    for _ in range(12):
        client.send(produce("t", batch(LARGE)), 9, "greedy")
        client.send(MetadataRequest(topics=[]), 12, "greedy")
    while len(executed) < 24:
        executed += [node.now_ms] * len(client.answers)
        client.answers.clear()
        node.advance(100)
        assert node.now_ms < 10**13
    client.asked.clear()
    first_ms = executed[0]
    for number, at_ms in enumerate(executed):
        passed = (number // 2) * 10 * KIB
        assert passed <= 5 * KIB * ((at_ms - first_ms) / 1_000 + 10) + 10 * KIB, number


def test_a_quota_of_fetching_holds_for_long_polls_that_are_answered_together(node: Node) -> None:
    node.change([quota("consumer_byte_rate", 1 * KIB, client_id="greedy")])
    clients = [node.connect() for _ in range(20)]
    for client in clients:
        client.send(fetch("t", wanted(), max_wait_ms=30_000, min_bytes=1), 12, "greedy")
    produced(node.connect(), client_id="writer")
    answers = [client.receive() for client in clients]
    full = [answer for answer in answers if answer.responses]
    assert len(full) <= 2, "10 KiB in ten windows, and one that is over"
    assert all(answer.throttle_time_ms for answer in answers if not answer.responses)


@pytest.mark.parametrize(("windows", "limit"), [(1, 1e6), (11, 0.01)])
def test_a_fetch_of_what_is_not_there_yet_waits_however_little_is_allowed(windows: int, limit: float) -> None:
    node = Node(quota_window_num=windows)
    node.create_topic("t")
    node.change([quota("consumer_byte_rate", limit, client_id="greedy")])
    client = node.connect()
    client.send(fetch("t", wanted(), max_wait_ms=500, min_bytes=1), 12, "greedy")
    assert not client.answers, "or a consumer would ask again and again"
    produced(node.connect(), client_id="writer")
    assert client.receive().responses[0].partitions[0].records
    node.stop()


def test_of_two_quotas_that_are_exceeded_the_longer_wait_counts(node: Node) -> None:
    node.change([quota("producer_byte_rate", 100, client_id="greedy"), quota("request_percentage", 1e-6, user=None)])
    client = node.connect()
    first = produced(client).throttle_time_ms
    assert first > 60_000
    client.send(produce("t", batch(LARGE)), 9, "greedy")
    node.advance(first + TICK_MS)
    second = client.receive().throttle_time_ms
    assert second == pytest.approx(first, abs=1), "that for the bytes, which are the same; not the sum"


def test_the_state_of_made_up_names_is_small(node: Node) -> None:
    node.change([quota(key, 1_000, client_id=None) for key in CLIENT_KEYS])
    client = node.connect()
    for number in range(200):
        client.ask(MetadataRequest(topics=[]), 12, f"{number}" + "x" * 30_000)
    usages = node.broker.quotas.usages
    names = [name for _, *both in usages.kept for name in both] + [name for both in usages._known for name in both]
    assert sum(map(len, names)) < 10_000
    assert len(usages.shared) == len(CLIENT_KEYS)
    assert usages.crowded > 0


def test_who_has_no_quota_and_goes_leaves_nothing_behind(node: Node) -> None:
    node.change([quota("producer_byte_rate", 1_000, client_id="another")])
    client = node.connect()
    for number in range(500):
        client.ask(MetadataRequest(topics=[]), 12, f"client-{number}")
    node.advance(60_000)
    assert not node.broker.quotas.usages._known
    assert not node.broker.quotas.usages.kept


def test_a_long_client_id_under_a_default_quota_is_slowed_down_with_others_like_it(node: Node) -> None:
    node.change([quota("producer_byte_rate", 2 * KIB, client_id=None)])
    times = [produced(node.connect(), client_id=f"{number}" + "x" * NAMES_MAX).throttle_time_ms for number in range(4)]
    assert times[0] == 0
    assert times[1] < times[2] < times[3]
    assert produced(node.connect(), client_id="short").throttle_time_ms == 0


def test_a_long_client_id_that_a_quota_names_has_it_for_itself(node: Node) -> None:
    names = [letter * (NAMES_MAX + 1) for letter in "ab"]
    node.change([quota("producer_byte_rate", 2 * KIB, client_id=name) for name in names])
    for name in names:
        assert produced(node.connect(), client_id=name).throttle_time_ms == 0
        assert produced(node.connect(), client_id=name).throttle_time_ms > 0


def test_deletions_are_counted_whoever_is_short_of_tokens(node: Node) -> None:
    node.change([quota(CONTROLLER_MUTATION_RATE, 1, client_id="greedy")])
    client = node.connect()
    client.ask(creation("a", partitions=30), 7, "greedy")
    for version, code in ((5, ErrorCode.THROTTLING_QUOTA_EXCEEDED), (4, ErrorCode.NONE)):
        client = node.connect()
        answer = client.ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1_000), version, "greedy")
        assert answer.responses[0].error_code == code
        assert answer.throttle_time_ms > 10_000
