"""Real clients log in with every mechanism that they have, produce and consume; with a wrong password none gets in."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from interop.kafka_peer import require_kafka
from interop.tools.toolbox import CONFIGS, CONSUMER, PRODUCER, Toolbox
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as KafkaConnectionFailure

from penstock.config.jaas import PLAIN_MODULE, SCRAM_MODULE
from penstock.testing.broker import LocalBroker

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD = 'secret, "quoted"=1'
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SECURED://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT",
    "listener.name.secured.sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.secured.plain.sasl.jaas.config": f"{PLAIN_MODULE} required user_alice='{PASSWORD}';",
}
JAVA_ERROR = "SaslAuthenticationException"


class Secured:
    """A broker with a user alice in every mechanism."""

    def __init__(self, broker: LocalBroker) -> None:
        self.plain = broker.bootstrap
        self.address = broker.addresses["SECURED"]
        credentials = [
            UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        admin = AdminClient({"bootstrap.servers": self.plain})
        for credential in credentials:
            for future in admin.alter_user_scram_credentials([credential]).values():
                future.result(30)


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with LocalBroker(SETTINGS) as broker:
        yield Secured(broker)


def librdkafka(secured: Secured, mechanism: str, user: str, password: str, topic: str) -> bytes | None:
    """Produces one record and reads it; None if that fails for the login."""
    failures: list[KafkaError] = []
    given = {
        "bootstrap.servers": secured.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "error_cb": failures.append,
        "log_level": 0,
    }
    producer = Producer(given)
    producer.produce(topic, b"librdkafka")
    while len(producer) and not failures:
        producer.poll(0.1)
    if failures:
        assert failures[0].code() == KafkaError._AUTHENTICATION
        producer.purge()
        return None
    consumer = Consumer({**given, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    value: bytes | None = message.value()
    return value


def kafka_python(secured: Secured, mechanism: str, user: str, password: str, topic: str) -> bytes | None:
    """As `librdkafka`."""
    given: dict[str, Any] = {
        "bootstrap_servers": secured.address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }
    timeout_ms = 30_000 if (user, password) == ("alice", PASSWORD) else 2_000
    try:
        producer = KafkaProducer(**given, bootstrap_timeout_ms=timeout_ms)
    except KafkaConnectionFailure:  # what it makes of a refused login and the closing after it
        return collected()
    producer.send(topic, b"kafka-python").get(30)
    producer.close()
    consumer = KafkaConsumer(topic, **given, auto_offset_reset="earliest", consumer_timeout_ms=30_000)
    value: bytes | None = next(consumer).value
    consumer.close()
    return value


def aiokafka(secured: Secured, mechanism: str, user: str, password: str, topic: str) -> bytes | None:
    """As `librdkafka`."""
    given: dict[str, Any] = {
        "bootstrap_servers": secured.address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }

    async def work() -> bytes | None:
        producer = AIOKafkaProducer(**given)
        try:
            await producer.start()
        except KafkaConnectionError:  # what it makes of a refused login
            await producer.stop()
            return collected()
        await producer.send_and_wait(topic, b"aiokafka")
        await producer.stop()
        consumer = AIOKafkaConsumer(topic, **given, auto_offset_reset="earliest")
        await consumer.start()
        try:
            value: bytes | None = (await asyncio.wait_for(consumer.getone(), 30)).value
            return value
        finally:
            await consumer.stop()

    return asyncio.run(work())


def collected() -> None:
    """Frees the sockets that a client leaves open when it cannot log in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


ROUND_TRIPS = {each.__name__: each for each in (librdkafka, kafka_python, aiokafka)}
RoundTrip = Callable[[Secured, str, str, str, str], bytes | None]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("round_trip", ROUND_TRIPS.values(), ids=list(ROUND_TRIPS))
def test_a_client_logs_in_with_the_right_password_only(secured: Secured, round_trip: RoundTrip, mechanism: str) -> None:
    topic = f"{round_trip.__name__}-{mechanism}"
    assert round_trip(secured, mechanism, "alice", PASSWORD, topic) == round_trip.__name__.replace("_", "-").encode()
    assert round_trip(secured, mechanism, "alice", "wrong", topic) is None
    assert round_trip(secured, mechanism, "nobody", PASSWORD, topic) is None


def test_an_admin_client_describes_and_deletes_users(secured: Secured) -> None:
    admin = AdminClient({"bootstrap.servers": secured.plain})
    upsertion = UserScramCredentialUpsertion("temp", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192), b"x")
    admin.alter_user_scram_credentials([upsertion])["temp"].result(30)
    found = admin.describe_user_scram_credentials().result(30)
    assert {
        user: [(str(i.mechanism), i.iterations) for i in each.scram_credential_infos] for user, each in found.items()
    } == {
        "alice": [("ScramMechanism.SCRAM_SHA_256", 4096), ("ScramMechanism.SCRAM_SHA_512", 4096)],
        "temp": [("ScramMechanism.SCRAM_SHA_512", 8192)],
    }
    deletion = UserScramCredentialDeletion("temp", ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([deletion])["temp"].result(30)
    with pytest.raises(Exception, match="does not exist"):
        admin.alter_user_scram_credentials([deletion])["temp"].result(30)


@pytest.fixture(scope="module")
def tools() -> Iterator[Toolbox]:
    require_kafka()
    with Toolbox() as toolbox:
        yield toolbox


def client_properties(directory: Path, mechanism: str, password: str, user: str = "alice") -> Path:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    quoted = password.replace('"', '\\\\"')
    path = directory / f"{mechanism}.properties"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} required username="{user}" password="{quoted}";\n'
    )
    return path


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_javas_console_tools_log_in(secured: Secured, tools: Toolbox, tmp_path: Path, mechanism: str) -> None:
    topic = f"java-{mechanism}"
    right = client_properties(tmp_path, mechanism, PASSWORD)
    produced = tools.run(PRODUCER, secured.address, "--topic", topic, "--command-config", right, stdin="java\n")
    assert produced.status == 0, produced
    assert JAVA_ERROR not in produced.error
    reading = ("--topic", topic, "--from-beginning", "--max-messages", 1, "--timeout-ms", 20_000)
    read = tools.run(CONSUMER, secured.address, *reading, "--command-config", right)
    assert read.out.strip() == "java", read
    for user, password in (("alice", "wrong"), ("nobody", PASSWORD)):
        wrong = client_properties(tmp_path, mechanism, password, user)
        refused = tools.run(CONSUMER, secured.address, *reading, "--command-config", wrong)
        assert JAVA_ERROR in refused.error + refused.out, refused


@pytest.mark.java
@pytest.mark.slow
def test_kafka_configs_sets_and_deletes_passwords(secured: Secured, tools: Toolbox, tmp_path: Path) -> None:
    entity = ("--entity-type", "users", "--entity-name", "carol")
    added = tools.run(
        CONFIGS, secured.plain, "--alter", *entity, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=carols]"
    )
    assert (added.status, added.error) == (0, ""), added
    admin = AdminClient({"bootstrap.servers": secured.plain})
    (info,) = admin.describe_user_scram_credentials(["carol"])["carol"].result(30).scram_credential_infos
    assert info.iterations == 8192
    properties = client_properties(tmp_path, "SCRAM-SHA-256", "carols", "carol")
    produced = tools.run(PRODUCER, secured.address, "--topic", "carol", "--command-config", properties, stdin="c\n")
    assert JAVA_ERROR not in produced.error, produced
    gone = tools.run(CONFIGS, secured.plain, "--alter", *entity, "--delete-config", "SCRAM-SHA-256")
    assert gone.status == 0, gone
    refused = tools.run(PRODUCER, secured.address, "--topic", "carol", "--command-config", properties, stdin="c\n")
    assert JAVA_ERROR in refused.error + refused.out, refused
