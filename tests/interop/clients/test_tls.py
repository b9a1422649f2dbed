"""Real clients over SSL, with certificates of their own: what each writes, it reads."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from interop.kafka_peer import require_kafka, run_tool

from penstock.config.jaas import PLAIN_MODULE
from penstock.testing.broker import LocalBroker
from tests.support.processes import wait_until
from tests.support.tls import PASSWORD, Authority, KeyStore, ssl_listeners

NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node")])
VALUES = [b"value %d" % number for number in range(500)] + [bytes(300_000)]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def alice(authority: Authority) -> KeyStore:
    return authority.store("alice")


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[LocalBroker]:
    settings = {**ssl_listeners(client_auth="required"), **authority.store("node").properties()}
    with LocalBroker(settings) as broker:
        yield broker


def test_librdkafka(broker: LocalBroker, alice: KeyStore) -> None:
    from confluent_kafka import Consumer, Producer

    broker.create_topic("librdkafka")
    configuration = {
        "bootstrap.servers": broker.addresses["SSL"],
        "security.protocol": "SSL",
        "ssl.ca.location": str(alice.trust),
        "ssl.keystore.location": str(alice.path),
        "ssl.keystore.password": PASSWORD,
    }
    producer = Producer(configuration)
    for value in VALUES:
        producer.produce("librdkafka", value)
    assert producer.flush(30) == 0
    consumer = Consumer({**configuration, "group.id": "librdkafka", "auto.offset.reset": "earliest"})
    consumer.subscribe(["librdkafka"])
    deadline_s, got = time.monotonic() + 30, []
    while len(got) < len(VALUES) and time.monotonic() < deadline_s:
        got += [message.value() for message in consumer.consume(500, 1.0) if message.error() is None]
    consumer.close()
    assert got == VALUES


def test_kafka_python(broker: LocalBroker, alice: KeyStore) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    broker.create_topic("kafka-python")
    configuration = {
        "bootstrap_servers": broker.addresses["SSL"],
        "security_protocol": "SSL",
        "ssl_cafile": str(alice.trust),
        "ssl_certfile": str(alice.pem),
        "ssl_keyfile": str(alice.pem),
    }
    producer = KafkaProducer(**configuration)
    for value in VALUES:
        producer.send("kafka-python", value)
    producer.flush(30)
    producer.close()
    consumer = KafkaConsumer(**configuration, auto_offset_reset="earliest", consumer_timeout_ms=20_000)
    consumer.assign([TopicPartition("kafka-python", 0)])
    got = [message.value for _, message in zip(VALUES, consumer, strict=False)]
    consumer.close()
    assert got == VALUES


def test_aiokafka(broker: LocalBroker, alice: KeyStore) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    broker.create_topic("aiokafka")

    async def both() -> list[bytes]:
        context = ssl.create_default_context(cafile=str(alice.trust))
        context.load_cert_chain(str(alice.pem))
        configuration = {
            "bootstrap_servers": broker.addresses["SSL"],
            "security_protocol": "SSL",
            "ssl_context": context,
        }
        async with AIOKafkaProducer(**configuration) as producer:
            for value in VALUES:
                await producer.send("aiokafka", value)
            await producer.flush()
        consumer = AIOKafkaConsumer("aiokafka", auto_offset_reset="earliest", **configuration)
        async with consumer:
            return [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in VALUES]

    assert asyncio.run(both()) == VALUES


def test_a_login_over_tls(authority: Authority) -> None:
    """SASL_SSL: ssl.client.auth is only for listeners without SASL, unless it is set for the listener (KIP-684)."""
    from confluent_kafka import Producer

    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "ssl.client.auth": "required",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (f'{PLAIN_MODULE} required user_alice="opensesame";'),
        **authority.store("node").properties(),
    }
    with LocalBroker(settings) as broker:
        broker.create_topic("t")
        producer = Producer(
            {
                "bootstrap.servers": broker.addresses["SASL_SSL"],
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": "opensesame",
                "ssl.ca.location": str(authority.trust),
            }
        )
        producer.produce("t", b"v")
        assert producer.flush(20) == 0


def test_a_key_store_is_changed_by_the_tools_of_kafkas_clients(authority: Authority, tmp_path: Path) -> None:
    """The way of Kafka: IncrementalAlterConfigs of the listener's ssl.keystore.location, with the broker running."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    first, second = authority.store("first", subject=NAME), authority.store("second", subject=NAME)

    def seen() -> str:
        host, _, port = broker.addresses["SSL"].rpartition(":")
        return ssl.get_server_certificate((host, int(port)))

    with LocalBroker({**ssl_listeners(), **first.properties()}, tmp_path / "data") as broker:
        assert seen() == ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(first.certificate_pem))
        name = "listener.name.ssl.ssl.keystore.location"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})

        def set_to(location: str) -> None:
            entry = ConfigEntry(name, location, incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
            admin.incremental_alter_configs([resource])[resource].result(20)

        with pytest.raises(KafkaException, match="cannot be read: no such file"):
            set_to(f"{second.path}.missing")
        set_to(str(second.path))
        renewed = ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(second.certificate_pem))
        wait_until(lambda: seen() == renewed, "the new certificate is in use", 30)
    with LocalBroker({**ssl_listeners(), **first.properties()}, tmp_path / "data") as broker:
        assert seen() == renewed, "before the first client comes"


def client_properties(store: KeyStore, directory: Path) -> Path:
    path = directory / f"{store.path.stem}.properties"
    lines = {"security.protocol": "SSL", **store.properties()}
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return path


@pytest.mark.java
@pytest.mark.slow
def test_java(broker: LocalBroker, alice: KeyStore, tmp_path: Path) -> None:
    require_kafka()
    broker.create_topic("java")
    properties = client_properties(alice, tmp_path)
    at = ("--bootstrap-server", broker.addresses["SSL"], "--topic", "java")
    lines = "".join(f"line {number}\n" for number in range(200))
    run_tool("org.apache.kafka.tools.ConsoleProducer", *at, "--command-config", properties, stdin=lines)
    read = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *at,
        *("--command-config", properties, "--from-beginning", "--max-messages", "200", "--timeout-ms", "60000"),
    )
    assert read.stdout == lines


def test_who_has_no_certificate_is_not_served(
    broker: LocalBroker, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    caplog.set_level("INFO")
    configuration = {
        "bootstrap.servers": broker.addresses["SSL"],
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.trust),
    }
    with pytest.raises(KafkaException):
        AdminClient(configuration).list_topics(timeout=3)
    assert any("showed no certificate" in record.getMessage() for record in caplog.records)
