"""Real clients log in by OAUTHBEARER, produce and consume; with a token that is not for us none gets in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AiokafkasTokens
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, KafkaError, Producer
from interop.kafka_peer import TOOL_OPTIONS, require_kafka, run_tool
from interop.secured_kafka import write_properties
from interop.security.commands import Capture, Commands, use
from interop.security.oidc_peer import OpenIdProvider
from interop.security.test_clients_log_in import JAVA_ERROR, collected
from interop.tools.toolbox import CONSUMER, PRODUCER
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as KafkaConnectionFailure
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonsTokens
from support.issuer import CLIENT, SECRET, Issuer, client_properties, listener_properties

from penstock.client.bearer_tokens import ALLOWED_URLS_VARIABLE
from penstock.client.security import client_security
from penstock.spark.write.librdkafka import librdkafka_settings
from penstock.testing.broker import LocalBroker

LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SECURED://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT",
    "listener.name.secured.sasl.enabled.mechanisms": "OAUTHBEARER",
}
KAFKAS_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
KAFKAS_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer().serving() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def address(issuer: Issuer) -> Iterator[str]:
    with LocalBroker({**LISTENERS, **listener_properties(issuer.jwks_url)}) as broker:
        yield broker.addresses["SECURED"]


def librdkafka(address: str, token: str, topic: str) -> bytes | None:
    """Produces one record and reads it; None if that fails for the login."""
    return librdkafka_with({"oauth_cb": lambda _: (token, time.time() + 600)}, address, topic)


def librdkafka_with(how: dict[str, Any], address: str, topic: str) -> bytes | None:
    """As `librdkafka`, told in another way where the token comes from."""
    failures: list[KafkaError] = []
    given = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "error_cb": failures.append,
        "log_level": 0,
        **how,
    }
    producer = Producer(given)
    producer.produce(topic, b"librdkafka")
    while len(producer) and not failures:
        producer.poll(0.1)
    if failures:
        assert failures[0].code() in (KafkaError._AUTHENTICATION, KafkaError._ALL_BROKERS_DOWN), failures
        producer.purge()
        return None
    consumer = Consumer({**given, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    value: bytes | None = message.value()
    return value


class OneToken(KafkaPythonsTokens):
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token

    def extensions(self) -> dict[str, str]:
        return {"traceId": "abc"}


def kafka_python(address: str, token: str, topic: str, timeout_ms: int = 30_000) -> bytes | None:
    """As `librdkafka`."""
    given: dict[str, Any] = {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": OneToken(token),
    }
    producer = None
    with suppress(KafkaConnectionFailure):  # what it makes of a refused login
        producer = KafkaProducer(**given, bootstrap_timeout_ms=timeout_ms)
    if producer is None:
        return collected()
    producer.send(topic, b"kafka-python").get(30)
    producer.close()
    consumer = KafkaConsumer(topic, **given, auto_offset_reset="earliest", consumer_timeout_ms=120_000)
    value: bytes | None = next(consumer).value
    consumer.close()
    return value


class OneTokenLater(AiokafkasTokens):
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def aiokafka(address: str, token: str, topic: str) -> bytes | None:
    """As `librdkafka`."""
    given: dict[str, Any] = {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": OneTokenLater(token),
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


ROUND_TRIPS = {each.__name__: each for each in (librdkafka, kafka_python, aiokafka)}


@pytest.mark.parametrize("round_trip", ROUND_TRIPS.values(), ids=list(ROUND_TRIPS))
def test_a_client_logs_in_with_a_good_token_only(
    issuer: Issuer, address: str, round_trip: Callable[..., bytes | None]
) -> None:
    name = round_trip.__name__
    for algorithm in ("ES256", "RS256"):
        value = round_trip(address, issuer.token(algorithm=algorithm), f"{name}-{algorithm}")
        assert value == name.replace("_", "-").encode()
    more = {"timeout_ms": 2000} if round_trip is kafka_python else {}
    assert round_trip(address, issuer.token(aud="others"), f"{name}-refused", **more) is None


def test_librdkafka_gets_a_token_itself(issuer: Issuer, address: str) -> None:
    how = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": CLIENT,
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.token.endpoint.url": issuer.token_url,
        "sasl.oauthbearer.scope": "produce",
        "sasl.oauthbearer.extensions": "traceId=abc",
    }
    assert librdkafka_with(how, address, "oidc") == b"librdkafka"


def test_sparks_writer_gets_a_token_for_librdkafka(
    issuer: Issuer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALLOWED_URLS_VARIABLE, issuer.token_url)
    settings = librdkafka_settings(client_security(client_properties(issuer.token_url)))
    assert librdkafka_with(settings, address, "spark") == b"librdkafka"


def test_our_commands_log_in(
    issuer: Issuer, address: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    scoped = client_properties(issuer.token_url, sasl__oauthbearer__scope="of-this-test")  # a token nobody has got yet
    file = write_properties(tmp_path / "client.properties", scoped)
    run = Commands(address, file, capsys)
    assert "is not allowed" in run("topics", "list", code=1)
    monkeypatch.setenv(ALLOWED_URLS_VARIABLE, issuer.token_url)
    use(run, "commands")
    wrong = client_properties(issuer.token_url, f'clientId="{CLIENT}" clientSecret="wrong-canary"')
    refused = Commands(address, write_properties(tmp_path / "wrong.properties", wrong), capsys)
    assert "401 (invalid_client: who is that?)" in refused("topics", "list", code=1)
    assert SECRET not in run.said
    assert "wrong-canary" not in refused.said


def javas_properties(directory: Path, url: str, secret: str = SECRET) -> Path:
    given = client_properties(url, f'clientId="{CLIENT}" clientSecret="{secret}" scope="produce"')
    return write_properties(
        directory / f"{secret}.properties", {**given, "sasl.login.callback.handler.class": KAFKAS_HANDLER}
    )


def java_produces_and_consumes(address: str, url: str, properties: Path, topic: str) -> None:
    options = [*TOOL_OPTIONS, f"-D{KAFKAS_ALLOWED_URLS}={url}"]
    there = ("--bootstrap-server", address, "--topic", topic, "--command-config", properties)
    produced = run_tool(PRODUCER, *there, stdin="java\n", options=options)
    assert JAVA_ERROR not in produced.stderr
    more = ("--from-beginning", "--max-messages", 1, "--timeout-ms", 60_000)
    assert run_tool(CONSUMER, *there, *more, options=options).stdout.strip() == "java"


@pytest.mark.java
@pytest.mark.slow
def test_javas_console_tools_log_in(issuer: Issuer, address: str, tmp_path: Path) -> None:
    require_kafka()
    java_produces_and_consumes(address, issuer.token_url, javas_properties(tmp_path, issuer.token_url), "java")
    file = tmp_path / "token"
    file.write_text(issuer.token(aud="others"))
    url = f"file://{file}"
    refused = run_tool(
        CONSUMER, "--bootstrap-server", address, "--topic", "java", "--timeout-ms", 10_000, "--command-config",
        javas_properties(tmp_path, url), options=[*TOOL_OPTIONS, f"-D{KAFKAS_ALLOWED_URLS}={url}"], check=False,
    )  # fmt: skip
    assert JAVA_ERROR in refused.stderr + refused.stdout
    assert "invalid_token" in refused.stderr + refused.stdout


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenIdProvider]:
    with OpenIdProvider() as provider:
        yield provider


@pytest.fixture
def of_provider(provider: OpenIdProvider) -> Iterator[str]:
    more = {"listener.name.secured.oauthbearer.sasl.oauthbearer.expected.issuer": provider.issuer}
    with LocalBroker({**LISTENERS, **listener_properties(provider.jwks_url), **more}) as broker:
        yield broker.addresses["SECURED"]


@pytest.mark.slow
def test_a_real_openid_provider(
    provider: OpenIdProvider,
    of_provider: str,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    how = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": CLIENT,
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
    }
    assert librdkafka_with(how, of_provider, "oidc") == b"librdkafka"
    monkeypatch.setenv(ALLOWED_URLS_VARIABLE, provider.token_url)
    file = write_properties(tmp_path / "client.properties", client_properties(provider.token_url))
    use(Commands(of_provider, file, capsys), "commands")
    wrong = client_properties(provider.token_url, f'clientId="{CLIENT}" clientSecret="wrong"')
    refused = Commands(of_provider, write_properties(tmp_path / "wrong.properties", wrong), capsys)
    assert "answers 401 (invalid_client" in refused("topics", "list", code=1)


@pytest.mark.java
@pytest.mark.slow
def test_java_with_a_real_openid_provider(provider: OpenIdProvider, of_provider: str, tmp_path: Path) -> None:
    require_kafka()
    properties = javas_properties(tmp_path, provider.token_url)
    java_produces_and_consumes(of_provider, provider.token_url, properties, "java")
