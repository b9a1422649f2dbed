"""Connections to secured listeners: TLS and what can be wrong about a certificate, logins, and logging in again."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from support.secured_broker import SecuredBroker, server_context
from support.tls import PASSWORD, Authority, KeyStore

from penstock.client.client import Client
from penstock.client.connection import BrokerConnection
from penstock.client.login import again_after_s
from penstock.client.refused import tls_refusal
from penstock.client.security import ClientSecurity, client_security
from penstock.errors import AuthenticationError, ConfigError, PenstockError, UnreachableError
from penstock.protocol.messages.metadata_request import MetadataRequest

SECRET = "s3cret-canary"
DAY = timedelta(days=1)
TIMEOUT_MS = 20_000


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> KeyStore:
    return authority.store("broker")


def foreign(directory: Path, name: str) -> KeyStore:
    """The key of an authority that nobody trusts."""
    (directory / "foreign").mkdir()
    return Authority(directory / "foreign", "Foreign CA").store(name)


def jaas(mechanism: str, user: str, password: str) -> str:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f'org.apache.kafka.common.security.{module} required username="{user}" password="{password}";'


def login(mechanism: str, user: str = "alice", password: str = SECRET, **more: str) -> ClientSecurity:
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    properties["sasl.jaas.config"] = jaas(mechanism, user, password)
    return client_security({**properties, **{name.replace("_", "."): text for name, text in more.items()}})


def tls(authority: Authority, **more: str) -> ClientSecurity:
    properties = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.trust.read_text(),
    }
    return client_security({**properties, **{name.replace("_", "."): text for name, text in more.items()}})


def ask(broker: SecuredBroker, security: ClientSecurity, host: str = "127.0.0.1") -> str | None:
    """Whom the broker takes this client for."""

    async def work() -> str | None:
        async with broker, Client(f"{host}:{broker.port}", security=security, timeout_ms=TIMEOUT_MS) as client:
            await client.refresh([])
            return client.cluster_id

    return asyncio.run(work())


def refusal(
    broker: SecuredBroker, security: ClientSecurity, kind: type[PenstockError] = AuthenticationError, **at: str
) -> str:
    with pytest.raises(kind) as refused:
        ask(broker, security, **at)
    assert SECRET not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_client_logs_in(mechanism: str) -> None:
    assert ask(SecuredBroker(users={"alice": SECRET}), login(mechanism)) == "alice"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("bob", SECRET)])
def test_a_refused_login_names_user_and_mechanism_and_is_not_tried_again(
    mechanism: str, user: str, password: str
) -> None:
    broker = SecuredBroker(users={"alice": SECRET})
    said = refusal(broker, login(mechanism, user, password))
    assert f"refuses the login of {user} by {mechanism}: Authentication failed" in said
    assert "sasl.jaas.config has the name and the password" in said
    assert broker.handshakes == 1


def test_a_refused_login_is_final_for_all_bootstrap_addresses() -> None:
    async def work() -> None:
        async with SecuredBroker(users={"alice": "x"}) as one, SecuredBroker(users={"alice": "x"}) as other:
            with pytest.raises(AuthenticationError):
                await Client([one.address, other.address], security=login("PLAIN")).connection(None)
            assert (one.handshakes, other.handshakes) == (1, 0)

    asyncio.run(work())


def test_a_mechanism_that_the_broker_lacks_is_named_with_those_it_has() -> None:
    said = refusal(SecuredBroker(users={}, mechanisms=("SCRAM-SHA-512", "GSSAPI")), login("PLAIN"))
    assert "does not take logins by PLAIN, but by SCRAM-SHA-512, GSSAPI" in said


def test_a_login_at_a_listener_without_sasl() -> None:
    said = refusal(SecuredBroker(), login("PLAIN"))
    assert "takes no logins: the listener has no SASL" in said


def test_no_login_at_a_listener_with_sasl() -> None:
    said = refusal(SecuredBroker(users={"alice": SECRET}), ClientSecurity(), UnreachableError)
    assert "closed the connection at the first request" in said
    assert "sasl.jaas.config" in said


def test_a_server_that_does_not_know_the_password_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.security.scram import ScramServer

    def forged(self: ScramServer, token: bytes, credential: Any) -> str:
        return "v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

    monkeypatch.setattr(ScramServer, "_final", forged)
    assert "the server does not know the password" in refusal(
        SecuredBroker(users={"alice": SECRET}), login("SCRAM-SHA-256")
    )


def test_tls_and_a_login(authority: Authority, server: KeyStore, tmp_path: Path) -> None:
    broker = SecuredBroker(tls=server_context(str(server.pem)), users={"alice": SECRET})
    security = login(
        "SCRAM-SHA-512",
        security_protocol="SASL_SSL",
        ssl_truststore_type="PEM",
        ssl_truststore_location=str(authority.trust),
    )
    assert ask(broker, security) == "alice"


def test_a_client_shows_its_certificate(authority: Authority, server: KeyStore, tmp_path: Path) -> None:
    context = server_context(str(server.pem), trust_file=str(authority.trust))
    mine = authority.store("client")
    by_pem = tls(authority, ssl_keystore_type="PEM", ssl_keystore_location=str(mine.pem))
    assert ask(SecuredBroker(tls=context), by_pem) == "nobody"
    security = tls(authority, ssl_keystore_location=str(mine.path), ssl_keystore_password=PASSWORD)
    assert ask(SecuredBroker(tls=context), security) == "nobody"
    # with TLS 1.3 the server objects after the handshake, and its alert may be lost as it closes the connection
    said = refusal(SecuredBroker(tls=context), tls(authority), PenstockError)
    assert "wants a certificate" in said
    assert "ssl.keystore.location names the client's certificate" in said
    intruder = foreign(tmp_path, "intruder").pem
    theirs = tls(authority, ssl_keystore_type="PEM", ssl_keystore_location=str(intruder))
    assert "certificate of th" in refusal(SecuredBroker(tls=context), theirs, PenstockError)


def test_a_refused_certificate_of_the_client_is_told_in_words() -> None:
    for reason, why in (
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "a:1 wants a certificate of the client, and got none"),
        ("TLSV1_ALERT_UNKNOWN_CA", "a:1 refuses the certificate of this client (unknown ca)"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "a:1 refuses the certificate of this client (bad certificate)"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "no version of TLS or no cipher suite in common (protocol version)"),
        ("WRONG_VERSION_NUMBER", "a:1 does not speak TLS"),
    ):
        error = ssl.SSLError(1, f"[SSL: {reason}] {reason.lower()}")
        error.reason = reason
        told = tls_refusal("a:1", "a", error)
        assert isinstance(told, AuthenticationError)
        assert why in str(told)


@pytest.mark.parametrize(
    ("issue", "why"),
    [
        (lambda authority, _: authority.store("old", starts=-2 * DAY, ends=-DAY), "has expired"),
        (lambda authority, _: authority.store("young", starts=DAY), "is not valid yet"),
        (lambda _, directory: foreign(directory, "broker"), "comes from an authority that is not trusted"),
        (lambda authority, _: authority.store("other", hosts=["other"]), "is not for the name 127.0.0.1"),
        (lambda authority, _: authority.store("c", usages=[ExtendedKeyUsageOID.CLIENT_AUTH]), "is not for a server"),
    ],
    ids=["expired", "young", "foreign", "elsewhere", "client"],
)  # fmt: skip
def test_a_certificate_that_is_not_right_is_told_in_words(
    authority: Authority, tmp_path: Path, issue: Callable[[Authority, Path], KeyStore], why: str
) -> None:
    broker = SecuredBroker(tls=server_context(str(issue(authority, tmp_path).pem)))
    said = refusal(broker, tls(authority))
    assert f"the certificate of 127.0.0.1:{broker.port} {why}\n" in said


def test_names_are_not_checked_if_the_user_says_so(authority: Authority, tmp_path: Path) -> None:
    other = authority.store("elsewhere", hosts=["elsewhere"]).pem
    security = tls(authority, ssl_endpoint_identification_algorithm="")
    assert ask(SecuredBroker(tls=server_context(str(other))), security) == "nobody"


def test_a_name_is_checked_as_it_was_given(authority: Authority, tmp_path: Path) -> None:
    by_name = authority.store("named", hosts=["localhost"]).pem
    assert ask(SecuredBroker(tls=server_context(str(by_name))), tls(authority), "localhost") == "nobody"


def test_tls_at_a_plaintext_listener(authority: Authority) -> None:
    said = refusal(SecuredBroker(), tls(authority), UnreachableError)
    assert "a listener without TLS does so: security.protocol must be as the listener's is" in said


def test_plaintext_at_a_tls_listener(server: KeyStore, tmp_path: Path) -> None:
    said = refusal(SecuredBroker(tls=server_context(str(server.pem))), ClientSecurity(), PenstockError)
    assert "security.protocol must be as the listener's is" in said


def test_a_trust_store_that_is_missing_is_named(tmp_path: Path, server: KeyStore) -> None:
    security = client_security({"security.protocol": "SSL", "ssl.truststore.location": str(tmp_path / "none.p12")})
    said = refusal(SecuredBroker(tls=server_context(str(server.pem))), security, ConfigError)
    assert "none.p12" in said


class Session:
    """A broker whose logins hold for a minute, and a connection with a clock that a test can turn."""

    def __init__(self) -> None:
        self.broker = SecuredBroker(users={"alice": SECRET}, lifetime_ms=60_000)

    def run(self, body: Callable[[BrokerConnection], Coroutine[Any, Any, None]]) -> None:
        async def work() -> None:
            async with self.broker:
                connection = BrokerConnection("127.0.0.1", self.broker.port, "test", TIMEOUT_MS, login("SCRAM-SHA-256"))
                await connection.open()
                try:
                    await body(connection)
                finally:
                    connection.close()
                    await asyncio.sleep(0)

        asyncio.run(work())


def test_a_connection_logs_in_again_before_its_login_ends() -> None:
    session = Session()

    async def body(connection: BrokerConnection) -> None:
        now = asyncio.get_running_loop().time()
        assert now + 50 < connection._log_in_at < now + 58
        await connection.send(MetadataRequest())
        assert session.broker.handshakes == 1
        connection._log_in_at = now
        await asyncio.gather(*(connection.send(MetadataRequest()) for _ in range(5)))
        assert session.broker.handshakes == 2
        assert connection._log_in_at > now + 50

    session.run(body)


def test_a_second_login_that_is_refused_ends_the_connection() -> None:
    session = Session()

    async def body(connection: BrokerConnection) -> None:
        connection._log_in_at = 0.0
        session.broker.users = {"alice": "another"}
        with pytest.raises(AuthenticationError, match="refuses the login of alice"):
            await connection.send(MetadataRequest())
        assert connection.closed

    session.run(body)


def test_a_login_is_renewed_at_85_to_95_percent_of_its_time() -> None:
    assert again_after_s(100_000, 0.0) == 85.0
    assert again_after_s(100_000, 1.0) == 95.0
