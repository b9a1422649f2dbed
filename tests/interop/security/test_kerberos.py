"""GSSAPI with MIT's KDC: librdkafka, kafka-python, aiokafka, Java's tools, our client and nodes log in by tickets."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from interop.kafka_peer import TOOL_OPTIONS, require_kafka, run_tool
from interop.kdc_peer import REALM, Kdc, program, require_kdc
from kafka import KafkaConsumer, KafkaProducer

from penstock.client.client import Client
from penstock.client.kerberos import LibraryKerberos
from penstock.client.security import ClientSecurity, client_security
from penstock.config.jaas import KERBEROS_MODULE
from penstock.config.kerberos import KerberosLogin
from penstock.errors import AuthenticationError, ConfigError
from penstock.security.gssapi import GssapiClient, GssapiServer, GssError
from penstock.security.sasl import LoginFailed, LoginInterrupted
from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.slow

SERVICE = f"kafka/localhost@{REALM}"
HOST = "localhost"


class Realm:
    """A KDC with a broker's key, alice's and mallory's, in the environment of this process."""

    def __init__(self, kdc: Kdc) -> None:
        self.kdc = kdc
        self.keys = kdc.keytab("kafka/localhost", "kafka/other")
        self.alice = kdc.keytab("alice", "mallory/x")
        self.service = KerberosLogin(SERVICE, "kafka", keytab=str(self.keys))
        self.client = KerberosLogin(f"alice@{REALM}", "kafka", keytab=str(self.alice))

    def settings(self, **more: str) -> dict[str, str]:
        jaas = f'{KERBEROS_MODULE} required useKeyTab=true storeKey=true keyTab="{self.keys}" principal="{SERVICE}";'
        return {
            "listeners": "PLAINTEXT://127.0.0.1:0,SECURED://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "advertised.listeners": "PLAINTEXT://127.0.0.1:0,SECURED://localhost:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT",
            "listener.name.secured.sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.secured.gssapi.sasl.jaas.config": jaas,
            "sasl.kerberos.service.name": "kafka",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
            **{name.replace("__", "."): text for name, text in more.items()},
        }

    def security(self, principal: str = "alice", service: str = "kafka") -> ClientSecurity:
        """Client properties of a principal, by its keytab."""
        return client_security(self.properties(principal, service))

    def properties(self, principal: str = "alice", service: str = "kafka") -> dict[str, str]:
        module = f'{KERBEROS_MODULE} required useKeyTab=true keyTab="{self.alice}" principal="{principal}@{REALM}";'
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": service,
            "sasl.jaas.config": module,
        }


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    require_kdc()
    with pytest.MonkeyPatch.context() as patch, Kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        for name, text in kdc.environment.items():
            patch.setenv(name, text)
        found = Realm(kdc)
        kdc.kinit("alice", found.alice)
        yield found


@pytest.fixture(scope="module")
def broker(realm: Realm) -> Iterator[LocalBroker]:
    with LocalBroker(realm.settings()) as running:
        yield running


def address(broker: LocalBroker) -> str:
    return f"{HOST}:{broker.addresses['SECURED'].rpartition(':')[2]}"


def topics(broker: LocalBroker, security: ClientSecurity) -> list[str]:
    """The topics that a client of ours sees."""

    async def work() -> list[str]:
        async with Client(address(broker), security=security, timeout_ms=20_000) as client:
            return sorted(str(each.name) for each in (await client.refresh(None)).topics)

    return asyncio.run(work())


# The library, without a broker


def server_of(realm: Realm, login: KerberosLogin | None = None) -> GssapiServer:
    kerberos = LibraryKerberos()
    return GssapiServer(lambda: kerberos.acceptor(login or realm.service), ends_with_ticket=True)


def client_of(realm: Realm, host: str = HOST, login: KerberosLogin | None = None) -> GssapiClient:
    kerberos = LibraryKerberos()
    return GssapiClient(lambda: kerberos.initiator(login or realm.client, host))


def test_both_sides_agree_and_know_each_other(realm: Realm) -> None:
    server, client = server_of(realm), client_of(realm)
    token = client.first().run()
    while True:
        step = client.evaluate(server.evaluate(token).run())
        if step is None:
            break
        token = step.run()
    assert (server.complete, client.complete, server.user) == (True, True, f"alice@{REALM}")
    assert server.expires_at_ms is not None
    assert 0 < server.expires_at_ms - time() * 1000 <= 86_400_000 + 600_000
    assert LibraryKerberos().default_realm == REALM


def test_a_token_is_accepted_once(realm: Realm) -> None:
    token = client_of(realm).first().run()
    server_of(realm).evaluate(token).run()
    with pytest.raises(LoginInterrupted, match="replay"):
        server_of(realm).evaluate(token).run()


def test_a_ticket_for_another_service_is_refused(realm: Realm) -> None:
    token = client_of(realm, "other").first().run()
    with pytest.raises(LoginFailed):
        server_of(realm).evaluate(token).run()
    with pytest.raises(LoginFailed, match="not found in Kerberos database"):
        client_of(realm, "nowhere").first().run()


def test_garbage_is_refused_in_each_state(realm: Realm) -> None:
    good = client_of(realm)
    first = good.first().run()
    for garbage in (b"", b"\x00", first[:-1], first[: len(first) // 2], first[:-9] + bytes(9), b"`" * 60_000):
        with pytest.raises(LoginFailed):
            server_of(realm).evaluate(garbage).run()
    server = server_of(realm)
    answer = server.evaluate(first).run()
    for garbage in (b"", answer[:-3], b"`" * 1000):
        client = client_of(realm)
        client.first().run()
        step = client.evaluate(garbage)
        assert step is not None
        with pytest.raises(LoginFailed):
            step.run()
    step = good.evaluate(answer)
    assert step is not None
    assert step.run() == b""
    assert server.evaluate(b"").run()
    with pytest.raises(LoginFailed):
        server.evaluate(b"\x05\x04" + bytes(30)).run()


def test_a_clock_that_is_off_is_refused(realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = client_of(realm).first().run()
    strict = tmp_path / "krb5.conf"
    strict.write_text(realm.kdc.krb5_conf(" clockskew = 1\n"))
    monkeypatch.setenv("KRB5_CONFIG", str(strict))
    began = monotonic()
    while monotonic() - began < 2.5:
        sleep(0.1)
    with pytest.raises(LoginFailed, match=r"[Cc]lock skew"):
        server_of(realm).evaluate(token).run()


def test_a_kdc_that_is_away_fails_the_login_in_time(
    realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = tmp_path / "krb5.conf"
    away.write_text(realm.kdc.krb5_conf().replace(f"127.0.0.1:{realm.kdc.port}", "127.0.0.1:1"))
    monkeypatch.setenv("KRB5_CONFIG", str(away))
    cold = KerberosLogin(f"mallory/x@{REALM}", "kafka", keytab=str(realm.alice))
    with pytest.raises(GssError, match="Cannot contact any KDC"):
        LibraryKerberos().initiator(cold, HOST)


def test_what_is_missing_stops_the_start(realm: Realm, tmp_path: Path) -> None:
    kerberos = LibraryKerberos()
    kerberos.check(realm.service)
    for login, said in (
        (KerberosLogin(SERVICE, "kafka", keytab=str(tmp_path / "none")), "cannot be read"),
        (KerberosLogin(f"kafka/third@{REALM}", "kafka", keytab=str(realm.keys)), "has no key of kafka/third@"),
    ):
        with pytest.raises(ConfigError, match=said):
            kerberos.check(login)


# Clients and a broker


def test_our_client_logs_in_with_a_keytab_and_with_a_ticket_cache(realm: Realm, broker: LocalBroker) -> None:
    module = f"{KERBEROS_MODULE} required useTicketCache=true;"
    cache = client_security({**realm.properties(), "sasl.jaas.config": module})
    for security in (realm.security(), cache):
        assert isinstance(topics(broker, security), list)


def test_who_has_no_rights_sees_nothing_and_who_has_no_short_name_gets_nowhere(
    realm: Realm, broker: LocalBroker
) -> None:
    KafkaProducer(bootstrap_servers=broker.bootstrap).send("secret", b"x").get(30)
    assert "secret" in topics(broker, realm.security())
    assert topics(broker, realm.security("mallory/x")) == []
    rules = {"listener__name__secured__sasl__kerberos__principal__to__local__rules": "RULE:[1:$1]"}
    with LocalBroker(realm.settings(**rules)) as other:
        assert topics(other, realm.security()) == []
        with pytest.raises(AuthenticationError, match="refuses the login of mallory/x@"):
            topics(other, realm.security("mallory/x"))


def test_a_ticket_that_cannot_be_had_is_said(realm: Realm, broker: LocalBroker) -> None:
    with pytest.raises(AuthenticationError, match="there is no ticket for the login of nobody@"):
        topics(broker, realm.security("nobody"))
    with pytest.raises(AuthenticationError, match="there is no ticket for the login of alice@"):
        topics(broker, realm.security(service="http"))


def test_kafka_python(realm: Realm, broker: LocalBroker) -> None:
    given: dict[str, Any] = {
        "bootstrap_servers": address(broker),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
    }
    producer = KafkaProducer(**given)
    producer.send("kafka-python", b"ticket").get(30)
    producer.close()
    consumer = KafkaConsumer("kafka-python", **given, auto_offset_reset="earliest", consumer_timeout_ms=30_000)
    assert next(consumer).value == b"ticket"
    consumer.close()


def test_aiokafka(realm: Realm, broker: LocalBroker) -> None:
    given: dict[str, Any] = {
        "bootstrap_servers": address(broker),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
    }

    async def work() -> bytes | None:
        producer = AIOKafkaProducer(**given)
        await producer.start()
        await producer.send_and_wait("aiokafka", b"ticket")
        await producer.stop()
        consumer = AIOKafkaConsumer("aiokafka", **given, auto_offset_reset="earliest")
        await consumer.start()
        try:
            value: bytes | None = (await asyncio.wait_for(consumer.getone(), 30)).value
            return value
        finally:
            await consumer.stop()

    assert asyncio.run(work()) == b"ticket"


def test_librdkafka(realm: Realm, broker: LocalBroker) -> None:
    """By kcat: the wheel of confluent-kafka is built without GSSAPI."""
    kcat = program("kcat")
    if kcat is None:
        pytest.skip("no kcat: apt install kcat libsasl2-modules-gssapi-mit")
    options = ["-b", address(broker), "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanisms=GSSAPI"]
    options += ["-X", "sasl.kerberos.service.name=kafka", "-X", "sasl.kerberos.kinit.cmd=true"]

    def run(*more: str, given: str = "") -> subprocess.CompletedProcess[str]:
        command = [kcat, *options, "-t", "kcat", *more]
        return subprocess.run(
            command, env=os.environ, input=given, capture_output=True, text=True, timeout=60, check=False
        )

    produced = run("-P", given="ticket\n")
    assert produced.returncode == 0, produced.stderr
    read = run("-C", "-o", "beginning", "-c", "1", "-q")
    assert read.stdout == "ticket\n", read.stderr


@pytest.mark.java
def test_javas_tools(realm: Realm, broker: LocalBroker, tmp_path: Path) -> None:
    require_kafka()
    properties = tmp_path / "client.properties"
    properties.write_text("".join(f"{name}={text}\n" for name, text in realm.properties().items()))
    options = (*TOOL_OPTIONS, f"-Djava.security.krb5.conf={realm.kdc.configuration}")
    tool = "org.apache.kafka.tools.TopicCommand"
    where = ("--bootstrap-server", address(broker), "--command-config", properties)
    created = run_tool(tool, *where, "--create", "--topic", "java", options=options)
    assert "Created topic java" in created.stdout, created
    listed = run_tool(tool, *where, "--list", options=options)
    assert "java" in listed.stdout.split(), listed


def test_a_login_ends_with_connections_max_reauth_ms_and_is_renewed(realm: Realm) -> None:
    with LocalBroker(realm.settings(connections__max__reauth__ms="3000")) as broker:

        async def work() -> None:
            async with Client(address(broker), security=realm.security(), timeout_ms=20_000) as client:
                first, began = await client.connection(None), monotonic()
                while monotonic() - began < 7:
                    await client.refresh([])
                    await asyncio.sleep(0.2)
                assert await client.connection(None) is first
                assert not first.closed

        asyncio.run(work())


def test_many_logins_at_once_hold_nobody_up(realm: Realm, broker: LocalBroker) -> None:
    async def one() -> None:
        async with Client(address(broker), security=realm.security(), timeout_ms=60_000) as client:
            await client.refresh([])

    async def work() -> None:
        await asyncio.gather(*(one() for _ in range(100)))

    asyncio.run(work())


def test_without_the_library_the_start_says_what_to_install(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match="pip install 'penstock"), LocalBroker(realm.settings()):
        pass
