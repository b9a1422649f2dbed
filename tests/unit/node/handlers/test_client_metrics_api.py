"""GetTelemetrySubscriptions and PushTelemetry through a whole node."""

from __future__ import annotations

from uuid import UUID

import pytest
from support.broker import Node
from support.client_metrics import ask, connect, push, samples, subscribe, value_of
from support.otlp import CUMULATIVE, counter, gauge, metrics_data

from penstock.errors import ErrorCode
from penstock.node.limits import (
    CLIENT_INSTANCES_LOOK_MS,
    CLIENT_INSTANCES_MAX,
    CLIENT_INSTANCES_PER_CONNECTION_MAX,
    CLIENT_SERIES_PER_INSTANCE_MAX,
)
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.push_telemetry_request import PushTelemetryRequest
from penstock.records.compression import Codec, Contexts, compress

LATENCY = "org.apache.kafka.producer.request.latency.avg"
SERIES = "kafka_client_producer_request_latency_avg"
MINUTE_MS = 60_000


@pytest.fixture
def node() -> Node:
    node = Node()
    assert subscribe(node, "all", metrics="*", interval_ms="1000").error_code == 0
    return node


def latency(value: float, **attributes: object) -> bytes:
    return metrics_data([gauge(LATENCY, value, **attributes)])


def test_both_apis_are_advertised() -> None:
    told = {each.api_key for each in Node().connect().ask(ApiVersionsRequest(), 0).api_keys}
    assert {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY} <= told


def test_a_client_gets_an_id_and_nothing_to_push_without_a_subscription() -> None:
    node = Node()
    told = ask(connect(node))
    assert told.error_code == 0
    assert told.client_instance_id.version == 4
    assert (told.requested_metrics, told.push_interval_ms) == ([], 300_000)
    assert told.accepted_compression_types == [Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY]
    assert (told.telemetry_max_bytes, told.delta_temporality) == (1_048_576, True)


def test_a_client_keeps_its_id_and_two_clients_have_two(node: Node) -> None:
    client = connect(node)
    own, other = ask(client), ask(connect(node))
    node.advance(1_000)
    assert ask(client, own.client_instance_id).client_instance_id == own.client_instance_id
    assert other.client_instance_id != own.client_instance_id


def test_a_push_is_at_metrics(node: Node) -> None:
    client = connect(node)
    told = ask(client)
    assert push(client, told, latency(2.5, node_id="1")) == 0
    assert value_of(
        node,
        SERIES,
        client_id="orders",
        client_software_name="apache-kafka-java",
        client_software_version="4.3.1",
        node_id="1",
    ) == pytest.approx(2.5)
    node.advance(1_000)
    assert push(client, told, latency(3.5, node_id="1")) == 0
    assert value_of(node, SERIES) == pytest.approx(3.5)
    assert value_of(node, "kafka_server_clientmetrics_plugin_export_total") == 2


@pytest.mark.parametrize("codec", list(Codec))
def test_each_compression_is_read(node: Node, codec: Codec) -> None:
    client = connect(node)
    told = ask(client)
    assert push(client, told, compress(codec, latency(4.0), Contexts()), compression_type=codec) == 0
    assert value_of(node, SERIES) == pytest.approx(4.0)


def test_counters_that_say_how_much_they_grew_are_added_up(node: Node) -> None:
    client = connect(node)
    told = ask(client)
    for _ in range(3):
        assert push(client, told, metrics_data([counter("org.apache.kafka.sent", 2.0)])) == 0
        assert push(client, told) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        node.advance(1_000)
    assert value_of(node, "kafka_client_sent_total") == pytest.approx(6.0)
    assert push(client, told, metrics_data([counter("org.apache.kafka.made", 9.0, CUMULATIVE)])) == 0
    assert value_of(node, "kafka_client_made_total") == pytest.approx(9.0)


def test_who_comes_before_the_interval_is_over_is_told_so(node: Node) -> None:
    client = connect(node)
    told = ask(client)
    assert ask(client, told.client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(client, told) == 0, "at once after it asked"
    assert push(client, told) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    node.advance(999)
    assert push(client, told) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert ask(client, told.client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    node.advance(1)
    assert push(client, told) == 0
    node.advance(1_000)
    assert ask(client, told.client_instance_id).error_code == 0
    assert value_of(node, "kafka_server_clientmetrics_throttle_total") == 4


def test_a_changed_subscription_is_told_at_once(node: Node) -> None:
    client = connect(node)
    told = ask(client)
    subscribe(node, "all", interval_ms="2000")
    assert push(client, told) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    again = ask(client, told.client_instance_id)
    assert (again.error_code, again.push_interval_ms) == (0, 2000)
    assert again.subscription_id != told.subscription_id
    assert push(client, again) == ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the refused push counts, as in Kafka"
    node.advance(2_000)
    assert push(client, again, latency(1.0)) == 0
    assert value_of(node, "kafka_server_clientmetrics_unknown_subscription_request_total") == 1


def test_a_subscription_that_is_gone_asks_for_nothing(node: Node) -> None:
    subscribe(node, "all", metrics=None, interval_ms=None)
    assert ask(connect(node)).requested_metrics == []
    assert value_of(node, "penstock_client_metrics_subscriptions") == 0


def test_who_may_ask_anew_at_once(node: Node) -> None:
    client = connect(node)
    told = ask(client)
    assert push(client, told, b"x", compression_type=5) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert ask(client, told.client_instance_id).error_code == 0
    node.advance(1_000)
    assert push(client, told, b"\xff", compression_type=0) == ErrorCode.INVALID_RECORD
    assert ask(client, told.client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_after_its_last_push_a_client_may_not_push(node: Node) -> None:
    client = connect(node)
    told = ask(client)
    assert push(client, told, latency(1.0)) == 0
    assert push(client, told, latency(2.0), terminating=True) == 0, "whenever it comes"
    assert value_of(node, SERIES) == pytest.approx(2.0)
    node.advance(1_000)
    assert push(client, told, latency(3.0), terminating=True) == ErrorCode.INVALID_REQUEST
    assert push(client, told, latency(3.0)) == ErrorCode.INVALID_REQUEST
    assert value_of(node, SERIES) == pytest.approx(2.0)


@pytest.mark.parametrize("number", [0, 1])
def test_reserved_ids_do_not_push(node: Node, number: int) -> None:
    client = connect(node)
    assert push(client, ask(client), client_instance_id=UUID(int=number)) == ErrorCode.INVALID_REQUEST


def test_metrics_larger_than_the_limit_are_refused() -> None:
    node = Node(telemetry_max_bytes=100)
    subscribe(node, "all", metrics="*", interval_ms="100")
    client = connect(node)
    told = ask(client)
    assert told.telemetry_max_bytes == 100
    assert push(client, told, b"x" * 101) == ErrorCode.TELEMETRY_TOO_LARGE
    node.advance(100)
    small = compress(Codec.ZSTD, bytes(10_000), Contexts())
    assert len(small) <= 100
    assert push(client, told, small, compression_type=Codec.ZSTD) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", list(Codec))
def test_what_is_no_metrics_changes_nothing(node: Node, codec: Codec) -> None:
    client = connect(node)
    told = ask(client)
    good = latency(1.0)
    assert push(client, told, good + b"\x0a\x7f", compression_type=codec) == ErrorCode.INVALID_RECORD
    assert samples(node, SERIES) == {}
    assert value_of(node, "kafka_server_clientmetrics_plugin_error_total") == 1
    node.advance(1_000)
    assert push(client, told, good) == 0


def test_an_id_from_another_broker_is_known_from_its_first_push(node: Node) -> None:
    client, elsewhere = connect(node), Node(seed=2)
    subscribe(elsewhere, "all", metrics="*", interval_ms="1000")
    told = ask(connect(elsewhere))
    assert push(client, told, latency(1.0)) == 0
    assert value_of(node, SERIES) == pytest.approx(1.0)


def test_who_matches_is_decided_by_all_that_a_client_is_known_by(node: Node) -> None:
    subscribe(node, "all", metrics=None, interval_ms=None)
    subscribe(node, "mine", metrics="a.,b.", match="client_id=ord.*,client_software_version=4[.]3.*")
    subscribe(node, "local", metrics="c.", interval_ms="5000", match="client_source_address=127[.]0[.]0[.]1")
    told = ask(connect(node))
    assert (sorted(told.requested_metrics), told.push_interval_ms) == (["a.", "b.", "c."], 5_000)
    assert ask(connect(node, ("librdkafka", "2.16"))).requested_metrics == ["c."]
    assert ask(connect(node), client_id="orders2").requested_metrics == told.requested_metrics
    assert ask(connect(node), client_id="an-orders").requested_metrics == ["c."]
    assert ask(connect(node), client_id=None).requested_metrics == ["c."]


def test_one_client_is_matched_by_its_id_and_by_its_port(node: Node) -> None:
    subscribe(node, "all", metrics=None, interval_ms=None)
    client = connect(node)
    own = ask(client)
    subscribe(node, "one", metrics="a.", match="client_instance_id=nobody")
    assert ask(client, own.client_instance_id).requested_metrics == []
    port = node.broker.connections[client.number].peer.rpartition(":")[2]
    subscribe(node, "one", match=f"client_source_port={port}")
    assert ask(client, own.client_instance_id).requested_metrics == ["a."]


def test_instances_go_with_their_connections_and_what_they_pushed_stays_for_a_while(node: Node) -> None:
    client = connect(node)
    told = ask(client)
    push(client, told, latency(1.0))
    assert value_of(node, "kafka_server_clientmetrics_instance_count") == 1
    node.broker.disconnected(client.number, node.now_ms)
    node.run()
    assert value_of(node, "kafka_server_clientmetrics_instance_count") == 0
    assert value_of(node, SERIES) == pytest.approx(1.0)
    node.advance(MINUTE_MS + CLIENT_INSTANCES_LOOK_MS)
    assert samples(node, "kafka_client_") == {}


def test_instances_that_are_silent_are_forgotten(node: Node) -> None:
    subscribe(node, "all", interval_ms="30000")
    client = connect(node)
    told = ask(client)
    node.advance(80_000)
    assert push(client, told) == 0
    node.advance(89_000)
    assert value_of(node, "kafka_server_clientmetrics_instance_count") == 1
    node.advance(1_000 + CLIENT_INSTANCES_LOOK_MS)
    assert value_of(node, "kafka_server_clientmetrics_instance_count") == 0
    assert len(node.broker.scheduler.timers) == len(Node().broker.scheduler.timers), "nothing is looked for any more"


def test_the_client_heard_of_least_recently_is_forgotten_for_a_new_one(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CLIENT_INSTANCES_MAX == 16_384
    monkeypatch.setattr("penstock.node.client_metrics.instances.CLIENT_INSTANCES_MAX", 2)
    clients = [connect(node) for _ in range(3)]
    told = [ask(client) for client in clients[:2]]
    push(clients[0], told[0])
    told.append(ask(clients[2]))
    assert value_of(node, "kafka_server_clientmetrics_instance_count") == 2
    assert ask(clients[0], told[0].client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert ask(clients[1], told[1].client_instance_id).error_code == 0, "a new one"


def test_what_a_client_pushes_beyond_its_own_bound_is_counted(node: Node) -> None:
    client = connect(node)
    data = metrics_data([gauge(f"m{number}", 1.0) for number in range(CLIENT_SERIES_PER_INSTANCE_MAX + 200)])
    assert push(client, ask(client), data) == 0
    assert value_of(node, "penstock_client_metrics_series") == CLIENT_SERIES_PER_INSTANCE_MAX
    assert value_of(node, "penstock_client_metrics_points_left_out_total", reason="too many") == 200


def test_a_connection_that_closes_in_the_middle_of_a_push_harms_nobody(node: Node) -> None:
    client, other = connect(node), connect(node)
    told = ask(client)
    data = metrics_data([gauge(f"m{number}", 1.0) for number in range(3_000)])
    request = PushTelemetryRequest(
        client_instance_id=told.client_instance_id, subscription_id=told.subscription_id, metrics=data
    )
    node.broker.received(client.number, memoryview(client.frame(request, 0)), node.now_ms)
    assert samples(node, "kafka_client_") == {}, "it is not read yet"
    node.broker.disconnected(client.number, node.now_ms)
    node.run()
    node.settle()
    assert push(other, ask(other), latency(1.0)) == 0
    assert value_of(node, SERIES) == pytest.approx(1.0)


def test_a_connection_has_few_instances_whatever_ids_come_by_it(node: Node) -> None:
    client, other = connect(node), connect(node)
    told = ask(other)
    for number in range(2, 50):
        assert ask(client, UUID(int=number), client_id="x" * 30_000).error_code == 0
    assert value_of(node, "kafka_server_clientmetrics_instance_count") == 1 + CLIENT_INSTANCES_PER_CONNECTION_MAX
    assert ask(client, UUID(int=49)).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert ask(other, told.client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED, "still remembered"
    node.broker.disconnected(client.number, node.now_ms)
    assert value_of(node, "kafka_server_clientmetrics_instance_count") == 1
