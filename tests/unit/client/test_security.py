"""Kafka's client properties: what they mean, what is refused and in which words, and that no secret shows."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.client.property_files import client_properties
from penstock.client.security import NAMES, UNSECURED, ClientSecurity, Login, client_security
from penstock.config.kerberos import KerberosLogin
from penstock.config.values import Password
from penstock.errors import ConfigError

SECRET = "s3cret-canary"
SCRAM = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{SECRET}";'
PLAIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{SECRET}";'
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"
SECURED = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": SCRAM,
    "ssl.truststore.location": "/trust.p12",
    "ssl.truststore.password": SECRET,
    "ssl.keystore.key": f"-----BEGIN {SECRET}-----",
}


def test_the_properties_of_a_secured_listener() -> None:
    security = client_security({**SECURED, "bootstrap.servers": "a:1", "acks": "all"})
    assert security.protocol == "SASL_SSL"
    assert security.login == Login("SCRAM-SHA-512", "alice", SECRET)  # type: ignore[arg-type]  # a str
    assert security.settings().ssl_truststore_location == "/trust.p12"
    assert security.settings().ssl_endpoint_identification_algorithm == "https"
    assert (security.unused, security.unknown) == ((), ())
    assert client_security(security.properties) == security


def test_without_properties_there_is_no_security() -> None:
    assert client_security({"client.id": "x"}) == UNSECURED
    assert client_security({"security.protocol": "plaintext"}).context() is None
    assert client_security({"security.protocol": "ssl"}).has_tls


def test_it_travels_and_can_be_a_key() -> None:
    security = client_security(SECURED)
    assert pickle.loads(pickle.dumps(security)) == security
    assert {security: 1}[client_security(SECURED)] == 1


def test_no_secret_is_shown() -> None:
    security = client_security(SECURED)
    shown = f"{security} {security!r} {security.login} {security.settings()!r} {security.texts} {[security.login]}"
    assert SECRET not in shown
    assert "[hidden]" in shown
    assert "alice" in shown
    assert SECRET not in repr(pickle.loads(pickle.dumps(security)))


@pytest.mark.parametrize(
    "text", [SCRAM[:-1], SCRAM.replace(" required", ""), f'X required a="{SECRET}";', f"'{SECRET}"]
)
def test_no_secret_is_in_the_error_for_a_jaas_configuration(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        client_security({**SECURED, "sasl.jaas.config": text}, "kafka.")
    assert "kafka.sasl.jaas.config" in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"security.protocol": "TLS"}, "security.protocol = TLS is not known: it must be one of PLAINTEXT, SSL"),
        ({"sasl.mechanism": None}, "has the login module of SCRAM, and kafka.sasl.mechanism is GSSAPI"),
        (
            {"sasl.mechanism": None, "sasl.jaas.config": None},
            "who logs in by GSSAPI, Kafka's default where kafka.sasl.",
        ),
        (
            {"sasl.mechanism": "GSSAPI", "sasl.jaas.config": KERBEROS},
            "kafka.sasl.kerberos.service.name is missing",
        ),
        ({"sasl.jaas.config": None}, "sasl.jaas.config is missing: it says who logs in by SCRAM-SHA-512"),
        ({"sasl.jaas.config": PLAIN}, "has the login module of PLAIN, and kafka.sasl.mechanism is SCRAM-SHA-512"),
        ({"sasl.jaas.config": SCRAM.replace("username", "user")}, "sasl.jaas.config has no username"),
        ({"sasl.jaas.config": SCRAM.replace("password", "pass")}, "sasl.jaas.config has no password"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols"),
        ({"ssl.truststore.type": "BKS"}, "ssl.truststore.type"),
        ({"ssl.engine.factory.class": "com.example.Engines"}, "ssl.engine.factory.class"),
        ({"sasl.login.class": "com.example.Login"}, "sasl.login.class names a Java class"),
        ({"security.providers": "com.example.P"}, "security.providers names a Java class"),
    ],
)
def test_what_is_not_possible_is_refused_by_name(changes: dict[str, str | None], why: str) -> None:
    given = {name: text for name, text in {**SECURED, **changes}.items() if text is not None}
    with pytest.raises(ConfigError) as refused:
        client_security(given, "kafka.")
    assert "kafka." in str(refused.value)
    assert why in str(refused.value)
    assert SECRET not in str(refused.value)


def test_what_means_nothing_is_told() -> None:
    plain = client_security({**SECURED, "security.protocol": "PLAINTEXT", "ssl.truststore.locatoin": "x"})
    assert plain.unused == tuple(sorted(set(SECURED) - {"security.protocol"}))
    assert plain.unknown == ("ssl.truststore.locatoin",)
    assert plain.login is None
    assert client_security({**SECURED, "security.protocol": "SASL_PLAINTEXT"}).tls == ()
    kerberos = client_security(
        {**SECURED, "sasl.kerberos.service.name": "kafka", "sasl.login.refresh.window.factor": "1"}
    )
    assert (kerberos.unused, kerberos.unknown) == ((), ())


def test_the_names_are_those_of_kafkas_clients() -> None:
    assert {"ssl.keystore.certificate.chain", "ssl.truststore.certificates", "sasl.jaas.config"} <= set(NAMES)
    assert not {"ssl.client.auth", "ssl.principal.mapping.rules", "penstock.tls.handshake.threads"} & set(NAMES)


def test_a_delegation_token_logs_in_by_scram() -> None:
    text = SCRAM.replace("required", 'required tokenauth="true"')
    security = client_security({**SECURED, "sasl.jaas.config": text})
    assert security.login is not None
    assert security.login.is_token


def test_a_file_says_where_it_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\n\nsasl.mechanism=NTLM\n")
    with pytest.raises(ConfigError, match=f"in {file}, line 3"):
        client_properties(str(file))
    with pytest.raises(ConfigError, match="no such file"):
        client_properties(str(tmp_path / "none"))


def test_a_file_takes_secrets_from_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", SECRET)
    file = tmp_path / "client.properties"
    file.write_text(
        "config.providers=env\n"
        "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f"sasl.jaas.config={SCRAM.replace(SECRET, '${env:CANARY}')}\n"
    )
    _, security = client_properties(str(file))
    assert security.login is not None
    assert security.login.password == SECRET
    assert SECRET not in repr(security)


def test_references_stay_text_without_a_file() -> None:
    text = SCRAM.replace(SECRET, "${env:HOME}")
    security = client_security({**SECURED, "sasl.jaas.config": text})
    assert security.login is not None
    assert security.login.password == "${env:HOME}"


def test_equal_securities_are_equal_whatever_was_unused() -> None:
    assert replace(UNSECURED, unused=("ssl.protocol",)) == ClientSecurity()


def test_tickets_are_those_of_a_cache_or_got_with_a_keytab() -> None:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.kerberos.service.name": "kafka", "sasl.jaas.config": KERBEROS}
    cache = client_security(given)
    assert cache.login == Login("GSSAPI", "", Password(""), kerberos=KerberosLogin("", "kafka"))
    assert (cache.unused, cache.unknown) == ((), ())
    assert client_security(cache.properties) == cache
    assert pickle.loads(pickle.dumps(cache)) == cache
    keytab = KERBEROS.replace("useTicketCache=true", 'useKeyTab=true keyTab="/a" principal="a@R"')
    login = client_security({**given, "sasl.jaas.config": keytab}).login
    assert login == Login("GSSAPI", "a@R", Password(""), kerberos=KerberosLogin("a@R", "kafka", keytab="/a"))
