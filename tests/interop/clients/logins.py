"""Real clients that log in: each produces a value and reads it in a group, or is refused and says so in its own words.

    with Trips() as trips:
        trips.make("franz-go", Login(trust, "PLAIN", "alice", "secret"), bootstrap, "clicks", "value")

`CLIENTS` are all of them. Those in other languages are one process each, started when it is first wanted.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import ssl
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from interop.clients import builds
from interop.clients.ordered_process import OrderedProcess
from interop.kafka_peer import TOOL_OPTIONS, java_source
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError

from penstock.config.jaas import PLAIN_MODULE, SCRAM_MODULE

CLIENTS = ("librdkafka", "java", "kafka-python", "aiokafka", "franz-go", "kafkajs")
TIMEOUT_S = 60.0
REFUSED_MS = 5_000
"""How long kafka-python tries to bootstrap, which it does to the end however often it is refused: long enough that a
busy machine comes as far as the login."""
JAVA_SOURCE = Path(__file__).with_name("JavaLogins.java")


class RefusedLoginError(Exception):
    """A client could not log in; what it said."""


@dataclass(frozen=True)
class Login:
    """How to log in over TLS. Without a mechanism the certificate in `key`, a PEM file with its key, says who we are;
    `trust` is a PEM file of authorities. `right` is whether it should succeed: whoever fails may give up early then.
    """

    trust: Path
    mechanism: str = ""
    user: str = ""
    password: str = ""
    key: Path | None = None
    right: bool = True

    @property
    def protocol(self) -> str:
        return "SASL_SSL" if self.mechanism else "SSL"

    def as_json(self) -> dict[str, str]:
        """For the clients in Go and JavaScript."""
        return {
            "mechanism": self.mechanism,
            "user": self.user,
            "password": self.password,
            "trust": str(self.trust),
            "key": str(self.key or ""),
        }

    def java(self) -> dict[str, str]:
        """Kafka's client properties."""
        found = {
            "security.protocol": self.protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trust),
        }
        if self.key is not None:
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.key)}
        if self.mechanism:
            module = PLAIN_MODULE if self.mechanism == "PLAIN" else SCRAM_MODULE
            login = f'{module} required username="{self.user}" password="{self.password}";'
            found |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": login}
        return found

    def librdkafka(self) -> dict[str, str]:
        """Settings of librdkafka."""
        found = {"security.protocol": self.protocol, "ssl.ca.location": str(self.trust)}
        if self.key is not None:
            found |= {"ssl.certificate.location": str(self.key), "ssl.key.location": str(self.key)}
        if self.mechanism:
            found |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.user,
                "sasl.password": self.password,
            }
        return found

    def python(self) -> dict[str, Any]:
        """Keywords that kafka-python and aiokafka share."""
        found: dict[str, Any] = {"security_protocol": self.protocol}
        if self.mechanism:
            found |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.user,
                "sasl_plain_password": self.password,
            }
        return found

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.trust))
        if self.key is not None:
            context.load_cert_chain(str(self.key))
        return context


class Trips:
    """See the module's head. A context manager."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._processes: dict[str, OrderedProcess] = {}

    def __enter__(self) -> Self:
        self._directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def make(self, client: str, login: Login, bootstrap: str, topic: str, value: str) -> str:
        """What came back. The group is called as the topic. Raises RefusedLoginError with the client's words."""
        trip = {
            "librdkafka": librdkafka,
            "kafka-python": kafka_python,
            "aiokafka": aiokafka,
            "java": self._java,
        }.get(client)
        if trip is not None:
            return trip(login, bootstrap, topic, value)
        order = {"login": login.as_json(), "bootstrap": bootstrap, "topic": topic, "value": value}
        answer = json.loads(self._process(client).ask(json.dumps(order)))
        if "error" in answer:
            raise RefusedLoginError(answer["error"])
        return str(answer["value"])

    def _java(self, login: Login, bootstrap: str, topic: str, value: str) -> str:
        file = self._directory / f"{topic}.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in login.java().items()))
        outcome, _, said = self._process("java").ask(f"{file} {bootstrap} {topic} {value}").rstrip("\n").partition(" ")
        if outcome == "refused":
            raise RefusedLoginError(said)
        return said

    def _process(self, client: str) -> OrderedProcess:
        if client not in self._processes:
            self._processes[client] = self._stack.enter_context(OrderedProcess(command_of(client)))
        return self._processes[client]


def command_of(client: str) -> list[str]:
    """The command of a client in another language."""
    if client == "java":
        return java_source(JAVA_SOURCE.read_text(), options=TOOL_OPTIONS)
    if client == "franz-go":
        return [*builds.go_clients(), "logins"]
    assert client == "kafkajs", client
    *node, script = builds.kafkajs_client()
    return [*node, str(Path(script).with_name("login.js"))]


def librdkafka(login: Login, bootstrap: str, topic: str, value: str) -> str:
    """confluent-kafka."""
    given = {"bootstrap.servers": bootstrap, **login.librdkafka(), "log_level": 0}
    if (failure := written(given, topic, value)) is not None:
        raise RefusedLoginError(failure)
    consumer = Consumer({**given, "group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        if (error := message.error()) is not None:
            raise KafkaException(error)
        consumer.commit(message, asynchronous=False)
        return (message.value() or b"").decode()
    finally:
        consumer.close()


def written(given: dict[str, Any], topic: str, value: str) -> str | None:
    """Produces a value; what went wrong first, if something did. The producer is gone then, and tries no more."""
    failures: list[KafkaError] = []
    producer = Producer({**given, "error_cb": failures.append})
    producer.produce(topic, value)
    while len(producer) and not failures:
        producer.poll(0.1)
    if failures:
        producer.purge()
        return f"{failures[0].name()}: {failures[0].str()}"
    return None


def kafka_python(login: Login, bootstrap: str, topic: str, value: str) -> str:
    """kafka-python, whose words about a login are in its log."""
    given = {"bootstrap_servers": bootstrap, **login.python(), "ssl_cafile": str(login.trust)}
    if login.key is not None:
        given |= {"ssl_certfile": str(login.key), "ssl_keyfile": str(login.key)}
    patience_ms = int(TIMEOUT_S * 1000) if login.right else REFUSED_MS
    with heard("kafka") as said:
        try:
            producer = KafkaProducer(**given, bootstrap_timeout_ms=patience_ms)
        except PythonKafkaError as refused:
            collect()
            raise RefusedLoginError(f"{refused!r}\n{said()}") from None
    producer.send(topic, value.encode()).get(TIMEOUT_S)
    producer.close()
    reading = {"group_id": topic, "auto_offset_reset": "earliest", "consumer_timeout_ms": int(TIMEOUT_S * 1000)}
    consumer = KafkaConsumer(topic, **given, **reading, enable_auto_commit=False)
    try:
        message = next(consumer)
        consumer.commit()
        return bytes(message.value).decode()
    finally:
        consumer.close()


def aiokafka(login: Login, bootstrap: str, topic: str, value: str) -> str:
    """aiokafka, whose words about a login are in its log."""
    given = {"bootstrap_servers": bootstrap, **login.python(), "ssl_context": login.context()}

    async def trip() -> str:
        producer = AIOKafkaProducer(**given)
        with heard("aiokafka") as said:
            try:
                await producer.start()
            except AioKafkaError as refused:
                await producer.stop()
                collect()
                raise RefusedLoginError(f"{refused!r}\n{said()}") from None
        await producer.send_and_wait(topic, value.encode())
        await producer.stop()
        reading = {"group_id": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        consumer = AIOKafkaConsumer(topic, **given, **reading)
        await consumer.start()
        try:
            message = await asyncio.wait_for(consumer.getone(), TIMEOUT_S)
            await consumer.commit()
            return bytes(message.value).decode()
        finally:
            await consumer.stop()

    return asyncio.run(trip())


@contextmanager
def heard(name: str) -> Iterator[Any]:
    """What a logger says meanwhile, as a function that gives the text so far."""
    records: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record.getMessage() + (f" {record.exc_info[1]!r}" if record.exc_info else ""))

    listener, logger = Listener(), logging.getLogger(name)
    logger.addHandler(listener)
    try:
        yield lambda: "\n".join(records)
    finally:
        logger.removeHandler(listener)


def collect() -> None:
    """Frees the sockets that a client leaves open when it cannot log in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
