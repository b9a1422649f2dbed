"""Whatever leaves is counted and says how long its client is to wait, however it was made."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

import pytest
import support.broker
from support.broker import Node
from support.plausible import plausible, world
from support.requests import batch, fetch, produce, produced, wanted

from penstock.errors import ErrorCode
from penstock.log.operations import Write
from penstock.node.client_quotas import ClientQuotas, MutationQuota
from penstock.node.exit import put_in
from penstock.node.handlers import registry
from penstock.node.limits import METADATA_ANSWER_KEPT_TOPICS_MAX
from penstock.node.request import Handler, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse
from penstock.protocol.messages.list_groups_request import ListGroupsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.protocol.schema import message as message_schema
from penstock.quota.connections import ConnectionRates
from penstock.quota.usages import Usages, Windows
from penstock.security.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from penstock.security.rights import READ_GROUP, READ_TOPIC, ROWS, Right

NAMED = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
WIDE = MetadataRequest(
    topics=[MetadataRequestTopic(name=f"t{number}") for number in range(METADATA_ANSWER_KEPT_TOPICS_MAX + 1)],
    allow_auto_topic_creation=False,
)
VERSIONS = ApiVersionsRequest(client_software_name="a", client_software_version="1")
WAYS = {
    "kept, in a flexible frame": (NAMED, 12),
    "kept, in a plain frame": (NAMED, 4),
    "kept, with a header of its own": (VERSIONS, 3),
    "refused by its handler": (HeartbeatRequest(group_id="g", member_id="m"), 4),
    "given later": (ListGroupsRequest(), 4),
    "encoded in steps": (WIDE, 12),
}


WAIT_MS = 70
HANDLERS = registry().values()
APIS = pytest.mark.parametrize("handler", HANDLERS, ids=[handler.key.name for handler in HANDLERS])
LATEST_MS = 60_000


class Waits(ClientQuotas):
    """A quota that clients have exceeded; the node itself has none."""

    def __init__(self) -> None:
        self.left_ms = WAIT_MS
        self.counted: list[tuple[ApiKey, int]] = []
        self.active = True
        windows = Windows(11, 1_000)
        self.usages, self.connections = Usages(windows, windows, 10), ConnectionRates(windows, 10)

    def begins(self, request: Request[Any], now_ms: int) -> int:
        return 0

    def mutations(self, request: Request[Any], *, strict: bool, now_ms: int) -> MutationQuota:
        return MutationQuota(None, strict=strict, now_ms=now_ms)

    def throttle_time_ms(self, request: Request[Any], answer_bytes: int, now_ms: int) -> int:
        if request.connection.id <= 0:
            return 0
        self.counted.append((request.handler.key, answer_bytes))
        return self.left_ms


class Heard:
    """What an audit hears of the requests of clients: each with its principal, decisions, errors and times."""

    def __init__(self) -> None:
        self.decisions: list[tuple[Right, str, bool]] = []
        self.errors: list[ErrorCode] = []
        self.answers: list[tuple[ApiKey, str, int]] = []
        self.lost: list[tuple[ApiKey, int]] = []

    def decided(self, request: Request[Any], right: Right, name: str, *, allowed: bool) -> None:
        if request.connection.id > 0:
            self.decisions.append((right, name, allowed))

    def refused(self, request: Request[Any], code: ErrorCode) -> None:
        if request.connection.id > 0:
            self.errors.append(code)

    def ended(self, request: Request[Any], time_ms: int, *, answered: bool) -> None:
        if not answered:
            self.lost.append((request.handler.key, time_ms))
        elif request.connection.id > 0:
            self.answers.append((request.handler.key, str(request.principal), time_ms))

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """That of the nodes which the test makes."""
    waits = Waits()
    monkeypatch.setattr("support.broker.Broker", partial(support.broker.Broker, quotas=lambda *_: waits))
    return waits


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    """What is heard of the nodes which the test makes."""
    heard = Heard()
    monkeypatch.setattr("support.broker.Broker", partial(support.broker.Broker, audit=heard))
    return heard


def has_throttle_time(handler: Handler[Any], version: int) -> bool:
    """Whether Kafka's answer has a place for it."""
    fields = message_schema(handler.api.response_class.NAME).root.fields
    return any(field.attribute == "throttle_time_ms" and version in field.versions for field in fields)


def answer_of(node: Node, handler: Handler[Any], version: int, topic_id: UUID) -> Message:
    """That to the plausible request of an API, whenever it comes."""
    client = node.connect("PLAINTEXT" if "broker" in handler.api.listeners else "CONTROLLER")
    client.send(plausible(handler, topic_id, version), version)
    node.run()
    if not client.answers:
        node.advance(LATEST_MS)
    return client.receive()


@APIS
def test_the_answer_of_every_api_that_can_says_how_long_to_wait(handler: Handler[Any], waits: Waits) -> None:
    waits.left_ms = 0
    node, topic_id = world()
    waits.left_ms = WAIT_MS
    for version in range(handler.min_version, handler.max_version + 1):
        answer = answer_of(node, handler, version, topic_id)
        expected = WAIT_MS if has_throttle_time(handler, version) else 0
        assert getattr(answer, "throttle_time_ms", 0) == expected, version


@pytest.mark.parametrize("large", [False, True], ids=["small", "in steps"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_out_says_how_long_to_wait(
    way: str, waits: Waits, monkeypatch: pytest.MonkeyPatch, *, large: bool
) -> None:
    message, version = WAYS[way]
    waits.left_ms = 0
    node = Node()
    node.create_topic("t")
    client = node.connect()
    before = client.ask(message, version)
    assert before.throttle_time_ms == 0
    waits.left_ms = WAIT_MS
    if large:
        monkeypatch.setattr("penstock.node.exit.STEPPED_FRAME_BYTES", 10)
    throttled = client.ask(message, version)
    assert throttled.throttle_time_ms == WAIT_MS
    waits.left_ms = 0
    node.advance(WAIT_MS)
    throttled.throttle_time_ms = 0
    assert throttled == before
    assert client.ask(message, version) == before, "what is kept is as it was"


def test_a_kept_answer_that_is_large_is_written_anew_in_steps(waits: Waits, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    client = node.connect()
    for limit_bytes, in_steps in ((1 << 20, 0), (10, 1)):
        monkeypatch.setattr("penstock.node.exit.STEPPED_FRAME_BYTES", limit_bytes)
        begun: list[Any] = []
        turns = node.broker.dispatcher.turns
        with monkeypatch.context() as patched:
            begin = turns.begin
            patched.setattr(turns, "begin", lambda *work, begin=begin, begun=begun: begun.append(1) or begin(*work))
            assert client.ask(VERSIONS, 3).throttle_time_ms == WAIT_MS
            node.advance(WAIT_MS)
        assert len(begun) == in_steps


@pytest.mark.parametrize("version", [8, 9, 12])
def test_a_plain_produce_that_is_throttled_is_answered_as_it_else_would_be(waits: Waits, version: int) -> None:
    waits.left_ms = 0
    node = Node()
    node.create_topic("t")
    client = node.connect()
    before = client.ask(produce("t", batch()), version)
    waits.left_ms = WAIT_MS
    throttled = client.ask(produce("t", batch()), version)
    assert throttled.throttle_time_ms == WAIT_MS
    throttled.throttle_time_ms = 0
    throttled.responses[0].partition_responses[0].base_offset -= 1
    assert throttled == before


def test_what_is_left_is_asked_when_the_answer_leaves(waits: Waits) -> None:
    waits.left_ms = 0
    node = Node()
    node.create_topic("t")
    client = node.connect()
    client.send(fetch("t", wanted(), min_bytes=1, max_wait_ms=500), 12)
    waits.left_ms = WAIT_MS
    node.advance(501)
    assert client.receive().throttle_time_ms == WAIT_MS


def test_a_client_over_its_quota_is_muted_after_the_answer(waits: Waits) -> None:
    node = Node()
    client, other = node.connect(), node.connect()
    assert client.ask(VERSIONS, 3).throttle_time_ms == WAIT_MS
    assert client.paused, "nothing is read"
    client.send(VERSIONS, 3)
    node.advance(WAIT_MS - 1)
    assert not client.answers, "nothing executes that was read before"
    assert other.ask(VERSIONS, 3).throttle_time_ms == WAIT_MS
    waits.left_ms = 0
    node.advance(1)
    assert not client.paused
    assert client.receive().throttle_time_ms == 0
    client.ask(VERSIONS, 3)


def test_a_client_that_wants_no_answer_is_muted_too(waits: Waits) -> None:
    waits.left_ms = 0
    node = Node()
    node.create_topic("t")
    client = node.connect()
    waits.left_ms = WAIT_MS
    client.send(produce("t", batch(), acks=0), 9)
    client.asked.clear()
    assert waits.counted[-1] == (ApiKey.PRODUCE, 0)
    assert client.paused
    client.send(VERSIONS, 3)
    assert not client.answers
    node.advance(WAIT_MS)
    client.receive()


def test_the_longest_mute_counts_and_the_answers_of_requests_in_flight_say_what_is_left(waits: Waits) -> None:
    waits.left_ms = 0
    node = Node()
    node.create_topic("t")
    client = node.connect()
    client.send(fetch("t", wanted(), min_bytes=1, max_wait_ms=20), 12)
    waits.left_ms = WAIT_MS
    client.send(VERSIONS, 3)
    assert client.paused
    waits.left_ms = 0
    node.advance(20)
    assert client.receive().throttle_time_ms == WAIT_MS - 20
    assert client.receive().throttle_time_ms == WAIT_MS - 20, "it waited for the one before"
    client.send(fetch("t", wanted(), min_bytes=1, max_wait_ms=20), 12)
    node.advance(WAIT_MS - 20)
    waits.left_ms = WAIT_MS
    client.send(VERSIONS, 3)
    node.advance(20)
    client.receive()
    client.receive()
    node.advance(WAIT_MS - 1)
    assert client.paused, "the fetch was answered later"
    node.advance(1)
    assert not client.paused


def test_a_connection_is_read_when_it_is_neither_muted_nor_full(waits: Waits) -> None:
    waits.left_ms = 0
    node = Node(penstock_connection_max_in_flight=4)
    node.create_topic("t")
    client = node.connect()
    produced(client, "t", batch())
    for muted_first in (False, True):
        if muted_first:
            waits.left_ms = WAIT_MS
            client.ask(VERSIONS, 3)
        node.held = lambda operation: isinstance(operation, Write)
        for _ in range(4):
            client.send(produce("t", batch()), 9)
        waits.left_ms = 0 if muted_first else WAIT_MS
        if muted_first:
            node.advance(WAIT_MS)
            assert client.paused, "full"
            node.let_go()
        else:
            node.let_go()
            assert client.paused, "muted"
            node.advance(WAIT_MS)
        assert not client.paused
        for _ in range(4):
            client.receive()


def test_who_is_muted_and_goes_is_forgotten(waits: Waits) -> None:
    node = Node()
    client = node.connect()
    client.ask(VERSIONS, 3)
    node.broker.disconnected(client.number, node.now_ms)
    node.advance(WAIT_MS)
    node.connect().ask(VERSIONS, 3)


def test_the_bytes_of_an_answer_are_known_before_it_is_read(waits: Waits) -> None:
    """Those of records, which stay in their file; nobody counts those of others."""
    waits.left_ms = 0
    node = Node()
    node.create_topic("t")
    client = node.connect()
    produced(client, "t", batch(b"x" * 5_000))
    for message, version in ((fetch("t", wanted(), min_bytes=1), 12), (WIDE, 12), (VERSIONS, 3)):
        client.send(message, version)
        size_bytes = len(client.answers[0]) + 4 if message.KEY == ApiKey.FETCH else 0
        assert waits.counted[-1] == (message.KEY, size_bytes)
        client.receive()


def test_another_nodes_answer_may_say_more(waits: Waits) -> None:
    answer = HeartbeatResponse(throttle_time_ms=WAIT_MS + 1)
    put_in(answer, WAIT_MS)
    assert answer.throttle_time_ms == WAIT_MS + 1


def rights_of(key: ApiKey) -> set[tuple[AclOperation, ResourceType]]:
    """What an API may ask for."""
    row = ROWS[key]
    rights = [right for right in (row.first, row.first_on_controllers, *row.named) if right is not None]
    found = {(right.operation, right.resource) for right in rights}
    instead = [right.or_on_cluster for right in rights if right.or_on_cluster is not None]
    on_any = {right.or_on_any for right in rights if right.or_on_any is not None}
    return found | {(operation, ResourceType.CLUSTER) for operation in instead} | on_any


@APIS
def test_every_request_is_audited_once(handler: Handler[Any], heard: Heard) -> None:
    node, topic_id = world()
    for version in range(handler.min_version, handler.max_version + 1):
        heard.clear()
        answer_of(node, handler, version, topic_id)
        ((key, principal, time_ms),) = heard.answers
        assert key is handler.key
        assert principal == "User:ANONYMOUS"
        assert 0 <= time_ms <= LATEST_MS
        assert {(right.operation, right.resource) for right, _, _ in heard.decisions} <= rights_of(handler.key)
        assert all(allowed for _, _, allowed in heard.decisions)
        first = ROWS[handler.key].first
        assert first is None or heard.decisions[0] == (first, CLUSTER_NAME, True)


def test_an_audit_hears_who_may_not_what_and_how_long_it_took(heard: Heard) -> None:
    node = Node()
    node.create_topic("t")
    client = node.connect()
    heard.clear()
    client.send(fetch("t", wanted(), min_bytes=1, max_wait_ms=500), 12)
    node.advance(501)
    client.receive()
    assert heard.decisions[0] == (READ_TOPIC, "t", True)
    assert [(key, time_ms >= 500) for key, _, time_ms in heard.answers] == [(ApiKey.FETCH, True)]
    heard.clear()
    node.acls.refused = lambda *_: True
    client.ask(HeartbeatRequest(group_id="g", member_id="m"), 4)
    assert heard.decisions == [(READ_GROUP, "g", False)]
    assert heard.errors == [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    assert len(heard.answers) == 1


@pytest.mark.parametrize("by_client", [True, False])
def test_an_audit_hears_the_end_of_a_request_whose_connection_is_gone(heard: Heard, *, by_client: bool) -> None:
    node = Node()
    node.create_topic("t")
    client = node.connect()
    client.ask(VERSIONS, 3)
    client.send(fetch("t", wanted(), min_bytes=1, max_wait_ms=500), 12)
    node.advance(100)
    assert heard.lost == []
    if by_client:
        node.broker.disconnected(client.number, node.now_ms)
    else:
        client.send_bytes(b"no request")
        assert client.closed
    assert [each for each in heard.lost if each[0] is ApiKey.FETCH] == [(ApiKey.FETCH, 100)]
    node.advance(500)
    assert [key for key, _, _ in heard.answers] == [ApiKey.API_VERSIONS], "each ends once"


@pytest.mark.parametrize(
    ("offset", "may_read", "code"),
    [
        (0, True, ErrorCode.NONE),
        (1, True, ErrorCode.NONE),
        (2, True, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, False, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_the_right_to_a_fetch_is_decided_upon_once(offset: int, may_read: bool, code: ErrorCode, heard: Heard) -> None:
    """Whether it is a plain one, or one that is looked at again by the general way."""
    node = Node()
    node.create_topic("t")
    client = node.connect()
    produced(client, "t", batch())
    node.acls.refused = lambda operation, resource, name: resource is ResourceType.TOPIC and not may_read
    heard.clear()
    answer = client.ask(fetch("t", wanted(offset=offset), max_wait_ms=0), 12)
    assert answer.responses[0].partitions[0].error_code == code
    assert heard.decisions == [(READ_TOPIC, "t", may_read)]


@pytest.mark.parametrize("way", WAYS)
def test_every_answer_is_counted(way: str) -> None:
    message, version = WAYS[way]
    node = Node()
    client = node.connect()
    counters = node.broker.dispatcher.exit.counters[message.KEY]
    before = counters.requests
    for _ in range(3):
        client.ask(message, version)
    assert counters.requests == before + 3


def test_refusals_are_counted_by_their_error() -> None:
    node = Node()
    client = node.connect()
    refused: Message = HeartbeatRequest(group_id="g", member_id="m")
    code = ErrorCode(client.ask(refused, 4).error_code)
    client.ask(refused, 4)
    client.ask(VERSIONS, 3)
    found = {
        (each.labels["request"], each.labels["error"]): each.value
        for each in node.broker.metrics()
        if each.name == "kafka_network_requestmetrics_errors_total"
    }
    assert found == {("Heartbeat", code.name): 2}
