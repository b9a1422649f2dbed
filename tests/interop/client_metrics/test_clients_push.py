"""Unmodified clients push what they measure, and it is at /metrics: Java's, librdkafka and franz-go.

The subscriptions are made by Kafka's own tools.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from interop.client_metrics.scraped import Series, address_of, scrape, until
from interop.clients.builds import go_clients
from interop.kafka_peer import java_source
from interop.tools.toolbox import CLIENT_METRICS, CONFIGS, Toolbox

from penstock.cli.main import main
from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.java

JAVA = Path(__file__).with_name("PushingClients.java")
INTERVAL_MS = 300
ALL = "org.apache.kafka."
"""Franz-go takes * for the beginning of a name, of which there is none."""
TOPIC = "measured"


@pytest.fixture(scope="module")
def tools() -> Iterator[Toolbox]:
    with Toolbox() as tools:
        yield tools


@pytest.fixture(scope="module")
def broker(tools: Toolbox) -> Iterator[LocalBroker]:
    with LocalBroker({"penstock.metrics.listener": "127.0.0.1:0"}) as broker:
        broker.create_topic(TOPIC)
        made = tools.run(
            *(CLIENT_METRICS, broker.bootstrap, "--alter", "--name", "all"),
            *("--metrics", ALL, "--interval", INTERVAL_MS),
        )
        assert made.status == 0, made
        yield broker


def named(name: str, **labels: str) -> Callable[[list[Series]], list[Series]]:
    """Series of that name with those labels and a value."""
    return lambda found: [
        each
        for each in found
        if each.name == name and labels.items() <= each.labels.items() and each.value == each.value
    ]


def test_java_clients_push_what_they_measure(broker: LocalBroker) -> None:
    address = address_of(broker)
    command = java_source(JAVA.read_text(), broker.bootstrap, TOPIC, "java-app")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as clients:
        assert clients.stdout is not None
        producer, consumer = (clients.stdout.readline().strip() for _ in range(2))
        assert producer != consumer
        who = {"client_id": "java-app", "client_software_name": "apache-kafka-java", "client_software_version": "4.3.1"}
        for instance, name in (
            (producer, "kafka_client_producer_request_latency_avg"),
            (producer, "kafka_client_producer_record_send_total"),
            (consumer, "kafka_client_consumer_fetch_manager_fetch_latency_avg"),
            (consumer, "kafka_client_consumer_coordinator_assigned_partitions"),
        ):
            until(address, named(name, client_instance_id=instance, **who), f"{name} of {instance}")
        [info] = until(
            address, named("penstock_client_metrics_client_info", client_instance_id=consumer), "what it says of itself"
        )
        assert info.labels["group_id"] == "pushing"
        before = sent(address, producer)
        until(address, lambda _: [each for each in [sent(address, producer)] if each.value > before.value], "more sent")
        clients.communicate("end\n", timeout=60)
    assert clients.returncode == 0
    [errors] = [each for each in scrape(address) if each.name == "kafka_server_clientmetrics_plugin_error_total"]
    assert errors.value == 0


def sent(address: str, instance: str) -> Series:
    [found] = named("kafka_client_producer_record_send_total", client_instance_id=instance)(scrape(address))
    return found


def test_librdkafka_pushes_what_it_measures(broker: LocalBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "c-app"})
    producer.produce(TOPIC, b"x")
    assert producer.flush(30) == 0
    address, who = address_of(broker), {"client_id": "c-app", "client_software_name": "confluent-kafka-python"}
    until(address, named("kafka_client_producer_connection_creation_total", **who), "librdkafka's counter")
    until(address, named("kafka_client_producer_node_request_latency_avg", **who), "librdkafka's latency")


def test_franz_go_pushes_what_it_measures(broker: LocalBroker) -> None:
    who = {"client_id": "go-app", "client_software_name": "kgo"}
    times = "session_ms=10000 heartbeat_ms=1000 refresh_ms=5000 assignor=range"
    with subprocess.Popen([*go_clients(), "members"], stdin=subprocess.PIPE, text=True) as client:
        assert client.stdin is not None
        client.stdin.write(f"open go-app bootstrap={broker.bootstrap} group=of-go topics={TOPIC} {times}\n")
        client.stdin.flush()
        try:
            until(address_of(broker), named("kafka_client_consumer_node_request_latency_avg", **who), "its latency")
        finally:
            client.terminate()


def test_kafkas_tools_show_change_and_delete_subscriptions(tools: Toolbox, broker: LocalBroker) -> None:
    def run(tool: str, *arguments: object) -> str:
        done = tools.run(tool, broker.bootstrap, *arguments)
        assert done.status == 0, done
        return done.out

    of = ("--name", "slow")
    run(CLIENT_METRICS, "--alter", *of, "--metrics", "a.b.,c.", "--interval", 5000, "--match", "client_id=nobody.*")
    assert set(run(CLIENT_METRICS, "--list").split()) == {"all", "slow"}
    shown = run(CLIENT_METRICS, "--describe", *of)
    for words in ("metrics=a.b.,c.", "interval.ms=5000", "match=client_id=nobody.*"):
        assert words in shown
    entity = ("--entity-type", "client-metrics", "--entity-name", "slow")
    run(CONFIGS, "--alter", *entity, "--add-config", "interval.ms=6000")
    assert "interval.ms=6000" in run(CONFIGS, "--describe", *entity)
    wrong = tools.run(CLIENT_METRICS, broker.bootstrap, "--alter", *of, "--interval", 50)
    assert "interval must be between 100 and 3600000" in wrong.out + wrong.error
    run(CLIENT_METRICS, "--delete", *of)
    assert run(CLIENT_METRICS, "--list").split() == ["all"]


def test_our_command_shows_and_changes_them(broker: LocalBroker, capsys: pytest.CaptureFixture[str]) -> None:
    of = ("--entity", "client-metrics", "--name", "ours", "--bootstrap", broker.bootstrap)
    assert main(["configs", "alter", *of, "--add", "metrics=a.", "--add", "match=client_id=nobody"]) == 0
    assert main(["configs", "describe", *of]) == 0
    out = capsys.readouterr().out
    assert "client metrics ours" in out
    assert "client_id=nobody" in out
    assert main(["configs", "alter", *of, "--add", "match=client_id=("]) == 1
    assert "Illegal client matching pattern: client_id=(" in capsys.readouterr().err
    assert main(["configs", "alter", *of, "--delete", "metrics", "--delete", "match"]) == 0
