"""The secured fixture: every client gets in with the settings that it gives, and may do what it is allowed, no more."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from interop.kafka_peer import require_kafka, run_tool
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from penstock.client.client import Client
from penstock.client.property_files import client_properties
from penstock.client.security import client_security
from penstock.errors import AuthenticationError, ErrorCode, RequestError
from penstock.testing.secure import SecureBroker, User

TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module")
def broker() -> Any:
    with SecureBroker() as broker:
        yield broker


def delivered(user: User, topic: str) -> KafkaError | None:
    errors: list[KafkaError | None] = []
    producer = Producer({**user.librdkafka, "log_level": 0})
    producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    return errors[0]


def test_a_user_may_do_what_is_allowed(broker: SecureBroker) -> None:
    broker.create_topic("orders")
    alice = broker.add_user("alice")
    refused = delivered(alice, "orders")
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    broker.allow("alice", "write", "read", topic="orders")
    broker.allow("alice", "read", group="g-", prefixed=True)
    assert delivered(alice, "orders") is None
    consumer = Consumer({**alice.librdkafka, "group.id": "g-1", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert message.value() == b"value"
    broker.deny("*", "write", topic="*")
    assert delivered(alice, "orders") is not None
    assert delivered(broker.admin, "orders") is None, "ACLs do not bind a super user"


def test_other_clients_take_their_settings(broker: SecureBroker) -> None:
    broker.create_topic("others")
    bob = broker.add_user("bob", 'a "quoted" \\ password')
    producer = KafkaProducer(**bob.kafka_python)
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send("others", b"value").get(30)
    producer.close()
    admin = KafkaProducer(**broker.admin.kafka_python)
    assert admin.send("others", b"value").get(30).offset == 0
    admin.close()

    async def work() -> int:
        async with AIOKafkaProducer(**broker.admin.aiokafka) as sender:
            offset: int = (await sender.send_and_wait("others", b"value")).offset
        security = client_security(bob.properties)
        async with Client(bob.bootstrap, security=security) as client:
            assert (await client.refresh(["others"])).topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert client_properties(str(bob.client_file))[1].properties == security.properties
        return offset

    assert asyncio.run(work()) == 1


def test_a_wrong_password_is_none(broker: SecureBroker) -> None:
    properties = broker.add_user("carol").properties
    broker.add_user("carol", "another")

    async def work() -> None:
        with pytest.raises(AuthenticationError):
            await Client(broker.bootstrap, security=client_security(properties)).connection(None)

    asyncio.run(work())


def test_a_strict_client_takes_the_certificate(broker: SecureBroker) -> None:
    """As Python's are by default from 3.13 on."""
    context = ssl.create_default_context(cafile=str(broker.admin.trust))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    plain = socket.create_connection(("127.0.0.1", broker.port), timeout=30)
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as secured:
        assert secured.version() == "TLSv1.3"


def test_what_cannot_be_is_said_so(broker: SecureBroker) -> None:
    with pytest.raises(ValueError, match="there is no operation 'reed': it must be one of all, read, "):
        broker.allow("alice", "reed", topic="orders")
    with pytest.raises(ValueError, match="there is no resource 'topics': it must be one of topic, group, "):
        broker.allow("alice", "read", topics="orders")
    with pytest.raises(ValueError, match="one resource must be named"):
        broker.allow("alice", "read", topic="orders", group="g")
    with pytest.raises(RequestError):
        broker.add_user("")
    with pytest.raises(RequestError, match="Resource name should not be empty"):
        broker.allow("alice", "read", topic="")


def test_nothing_is_left_and_no_secret_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.testing.broker.memory_directory", lambda: str(tmp_path))
    before = threading.enumerate()
    with SecureBroker() as broker:
        user = broker.add_user("dave")
        secrets = broker.data_dir.with_name(f"{broker.data_dir.name}.secure")
        assert user.client_file.parent == secrets
        assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
        assert stat.S_IMODE(user.client_file.stat().st_mode) == 0o600
        assert user.password not in repr(user)
    assert os.listdir(tmp_path) == []
    assert threading.enumerate() == before


def test_a_directory_that_is_kept_keeps_users_and_passwords(tmp_path: Path) -> None:
    with SecureBroker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("kept")
        broker.add_user("erin", "erins")
        broker.allow("erin", "write", topic="kept")
        password = broker.admin.password
    with SecureBroker(data_dir=tmp_path / "data") as broker:
        assert broker.admin.password == password
        erin = User("erin", "erins", "SCRAM-SHA-512", broker.bootstrap, broker.admin.trust, tmp_path)
        assert delivered(erin, "kept") is None


TEST = """
def test_of_a_user(penstock_secure):
    assert penstock_secure.admin.name == "admin"
    assert penstock_secure._embedded.server.settings.num_partitions == 3
"""
CONFTEST = """
import pytest
pytest_plugins = ["penstock.testing.plugin"]

@pytest.fixture(scope="session")
def penstock_settings():
    return {"num.partitions": "3"}
"""


def test_the_fixture_is_there_without_more_words(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_of_a_user.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_of_a_user.py"]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.java
@pytest.mark.slow
def test_kafkas_tools_take_the_file(broker: SecureBroker) -> None:
    require_kafka()
    broker.create_topic("seen")
    frank = broker.add_user("frank")
    words = ("--bootstrap-server", frank.bootstrap, "--command-config", frank.client_file, "--list")
    assert "seen" not in run_tool(TOPICS, *words).stdout.split()
    broker.allow("frank", "describe", topic="seen")
    assert run_tool(TOPICS, *words).stdout.split() == ["seen"]
