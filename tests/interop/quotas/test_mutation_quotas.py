"""Quotas of partition mutations: who may be told to try again is told, and Java's AdminClient does it by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from interop.clients.wire import Wire
from interop.kafka_peer import run_java_source
from interop.quotas.limited import WIRE, at_least, limited

from penstock.errors import ErrorCode
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.slow

RATE, PARTITIONS = 2.0, 5
BURST = 2 * RATE
"""Of two windows of a second."""
DEBT_S = (PARTITIONS - BURST) / RATE
"""How long one topic too many takes."""
TRIES_MAX = 1_000

JAVA_ADMIN = """
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;

public final class CreatesTopics {
    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0], "client.id", "java"))) {
            for (int number = 0; number < Integer.parseInt(arguments[1]); number++) {
                NewTopic topic = new NewTopic("java-" + number, Integer.parseInt(arguments[2]), (short) 1);
                admin.createTopics(List.of(topic)).all().get();
            }
            System.out.println(admin.listTopics().names().get().size());
        }
    }
}
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    windows = {"controller.quota.window.num": "2", "controller.quota.window.size.seconds": "1"}
    with LocalBroker({**windows, "num.partitions": str(PARTITIONS)}) as broker:
        yield broker


def create(wire: Wire, name: str, version: int = 7) -> Any:
    topic = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
    return wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), version)


def test_one_is_told_to_try_again_and_then_it_works(broker: LocalBroker) -> None:
    with limited(broker.bootstrap, WIRE, controller_mutation_rate=RATE), Wire(broker.bootstrap) as wire:
        assert create(wire, "first").topics[0].error_code == 0, "a burst may leave a debt"
        tries = 0
        while create_error := create(wire, "second").topics[0].error_code:
            assert create_error == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            tries += 1
            assert tries < TRIES_MAX
        gone = wire.ask(DeleteTopicsRequest(topic_names=["first"], timeout_ms=10_000), 5)
        assert gone.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert gone.throttle_time_ms > 0
        gone = wire.ask(DeleteTopicsRequest(topic_names=["first"], timeout_ms=10_000), 5)
        assert gone.responses[0].error_code == 0, "the answer before has muted the connection until then"


def test_an_older_client_does_what_it_wants_and_waits(broker: LocalBroker) -> None:
    with (
        limited(broker.bootstrap, WIRE, controller_mutation_rate=RATE),
        Wire(broker.bootstrap) as wire,
        at_least((2 * PARTITIONS - BURST) / RATE),
    ):
        answers = [create(wire, f"older-{number}", version=5) for number in range(3)]
    assert [each.topics[0].error_code for each in answers] == [0, 0, 0]
    assert any(each.throttle_time_ms for each in answers)


def refused(admin: AdminClient, name: str) -> str:
    """Creates a topic. The name of the error, or nothing."""
    try:
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    except KafkaException as error:
        return str(error.args[0].name())
    return ""


def test_librdkafkas_admin_is_told_and_its_next_call_waits(broker: LocalBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "client.id": "librdkafka"})
    with (
        limited(broker.bootstrap, {"client-id": "librdkafka"}, controller_mutation_rate=RATE),
        at_least((2 * PARTITIONS - BURST) / RATE),
    ):
        for number in range(3):
            while refusal := refused(admin, f"librdkafka-{number}"):
                assert refusal == "THROTTLING_QUOTA_EXCEEDED"
    assert {f"librdkafka-{number}" for number in range(3)} <= admin.list_topics(timeout=30).topics.keys()


@pytest.mark.java
def test_javas_admin_tries_again_by_itself(broker: LocalBroker) -> None:
    with (
        limited(broker.bootstrap, {"client-id": "java"}, controller_mutation_rate=RATE),
        at_least((2 * PARTITIONS - BURST) / RATE),
    ):
        assert int(run_java_source(JAVA_ADMIN, broker.bootstrap, 3, PARTITIONS).stdout) >= 3


def test_topics_made_on_demand_wait_until_there_are_tokens(broker: LocalBroker) -> None:
    with (
        limited(broker.bootstrap, WIRE, controller_mutation_rate=RATE),
        Wire(broker.bootstrap) as wire,
        at_least(DEBT_S),
    ):
        for name in ("demanded-1", "demanded-2"):
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
            while error := wire.ask(request, 12).topics[0].error_code:
                assert error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
